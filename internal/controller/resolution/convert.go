package resolution

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/api/resolution/v1alpha1"
)

// maxReview bounds a conversion review, in bytes. The API server sends all objects of a list in one.
const maxReview = 512 << 20

// Convert answers the API server's conversion reviews (apiextensions.k8s.io/v1) for ResolutionRequest. Either all objects
// of a review are converted or none.
func Convert(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview)) //nolint:forbidigo // bounded here
	if err != nil {
		http.Error(w, "the review cannot be read", http.StatusBadRequest)
		return
	}
	var review apiextensionsv1.ConversionReview
	if err := json.Unmarshal(data, &review); err != nil || review.Request == nil {
		http.Error(w, "the body is no ConversionReview with a request", http.StatusBadRequest)
		return
	}
	answer := apiextensionsv1.ConversionReview{TypeMeta: review.TypeMeta, Response: convertAll(review.Request)}
	w.Header().Set("Content-Type", "application/json")
	// An error here means that the API server has gone; it asks again.
	_ = json.NewEncoder(w).Encode(answer)
}

func convertAll(request *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse {
	out := &apiextensionsv1.ConversionResponse{UID: request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, o := range request.Objects {
		data, err := convertOne(o.Raw, request.DesiredAPIVersion)
		if err != nil {
			out.ConvertedObjects = nil
			out.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Reason: metav1.StatusReasonInvalid}
			return out
		}
		out.ConvertedObjects = append(out.ConvertedObjects, runtime.RawExtension{Raw: data})
	}
	return out
}

func convertOne(data []byte, to string) ([]byte, error) {
	var object map[string]any
	if err := utiljson.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	if err := v1alpha1.ConvertObject(object, to); err != nil {
		metadata, _ := object["metadata"].(map[string]any)
		return nil, fmt.Errorf("%v/%v: %w", metadata["namespace"], metadata["name"], err)
	}
	return json.Marshal(object)
}

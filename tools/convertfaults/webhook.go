package convertfaults

import (
	"encoding/json"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/internal/limit"
)

// Webhook serves a function as a conversion webhook. A panic of the function breaks the connection, as it does in any server of net/http. Calls
// are not to overlap.
// It follows the protocol of apiextensions.k8s.io/v1: the answer has the UID of the request, and either
// all objects or a failure. What is not a review is a bad request.
func Webhook(convert func(obj map[string]any, to string) (map[string]any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := limit.ReadAll(r.Body, 64<<20)
		review := &apiextensionsv1.ConversionReview{}
		if err == nil {
			err = json.Unmarshal(text, review)
		}
		if err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		answer := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, raw := range review.Request.Objects {
			converted, err := convertRaw(convert, raw.Raw, review.Request.DesiredAPIVersion)
			if err != nil {
				answer.ConvertedObjects, answer.Result = nil, metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
				break
			}
			answer.ConvertedObjects = append(answer.ConvertedObjects, runtime.RawExtension{Raw: converted})
		}
		review.Request, review.Response = nil, answer
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // a client that is gone needs no answer
	})
}

// convertRaw converts one object. Integers are read as int64, so that a fault about numbers comes from
// the function and not from this code.
func convertRaw(convert func(map[string]any, string) (map[string]any, error), raw []byte, to string) ([]byte, error) {
	obj := map[string]any{}
	if err := utiljson.Unmarshal(raw, &obj); err != nil {
		return nil, err
	}
	out, err := convert(obj, to)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

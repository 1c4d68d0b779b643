package resolution

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/api/resolution/v1alpha1"
)

// The API server stores requests in one version and asks this webhook for the other one. It sends all objects of a list at once, with
// their content, which may be tens of megabytes. So the review is converted while it is read, and only the answer is held as a whole.

const (
	// maxReview bounds a conversion review, in bytes. The API server sends all objects of a list in one, with their
	// content, and the answer has to be held until it is known to be whole.
	maxReview = 64 << 20
	// smallReview is the size up to which reviews do not wait for others.
	smallReview = 1 << 20
)

// Converter answers the API server's conversion reviews (apiextensions.k8s.io/v1) for ResolutionRequest. Either all objects
// of a review are converted or none. Objects are converted one by one, and large reviews one after the other, so that a
// list of many requests does not take the memory of the process.
type Converter struct {
	large chan struct{}
	// most bounds a review, in bytes.
	most int64
}

// NewConverter returns a converter.
func NewConverter() *Converter { return &Converter{make(chan struct{}, 1), maxReview} }

// ServeHTTP implements [http.Handler].
func (c *Converter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength < 0 || r.ContentLength > smallReview {
		select {
		case c.large <- struct{}{}:
			defer func() { <-c.large }()
		case <-r.Context().Done():
			return
		}
	}
	convertReview(w, r, c.most)
}

// convertReview answers one review. What is no review, or too large, gets a code from 400 on, which the API server reports to its
// client.
func convertReview(w http.ResponseWriter, r *http.Request, most int64) {
	review := reading{out: &bytes.Buffer{}}
	if r.ContentLength > most {
		http.Error(w, fmt.Sprintf(tooManyObjects, most), http.StatusRequestEntityTooLarge)
		return
	}
	if err := review.readReview(http.MaxBytesReader(w, r.Body, most)); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			http.Error(w, fmt.Sprintf(tooManyObjects, most), http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(w, "the body is no ConversionReview with a request", http.StatusBadRequest)
		return
	}
	head, tail, err := review.answerFrame()
	if err != nil {
		http.Error(w, "the review cannot be answered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	for _, part := range [][]byte{head, review.out.Bytes(), tail} {
		// An error means that the API server has gone; it asks again.
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

const tooManyObjects = "the objects have more than %d bytes: read fewer at once, or v1beta1"

// reading is a review that is read and converted at the same time.
type reading struct {
	metav1.TypeMeta

	uid     types.UID
	version string
	// asked: there was a request.
	asked bool
	// out are the converted objects, separated by commas; failure is why there are none.
	out     *bytes.Buffer
	failure error
}

// readReview reads the review. Its error says that the body is not a review.
func (v *reading) readReview(body io.Reader) error {
	dec := json.NewDecoder(body)
	var waiting []json.RawMessage
	_, err := eachMember(dec, func(key string) error {
		switch key {
		case "kind":
			return dec.Decode(&v.Kind)
		case "apiVersion":
			return dec.Decode(&v.APIVersion)
		case "request":
			var err error
			v.asked, err = eachMember(dec, func(key string) error {
				switch key {
				case "uid":
					return dec.Decode(&v.uid)
				case "desiredAPIVersion":
					return dec.Decode(&v.version)
				case "objects":
					_, err := eachWithin(dec, '[', func() error {
						var object json.RawMessage
						if err := dec.Decode(&object); err != nil {
							return err
						}
						if v.version == "" {
							waiting = append(waiting, object) // the API server names the version first
						} else {
							v.convertObject(object)
						}
						return nil
					})
					return err
				}
				return dec.Decode(&json.RawMessage{})
			})
			return err
		}
		return dec.Decode(&json.RawMessage{})
	})
	if err == nil && !v.asked {
		err = errors.New("no request")
	}
	for _, object := range waiting {
		v.convertObject(object)
	}
	return err
}

// eachMember calls f for each member of the object that comes next; f reads its value. A null has no members, and is not there.
func eachMember(dec *json.Decoder, f func(name string) error) (there bool, err error) {
	return eachWithin(dec, '{', func() error {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // the decoder takes nothing else for the name of a member
		return f(name)
	})
}

// eachWithin calls f where each element begins of the array or object that comes next, which open opens; f reads it. A null has none,
// and is not there.
func eachWithin(dec *json.Decoder, open json.Delim, f func() error) (there bool, err error) {
	token, err := dec.Token()
	if err != nil || token == nil {
		return false, err
	}
	if token != open {
		return false, fmt.Errorf("no %s", map[json.Delim]string{'{': "object", '[': "array"}[open])
	}
	for dec.More() {
		if err := f(); err != nil {
			return false, err
		}
	}
	_, err = dec.Token()
	return err == nil, err
}

// convertObject converts one object and appends it to the answer. After the first failure nothing is converted any more, and what is
// there is dropped: the API server takes all objects or none.
func (v *reading) convertObject(object json.RawMessage) {
	if v.failure != nil {
		return
	}
	data, err := convertOne(object, v.version)
	if err != nil {
		v.failure = err
		v.out.Reset()
		return
	}
	if v.out.Len() > 0 {
		v.out.WriteByte(',')
	}
	v.out.Write(data)
}

// answerFrame is the part of the answer around the converted objects.
func (v *reading) answerFrame() (head, tail []byte, err error) {
	out := apiextensionsv1.ConversionReview{TypeMeta: v.TypeMeta, Response: &apiextensionsv1.ConversionResponse{
		UID: v.uid, Result: metav1.Status{Status: metav1.StatusSuccess},
	}}
	if v.failure != nil {
		out.Response.Result = metav1.Status{Status: metav1.StatusFailure, Message: v.failure.Error(), Reason: metav1.StatusReasonInvalid}
	}
	text, err := json.Marshal(out)
	if err != nil || v.failure != nil {
		return text, nil, err
	}
	const none = `"convertedObjects":null`
	before, after, ok := bytes.Cut(text, []byte(none))
	if !ok {
		return nil, nil, errors.New("the form of the answer has changed")
	}
	return append(before, `"convertedObjects":[`...), append([]byte(`]`), after...), nil
}

// convertOne returns an object in another version. Its integers stay integers, also those over 2^53, which float64 would round.
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

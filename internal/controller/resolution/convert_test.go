package resolution

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func review(t *testing.T, body string) (int, *apiextensionsv1.ConversionResponse) {
	t.Helper()
	w := httptest.NewRecorder()
	Convert(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/convert", strings.NewReader(body)))
	if w.Code != http.StatusOK {
		return w.Code, nil
	}
	var out apiextensionsv1.ConversionReview
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	return w.Code, out.Response
}

func TestAReviewIsConvertedWholeOrNotAtAll(t *testing.T) {
	good := `{"apiVersion":"resolution.tekton.dev/v1beta1","kind":"ResolutionRequest","metadata":{"name":"n"},"spec":{"params":[{"name":"a","value":"b"}]},"x":{"kept":1.5}}`
	body := func(objects string) string {
		return `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u","desiredAPIVersion":"resolution.tekton.dev/v1alpha1","objects":[` + objects + `]}}`
	}
	code, got := review(t, body(good))
	want := `{"apiVersion":"resolution.tekton.dev/v1alpha1","kind":"ResolutionRequest","metadata":{"name":"n"},"spec":{"params":{"a":"b"}},"x":{"kept":1.5}}`
	if code != http.StatusOK || got.UID != "u" || got.Result.Status != "Success" || len(got.ConvertedObjects) != 1 || string(got.ConvertedObjects[0].Raw) != want {
		t.Errorf("%d %+v", code, got)
	}
	_, got = review(t, body(good+`,{"apiVersion":"resolution.tekton.dev/v1beta1","metadata":{"namespace":"ns","name":"bad"},"spec":[]}`))
	if got.Result.Status != "Failure" || !strings.Contains(got.Result.Message, "ns/bad") || got.ConvertedObjects != nil {
		t.Errorf("%+v", got)
	}
}

func TestBodiesThatAreNoReviewAreRefused(t *testing.T) {
	for _, body := range []string{"", "{", "[]", "{}", `{"request":null}`, `{"request":{"objects":["x"`} {
		if code, _ := review(t, body); code != http.StatusBadRequest {
			t.Errorf("%q: %d", body, code)
		}
	}
}

package resolution

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func review(t *testing.T, body string) (int, *apiextensionsv1.ConversionResponse) {
	t.Helper()
	w := httptest.NewRecorder()
	NewConverter().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/convert", strings.NewReader(body)))
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

// The order of members is not part of JSON.
func TestAReviewMayNameTheVersionLast(t *testing.T) {
	code, got := review(t, `{"request":{"x":{"y":[1]},"objects":[{"apiVersion":"resolution.tekton.dev/v1alpha1"},{"apiVersion":"resolution.tekton.dev/v1beta1"}],"desiredAPIVersion":"resolution.tekton.dev/v1beta1","uid":"\"convertedObjects\":null"},"z":1,"kind":"K"}`)
	if code != http.StatusOK || got.UID != `"convertedObjects":null` || len(got.ConvertedObjects) != 2 || got.Result.Status != "Success" {
		t.Errorf("%d %+v", code, got)
	}
	code, got = review(t, `{"request":{"objects":null}}`)
	if code != http.StatusOK || len(got.ConvertedObjects) != 0 || got.Result.Status != "Success" {
		t.Errorf("%d %+v", code, got)
	}
}

// hugeReview is a list of requests that does not end before n bytes.
func hugeReview(n int) io.Reader {
	object := `{"apiVersion":"resolution.tekton.dev/v1beta1","status":{"data":"` + strings.Repeat("A", 1<<20) + `"}}`
	readers := []io.Reader{strings.NewReader(`{"request":{"uid":"u","desiredAPIVersion":"resolution.tekton.dev/v1alpha1","objects":[` + object)}
	for range n >> 20 {
		readers = append(readers, strings.NewReader(","+object))
	}
	return io.MultiReader(append(readers, strings.NewReader(`]}}`))...)
}

// A list of many requests must not take all the memory that the process has.
func TestReviewsAreBounded(t *testing.T) {
	for size, want := range map[int]int{2 << 20: http.StatusOK, 6<<20 + 1: http.StatusRequestEntityTooLarge} {
		for _, announced := range []bool{false, true} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/convert", hugeReview(size))
			if r.ContentLength = -1; announced {
				r.ContentLength = int64(size)
			}
			w := httptest.NewRecorder()
			c := NewConverter()
			c.most = 6 << 20
			c.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%d bytes, announced %v: %d", size, announced, w.Code)
			}
		}
	}
	// A large one waits for the one before; one that is small does not.
	c := NewConverter()
	c.large <- struct{}{}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/convert", strings.NewReader(`{"request":{}}`)))
	if w.Code != http.StatusOK {
		t.Errorf("a small one: %d", w.Code)
	}
	done := make(chan struct{})
	w = httptest.NewRecorder()
	go func() {
		defer close(done)
		c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/convert", hugeReview(2<<20)))
	}()
	<-c.large
	<-done
	if w.Code != http.StatusOK || w.Body.Len() < 2<<20 {
		t.Errorf("a large one: %d, %d bytes", w.Code, w.Body.Len())
	}
}

func TestBodiesThatAreNoReviewAreRefused(t *testing.T) {
	for _, body := range []string{"", "{", "[]", "{}", `{"request":null}`, `{"request":{"objects":["x"`, `{"request":[]}`, `{"request":{"objects":{}}}`, `{"request":{"uid":1}}`} {
		if code, _ := review(t, body); code != http.StatusBadRequest {
			t.Errorf("%q: %d", body, code)
		}
	}
}

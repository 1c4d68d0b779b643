package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"sluice.dev/internal/admission"
)

func reviewOf(t testing.TB, r *admissionv1.AdmissionRequest) []byte {
	t.Helper()
	return raw(t, admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: r}).Raw
}

func (w *world) post(t testing.TB, ctx context.Context, query string, body io.Reader) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	w.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodPost, Path+query, body))
	return recorder
}

func TestAReviewIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.stores(0)
	r := updateOf(t, live(t, "v1.yaml"), live(t, "v2-unsafe.yaml"))
	r.UID = uuid.NewUUID()
	recorder := w.post(t, t.Context(), "?timeout=10s", bytes.NewReader(reviewOf(t, r)))
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%d %s", recorder.Code, recorder.Body)
	}
	if answer.Kind != "AdmissionReview" || answer.APIVersion != "admission.k8s.io/v1" || answer.Response.UID != r.UID || answer.Response.Allowed ||
		answer.Response.Result.Code != http.StatusForbidden {
		t.Errorf("%s", recorder.Body)
	}
}

func TestWhatIsNoReviewIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		code int
	}{
		"nothing":              {"", http.StatusBadRequest},
		"no JSON":              {"\x00\xff", http.StatusBadRequest},
		"half of it":           {`{"kind":"AdmissionReview"`, http.StatusBadRequest},
		"null":                 {"null", http.StatusBadRequest},
		"a list":               {"[]", http.StatusBadRequest},
		"no request":           {`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, http.StatusBadRequest},
		"another version":      {`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{}}`, http.StatusBadRequest},
		"another kind":         {`{"kind":"Pod","apiVersion":"admission.k8s.io/v1","request":{}}`, http.StatusBadRequest},
		"types that are wrong": {`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":1}}`, http.StatusBadRequest},
		"nested without end":   {strings.Repeat(`{"request":`, 100_000), http.StatusBadRequest},
		"too much":             {strings.Repeat(" ", admission.MaxReview+1), http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if recorder := w.post(t, t.Context(), "", strings.NewReader(test.body)); recorder.Code != test.code {
				t.Errorf("%d %s", recorder.Code, recorder.Body)
			}
		})
	}
}

func TestAChangeThatFindsNoRoomIsToBeTriedAgain(t *testing.T) {
	for _, test := range []struct {
		config  string
		allowed bool
	}{{"failMode: closed", false}, {"failMode: open", true}} {
		w := newWorld(t)
		w.stores(0)
		w.mayBypass = true
		w.configure(t, test.config)
		w.Slots <- struct{}{}
		next := live(t, "v2-unsafe.yaml")
		next.Annotations = map[string]string{annotation: "x: y"}
		recorder := w.post(t, t.Context(), "?timeout=100ms", bytes.NewReader(reviewOf(t, updateOf(t, live(t, "v1.yaml"), next))))
		var answer admissionv1.AdmissionReview
		if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%d %s", recorder.Code, recorder.Body)
		}
		if _, text := said(answer.Response); answer.Response.Allowed != test.allowed || !strings.Contains(text, "busy") {
			t.Errorf("%s: allowed: %v, saying %s", test.config, answer.Response.Allowed, text)
		}
		if !test.allowed {
			wantRetry(t, answer.Response)
		}
		if len(w.events) > 0 {
			t.Errorf("nothing was refused, and there is an event: %s", <-w.events)
		}
		if len(w.Slots) != 1 {
			t.Error("it gives back what it did not have")
		}
	}
}

// wantRetry wants the answer by which the API server tells its client to try again.
func wantRetry(t *testing.T, answer *admissionv1.AdmissionResponse) {
	t.Helper()
	if r := answer.Result; r == nil || r.Code != http.StatusTooManyRequests || r.Reason != metav1.StatusReasonTooManyRequests || r.Details.RetryAfterSeconds < 1 {
		t.Errorf("the client does not learn that it is to try again: %+v", r)
	}
	if outcome := answer.AuditAnnotations[auditOutcome]; outcome != outcomeBusy {
		t.Errorf("outcome %q", outcome)
	}
}

func TestAComparisonThatTakesTooLongIsToBeTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.stores(0)
	big := func(longest int64) *apiextensionsv1.CustomResourceDefinition {
		crd := live(t, "v1.yaml")
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		for i := range 300 {
			spec.Properties[fmt.Sprintf("part%d", i)] = apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: &longest}
		}
		return crd
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	wantRetry(t, w.Review(ctx, updateOf(t, big(200), big(100))))
	w.waitForSlots(t)
}

func TestAComparisonWithoutEndIsLeftAloneAndAPanicIsAnError(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	blocked := make(chan struct{})
	defer close(blocked)
	if _, err := callWithin(ctx, w.Guard, func() (int, error) { <-blocked; return 1, nil }); err != errSlow { //nolint:errorlint // the value itself
		t.Error(err)
	}
	if _, err := callWithin(t.Context(), w.Guard, func() (int, error) { return []int{}[len(blocked)], nil }); err == nil {
		t.Error("a panic is no error")
	}
	if n, err := callWithin(t.Context(), w.Guard, func() (int, error) { return 1, nil }); n != 1 || err != nil {
		t.Error(n, err)
	}
}

func FuzzReview(f *testing.F) {
	w := newWorld(f)
	w.stores(1)
	f.Add(reviewOf(f, updateOf(f, live(f, "v1.yaml"), live(f, "v2-unsafe.yaml"))))
	f.Add(reviewOf(f, updateOf(f, live(f, "v1.yaml"), live(f, "v3-safe.yaml"))))
	f.Add(reviewOf(f, deletionOf(f, live(f, "v1.yaml"))))
	deep := updateOf(f, live(f, "v1.yaml"), nil)
	deep.Object.Raw = deepCRD(40)
	f.Add(reviewOf(f, deep))
	f.Fuzz(func(t *testing.T, body []byte) {
		recorder := w.post(t, t.Context(), "?timeout=5s", bytes.NewReader(body))
		var answer admissionv1.AdmissionReview
		switch {
		case recorder.Code != http.StatusOK:
		case json.Unmarshal(recorder.Body.Bytes(), &answer) != nil || answer.Response == nil:
			t.Errorf("%s", recorder.Body)
		case !answer.Response.Allowed && len(answer.Response.Result.Message) > maxMessage:
			t.Errorf("%d bytes", len(answer.Response.Result.Message))
		}
	})
}

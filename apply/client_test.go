package apply

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
)

// busyServer refuses a number of requests, as a kube-apiserver does whose priority level is full, or a proxy before it.
func busyServer(t *testing.T, refusals int64, code int, retryAfter string) (*Applier, *atomic.Int64) {
	t.Helper()
	var requests atomic.Int64
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) <= refusals {
			if retryAfter != "" {
				w.Header().Set("Retry-After", retryAfter)
			}
			http.Error(w, "busy", code)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"ConfigMap","apiVersion":"v1"}`))
	}))
	t.Cleanup(h.Close)
	a, err := New(&rest.Config{Host: h.URL}, Options{Namespace: "default", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return a, &requests
}

func TestARequestThatABusyServerPutsOffIsMadeAgain(t *testing.T) {
	for name, test := range map[string]struct {
		refusals   int64
		code       int
		retryAfter string
	}{
		"more often than a connection may break": {maxTries + 1, http.StatusTooManyRequests, ""},
		"when the server says":                   {1, http.StatusTooManyRequests, "1"},
		"by a proxy":                             {2, http.StatusServiceUnavailable, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, requests := busyServer(t, test.refusals, test.code, test.retryAfter)
			begun := time.Now()
			if _, err := a.client.fetchObject(t.Context(), "/api/v1/namespaces/default/configmaps/x"); err != nil {
				t.Fatal(err)
			}
			if got := requests.Load(); got != test.refusals+1 {
				t.Errorf("%d requests, want %d", got, test.refusals+1)
			}
			if test.retryAfter != "" && time.Since(begun) < time.Second {
				t.Error("it came again earlier than the server asked")
			}
		})
	}
}

func TestARequestEndsWithItsContextHoweverBusyTheServerIs(t *testing.T) {
	a, _ := busyServer(t, 1<<30, http.StatusTooManyRequests, "3600")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := a.client.fetchObject(ctx, "/api/v1/namespaces/default/configmaps/x"); err == nil {
		t.Error("there is an answer")
	}
}

// The server writes whole templates of Pods into the error about a Job whose template has changed.
func TestLongValuesInRefusalsAreShortened(t *testing.T) {
	long := strings.Repeat("\"é\": 1, ", 1000)
	err := shortenValues(apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "j", field.ErrorList{
		field.Invalid(field.NewPath("spec", "parallelism"), -1, "must not be negative"),
		field.Invalid(field.NewPath("spec", "name"), long, "is too long"),
		field.Invalid(field.NewPath("spec", "template"), map[string]string{"x": long}, "field is immutable"),
		field.Forbidden(field.NewPath("spec"), "pod updates may not change fields\n- \"Value\": \"hunter2\",\n"),
	}))
	text := err.Error()
	for _, want := range []string{`Job.batch "j" is invalid`, "spec.parallelism: Invalid value: -1: must not be negative", "spec.name: Invalid value: \"", ": is too long", "spec.template: Invalid value: {…}: field is immutable"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if strings.Contains(text, "hunter2") || len(text) > 850 || !utf8.ValidString(text) {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	for _, other := range []error{nil, errors.New("x"), apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New(long))} {
		if got := shortenValues(other); !errors.Is(got, other) {
			t.Errorf("%v became %v", other, got)
		}
	}
}

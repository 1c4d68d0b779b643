package resolution

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/resolve"
)

func TestTheTimeoutOfTheOperatorIsALimit(t *testing.T) {
	var limit Timeout
	for _, test := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"30s", 30 * time.Second, true},
		{"bad", 30 * time.Second, false},
		{"-1s", 30 * time.Second, false},
		{"100h", 30 * time.Second, false},
		{"", time.Minute, true},
	} {
		err := limit.Configure(map[string]string{TimeoutKey: test.text})
		if (err == nil) != test.ok || limit.Get() != test.want {
			t.Errorf("%q: %v, limit %s", test.text, err, limit.Get())
		}
	}
	for annotation, want := range map[string]time.Duration{"": time.Minute, "10s": 10 * time.Second, "5m": time.Minute, "x": time.Minute, "-3s": time.Minute} {
		r := &v1beta1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{
			CreationTimestamp: metav1.Unix(1000, 0), Annotations: map[string]string{resolution.AnnotationTimeout: annotation},
		}}
		if got := deadlineOf(r, time.Minute).Sub(time.Unix(1000, 0)); got != want {
			t.Errorf("annotation %q: %s, want %s", annotation, got, want)
		}
	}
}

// configMaps is an API server that has one ConfigMap, and refuses to show it at first.
type configMaps struct {
	mu      sync.Mutex
	allowed bool
	refused int
}

func (s *configMaps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	allowed := s.allowed
	if !allowed {
		s.refused++
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !allowed:
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	case r.URL.Query().Get("sendInitialEvents") != "":
		// As an older one, that has no such lists.
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case r.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		_, _ = io.WriteString(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"c","namespace":"ns","resourceVersion":"1"},"data":{"policy":"strict"}}]}`)
	}
}

func (s *configMaps) refusals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// What an operator forbids in a ConfigMap must not be allowed because the API server did not show it yet.
func TestAConfigMapThatCannotBeReadYetIsAwaited(t *testing.T) {
	for _, optional := range []bool{false, true} {
		t.Run(fmt.Sprintf("optional=%v", optional), func(t *testing.T) {
			server := &configMaps{}
			address := httptest.NewServer(server)
			defer address.Close()
			ctx, cancel := context.WithCancel(t.Context())
			var ended sync.WaitGroup
			defer ended.Wait()
			defer cancel()
			ready, applied, release := make(chan struct{}), make(chan map[string]string, 10), make(chan struct{})
			w := &ConfigWatch{
				Kube: kubernetes.NewForConfigOrDie(&rest.Config{Host: address.URL}), Namespace: "ns", Name: "c", Optional: optional,
				Apply: func(data map[string]string) error {
					applied <- data
					<-release
					return nil
				},
				Recorder: &record.FakeRecorder{}, Log: slog.New(slog.DiscardHandler),
			}
			ended.Go(func() { w.Run(ctx, sync.OnceFunc(func() { close(ready) })) })
			within := time.After(time.Minute)
			for server.refusals() < 2 {
				select {
				case <-within:
					t.Fatal("it is not asked for")
				case <-time.After(time.Millisecond):
				}
			}
			if optional {
				<-ready
				return
			}
			select {
			case <-ready:
				t.Error("it is ready without its configuration")
			case data := <-applied:
				t.Errorf("%v is applied", data)
			default:
			}
			server.mu.Lock()
			server.allowed = true
			server.mu.Unlock()
			if got := <-applied; got["policy"] != "strict" {
				t.Errorf("%v is applied", got)
			}
			select {
			case <-ready:
				t.Error("it is ready before its configuration is in force")
			default:
			}
			close(release)
			select {
			case <-ready:
			case <-within:
				t.Fatal("it does not become ready")
			}
		})
	}
}

// A Secret that a configuration refers to may come later, and an API server that was away comes back.
func TestARefusedConfigurationIsTriedAgain(t *testing.T) {
	at := clocktesting.NewFakeClock(time.Unix(0, 0))
	var good atomic.Bool
	tried := make(chan string, 10)
	events := record.NewFakeRecorder(10)
	w := &ConfigWatch{
		Namespace: "ns", Name: "c", Recorder: events, Log: slog.New(slog.DiscardHandler), Clock: at,
		Apply: func(data map[string]string) error {
			tried <- data["k"]
			if good.Load() {
				return nil
			}
			return errors.New("no Secret")
		},
	}
	next := func(want string) {
		t.Helper()
		within := time.After(time.Minute)
		for !at.HasWaiters() {
			select {
			case <-within:
				t.Fatal("nothing waits")
			case <-time.After(time.Millisecond):
			}
		}
		at.Step(applyAgain)
		if got := <-tried; got != want {
			t.Errorf("%q is tried, want %q", got, want)
		}
	}
	w.passOn(t.Context(), map[string]string{"k": "one"})
	if got := <-tried; got != "one" {
		t.Errorf("%q is tried", got)
	}
	next("one")
	next("one")
	good.Store(true)
	next("one")
	// What has been replaced is not tried again.
	good.Store(false)
	w.passOn(t.Context(), map[string]string{"k": "two"})
	good.Store(true)
	w.passOn(t.Context(), map[string]string{"k": "three"})
	if two, three := <-tried, <-tried; two != "two" || three != "three" {
		t.Errorf("%q, %q are tried", two, three)
	}
	at.Step(applyAgain)
	select {
	case got := <-tried:
		t.Errorf("%q is tried", got)
	default:
	}
	if n := len(events.Events); n != 2 {
		t.Errorf("%d events for two mistakes", n)
	}
}

func TestMessagesAreOneBoundedLine(t *testing.T) {
	s := failedStatus(&resolve.Error{Reason: resolve.ReasonNotFound, Msg: "a\r\n\tb\x00\xff %d" + strings.Repeat("x", 1<<20)}, time.Unix(0, 0))
	got := s.Conditions[0].Message
	if !strings.HasPrefix(got, "NotFound: a; b %dxxx") || len(got) > maxMessage+100 {
		t.Errorf("%d bytes: %.60q", len(got), got)
	}
}

func TestAnnotationsAreBounded(t *testing.T) {
	res := &resolve.Resource{Annotations: map[string]string{"a": strings.Repeat("x", maxAnnotations)}}
	if e := checkAnnotations(res); e == nil || e.Reason != resolve.ReasonTooLarge {
		t.Errorf("%v", e)
	}
}

func TestALateRequestIsToldWhy(t *testing.T) {
	now := time.Unix(2000, 0)
	a := &Adapter{Server: NewServerClock(clocktesting.NewFakeClock(now)), Timeout: &Timeout{}}
	r := &v1beta1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{
		CreationTimestamp: metav1.NewTime(now.Add(-90 * time.Second)), Labels: map[string]string{resolution.LabelType: "git"},
	}}
	for want, began := range map[string]time.Time{"has begun to work 1m10s after": now.Add(-20 * time.Second), "came to it 1m30s after": now.Add(-time.Hour)} {
		a.began = began
		_, _, _, err := a.resolveRequest(t.Context(), r, "git", time.Minute)
		if failure, ok := errors.AsType[*resolve.Error](err); !ok || failure.Reason != resolve.ReasonTimedOut || !strings.Contains(failure.Msg, want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

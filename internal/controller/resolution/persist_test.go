package resolution

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
)

// impatientClock does not wait. It adds up what it should have waited, and keeps the longest wait.
type impatientClock struct {
	*clocktesting.FakeClock
	longest atomic.Int64
}

func (c *impatientClock) After(d time.Duration) <-chan time.Time {
	if int64(d) > c.longest.Load() {
		c.longest.Store(int64(d))
	}
	c.Step(d)
	out := make(chan time.Time, 1)
	out <- c.Now()
	return out
}

// After an outage, however long it was, a watch begins within seconds. Other calls learn of the outage at once.
func TestAWatchBeginsSoonAfterAnOutage(t *testing.T) {
	var watches, lists atomic.Int64
	down := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			lists.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		switch n := watches.Add(1); {
		case n <= 10:
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
			}
		case n <= 40:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	server := httptest.NewServer(down)
	defer server.Close()
	clock := &impatientClock{FakeClock: clocktesting.NewFakeClock(time.Now())}
	client := &http.Client{Transport: Persist(clock, slog.New(slog.DiscardHandler))(http.DefaultTransport)}
	get := func(ctx context.Context, query string) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/configmaps"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	if code, err := get(t.Context(), "?watch=true"); code != http.StatusOK || err != nil || watches.Load() != 41 {
		t.Errorf("%d, %v after %d attempts", code, err, watches.Load())
	}
	if longest := time.Duration(clock.longest.Load()); longest > lastWatchWait || longest < lastWatchWait/2 {
		t.Errorf("the longest pause is %s", longest)
	}
	if code, err := get(t.Context(), ""); code != http.StatusServiceUnavailable || err != nil || lists.Load() != 1 {
		t.Errorf("a list: %d, %v after %d attempts", code, err, lists.Load())
	}
	watches.Store(-1 << 40)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := get(ctx, "?watch=1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the end of the context: %v", err)
	}
}

// The configuration is read within seconds after an API server that was down for long.
func TestConfigurationIsReadSoonAfterAnOutage(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	clock := &impatientClock{FakeClock: clocktesting.NewFakeClock(time.Now())}
	up := make(chan struct{})
	attempts := 0
	cfg := &rest.Config{Host: "http://" + address}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return dialing(func(r *http.Request) (*http.Response, error) {
			if attempts++; attempts == 30 {
				close(up)
			}
			select {
			case <-up:
				return answerOf(r), nil
			default:
				return next.RoundTrip(r)
			}
		})
	})
	cfg.Wrap(Persist(clock, slog.New(slog.DiscardHandler)))
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read := make(chan struct{})
	c := &ConfigWatch{
		Kube: kube, Namespace: "n", Name: "c", Log: slog.New(slog.DiscardHandler), Recorder: record.NewFakeRecorder(10), Clock: clock,
		Apply: func(map[string]string) error { return nil },
	}
	go c.Run(ctx, func() { close(read) })
	select {
	case <-read:
	case <-time.After(20 * time.Second):
		t.Error("the configuration is not read")
	}
}

type dialing func(*http.Request) (*http.Response, error)

func (f dialing) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answerOf is the answer of an API server without ConfigMaps, to a watch that begins with a list.
func answerOf(r *http.Request) *http.Response {
	body, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
		<-r.Context().Done()
		_ = w.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}
}

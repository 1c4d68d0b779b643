package resolution

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
)

// refusing is an API server that refuses for a while.
type refusing struct {
	mu sync.Mutex
	// unready is how often it says yet that it is not ready; until then it refuses all. never: it refuses for good.
	unready int
	never   bool
	got     []string
}

func (s *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	s.got = append(s.got, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")+" "+string(body)))
	switch {
	case r.URL.Path == "/readyz" && s.unready > 0:
		s.unready--
		// As one without its roles does.
		w.WriteHeader(http.StatusForbidden)
	case r.URL.Path == "/readyz":
	case s.never || s.unready > 0:
		w.WriteHeader(http.StatusForbidden)
	}
}

func TestARefusalByAnAPIServerThatIsNotReadyIsNotBelieved(t *testing.T) {
	const reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
	for name, test := range map[string]struct {
		method, path, body string
		server             *refusing
		status             int
		want               []string
	}{
		"allowed": {"GET", "/api/v1/x", "", &refusing{}, 200, []string{"GET /api/v1/x me"}},
		"not ready": {"GET", "/api/v1/x", "", &refusing{unready: 2}, 200, []string{
			"GET /api/v1/x me", "GET /readyz me", "GET /readyz me", "GET /readyz me", "GET /api/v1/x me",
		}},
		"refused for good": {"GET", "/api/v1/x", "", &refusing{never: true}, 403, []string{"GET /api/v1/x me", "GET /readyz me", "GET /api/v1/x me"}},
		"a review":         {"POST", reviews, "body", &refusing{unready: 1}, 200, []string{"POST " + reviews + " me body", "GET /readyz me", "GET /readyz me", "POST " + reviews + " me body"}},
		// It might have been carried out.
		"a write": {"POST", "/api/v1/x", "body", &refusing{unready: 1}, 403, []string{"POST /api/v1/x me body"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.server)
			defer server.Close()
			client := http.Client{Transport: Disbelieve(clock.RealClock{})(http.DefaultTransport)}
			r, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+test.path, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "me")
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close() //nolint:errcheck // a test
			if answer.StatusCode != test.status {
				t.Errorf("status %d, want %d", answer.StatusCode, test.status)
			}
			if diff := cmp.Diff(test.want, test.server.got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheWaitForAnAPIServerEndsWithTheCall(t *testing.T) {
	refuses := refusing{unready: 1 << 30}
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			cancel()
		}
		refuses.ServeHTTP(w, r)
	}))
	defer server.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := Disbelieve(clock.RealClock{})(http.DefaultTransport).RoundTrip(r)
	if err == nil {
		// The first refusal, which is all that there is to tell.
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("status %d", answer.StatusCode)
		}
		_ = answer.Body.Close()
	}
}

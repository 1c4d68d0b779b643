//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution"
)

// A request that nobody will ever answer ends soon and says who would; one that has to wait says what it waits for, and
// the truth when its time is up.
func TestE2ERequestsThatNobodyAnswersSayWhy(t *testing.T) {
	s := standsAlone(t)
	s.configure(t, "http-resolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "allow-plain-http": "true", "fetch-timeout": "10m"})
	s.configure(t, "config-defaults", map[string]string{"default-maximum-resolution-timeout": "10m"})
	started := s.startAll(t, "resolution", "resolver-git", "resolver-http")
	ns := s.namespace(t)
	eventually(t, "the schema of git", func(ctx context.Context) error {
		_, err := s.kube.CoreV1().ConfigMaps(systemNamespace).Get(ctx, "resolver-schema-git", metav1.GetOptions{})
		return err
	})
	t.Run("a name that nobody has", func(t *testing.T) {
		message := wantFailure(t, s.resolve(t, ns, newRequest("typo", "gitt", "url", "https://git.example.com/r", "pathInRepo", "x")), "UnknownResolver", `did you mean "git"?`)
		for _, there := range []string{"git", "http"} {
			if !strings.Contains(message, there) {
				t.Errorf("%s is not named: %s", there, message)
			}
		}
	})
	t.Run("a resolver that does not run now", func(t *testing.T) {
		// It runs, but the remote gives a byte at a time: the request is at work when the resolver ends.
		slow := httptest.NewServer(http.HandlerFunc(drip))
		t.Cleanup(slow.Close)
		requests := s.client.ResolutionV1beta1().ResolutionRequests(ns)
		address := slow.URL + "/task.yaml"
		made, err := requests.Create(t.Context(), newRequest("stopped", "http", "url", address), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var since metav1.Time
		says := func(text string) {
			t.Helper()
			eventually(t, "the mark that "+text, func(ctx context.Context) error {
				got, err := requests.Get(ctx, made.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				c := got.Status.Succeeded()
				if c == nil || c.Status != metav1.ConditionUnknown || !strings.Contains(c.Message, text) {
					return fmt.Errorf("%+v", c)
				}
				if since.IsZero() {
					since = c.LastTransitionTime
				} else if !since.Equal(&c.LastTransitionTime) {
					t.Errorf("the status is the same, but the transition moved from %s to %s", since, c.LastTransitionTime)
				}
				return nil
			})
		}
		says(`the resolver "http" runs and has not ended this request`)
		started["resolver-http"].Kill()
		says(`no process runs the resolver "http" now`)
		// The lifecycle controller knows it by now.
		r := newRequest("late", "http", "url", address)
		r.Annotations = map[string]string{resolution.AnnotationTimeout: "3s"}
		wantFailure(t, s.resolve(t, ns, r), "ResolutionTimedOut", `no process runs the resolver "http" now`)
		s.start(t, "resolver-http")
		says(`the resolver "http" runs and has not ended this request`)
	})
}

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
)

// A request that nobody will ever answer ends soon and says who would; one that has to wait says what it waits for, and
// the truth when its time is up.
func TestE2ERequestsThatNobodyAnswersSayWhy(t *testing.T) {
	s := standsAlone(t)
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
		started["resolver-http"].stop(t)
		r := newRequest("stopped", "http", "url", "https://files.example.com/task.yaml")
		r.Annotations = map[string]string{resolution.AnnotationTimeout: "15s"}
		requests := s.client.ResolutionV1beta1().ResolutionRequests(ns)
		made, err := requests.Create(t.Context(), r, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var c *v1beta1.Condition
		eventually(t, "the mark that it waits", func(ctx context.Context) error {
			got, err := requests.Get(ctx, made.Name, metav1.GetOptions{})
			if err == nil {
				if c = got.Status.Succeeded(); c == nil {
					err = errors.New("no condition")
				}
			}
			return err
		})
		if c.Status != metav1.ConditionUnknown || !strings.Contains(c.Message, `no process runs the resolver "http" now`) {
			t.Errorf("it waits with %+v", c)
		}
		wantFailure(t, s.end(t, made), "ResolutionTimedOut", `no process runs the resolver "http" now`)
	})
}

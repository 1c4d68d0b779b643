//go:build e2e

package resolution

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
	"sluice.dev/resolve"
)

// Where large content is says the same in both versions, and is as frozen as the content itself.
func TestE2EWhereLargeContentIsCannotBeChanged(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	kept := &memory{}
	start(t, in.account(t, "sluice-system", "sluice-resolver-git"), Role("git"), false,
		func(ctx context.Context, c *versioned.Clientset, k *kubernetes.Clientset, m *Members, ready func()) error {
			a := &Adapter{
				Client: c, Kube: k, Members: m, Namespace: "sluice-system", Account: "sluice-resolver-git", MaxData: 100, Compress: true, Store: kept,
				Resolvers: map[string]Resolver{"git": resolveFunc(func(_ context.Context, r *resolve.Request) (*resolve.Resource, error) {
					if r.Name == "noise" {
						return &resolve.Resource{Data: random(1000)}, nil
					}
					return &resolve.Resource{Data: bytes.Repeat([]byte("x"), 1000)}, nil
				})},
				Timeout: &Timeout{}, Metrics: NewMetrics(prometheus.NewRegistry()), Recorder: &record.FakeRecorder{}, Log: quiet, Clock: clock.RealClock{},
			}
			return a.Run(ctx, ready)
		})
	// One that may write the statuses of these requests.
	resolver := client(t, in.account(t, "sluice-system", "sluice-resolver-git"))
	c := client(t, in.config)
	for _, name := range []string{"noise", "text"} {
		if _, err := c.ResolutionV1beta1().ResolutionRequests(ns).Create(t.Context(), request(ns, name, "git"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var status v1beta1.ResolutionRequestStatus
		eventually(t, name+" to end", func(ctx context.Context) error {
			r, err := c.ResolutionV1beta1().ResolutionRequests(ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if status = r.Status; !status.Finished() {
				return errors.New("not yet")
			}
			return nil
		})
		if status.DataSize != 1000 || status.DataDigest == "" || (status.DataRef != "") != (name == "noise") || (status.DataEncoding != "") != (name == "text") {
			t.Errorf("%s: %+v", name, status)
		}
		alpha, err := c.ResolutionV1alpha1().ResolutionRequests(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(status, alpha.Status); diff != "" {
			t.Errorf("%s in v1alpha1: %s", name, diff)
		}
		for _, patch := range []string{
			`{"status":{"dataRef":"evil.test/c@sha256:00"}}`, `{"status":{"dataDigest":"sha256:00"}}`, `{"status":{"dataSize":1}}`,
			`{"status":{"data":"ZXZpbA==","dataEncoding":null,"dataRef":null,"dataDigest":null,"dataSize":null}}`,
		} {
			if _, err := resolver.ResolutionV1beta1().ResolutionRequests(ns).Patch(t.Context(), name, mergePatch, []byte(patch), metav1.PatchOptions{}, "status"); err == nil {
				t.Errorf("%s: %s is taken", name, patch)
			}
			if _, err := resolver.ResolutionV1alpha1().ResolutionRequests(ns).Patch(t.Context(), name, mergePatch, []byte(patch), metav1.PatchOptions{}, "status"); err == nil {
				t.Errorf("%s: %s is taken through v1alpha1", name, patch)
			}
			if _, err := c.ResolutionV1beta1().ResolutionRequests(ns).Patch(t.Context(), name, mergePatch, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Errorf("%s: %s beside the status: %v", name, patch, err)
			}
		}
		after, err := c.ResolutionV1beta1().ResolutionRequests(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(status, after.Status); diff != "" {
			t.Errorf("%s has changed: %s", name, diff)
		}
	}
	if len(kept.got) != 1 {
		t.Errorf("%d contents are stored", len(kept.got))
	}
}

//go:build e2e

package resolution

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"sluice.dev/api/resolution"
	"sluice.dev/client/versioned"
	"sluice.dev/resolve"
	"sluice.dev/tools/clustertest"
)

// The clocks of the machines of a resolver and of the lifecycle controller are an hour off. Requests end as they would elsewhere.
func TestE2EClocksThatAreWrongEndNoRequest(t *testing.T) {
	in := install(t)
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			ns := in.namespace(t)
			local := moved(by)
			server := NewServerClock(local)
			watched := func(account string) *rest.Config {
				cfg := rest.CopyConfig(in.account(t, "sluice-system", account))
				cfg.Wrap(server.Watch)
				return cfg
			}
			start(t, watched("sluice-resolver-git"), Role("git"), false,
				func(ctx context.Context, c *versioned.Clientset, k *kubernetes.Clientset, m *Members, ready func()) error {
					a := &Adapter{
						Client: c, Kube: k, Members: m, Namespace: "sluice-system", Account: "sluice-resolver-git", Server: server,
						Resolvers: map[string]Resolver{"git": resolveFunc(func(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
							if r.Name == "late" {
								<-ctx.Done()
								return nil, resolve.Errorf(resolve.ReasonUnavailable, "nobody answers")
							}
							res, err := echo(ctx, r)
							res.Annotations[resolve.AnnotationLookedAt], res.LookedAt = "?", local.Now()
							// As a resolver tells: a look at the local time is good for it.
							if !r.NotBefore.IsZero() && local.Now().Before(r.NotBefore) {
								return nil, resolve.Errorf(resolve.ReasonFailed, "a look is asked for at %s, and it is %s", r.NotBefore, local.Now())
							}
							return res, err
						})},
						Timeout: &Timeout{}, Metrics: NewMetrics(prometheus.NewRegistry()), Recorder: &record.FakeRecorder{}, Log: quiet, Clock: local,
					}
					return a.Run(ctx, ready)
				})
			start(t, watched("sluice-resolution"), LifecycleRole, false,
				func(ctx context.Context, c *versioned.Clientset, _ *kubernetes.Clientset, m *Members, ready func()) error {
					l := &Lifecycle{
						Client: c, Members: m, Timeout: &Timeout{}, TTL: 30 * time.Minute, Server: server,
						Metrics: NewMetrics(prometheus.NewRegistry()), Recorder: &record.FakeRecorder{}, Log: quiet, Clock: local,
					}
					return l.Run(ctx, ready)
				})
			in.create(t, ns, 20)
			in.succeededAll(t, ns, 20)
			requests := client(t, in.config).ResolutionV1beta1().ResolutionRequests(ns)
			one, err := requests.Get(t.Context(), "r0", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			created := one.CreationTimestamp.Time
			looked, err := time.Parse(time.RFC3339Nano, one.Status.Annotations[resolve.AnnotationLookedAt])
			if err != nil || looked.Sub(created).Abs() > clustertest.Patience || one.Status.Succeeded().LastTransitionTime.Sub(created).Abs() > clustertest.Patience {
				t.Errorf("created at %s, looked at %s (%v), ended at %s", created, looked, err, one.Status.Succeeded().LastTransitionTime)
			}
			// A request whose time is up ends then, and not an hour later.
			late := request(ns, "late", "git", text("x"))
			late.Annotations = map[string]string{resolution.AnnotationTimeout: "2s"}
			after := request(ns, "after", "git", text("x"))
			after.Annotations = map[string]string{resolution.AnnotationLookAfter: created.UTC().Format(time.RFC3339)}
			if _, err := requests.Create(t.Context(), after, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := requests.Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the others to end", func(ctx context.Context) error {
				for name, want := range map[string]metav1.ConditionStatus{"late": metav1.ConditionFalse, "after": metav1.ConditionTrue} {
					r, err := requests.Get(ctx, name, metav1.GetOptions{})
					if err != nil {
						return err
					}
					c := r.Status.Succeeded()
					if !r.Status.Finished() {
						return fmt.Errorf("%s is in progress", name)
					}
					if c.Status != want || name == "late" && c.Reason != resolution.ReasonTimedOut {
						t.Fatalf("%s: %+v", name, c)
					}
				}
				return nil
			})
			// Nobody owns them, and they are not as old as the local clock says.
			if list, err := requests.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 22 {
				t.Errorf("%d requests are left of 22 (%v)", len(list.Items), err)
			}
		})
	}
}

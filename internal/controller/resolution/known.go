package resolution

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/api/resolution"
	"sluice.dev/internal/brief"
	"sluice.dev/resolve"
)

// A request may name a resolver that nobody runs, by a mistake or because it is not installed. It would wait for its time-out, and
// say nothing about the cause. The lifecycle controller ends it sooner if it can be sure: no process has the role, and no ConfigMap
// says that one ever had.

// labelSchema is on the ConfigMap with the schema of a resolver, which it names.
const labelSchema = "sluice.dev/resolver"

// AnyResolver in [Known].Others allows any name for resolvers that are not part of Sluice.
const AnyResolver = "*"

// Known knows the resolvers of the cluster: those whose processes have a Lease, those that have published the schema of their
// parameters, and those of other vendors. All fields but Others are required.
type Known struct {
	Kube kubernetes.Interface
	// Namespace is that of the schemas.
	Namespace string
	Members   *Members
	// Others are the names of resolvers that are not part of Sluice, or [AnyResolver].
	Others []string
	Log    *slog.Logger

	mu        sync.Mutex
	synced    bool
	published map[string]int // ConfigMaps by the resolver
}

// Run watches the schemas until ctx is done.
func (k *Known) Run(ctx context.Context) {
	list := cache.NewFilteredListWatchFromClient(k.Kube.CoreV1().RESTClient(), "configmaps", k.Namespace, func(o *metav1.ListOptions) { o.LabelSelector = labelSchema })
	informer := cache.NewSharedInformer(list, &corev1.ConfigMap{}, 0)
	count := func(n int) func(any) {
		return func(o any) {
			if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = t.Obj
			}
			if m, ok := o.(*corev1.ConfigMap); ok {
				k.mu.Lock()
				defer k.mu.Unlock()
				if k.published == nil {
					k.published = map[string]int{}
				}
				name := m.Labels[labelSchema]
				if k.published[name] += n; k.published[name] == 0 {
					delete(k.published, name)
				}
			}
		}
	}
	// They fail only on an informer that has run.
	_ = informer.SetTransform(func(o any) (any, error) {
		if m, ok := o.(*corev1.ConfigMap); ok {
			m.Data, m.ManagedFields = nil, nil
		}
		return o, nil
	})
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		k.Log.Warn("cannot watch the schemas of resolvers; requests for resolvers that nobody runs wait for their time-out", "namespace", k.Namespace, "error", err)
	})
	seen, _ := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: count(1), DeleteFunc: count(-1),
		UpdateFunc: func(before, after any) { count(-1)(before); count(1)(after) },
	})
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), seen.HasSynced) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.synced = true
		}
	}()
	informer.RunWithContext(ctx)
}

// runningProcesses returns the number of processes that run a resolver of Sluice.
func (k *Known) runningProcesses(resolver string) int { return k.Members.Alive(Role(resolver)) }

// isOther reports whether the resolver is one of Others.
func (k *Known) isOther(resolver string) bool {
	return slices.ContainsFunc(k.Others, func(o string) bool { return o == AnyResolver || resolution.Canonical(o) == resolver })
}

// missingError returns an error that lists the known resolvers, if no process runs the resolver of a request. It returns nil if a
// process runs it or has run it, or if that is not known yet.
func (k *Known) missingError(resolver string) *resolve.Error {
	if k == nil || k.isOther(resolver) || k.runningProcesses(resolver) > 0 {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.synced || k.published[resolver] > 0 {
		return nil
	}
	there := maps.Clone(k.published)
	if there == nil {
		there = map[string]int{}
	}
	for _, role := range k.Members.AliveRoles() {
		if name, ok := strings.CutPrefix(role, Role("")); ok {
			there[name]++
		}
	}
	for _, o := range k.Others {
		there[resolution.Canonical(o)]++
	}
	names := slices.Sorted(maps.Keys(there))
	if len(names) == 0 {
		return resolve.Errorf(resolve.ReasonUnknownResolver, "nobody runs a resolver %q; there is none at all", resolver)
	}
	return resolve.Errorf(resolve.ReasonUnknownResolver, "nobody runs a resolver %q%s; there are %s", resolver, brief.Hint(resolver, names), strings.Join(names, ", "))
}

// presenceText says whether a resolver runs. The text changes only with that.
func (k *Known) presenceText(resolver string) string {
	switch {
	case k.runningProcesses(resolver) > 0:
		return fmt.Sprintf("the resolver %q runs and has not ended this request", resolver)
	case k.isOther(resolver):
		return fmt.Sprintf("the resolver %q, which is not one of Sluice's, has not answered", resolver)
	}
	return fmt.Sprintf("no process runs the resolver %q now", resolver)
}

package resolution

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// Operators change settings while processes run. A wrong value must not stop anything: the last good settings hold, and an event at
// the ConfigMap says what is wrong and what holds instead.

// DefaultTimeout is the time-out of a request if config-defaults does not set one, as in Tekton.
const DefaultTimeout = time.Minute

// maxTimeout bounds what an operator can set.
const maxTimeout = 24 * time.Hour

// TimeoutKey is the key of the ConfigMap [TimeoutConfigMap] that has the time-out of all requests, a Go duration.
const (
	TimeoutKey       = "default-maximum-resolution-timeout"
	TimeoutConfigMap = "config-defaults"
)

// Timeout is the operator's limit; the zero value is [DefaultTimeout].
type Timeout struct{ limit atomic.Int64 }

// Get returns the limit.
func (t *Timeout) Get() time.Duration {
	if d := t.limit.Load(); d > 0 {
		return time.Duration(d)
	}
	return DefaultTimeout
}

// Configure reads the limit from the data of the ConfigMap [TimeoutConfigMap]. If it is wrong, nothing changes.
func (t *Timeout) Configure(data map[string]string) error {
	text := data[TimeoutKey]
	if text == "" {
		t.limit.Store(0)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxTimeout {
		return fmt.Errorf("%s: %q is no duration between 0 and %s, such as 1m; %s holds", TimeoutKey, text, maxTimeout, t.Get())
	}
	t.limit.Store(int64(d))
	return nil
}

// ConfigWatch passes the data of one ConfigMap on.
type ConfigWatch struct {
	Kube            kubernetes.Interface
	Namespace, Name string
	// Apply receives the data at the start and after each change, nil if the ConfigMap is missing. Its error says what is wrong and
	// what is used instead. The error goes into the log and an event.
	Apply func(data map[string]string) error
	// Optional is set if it does no harm to use the defaults although the ConfigMap has other values.
	Optional bool
	Log      *slog.Logger
	Recorder record.EventRecorder
	// Clock is the real time if nil.
	Clock clock.Clock

	mu sync.Mutex
	// serial counts the states of the ConfigMap, told is the last error that was reported.
	serial int
	told   string
}

// applyAgain is the pause after data was refused. An object that it refers to, such as a Secret, may exist by then.
const applyAgain = 10 * time.Second

// Run watches until ctx is done. It calls ready once it has seen the ConfigMap, or its absence. If the ConfigMap cannot be read,
// the log says so, and Run calls ready only if the ConfigMap is optional. Otherwise an outage of the API server would allow things
// that the operator forbids.
func (c *ConfigWatch) Run(ctx context.Context, ready func()) {
	list := cache.NewListWatchFromClient(c.Kube.CoreV1().RESTClient(), "configmaps", c.Namespace, fields.OneTermEqualSelector("metadata.name", c.Name))
	informer := cache.NewSharedInformer(list, &corev1.ConfigMap{}, 0)
	apply := func(o any) {
		if m, ok := o.(*corev1.ConfigMap); ok && m.Name == c.Name {
			c.passOn(ctx, m.Data)
		}
	}
	// Registration and handler fail only on an informer that has run.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		c.Log.Warn("cannot watch a ConfigMap; the last configuration stays", "namespace", c.Namespace, "name", c.Name, "error", err)
		if c.Optional {
			ready()
		}
	})
	passed, _ := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    apply,
		UpdateFunc: func(_, o any) { apply(o) },
		DeleteFunc: func(any) { c.passOn(ctx, nil) },
	})
	go func() {
		// Not the informer's own HasSynced: the informer may have objects that it has not passed on yet.
		if cache.WaitForCacheSync(ctx.Done(), passed.HasSynced) {
			if len(informer.GetStore().ListKeys()) == 0 {
				c.passOn(ctx, nil)
			}
			ready()
		}
	}()
	informer.RunWithContext(ctx)
}

// passOn passes data on. It repeats that while the data is refused and there is no newer data.
func (c *ConfigWatch) passOn(ctx context.Context, data map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	c.told = ""
	if c.applyData(data) {
		return
	}
	mine, after := c.serial, cmp.Or[clock.Clock](c.Clock, clock.RealClock{})
	go func() {
		for {
			if pauseFor(ctx, after, applyAgain) != nil {
				return
			}
			c.mu.Lock()
			done := c.serial != mine || c.applyData(data)
			c.mu.Unlock()
			if done {
				return
			}
		}
	}()
}

// applyData reports whether the data was accepted.
func (c *ConfigWatch) applyData(data map[string]string) bool {
	err := c.Apply(data)
	if err == nil {
		c.Log.Info("configuration read", "namespace", c.Namespace, "name", c.Name, "keys", len(data))
		return true
	}
	if text := cleanLine(err.Error()); text != c.told {
		c.told = text
		c.Log.Error("the configuration has mistakes", "namespace", c.Namespace, "name", c.Name, "error", err)
		about := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: c.Namespace, Name: c.Name}
		c.Recorder.Event(about, corev1.EventTypeWarning, "InvalidConfiguration", text)
	}
	return false
}

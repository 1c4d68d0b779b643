package resolution

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// DefaultTimeout is how long a request may take where config-defaults does not say, as in Tekton.
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

// Configure takes the limit from the data of the ConfigMap [TimeoutConfigMap]; what it refuses changes nothing.
func (t *Timeout) Configure(data map[string]string) error {
	text := data[TimeoutKey]
	if text == "" {
		t.limit.Store(0)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxTimeout {
		return fmt.Errorf("%s: %q is no duration between 0 and %s, such as 1m", TimeoutKey, text, maxTimeout)
	}
	t.limit.Store(int64(d))
	return nil
}

// ConfigWatch passes the data of one ConfigMap on.
type ConfigWatch struct {
	Kube            kubernetes.Interface
	Namespace, Name string
	// Apply gets the data at the start and after each change, nil where the ConfigMap is missing. What it refuses is
	// told in the log and in an event, and the last good configuration stays.
	Apply func(data map[string]string) error
	// Optional: nothing is lost where the defaults are in force although the ConfigMap says otherwise.
	Optional bool
	Log      *slog.Logger
	Recorder record.EventRecorder
}

// Run watches until ctx is done. ready is called once the ConfigMap, or its absence, has been seen. Where it cannot be read
// the log tells, and ready is called only if it is optional: what an operator forbids there must not be allowed because
// the API server was away.
func (c *ConfigWatch) Run(ctx context.Context, ready func()) {
	list := cache.NewListWatchFromClient(c.Kube.CoreV1().RESTClient(), "configmaps", c.Namespace, fields.OneTermEqualSelector("metadata.name", c.Name))
	informer := cache.NewSharedInformer(list, &corev1.ConfigMap{}, 0)
	apply := func(o any) {
		if m, ok := o.(*corev1.ConfigMap); ok && m.Name == c.Name {
			c.apply(m.Data)
		}
	}
	// Registration and handler fail only on an informer that has run.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		c.Log.Warn("cannot watch a ConfigMap; the last configuration stays", "namespace", c.Namespace, "name", c.Name, "error", err)
		if c.Optional {
			ready()
		}
	})
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    apply,
		UpdateFunc: func(_, o any) { apply(o) },
		DeleteFunc: func(any) { c.apply(nil) },
	})
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			if len(informer.GetStore().ListKeys()) == 0 {
				c.apply(nil)
			}
			ready()
		}
	}()
	informer.RunWithContext(ctx)
}

func (c *ConfigWatch) apply(data map[string]string) {
	err := c.Apply(data)
	if err == nil {
		c.Log.Info("configuration read", "namespace", c.Namespace, "name", c.Name, "keys", len(data))
		return
	}
	c.Log.Error("configuration refused; the last good one stays", "namespace", c.Namespace, "name", c.Name, "error", err)
	c.Recorder.Event(configMapRef(c.Namespace, c.Name), corev1.EventTypeWarning, eventInvalidConfig, clean(err.Error()))
}

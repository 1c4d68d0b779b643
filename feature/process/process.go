// Package process connects the features of one process with its cluster. It brings the settings of the component's ConfigMap to the
// process, and reports the features of the process to the cluster, in a FeatureReport.
//
//	p, err := process.New(config, gates, process.Options{Process: "controller", Instance: podName, Namespace: podNamespace})
//	err = p.Begin(ctx) // settings are read once; features that need a restart are settled
//	err = p.Start(ctx) // blocks; a manager of controller-runtime takes p as it is
//
// It promises:
//   - it applies and reports a change of the ConfigMap as soon as the API server sends it. It logs and reports problems of the
//     settings, and the last good settings stay. If the ConfigMap is deleted, the defaults apply;
//   - if the ConfigMap is wrong at the start of the process, it uses the last good settings in the Component's status, and the
//     defaults if it cannot read that or there are none;
//   - if it loses the right to read the settings, they stay as they were, and it reports that;
//   - it renews a report as long as Start runs, and deletes it at an orderly end;
//   - a feature that needs other processes is on only while their reports say so; while the API server does not answer, their last
//     reports count;
//   - if the component lets namespaces opt in, the gates know by their labels which have ([gate.Gates.EnabledFor]);
//   - a cluster without the kind FeatureReport is no error: the process still follows the settings.
//
// The process needs the right to get, list and watch its ConfigMap. It needs the right to create, patch and delete FeatureReports
// in its own namespace. If a feature needs other processes, it also needs to list and watch them in the namespaces of its
// component. If namespaces can opt in, it needs to get, list and watch namespaces. The right to get its Component is useful and
// optional. The package decides nothing about features: package gate does.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/gate"
	"sluice.dev/feature/skew"
)

// DefaultRenew is the interval for renewing a report, which counts for three times as long. So a renewal may fail twice, and a
// killed process counts as running for ten seconds at most. A renewal is one small patch.
const DefaultRenew = 3 * time.Second

// Options say who the process is.
type Options struct {
	// Process names the kind of process, as requiredProcesses does: webhook, for example.
	Process string
	// Instance distinguishes processes of the kind: the name of the pod.
	Instance string
	// Namespace is that of the pod: the report is written there. It counts only if it is one of the component's namespaces: those
	// that it names, or else that of its ConfigMap.
	Namespace string
	// Release is that of the program. Revision distinguishes roll-outs of one release, such as the pod's label pod-template-hash. Both
	// identify a rolling update.
	Release, Revision string
	// Owner is the pod or lease with which the report goes; nil: it is left to expire if the process is killed. See [PodOwner].
	Owner *metav1.OwnerReference
	// File is a file or directory of settings (see [gate.Gates.LoadFile]); empty for none. The process reads it again whenever it renews
	// the report.
	File string
	// Renew is the interval for renewing the report; zero stands for [DefaultRenew]. It has whole seconds, one at least.
	Renew time.Duration
	// NoReport writes no report.
	NoReport bool
	// Logger gets what cannot be read or written; the zero value drops it.
	Logger logr.Logger
	// Clock is for tests; nil stands for the real one.
	Clock clock.WithTicker
}

// PodOwner returns the owner of a pod's report, from values of the downward API; nil if one of them is empty.
func PodOwner(name, uid string) *metav1.OwnerReference {
	if name == "" || uid == "" {
		return nil
	}
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(uid)}
}

// Process is one process of a component.
type Process struct {
	options  Options
	gates    *gate.Gates
	reporter func() v1alpha1.FeatureReportSpec
	kube     kubernetes.Interface
	dynamic  dynamic.Interface
	// metadata renews reports: its answers are small.
	metadata metadata.Interface
	// namespaces is nil if the component does not let them opt in.
	namespaces *namespaces
	started    metav1.Time
	poke       chan struct{}

	weighing sync.Mutex // only one goroutine at a time evaluates the reports of others

	mu       sync.Mutex
	begun    bool
	follower skew.Follower // of the reports of all processes
	file     string        // the last error of the file
	settings error         // why the settings cannot be read; nil: they can
}

// New makes a process. It does not connect to the cluster.
func New(config *rest.Config, gates *gate.Gates, o Options) (*Process, error) {
	var missing []string
	for _, needed := range []struct{ name, value, what string }{
		{"Process", o.Process, "the kind of process"}, {"Instance", o.Instance, "the name of the pod"}, {"Namespace", o.Namespace, "that of the pod"},
	} {
		if needed.value == "" && !o.NoReport {
			missing = append(missing, fmt.Sprintf("%s (%s)", needed.name, needed.what))
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("process.Options: %s must be given, or NoReport, as nothing can be reported without", strings.Join(missing, ", "))
	}
	if o.Renew <= 0 {
		o.Renew = DefaultRenew
	}
	// The lease of a report has whole seconds.
	o.Renew = max(o.Renew.Truncate(time.Second), time.Second)
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	p := &Process{options: o, gates: gates, reporter: gates.Reporter(), poke: make(chan struct{}, 1), started: metav1.NewTime(o.Clock.Now())}
	var err error
	if p.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if p.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if p.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	p.optInByNamespace()
	return p, nil
}

// Begin reads the settings once and settles the features (see [gate.Gates.Begin], whose error it returns as well). A
// ConfigMap that is not there is no error; one that cannot be read is. After it has succeeded, further calls do nothing.
func (p *Process) Begin(ctx context.Context) error {
	p.mu.Lock()
	begun := p.begun
	p.mu.Unlock()
	if begun {
		return nil
	}
	if p.options.File != "" {
		p.readFile()
	}
	if ref := p.gates.Model().Spec().ConfigMap; ref != nil {
		cm, err := p.kube.CoreV1().ConfigMaps(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		// A missing ConfigMap gives the defaults. One that cannot be read is an error, since it may say the opposite of them.
		switch {
		case apierrors.IsNotFound(err):
			p.gates.Set(gate.ConfigMap, nil, "")
		case err != nil:
			return fmt.Errorf("the settings of features, ConfigMap %s/%s: %w", ref.Namespace, ref.Name, err)
		default:
			if problems := p.takeSettings(cm); problems != nil {
				p.recallSettings(ctx)
			}
		}
	}
	if err := p.gates.Begin(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
	return nil
}

// takeSettings gives the data of the ConfigMap to the gates. An empty ConfigMap is not a missing one, whose
// data would be nil.
func (p *Process) takeSettings(cm *corev1.ConfigMap) []gate.Problem {
	data := feature.SettingsOf(cm.Data, cm.BinaryData)
	if data == nil {
		data = map[string]string{}
	}
	problems := p.gates.Set(gate.ConfigMap, data, cm.ResourceVersion)
	p.requestReport()
	return problems
}

// recallSettings looks for the last good settings, which a controller keeps in the status of the Component.
func (p *Process) recallSettings(ctx context.Context) {
	name := p.gates.Model().Component()
	u, err := p.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("components")).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		p.options.Logger.Info("the last good settings of features are not known, so that the defaults hold", "component", name, "because", err.Error())
		return
	}
	var c v1alpha1.Component
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &c); err != nil {
		p.options.Logger.Error(err, "the Component of features cannot be read", "component", name)
		return
	}
	p.gates.Remember(gate.ConfigMap, c.Status.Settings)
}

// readFile reads the file; what is wrong with it is in the problems of the gates.
func (p *Process) readFile() {
	_, err := p.gates.LoadFile(p.options.File)
	text := ""
	if err != nil {
		text = err.Error()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if text != "" && text != p.file {
		p.options.Logger.Error(err, "settings of features cannot be read", "file", p.options.File)
	}
	p.file = text
}

// requestReport has the report written soon.
func (p *Process) requestReport() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// NeedLeaderElection tells controller-runtime that every replica follows and reports.
func (p *Process) NeedLeaderElection() bool { return false }

// Start follows the settings and reports until ctx ends. [Process.Begin] is called if it was not. The error is that of Begin.
func (p *Process) Start(ctx context.Context) error {
	if err := p.Begin(ctx); err != nil {
		return err
	}
	stop := p.gates.OnChange(func([]featuregate.Feature) { p.requestReport() })
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	if ref := p.gates.Model().Spec().ConfigMap; ref != nil {
		running.Go(func() { p.watchSettings(ctx, ref) })
	}
	if p.needsOthers() {
		for _, namespace := range skew.Namespaces(p.gates.Model()) {
			running.Go(func() { p.watchReports(ctx, namespace) })
		}
	}
	if p.namespaces != nil {
		running.Go(func() { p.namespaces.watchNamespaces(ctx) })
	}
	p.keepReporting(ctx)
	return nil
}

// needsOthers reports whether a feature needs processes.
func (p *Process) needsOthers() bool {
	return slices.ContainsFunc(p.gates.Model().Features(), func(f *feature.Feature) bool { return len(f.Spec.RequiredProcesses) > 0 })
}

// Name returns the name of the report: COMPONENT.PROCESS.INSTANCE, with a hash if that is no valid name.
func (p *Process) Name() string {
	return ReportName(p.gates.Model().Component(), p.options.Process, p.options.Instance)
}

// ReportName is the name of the report of an instance of a process: COMPONENT.PROCESS.INSTANCE, or the component and a hash where
// that is no name of an object.
func ReportName(component, process, instance string) string {
	const longest = 200
	full := component + "." + process + "." + instance
	if len(full) <= longest && len(validation.IsDNS1123Subdomain(full)) == 0 {
		return full
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(full)) // never fails
	return fmt.Sprintf("%s.%016x", component, h.Sum64())
}

var errNoReports = errors.New("the cluster has no kind FeatureReport (sluice.dev/v1alpha1): what this process runs with is not reported")

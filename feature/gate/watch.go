package gate

// Who is told of what happens to the gates? Observers hear of changes, and one hears of each question. The
// gate of component-base that we give out passes questions and settings on to ours.

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"
)

// Observe calls do with each gate that is asked for, and with the gates that it requires if it is on, until stop is called. If
// there are several observers, the last one that has not been stopped is called. It observes [Gates.Enabled], [Gates.State] and
// [Gates.Report]. It also observes the states, the evaluator and the gate of component-base that the gates return, and gates that
// were not declared. It does not observe metrics, nor a gate of component-base that was given ([Options]) and is asked directly. It
// is for tests.
func (g *Gates) Observe(do func(name featuregate.Feature)) (stop func()) {
	return g.watchers.addObserver(do)
}

// observers are called when something happens. Their list is replaced and never changed, so that it is read without a lock.
type observers[T any] struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*func(T)]
}

// registeredNow returns the observers in the order in which they came; nil if there never was one.
func (o *observers[T]) registeredNow() []*func(T) {
	if list := o.list.Load(); list != nil {
		return *list
	}
	return nil
}

// addObserver adds an observer until stop is called.
func (o *observers[T]) addObserver(do func(T)) (stop func()) {
	replace := func(edit func(list []*func(T)) []*func(T)) {
		o.mu.Lock()
		defer o.mu.Unlock()
		list := edit(slices.Clone(o.registeredNow()))
		o.list.Store(&list)
	}
	replace(func(list []*func(T)) []*func(T) { return append(list, &do) })
	return func() {
		replace(func(list []*func(T)) []*func(T) {
			return slices.DeleteFunc(list, func(x *func(T)) bool { return x == &do })
		})
	}
}

func (o *observers[T]) notifyAll(what T) {
	for _, do := range o.registeredNow() {
		(*do)(what)
	}
}

// lastWatcher returns the last observer of [Gates.Observe] that has not been stopped; nil if there is none.
func (g *Gates) lastWatcher() func(gate string) {
	list := g.watchers.registeredNow()
	if len(list) == 0 {
		return nil
	}
	return func(gate string) { (*list[len(list)-1])(featuregate.Feature(gate)) }
}

// watchedGate is the gate of component-base with observers. They do not hear of features of others.
type watchedGate struct {
	featuregate.MutableVersionedFeatureGate

	gates *Gates
}

// Enabled implements [featuregate.FeatureGate].
func (w *watchedGate) Enabled(name featuregate.Feature) bool {
	if len(w.gates.watchers.registeredNow()) > 0 {
		if st := w.gates.state.Load(); st != nil && st.model.Feature(string(name)) != nil {
			st.watched.State(string(name))
		}
	}
	return w.MutableVersionedFeatureGate.Enabled(name)
}

// Set implements [featuregate.MutableFeatureGate].
func (w *watchedGate) Set(value string) error {
	m := map[string]bool{}
	for entry := range strings.SplitSeq(value, ",") {
		name, word, _ := strings.Cut(strings.TrimSpace(entry), "=")
		if name == "" {
			continue
		}
		on, err := strconv.ParseBool(strings.TrimSpace(word))
		if err != nil {
			return fmt.Errorf("%s: %q is neither true nor false", name, word)
		}
		m[strings.TrimSpace(name)] = on
	}
	return w.SetFromMap(m)
}

// SetFromMap implements [featuregate.MutableFeatureGate]. Gates of other components are set in the gate itself.
func (w *watchedGate) SetFromMap(m map[string]bool) error {
	model := w.gates.Model()
	mine, others := map[string]*bool{}, map[string]bool{}
	for name, on := range m {
		if model.Feature(name) != nil || w.gates.own {
			mine[name] = &on
		} else {
			others[name] = on
		}
	}
	var errs []error
	for _, p := range w.gates.setDirect(mine) {
		errs = append(errs, errors.New(p.Message))
	}
	if len(others) > 0 {
		errs = append(errs, w.MutableVersionedFeatureGate.SetFromMap(others))
	}
	return errors.Join(errs...)
}

// ResetFeatureValueToDefault implements [featuregate.MutableVersionedFeatureGate].
func (w *watchedGate) ResetFeatureValueToDefault(name featuregate.Feature) error {
	if w.gates.Model().Feature(string(name)) == nil {
		return w.MutableVersionedFeatureGate.ResetFeatureValueToDefault(name)
	}
	w.gates.setDirect(map[string]*bool{string(name): nil})
	return nil
}

// ExplicitlySet implements [featuregate.MutableVersionedFeatureGate]: a source of settings sets the feature.
func (w *watchedGate) ExplicitlySet(name featuregate.Feature) bool {
	st := w.gates.state.Load()
	if st.model.Feature(string(name)) == nil {
		return w.MutableVersionedFeatureGate.ExplicitlySet(name)
	}
	_, set := st.given.Gate(string(name))
	return set
}

// OverrideDefault implements [featuregate.MutableFeatureGate].
func (w *watchedGate) OverrideDefault(name featuregate.Feature, override bool) error {
	return w.gates.overrideDefault(name, func() error { return w.MutableVersionedFeatureGate.OverrideDefault(name, override) })
}

// OverrideDefaultAtVersion implements [featuregate.MutableVersionedFeatureGate].
func (w *watchedGate) OverrideDefaultAtVersion(name featuregate.Feature, override bool, v *version.Version) error {
	return w.gates.overrideDefault(name, func() error {
		return w.MutableVersionedFeatureGate.OverrideDefaultAtVersion(name, override, v)
	})
}

// SetEmulationVersion implements [featuregate.MutableVersionedFeatureGate].
func (w *watchedGate) SetEmulationVersion(v *version.Version) error {
	return w.SetEmulationVersionAndMinCompatibilityVersion(v, v.SubtractMinor(1))
}

// SetEmulationVersionAndMinCompatibilityVersion implements [featuregate.MutableVersionedFeatureGate]. The version of the release itself emulates
// nothing.
func (w *watchedGate) SetEmulationVersionAndMinCompatibilityVersion(v, least *version.Version) error {
	if w.gates.own && !v.EqualTo(w.EmulationVersion()) {
		release := w.gates.options.Release
		if own := majorMinor(release); own == nil || !v.EqualTo(own) {
			release = w.gates.newestOf(v)
		}
		if err := w.gates.Emulate(release); err != nil {
			return err
		}
	}
	return w.MutableVersionedFeatureGate.SetEmulationVersionAndMinCompatibilityVersion(v, least)
}

// AddFlag implements [featuregate.MutableFeatureGate].
func (w *watchedGate) AddFlag(fs *pflag.FlagSet) { w.gates.AddFlags(fs) }

// DeepCopy implements [featuregate.FeatureGate].
func (w *watchedGate) DeepCopy() featuregate.MutableVersionedFeatureGate {
	return &watchedGate{w.MutableVersionedFeatureGate.DeepCopy(), w.gates}
}

// DeepCopyAndReset implements [featuregate.MutableVersionedFeatureGate].
func (w *watchedGate) DeepCopyAndReset() featuregate.MutableVersionedFeatureGate {
	return &watchedGate{w.MutableVersionedFeatureGate.DeepCopyAndReset(), w.gates}
}

package features

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/internal/featureusage"
)

// This file has the types that planning, enforcing and reporting share: the plan for a component, what the planner remembers of
// earlier plans, and the outcome of enforcing a plan. For example, a Feature whose CRD is missing stays in the plan as left out, its
// policies are parked in the outcome, and the status says both.

// plan is the wanted state for a component.
type plan struct {
	component *v1alpha1.Component
	features  []v1alpha1.Feature
	model     *feature.Model
	gated     gated
	// definition has the errors of component and features.
	definition feature.Findings
	// neighbours are the components that this plan changes something for, because both gate the same part.
	neighbours []string
	live       bool
	// current is the ConfigMap, zero if the component has none.
	current configMap
	// wrong has the errors of its settings.
	wrong feature.Findings
	// settings are in force; nil stands for defaults. They are not known if known is false.
	settings *feature.Settings
	known    bool
	// kept are the last good settings, in the form of the ConfigMap; nil if there are none.
	kept map[string]string
	// version is the resourceVersion of the ConfigMap whose settings are in force, empty for others.
	version string
	// since is the time when the settings in force were seen first.
	since time.Time
	// detached is set if the ConfigMap of a live component is missing and cannot be created: then the policies contain the settings in
	// force.
	detached bool
	// without are the settings that were left out when the ConfigMap was restored.
	without []string
	states  *feature.States
	set     *policy.Set
}

// guardedElsewhere reports whether the ConfigMap belongs to another component, whose policy guards it.
func (out *plan) guardedElsewhere() bool {
	return slices.ContainsFunc(out.definition, func(x feature.Finding) bool { return x.Code == feature.CodeSettingsShared })
}

// planner makes plans. For each component, it caches results that take time.
type planner struct {
	*world

	// sticky keeps the last good definition of a feature whose definition has become bad, so that nothing opens.
	sticky bool

	// compiling serialises the compilation of components, because it needs most of the memory of a process.
	compiling sync.Mutex

	mu     sync.Mutex
	server server
	known  map[string]*remembered
	crd    map[string]*knownCRD
	gone   map[string]time.Time // the last time when a CRD was seen as being deleted, or as deleted; see dropDeletedCRDs
}

// remembered is the cache of a planner for one component. Only one goroutine at a time makes plans for a component.
type remembered struct {
	key        string
	model      *feature.Model
	definition feature.Findings

	sharedKey string
	shared    feature.Findings
	beside    []string // the components with the same ConfigMap
	near      []string // the components that gate parts of the same resources

	setKey string
	set    *policy.Set

	began   bool // the status of an earlier process was read
	kept    map[string]string
	version string
	current string // the last seen version of the ConfigMap
	since   time.Time

	detached bool     // the settings could not be restored
	made     string   // the version of the ConfigMap when it was last restored
	without  []string // the settings that were left out then
	standing standing // at the last check
}

// knownCRD is a CRD that has been read.
type knownCRD struct {
	uid        types.UID
	generation int64
	resource   feature.Resource
	usage      featureusage.Resource
	err        error
}

// gated are the resources that features gate.
type gated struct {
	crds   []*knownCRD
	others []feature.Resource
	// missing are the names of the CRDs for resources that do not exist.
	missing []string
}

// usage counts which stored objects use features: for each resource one scan for all features of the components that this
// process works on. It holds one object in memory at a time, and a number for each feature and resource.
type usage struct {
	clock    clock.Clock
	interval time.Duration
	// namespace is Sluice's own.
	namespace string
	log       *slog.Logger
	poke      chan struct{}

	mu     sync.Mutex
	parts  map[string]*gatedBy // by component
	counts map[string]*tally   // by resource, in the form of crdName
}

// gatedBy are the resources that the features of a component gate.
type gatedBy struct {
	model     *feature.Model
	resources map[string]featureusage.Resource // by name, in the form of crdName
}

// tally is the last count for one resource.
type tally struct {
	// of are the models whose features were counted, by component; nil before the first count.
	of map[string]*feature.Model
	// objects has the number of objects for each feature; features without any are left out.
	objects map[gateOf]int64
	// at is the time of the count.
	at time.Time
	// err says why the last count failed.
	err error
	// tried is the end of the last scan, due the earliest begin of the next one.
	tried, due time.Time
}

type gateOf struct{ component, gate string }

// standing are the differences between the enforced and the wanted state: objects that could not be written or deleted, or that were
// not changed on purpose. Objects that were just written, or that wait for their replacement, do not count.
type standing struct {
	// left are policies that enforce a feature and should not, by gate.
	left map[string][]leftover
	// missing are the names of policies that should enforce something and do not exist, or have no binding.
	missing map[string]bool
	// without are the gates that a policy should enforce and the stored policy does not, by its name.
	without map[string]map[string]bool
	// stale are policies whose enforced form differs from the wanted one.
	stale []stale
}

// stale is a policy whose enforced form differs from the wanted one.
type stale struct {
	policy object
	gates  []string
	// settings is the ConfigMap that it reads, nil if it names none.
	settings *v1alpha1.ConfigMapReference
}

// leftover is a policy that enforces a part that it should not.
type leftover struct {
	v1alpha1.Enforcer

	err error // says why
}

// bound is a policy with its binding; nil if it is not there.
type bound struct{ policy, binding object }

// settle is the time after its write when a policy counts as in force: the API server looks for new ones every second
// (k8s.io/apiserver/pkg/admission/plugin/policy/generic, policyRefreshInterval).
const settle = 2 * time.Second

// outcome is the result of enforcing a plan.
type outcome struct {
	// failed says by name why an object could not be written.
	failed map[string]error
	// waiting are the policies that the API server has not type-checked yet, and warned has the warnings of its type check about
	// others.
	waiting map[string]bool
	// fresh are the names of objects that were written so recently that they may not be in force.
	fresh  map[string]bool
	wait   time.Duration
	warned map[string]string
	// frozen are the names of objects that were not changed.
	frozen map[string]bool
	// parked are the policies for resources and versions that no longer exist, by name. They stay as they are.
	parked map[string]object
	// removed are the deleted objects, by resource and name.
	removed map[string]bool
	// hook says why the API server does not call the webhook, although a part needs it; nil if it does.
	hook error
	// absent is set if there is no webhook to call.
	absent bool
	// untold says why there are no warnings about uses of a gate for tellUse.
	untold map[string]error
	// hookKept is set if it is called as before, because the definition of a feature that it enforces has become bad.
	hookKept bool
	// restored are objects that another client had changed or deleted.
	restored []string
	// settings says why the settings could not be restored.
	settings error
	// reading is set if the settings of a live component are not known yet.
	reading bool
	// standing are the differences between the enforced and the wanted state.
	standing
	// putBack is set if they were restored.
	putBack bool
	// hooks are the webhooks that are called. unseen and unseenHook say why the enforcement by policies, and by webhooks, was not
	// observed. lost says why the API server cannot call the webhooks.
	hooks                    *hookSet
	unseen, unseenHook, lost error
	// held is set if nothing was written, because settings are not known.
	held bool
}

// retryErrors joins the errors that need a retry.
func (o *outcome) retryErrors() error { return errors.Join(o.settings, o.enforceErrors()) }

// enforceErrors joins the reasons why objects do not enforce the wanted state.
func (o *outcome) enforceErrors() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(o.failed)) {
		errs = append(errs, o.failed[name])
	}
	if !o.absent {
		errs = append(errs, o.hook)
	}
	return errors.Join(errs...)
}

// hook is a webhook of either kind. A validating one has no ReinvocationPolicy, which is all in which the two types differ.
type hook = admissionregistrationv1.MutatingWebhook

// hookSet are the webhooks of a component.
type hookSet struct{ validating, mutating []hook }

// seen is what was observed about a component.
type seen struct {
	// policies and hooks are the last observed states of the API server.
	policies, hooks string
	// lost is the number of calls in a row without an answer, asked the time of the last call, and err its error.
	lost  int
	asked time.Time
	err   error
}

// errorsIn counts errors among findings.
func errorsIn(findings feature.Findings) (n int) {
	for _, f := range findings {
		if f.Severity == feature.Error {
			n++
		}
	}
	return n
}

// gatesOf are the gates that a policy enforces.
func gatesOf(o object) []string {
	if gates := o.GetAnnotations()[policy.GatesAnnotation]; gates != "" {
		return strings.Split(gates, ",")
	}
	return nil
}

// beyondWebhooks reports whether the API server never calls the webhook for objects of a group: because the webhook needs them itself,
// or because the API server calls no webhook for its admission configuration (k8s.io/apiserver,
// admission/plugin/webhook/predicates/rules).
func beyondWebhooks(group string) bool {
	return group == v1alpha1.GroupName || group == "admissionregistration.k8s.io"
}

func enforcedWhere(e *v1alpha1.Enforcer) string {
	return schema.GroupResource{Group: e.Group, Resource: e.Resource}.String()
}

const (
	// maxMessage bounds the message of a condition, and maxEvent that of an event, in bytes.
	maxMessage = 16 << 10
	maxEvent   = 1000
	// maxKept bounds the last good settings in a status. Larger ones are not kept.
	maxKept = 256 << 10
)

// withRemarks appends the warnings to a message.
func withRemarks(message string, findings feature.Findings) string {
	parts := []string{message}
	for _, x := range findings {
		word := string(x.Severity)
		if x.Waits() {
			word = "waiting"
		}
		parts = append(parts, word+": "+x.String())
	}
	return strings.Join(parts, "; ")
}

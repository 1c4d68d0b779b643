package features

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
)

// Which webhooks does a component need? Policies are the rule, and the webhook judges what they cannot say on this API server, for
// example drops where it serves no mutating policies. One webhook is asked about all parts with the same purpose. For example,
// shop.reject.feature.sluice.dev refuses, and fails closed, while shop.warn.feature.sluice.dev only warns, and fails open.

const (
	validatingHooks = "validatingwebhookconfigurations"
	mutatingHooks   = "mutatingwebhookconfigurations"

	// Configuration is the name of both webhook configurations. Each component has webhooks of its own in them, written by a
	// field manager of its own.
	Configuration = "sluice-features"
	// Service is the Service that they call.
	Service = "sluice-feature-webhook"
	// TLSSecret has the certificate that the replicas of the webhook share.
	TLSSecret = "sluice-feature-webhook-tls" //nolint:gosec // the name of a Secret
	// Address is the ConfigMap in Sluice's namespace with the address of the webhook, which the webhook writes.
	Address = "sluice-feature-webhook"

	// addressUser is the user of the watch on the ConfigMap [Address]. No component has this name.
	addressUser = "*"

	bundleKey = "ca.crt"
	urlKey    = "url"

	managerPrefix = Manager + "-"
	hookSuffix    = ".feature.sluice.dev"
)

// The purposes of webhooks. Each has a path of its own, because a write that may be refused waits for the webhook (failurePolicy
// Fail), and a write that only gets a warning does not.
const (
	askReject = "reject"
	askWarn   = "warn"
	askDrop   = "drop"
	askLeft   = "left" // refuse a part that was dropped and is set again

	// wholeVersions is in the names of webhooks for whole versions.
	wholeVersions = "-version"
	askSettings   = "settings"
)

// errNoWebhook means that the address of the webhook is not known.
var errNoWebhook = errors.New("the webhook has not run in this cluster yet: install the role " + WebhookRole)

// hookPath is where the API server posts reviews.
func hookPath(component, ask string) string { return "/features/" + component + "/" + ask }

// keepStored adds stored webhooks that are no longer wanted.
func (h *hookSet) keepStored(stored *hookSet) {
	h.validating = keepHooks(h.validating, stored.validating)
	h.mutating = keepHooks(h.mutating, stored.mutating)
}

// only are the webhooks with the rules for some resources.
func (h *hookSet) only(of func(group, resource string) bool) *hookSet {
	some := func(list []hook) (out []hook) {
		for _, w := range list {
			w.Rules = slices.DeleteFunc(slices.Clone(w.Rules), func(r admissionregistrationv1.RuleWithOperations) bool {
				return !of(r.APIGroups[0], r.Resources[0])
			})
			if len(w.Rules) > 0 {
				out = append(out, w)
			}
		}
		return out
	}
	return &hookSet{some(h.validating), some(h.mutating)}
}

// keepHooks returns the wanted webhooks with the stored ones that are not among them. A webhook that is in both lists gets the rules
// of both.
func keepHooks(want, stored []hook) []hook {
	// The conditions of the wanted webhooks may leave out objects for which kept ones are needed. Then no condition applies.
	for i := range stored {
		have := &stored[i]
		at := slices.IndexFunc(want, func(w hook) bool { return w.Name == have.Name })
		if at < 0 {
			want = append(want, *have)
			continue
		}
		w := &want[at]
		rules := keepRules(w.Rules, have.Rules)
		switch {
		case aboutClaims(w.Name):
			w.Rules = rules
			keepClaims(w, have)
		case !equality.Semantic.DeepEqual(rules, w.Rules) || !equality.Semantic.DeepEqual(w.MatchConditions, have.MatchConditions):
			w.Rules, w.MatchConditions = rules, keepConditions(w.MatchConditions, have.MatchConditions)
		}
	}
	return want
}

// keepRules adds the versions in other rules. Each rule is about one resource.
func keepRules(rules, others []admissionregistrationv1.RuleWithOperations) []admissionregistrationv1.RuleWithOperations {
	rules = slices.Clone(rules)
	for _, o := range others {
		at := slices.IndexFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return slices.Equal(r.APIGroups, o.APIGroups) && slices.Equal(r.Resources, o.Resources)
		})
		if at < 0 {
			rules = append(rules, o)
			continue
		}
		versions := slices.Concat(rules[at].APIVersions, o.APIVersions)
		slices.Sort(versions)
		rules[at].APIVersions = slices.Compact(versions)
	}
	return rules
}

// unwarnedGates returns the gates without warnings about their use, and why.
func (p *plan) unwarnedGates(webhook bool) map[string]error {
	out := map[string]error{}
	for i := range p.set.Told {
		switch e := &p.set.Told[i]; {
		case beyondWebhooks(e.Group):
			out[e.Gate] = fmt.Errorf("%s.%s is beyond any webhook", e.Resource, e.Group)
		case !webhook:
			out[e.Gate] = errNoWebhook
		}
	}
	return out
}

// hookedResource is a resource that the webhook is asked about.
type hookedResource struct{ group, resource string }

// question is what the webhooks of one name are asked about, by resource.
type question map[hookedResource]*askedParts

// askedParts is what a webhook is asked about in one resource.
type askedParts struct {
	versions  []string // of its rule
	targets   []*feature.Target
	elsewhere []string // versions of which objects are not converted to be judged
}

// hookMaker makes the webhooks of a component.
type hookMaker struct {
	plan      *plan
	namespace string
	address   map[string]string
	// conditions tells whether the API server knows match conditions.
	conditions bool

	asks   map[string]question
	closed map[hookedResource][]*feature.Target // versions of which managed fields are trusted
}

// hooksOf lists what of a component the webhook is asked for. conditions tells whether the API server knows match conditions.
//
// The order of the webhooks is fixed, because the stored ones are compared with them.
func hooksOf(p *plan, namespace string, address map[string]string, conditions bool) *hookSet {
	m := &hookMaker{p, namespace, address, conditions, map[string]question{}, map[hookedResource][]*feature.Target{}}
	m.collectQuestions()
	name := p.component.Name
	// Sluice has to be able to run before it can be asked.
	elsewhere := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{namespace},
	}}}
	out := &hookSet{}
	for _, ask := range m.asksFor(askReject, askLeft) {
		out.validating = append(out.validating, m.makeHook(ask, elsewhere, admissionregistrationv1.Fail))
	}
	for i, w := range claimHooks(m.closed, conditions) {
		w.Name, w.ClientConfig, w.NamespaceSelector = claimsName(name, i), clientConfig(namespace, address, hookPath(name, askReject)), elsewhere
		out.validating = append(out.validating, w)
	}
	for _, ask := range m.asksFor(askWarn) {
		out.validating = append(out.validating, m.makeHook(ask, elsewhere, admissionregistrationv1.Ignore))
	}
	for _, ask := range m.asksFor(askDrop) {
		w := m.makeHook(ask, elsewhere, admissionregistrationv1.Fail)
		w.ReinvocationPolicy = new(admissionregistrationv1.NeverReinvocationPolicy)
		out.mutating = append(out.mutating, w)
	}
	if ref := p.model.Spec().ConfigMap; ref != nil && !p.guardsSettings() && !p.guardedElsewhere() {
		out.validating = append(out.validating, m.settingsHook(ref))
	}
	return out
}

// collectQuestions fills in the questions for the webhook: enforced parts, and parts with a warning.
func (m *hookMaker) collectQuestions() {
	p := m.plan
	for i := range p.set.Enforced {
		e := &p.set.Enforced[i]
		f := p.model.Feature(e.Gate)
		if e.Kind != "" || f == nil || beyondWebhooks(e.Group) || p.openForAll(e) {
			continue
		}
		ask := askReject
		switch f.Spec.WhenDisabled {
		case v1alpha1.Warn:
			ask = askWarn
		case v1alpha1.Drop:
			ask = askDrop
			if e.Undropped {
				ask = askLeft
			}
		case v1alpha1.Reject:
		}
		m.addQuestion(ask, f, e)
	}
	for i := range p.set.Told {
		e := &p.set.Told[i]
		if f := p.model.Feature(e.Gate); f != nil && !beyondWebhooks(e.Group) {
			m.addQuestion(askWarn, f, e)
		}
	}
}

// addQuestion has the webhook asked about the parts of a feature.
//
// Features that name different versions of a resource with a conversion webhook are asked about under different names; see
// [namedVersions]. The versions in elsewhere are those that all features of a question leave to another webhook.
func (m *hookMaker) addQuestion(ask string, f *feature.Feature, e *policy.Enforced) {
	k, version := hookedResource{e.Group, e.Resource}, cmp.Or(e.Version, "*")
	if f.Spec.Parts[e.Part].WholeVersion {
		ask += wholeVersions
	} else if r, ok := m.plan.model.Resource(e.Group, e.Resource); ok && r.Converted {
		ask += namedVersions(f, e)
	}
	if m.asks[ask] == nil {
		m.asks[ask] = question{}
	}
	others := policy.ElsewhereJudged(m.plan.model, f, e.Group, e.Resource)
	a := m.asks[ask][k]
	if a == nil {
		a = &askedParts{elsewhere: others}
		m.asks[ask][k] = a
	}
	a.elsewhere = slices.DeleteFunc(a.elsewhere, func(v string) bool { return !slices.Contains(others, v) })
	for i := range f.Targets {
		if t := &f.Targets[i]; t.Part == e.Part && t.Group == e.Group && t.Resource == e.Resource && t.Version == e.Version {
			a.targets = append(a.targets, t)
			if ask == askReject+wholeVersions && t.WholeVersion && f.Spec.Ratchet != v1alpha1.Unchanged {
				m.closed[k] = append(m.closed[k], t)
			}
		}
	}
	if !slices.Contains(a.versions, version) {
		a.versions = append(a.versions, version)
	}
}

// asksFor returns the names under which these things are asked, in their order.
func (m *hookMaker) asksFor(what ...string) (out []string) {
	for _, ask := range slices.Sorted(maps.Keys(m.asks)) {
		if slices.Contains(what, purposeOf(ask)) {
			out = append(out, ask)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return slices.Index(what, purposeOf(a)) - slices.Index(what, purposeOf(b)) })
	return out
}

// makeHook makes the webhook that is asked under a name.
func (m *hookMaker) makeHook(ask string, namespaces *metav1.LabelSelector, fail admissionregistrationv1.FailurePolicyType) hook {
	name := m.plan.component.Name
	w := hook{
		Name: name + "." + ask + hookSuffix, ClientConfig: clientConfig(m.namespace, m.address, hookPath(name, purposeOf(ask))),
		FailurePolicy: &fail, MatchPolicy: matchPolicy(ask, m.conditions), NamespaceSelector: namespaces, ObjectSelector: &metav1.LabelSelector{},
		SideEffects: new(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: new(int32(10)), AdmissionReviewVersions: []string{"v1"},
	}
	if q := m.asks[ask]; q != nil {
		w.Rules = q.resourceRules()
		if m.conditions {
			w.MatchConditions = append(q.versionConditions(), q.matchConditions()...)
		}
	}
	return w
}

// resourceRules has a rule for each resource.
func (q question) resourceRules() (out []admissionregistrationv1.RuleWithOperations) {
	for k, a := range q {
		slices.Sort(a.versions)
		out = append(out, ruleFor(k.group, a.versions, append([]string{k.resource}, policy.Subresources(k.group, k.resource)...), admissionregistrationv1.AllScopes))
	}
	sortRules(out)
	return out
}

func sortRules(list []admissionregistrationv1.RuleWithOperations) {
	slices.SortFunc(list, func(a, b admissionregistrationv1.RuleWithOperations) int {
		return strings.Compare(a.Resources[0]+"."+a.APIGroups[0], b.Resources[0]+"."+b.APIGroups[0])
	})
}

func ruleFor(group string, versions, resources []string, scope admissionregistrationv1.ScopeType) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: versions, Resources: resources, Scope: &scope},
	}
}

// settingsHook makes the webhook that judges the settings. What got in all the same does no harm: the last good settings stay.
func (m *hookMaker) settingsHook(ref *v1alpha1.ConfigMapReference) hook {
	namespaces := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ref.Namespace}}
	w := m.makeHook(askSettings, namespaces, admissionregistrationv1.Ignore)
	w.Rules = []admissionregistrationv1.RuleWithOperations{ruleFor("", []string{"v1"}, []string{"configmaps"}, admissionregistrationv1.NamespacedScope)}
	if m.conditions {
		w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "settings", Expression: "request.name == '" + ref.Name + "'"}}
	}
	return w
}

const (
	// maxCondition bounds a match condition, in bytes.
	maxCondition = 16 << 10
	// changedCondition is the name of the condition that ignores changes of metadata and status.
	changedCondition = "changed"
)

// namedVersions is in the names of webhooks for a resource with a conversion webhook, for features that name these versions. The API
// server converts an object for a webhook only if no rule of that webhook has the object's version. So features that name other
// versions have a webhook of their own.
func namedVersions(f *feature.Feature, e *policy.Enforced) string {
	var names []string
	for i := range f.Targets {
		if t := &f.Targets[i]; t.Group == e.Group && t.Resource == e.Resource && !t.WholeVersion && !slices.Contains(names, t.Version) {
			names = append(names, t.Version)
		}
	}
	slices.Sort(names)
	return "." + strings.Join(names, "-")
}

// purposeOf is the purpose, without the words that distinguish webhooks with the same purpose.
func purposeOf(ask string) string {
	ask, _, _ = strings.Cut(ask, ".")
	return strings.TrimSuffix(ask, wholeVersions)
}

// matchPolicy makes the API server convert objects of other versions to one in the rules: a version may be new, or have other names
// for gated fields. Webhooks for whole versions do not convert.
func matchPolicy(ask string, conditions bool) *admissionregistrationv1.MatchPolicyType {
	if ask == askSettings || strings.HasSuffix(ask, wholeVersions) || !conditions {
		return new(admissionregistrationv1.Exact)
	}
	return new(admissionregistrationv1.Equivalent)
}

// versionConditions leave out objects of versions that are not converted before they are judged.
func (q question) versionConditions() (out []admissionregistrationv1.MatchCondition) {
	var ways []string
	for r, a := range q {
		list := slices.DeleteFunc(slices.Clone(a.elsewhere), func(v string) bool { return slices.Contains(a.versions, v) || slices.Contains(a.versions, "*") })
		if len(list) == 0 {
			continue
		}
		slices.Sort(list)
		ways = append(ways, fmt.Sprintf("!(request.requestResource.group == '%s' && request.requestResource.resource == '%s' && request.requestResource.version in ['%s'])", r.group, r.resource, strings.Join(list, "', '")))
	}
	slices.Sort(ways)
	if expression := strings.Join(ways, " && "); expression != "" {
		out = append(out, admissionregistrationv1.MatchCondition{Name: "version", Expression: expression})
	}
	return out
}

// matchConditions let some writes pass without the webhook, even if it is down: writes that only change metadata and status, and
// objects without any of the gated fields. The webhook judges the others.
//
// A condition that would be too long is left out, and the webhook is asked more often. With several resources, each has an
// alternative of its own, since a condition is about all rules of a webhook.
func (q question) matchConditions() []admissionregistrationv1.MatchCondition {
	var all []*feature.Target
	for _, a := range q {
		all = append(all, a.targets...)
	}
	var out []admissionregistrationv1.MatchCondition
	if changed := policy.Changed(all); len(changed) <= maxCondition {
		out = append(out, admissionregistrationv1.MatchCondition{Name: changedCondition, Expression: changed})
	}
	var ways []string
	for r, a := range q {
		filter := policy.Prefilter(a.targets)
		if len(q) == 1 {
			ways = append(ways, filter)
			break
		}
		way := fmt.Sprintf("request.resource.group == '%s' && request.resource.resource == '%s'", r.group, r.resource)
		if filter != "" {
			way += " && (" + filter + ")"
		}
		ways = append(ways, way)
	}
	slices.Sort(ways)
	expression := strings.Join(ways, " || ")
	if expression == "" || len(expression) > maxCondition {
		return out
	}
	return append(out, admissionregistrationv1.MatchCondition{Name: "uses-a-part", Expression: expression})
}

// openForAll reports whether the settings open the part for all users. Then its uses need no check.
func (p *plan) openForAll(e *policy.Enforced) bool {
	state, ok := p.states.State(e.Gate)
	return ok && p.known && state.Open
}

// keepConditions keeps the match conditions that are valid for other rules too: the one about changes, if both have the same.
func keepConditions(a, b []admissionregistrationv1.MatchCondition) (out []admissionregistrationv1.MatchCondition) {
	for _, c := range a {
		if c.Name == changedCondition && slices.Contains(b, c) {
			out = append(out, c)
		}
	}
	return out
}

// guardsSettings reports whether policies judge the settings when they are written.
func (p *plan) guardsSettings() bool {
	return p.set.SettingsReason == "" && slices.ContainsFunc(p.set.Validating, func(v admissionregistrationv1.ValidatingAdmissionPolicy) bool {
		return v.Name == policy.GuardName(p.component.Name)
	})
}

// clientConfig says how the API server calls a path of the webhook: by the URL that the webhook has told, as a webhook outside the
// cluster does, or else by the Service.
func clientConfig(namespace string, address map[string]string, path string) admissionregistrationv1.WebhookClientConfig {
	c := admissionregistrationv1.WebhookClientConfig{CABundle: []byte(address[bundleKey])}
	if url := address[urlKey]; url != "" {
		c.URL = new(strings.TrimSuffix(url, "/") + path)
	} else {
		c.Service = &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: Service, Path: &path, Port: new(int32(443))}
	}
	return c
}

package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// Objects returns all objects in the order in which to apply them: each policy before its binding, what guards the settings
// and keeps them watched first.
func (s *Set) Objects() []runtime.Object {
	var out []runtime.Object
	first := func(name string) bool {
		return strings.HasSuffix(name, "."+anchorName) || strings.HasSuffix(name, "."+guardName)
	}
	for _, anchors := range []bool{true, false} {
		for i := range s.Validating {
			if first(s.Validating[i].Name) == anchors {
				out = append(out, &s.Validating[i])
			}
		}
		for i := range s.Mutating {
			if first(s.Mutating[i].Name) == anchors {
				out = append(out, &s.Mutating[i])
			}
		}
		for i := range s.ValidatingBindings {
			if first(s.ValidatingBindings[i].Name) == anchors {
				out = append(out, &s.ValidatingBindings[i])
			}
		}
		for i := range s.MutatingBindings {
			if first(s.MutatingBindings[i].Name) == anchors {
				out = append(out, &s.MutatingBindings[i])
			}
		}
	}
	return out
}

const (
	anchorName = "anchor"
	guardName  = "settings"
)

// GuardName is the name of the policy that judges the settings of a component when they are written.
func GuardName(component string) string { return bounded("features." + component + "." + guardName) }

// nothing matches no request.
func nothing() *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"never.feature.sluice.dev"}, APIVersions: []string{"v1"}, Resources: []string{"nothing"}},
		}}},
	}
}

// anchors adds bindings that never match and keep the API server watching the settings. Without them it would stop when the
// last binding goes, and go on with what it saw then when one comes back (kubernetes/kubernetes issue 130887).
func (c *compiler) anchors() {
	s := c.set
	name := bounded(strings.Join([]string{"features", c.model.Component(), anchorName}, "."))
	ignore := admissionregistrationv1.Ignore
	if len(s.Validating) > 0 {
		s.Validating = append(s.Validating, admissionregistrationv1.ValidatingAdmissionPolicy{
			TypeMeta: typeMeta("ValidatingAdmissionPolicy"), ObjectMeta: c.objectMeta(name, nil),
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: &ignore, ParamKind: c.paramKind(), MatchConstraints: nothing(),
				Validations: []admissionregistrationv1.Validation{{Expression: "true"}},
			},
		})
		s.ValidatingBindings = append(s.ValidatingBindings, admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: typeMeta("ValidatingAdmissionPolicyBinding"), ObjectMeta: c.objectMeta(name, nil),
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ParamRef: c.paramRef(true), ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		})
	}
	if len(s.Mutating) > 0 {
		s.Mutating = append(s.Mutating, admissionregistrationv1.MutatingAdmissionPolicy{
			TypeMeta: typeMeta("MutatingAdmissionPolicy"), ObjectMeta: c.objectMeta(name, nil),
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				FailurePolicy: &ignore, ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy, ParamKind: c.paramKind(), MatchConstraints: nothing(),
				Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: "[JSONPatch{op: 'test', path: '/kind', value: 'Nothing'}]"}}},
			},
		})
		s.MutatingBindings = append(s.MutatingBindings, admissionregistrationv1.MutatingAdmissionPolicyBinding{
			TypeMeta: typeMeta("MutatingAdmissionPolicyBinding"), ObjectMeta: c.objectMeta(name, nil),
			Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name, ParamRef: c.paramRef(true)},
		})
	}
}

// guards tells whether a policy judges the settings. It needs no parameter. In live mode it comes with policies that have the
// settings as theirs; in baked mode those are gone as long as the settings open everything, and it stays.
func (c *compiler) guards() bool {
	if c.live {
		return len(c.set.Validating)+len(c.set.Mutating) > 0
	}
	return c.model.Spec().ConfigMap != nil && len(c.model.Features()) > 0 && c.minor >= validatingSince && !c.options.WithoutValidating
}

// guard adds the policy that refuses bad settings: the first error, in plain words. What is left as it is passes. In live mode
// it refuses the deletion of the settings, too; in baked mode that gives the defaults.
func (c *compiler) guard() error {
	ref := c.model.Spec().ConfigMap
	name := GuardName(c.model.Component())
	e := newEmitter()
	e.add("data", "request.operation != 'DELETE' && has(object.data) ? object.data : {}")
	e.add("same", "request.operation == 'UPDATE' && (has(oldObject.data) ? oldObject.data : {}) == variables.data")
	var problems []string
	for i, p := range c.problems(e) {
		problems = append(problems, e.add(fmt.Sprintf("p%d", i), p))
	}
	e.add("problems", "variables.same ? [] : ["+strings.Join(problems, ", ")+"].filter(p, p != '')")
	fail, exact := admissionregistrationv1.Fail, admissionregistrationv1.Exact
	reason := metav1.StatusReasonInvalid
	gone := fmt.Sprintf("these are the settings of component %q, which its policies need; without them writes of what they gate are refused", c.model.Component())
	rules := []admissionregistrationv1.NamedRuleWithOperations{
		{ResourceNames: []string{ref.Name}, RuleWithOperations: configMaps(admissionregistrationv1.Create, admissionregistrationv1.Update)},
	}
	var conditions []admissionregistrationv1.MatchCondition
	validations := []admissionregistrationv1.Validation{{
		Expression: "request.operation == 'DELETE' || variables.problems.size() == 0", Message: "the settings are bad", Reason: &reason,
		MessageExpression: "variables.problems.size() == 0 ? '' : variables.problems[0].size() > 1000 ? variables.problems[0].substring(0, 1000) : variables.problems[0]",
	}}
	if c.live {
		// The request that deletes several at once has no name.
		rules = append(rules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: configMaps(admissionregistrationv1.Delete)})
		conditions = []admissionregistrationv1.MatchCondition{{
			Name: "the-settings", Expression: "request.operation != 'DELETE' || oldObject.metadata.name == " + quote(ref.Name),
		}}
		// A namespace that is being deleted takes them with it.
		validations = slices.Insert(validations, 0, admissionregistrationv1.Validation{
			Expression: "request.operation != 'DELETE' || namespaceObject != null && has(namespaceObject.metadata.deletionTimestamp)", Message: gone, Reason: &reason,
		})
	}
	p := admissionregistrationv1.ValidatingAdmissionPolicy{TypeMeta: typeMeta("ValidatingAdmissionPolicy"), ObjectMeta: c.objectMeta(name, nil)}
	p.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: &fail,
		MatchConstraints: &admissionregistrationv1.MatchResources{
			MatchPolicy:       &exact,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ref.Namespace}},
			ResourceRules:     rules,
		},
		MatchConditions: conditions,
		Variables:       (&draft{emitter: e}).variables(),
		Validations:     validations,
	}
	run, err := newRunner(c.minor)
	if err != nil {
		return fmt.Errorf("compiling the policy of the settings: %w", err)
	}
	run.object, run.old = map[string]any{}, map[string]any{}
	for _, v := range e.vars {
		if err := run.compile(v); err != nil {
			return fmt.Errorf("compiling the policy of the settings: %w", err)
		}
	}
	c.set.Validating = append(c.set.Validating, p)
	c.set.ValidatingBindings = append(c.set.ValidatingBindings, admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: typeMeta("ValidatingAdmissionPolicyBinding"), ObjectMeta: c.objectMeta(name, nil),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})
	return nil
}

func configMaps(operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}
}

// problems lists expressions of texts that are empty where there is no such problem.
func (c *compiler) problems(e *emitter) []string {
	m, spec := c.model, c.model.Spec()
	var keys, bools, gateNames []string
	keys = append(keys, spec.LevelKey, spec.GatesKey)
	gateNames = append(gateNames, allAlpha, allBeta)
	for _, f := range m.Features() {
		keys = append(keys, f.Spec.Key)
		bools = append(bools, f.Spec.Key)
		gateNames = append(gateNames, f.Spec.Gate)
	}
	keys = append(keys, m.LeftOut()...)
	gateNames = append(gateNames, m.LeftOut()...) // behind those of features
	for _, s := range spec.Settings {
		keys = append(keys, s.Name)
	}
	isBool := "(" + trueWords + " + " + falseWords + ")"
	level, gatesKey := quote(spec.LevelKey), quote(spec.GatesKey)
	maximum := slices.Index(levels, spec.MaxLevel)
	words := make([]string, len(levels))
	for i, l := range levels {
		words[i] = string(l)
	}
	states := c.states
	if !c.live {
		states = m.Resolve(nil, c.options.Runtime) // settings that are written are judged by themselves
	}
	// What requires another is good where the other may be open for some resource, as for feature.ParseSettings.
	g := &gates{emitter: e, model: m, states: states, live: true, lifted: true, alike: true, done: map[string]bool{"data": true}}
	entries := g.entries()
	out := []string{
		first("variables.data.filter(k, !k.startsWith('_') && !(k in "+set(keys)+"))", "'there is no key ' + x + '; '", "the keys are "+strings.Join(first20(keys), ", ")),
		level + " in variables.data && !(variables.data[" + level + "].trim().lowerAscii() in " + quotes(words) + ") ? " + quote(spec.LevelKey+": the levels are stable, beta, alpha") + " : ''",
		level + " in variables.data && variables.data[" + level + "].trim().lowerAscii() in " + quotes(words[maximum+1:]) + " ? " + quote(fmt.Sprintf("%s: beyond %s, the maxLevel of component %q", spec.LevelKey, spec.MaxLevel, m.Component())) + " : ''",
		first(quotes(bools)+".filter(k, k in variables.data && !(variables.data[k].trim() in "+isBool+"))", "x + ': '", "neither true nor false"),
		gatesKey + " in variables.data && variables.data[" + gatesKey + "].size() > 65536 ? " + quote(spec.GatesKey+": longer than 65536 characters") + " : ''",
		first("("+gatesKey+" in variables.data && variables.data["+gatesKey+"].size() <= 65536 ? variables.data["+gatesKey+"].split(',').map(e, e.trim()) : []).filter(e, e != '' && !e.contains('='))",
			"x + ': '", "to be written as NAME=true or NAME=false"),
		first(entries+".filter(e, e.endsWith('='))", "x + ': '", "neither true nor false"),
		first(entries+".map(e, e.split('=')[0]).filter(n, !(n in "+set(gateNames)+"))", "'there is no gate ' + x + '; '", "the gates are "+strings.Join(first20(gateNames), ", ")),
	}
	twice := func(gate string) string {
		both := quote(gate + "=1")
		off := quote(gate + "=0")
		return entries + ".filter(e, e == " + both + " || e == " + off + ").size() > 1 ? " + quote(spec.GatesKey+": "+gate+" stands there twice") + " : ''"
	}
	for _, gate := range gateNames[:2+len(m.Features())] {
		out = append(out, twice(gate))
	}
	for _, p := range spec.Settings {
		if p.Pattern != "" {
			key := quote(p.Name)
			out = append(out, key+" in variables.data && !variables.data["+key+"].matches("+quote("^(?:"+p.Pattern+")$")+") ? "+quote(p.Name+": does not match "+clip(p.Pattern))+" : ''")
		}
	}
	for _, f := range m.Features() {
		out = append(out, c.featureProblems(g, f)...)
	}
	return out
}

// featureProblems are those of one feature: contradiction, and what cannot be set.
func (c *compiler) featureProblems(g *gates, f *feature.Feature) []string {
	gate := f.Spec.Gate
	said := g.says(gate, f)
	entries, key := g.entries(), quote(f.Spec.Key)
	value := g.data() + "[" + key + "].trim()"
	on, off := trueWords, falseWords
	if f.Spec.Inverted {
		on, off = off, on
	}
	out := []string{key + " in " + g.data() + " && (" + value + " in " + on + " && " + quote(gate+"=0") + " in " + entries + " || " + value + " in " + off + " && " + quote(gate+"=1") + " in " + entries + ") ? " +
		quote(fmt.Sprintf("%s and %s disagree on %s", f.Spec.Key, c.model.Spec().GatesKey, gate)) + " : ''"}
	switch {
	case f.Stage == v1alpha1.Removed:
	case f.Entry < 0:
		out = append(out, said+" != 0 ? "+quote(gate+": "+f.HowToOpen())+" : ''")
	case f.Locked:
		wrong := "1"
		if f.Default {
			wrong = "-1"
		}
		out = append(out, said+" == "+wrong+" ? "+quote(gate+": "+f.HowToOpen())+" : ''")
	case !f.Free():
		out = append(out, said+" == 1 ? "+quote(gate+": "+f.HowToOpen())+" : ''")
	default:
		for _, other := range f.Spec.Requires {
			open := g.isOpen(other, false)
			if open == "true" {
				continue
			}
			closed := "!" + open
			if open == "false" {
				closed = "true"
			}
			out = append(out, said+" == 1 && "+closed+" ? "+quote(fmt.Sprintf("%s is on, but requires %s, which is off", gate, other))+" : ''")
		}
	}
	return out
}

// first writes a text about the first item of a list.
func first(list, prefix, text string) string {
	return "(" + list + " + ['']).map(x, x == '' ? '' : " + prefix + " + " + quote(text) + ")[0]"
}

func set(keys []string) string {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return quotes(keys)
}

func first20(list []string) []string {
	if len(list) > 20 {
		return append(slices.Clone(list[:20]), "…")
	}
	return list
}

// merge joins policies that differ in the version only: they take one that names several.
func (s *Set) merge() {
	by := map[string]int{}
	renamed := map[string]string{}
	var kept []admissionregistrationv1.ValidatingAdmissionPolicy
	for _, p := range s.Validating {
		i, ok := by[keyOf(p.Spec.MatchConstraints, p.Spec, p.Annotations)]
		if !ok || len(p.Annotations) == 0 {
			by[keyOf(p.Spec.MatchConstraints, p.Spec, p.Annotations)] = len(kept)
			kept = append(kept, p)
			continue
		}
		join(kept[i].Spec.MatchConstraints, p.Spec.MatchConstraints)
		renamed[p.Name] = kept[i].Name
	}
	s.Validating = kept
	s.ValidatingBindings = slices.DeleteFunc(s.ValidatingBindings, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool { return renamed[b.Name] != "" })
	clear(by)
	var mutating []admissionregistrationv1.MutatingAdmissionPolicy
	for _, p := range s.Mutating {
		i, ok := by[keyOf(p.Spec.MatchConstraints, p.Spec, p.Annotations)]
		if !ok || len(p.Annotations) == 0 {
			by[keyOf(p.Spec.MatchConstraints, p.Spec, p.Annotations)] = len(mutating)
			mutating = append(mutating, p)
			continue
		}
		join(mutating[i].Spec.MatchConstraints, p.Spec.MatchConstraints)
		renamed[p.Name] = mutating[i].Name
	}
	s.Mutating = mutating
	s.MutatingBindings = slices.DeleteFunc(s.MutatingBindings, func(b admissionregistrationv1.MutatingAdmissionPolicyBinding) bool { return renamed[b.Name] != "" })
	for i := range s.Enforced {
		if to := renamed[s.Enforced[i].Name]; to != "" {
			s.Enforced[i].Name = to
		}
	}
}

// keyOf is the same for policies that differ in the version only.
func keyOf(m *admissionregistrationv1.MatchResources, spec any, annotations map[string]string) string {
	versions := m.ResourceRules[0].APIVersions
	if versions[0] != "*" {
		m.ResourceRules[0].APIVersions = nil
	}
	data, err := json.Marshal([]any{spec, annotations})
	m.ResourceRules[0].APIVersions = versions
	if err != nil {
		return versions[0] // they have no values that JSON does not
	}
	return string(data)
}

func join(to, from *admissionregistrationv1.MatchResources) {
	v := &to.ResourceRules[0]
	v.APIVersions = append(v.APIVersions, from.ResourceRules[0].APIVersions...)
	slices.Sort(v.APIVersions)
}

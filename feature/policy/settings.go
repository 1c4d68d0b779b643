package policy

// Are the settings themselves valid? Policies judge the ConfigMap of a component when it is written. For example, fast: "yes" is refused,
// because yes is no boolean.

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/brief"
)

// Bounds of the policies that judge settings. Beyond them it takes the webhook, which needs a thousandth of the time.
const (
	// maxGuards is how many there may be: together they cost a write of the settings a second of the API server's time at most.
	maxGuards = 3
	// maxGuardSize is how long the expressions of one may be in all, in bytes.
	maxGuardSize = 400 << 10
	// longestList is how many characters of a list of gates are read.
	longestList = 65_536
	// questionCost is what one question about a feature costs for each entry that there may be in the list of gates, at most.
	questionCost = 12
)

// guard is a policy that judges settings, in the making.
type guard struct {
	*gates

	run      *runner
	problems []string // names of variables that hold lists of problems
	cost     int64
	size     int
}

// newGuard begins a policy. It is measured with settings in which everything is set.
func (c *compiler) newGuard(ctx context.Context) (*guard, error) {
	run, err := c.newRunner()
	if err != nil {
		return nil, err
	}
	data := map[string]any{}
	list := ""
	for _, f := range c.model.Features() {
		data[f.Spec.Key] = "true"
		if entry := f.Spec.Gate + "=true,"; len(list)+len(entry) <= longestList { // a longer one costs nothing, because it is not read
			list += entry
		}
	}
	for _, p := range c.model.Spec().Settings {
		data[p.Name] = strings.Repeat("x", sampleText)
	}
	data[c.model.Spec().LevelKey], data[c.model.Spec().GatesKey] = "stable", strings.TrimSuffix(list, ",")
	before := maps.Clone(data)
	before[c.model.Spec().LevelKey] = "alpha"
	run.object, run.old = map[string]any{"data": data}, map[string]any{"data": before}
	run.request = map[string]any{"operation": "UPDATE"}
	e := newEmitter(c.minor)
	e.addVariable("data", "request.operation != 'DELETE' && has(object.data) ? object.data : {}")
	e.addVariable("binary", "request.operation != 'DELETE' && has(object.binaryData) ? object.binaryData : {}")
	e.addVariable("same", "request.operation == 'UPDATE' && (has(oldObject.data) ? oldObject.data : {}) == variables.data && (has(oldObject.binaryData) ? oldObject.binaryData : {}) == variables.binary")
	states := c.states
	if !c.live {
		states = c.model.Resolve(nil, c.options.Runtime) // settings that are written are judged by themselves
	}
	g := &guard{run: run, gates: &gates{emitter: e, model: c.model, states: states, live: true, alike: true, done: map[string]bool{"data": true}}}
	return g, g.measureVariables(ctx, 0)
}

// measureVariables measures the variables from one on. The error says why the API server would not take one.
func (g *guard) measureVariables(ctx context.Context, from int) error {
	for _, v := range g.vars[from:] {
		cost, err := g.run.runVariable(ctx, v)
		if err != nil {
			return fmt.Errorf("the API server would not take an expression: %s", brief.OneLine(err.Error()))
		}
		if cost > maxExpressionCost {
			return fmt.Errorf("it could cost %d, of 1000000 that an expression may cost", cost)
		}
		g.cost, g.size = g.cost+cost, g.size+len(v.expression)
	}
	return nil
}

// mostSummed is how many lists one expression joins. The API server's parser takes 250 terms.
const mostSummed = 50

// allProblems is an expression of the list of all problems.
func (g *guard) allProblems() string {
	all := g.problems
	for len(all) > mostSummed {
		var sums []string
		for some := range slices.Chunk(all, mostSummed) {
			sums = append(sums, g.addVariable(fmt.Sprint("sum", len(g.vars)), strings.Join(some, " + ")))
		}
		all = sums
	}
	return "variables.same ? [] : " + strings.Join(all, " + ")
}

// addProblems adds problems: expressions of lists of texts. room is false, and nothing is added, where they would cost too much together
// with those that are there.
func (g *guard) addProblems(ctx context.Context, problems func(*gates) []string) (room bool, err error) {
	vars, had, cost, size := len(g.vars), len(g.problems), g.cost, g.size
	for _, p := range problems(g.gates) {
		g.problems = append(g.problems, g.addVariable(fmt.Sprintf("p%d", len(g.problems)), p))
	}
	if err := g.measureVariables(ctx, vars); err != nil {
		return false, err
	}
	if g.cost <= maxGuardCost && g.size <= maxGuardSize {
		return true, nil
	}
	if had == 0 {
		return false, fmt.Errorf("it could cost %d, of 10000000 that a policy may cost in all", 2*g.cost)
	}
	g.vars, g.problems, g.cost, g.size = g.vars[:vars], g.problems[:had], cost, size
	return false, nil
}

// settingsGuards judge all settings together. The error says why it takes the webhook.
func (c *compiler) settingsGuards(ctx context.Context) (out []*guard, err error) {
	at, err := c.newGuard(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := at.addProblems(ctx, c.commonProblems); err != nil {
		return nil, err
	}
	features := c.model.Features()
	// To ask about a feature costs in proportion to how many there may be in the list of gates.
	step := max(1, maxExpressionCost/(questionCost*(len(features)+10)))
	for _, some := range chunkFeatures(features, step) {
		problems := func(g *gates) []string { return c.ofFeatures(g, some) }
		room, err := at.addProblems(ctx, problems)
		if err != nil {
			return nil, err
		}
		if room {
			continue
		}
		if out = append(out, at); len(out) == maxGuards {
			return nil, fmt.Errorf("for so many features it takes more than %d policies", maxGuards)
		}
		if at, err = c.newGuard(ctx); err != nil {
			return nil, err
		}
		if _, err := at.addProblems(ctx, problems); err != nil {
			return nil, err
		}
	}
	return append(out, at), nil
}

// chunkFeatures divides features into lists of up to some number, the names of which fit into a variable of 2 KB.
func chunkFeatures(features []*feature.Feature, most int) (out [][]*feature.Feature) {
	size := 0
	for _, f := range features {
		own := len(f.Spec.Gate) + len(f.Spec.Key) + len("'': '', ")
		if n := len(out); n == 0 || len(out[n-1]) == most || size+own > mostTable {
			out, size = append(out, nil), 0
		}
		size += own
		out[len(out)-1] = append(out[len(out)-1], f)
	}
	return out
}

// judgesSettings reports whether policies judge the settings. They need no parameter. In live mode they come with policies that have the
// settings as theirs; in baked mode those are gone as long as the settings open everything, and these stay.
func (c *compiler) judgesSettings() bool {
	if c.options.Unguarded {
		return false
	}
	if c.live {
		return len(c.set.Validating)+len(c.set.Mutating) > 0
	}
	return c.model.Spec().ConfigMap != nil && len(c.model.Features()) > 0 && c.minor >= validatingSince && !c.options.WithoutValidating
}

// addGuardPolicies adds the policies that refuse bad settings, with the first error as the message. Unchanged settings pass. In live mode the
// policies also refuse the deletion of the settings; in baked mode a deletion gives the defaults.
func (c *compiler) addGuardPolicies(ctx context.Context) {
	name := GuardName(c.model.Component())
	gone := fmt.Sprintf("these are the settings of component %q, which its policies read: change them instead", c.model.Component())
	// A namespace that is being deleted takes them with it. Immutable ones can only be deleted and made again.
	stays := admissionregistrationv1.Validation{
		Expression: "request.operation != 'DELETE' || has(oldObject.immutable) && oldObject.immutable || namespaceObject != null && has(namespaceObject.metadata.deletionTimestamp)",
		Message:    gone, Reason: new(metav1.StatusReasonInvalid),
	}
	mutable := admissionregistrationv1.Validation{
		Expression: "request.operation == 'DELETE' || !has(object.immutable) || !object.immutable || request.operation == 'UPDATE' && has(oldObject.immutable) && oldObject.immutable",
		Message:    fmt.Sprintf("immutable: true would lock the settings of component %q for good: leave immutable out", c.model.Component()), Reason: new(metav1.StatusReasonInvalid),
	}
	// The request that deletes several at once has no name.
	deletions := admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: configMaps(admissionregistrationv1.Delete)}
	writes := admissionregistrationv1.NamedRuleWithOperations{
		ResourceNames: []string{c.model.Spec().ConfigMap.Name}, RuleWithOperations: configMaps(admissionregistrationv1.Create, admissionregistrationv1.Update),
	}
	guards, err := c.settingsGuards(ctx)
	if err != nil {
		c.set.SettingsReason = err.Error()
		if !c.follows {
			return
		}
		c.guardPolicy(name, nil, []admissionregistrationv1.Validation{stays, mutable}, writes, deletions)
		return
	}
	for i, g := range guards {
		g.addVariable("problems", g.allProblems())
		bad := admissionregistrationv1.Validation{
			Expression: "request.operation == 'DELETE' || variables.problems.size() == 0", Message: "the settings are bad", Reason: new(metav1.StatusReasonInvalid),
			MessageExpression: "variables.problems.size() == 0 ? '' : variables.problems[0].size() > 1000 ? variables.problems[0].substring(0, 1000) : variables.problems[0]",
		}
		switch {
		case i == 0 && c.follows:
			c.guardPolicy(name, g.emitter, []admissionregistrationv1.Validation{stays, mutable, bad}, writes, deletions)
			continue
		case i == 0:
			c.guardPolicy(name, g.emitter, []admissionregistrationv1.Validation{mutable, bad}, writes)
			continue
		}
		c.guardPolicy(boundedName(fmt.Sprintf("features.%s.%s-%d", c.model.Component(), guardName, i+1)), g.emitter, []admissionregistrationv1.Validation{bad}, writes)
	}
}

// guardPolicy adds a policy for the settings, and its binding.
func (c *compiler) guardPolicy(name string, e *emitter, validations []admissionregistrationv1.Validation, rules ...admissionregistrationv1.NamedRuleWithOperations) {
	ref := c.model.Spec().ConfigMap
	spec := admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: new(admissionregistrationv1.Fail),
		MatchConstraints: &admissionregistrationv1.MatchResources{
			MatchPolicy:       new(admissionregistrationv1.Exact),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ref.Namespace}},
			ResourceRules:     rules,
		},
		MatchConditions: []admissionregistrationv1.MatchCondition{{
			Name: "the-settings", Expression: "request.operation != 'DELETE' || oldObject.metadata.name == " + celString(ref.Name),
		}},
		Validations: validations,
	}
	if e != nil {
		spec.Variables = (&draft{emitter: e}).apiVariables()
	}
	c.set.addValidating(c.objectMeta(name, nil), spec, nil, admissionregistrationv1.Deny)
}

func configMaps(operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}
}

// commonProblems lists expressions of lists of problems with the settings as a whole.
func (c *compiler) commonProblems(g *gates) []string {
	m, spec, e := c.model, c.model.Spec(), g.emitter
	// Names that stand in the definitions; the gates are those of features first.
	keys, gateNames := []string{spec.GatesKey}, []string{feature.AllAlpha, feature.AllBeta}
	if spec.Convention.HasLevel() {
		keys = append(keys, spec.LevelKey)
	}
	for _, f := range m.Features() {
		keys, gateNames = append(keys, f.Spec.Key), append(gateNames, f.Spec.Gate)
	}
	keys, gateNames = append(keys, m.LeftOut()...), append(gateNames, m.LeftOut()...)
	for _, s := range spec.Settings {
		keys = append(keys, s.Name)
	}
	level, gatesKey := celString(spec.LevelKey), celString(spec.GatesKey)
	maximum := slices.Index(levels, spec.MaxLevel)
	entries := g.gateEntries()
	out := []string{
		firstText("variables.binary.filter(k, !k.startsWith('_'))", "x + ': '", "nobody reads settings in binaryData: write it into data, as text"),
		firstText("variables.data.filter(k, !k.startsWith('_') && !("+isAmong(e, "k", "keys", keys)+"))", "'there is no key ' + x + '; '", "the keys are "+strings.Join(firstTwenty(keys), ", ")),
		level + " in variables.data && !(variables.data[" + level + "].trim().lowerAscii() in " + celStrings(levels) + ") ? " + celString(spec.LevelKey+": the levels are stable, beta, alpha") + " : ''",
		level + " in variables.data && variables.data[" + level + "].trim().lowerAscii() in " + celStrings(levels[maximum+1:]) + " ? " + celString(fmt.Sprintf("%s: beyond %s, the maxLevel of component %q", spec.LevelKey, spec.MaxLevel, m.Component())) + " : ''",
		gatesKey + " in variables.data && variables.data[" + gatesKey + "].size() > 65536 ? " + celString(spec.GatesKey+": longer than 65536 characters") + " : ''",
		firstText("("+gatesKey+" in variables.data && variables.data["+gatesKey+"].size() <= 65536 ? variables.data["+gatesKey+"].split(',').map(e, e.trim()) : []).filter(e, e != '' && !e.contains('='))",
			"x + ': '", "to be written as NAME=true or NAME=false"),
		firstText(entries+".filter(e, e.endsWith('='))", "x + ': '", "neither true nor false"),
		firstText(entries+".map(e, e.split('=')[0]).filter(n, !("+isAmong(e, "n", "gates", gateNames)+"))", "'there is no gate ' + x + '; '", "the gates are "+strings.Join(firstTwenty(gateNames), ", ")),
	}
	for _, p := range spec.Settings {
		key := celString(p.Name)
		value := "variables.data[" + key + "]"
		if p.Minimum != nil || p.Maximum != nil {
			good := []string{value + ".matches('^-?[0-9]{1,18}$')"}
			text := p.Name + ": a whole number is needed"
			if p.Minimum != nil {
				good, text = append(good, fmt.Sprintf("int(%s) >= %d", value, *p.Minimum)), text+fmt.Sprintf(", %d at least", *p.Minimum)
			}
			if p.Maximum != nil {
				good, text = append(good, fmt.Sprintf("int(%s) <= %d", value, *p.Maximum)), text+fmt.Sprintf(", %d at most", *p.Maximum)
			}
			out = append(out, key+" in variables.data && !("+joinAnd(good...)+") ? "+celString(text)+" : ''")
		}
		if p.Pattern != "" {
			out = append(out, key+" in variables.data && !variables.data["+key+"].matches("+celString("^(?:"+p.Pattern+")$")+") ? "+celString(p.Name+": does not match "+brief.Clip(p.Pattern, 80))+" : ''")
		}
	}
	named := g.addNamed()
	return append(nonEmptyLists(out), fmt.Sprintf("%[1]s.filter(n, %[2]s.indexOf(n) != %[2]s.lastIndexOf(n)).map(n, %[3]s + n + ' stands there twice')", celStrings([]string{feature.AllAlpha, feature.AllBeta}), named, celString(spec.GatesKey+": ")))
}

// nonEmptyLists are lists of those of some texts that say something, each in few bytes.
func nonEmptyLists(texts []string) (lists []string) {
	from, size := 0, 0
	for i, text := range texts {
		if size += len(text) + 2; size > shortText && i > from {
			lists = append(lists, nonEmptyTexts(texts[from:i]))
			from, size = i, len(text)+2
		}
	}
	return append(lists, nonEmptyTexts(texts[from:]))
}

// ofFeatures lists expressions of lists of problems with single features: a gate that is listed twice, contradictions, what
// cannot be set. Features are gone through by name: an expression for each would take the API server too much time to read.
func (c *compiler) ofFeatures(g *gates, features []*feature.Feature) []string {
	data, entries, gatesKey := g.paramsData(), g.gateEntries(), c.model.Spec().GatesKey
	keyOf, named := g.addKeys(features), g.addNamed()
	var all, plain, inverted, other []string
	notOn, notOff := map[string]string{}, map[string]string{}
	for _, f := range features {
		gate := f.Spec.Gate
		all = append(all, gate)
		if f.Spec.Inverted {
			inverted = append(inverted, gate)
		} else {
			plain = append(plain, gate)
		}
		text := gate + ": " + f.HowToOpen()
		switch {
		case f.Stage == v1alpha1.Removed:
		case f.Entry < 0:
			notOn[gate], notOff[gate] = text, text
		case f.Locked && f.Default:
			notOff[gate] = text
		case f.Locked, !f.Free():
			notOn[gate] = text
		default:
			other = append(other, c.requirementProblems(g, f)...)
		}
	}
	out := []string{fmt.Sprintf("%[1]s.filter(n, %[2]s.indexOf(n) != %[2]s.lastIndexOf(n)).map(n, %[3]s + n + ' stands there twice')", celStrings(all), named, celString(gatesKey+": "))}
	yes, no := g.boolWords(true), g.boolWords(false)
	out = append(out, fmt.Sprintf("%[1]s.filter(n, %[2]s[n] in %[3]s && !(%[3]s[%[2]s[n]].trim() in (%[4]s + %[5]s))).map(n, %[2]s[n] + ': neither true nor false')",
		celStrings(all), keyOf, data, yes, g.closedWords(no)))
	in := func(words string) string {
		return fmt.Sprintf("%[1]s[n] in %[2]s && %[2]s[%[1]s[n]].trim() in %[3]s", keyOf, data, words)
	}
	listed := func(bit string) string { return "(n + '=" + bit + "') in " + entries }
	for _, x := range []struct {
		gates   []string
		on, off string
	}{{plain, yes, g.closedWords(no)}, {inverted, no, g.closedWords(yes)}} {
		if x.gates == nil {
			continue
		}
		out = append(out, fmt.Sprintf("%s.filter(n, %s && %s || %s && %s).map(n, %s[n] + ' and %s disagree on ' + n)",
			celStrings(x.gates), in(x.on), listed("0"), in(x.off), listed("1"), keyOf, unquotedText(gatesKey)))
		// Different values in both places are reported as a contradiction.
		on, off := joinOr(in(x.on), listed("1")), joinOr(in(x.off), listed("0"))
		for _, no := range []struct {
			texts     map[string]string
			yes, rest string
		}{{notOn, on, off}, {notOff, off, on}} {
			texts := textMapOf(no.texts, x.gates)
			if texts != "" {
				out = append(out, fmt.Sprintf("%s.filter(n, %s && !%s).map(n, %s[n])", texts, no.yes, no.rest, texts))
			}
		}
	}
	if other != nil {
		out = append(out, "["+strings.Join(other, ", ")+"].filter(p, p != '')")
	}
	return out
}

// textMapOf writes a map of those of some gates; empty if there are none.
func textMapOf(of map[string]string, gates []string) string {
	var out []string
	for _, gate := range gates {
		if text, ok := of[gate]; ok {
			out = append(out, celString(gate)+": "+celString(text))
		}
	}
	if out == nil {
		return ""
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// unquotedText is a text as it stands within the quotes of a literal.
func unquotedText(s string) string {
	q := celString(s)
	if q[0] == '"' {
		q = strings.ReplaceAll(q, "'", "\\'")
	}
	return q[1 : len(q)-1]
}

// addKeys adds a map of the keys of some features by gate.
func (g *gates) addKeys(features []*feature.Feature) string {
	return g.addOnce("keyOf"+features[0].Spec.Gate, func() string {
		out := make([]string, len(features))
		for i, f := range features {
			out[i] = celString(f.Spec.Gate) + ": " + celString(f.Spec.Key)
		}
		return "{" + strings.Join(out, ", ") + "}"
	})
}

// addNamed adds the gates that the list of gates sets.
func (g *gates) addNamed() string {
	entries := g.gateEntries()
	return g.addOnce("named", func() string { return entries + ".filter(e, !e.endsWith('=')).map(e, e.split('=')[0])" })
}

// requirementProblems lists expressions of texts that are empty if a feature is not on without what it requires.
func (c *compiler) requirementProblems(g *gates, f *feature.Feature) (out []string) {
	for _, other := range f.Spec.Requires {
		open := g.isOpen(other, false)
		if open == "true" {
			continue
		}
		closed := "!" + open
		if open == "false" {
			closed = "true"
		}
		out = append(out, g.settingOf(f.Spec.Gate, f)+" == 1 && "+closed+" ? "+celString(fmt.Sprintf("%s is on, but requires %s, which is off", f.Spec.Gate, other))+" : ''")
	}
	return out
}

// firstText writes a text about the first item of a list.
func firstText(list, prefix, text string) string {
	return "(" + list + ".map(x, " + prefix + " + " + celString(text) + ") + [''])[0]"
}

// isAmong tests whether an expression is one of some names, which variables of up to 2 KB have as the keys of maps: a lookup in a map takes the
// same time for any size.
func isAmong(e *emitter, expression, variable string, names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	var ways []string
	for len(names) > 0 {
		n, size := 0, 0
		for n < len(names) && (n == 0 || size+len(celString(names[n])) <= mostTable) {
			size += len(celString(names[n]) + ": true, ")
			n++
		}
		entries := make([]string, n)
		for i, name := range names[:n] {
			entries[i] = celString(name) + ": true"
		}
		ways = append(ways, expression+" in "+e.addVariable(fmt.Sprint(variable, len(ways)), "{"+strings.Join(entries, ", ")+"}"))
		names = names[n:]
	}
	return joinOr(ways...)
}

// firstTwenty bounds the names in a message.
func firstTwenty(list []string) []string {
	if len(list) > 20 {
		return append(slices.Clone(list[:20]), "…")
	}
	return list
}

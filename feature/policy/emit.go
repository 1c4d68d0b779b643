package policy

// What is in the policy of a group? A draft has, for each target, the expression that says whether it is violated, the places of the
// violations and the text about them. For example: spec.tasks[1].timeout needs the feature TasksTimeout, which is off.

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/brief"
)

// Names of the API.
const (
	// ComponentLabel is on every object of a [Set]; its value is the component's name.
	ComponentLabel = "feature.sluice.dev/component"
	// GatesAnnotation lists the gates that a policy enforces, with commas between them.
	GatesAnnotation = "feature.sluice.dev/gates"
	// TellsAnnotation is on policies that only warn of uses, or of dropped parts, and enforce nothing; its value is true.
	TellsAnnotation = "feature.sluice.dev/tells"
)

// NoteAnnotation is the annotation on objects in which a component's policy records the parts that it dropped. Another policy warns
// of them, because a mutating policy cannot. It stays until the next write. If several policies drop parts of a resource, the name
// has a dash and a number for all but the first.
func NoteAnnotation(component string) string { return component + ".feature.sluice.dev/dropped" }

// draft are the expressions of a policy.
type draft struct {
	*emitter
	group *group
	used  string   // whether any part is used at all
	quick *quick   // in place of used, if that can be had
	valid []string // of each unit: it is not violated
	texts []string // the message of each unit; empty if it has none
	pairs bool     // texts are pairs, the second of them in few words: all together may be too long for a message
	// families are the units that share an expression, and familyOf is that of each.
	families []*family
	familyOf map[int]*family
	tables   map[string]*gateTable // by gate
	longest  int                   // how long a message can be, in bytes
	limits   []int                 // of each unit: how many items are gone through
}

// draftGroup writes the expressions of a group.
func (c *compiler) draftGroup(g *group) *draft {
	d := &draft{emitter: newEmitter(c.minor), group: g}
	if g.most > 0 {
		d.most = g.most
	}
	if g.sampled {
		s := c.chosenSampling()
		d.piece, d.whole = s.piece, s.whole
	}
	gs := c.newGates(d.emitter)
	if g.kind != tells {
		features := make([]*feature.Feature, len(g.units))
		for i := range g.units {
			features[i] = g.units[i].feature
		}
		gs.addTables(features)
	}
	d.tables = gs.tables
	d.used = d.usedAtAll()
	if d.used != "" && c.live && !g.plain && g.kind != tells {
		d.quick = quickTestOf(gs, g)
	}
	for i := range g.units {
		limit := c.itemLimit(&g.units[i])
		if g.sampled {
			limit = max(limit, sampleLimit(&g.units[i]))
		}
		d.limits = append(d.limits, limit)
	}
	d.familyOf = d.findFamilies(c, gs)
	tellings := make([]telling, len(g.units))
	for i := range g.units {
		u := &g.units[i]
		if f := d.familyOf[i]; f != nil {
			d.valid = append(d.valid, f.test)
			d.longest += f.form.longestText(u, c.problemOf(u))
			continue
		}
		tellings[i] = d.tellingOf(c, gs, u, i)
	}
	d.pairs = d.longest > longestMessage && g.kind != drops
	for i, t := range tellings {
		if d.familyOf[i] != nil {
			d.texts = append(d.texts, "")
			continue
		}
		d.texts = append(d.texts, t.messageText(d.pairs))
	}
	return d
}

// longestPlaces is how many bytes the text of several places has at most.
const longestPlaces = 4 * (300 + len(" and more"))

// tellingOf writes the text about a unit, and adds the expression that it is not violated.
func (d *draft) tellingOf(c *compiler, gs *gates, u *unit, i int) telling {
	uses, none := d.placesOf(u, i)
	if stored := d.usedBefore(u, c.options.Items); stored != "" {
		none = joinOr(none, stored)
	}
	d.valid = append(d.valid, d.wellOf(gs, u, none, true))
	long, short := clippedText(uses, 300), clippedText(uses, 60)
	d.longest += longestPlaces + len(c.problemOf(u)) + len("; also ")
	if place := u.target.Path.String(); uses == celString(place) {
		long, short = celString(clippedTo(place, 300)), celString(clippedTo(place, 60))
		d.longest -= longestPlaces - len(clippedTo(place, 300))
	}
	// A message is written without an authorizer, a patch with one.
	return telling{d.wellOf(gs, u, none, d.group.kind == drops), long + " + " + celString(c.problemOf(u)), short + " + " + celString(" ("+u.feature.Spec.Gate+")")}
}

// wellOf writes that a unit is not violated: it has no use, or its gate is open.
func (d *draft) wellOf(gs *gates, u *unit, none string, ask bool) string {
	return wellTest(u, none, d.openTest(gs, u, ask))
}

// openTest is the test whether the gate of a unit is open; nothing opens what a policy only tells.
func (d *draft) openTest(gs *gates, u *unit, ask bool) string {
	if d.group.kind == tells {
		return "false"
	}
	return gs.isOpen(u.feature.Spec.Gate, ask)
}

// wellTest asks the cheaper question first.
func wellTest(u *unit, none, open string) string {
	switch {
	case open == "false":
		return none
	case u.shape.lists:
		return open + " || " + none
	}
	return none + " || " + open
}

// telling is the text about a unit, long and short, unless all is well.
type telling struct{ well, long, short string }

// messageText is the expression of the message; with pair, of both forms of it, of which
// [compiler.fittedMessage] chooses.
func (t telling) messageText(pair bool) string {
	if pair {
		return t.well + " ? ['', ''] : [" + t.long + ", " + t.short + "]"
	}
	return t.well + " ? '' : " + t.long
}

// isOnePlace reports whether a unit has one place, all values of which are uses.
func (d *draft) isOnePlace(u *unit) bool {
	return !d.group.whole && u.shape.loop == len(u.target.Path) && !u.target.Narrowed() && !u.shape.exact
}

// withField is a unit with another field at a step of its path.
func (u *unit) withField(at int, name string) *unit {
	out, target := *u, *u.target
	target.Path = slices.Clone(target.Path)
	target.Path[at].Name = name
	out.target, out.shape.target = &target, &target
	return &out
}

// placesOf writes the variable of the places of a unit, and the test that there is none.
func (d *draft) placesOf(u *unit, i int) (uses, none string) {
	name := strconv.Itoa(i)
	if d.group.whole {
		uses = d.addVariable("b"+name, d.wholeVersion(u))
		return uses, uses + " == ''"
	}
	if d.isOnePlace(u) {
		// There is one place, which costs little to look at: the API server makes room for each variable with every request.
		w := &walker{shape: u.shape, emitter: d.emitter, id: name}
		f := w.findUses()
		// The test for the field comes first, because most objects do not have it. If its parent is missing, that test is an error;
		// another condition is then false, and so is the conjunction.
		there := len(f.conditions) - 3
		return f.body, "!(" + joinAnd(slices.Insert(slices.Delete(slices.Clone(f.conditions), there, there+1), 0, f.conditions[there])...) + ")"
	}
	var all, not []string
	for n, s := range u.ways {
		// The text of dropped places is stored: the same object has to get the same text.
		w := &walker{shape: s, emitter: d.emitter, id: name, limit: d.limits[i], sorted: d.group.kind == drops && !d.group.sampled}
		if n > 0 {
			w.id += "_" + strconv.Itoa(n)
		}
		places := d.addVariable("b"+w.id, w.usePlaces())
		one := places + " == ''"
		if more := w.allStoredTest(); more != "" {
			one = "(" + one + " || " + more + ")"
		}
		all, not = append(all, places), append(not, one)
	}
	if len(all) == 1 {
		return all[0], not[0]
	}
	// If a list is too long, all texts are the same.
	return d.addVariable("b"+name+"_", nonEmptyTexts(all)+".distinct().join(', ')"), "(" + joinAnd(not...) + ")"
}

// nonEmptyTexts are those of some texts that say something.
func nonEmptyTexts(texts []string) string {
	return "[" + strings.Join(texts, ", ") + "].filter(s, s != '')"
}

// clippedTo is what [clippedText] makes of a text that is known.
func clippedTo(text string, longest int) string {
	if r := []rune(text); len(r) > longest {
		return string(r[:longest]) + " and more"
	}
	return text
}

// clippedText cuts a text that may be long.
func clippedText(text string, longest int) string {
	return fmt.Sprintf("(%s.size() > %d ? %s.substring(0, %d) + ' and more' : %s)", text, longest, text, longest, text)
}

// problemOf describes the problem of a use, as [feature.Violation.What] does.
func (c *compiler) problemOf(u *unit) string {
	f := u.feature
	words := make([]string, len(u.target.Values))
	for i, v := range u.target.Values {
		words[i] = strconv.Quote(brief.Clip(v, 80))
	}
	if len(words) > 5 {
		words = append(words[:5], "another")
	}
	subject := u.target.Subject(strings.Join(words, " or "))
	if u.told {
		return ": " + subject + f.Told()
	}
	if u.remains {
		subject = "set again after it was dropped; " + subject
	}
	fix := f.HowToOpen()
	switch {
	case !c.live && u.state.Fix != "":
		fix = u.state.Fix
	case c.live && f.Free() && !u.state.Reported():
		fix += "; besides, " + strings.Join(c.absentProcesses(f), " and ") + " does not report it as on"
	}
	becomes := ""
	if !u.remains {
		becomes = u.target.Becomes()
	}
	return fmt.Sprintf(": %s%s%s; needs feature %q of component %q: %s", subject, f.StageName(), becomes, f.Spec.Gate, f.Spec.Component, fix)
}

// absentProcesses lists the required processes that do not report a feature as on.
func (c *compiler) absentProcesses(f *feature.Feature) []string {
	return slices.DeleteFunc(slices.Clone(f.Spec.RequiredProcesses), func(p string) bool { return c.options.Runtime.Processes[p][f.Spec.Gate] })
}

// wholeVersion writes where a whole version is used: nowhere if the object is not changed but for metadata, or was written
// in the version before, as its managed fields say. In writes of other versions and of the status it is where managed fields
// say so that did not before.
func (d *draft) wholeVersion(u *unit) string {
	t := u.target
	if !t.WholeVersion {
		return ""
	}
	once := func(name, expression string) string {
		if d.nodes[name] == "" {
			d.nodes[name] = name
			d.addVariable(name, expression)
		}
		return variableRef(name)
	}
	same := once("same", sameButMetadata)
	if u.feature.Spec.Ratchet == v1alpha1.Unchanged {
		return same + " ? '' : 'apiVersion'"
	}
	if d.group.claims {
		return claimsVersion("object", t) + " && !(" + claimsVersion("oldObject", t) + ") ? 'metadata.managedFields' : ''"
	}
	return once("written", claimsVersion("oldObject", t)) + " || " + same + " && !(" + claimsVersion("object", t) + ") ? '' : 'apiVersion'"
}

// sameButMetadata reports whether only metadata and status of an object are changed.
var sameButMetadata = joinAnd(isMap("oldObject"), specIsKept("object", "oldObject"), specIsKept("oldObject", "object"))

// specIsKept reports whether b has what a has besides metadata and status.
func specIsKept(a, b string) string {
	return a + ".all(k, k in ['metadata', 'status'] || " + a + "[k] == null || k in " + b + " && " + b + "[k] == " + a + "[k])"
}

// claimsVersion reports whether managed fields say that more of an object than metadata, status and scale was written in a target's
// version.
func claimsVersion(v string, t *feature.Target) string {
	owned := "!(k in ['f:metadata', 'f:status', '.'])"
	if n := len(t.Scale); n > 0 {
		var only []string // nothing is left where another has taken it over
		for i := range n {
			nested := "{}"
			for _, name := range slices.Backward(t.Scale[1 : i+1]) {
				nested = "{" + celString("f:"+name) + ": " + nested + "}"
			}
			only = append(only, "f.fieldsV1[k] == "+nested)
		}
		owned += " && !(k == " + celString("f:"+t.Scale[0]) + " && " + joinOr(only...) + ")"
	}
	return joinAnd(isMap(v), "has("+v+".metadata)", isMap(v+".metadata"), "has("+v+".metadata.managedFields)", isList(v+".metadata.managedFields"),
		v+".metadata.managedFields.exists(f, type(f) == map && has(f.apiVersion) && f.apiVersion == "+celString(schema.GroupVersion{Group: t.Group, Version: t.Version}.String())+
			" && (!has(f.subresource) || f.subresource == '') && has(f.fieldsV1) && type(f.fieldsV1) == map && f.fieldsV1.exists(k, "+owned+"))")
}

// addPolicy adds the policy and the binding of a group.
func (c *compiler) addPolicy(g *group, part int) {
	d := c.draftGroup(g)
	name := c.policyName(g, part)
	valid, told := d.addVerdict()
	if !g.claims && g.kind != tells {
		c.recordEnforced(name, g)
	}
	if g.kind == drops {
		d.addVariable("message", d.joinedMessage(told))
		c.dropPolicy(name, part, d)
		return
	}
	fail, actions := g.kind.failureAndActions()
	paramKind, paramRef, why := c.paramKind(), c.paramRef(), "a part of the object needs a feature that is off"
	// What is only told depends on no setting, so the policy needs no ConfigMap.
	if g.kind == tells {
		paramKind, paramRef, why = nil, nil, "a part of the object may change or go"
	}
	c.groupOf[name] = g
	c.set.addValidating(c.objectMeta(name, g), admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy:    fail,
		ParamKind:        paramKind,
		MatchConstraints: matchConstraints(g),
		MatchConditions:  d.matchConditions(""),
		Variables:        d.apiVariables(),
		Validations: []admissionregistrationv1.Validation{{
			Expression:        valid,
			Message:           why,
			MessageExpression: c.fittedMessage(d, told),
			Reason:            new(metav1.StatusReasonInvalid),
		}},
	}, paramRef, actions...)
}

// failureAndActions say what a policy that only validates does if it cannot be evaluated, and if it finds something.
func (k kind) failureAndActions() (fail *admissionregistrationv1.FailurePolicyType, actions []admissionregistrationv1.ValidationAction) {
	if k == warns || k == tells {
		return new(admissionregistrationv1.Ignore), []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn, admissionregistrationv1.Audit}
	}
	return new(admissionregistrationv1.Fail), []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
}

// joinedMessage is the full message.
func (d *draft) joinedMessage(told string) string {
	if d.pairs {
		return "(" + told + ").map(p, p[0]).join('; also ')"
	}
	return "(" + told + ").join('; also ')"
}

// longestMessage is what fits into a message: the API server takes 5 KiB, not a byte more (k8s.io/apiserver/pkg/apis/cel,
// MaxEvaluatedMessageExpressionSizeBytes).
const longestMessage = 5120

// fittedMessage shortens the parts of a message so that all of it fits into the API server's limit.
func (c *compiler) fittedMessage(d *draft, told string) string {
	if !d.pairs {
		return d.joinedMessage(told)
	}
	what := " parts need features of component %q that are off: "
	if d.group.kind == tells {
		what = " parts are not stable in component %q: "
	}
	list := fmt.Sprintf("string((%[1]s).size()) + %[2]s + (%[1]s).map(p, p[1]).join(', ')", told, celString(fmt.Sprintf(what, c.model.Component())))
	cut := "[" + list + "].map(x, bytes(x).size() <= 5120 ? x : [x.size() > 4000 ? x.substring(0, 4000) : x].map(y, " +
		"bytes(y).size() <= 5000 ? y : y.size() > 1200 ? y.substring(0, 1200) : y)[0] + ' and more')[0]"
	return fmt.Sprintf("[%s].map(t, bytes(t).size() <= %d ? t : %s)[0]", d.joinedMessage(told), longestMessage, cut)
}

func (d *draft) apiVariables() []admissionregistrationv1.Variable {
	out := make([]admissionregistrationv1.Variable, len(d.vars))
	for i, v := range d.vars {
		out[i] = admissionregistrationv1.Variable{Name: v.name, Expression: v.expression}
	}
	return out
}

// matchConditions skip the policy for objects that use no part, or only open parts. They cannot see its variables.
func (d *draft) matchConditions(besides string) []admissionregistrationv1.MatchCondition {
	if g := d.group; g.claims {
		return []admissionregistrationv1.MatchCondition{
			{Name: "not-a-write-in-the-version", Expression: notInVersion(g.version)},
			{Name: "names-the-version", Expression: claimsVersion("object", g.units[0].target)},
		}
	}
	if d.used == "" || d.group.costly {
		return nil
	}
	used := d.used
	if d.quick != nil {
		used = d.quick.text
	}
	used = d.anyFieldChanged() + " && " + used
	if besides != "" {
		used += " || " + besides
	}
	return []admissionregistrationv1.MatchCondition{{Name: "uses-a-part", Expression: used}}
}

// Subresources are those of a resource through which clients write whole objects of it, status left aside. They are judged as the
// resource is: kubectl debug adds containers to a pod so (k8s.io/kubernetes/pkg/registry/core/pod).
func Subresources(apiGroup, resource string) []string {
	if apiGroup == "" && resource == "pods" {
		return []string{"pods/ephemeralcontainers", "pods/resize"}
	}
	return nil
}

// matchConstraints are the writes that a policy judges: creations and updates in the version of a group.
// Policies about claims see all versions, and writes of the status too.
func matchConstraints(g *group) *admissionregistrationv1.MatchResources {
	exact := admissionregistrationv1.Exact
	version, resources := g.version, append([]string{g.resource}, Subresources(g.apiGroup, g.resource)...)
	if version == "" || g.claims {
		version = "*"
	}
	if g.claims {
		resources = append(resources, g.resource+"/status")
	}
	return &admissionregistrationv1.MatchResources{
		MatchPolicy: &exact,
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{g.apiGroup}, APIVersions: []string{version}, Resources: resources,
			},
		}}},
	}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
}

// policyName is that of a policy: features.COMPONENT.RESOURCE.GROUP.KIND.VERSION, with a number behind the kind from the second
// policy on.
func (c *compiler) policyName(g *group, part int) string {
	k := string(g.kind)
	if g.whole {
		k += "-version"
	}
	if g.claims {
		k += "-claim"
	}
	if part > 1 {
		k += "-" + strconv.Itoa(part)
	}
	version := cmp.Or(g.version, "all")
	if c.follows && !c.live {
		version += "-detached" // beside those that read the settings, so that either are in force before the others go
	}
	parts := []string{"features", c.model.Component(), g.resource, g.apiGroup, k, version}
	return boundedName(strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "."))
}

// boundedName keeps a name within what names may have.
func boundedName(name string) string {
	const longest = 253
	if len(name) <= longest {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:longest-17], ".-") + "-" + hex.EncodeToString(sum[:8])
}

// objectMeta is the metadata of a policy and of its binding. The group is nil for policies that enforce no
// feature.
func (c *compiler) objectMeta(name string, g *group) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name, Labels: map[string]string{ComponentLabel: c.model.Component()}}
	if g != nil {
		var gates []string
		for i := range g.units {
			gates = append(gates, g.units[i].feature.Spec.Gate)
		}
		m.Annotations = map[string]string{GatesAnnotation: strings.Join(slices.Compact(gates), ",")}
		if g.kind == tells {
			m.Annotations[TellsAnnotation] = "true"
		}
	}
	return m
}

// recordEnforced writes the gates of a policy into its metadata.
func (c *compiler) recordEnforced(name string, g *group) {
	k := "ValidatingAdmissionPolicy"
	if g.kind == drops {
		k = "MutatingAdmissionPolicy"
	}
	for i := range g.units {
		c.set.Enforced = append(c.set.Enforced, g.units[i].enforcedBy(k, name))
	}
}

func (c *compiler) paramKind() *admissionregistrationv1.ParamKind {
	if !c.live {
		return nil
	}
	return settingsKind()
}

func settingsKind() *admissionregistrationv1.ParamKind {
	return &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
}

// paramRef names the settings. While they are missing every write passes: the API server looks for them before match conditions, so
// that Deny would refuse labels and the removal of finalizers too, and keep objects and their namespaces from going
// (k8s.io/apiserver/pkg/admission/plugin/policy/generic).
func (c *compiler) paramRef() *admissionregistrationv1.ParamRef {
	if !c.live {
		return nil
	}
	return c.settingsRef()
}

func (c *compiler) settingsRef() *admissionregistrationv1.ParamRef {
	m := c.model.Spec().ConfigMap
	return &admissionregistrationv1.ParamRef{Name: m.Name, Namespace: m.Namespace, ParameterNotFoundAction: new(admissionregistrationv1.AllowAction)}
}

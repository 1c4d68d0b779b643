package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/feature"
	"sluice.dev/internal/brief"
)

// Names of the API.
const (
	// ComponentLabel is on every object of a [Set]; its value is the component's name.
	ComponentLabel = "feature.sluice.dev/component"
	// GatesAnnotation lists the gates that a policy enforces, with commas between them.
	GatesAnnotation = "feature.sluice.dev/gates"
	// TellsAnnotation is on policies that tell of uses, or of what was dropped, and enforce nothing; its value is true.
	TellsAnnotation = "feature.sluice.dev/tells"
)

// NoteAnnotation is the annotation on objects in which a component's policy leaves word of what it dropped, for another
// policy to warn of: the first cannot. It is there until the next write. Where several policies drop parts of a resource, that of each
// but the first has a dash and a number behind it.
func NoteAnnotation(component string) string { return component + ".feature.sluice.dev/dropped" }

// draft are the expressions of a policy.
type draft struct {
	*emitter
	group   *group
	used    string   // whether any part is used at all
	quick   *quick   // in place of used, if that can be had
	valid   []string // of each unit: it is not violated
	uses    []string // of each unit: the places of violations
	texts   []string // of each unit: what is told of them, empty where there is nothing to tell
	short   []string // the same in few words
	message string
	limits  []int // of each unit: how many items are gone through
}

// draft writes the expressions of a group.
func (c *compiler) draft(g *group) *draft {
	d := &draft{emitter: newEmitter(c.minor), group: g}
	if g.most > 0 {
		d.most = g.most
	}
	gs := &gates{emitter: d.emitter, model: c.model, states: c.states, live: c.live, lifted: g.lifted, done: map[string]bool{}}
	d.used = d.usedAtAll()
	if d.used != "" && c.live && !g.plain && g.kind != tells {
		d.quick = quickly(gs, g)
	}
	for i := range g.units {
		u := &g.units[i]
		gate := u.feature.Spec.Gate
		d.limits = append(d.limits, c.limit(u))
		uses, none := d.placesOf(u, i)
		d.uses = append(d.uses, uses)
		// The cheaper question first.
		valid := func(ask bool) string {
			open := "false"
			if g.kind != tells {
				open = gs.isOpen(gate, ask)
			}
			switch {
			case open == "false":
				return none
			case u.shape.lists:
				return open + " || " + none
			default:
				return none + " || " + open
			}
		}
		d.valid = append(d.valid, valid(true))
		// A message is written without an authorizer, a patch with one.
		well := valid(g.kind == drops)
		long, short := clipped(uses, 300), clipped(uses, 60)
		if place := u.target.Path.String(); uses == quote(place) {
			long, short = quote(clippedTo(place, 300)), quote(clippedTo(place, 60))
		}
		d.texts = append(d.texts, well+" ? '' : "+long+" + "+quote(c.what(u)))
		d.short = append(d.short, well+" ? '' : "+short+" + "+quote(" ("+gate+")"))
	}
	d.message = d.told("say", d.texts, "; also ")
	return d
}

// placesOf writes the variable of the places of a unit, and the test that there is none.
func (d *draft) placesOf(u *unit, i int) (uses, none string) {
	name := strconv.Itoa(i)
	if d.group.whole {
		uses = d.add("b"+name, d.wholeVersion(u))
		return uses, uses + " == ''"
	}
	if t := u.target; u.shape.loop == len(t.Path) && t.Values == nil && t.Pattern == nil && t.Match == nil && !u.shape.exact {
		// There is one place, which costs little to look at: the API server makes room for each variable with every request.
		w := &walker{shape: u.shape, emitter: d.emitter, id: name}
		f := w.found()
		return f.body, "!(" + and(f.conditions...) + ")"
	}
	var all, not []string
	for n, s := range u.ways {
		w := &walker{shape: s, emitter: d.emitter, id: name, limit: d.limits[i]}
		if n > 0 {
			w.id += "_" + strconv.Itoa(n)
		}
		places := d.add("b"+w.id, w.places())
		one := places + " == ''"
		if more := w.unindexed(); more != "" {
			one = "(" + one + " || " + more + ")"
		}
		all, not = append(all, places), append(not, one)
	}
	if len(all) == 1 {
		return all[0], not[0]
	}
	return d.add("b"+name+"_", said(all)+".join(', ')"), "(" + and(not...) + ")"
}

// said are those of some texts that say something.
func said(texts []string) string {
	return "[" + strings.Join(texts, ", ") + "].filter(s, s != '')"
}

// together is how many units share a variable: what the checker of expressions does grows with the square of their length
// (github.com/google/cel-go, checker, mapping.copy).
const together = 8

// told joins what some texts say.
func (d *draft) told(name string, texts []string, with string) string {
	join := ".join(" + quote(with) + ")"
	if len(texts) <= together {
		return said(texts) + join
	}
	var some []string
	for chunk := range slices.Chunk(texts, together) {
		some = append(some, d.add(name+strconv.Itoa(len(some)), said(chunk)+join))
	}
	return said(some) + join
}

// list lists what some texts say.
func (d *draft) list(name string, texts []string) string {
	var some []string
	for chunk := range slices.Chunk(texts, together) {
		some = append(some, d.add(name+strconv.Itoa(len(some)), said(chunk)))
	}
	if len(some) == 1 {
		return some[0]
	}
	return strings.Join(some, " + ")
}

// all tells whether all of some tests hold.
func (d *draft) all(tests []string) string {
	if len(tests) <= together {
		return conjunction(tests)
	}
	var some []string
	for chunk := range slices.Chunk(tests, together) {
		some = append(some, d.add("ok"+strconv.Itoa(len(some)), conjunction(chunk)))
	}
	return conjunction(some)
}

// clippedTo is what [clipped] makes of a text that is known.
func clippedTo(text string, longest int) string {
	if r := []rune(text); len(r) > longest {
		return string(r[:longest]) + " and more"
	}
	return text
}

// clipped cuts a text that may be long.
func clipped(text string, longest int) string {
	return fmt.Sprintf("(%s.size() > %d ? %s.substring(0, %d) + ' and more' : %s)", text, longest, text, longest, text)
}

// what tells what is wrong with a use, as [feature.Violation.What] does.
func (c *compiler) what(u *unit) string {
	f := u.feature
	subject := subjectOf(u.target)
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
		fix += "; besides, " + strings.Join(c.absent(f), " and ") + " does not report it as on"
	}
	return fmt.Sprintf(": %s%s; needs feature %q of component %q: %s", subject, f.StageName(), f.Spec.Gate, f.Spec.Component, fix)
}

// subjectOf says what of a place needs the feature, with a verb; empty if it is there at all.
func subjectOf(t *feature.Target) string {
	switch {
	case t.WholeVersion:
		return apiVersion(t.Group, t.Version) + " is "
	case t.Values != nil:
		words := make([]string, len(t.Values))
		for i, v := range t.Values {
			words[i] = strconv.Quote(brief.Clip(v, 80))
		}
		if len(words) > 5 {
			words = append(words[:5], "another")
		}
		return "value " + strings.Join(words, " or ") + " is "
	case t.Pattern != nil:
		return "a value that matches " + strconv.Quote(brief.Clip(t.Pattern.String(), 80)) + " is "
	case t.Match != nil:
		return "such an entry is "
	}
	return ""
}

// absent lists the required processes that do not report a feature as on.
func (c *compiler) absent(f *feature.Feature) []string {
	return slices.DeleteFunc(slices.Clone(f.Spec.RequiredProcesses), func(p string) bool { return c.options.Runtime.Processes[p][f.Spec.Gate] })
}

func apiVersion(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

// usedAtAll tells whether an object uses any part of a group, without asking what is open or stored.
func (d *draft) usedAtAll() string {
	if d.group.whole {
		return ""
	}
	root := &tree{}
	for i := range d.group.units {
		root.add(&d.group.units[i], 0)
	}
	return root.used(d.emitter, "object", "", 0)
}

// tree joins the paths of targets, so that each list is gone through once.
type tree struct {
	here     []*unit
	children []*branch
}

type branch struct {
	step feature.Step
	to   tree
}

func (n *tree) add(u *unit, i int) {
	if i == len(u.target.Path) {
		n.here = append(n.here, u)
		return
	}
	s := u.target.Path[i]
	for _, b := range n.children {
		if b.step.Name == s.Name && b.step.Kind == s.Kind {
			b.to.add(u, i+1)
			return
		}
	}
	b := &branch{step: s}
	n.children = append(n.children, b)
	b.to.add(u, i+1)
}

func (n *tree) used(e *emitter, v, outer string, depth int) string {
	var ways []string
	for _, u := range n.here {
		if way := uses(u.target, v); !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	x := fmt.Sprintf("x%d", depth)
	fields := &fieldWays{}
	for _, b := range n.children {
		switch b.step.Kind {
		case feature.Field:
			fields.add(b, and(has(v, b.step.Name), b.to.used(e, member(v, b.step.Name), outer, depth+1)))
		case feature.Entries, feature.Items, feature.Each:
			item, there := loopOf(v, b.step.Kind, x)
			ways = append(ways, and(there, e.few(v, outer, b.step.Kind, depth, ".exists("+x+", "+b.to.used(e, item, outer+v+".size() * ", depth+1)+")")))
		}
	}
	return or(append(ways, fields.ways(v, depth)...)...)
}

// fieldWays are what is asked about fields of a value.
type fieldWays struct {
	names, ends, others []string // of fields at which parts end, what is asked of those, and of other fields
}

func (f *fieldWays) add(b *branch, way string) {
	if len(b.to.children) > 0 {
		f.others = append(f.others, way)
		return
	}
	f.names, f.ends = append(f.names, b.step.Name), append(f.ends, way)
}

const (
	// manyFields is from how many fields on the keys of a value are looked at before the fields are asked for one by one: most objects
	// have few keys, none of which is gated.
	manyFields = 8
	// manyKeys is up to how many keys that is done.
	manyKeys = 1000
)

// ways asks whether anything holds for a field of a value; nil if nothing is asked.
func (f *fieldWays) ways(v string, depth int) []string {
	ways := f.others
	switch {
	case len(f.names) >= manyFields:
		k := fmt.Sprintf("k%d", depth)
		ways = append(ways, fmt.Sprintf("(%s.size() > %d || %s.exists(%s, %s in %s)) && (%s)", v, manyKeys, v, k, k, quotes(f.names), strings.Join(f.ends, " || ")))
	default:
		ways = append(ways, f.ends...)
	}
	if ways == nil {
		return nil
	}
	return []string{and(isMap(v), or(ways...))}
}

// few asks whether something holds for an item of a list, or a key of a map, if there are not too many of them; otherwise the
// answer is yes, and the variables find out.
func (e *emitter) few(v, outer string, k feature.StepKind, depth int, through string) string {
	switch {
	case !e.pieces:
		return v + through
	case outer != "":
		return fmt.Sprintf("(%s.size() > %d || %s%s.size() > %d || %s)", v, innerLimit, outer, v, e.most, looped(v, k)+through)
	}
	c := fmt.Sprintf("c%d", depth)
	return fmt.Sprintf("(%s.size() > %d || %s)", v, e.most, pieces(v, k, depth, ".exists("+c+", "+c+through+")"))
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
			d.add(name, expression)
		}
		return ref(name)
	}
	same := once("same", sameButMetadata)
	if u.feature.Spec.Ratchet != "InUse" {
		return same + " ? '' : 'apiVersion'"
	}
	if d.group.claims {
		return claim("object", t) + " && !(" + claim("oldObject", t) + ") ? 'metadata.managedFields' : ''"
	}
	return once("written", claim("oldObject", t)) + " || " + same + " && !(" + claim("object", t) + ") ? '' : 'apiVersion'"
}

// sameButMetadata tells whether only metadata and status of an object are changed.
var sameButMetadata = and(isMap("oldObject"), kept("object", "oldObject"), kept("oldObject", "object"))

// kept tells whether b has what a has besides metadata and status.
func kept(a, b string) string {
	return a + ".all(k, k in ['metadata', 'status'] || " + a + "[k] == null || k in " + b + " && " + b + "[k] == " + a + "[k])"
}

// claim tells whether managed fields say that more of an object than metadata, status and scale was written in a target's
// version.
func claim(v string, t *feature.Target) string {
	owned := "!(k in ['f:metadata', 'f:status', '.'])"
	if n := len(t.Scale); n > 0 {
		var only []string // nothing is left where another has taken it over
		for i := range n {
			nested := "{}"
			for _, name := range slices.Backward(t.Scale[1 : i+1]) {
				nested = "{" + quote("f:"+name) + ": " + nested + "}"
			}
			only = append(only, "f.fieldsV1[k] == "+nested)
		}
		owned += " && !(k == " + quote("f:"+t.Scale[0]) + " && " + or(only...) + ")"
	}
	return and(isMap(v), "has("+v+".metadata)", isMap(v+".metadata"), "has("+v+".metadata.managedFields)", isList(v+".metadata.managedFields"),
		v+".metadata.managedFields.exists(f, type(f) == map && has(f.apiVersion) && f.apiVersion == "+quote(apiVersion(t.Group, t.Version))+
			" && (!has(f.subresource) || f.subresource == '') && has(f.fieldsV1) && type(f.fieldsV1) == map && f.fieldsV1.exists(k, "+owned+"))")
}

// policy adds the policy and the binding of a group.
func (c *compiler) policy(g *group, part int) {
	d := c.draft(g)
	name := c.name(g, part)
	message := d.add("message", d.message)
	if !g.claims && g.kind != tells {
		c.meta(name, g)
	}
	if g.kind == drops {
		c.dropPolicy(name, part, d)
		return
	}
	fail := admissionregistrationv1.Fail
	actions := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	if g.kind == warns || g.kind == tells {
		fail = admissionregistrationv1.Ignore
		actions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn, admissionregistrationv1.Audit}
	}
	short := d.add("short", d.list("few", d.short))
	valid := d.all(d.valid)
	reason := metav1.StatusReasonInvalid
	paramKind, paramRef, why := c.paramKind(), c.paramRef(), "a part of the object needs a feature that is off"
	if g.kind == tells {
		paramKind, paramRef, why = nil, nil, "a part of the object may change or go"
	}
	c.groupOf[name] = g
	p := admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: c.objectMeta(name, g)}
	p.TypeMeta = typeMeta("ValidatingAdmissionPolicy")
	p.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy:    &fail,
		ParamKind:        paramKind,
		MatchConstraints: constraints(g),
		MatchConditions:  d.matchConditions(""),
		Variables:        d.variables(),
		Validations: []admissionregistrationv1.Validation{{
			Expression:        valid,
			Message:           why,
			MessageExpression: c.fitted(g.kind, message, short),
			Reason:            &reason,
		}},
	}
	c.set.Validating = append(c.set.Validating, p)
	c.set.ValidatingBindings = append(c.set.ValidatingBindings, admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: typeMeta("ValidatingAdmissionPolicyBinding"), ObjectMeta: c.objectMeta(name, g),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ParamRef: paramRef, ValidationActions: actions},
	})
}

// conjunction joins what must hold.
func conjunction(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = "(" + s + ")"
	}
	return strings.Join(out, " && ")
}

// fitted makes what fits into a message of two texts, the second of which has less of each part: the API server takes 5 KiB,
// not a byte more (k8s.io/apiserver/pkg/apis/cel, MaxEvaluatedMessageExpressionSizeBytes).
func (c *compiler) fitted(k kind, text, short string) string {
	what := " parts need features of component %q that are off: "
	if k == tells {
		what = " parts are not stable in component %q: "
	}
	list := fmt.Sprintf("string(%s.size()) + %s + %[1]s.join(', ')", short, quote(fmt.Sprintf(what, c.model.Component())))
	cut := "[" + list + "].map(x, bytes(x).size() <= 5120 ? x : [x.size() > 4000 ? x.substring(0, 4000) : x].map(y, " +
		"bytes(y).size() <= 5000 ? y : y.size() > 1200 ? y.substring(0, 1200) : y)[0] + ' and more')[0]"
	return fmt.Sprintf("bytes(%[1]s).size() <= 5120 ? %[1]s : %[2]s", text, cut)
}

func (d *draft) variables() []admissionregistrationv1.Variable {
	out := make([]admissionregistrationv1.Variable, len(d.vars))
	for i, v := range d.vars {
		out[i] = admissionregistrationv1.Variable{Name: v.name, Expression: v.expression}
	}
	return out
}

// matchConditions keep objects that use no part, or only what is open, from the policy. They cannot see its variables.
func (d *draft) matchConditions(besides string) []admissionregistrationv1.MatchCondition {
	if g := d.group; g.claims {
		return []admissionregistrationv1.MatchCondition{
			{Name: "not-a-write-in-the-version", Expression: elsewhere(g.version)},
			{Name: "names-the-version", Expression: claim("object", g.units[0].target)},
		}
	}
	if d.used == "" || d.group.costly {
		return nil
	}
	used := d.used
	if d.quick != nil {
		used = d.quick.text
	}
	used = d.changed() + " && " + used
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

func constraints(g *group) *admissionregistrationv1.MatchResources {
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

// name is that of a policy: features.COMPONENT.RESOURCE.GROUP.KIND.VERSION, with a number behind the kind from the second
// policy on.
func (c *compiler) name(g *group, part int) string {
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
	version := g.version
	if version == "" {
		version = "all"
	}
	if c.follows && !c.live {
		version += "-detached" // beside those that read the settings, so that either are in force before the others go
	}
	parts := []string{"features", c.model.Component(), g.resource, g.apiGroup, k, version}
	return bounded(strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "."))
}

// bounded keeps a name within what names may have.
func bounded(name string) string {
	const longest = 253
	if len(name) <= longest {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:longest-17], ".-") + "-" + hex.EncodeToString(sum[:8])
}

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

// meta notes what a policy enforces.
func (c *compiler) meta(name string, g *group) {
	k := "ValidatingAdmissionPolicy"
	if g.kind == drops {
		k = "MutatingAdmissionPolicy"
	}
	for i := range g.units {
		t := g.units[i].target
		c.set.Enforced = append(c.set.Enforced, Enforced{
			Gate: g.units[i].feature.Spec.Gate, Part: t.Part, Group: t.Group, Version: t.Version, Resource: t.Resource, Kind: k, Name: name,
			Undropped: g.units[i].remains,
		})
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

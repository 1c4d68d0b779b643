package featuregen

// Do the evaluator and the policies agree? A trial has both for one world, and judges pairs of objects by each.
// For example, if the evaluator refuses .spec.mode, a policy has to name that place.

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
)

// Trial is a world with policies for it.
// The evaluator and the simulator judge the same requests. oddly says whether objects are drawn that the
// schema does not allow: an API server would refuse those before it asks policies, but the evaluator must
// agree for them as well.
type Trial struct {
	World     *World
	States    *feature.States
	Set       *policy.Set
	Settings  map[string]string
	OptedIn   []string // gates
	ByLabel   bool     // the namespace opted in, not the user
	Webhook   []policy.Enforced
	evaluator *feature.Evaluator
	simulator *simulate.Simulator
	oddly     bool
}

// NewTrial draws a world, settings and users who opted in, and compiles both sides. It removes parts that need the webhook from the
// features; Webhook counts them.
// Compilation is the slow part, so tests draw many pairs of objects for one trial.
func NewTrial(ctx context.Context, r *rand.Rand) (*Trial, error) {
	return drawTrial(r, func(t *Trial) (err error) {
		// A lower bound of items than usual keeps in policies what would otherwise take the webhook.
		o := policy.Options{Mode: pickOne(r, v1alpha1.Live, v1alpha1.Baked), Items: 500}
		if t.Set, t.Webhook, err = t.World.CompileWithoutWebhook(ctx, t.Settings, o); err != nil {
			return err
		}
		t.simulator, err = simulate.New(t.Set)
		return err
	})
}

// CompileWithoutWebhook makes policies with the settings. It removes parts that need the webhook from the features, and returns them.
// It compiles again after each removal, because a part may need the webhook only beside others. It ends
// because each round takes parts away.
func (w *World) CompileWithoutWebhook(ctx context.Context, settings map[string]string, o policy.Options) (set *policy.Set, removed []policy.Enforced, err error) {
	for {
		o.Settings, _ = w.Model.ParseSettings(settings)
		if set, err = policy.Compile(ctx, w.Model, o); err != nil || !set.Webhook {
			return set, removed, err
		}
		taken := map[string]bool{}
		for _, e := range set.Enforced {
			if e.Kind == "" {
				removed = append(removed, e)
				taken[fmt.Sprint(e.Gate, e.Part)] = true
			}
		}
		w.Without(func(gate string, part int) bool { return taken[fmt.Sprint(gate, part)] })
	}
}

// NewEvaluation draws a world, settings and those who opted in as [NewTrial] does, but makes no policies: nothing is left out.
func NewEvaluation(r *rand.Rand) (*Trial, error) {
	return drawTrial(r, func(*Trial) error { return nil })
}

// drawTrial draws all but the compilation. The draws come in one order, whatever compile does, so that a
// seed gives the same world to both kinds of trials.
func drawTrial(r *rand.Rand, compile func(*Trial) error) (*Trial, error) {
	w, err := New(r)
	if err != nil {
		return nil, err
	}
	t := &Trial{World: w, Settings: w.Settings(r), oddly: true}
	if err := compile(t); err != nil {
		return nil, err
	}
	settings, _ := w.Model.ParseSettings(t.Settings)
	t.States = w.Model.Resolve(settings, feature.Runtime{})
	t.evaluator = t.States.Compile()
	t.optIn(r)
	return t, nil
}

// optIn draws the gates that were opted in to, and in which of the two ways, if the component allows
// both.
func (t *Trial) optIn(r *rand.Rand) {
	for _, f := range t.World.Features {
		if r.IntN(4) == 0 {
			t.OptedIn = append(t.OptedIn, f.Spec.Gate)
		}
	}
	if in := t.World.Component.Spec.OptIn; in != nil {
		t.ByLabel = in.NamespaceLabel && (!in.RBAC || r.IntN(2) == 0)
	}
}

// optsIn reports whether a gate was opted in to.
// Either the label of the namespace or the right of the user counts, by what was drawn.
func (t *Trial) optsIn(gate string) bool {
	in := t.World.Component.Spec.OptIn
	return in != nil && (in.NamespaceLabel && t.ByLabel || in.RBAC && !t.ByLabel) && slices.Contains(t.OptedIn, gate)
}

// NamespaceLabels are those by which the namespace opts in.
// A gate may be opted in to by several labels; one of them is chosen by the length of its name.
func (t *Trial) NamespaceLabels() map[string]string {
	out := map[string]string{}
	if t.ByLabel {
		for _, gate := range t.OptedIn {
			labels := feature.OptInLabels("gen", gate)
			out[labels[len(gate)%len(labels)]] = feature.OptInValue
		}
	}
	return out
}

// Evaluate asks the evaluator.
// old is nil for a creation.
func (t *Trial) Evaluate(old, object map[string]any) feature.Decision {
	return t.evaluator.Evaluate(&feature.Request{Group: Group, Version: versionOf(object), Resource: Resource, Old: old, Object: object, OptedIn: t.optsIn})
}

// versionOf is that in which an object is written.
func versionOf(object map[string]any) string {
	v, _ := object["apiVersion"].(string)
	return strings.TrimPrefix(v, Group+"/")
}

// Try judges a pair on both sides; the error says how they differ. It reports whether anything was refused, dropped or warned
// of.
// The error has all that is needed to see the case again: both objects, the settings and the answer of
// the policies.
func (t *Trial) Try(ctx context.Context, old, object map[string]any) (said bool, err error) {
	d := t.Evaluate(old, object)
	res, err := t.simulator.Run(ctx, &simulate.Request{
		Group: Group, Version: versionOf(object), Resource: Resource, Object: object, Old: old, Settings: t.Settings,
		NamespaceLabels: t.NamespaceLabels(), MayUse: func(name string) bool { return slices.Contains(t.MayUse(), name) },
	})
	if err != nil {
		return false, err
	}
	said = d.Rejected.Count+d.Dropped.Count+d.Warned.Count > 0
	if problem := t.describeDifference(&d, res, object); problem != "" {
		return said, fmt.Errorf("%s\nold %s\nnew %s\nsettings %v, opted in to %v\nresult %s", problem, Show(old), Show(object), t.Settings, t.OptedIn, Show(res))
	}
	return said, nil
}

// describeDifference compares a decision with the answers of the policies: whether the request passes,
// what it is refused or warned for, what is dropped, and the object that is stored. It is empty if both
// agree. A refused request is not compared further, because no side looks at the rest then.
func (t *Trial) describeDifference(d *feature.Decision, res *simulate.Result, object map[string]any) string {
	// A policy that fails, or that has only the API server's own words, is a fault of the compiler,
	// whatever the evaluator says.
	for _, r := range slices.Concat(res.Refused, res.Warned) {
		if r.Failed {
			return fmt.Sprintf("policy %s failed: %s", r.Policy, r.Message)
		}
		if strings.Contains(r.Message, "failed expression") || strings.Contains(r.Message, "a part of the object needs") {
			return fmt.Sprintf("policy %s has no message: %s", r.Policy, r.Message)
		}
	}
	if d.Allowed() != res.Allowed() {
		return fmt.Sprintf("the evaluator says %s, the policies %v", d.Message(), res.Refused)
	}
	asked := t.World.Component.Spec.OptIn != nil && t.World.Component.Spec.OptIn.RBAC
	if problem := sameUses("refused", violationsOf(d.Rejected), violationsInMessages(res.Refused, ""), asked); problem != "" {
		return problem
	}
	if !d.Allowed() {
		return ""
	}
	if problem := sameUses("warned of", violationsOf(d.Warned), violationsInMessages(res.Warned, ""), asked); problem != "" {
		return problem
	}
	// A policy also reports parts inside of those that it drops.
	// The lists of drops differ for that reason, so only the places that the evaluator names have to be
	// there.
	gone := violationsInMessages(res.Warned, "dropped ")
	if problem := sameUses("dropped", droppedFirst(violationsOf(d.Dropped), gone), gone, true); problem != "" {
		return problem
	}
	want, got := d.Object, res.Object
	if want == nil {
		want = object
	}
	if got == nil {
		got = object
	}
	if a, b := Show(withoutDropNote(want)), Show(withoutDropNote(got)); a != b {
		return fmt.Sprintf("the evaluator writes %s, the policies %s", a, b)
	}
	return ""
}

// withoutDropNote returns an object without the note about dropped parts.
// Policies note in an annotation what they dropped. The evaluator needs no such note.
func withoutDropNote(object map[string]any) map[string]any {
	out := maps.Clone(object)
	meta, ok := out["metadata"].(map[string]any)
	if !ok {
		return out
	}
	meta = maps.Clone(meta)
	out["metadata"] = meta
	if notes, ok := meta["annotations"].(map[string]any); ok {
		notes = maps.Clone(notes)
		maps.DeleteFunc(notes, func(name string, _ any) bool { return strings.HasPrefix(name, policy.NoteAnnotation("gen")) })
		meta["annotations"] = notes
		if len(notes) == 0 {
			delete(meta, "annotations")
		}
	}
	return out
}

// violationsOf lists violations as GATE PLACE.
func violationsOf(v feature.Violations) map[string]bool {
	out := map[string]bool{}
	for _, x := range v.List {
		out[x.State.Feature.Spec.Gate+" "+x.Path] = true
	}
	return out
}

// droppedFirst leaves out what another feature has dropped already: the policy of the second does not see it any more.
// The evaluator knows all features at once. Policies run one after the other, each on what the last has
// left.
func droppedFirst(want, got map[string]bool) map[string]bool {
	places := map[string]bool{}
	for use := range got {
		_, place, _ := strings.Cut(use, " ")
		places[place] = true
	}
	out := maps.Clone(want)
	maps.DeleteFunc(out, func(use string, _ bool) bool {
		_, place, _ := strings.Cut(use, " ")
		return !got[use] && places[place]
	})
	return out
}

// violationsInMessages reads violations out of messages; nil if one was cut.
// Messages of drops begin with "dropped ": with that prefix they are read, and without it all others.
func violationsInMessages(list []simulate.Refusal, prefix string) map[string]bool {
	out := map[string]bool{}
	for _, r := range list {
		if strings.HasPrefix(r.Message, "dropped ") != (prefix != "") {
			continue
		}
		if !Told(out, strings.TrimPrefix(r.Message, prefix)) {
			return nil
		}
	}
	return out
}

// Told adds the violations of a message to a set, as GATE PLACE; false if the message was cut.
// It reads what policies and the evaluator write for people: PLACES: GATE needs feature "GATE", with
// several uses joined by "; also ".
func Told(out map[string]bool, message string) bool {
	if strings.Contains(message, " and more") {
		return false
	}
	for part := range strings.SplitSeq(message, "; also ") {
		places, rest, _ := strings.Cut(part, ": ")
		_, gate, _ := strings.Cut(rest, `needs feature "`)
		gate, _, _ = strings.Cut(gate, `"`)
		for _, place := range splitPlaces(places) {
			out[gate+" "+place] = true
		}
	}
	return true
}

// splitPlaces splits at commas outside of quotes.
// A key of a map is in quotes, and may have commas in it.
func splitPlaces(s string) (out []string) {
	quoted, from := false, 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quoted:
			i++
		case s[i] == '"':
			quoted = !quoted
		case !quoted && strings.HasPrefix(s[i:], ", "):
			out = append(out, s[from:i])
			from = i + 2
		}
	}
	return append(out, s[from:])
}

// sameUses compares the uses of gated parts, each as GATE PLACE. With more, the policies may tell others
// besides: they judge parts of an object one by one. A got of nil stands for a message that was cut,
// which says nothing.
func sameUses(what string, want, got map[string]bool, more bool) string {
	if got == nil {
		return ""
	}
	for _, use := range slices.Sorted(maps.Keys(want)) {
		if !got[use] {
			return fmt.Sprintf("%s: the evaluator says %s, the policies %v", what, use, slices.Sorted(maps.Keys(got)))
		}
	}
	if more && len(want) > 0 || len(got) == len(want) {
		return ""
	}
	return fmt.Sprintf("%s: the evaluator says %v, the policies %v", what, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
}

// Pair draws an old object, nil now and then, and a new one.
// An old object of nil makes it a creation.
func (t *Trial) Pair(r *rand.Rand) (old, object map[string]any) {
	if r.IntN(4) == 0 {
		return nil, t.World.Object(r, t.oddly)
	}
	old = t.World.Object(r, t.oddly)
	return old, t.World.Change(r, old, t.oddly)
}

// Valid has objects drawn that the schema allows.
func (t *Trial) Valid() { t.oddly = false }

// MayUse lists the names of the features that the user has the verb use on.
func (t *Trial) MayUse() (names []string) {
	if !t.ByLabel {
		for _, gate := range t.OptedIn {
			names = append(names, feature.ObjectName("gen", gate))
		}
	}
	return names
}

// Update draws an old object and a new one.
// The metadata are plain, so that an API server takes the object.
func (t *Trial) Update(r *rand.Rand) (old, object map[string]any) {
	old = t.World.Object(r, t.oddly)
	object = t.World.Change(r, old, t.oddly)
	object["metadata"] = map[string]any{"name": "x", "namespace": "default"}
	return old, object
}

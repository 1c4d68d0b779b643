package contain

import (
	"context"
	"reflect"
	"strings"

	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/schema/upstream"
)

// search turns suspects into gaps: it looks for objects that show the trouble and has them confirmed.
type search struct {
	*walker
	oldRoot          place
	oldSide, newSide Side
}

// resolve decides one suspect. It returns false where the whole schema proves what its part could not.
func (s *search) resolve(ctx context.Context, x *suspect) (Gap, bool) {
	g := x.gap
	if err := ctx.Err(); err != nil {
		g.Verdict, g.Reason = Unknown, "stopped: "+err.Error()
		return g, true
	}
	if g.Harm == RefusedTransition {
		return s.resolveTransition(ctx, x)
	}
	tries := orDefault(s.opts.Tries, 48)
	base := []logic.Formula{s.old.accepts(s.oldRoot), s.envelope(), x.goal}
	r := s.solver.Solve(min(tries, 12), base...)
	if r.None {
		return g, false
	}
	if len(r.Models) == 0 {
		g.Verdict, g.Reason = Unknown, r.Reason
		return g, true
	}
	reason := ""
	for _, models := range s.rounds(x, r.Models, base, tries) {
		c, err := s.newConfirmer(models)
		if err != nil {
			g.Verdict, g.Reason = Unknown, err.Error()
			return g, true
		}
		for _, m := range models {
			obj, ok := m.(map[string]any)
			if !ok {
				continue
			}
			w, why := c.confirm(ctx, &g, obj)
			if w != nil {
				g.Verdict, g.Witness = NotContained, w
				return g, true
			}
			if reason == "" {
				reason = why
			}
		}
	}
	g.Verdict, g.Reason = Unknown, orDefault(reason, "no candidate could be confirmed")
	return g, true
}

// rounds yields batches of candidates: simple ones first, then more of them.
func (s *search) rounds(_ *suspect, first []any, base []logic.Formula, tries int) func(func(int, []any) bool) {
	return func(yield func(int, []any) bool) {
		if !yield(0, first[:1]) || len(first) > 1 && !yield(1, first[1:]) {
			return
		}
		if more := s.solver.Solve(tries, base...); len(more.Models) > len(first) {
			yield(2, more.Models[len(first):])
		}
	}
}

// envelope is what every object of the resource has in common.
func (s *search) envelope() logic.Formula {
	o := s.opts
	group, version, kind := orDefault(o.Group, "example.com"), orDefault(o.Version, "v1"), orDefault(o.Kind, "Example")
	one := func(v string) logic.Formula { return logic.Enum{Values: []any{v}} }
	name := logic.Or{one("example"), logic.And{
		logic.Kinds(logic.String), logic.Length{Min: 1, Max: 253},
		logic.Pattern{Expr: `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`},
	}}
	meta := logic.And{logic.Kinds(logic.Object), logic.Has{Name: "name"}, logic.Prop{Name: "name", F: name}}
	fields := []string{"name"}
	if o.Namespaced {
		meta = append(meta, logic.Has{Name: "namespace"}, logic.Prop{Name: "namespace", F: one("default")})
		fields = append(fields, "namespace")
	}
	meta = append(meta, logic.Rest{Except: fields, F: logic.False})
	return logic.And{
		logic.Kinds(logic.Object),
		logic.Has{Name: "apiVersion"}, logic.Prop{Name: "apiVersion", F: one(group + "/" + version)},
		logic.Has{Name: "kind"}, logic.Prop{Name: "kind", F: one(kind)},
		logic.Has{Name: "metadata"}, logic.Prop{Name: "metadata", F: meta},
	}
}

// confirmer runs candidates through the upstream code of both sides.
type confirmer struct {
	old, new *upstream.Validator
	s        *search
}

func (s *search) newConfirmer(models []any) (*confirmer, error) {
	objs := make([]map[string]any, 0, len(models))
	for _, m := range models {
		if o, ok := m.(map[string]any); ok {
			objs = append(objs, o)
		}
	}
	c := &confirmer{s: s}
	var err error
	opts := upstream.Options{
		Group: orDefault(s.opts.Group, "example.com"), Version: orDefault(s.opts.Version, "v1"),
		Kind: orDefault(s.opts.Kind, "Example"), Namespaced: s.opts.Namespaced, KubeVersion: s.opts.KubeVersion,
	}
	if c.old, err = upstream.New(upstream.Project(s.oldSide.Props, objs...), opts); err != nil {
		return nil, err
	}
	c.new, err = upstream.New(upstream.Project(s.newSide.Props, objs...), opts)
	return c, err
}

// confirm returns the witness that obj makes for the gap, or why it makes none.
func (c *confirmer) confirm(ctx context.Context, g *Gap, obj map[string]any) (*Witness, string) {
	before, err := c.old.Create(ctx, obj)
	if err != nil {
		return nil, err.Error()
	}
	if len(before.Errors) > 0 {
		return nil, "the old schema refuses the candidates: " + before.Errors[0].Error()
	}
	if len(before.Pruned) > 0 {
		return nil, "the old schema prunes the candidates: " + strings.Join(before.Pruned, ", ")
	}
	after, err := c.new.Create(ctx, obj)
	if err != nil {
		return nil, err.Error()
	}
	w := &Witness{Object: obj, PrunedPaths: after.Pruned}
	for _, e := range after.Errors {
		w.Errors = append(w.Errors, e.Error())
	}
	switch g.Harm {
	case Redefaulted:
		w.Before, _ = at(before.Stored, g.Path)
		w.After, _ = at(after.Stored, g.Path)
		if reflect.DeepEqual(w.Before, w.After) {
			return nil, "both sides fill in the same"
		}
		return w, ""
	case Pruned:
		w.PrunedPaths = lost(obj, after.Stored, "", nil)
		if !matchesPath(g.Path, w.PrunedPaths) {
			return nil, "the new schema keeps the field"
		}
		return w, ""
	}
	if !blames(g, w.Errors) {
		if len(w.Errors) == 0 {
			return nil, "the new schema accepts the candidates"
		}
		return nil, "the new schema refuses the candidates for another reason: " + w.Errors[0]
	}
	return w, c.fate(ctx, g, w, before.Stored)
}

// fate finds out what becomes of the object once it is stored.
func (c *confirmer) fate(ctx context.Context, g *Gap, w *Witness, stored map[string]any) string {
	again, err := c.new.Create(ctx, stored)
	if err != nil {
		return err.Error()
	}
	var errs []string
	for _, e := range again.Errors {
		errs = append(errs, e.Error())
	}
	if !blames(g, errs) {
		w.WritersOnly = true
		return ""
	}
	touched, err := c.new.TouchUpdate(ctx, stored, c.new.Ratchets())
	if err != nil {
		return err.Error()
	}
	for _, e := range touched.Errors {
		w.StuckErrors = append(w.StuckErrors, e.Error())
	}
	w.Stuck = len(w.StuckErrors) > 0
	w.Ratcheted = !w.Stuck
	return ""
}

package conversion

// What becomes of one object on its way to another version and back? The steps are those of the API server: convert, prune, fill in defaults,
// validate.

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/report"
)

// trip is the way of one object from a version to another one.
type trip struct {
	from, to *side
	object   map[string]any
	found    []observation
	// answer is what the converter returned, nil if it failed. took is the time that it needed; 0 if a process had to start first.
	answer map[string]any
	took   time.Duration
}

// add adds what a trip has found about its object. The observation may be completed until the next one is
// added.
func (t *trip) add(rule, path, what string) *observation {
	t.found = append(t.found, observation{rule: rule, from: t.from, to: t.to, path: path, what: what, object: t.object})
	return &t.found[len(t.found)-1]
}

// addDifference adds an observation about a place in objects of a version.
func (t *trip) addDifference(rule string, s *side, d difference, what string) {
	o := t.add(rule, s.genericPath(d.path), what+": "+d.String())
	if d.before != nil {
		o.before = jsonText(d.before)
	}
	if d.after != nil {
		o.after = jsonText(d.after)
	}
}

// travel takes an object to another version and back. The error is that of the context.
func (c *checker) travel(ctx context.Context, from, to *side, object map[string]any) (*trip, error) {
	t := &trip{from: from, to: to, object: object}
	start := c.now()
	answer, err := askConverter(ctx, c.converter, to.apiVersion, []map[string]any{object})
	if t.took = c.now().Sub(start); hasStarted(c.converter) {
		t.took = 0
	}
	if err != nil {
		t.addFailure(to, "", err)
		return t, ctx.Err()
	}
	t.answer = answer[0]
	there := t.arrive(object, t.answer, to, true)
	if there == nil {
		return t, nil
	}
	if c.old != nil {
		if err := c.compareWithOld(ctx, t, there); err != nil {
			return t, err
		}
	}
	// An object that its own version does not accept would be refused in the other one with good reason.
	if j, err := from.judge.Judge(ctx, object); err == nil && len(j.Strict) == 0 {
		t.validate(ctx, there)
	}
	first, err := c.comeBack(ctx, t, there, "")
	if err != nil || first == nil {
		return t, err
	}
	way := from.name + " → " + to.name + " → " + from.name
	known := map[string]bool{}
	for _, d := range differencesFrom(object, first) {
		known[strings.Join(d.path, "")] = d.change != emptied
		rule := map[change]string{lost: ruleLosesValue, reordered: ruleLosesValue, emptied: ruleLosesEmpty, added: ruleAdds}[d.change]
		t.addDifference(rule, from, d, way)
	}
	// Clients of the other version read the object with the defaults of that version, and write these back.
	filled, _, defaulted, err := to.judge.Read(there)
	if err != nil || !defaulted {
		return t, nil //nolint:nilerr // validate has said so
	}
	second, err := c.comeBack(ctx, t, filled, " with the defaults of "+to.name)
	if err != nil || second == nil {
		return t, err
	}
	for _, d := range differencesFrom(object, second) {
		if !known[strings.Join(d.path, "")] && d.change != emptied {
			t.addDifference(ruleDefault, from, d, way+" with the defaults of "+to.name)
		}
	}
	return t, nil
}

// hasStarted reports whether the last review of a converter began with the start of a process.
func hasStarted(c Converter) bool {
	s, ok := c.(interface{ Started() bool })
	return ok && s.Started()
}

// addFailure adds that the converter did not convert the object to a version.
func (t *trip) addFailure(to *side, with string, err error) {
	rule := ruleFails
	if _, ok := errors.AsType[invalidAnswer](err); ok {
		rule = ruleAnswer
	}
	what := "an object of " + t.from.name + " cannot be converted to " + to.name
	if to == t.from {
		what = "an object of " + t.from.name + " that was converted to " + t.to.name + " cannot be converted back" + with
	}
	t.add(rule, "", what+": "+err.Error())
}

// arrive returns the object as the API server has it after the converter's answer: with the metadata of the original, and pruned. It is nil
// if the API server refuses the answer. If tell is set, it tells what is wrong.
func (t *trip) arrive(in, answer map[string]any, to *side, tell bool) map[string]any {
	if why := acceptAnswer(in, answer, to.apiVersion); why != "" {
		t.addFailure(to, "", invalidAnswer{why})
		return nil
	}
	restored, changed, refused := restoreMeta(in, answer)
	if refused != "" {
		t.addFailure(to, "", invalidAnswer{refused})
		return nil
	}
	pruned, dropped, err := to.judge.Convert(restored)
	if err != nil {
		t.addFailure(to, "", invalidAnswer{err.Error()})
		return nil
	}
	if tell {
		for _, d := range changed {
			t.addDifference(ruleMeta, to, d, "the converter changes metadata, and the API server puts it back")
		}
		for _, path := range dropped {
			t.add(ruleLosesPruned, genericText("."+path), "the converter sets ."+path+", which "+to.name+" does not declare, so that the API server drops it")
		}
	}
	return runtime.DeepCopyJSON(pruned)
}

// validate tells whether clients of the other version can write the object back.
func (t *trip) validate(ctx context.Context, there map[string]any) {
	j, err := t.to.judge.Judge(ctx, there)
	if err != nil {
		t.add(ruleInvalid, "", "the result cannot be judged: "+err.Error())
		return
	}
	for _, e := range j.Strict {
		o := t.add(ruleInvalid, genericText("."+e.Field), "clients of "+t.to.name+" cannot write the object: "+e.Error())
		if len(j.Ratcheted) == 0 {
			o.level, o.what = report.ObjectsRatcheted, "the result is not valid in "+t.to.name+", and tolerated as long as the value stays: "+e.Error()
		}
	}
}

// comeBack converts an object back to the version that the trip began in. It is nil if that fails.
func (c *checker) comeBack(ctx context.Context, t *trip, there map[string]any, with string) (map[string]any, error) {
	answer, err := askConverter(ctx, c.converter, t.from.apiVersion, []map[string]any{there})
	if err != nil {
		t.addFailure(t.from, with, err)
		return nil, ctx.Err()
	}
	return t.arrive(there, answer[0], t.from, false), nil
}

// compareWithOld tells what the old release of the converter made of the object, if that differs.
func (c *checker) compareWithOld(ctx context.Context, t *trip, there map[string]any) error {
	answer, err := askConverter(ctx, c.old, t.to.apiVersion, []map[string]any{t.object})
	if err != nil {
		return ctx.Err() // the new release does better
	}
	before := (&trip{from: t.from, to: t.to, object: t.object}).arrive(t.object, answer[0], t.to, false)
	if before == nil {
		return nil
	}
	for _, d := range compareValues(nil, before, there) {
		t.addDifference(ruleChanged, t.to, d, "the new release of the converter gives another result")
	}
	return nil
}

// differencesFrom returns the differences of an object that came back. Converters may add labels and annotations; the rest of the metadata is the
// API server's.
func differencesFrom(object, back map[string]any) (out []difference) {
	for _, d := range compareValues(nil, object, back) {
		if d.path[0] == ".metadata" && (d.change == added || d.change == emptied) {
			continue
		}
		out = append(out, d)
	}
	return out
}

// genericPath writes a path without indices, and without keys that no version declares.
func (s *side) genericPath(path []string) string {
	var b strings.Builder
	p := s.props
	for _, step := range path {
		var next *props
		switch name := strings.TrimPrefix(step, "."); {
		case strings.HasPrefix(step, "[") && !strings.HasPrefix(step, `["`):
			b.WriteString("[*]")
			if p != nil && p.Items != nil {
				next = p.Items.Schema
			}
		case p != nil && p.AdditionalProperties != nil:
			b.WriteString(".*")
			next = p.AdditionalProperties.Schema
		default:
			b.WriteString(step)
			if p != nil {
				if child, ok := p.Properties[name]; ok {
					next = &child
				}
			}
		}
		p = next
	}
	return b.String()
}

// indices are those of a path in one text.
var indices = regexp.MustCompile(`\[[^\]]*\]`)

// genericText is genericPath for a path in one text.
func genericText(path string) string { return indices.ReplaceAllString(path, "[*]") }

// askAgain tells whether the answer for an object alone is another one in a batch, or differs from time to time.
func (c *checker) askAgain(ctx context.Context, t *trip, inBatch map[string]any) error {
	if t.answer == nil || inBatch == nil || reflect.DeepEqual(t.answer, inBatch) {
		return nil
	}
	again, err := askConverter(ctx, c.converter, t.to.apiVersion, []map[string]any{t.object})
	rule, what, other := ruleBatch, "the answer in a request with other objects is another one", inBatch
	if err != nil || !reflect.DeepEqual(t.answer, again[0]) {
		rule, what = ruleRandom, "two answers for the same object differ"
		if err == nil {
			other = again[0]
		}
	}
	ds := compareValues(nil, t.answer, other)
	if len(ds) == 0 {
		return ctx.Err()
	}
	t.addDifference(rule, t.to, ds[0], what)
	return ctx.Err()
}

// askTime tells whether the object takes too long, whenever it is converted.
func (c *checker) askTime(ctx context.Context, t *trip) error {
	least := t.took
	for try := 0; try < 2 && least > c.opts.MaxTime && c.opts.MaxTime > 0; try++ {
		start := c.now()
		if _, err := askConverter(ctx, c.converter, t.to.apiVersion, []map[string]any{t.object}); err != nil {
			return ctx.Err()
		}
		least = min(least, c.now().Sub(start))
	}
	if c.opts.MaxTime > 0 && least > c.opts.MaxTime && t.answer != nil {
		t.add(ruleSlow, "", fmt.Sprintf("the conversion to %s takes %s, longer than %s", t.to.name, least.Round(time.Millisecond), c.opts.MaxTime))
	}
	return nil
}

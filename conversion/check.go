package conversion

// Which objects make which trips, and what is reported? Each object goes from its version to each other one: in a request with others, and alone.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// Check converts objects of each version of a CRD to each other one and back. The result has the verdict safe if nothing is wrong and all that
// objects can have was reached. Its findings are not sorted, and have the severities of their levels. The error says that nothing could be
// checked: [ErrNothingToConvert], a schema that cannot be read, or a converter that does not answer at all.
func Check(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, converter Converter, o Options) (report.CRD, error) {
	o.Random, o.Budget, o.MaxTime = cmp.Or(o.Random, DefaultRandom), cmp.Or(o.Budget, DefaultBudget), cmp.Or(o.MaxTime, DefaultMaxTime)
	c := &checker{crd: crd, converter: converter, old: o.Old, opts: o, found: map[string]*sighting{}, times: map[*side][]time.Duration{}}
	for _, v := range crd.Spec.Versions {
		if !v.Served && !v.Storage && !slices.Contains(crd.Status.StoredVersions, v.Name) {
			continue
		}
		s, err := newSide(crd, v.Name, o.KubeVersion)
		if err != nil {
			return report.CRD{}, err
		}
		c.sides = append(c.sides, s)
	}
	if len(c.sides) < 2 {
		return report.CRD{}, ErrNothingToConvert
	}
	if err := c.convertAll(ctx); err != nil {
		return report.CRD{}, err
	}
	c.shrinkAll(ctx)
	return c.result(), ctx.Err()
}

// convertAll makes the objects of all versions and converts them, then the stored ones.
func (c *checker) convertAll(ctx context.Context) error {
	for i, from := range c.sides {
		if err := c.askFirst(ctx, from, c.sides[(i+1)%len(c.sides)]); err != nil {
			return err
		}
		if err := from.makeRequests(ctx, contain.NewWork(c.opts.Budget), max(c.opts.Random, 0), c.opts.Seed); err != nil {
			return err
		}
		var objects []map[string]any
		for n, request := range from.requests {
			objects = append(objects, c.asStored(ctx, from, request, n))
		}
		for _, to := range c.sides {
			if to == from {
				continue
			}
			if err := c.convertObjects(ctx, from, to, objects); err != nil {
				return err
			}
			if err := c.askProtocol(ctx, from, to, objects); err != nil {
				return err
			}
		}
	}
	if c.opts.Stored == nil {
		return nil
	}
	return c.convertStored(ctx)
}

// askFirst returns an error if nobody answers at all, which is better known before the search.
func (c *checker) askFirst(ctx context.Context, from, to *side) error {
	_, err := askConverter(ctx, c.converter, to.apiVersion, nil)
	if isAnswer(err) {
		return nil
	}
	simple := map[string]any{"apiVersion": from.apiVersion, "kind": from.opts.Kind, "metadata": map[string]any{"name": "sample"}, "spec": map[string]any{}}
	if _, again := askConverter(ctx, c.converter, to.apiVersion, []map[string]any{simple}); isAnswer(again) {
		return nil // it is the empty request that it does not answer
	}
	return err
}

// isAnswer reports whether an error of ask, which may be nil, is about an answer.
func isAnswer(err error) bool {
	_, failed := errors.AsType[failure](err)
	_, refused := errors.AsType[invalidAnswer](err)
	return err == nil || failed || refused
}

// convertObjects takes objects to another version and back: in batches, and each alone.
func (c *checker) convertObjects(ctx context.Context, from, to *side, objects []map[string]any) error {
	// The API server asks for a list in one request, and for an object alone by get and watch: both have to give the same.
	for batch := range slices.Chunk(objects, batchSize) {
		together, batchErr := askConverter(ctx, c.converter, to.apiVersion, batch)
		var trips []*trip
		for i, obj := range batch {
			t, err := c.travel(ctx, from, to, obj)
			if err != nil {
				return err
			}
			if batchErr == nil && acceptAnswer(obj, together[i], to.apiVersion) != "" && t.answer != nil && acceptAnswer(obj, t.answer, to.apiVersion) == "" {
				batchErr = invalidAnswer{fmt.Sprintf("object %d of %d: %s", i+1, len(batch), acceptAnswer(obj, together[i], to.apiVersion))}
			}
			if err := c.askTime(ctx, t); err != nil {
				return err
			}
			trips = append(trips, t)
		}
		failed := slices.ContainsFunc(trips, func(t *trip) bool { return t.answer == nil })
		for i, t := range trips {
			switch {
			case batchErr == nil:
				if err := c.askAgain(ctx, t, together[i]); err != nil {
					return err
				}
			case !failed && i == 0:
				t.add(ruleBatch, "", fmt.Sprintf("%s are converted one by one, but not in one request: %v", brief.Count(len(batch), "object"), batchErr))
			}
			c.note(t)
		}
		c.objects += int64(len(batch))
		if c.opts.Progress != nil {
			c.opts.Progress(c.objects)
		}
	}
	return ctx.Err()
}

// note keeps what a trip found, with the smallest object that shows it.
func (c *checker) note(t *trip) {
	if t.took > 0 {
		c.times[t.from] = append(c.times[t.from], t.took)
	}
	told := map[string]bool{}
	for _, o := range t.found {
		key := o.key()
		if told[key] {
			continue
		}
		told[key] = true
		size := sizeOf(o.object)
		s, ok := c.found[key]
		if !ok {
			s = &sighting{observation: o, size: size}
			c.found[key] = s
			c.order = append(c.order, key)
		} else if size < s.size {
			s.observation, s.size = o, size
		}
		if c.stored > 0 {
			if s.stored++; len(s.examples) < 10 {
				s.examples = append(s.examples, nameOf(o.object))
			}
		}
	}
}

// sizeOf measures an object by its JSON, without what the API server sets.
func sizeOf(obj map[string]any) int {
	text, _ := json.Marshal(asRequest(obj)) //nolint:errchkjson // it was decoded from JSON
	return len(text)
}

// nameOf is NAMESPACE/NAME, or the name alone for an object without a namespace.
func nameOf(obj map[string]any) string {
	u := unstructured.Unstructured{Object: obj}
	return strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/")
}

// storage returns the storage version, nil if there is none.
func (c *checker) storage() *side {
	for _, v := range c.crd.Spec.Versions {
		for _, s := range c.sides {
			if v.Storage && s.name == v.Name {
				return s
			}
		}
	}
	return nil
}

// convertStored takes the stored objects to each other version and back.
func (c *checker) convertStored(ctx context.Context) error {
	from := c.storage()
	if from == nil {
		return nil
	}
	return c.opts.Stored(ctx, from.name, func(objects []map[string]any) error {
		c.stored += int64(len(objects))
		for _, obj := range objects {
			for _, t := range from.targets {
				t.reached = t.reached || t.isMetBy(obj, obj)
			}
		}
		for _, to := range c.sides {
			if to != from {
				if err := c.convertObjects(ctx, from, to, objects); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// askProtocol asks what no API server with valid objects asks.
func (c *checker) askProtocol(ctx context.Context, from, to *side, objects []map[string]any) error {
	if len(objects) == 0 {
		return nil
	}
	good := objects[0]
	tell := func(path, what string) {
		t := &trip{from: from, to: to, object: good}
		t.add(ruleProtocol, path, what)
		c.note(t)
	}
	if _, err := askConverter(ctx, c.converter, to.apiVersion, nil); err != nil {
		tell("", "an empty request is not answered with success: "+err.Error())
	}
	if _, err := askConverter(ctx, c.converter, to.apiVersion, []map[string]any{good}); err != nil {
		return ctx.Err() // that has its own finding
	}
	const strange = "v0sluice"
	group := c.crd.Spec.Group + "/"
	if _, err := askConverter(ctx, c.converter, group+strange, []map[string]any{good}); err == nil {
		tell(".desiredAPIVersion", "a request for the unknown version "+strange+" is answered with success")
	} else if !isAnswer(err) {
		tell(".desiredAPIVersion", "a request for the unknown version "+strange+" is not answered: "+err.Error())
	}
	bad := runtime.DeepCopyJSON(good)
	bad["apiVersion"] = group + strange
	if _, err := askConverter(ctx, c.converter, to.apiVersion, []map[string]any{good, bad}); err == nil {
		tell(".objects", "a request with an object of the unknown version "+strange+" is answered with success")
	} else if !isAnswer(err) {
		tell(".objects", "a request with an object of the unknown version "+strange+" is not answered: "+err.Error())
	}
	if _, err := askConverter(ctx, c.converter, to.apiVersion, []map[string]any{good}); err != nil {
		tell("", "after a request that it cannot answer, the converter does not convert a valid object any more: "+err.Error())
	}
	return ctx.Err()
}

// result puts together what was found.
func (c *checker) result() report.CRD {
	out := report.CRD{Name: c.crd.Name, Verdict: report.Safe}
	for _, key := range c.order {
		s := c.found[key]
		f := report.Finding{
			Rule: s.rule, Level: cmp.Or(s.level, levelOf(s.rule)), Outcome: report.Violation, CRD: c.crd.Name,
			Version: s.from.name, Path: s.path, Message: brief.OneLine(s.what), Before: s.before, After: s.after,
			Witness: &report.Witness{
				Object: objectYAML(asRequest(s.object)), Effect: brief.OneLine(s.what),
				AcceptedBy: "version " + s.from.name, JudgedBy: "the conversion to " + s.to.name,
			},
		}
		f.Severity, _ = f.Level.Default()
		f.SchemaPath = c.documentPath(s.from)
		if s.stored > 0 {
			f.Objects = &report.Objects{Checked: c.stored, Affected: s.stored, Examples: s.examples}
		}
		out.Findings = append(out.Findings, f)
		out.Verdict = report.Unsafe
	}
	// A check that missed a part has not shown that the conversions are safe.
	for _, s := range c.sides {
		for _, f := range c.coverageOf(s) {
			if f.Outcome == report.Undecided && out.Verdict == report.Safe {
				out.Verdict = report.IsUndecided
			}
			out.Findings = append(out.Findings, f)
		}
	}
	return out
}

// documentPath leads to a version in the document of the CRD.
func (c *checker) documentPath(s *side) []string {
	at := slices.IndexFunc(c.crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == s.name })
	return []string{"spec", "versions", fmt.Sprint(at)}
}

// objectYAML writes an object for people. It is the text of the error if that is not possible.
func objectYAML(obj map[string]any) string {
	text, err := yaml.Marshal(obj)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// coverageOf tells what of a version was reached.
func (c *checker) coverageOf(s *side) (out []report.Finding) {
	var counts, beside []string
	for _, a := range aims {
		reached, declared, impossible := 0, 0, 0
		for _, t := range s.targets {
			switch {
			case t.aim != a:
			// What no object can have is not missed.
			case t.impossible && !t.reached:
				impossible++
			default:
				declared++
				if t.reached {
					reached++
					continue
				}
				if !a.isOptional() {
					out = append(out, report.Finding{
						Rule: ruleNotReached, Outcome: report.Undecided, Severity: report.Fail, CRD: c.crd.Name, Version: s.name, Path: t.path.String(),
						Message: "no object was found that reaches " + t.String(), Reason: cmp.Or(t.why, "nothing was found"), SchemaPath: c.documentPath(s),
					})
				}
			}
		}
		if declared > 0 {
			counts = append(counts, fmt.Sprintf("%d of %d %s", reached, declared, a))
		}
		if impossible > 0 && a != aimZero {
			beside = append(beside, fmt.Sprintf("%d %s", impossible, a))
		}
	}
	objects := brief.Count(len(s.requests), "object")
	if c.stored > 0 && s == c.storage() {
		objects += " and " + brief.Count(c.stored, "stored object")
	}
	text := fmt.Sprintf("%s of %s reached %s", objects, s.name, strings.Join(counts, ", "))
	if len(counts) == 0 {
		text = s.name + " declares no fields"
	}
	if len(beside) > 0 {
		text += "; it is proven that no object has " + strings.Join(beside, " and ")
	}
	if times := c.times[s]; len(times) > 0 && c.opts.Now != nil {
		slices.Sort(times)
		text += fmt.Sprintf("; %s for an object, at most %s", times[len(times)/2].Round(time.Microsecond), times[len(times)-1].Round(time.Microsecond))
	}
	return append(out, report.Finding{
		Rule: ruleCoverage, Outcome: report.Note, Severity: report.Warn, CRD: c.crd.Name, Version: s.name, Message: text, SchemaPath: c.documentPath(s),
	})
}

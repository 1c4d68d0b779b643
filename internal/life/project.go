package life

// Do features.yaml and the API fit together? Each marker must name a feature, and each feature a part, unless
// it gates behaviour only. What both say is joined into one declaration, which package feature checks.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/gate"
	"sluice.dev/feature/rules"
	"sluice.dev/internal/input"
)

// Project is features.yaml together with its API.
type Project struct {
	File *File
	// CRDs are those of the Go types, then those of files, without texts about features.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// Declaration has the features with all their parts.
	Declaration gate.Declaration
	// Model is the model of package feature.
	Model *feature.Model
	// Warnings are problems that do not stop anything.
	Warnings Problems

	api  *goAPI
	base []*apiextensionsv1.CustomResourceDefinition // CRDs without markers that apply in some channels only
}

// Load reads the API of a file and joins both. It returns all errors as [Problems]. day chooses among stages with dates.
func Load(ctx context.Context, f *File, day time.Time) (*Project, error) {
	return loadWith(ctx, f, day, nil)
}

// loadWith is Load with a marker to add; nil for none.
func loadWith(ctx context.Context, f *File, day time.Time, extra *addedMark) (*Project, error) {
	p := &Project{File: f}
	api := &goAPI{}
	var wrong Problems
	if len(f.Source.Packages) > 0 {
		read, more, err := readGo(ctx, f.dir, f.Source.Packages, extra)
		if err != nil {
			return nil, err
		}
		api, wrong = read, more
	}
	p.api, p.base = api, api.crds
	for _, name := range f.Source.CRDs {
		src, err := input.ParseSource(f.resolvePath(name))
		if err != nil {
			return nil, err
		}
		set, err := input.Load(ctx, src, input.Options{})
		if err != nil {
			return nil, err
		}
		for _, d := range set.Documents {
			p.base = append(p.base, d.CRD)
		}
	}
	for _, c := range p.base {
		// A generated CRD may be the source of the next run, and would get each text twice.
		undescribe(c)
		whole, err := withConditionalMarkers(c, api, nil)
		if err != nil {
			return nil, err
		}
		p.CRDs = append(p.CRDs, whole)
	}
	if len(p.CRDs) == 0 && f.hasSource() {
		if err := wrong.asError(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s: source holds no CRD: no type there has TypeMeta and ObjectMeta, in a package with +groupName", f.fileName())
	}
	wrong = append(wrong, p.joinMarkedParts(api)...)
	wrong = append(wrong, p.defineModel(api, day)...)
	return p, wrong.asError()
}

// fileName is the place of the file itself.
func (f *File) fileName() string {
	file, _ := f.placeOf("")
	return file
}

// partsOf has the origin of each part of the declaration: the mark, or -1 for features.yaml.
type partsOf map[string][]int

// joinMarkedParts gives each feature the parts that marks gate.
func (p *Project) joinMarkedParts(api *goAPI) (wrong Problems) {
	// A mark that reaches no field, and a part with two marks, are slips: the author would believe that something is gated which is not.
	reached := make([]bool, len(api.marks))
	first := map[string]int{}
	for _, u := range api.uses {
		m := &api.marks[u.mark]
		reached[u.mark] = true
		key := fmt.Sprintf("%s/%s/%s %v %q %q %s", u.part.Group, u.part.Resource, u.part.Field, u.part.Versions, u.part.Values, u.part.Pattern, boundsOf(&u.part))
		if before, ok := first[key]; ok {
			what := u.part.Field
			if u.part.WholeVersion {
				what = "the version"
			}
			other := &api.marks[before]
			wrong.addProblem(m.file, m.line, "%s of %s %s is marked twice: here for %s, at %s:%d for %s", what, u.part.Resource, u.part.Versions[0], m.gate, other.file, other.line, other.gate)
		}
		first[key] = u.mark
	}
	for i := range api.marks {
		m := &api.marks[i]
		if m.loosen != nil {
			continue
		}
		e, hint := p.File.entryOf(m.gate)
		switch {
		case e == nil:
			wrong.addProblem(m.file, m.line, "%s has no feature %q%s", filepath.Base(p.Name()), m.gate, hint)
		case m.marker != "":
			if !slices.ContainsFunc(api.conditions, func(c condition) bool { return c.mark == i }) {
				wrong.addProblem(m.file, m.line, "the marker of %s reaches no field of a CRD: no kind of these packages has what it marks", m.gate)
			}
		case !reached[i]:
			wrong.addProblem(m.file, m.line, "the marker of %s reaches no field of a CRD: no kind of these packages has what it marks", m.gate)
		case e.BehaviourOnly:
			wrong.addProblem(m.file, m.line, "%s gates a part of the API, but %s says behaviourOnly", m.gate, filepath.Base(p.Name()))
		}
	}
	return wrong
}

// defineModel joins the parts and checks the result with package feature.
func (p *Project) defineModel(api *goAPI, day time.Time) (wrong Problems) {
	from := partsOf{}
	p.Declaration = gate.Declaration{Name: p.File.Component, Spec: p.File.Spec}
	for i := range p.File.Features {
		e := &p.File.Features[i]
		spec := *e.DeepCopy()
		spec.Component = p.File.Component
		own := spec.Parts
		spec.Parts, from[e.Gate] = mergedParts(api, e.Gate)
		// -1 stands for features.yaml, which has these parts itself.
		for range own {
			from[e.Gate] = append(from[e.Gate], -1)
		}
		spec.Parts = append(spec.Parts, own...)
		p.Declaration.Features = append(p.Declaration.Features, spec)
	}
	component, features := p.Declaration.Objects()
	model, findings, err := defineFor(component, features, p.CRDs, day)
	if err != nil {
		wrong.addProblem("", 0, "%s", err)
	}
	p.Model = model
	for _, x := range slices.Concat(findings, model.Lint(day)) {
		to := &wrong
		if x.Severity != feature.Error {
			to = &p.Warnings
		}
		file, line := p.placeOf(api, from, &x)
		message := x.Message
		if x.Gate != "" {
			message = x.Gate + ": " + message
		}
		to.addProblem(file, line, "%s", message)
	}
	for i, e := range p.File.Features {
		if e.BehaviourOnly || len(p.Declaration.Features[i].Parts) > 0 {
			continue
		}
		if f := model.Feature(e.Gate); f != nil && f.Stage == v1alpha1.Removed {
			continue
		}
		file, line := p.File.placeOf(fmt.Sprintf("features[%d]", i))
		if n := len(e.Stages); n > 0 && e.Stages[n-1].Stage == v1alpha1.Removed {
			last := &e.Stages[n-1]
			wrong.addProblem(file, line, "no marker names %[1]s any more, but it is removed only from %[2]s on: prepare that release, with spec.release: %[2]s", e.Gate, cmp.Or(last.Release, last.Date))
			continue
		}
		wrong.addProblem(file, line, "no marker names %s, and it has no parts: mark what it gates, or say behaviourOnly: true", e.Gate)
	}
	for i := range api.marks {
		m := &api.marks[i]
		if f := model.Feature(m.gate); f != nil && f.Stage == v1alpha1.Removed && m.loosen == nil {
			wrong.addProblem(m.file, m.line, "%s was removed: take the marker away", m.gate)
		}
	}
	return wrong
}

// defineFor makes the model of a component whose features gate parts of CRDs. The error says which CRDs cannot be read; the model is without them.
func defineFor(c *v1alpha1.Component, features []v1alpha1.Feature, crds []*apiextensionsv1.CustomResourceDefinition, day time.Time) (*feature.Model, feature.Findings, error) {
	var resources []feature.Resource
	var unread []error
	for _, crd := range crds {
		r, err := feature.ResourceOf(crd)
		if err != nil {
			unread = append(unread, err)
			continue
		}
		resources = append(resources, r)
	}
	model, findings := rules.Define(c, features, feature.Options{Date: day, Resources: resources, OtherGroups: true})
	return model, findings, errors.Join(unread...)
}

// mergedParts returns the parts that marks gate, with the mark of each. It joins versions with the same gated part, and values of the same
// field.
func mergedParts(api *goAPI, gate string) (parts []v1alpha1.Part, from []int) {
	place := func(a, b *v1alpha1.Part) bool {
		return a.Group == b.Group && a.Resource == b.Resource && a.Field == b.Field && a.WholeVersion == b.WholeVersion && a.Pattern == b.Pattern && boundsOf(a) == boundsOf(b)
	}
	// Values of one field and version first, since a constant has a mark of its own; then versions.
	var byValues []use
	for _, u := range api.uses {
		if api.marks[u.mark].gate != gate {
			continue
		}
		i := slices.IndexFunc(byValues, func(o use) bool {
			return u.part.Values != nil && o.part.Values != nil && place(&u.part, &o.part) && slices.Equal(u.part.Versions, o.part.Versions)
		})
		if i < 0 {
			u.part = *u.part.DeepCopy()
			byValues = append(byValues, u)
			continue
		}
		for _, v := range u.part.Values {
			if !slices.Contains(byValues[i].part.Values, v) {
				byValues[i].part.Values = append(byValues[i].part.Values, v)
			}
		}
	}
	for _, u := range byValues {
		i := slices.IndexFunc(parts, func(p v1alpha1.Part) bool { return place(&p, &u.part) && slices.Equal(p.Values, u.part.Values) })
		if i < 0 {
			parts, from = append(parts, u.part), append(from, u.mark)
		} else if v := u.part.Versions[0]; !slices.Contains(parts[i].Versions, v) {
			parts[i].Versions = append(parts[i].Versions, v)
		}
	}
	return parts, from
}

// boundsOf names the bounds outside of which a part gates values; empty if it has none.
func boundsOf(p *v1alpha1.Part) string {
	if p.Beyond == nil {
		return ""
	}
	return feature.BoundsText(p.Beyond)
}

// placeOf finds the place of a finding: the marker, or a line of features.yaml.
func (p *Project) placeOf(api *goAPI, from partsOf, x *feature.Finding) (file string, line int) {
	if x.Gate == "" {
		return p.File.placeOf(x.Where)
	}
	i := slices.IndexFunc(p.File.Features, func(e Entry) bool { return e.Gate == x.Gate })
	where := strings.TrimPrefix(x.Where, "spec.")
	var part int
	if n, err := fmt.Sscanf(where, "parts[%d]", &part); n == 1 && err == nil && part < len(from[x.Gate]) {
		if m := from[x.Gate][part]; m >= 0 {
			return api.marks[m].file, api.marks[m].line
		}
		marked := slices.Index(from[x.Gate], -1)
		where = strings.Replace(where, fmt.Sprintf("parts[%d]", part), fmt.Sprintf("parts[%d]", part-marked), 1)
	}
	return p.File.placeOf(fmt.Sprintf("features[%d].%s", i, where))
}

// Name is the path of features.yaml.
func (p *Project) Name() string { return filepath.Clean(p.File.fileName()) }

package life

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/rules"
	"sluice.dev/internal/input"
)

// LoadBase reads what a component was, from the generated files of a git revision (git:REV) or of another folder: features.yaml,
// its manifests, and its CRDs. Go types are not needed for that.
func LoadBase(ctx context.Context, f *File, against string, day time.Time) (*State, error) {
	name := filepath.Base(f.at0())
	src, err := input.ParseSource(against)
	if err != nil {
		return nil, err
	}
	switch src.Kind {
	case input.Git:
		if len(src.Paths) > 0 {
			return nil, fmt.Errorf("%s: give git:REV without a path; the paths are those of features.yaml", against)
		}
	case input.Path:
	case input.Stdin, input.Cluster:
		return nil, fmt.Errorf("%s is no base to compare with: give git:REV or a folder", against)
	}
	read := func(paths ...string) (*input.Set, error) {
		from := src
		from.Paths = nil
		for _, p := range paths {
			p = strings.TrimSuffix(p, "/")
			if src.Kind == input.Path {
				from.Paths = append(from.Paths, filepath.Join(src.Paths[0], p))
				continue
			}
			p = filepath.ToSlash(f.path(p))
			if !strings.HasPrefix(p, "../") {
				p = "./" + p
			}
			from.Paths = append(from.Paths, p)
		}
		return input.Load(ctx, from, input.Options{Objects: true})
	}
	set, err := read(name)
	if err != nil {
		return nil, fmt.Errorf("the base %s: %w", against, err)
	}
	if len(set.Objects) != 1 {
		return nil, fmt.Errorf("the base %s: %s holds %d objects; one of kind %s is expected", against, name, len(set.Objects), Kind)
	}
	base := &File{dir: f.dir, at: set.Objects[0].Positions}
	if err := set.Objects[0].Strict(base); err != nil {
		return nil, fmt.Errorf("the base %s: %w", against, err)
	}
	var paths []string
	if base.Output.Manifests == "" {
		return nil, fmt.Errorf("the base %s: its %s has no output.manifests, so that nothing tells what its features gated", against, name)
	}
	paths = append(paths, base.Output.Manifests)
	for _, c := range base.Output.CRDs {
		if c.whole() {
			paths = append(paths, c.Path)
		}
	}
	if len(paths) == 1 {
		paths = append(paths, base.Source.CRDs...)
	}
	if set, err = read(paths...); err != nil {
		return nil, fmt.Errorf("the base %s: %w", against, err)
	}
	state := &State{Name: against, Release: base.Spec.Release, File: base}
	var resources []feature.Resource
	for _, d := range set.Documents {
		undescribe(d.CRD)
		r, err := feature.ResourceOf(d.CRD)
		if err != nil {
			return nil, fmt.Errorf("the base %s: %w", against, err)
		}
		state.CRDs, resources = append(state.CRDs, d.CRD), append(resources, r)
	}
	component := &v1alpha1.Component{}
	component.Name, component.Spec = base.Component, base.Spec
	var features []v1alpha1.Feature
	for i := range set.Objects {
		var one v1alpha1.Feature
		var kind metav1.TypeMeta
		if err := utiljson.Unmarshal(set.Objects[i].JSON, &kind); err != nil {
			return nil, fmt.Errorf("the base %s: %w", against, set.Objects[i].Wrong(err))
		}
		if kind.Kind != "Feature" || kind.APIVersion != v1alpha1.SchemeGroupVersion.String() {
			continue
		}
		if err := set.Objects[i].Strict(&one); err != nil {
			return nil, fmt.Errorf("the base %s: %w", against, err)
		}
		features, state.Features = append(features, one), append(state.Features, one.Spec)
	}
	var findings feature.Findings
	state.Model, findings = rules.Define(component, features, feature.Options{Date: day, Resources: resources})
	if err := findings.Err(); err != nil {
		return nil, fmt.Errorf("the base %s: %w", against, err)
	}
	return state, nil
}

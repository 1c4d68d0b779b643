package life

// What was the state of a component before? It is read from the generated files of a git revision or of a
// folder, which do not need the Go types of that time. For example, git:v1.3.0 has the features.yaml, the
// manifests and the CRDs of that release.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/gate"
	"sluice.dev/internal/input"
)

// baseSource returns the git revision or the folder that a state is compared with.
func baseSource(against string) (input.Source, error) {
	src, err := input.ParseSource(against)
	if err != nil {
		return src, err
	}
	switch src.Kind {
	case input.Git:
		if len(src.Paths) > 0 {
			return src, fmt.Errorf("%s: give git:REV without a path; the paths are those of features.yaml", against)
		}
	case input.Path:
		if info, err := os.Stat(src.Paths[0]); err != nil || !info.IsDir() {
			return src, fmt.Errorf("the base %s: there is no such folder; give git:REV, a folder with features.yaml, or cluster", against)
		}
	case input.Stdin, input.Cluster:
		return src, fmt.Errorf("%s is no base to compare with: give git:REV, a folder, or cluster", against)
	}
	return src, nil
}

// sourceBelow returns the source of the paths in a base. For a git revision they are relative to folder, a path from the root of the
// repository, or to the folder of features.yaml if it is empty.
func sourceBelow(base input.Source, folder string, paths []string) input.Source {
	from := base
	from.Paths = nil
	for _, p := range paths {
		p = strings.TrimSuffix(p, "/")
		if base.Kind == input.Path {
			from.Paths = append(from.Paths, filepath.Join(base.Paths[0], p))
			continue
		}
		if p = filepath.ToSlash(p); folder != "" {
			from.Paths = append(from.Paths, path.Join(folder, p))
			continue
		}
		from.Paths = append(from.Paths, "./"+p)
	}
	return from
}

// featuresIn returns the features among manifests.
func featuresIn(set *input.Set) (features []v1alpha1.Feature, err error) {
	for i := range set.Objects {
		var one v1alpha1.Feature
		var kind metav1.TypeMeta
		if err := utiljson.Unmarshal(set.Objects[i].JSON, &kind); err != nil {
			return nil, set.Objects[i].Wrong(err)
		}
		if kind.Kind != "Feature" || kind.APIVersion != v1alpha1.SchemeGroupVersion.String() {
			continue
		}
		if err := set.Objects[i].Strict(&one); err != nil {
			return nil, err
		}
		features = append(features, one)
	}
	return features, nil
}

// LoadBase reads an earlier state of a component from the generated files of a git revision (git:REV) or of another folder:
// features.yaml, its manifests, and its CRDs. It does not need the Go types. A revision that has features.yaml of the component in another folder,
// where it is no more, is read there. If the base lacks these files, there is nothing to compare with:
// the state is nil, and lacks says which. If f does not have them either, that is an error.
func LoadBase(ctx context.Context, f *File, against string, day time.Time) (state *State, lacks string, err error) {
	name := filepath.Base(f.fileName())
	src, err := baseSource(against)
	if err != nil {
		return nil, "", err
	}
	if f.Output.Manifests == "" {
		return nil, "", f.problemAt("output", "output.manifests is missing: nothing will tell the next comparison what the features gate")
	}
	read, set, err := f.readFromBase(ctx, src, name)
	if errors.Is(err, input.ErrNotFound) {
		return nil, "it has no " + name, nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("the base %s: %w", against, err)
	}
	base, err := fileIn(set, name)
	if err != nil {
		return nil, "", fmt.Errorf("the base %s: %w", against, err)
	}
	base.dir = f.dir
	if base.Output.Manifests == "" {
		return nil, fmt.Sprintf("its %s has no output.manifests, so that nothing tells what its features gated", name), nil
	}
	component := &v1alpha1.Component{}
	component.Name, component.Spec = base.Component, base.Spec
	paths := []string{base.Output.Manifests}
	for _, c := range base.Output.CRDs {
		if c.isWhole() {
			paths = append(paths, c.Path)
		}
	}
	// No output has whole CRDs, so those of source tell the schemas.
	if len(paths) == 1 {
		paths = append(paths, base.Source.CRDs...)
	}
	set, err = read(paths...)
	var features []v1alpha1.Feature
	// Generated files that are there now and were not then were committed later: the history in features.yaml has to do.
	if _, missing := os.Stat(f.resolvePath(f.Output.Manifests)); errors.Is(err, input.ErrNotFound) && missing == nil {
		lacks := "it lacks a generated file: " + err.Error()
		if set, err = base.readDeclared(read); set == nil && err == nil {
			return nil, lacks, nil
		}
		features = base.declaredFeatures()
	} else if err == nil {
		features, err = featuresIn(set)
	}
	if err != nil {
		return nil, "", fmt.Errorf("the base %s: %w; commit the files that sluice features generate writes", against, err)
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, d := range set.Documents {
		crds = append(crds, d.CRD)
	}
	if state, err = NewBase(against, component, features, crds, day); err != nil {
		return nil, "", err
	}
	state.File = base
	return state, "", nil
}

// readFromBase returns a function that reads files of a base by their paths in features.yaml, and what it reads of features.yaml itself.
func (f *File) readFromBase(ctx context.Context, src input.Source, name string) (read func(paths ...string) (*input.Set, error), set *input.Set, err error) {
	opts, folder := input.Options{Objects: true}, ""
	if src.Kind == input.Git {
		opts.Dir = f.dir
	}
	read = func(paths ...string) (*input.Set, error) {
		return input.Load(ctx, sourceBelow(src, folder, paths), opts)
	}
	set, missing := read(name)
	if !errors.Is(missing, input.ErrNotFound) || src.Kind != input.Git {
		return read, set, missing
	}
	if folder, err = f.folderBefore(ctx, src); err != nil || folder == "" {
		return nil, nil, cmp.Or(err, missing)
	}
	set, err = read(name)
	return read, set, err
}

// folderBefore returns the folder, from the root of the repository, that features.yaml of the component was in at a revision, if it has moved
// since: the folder does not have it any more. It is empty if there is none.
func (f *File) folderBefore(ctx context.Context, rev input.Source) (string, error) {
	name := filepath.Base(f.fileName())
	files, root, err := input.GitFiles(ctx, f.dir, rev.Rev, name)
	if err != nil {
		return "", err
	}
	var found []string
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err == nil {
			continue
		}
		from := rev
		from.Paths = []string{"/" + file}
		set, err := input.Load(ctx, from, input.Options{Objects: true, Dir: f.dir})
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err != nil {
			continue // it is no file of a component
		}
		if before, err := fileIn(set, file); err == nil && before.Component == f.Component {
			found = append(found, "/"+strings.TrimSuffix(strings.TrimSuffix(file, name), "/"))
		}
	}
	if len(found) > 1 {
		return "", fmt.Errorf("component %s has a %s in several folders that are gone: %s", f.Component, name, strings.Join(found, ", "))
	}
	return strings.Join(found, ""), nil
}

// readDeclared reads the CRDs that features.yaml names, for a base without generated files. The set is nil if they do not tell what the
// features gate, because that is in Go, or because they are missing.
func (f *File) readDeclared(read func(paths ...string) (*input.Set, error)) (*input.Set, error) {
	switch {
	case len(f.Source.Packages) > 0:
		return nil, nil
	case len(f.Source.CRDs) == 0:
		return &input.Set{}, nil
	}
	set, err := read(f.Source.CRDs...)
	if errors.Is(err, input.ErrNotFound) {
		return nil, nil
	}
	return set, err
}

// declaredFeatures returns the features as features.yaml itself defines them, without what markers gate.
func (f *File) declaredFeatures() []v1alpha1.Feature {
	d := gate.Declaration{Name: f.Component, Spec: f.Spec}
	for i := range f.Features {
		spec := *f.Features[i].DeepCopy()
		spec.Component = f.Component
		d.Features = append(d.Features, spec)
	}
	_, features := d.Objects()
	return features
}

// NewBase is an earlier state of a component, from its objects and CRDs, such as those of a cluster. It removes from the CRDs the texts
// that [Project.Outputs] has written into their descriptions.
func NewBase(name string, component *v1alpha1.Component, features []v1alpha1.Feature, crds []*apiextensionsv1.CustomResourceDefinition, day time.Time) (*State, error) {
	state := &State{Name: name, Release: component.Spec.Release, CRDs: crds}
	for _, c := range crds {
		undescribe(c)
	}
	for i := range features {
		state.Features = append(state.Features, features[i].Spec)
	}
	model, findings, err := defineFor(component, features, crds, day)
	if err := cmp.Or(err, findings.Err()); err != nil {
		return nil, fmt.Errorf("the base %s: %w", name, err)
	}
	state.Model = model
	return state, nil
}

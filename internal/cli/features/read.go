package features

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/input"
	"sluice.dev/internal/life"
)

// definitions are components, features and the resources that they gate.
type definitions struct {
	components []v1alpha1.Component
	features   []v1alpha1.Feature
	resources  []feature.Resource
	kinds      map[string]string // the plural of a kind, by group/kind
	sources    []string          // files of kind FeatureFile
	configMaps []corev1.ConfigMap
	reports    []v1alpha1.FeatureReport

	// The places of components, features and ConfigMaps, by their index; empty if they do not come from files.
	componentsAt, featuresAt, configMapsAt []*input.Positions
}

// readDefinitions reads files and directories.
func readDefinitions(ctx context.Context, e *command.Env, files []string) (*definitions, error) {
	if len(files) == 0 {
		return nil, errors.New("no definitions: give files with -f")
	}
	d := &definitions{kinds: map[string]string{}}
	for _, name := range files {
		set, err := readManifests(ctx, e, name)
		if err != nil {
			return nil, err
		}
		if err := d.addObjects(set); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// readManifests reads all objects of a source as kubectl reads them.
func readManifests(ctx context.Context, e *command.Env, name string) (*input.Set, error) {
	src, err := input.ParseSource(name)
	if err != nil {
		return nil, err
	}
	return input.Load(ctx, src, input.Options{Stdin: e.In, Objects: true})
}

// addObjects adds the objects of a source. It skips kinds that have nothing to do with features.
func (d *definitions) addObjects(set *input.Set) error {
	for _, doc := range set.Documents {
		r, err := feature.ResourceOf(doc.CRD)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", doc.File, doc.Line, err)
		}
		d.resources = append(d.resources, r)
		d.kinds[r.Group+"/"+r.Kind] = r.Resource
	}
	for i := range set.Objects {
		o := &set.Objects[i]
		var meta metav1.TypeMeta
		if err := utiljson.Unmarshal(o.JSON, &meta); err != nil {
			return o.Wrong(err)
		}
		group, _, _ := strings.Cut(meta.APIVersion, "/")
		var err error
		switch ours := group == v1alpha1.SchemeGroupVersion.Group; {
		case ours && meta.Kind == "Component":
			d.components, d.componentsAt, err = appendDecoded(o, d.components, d.componentsAt)
		case ours && meta.Kind == "Feature":
			d.features, d.featuresAt, err = appendDecoded(o, d.features, d.featuresAt)
		case ours && meta.Kind == life.Kind:
			d.sources = append(d.sources, o.File)
		case ours && meta.Kind == "FeatureReport":
			d.reports, _, err = appendDecoded(o, d.reports, nil)
		case meta.Kind == "ConfigMap" && meta.APIVersion == "v1":
			d.configMaps, d.configMapsAt, err = appendDecoded(o, d.configMaps, d.configMapsAt)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// appendDecoded appends an object to the list of its type, and its place to the list of places. An unknown or duplicate field is an error.
func appendDecoded[T any](o *input.Object, to []T, at []*input.Positions) ([]T, []*input.Positions, error) {
	var v T
	if err := o.Strict(&v); err != nil {
		return nil, nil, err
	}
	return append(to, v), append(at, o.Positions), nil
}

// componentNamed returns the component of a name, or the only one.
func (d *definitions) componentNamed(name string) (*v1alpha1.Component, error) {
	var names []string
	for i := range d.components {
		if d.components[i].Name == name || name == "" && len(d.components) == 1 {
			return &d.components[i], nil
		}
		names = append(names, d.components[i].Name)
	}
	switch {
	case names == nil:
		return nil, d.noComponent()
	case name == "":
		return nil, fmt.Errorf("the files hold the components %s: choose one with --component", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("the files hold no component %q%s; they hold %s", name, brief.Hint(name, names), strings.Join(names, ", "))
}

// noComponent is the error for files without a Component.
func (d *definitions) noComponent() error {
	if d.sources != nil {
		return fmt.Errorf("the files hold no Component (sluice.dev/v1alpha1); %s is a %s, which sluice features generate, verify and docs read: give the file of output.manifests that generate writes", d.sources[0], life.Kind)
	}
	return errors.New("the files hold no Component (sluice.dev/v1alpha1)")
}

// settingsData collects the data of the component's ConfigMap: from the definitions, and from the flag --settings. Nil stands for no
// ConfigMap. The places are those of the ConfigMaps that come from files.
func (d *definitions) settingsData(ctx context.Context, e *command.Env, c *v1alpha1.Component, given []string) (data map[string]string, at []*input.Positions, err error) {
	set := func(more map[string]string) {
		if data == nil {
			data = map[string]string{}
		}
		maps.Copy(data, more)
	}
	for i := range d.configMaps {
		if isOf(&d.configMaps[i], c) {
			set(feature.SettingsOf(d.configMaps[i].Data, d.configMaps[i].BinaryData))
			at = append(at, d.configMapsAt[i])
		}
	}
	for _, s := range given {
		if key, value, ok := strings.Cut(s, "="); ok {
			set(map[string]string{key: value})
			continue
		}
		manifests, err := readManifests(ctx, e, s)
		if err != nil {
			return nil, nil, err
		}
		if len(manifests.Objects) == 0 {
			return nil, nil, fmt.Errorf("%s holds no ConfigMap; a setting is written KEY=VALUE", s)
		}
		for i := range manifests.Objects {
			o := &manifests.Objects[i]
			var meta metav1.TypeMeta
			if err := utiljson.Unmarshal(o.JSON, &meta); err != nil {
				return nil, nil, o.Wrong(err)
			}
			if meta.Kind != "ConfigMap" {
				return nil, nil, o.Wrong(fmt.Errorf("this is no ConfigMap but a %s", meta.Kind))
			}
			list, _, err := appendDecoded[corev1.ConfigMap](o, nil, nil)
			if err != nil {
				return nil, nil, err
			}
			set(feature.SettingsOf(list[0].Data, list[0].BinaryData))
			at = append(at, o.Positions)
		}
	}
	return data, at, nil
}

// readObject reads the one object of a file as Kubernetes decodes it.
func readObject(ctx context.Context, e *command.Env, file string) (map[string]any, error) {
	set, err := readManifests(ctx, e, file)
	if err != nil {
		return nil, err
	}
	switch len(set.Objects) {
	case 0:
		return nil, fmt.Errorf("%s holds no object", file)
	case 1:
	default:
		second := &set.Objects[1]
		return nil, fmt.Errorf("%s:%d: there is more than one object", second.File, second.Line)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(set.Objects[0].JSON, &out); err != nil {
		return nil, set.Objects[0].Wrong(err)
	}
	return out, nil
}

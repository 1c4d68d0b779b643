package features

// What do files say about features? They may have Components, Features, the CRDs that these gate, ConfigMaps with
// settings, and FeatureReports, in any order and in several files. This file reads them, keeps their places for
// messages, and finds the settings of a component: in its ConfigMap among the files, or in --settings.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	"sluice.dev/internal/settings"
	"sluice.dev/report"
)

// definitions are components, features and the resources that they gate.
type definitions struct {
	components []v1alpha1.Component
	features   []v1alpha1.Feature
	resources  []feature.Resource
	kinds      map[string]string // the plural of a kind, by group/kind
	sources    []string          // files of kind FeatureFile
	configMaps []*settings.Settings
	reports    []v1alpha1.FeatureReport

	// The places of components and features, by their index; empty if they do not come from files.
	componentsAt, featuresAt []*input.Positions
	read                     readObjects
}

// readDefinitions reads files and directories. Unknown fields and duplicate components are errors with their
// places.
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

// readObjects are the places of the objects that were read. A file can be given by itself and in its folder.
type readObjects map[report.Position]bool

// isAgain reports whether an object of a set was read before, and notes it.
func (r *readObjects) isAgain(set *input.Set, o *input.Object) bool {
	at := o.PlaceOf()
	if set.Commit != "" {
		at.File = set.Commit + ":" + at.File
	} else if path, err := filepath.EvalSymlinks(at.File); err == nil {
		// One file can be reached by several names: -f config -f config/features.yaml.
		if at.File, err = filepath.Abs(path); err != nil {
			at.File = path
		}
	}
	if (*r)[at] {
		return true
	}
	if *r == nil {
		*r = readObjects{}
	}
	(*r)[at] = true
	return false
}

// readManifests reads all objects of a source as kubectl reads them.
func readManifests(ctx context.Context, e *command.Env, name string) (*input.Set, error) {
	src, err := input.ParseSource(name)
	if err != nil {
		return nil, err
	}
	return input.Load(ctx, src, input.Options{Stdin: e.In, Objects: true})
}

// addObjects adds the objects of a source. It skips kinds that have nothing to do with features. A kind of
// sluice.dev whose name has wrong letters, such as feature, is an error: it would be skipped otherwise.
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
		if d.read.isAgain(set, o) {
			continue
		}
		var meta metav1.TypeMeta
		if err := utiljson.Unmarshal(o.JSON, &meta); err != nil {
			return o.Wrong(err)
		}
		group, _, _ := strings.Cut(meta.APIVersion, "/")
		var err error
		switch ours := group == v1alpha1.SchemeGroupVersion.Group; {
		case ours && meta.Kind == "Component":
			d.components, d.componentsAt, err = appendDecoded(o, d.components, d.componentsAt)
			err = cmp.Or(err, d.checkLastComponent(o))
		case ours && meta.Kind == "Feature":
			d.features, d.featuresAt, err = appendDecoded(o, d.features, d.featuresAt)
		case ours && meta.Kind == life.Kind:
			d.sources = append(d.sources, o.File)
		case ours && meta.Kind == "FeatureReport":
			d.reports, _, err = appendDecoded(o, d.reports, nil)
		case ours:
			kinds := []string{"Component", "Feature", life.Kind, "FeatureReport"}
			if i := slices.IndexFunc(kinds, func(k string) bool { return strings.EqualFold(k, meta.Kind) }); i >= 0 {
				err = o.WrongAt(fmt.Sprintf("there is no kind %q; write %s", meta.Kind, kinds[i]), "kind")
			}
		case strings.EqualFold(meta.Kind, "ConfigMap") && !strings.Contains(group, "."): // of no group, or a mistake: CRDs have groups with a dot
			var s *settings.Settings
			s, err = settings.OfConfigMap(o)
			d.configMaps = append(d.configMaps, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkLastComponent returns an error if the last component, which an object holds, is there already.
func (d *definitions) checkLastComponent(o *input.Object) error {
	last := len(d.components) - 1
	for i := range max(last, 0) {
		if d.components[i].Name == d.components[last].Name {
			at, _ := d.componentsAt[i].Find()
			return o.WrongAt(fmt.Sprintf("Component %s is at %s:%d already; leave one out", d.components[i].Name, at.File, at.Line))
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

// componentNamed returns the component of a name, or the only one. The error says which there are.
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

// settingsData collects the settings of the component: from its ConfigMap among the definitions, and from the flag
// --settings. Nil stands for no ConfigMap. from are those that come from files. Later files and flags take
// precedence over earlier ones.
func (d *definitions) settingsData(ctx context.Context, e *command.Env, c *v1alpha1.Component, given []string, gatesKey string) (data map[string]string, from []*settings.Settings, err error) {
	if mine, err := d.settingsOf(c); err != nil {
		return nil, nil, err
	} else if mine != nil {
		from = append(from, mine)
		data = maps.Clone(mine.Data)
	}
	for _, s := range given {
		if data == nil {
			data = map[string]string{}
		}
		if key, value, ok := strings.Cut(s, "="); ok {
			data[key] = value
			from = append(from, &settings.Settings{Data: map[string]string{key: value}})
			continue
		}
		file, err := readSettings(ctx, e, s, gatesKey)
		if err != nil {
			return nil, nil, err
		}
		if m := file.ConfigMap; m != nil && c.Spec.ConfigMap != nil && !isOf(m, c) {
			fmt.Fprintf(e.Err, "note: %s is ConfigMap %s/%s; those of component %q are in ConfigMap %s/%s\n",
				s, m.Namespace, m.Name, c.Name, c.Spec.ConfigMap.Namespace, c.Spec.ConfigMap.Name)
		}
		from = append(from, file)
		maps.Copy(data, file.Data)
	}
	return data, from, nil
}

// readSettings reads a file with settings, or a folder in which a ConfigMap is mounted, as processes do.
func readSettings(ctx context.Context, e *command.Env, name, gatesKey string) (file *settings.Settings, err error) {
	src, err := input.ParseSource(name)
	if err != nil {
		return nil, err
	}
	if info, statErr := os.Stat(name); src.Kind == input.Path && statErr == nil && info.IsDir() {
		file, err = settings.Read(name, gatesKey)
	} else {
		var set *input.Set
		if set, err = input.Load(ctx, src, input.Options{Stdin: e.In, Mappings: true}); err == nil {
			file, err = settings.FromSet(set, gatesKey)
		}
	}
	if err == nil && file.ConfigMap == nil && len(file.Data) == 0 {
		err = fmt.Errorf("%s holds no ConfigMap and no other settings; a setting is written KEY=VALUE", name)
	}
	return file, err
}

// settingsOf returns the settings in the ConfigMap of a component that is among the files; nil if none is.
func (d *definitions) settingsOf(c *v1alpha1.Component) (out *settings.Settings, err error) {
	for _, s := range d.configMaps {
		if !isOf(s.ConfigMap, c) {
			continue
		}
		if out != nil {
			other := out.Object.PlaceOf()
			return nil, s.Object.WrongAt(fmt.Sprintf("ConfigMap %s is at %s:%d already; leave one out", s.ConfigMap.Name, other.File, other.Line))
		}
		out = s
	}
	return out, nil
}

// readObject reads the one object of a file as Kubernetes decodes it. No object, or more than one, is an error.
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

// sourcePlace is a place in a file.
type sourcePlace struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// placePrefix writes a place as compilers do, followed by a colon; empty if the place is not known.
func (p sourcePlace) placePrefix() string {
	switch {
	case p.File == "":
		return ""
	case p.Line == 0: // a file of a mounted ConfigMap
		return p.File + ": "
	}
	return fmt.Sprintf("%s:%d: ", p.File, p.Line)
}

// lastPlace is the place of a path in the last object that has it, or else of the longest part of it in the last object. Objects that
// are not from files have no place.
func lastPlace(at []*input.Positions, where ...string) (out sourcePlace) {
	exact := false
	for _, p := range at {
		if place, found := p.Find(where...); found || !exact {
			out, exact = sourcePlace{place.File, place.Line}, found
		}
	}
	if out.File == "-" {
		out.File = "standard input"
	}
	return out
}

// findFeature finds a part of the Feature of a gate, findComponent a part of a Component.
func (d *definitions) findFeature(component, gate string, where ...string) sourcePlace {
	return lastPlace(d.placesOfGate(component, gate), where...)
}

// firstFeature finds a part of the first of several Features of a gate.
func (d *definitions) firstFeature(component, gate string, where ...string) sourcePlace {
	at := d.placesOfGate(component, gate)
	return lastPlace(at[:min(len(at), 1)], where...)
}

func (d *definitions) placesOfGate(component, gate string) []*input.Positions {
	return placesOf(d.features, d.featuresAt, func(f *v1alpha1.Feature) bool { return f.Spec.Component == component && f.Spec.Gate == gate })
}

func (d *definitions) findComponent(name string, where ...string) sourcePlace {
	isMeant := func(c *v1alpha1.Component) bool { return c.Name == name }
	return lastPlace(placesOf(d.components, d.componentsAt, isMeant), where...)
}

// placesOf are the places of the objects that are meant, as far as they come from files.
func placesOf[T any](objects []T, at []*input.Positions, isMeant func(*T) bool) (out []*input.Positions) {
	for i := range at {
		if isMeant(&objects[i]) {
			out = append(out, at[i])
		}
	}
	return out
}

// settingPlace is the place of a finding about settings, in the last of the files that has the key; none if a flag has it.
func settingPlace(from []*settings.Settings, x *feature.Finding) (out sourcePlace) {
	found := false
	for _, s := range from {
		if s == nil {
			continue // of a cluster
		}
		if _, ok := s.Data[x.Where]; ok || !found {
			at := s.PlaceOf(x)
			out, found = sourcePlace{at.File, at.Line}, ok
		}
	}
	return out
}

// isOf reports whether a ConfigMap is the one of a component. A ConfigMap without a namespace in a file is taken
// for it, whatever namespace it will have.
func isOf(m *corev1.ConfigMap, c *v1alpha1.Component) bool {
	ref := c.Spec.ConfigMap
	return ref != nil && m.Name == ref.Name && (m.Namespace == ref.Namespace || m.Namespace == "")
}

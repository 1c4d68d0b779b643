package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/limit"
	"sluice.dev/internal/nearest"
)

// maxDefinitions is how many bytes are read of one file.
const maxDefinitions = 64 << 20

// definitions are components, features and what they gate.
type definitions struct {
	components []v1alpha1.Component
	features   []v1alpha1.Feature
	resources  []feature.Resource
	kinds      map[string]string // the plural of a kind, by group/kind
	configMaps []corev1.ConfigMap
	reports    []v1alpha1.FeatureReport
	files      []sourceFile // in which Components, Features and ConfigMaps stand
}

// readDefinitions reads files and directories.
func readDefinitions(e *env, files []string) (*definitions, error) {
	if len(files) == 0 {
		return nil, errors.New("no definitions: give files with -f")
	}
	d := &definitions{kinds: map[string]string{}}
	for _, name := range files {
		list := []string{name}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			if list, err = manifestsIn(name); err != nil {
				return nil, err
			}
		}
		for _, file := range list {
			data, err := readSource(e, file)
			if err != nil {
				return nil, err
			}
			before := len(d.components) + len(d.features) + len(d.configMaps)
			if err := documentsOf(sourceName(file), data, d.add); err != nil {
				return nil, err
			}
			if len(d.components)+len(d.features)+len(d.configMaps) > before {
				d.files = append(d.files, sourceFile{name: sourceName(file), data: data})
			}
		}
	}
	return d, nil
}

func manifestsIn(dir string) (out []string, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			out = append(out, path)
		}
		return err
	})
	return out, err
}

// eachDocument calls do for every document of a file that holds something.
func eachDocument(e *env, file string, do func(doc []byte) error) error {
	data, err := readSource(e, file)
	if err != nil {
		return err
	}
	return documentsOf(sourceName(file), data, do)
}

func sourceName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// readSource reads a file, or standard input.
func readSource(e *env, file string) ([]byte, error) {
	in := e.in
	if file != "-" {
		f, err := os.Open(file) //nolint:gosec // the file that the user names
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := limit.ReadAll(in, maxDefinitions)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sourceName(file), err)
	}
	return data, nil
}

// documentsOf calls do for every document that holds something.
func documentsOf(name string, data []byte, do func(doc []byte) error) error {
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		at := fmt.Sprintf("%s, document %d", name, n)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		var content map[string]any
		if err := yaml.Unmarshal(doc, &content); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if len(content) == 0 {
			continue
		}
		if err := do(doc); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
}

// add takes in what a document holds; kinds that say nothing of features are passed over.
func (d *definitions) add(doc []byte) error {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &meta); err != nil {
		return err
	}
	strict := func(to any) error { return unmarshalStrict(doc, to) }
	switch group, _, _ := strings.Cut(meta.APIVersion, "/"); {
	case meta.Kind == "Component" && group == v1alpha1.SchemeGroupVersion.Group:
		var c v1alpha1.Component
		if err := strict(&c); err != nil {
			return err
		}
		d.components = append(d.components, c)
	case meta.Kind == "Feature" && group == v1alpha1.SchemeGroupVersion.Group:
		var f v1alpha1.Feature
		if err := strict(&f); err != nil {
			return err
		}
		d.features = append(d.features, f)
	case meta.Kind == "FeatureReport" && group == v1alpha1.SchemeGroupVersion.Group:
		var r v1alpha1.FeatureReport
		if err := strict(&r); err != nil {
			return err
		}
		d.reports = append(d.reports, r)
	case meta.Kind == "CustomResourceDefinition":
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(doc, &crd); err != nil {
			return err
		}
		r, err := feature.ResourceOf(&crd)
		if err != nil {
			return err
		}
		d.resources = append(d.resources, r)
		d.kinds[r.Group+"/"+r.Kind] = r.Resource
	case meta.Kind == "ConfigMap" && meta.APIVersion == "v1":
		var c corev1.ConfigMap
		if err := yaml.Unmarshal(doc, &c); err != nil {
			return err
		}
		d.configMaps = append(d.configMaps, c)
	case meta.Kind == "List":
		var list struct {
			Items []map[string]any `json:"items"`
		}
		if err := yaml.Unmarshal(doc, &list); err != nil {
			return err
		}
		for i, item := range list.Items {
			data, err := yaml.Marshal(item)
			if err != nil {
				return err
			}
			if item["kind"] == "List" {
				return fmt.Errorf("items[%d] is a List itself", i)
			}
			if err := d.add(data); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
	}
	return nil
}

// component returns the component of a name, or the only one.
func (d *definitions) component(name string) (*v1alpha1.Component, error) {
	var names []string
	for i := range d.components {
		if d.components[i].Name == name || name == "" && len(d.components) == 1 {
			return &d.components[i], nil
		}
		names = append(names, d.components[i].Name)
	}
	switch {
	case names == nil:
		return nil, errors.New("the files hold no Component (sluice.dev/v1alpha1)")
	case name == "":
		return nil, fmt.Errorf("the files hold the components %s: choose one with --component", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("the files hold no component %q%s; they hold %s", name, nearest.Hint(name, names), strings.Join(names, ", "))
}

// settings collects the data of the component's ConfigMap: from the definitions, and from what is given beside them. Nil
// stands for no ConfigMap.
func (d *definitions) settings(e *env, c *v1alpha1.Component, given []string) (map[string]string, error) {
	var data map[string]string
	set := func(more map[string]string) {
		if data == nil {
			data = map[string]string{}
		}
		maps.Copy(data, more)
	}
	if ref := c.Spec.ConfigMap; ref != nil {
		for i := range d.configMaps {
			if m := &d.configMaps[i]; m.Name == ref.Name && (m.Namespace == ref.Namespace || m.Namespace == "") {
				set(m.Data)
			}
		}
	}
	for _, s := range given {
		if key, value, ok := strings.Cut(s, "="); ok {
			set(map[string]string{key: value})
			continue
		}
		found := false
		err := eachDocument(e, s, func(doc []byte) error {
			var m corev1.ConfigMap
			if err := yaml.Unmarshal(doc, &m); err != nil {
				return err
			}
			if m.Kind != "ConfigMap" {
				return fmt.Errorf("this is no ConfigMap but a %s", cmp.Or(m.Kind, "document without a kind"))
			}
			if err := unmarshalStrict(doc, &m); err != nil {
				return err
			}
			found = true
			set(m.Data)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("%s holds no ConfigMap; a setting is written KEY=VALUE", s)
		}
	}
	return data, nil
}

// readObject reads the one object of a file as Kubernetes decodes it.
func readObject(e *env, file string) (map[string]any, error) {
	var out map[string]any
	err := eachDocument(e, file, func(doc []byte) error {
		if out != nil {
			return errors.New("there is more than one object")
		}
		data, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return err
		}
		return utiljson.Unmarshal(data, &out)
	})
	if err == nil && out == nil {
		err = fmt.Errorf("%s holds no object", file)
	}
	return out, err
}

// Package settings reads the settings of features from files, for processes and for commands alike: each form of a file means the same to
// all of them, and each error has its place. It decides the form alone. Which keys there are and what their values mean, package
// feature says.
package settings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/feature"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/input"
	"sluice.dev/internal/limit"
	"sluice.dev/report"
)

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

// fileGates is the key of gates in files.
const fileGates = "featureGates"

// Settings are those of one file or object.
type Settings struct {
	// Data are the settings in the form of a ConfigMap's data, as [feature.SettingsOf] gives them. It is never nil.
	Data map[string]string
	// ConfigMap is the object that they stand in; nil for other forms.
	ConfigMap *corev1.ConfigMap
	// Object is what was read; nil for a folder.
	Object *input.Object

	placeOf func(key, gate string) report.Position
}

// PlaceOf returns the place of a finding of [feature.Model.ParseSettings].
func (s *Settings) PlaceOf(f *feature.Finding) report.Position {
	if s == nil || s.placeOf == nil {
		return report.Position{}
	}
	return s.placeOf(f.Where, cmp.Or(f.Gate, f.Entry))
}

// Read reads a file or a folder. A folder is one in which a ConfigMap is mounted: each file is a key, and what begins with a dot is passed
// over. [FromSet] says what a file holds.
func Read(path, gatesKey string) (*Settings, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return readFolder(path)
	}
	text, err := limit.ReadFile(path, maxFile)
	if err != nil {
		return nil, err
	}
	set, err := input.DecodeMappings(context.Background(), path, text)
	if err != nil {
		return nil, err
	}
	return FromSet(set, gatesKey)
}

// FromSet returns the settings of a set of one object at most, which was read with [input.Options].Mappings. The object is a ConfigMap, or a
// mapping of keys to values. In a mapping, featureGates is the same as gatesKey, and the value of both may be a mapping of gates to
// booleans. Of an object of another kind only featureGates is read: such are the configuration files of cert-manager's and
// Kubernetes' own programs.
func FromSet(set *input.Set, gatesKey string) (*Settings, error) {
	const one = "a second document begins here; settings are one document, so merge the two"
	for _, w := range set.Warnings {
		if w.CRD == "" {
			return nil, &input.Error{Position: w.Position, Msg: one}
		}
	}
	switch len(set.Objects) {
	case 0:
		return &Settings{Data: map[string]string{}}, nil
	case 1:
		return ofObject(&set.Objects[0], gatesKey)
	}
	return nil, set.Objects[1].WrongAt(one)
}

// ofObject returns the settings of one document. What is of apiVersion v1 has to be a ConfigMap, so that
// another kind there is reported and not taken for a mapping. Anything else with apiVersion and kind
// configures a program, and only its featureGates count.
func ofObject(o *input.Object, gatesKey string) (*Settings, error) {
	if o.Twice != nil {
		return nil, o.Twice
	}
	var content map[string]any
	if err := utiljson.Unmarshal(o.JSON, &content); err != nil {
		return nil, o.Wrong(err)
	}
	version, _ := content["apiVersion"].(string)
	kind, _ := content["kind"].(string)
	switch {
	case strings.EqualFold(kind, "ConfigMap") || version == "v1":
		return OfConfigMap(o)
	case version != "" && kind != "":
		for _, key := range slices.Sorted(maps.Keys(content)) {
			if key != fileGates && meansGates(key) {
				return nil, o.WrongAt(key+" sets no gate; the key is "+fileGates, key)
			}
		}
		maps.DeleteFunc(content, func(key string, _ any) bool { return key != fileGates }) // the rest configures the program
	}
	return ofMapping(o, content, gatesKey)
}

// meansGates reports whether a key is featureGates, or almost.
func meansGates(key string) bool {
	return strings.EqualFold(key, fileGates) || brief.Hint(key, []string{fileGates}) != ""
}

// OfConfigMap returns the settings of a ConfigMap, which is read as strictly as kubectl does. An object of another kind is an error.
func OfConfigMap(o *input.Object) (*Settings, error) {
	var is metav1.TypeMeta
	if err := utiljson.Unmarshal(o.JSON, &is); err != nil {
		return nil, o.Wrong(err)
	}
	if is.Kind != "ConfigMap" || is.APIVersion != "" && is.APIVersion != "v1" {
		return nil, o.WrongAt(fmt.Sprintf("this is no ConfigMap but apiVersion %q, kind %q; a ConfigMap has apiVersion: v1 and kind: ConfigMap", is.APIVersion, is.Kind), "kind")
	}
	s := &Settings{ConfigMap: &corev1.ConfigMap{}, Object: o}
	if err := o.Strict(s.ConfigMap); err != nil {
		return nil, err
	}
	if s.Data = feature.SettingsOf(s.ConfigMap.Data, s.ConfigMap.BinaryData); s.Data == nil {
		s.Data = map[string]string{}
	}
	s.placeOf = func(key, _ string) report.Position {
		in, name, binary := strings.Cut(key, "/") // binaryData/KEY
		if !binary {
			in, name = "data", key
		}
		return o.PlaceOf(in, name)
	}
	return s, nil
}

// ofMapping returns the settings of a mapping of keys to values.
func ofMapping(o *input.Object, content map[string]any, gatesKey string) (*Settings, error) {
	s := &Settings{Data: map[string]string{}, Object: o}
	for _, key := range slices.Sorted(maps.Keys(content)) {
		value := content[key]
		if key == fileGates {
			if _, both := content[gatesKey]; both && gatesKey != fileGates {
				return nil, o.WrongAt(fmt.Sprintf("%s and %s are the same: leave one out", fileGates, gatesKey), key)
			}
		}
		var text string
		var err error
		switch gates, isMapping := value.(map[string]any); {
		case key != fileGates && key != gatesKey:
			text, err = settingText(o, key, value)
		case isMapping:
			text, err = gatesText(o, key, gates)
		default:
			if _, isText := value.(string); !isText && value != nil {
				err = o.WrongAt(fmt.Sprintf("%s is no mapping of gates, such as {Banner: true}, and no text such as Banner=true", key), key)
			}
			text, _ = value.(string)
		}
		if err != nil {
			return nil, err
		}
		if key == fileGates {
			key = gatesKey
		}
		s.Data[key] = text
	}
	s.placeOf = func(key, gate string) report.Position {
		if _, ok := content[fileGates]; ok && key == gatesKey {
			key = fileGates
		}
		path := []string{key}
		if _, isMapping := content[key].(map[string]any); isMapping && gate != "" {
			path = append(path, gate)
		}
		return o.PlaceOf(path...)
	}
	return s, nil
}

// settingText writes a value in the form of a ConfigMap. No value is the empty text there.
func settingText(o *input.Object, key string, value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case bool, int64:
		return fmt.Sprint(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	if meansGates(key) {
		return "", o.WrongAt(key+" sets no gate; the key is "+fileGates, key)
	}
	return "", o.WrongAt(key+" is a list or an object, and the value of a setting is text, a boolean or a number", key)
}

// gatesText writes a mapping of gates as text.
func gatesText(o *input.Object, key string, gates map[string]any) (string, error) {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if strings.ContainsAny(name, "=,") {
			return "", o.WrongAt(fmt.Sprintf("%q is no name of a gate; a gate and its value are written %s: {Banner: true}", name, key), key, name)
		}
		var text string
		switch v := gates[name].(type) {
		case bool, int64:
			text = fmt.Sprint(v)
		case string:
			text = v
		}
		if text == "" || strings.Contains(text, ",") {
			return "", o.WrongAt(fmt.Sprintf("the value of %s is neither true nor false", name), key, name)
		}
		entries = append(entries, name+"="+text)
	}
	return strings.Join(entries, ","), nil
}

// readFolder reads the files of a mounted ConfigMap. Kubelet exchanges them while they are read, so one that
// is gone meanwhile is passed over. Folders and names with a dot in front are its own.
func readFolder(path string) (*Settings, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	s := &Settings{Data: map[string]string{}, placeOf: func(key, _ string) report.Position { return report.Position{File: filepath.Join(path, key)} }}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		// A mounted file is a symbolic link.
		name := filepath.Join(path, e.Name())
		if info, err := os.Stat(name); err != nil || info.IsDir() {
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		text, err := limit.ReadFile(name, maxFile)
		if err != nil {
			return nil, err
		}
		s.Data[e.Name()] = string(text)
	}
	return s, nil
}

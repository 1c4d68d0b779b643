// Package convertfaults converts between two versions of a CRD, correctly or with one of several faults. Tests of conversion checks use it.
package convertfaults

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Manifest is the CRD of widgets.
//
//go:embed widgets.yaml
var Manifest []byte

// CRD returns the CRD of widgets.
// Each call decodes it anew, so that a test may change it.
func CRD() (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, yaml.UnmarshalStrict(Manifest, crd)
}

// sizes has the names of sizes in v1beta1, and those in v1.
var sizes = map[string]string{"S": "small", "M": "medium", "L": "large"}

// Fault is a mistake, and what a check has to say of it.
// The tests of the check and those of the command go through the same list.
type Fault struct {
	Name string
	// Rule and Path are those of the finding about v1beta1, and Witness is part of its object.
	Rule, Path, Witness string
}

// Faults are all mistakes.
// Each is a mistake that a converter written by hand can make. The order is that of the tables
// in tests.
var Faults = []Fault{
	{"lost field", "conversion-loses-value", ".spec.color", "color:"},
	{"wrong default", "conversion-adds-value", ".spec.replicas", "spec: {}"},
	{"other default", "conversion-default-differs", ".spec.debug", "debug: false"},
	{"enum mapped wrongly", "conversion-loses-value", ".spec.size", "size: M"},
	{"list reordered", "conversion-loses-value", ".spec.ports", "ports:\n  - "},
	{"annotations dropped", "conversion-loses-value", ".metadata.annotations", "annotations:"},
	{"metadata changed", "conversion-metadata-changed", ".metadata.finalizers", "finalizers:"},
	{"not deterministic", "conversion-not-deterministic", ".spec.appearance.color", "color:"},
	{"nil map", "conversion-fails", "", "kind: Widget"},
	{"panic on one object", "conversion-fails", "", "color: "},
	{"slow answer", "conversion-slow", "", "size: L"},
	{"name changed", "conversion-answer-refused", "", "kind: Widget"},
	{"undeclared field", "conversion-loses-pruned", ".spec.colour", "color:"},
	{"invalid result", "conversion-result-invalid", ".spec.replicas", "replicas: 10"},
	{"one key kept", "conversion-loses-value", ".spec.settings.*", "settings:\n    "},
	{"integer dropped", "conversion-loses-value", ".spec.target", "target: 1"},
	{"text dropped", "conversion-loses-value", ".spec.target", "target: a"},
	{"null dropped", "conversion-loses-empty", ".spec.note", "note: null"},
	{"integer through a float", "conversion-loses-value", ".spec.bytes", "bytes: 9007199254740993"},
	{"only ASCII", "conversion-loses-value", ".spec.note", "note: ' é '"},
	{"spaces trimmed", "conversion-loses-value", ".spec.note", "note: ' é '"},
	{"knows every version", "conversion-protocol", ".desiredAPIVersion", ""},
}

const v1beta1, v1 = "example.com/v1beta1", "example.com/v1"

// Widgets returns a function that converts widgets with the fault of that name; without a name it is right. sleep is called where a slow
// converter takes its time.
// It changes the object that it gets, and returns it. One function keeps count of its calls, for the
// fault that depends on them.
func Widgets(f string, sleep func(time.Duration)) func(obj map[string]any, to string) (map[string]any, error) {
	calls := 0
	return func(obj map[string]any, to string) (map[string]any, error) {
		calls++
		from, _ := obj["apiVersion"].(string)
		known := []string{v1beta1, v1}
		if f != "knows every version" && (!slices.Contains(known, from) || !slices.Contains(known, to)) {
			return nil, errors.New("no conversion from " + from + " to " + to)
		}
		if spec, ok := obj["spec"].(map[string]any); ok {
			switch to {
			case v1:
				toV1(spec, f, calls)
			case v1beta1:
				toV1beta1(spec, f)
			}
		}
		obj["apiVersion"] = to
		spoil(obj, f, sleep)
		return obj, nil
	}
}

// spoil makes the mistakes that do not depend on the version.
// It runs after the conversion, on what a converter without the fault would have returned.
func spoil(obj map[string]any, f string, sleep func(time.Duration)) {
	meta, _ := obj["metadata"].(map[string]any)
	spec, _ := obj["spec"].(map[string]any)
	spoilScalars(spec, f)
	switch f {
	case "annotations dropped":
		delete(meta, "annotations")
	case "metadata changed":
		delete(meta, "finalizers")
	case "name changed":
		meta["name"] = "other"
	case "nil map":
		labels, _ := meta["labels"].(map[string]string)
		labels["converted"] = "true"
	case "one key kept":
		if settings, _ := spec["settings"].(map[string]any); len(settings) > 1 {
			delete(settings, slices.Max(slices.Collect(maps.Keys(settings))))
		}
	case "slow answer":
		if spec["size"] == "large" {
			sleep(time.Second)
		}
	}
}

// spoilScalars makes the mistakes about fields that both versions have.
// They are apart from those of [spoil] because they look at the type of a value, which both versions have
// in the same place.
func spoilScalars(spec map[string]any, f string) {
	note, isText := spec["note"].(string)
	_, isInteger := spec["target"].(int64)
	switch {
	case f == "integer dropped" && isInteger, f == "text dropped" && !isInteger:
		delete(spec, "target")
	case f == "null dropped" && spec["note"] == nil:
		delete(spec, "note")
	case f == "only ASCII" && isText:
		spec["note"] = strings.ReplaceAll(note, "é", "")
	case f == "spaces trimmed" && isText:
		spec["note"] = strings.TrimSpace(note)
	case f == "integer through a float" && spec["bytes"] != nil:
		n, _ := spec["bytes"].(int64)
		spec["bytes"] = float64(n)
	}
}

// toV1 converts a spec: color moves into appearance, sizes have long names, ports become objects, and
// source is taken apart. Some faults lose something on this way.
func toV1(spec map[string]any, f string, calls int) {
	if color, ok := spec["color"].(string); ok {
		delete(spec, "color")
		switch f {
		case "lost field":
		case "undeclared field":
			spec["colour"] = color
		case "not deterministic":
			spec["appearance"] = map[string]any{"color": fmt.Sprint(calls)}
		default:
			spec["appearance"] = map[string]any{"color": color}
		}
	}
	if size, ok := spec["size"].(string); ok {
		spec["size"] = sizes[size]
		if f == "enum mapped wrongly" && size == "M" {
			spec["size"] = "large"
		}
	}
	if ports, ok := spec["ports"].([]any); ok {
		if f == "list reordered" {
			slices.SortFunc(ports, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		for i := range ports {
			ports[i] = map[string]any{"port": ports[i]}
		}
	}
	if source, ok := spec["source"].(map[string]any); ok {
		delete(spec, "source")
		maps.Copy(spec, source)
	}
	replicas, has := spec["replicas"].(int64)
	switch {
	case f == "wrong default" && !has:
		spec["replicas"] = int64(3)
	case f == "panic on one object" && spec["appearance"] != nil && spec["ports"] != nil:
		panic("color and ports") //nolint:forbidigo // this is the fault
	case f == "invalid result" && replicas == 10:
		spec["replicas"] = int64(11)
	case f == "other default" && spec["debug"] == false:
		delete(spec, "debug")
	}
}

// toV1beta1 is the way back. It makes one mistake only, which repairs what the invalid result of the
// other direction breaks, so that the round trip looks fine.
func toV1beta1(spec map[string]any, f string) {
	if look, ok := spec["appearance"].(map[string]any); ok {
		delete(spec, "appearance")
		if color, ok := look["color"]; ok {
			spec["color"] = color
		}
	}
	for short, long := range sizes {
		if spec["size"] == long {
			spec["size"] = short
			break
		}
	}
	if ports, ok := spec["ports"].([]any); ok {
		for i := range ports {
			port, _ := ports[i].(map[string]any)
			ports[i] = port["port"]
		}
	}
	for _, kind := range []string{"git", "image"} {
		if v, ok := spec[kind]; ok {
			delete(spec, kind)
			spec["source"] = map[string]any{kind: v}
		}
	}
	if f == "invalid result" && spec["replicas"] == int64(11) {
		spec["replicas"] = int64(10)
	}
}

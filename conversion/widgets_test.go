package conversion_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice.dev/conversion"
)

var sizes = map[string]string{"S": "small", "M": "medium", "L": "large"}

// fault is a mistake that authors of converters make.
type fault string

// faults are those that the checks have to find, with the rules that report them and what the witness has.
var faults = []struct {
	fault   fault
	rule    string
	path    string
	witness string
}{
	{"lost field", "conversion-loses-value", ".spec.color", "color:"},
	{"wrong default", "conversion-adds-value", ".spec.replicas", "spec: {}"},
	{"other default", "conversion-default-differs", ".spec.debug", "debug: false"},
	{"enum mapped wrongly", "conversion-loses-value", ".spec.size", "size: M"},
	{"list reordered", "conversion-loses-value", ".spec.ports", "ports:\n  - "},
	{"annotations dropped", "conversion-loses-value", ".metadata.annotations", "annotations:"},
	{"metadata changed", "conversion-metadata-changed", ".metadata.finalizers", "finalizers:"},
	{"not deterministic", "conversion-not-deterministic", ".spec.appearance.color", "color:"},
	{"nil map", "conversion-fails", "", "kind: Widget"},
	{"panic on one object", "conversion-fails", "", "size: L\n  source:\n    image:"},
	{"slow answer", "conversion-slow", "", "size: L"},
	{"name changed", "conversion-answer-refused", "", "kind: Widget"},
	{"undeclared field", "conversion-loses-pruned", ".spec.colour", "color:"},
	{"invalid result", "conversion-result-invalid", ".spec.replicas", "replicas: 10"},
	{"knows every version", "conversion-protocol", ".desiredAPIVersion", ""},
}

// clock is a clock that a slow converter sets forward.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// widgets returns the conversion of widgets with a fault; without one it is right.
func widgets(f fault, c *clock) conversion.Func {
	calls := 0
	return func(obj map[string]any, to string) (map[string]any, error) {
		calls++
		from, _ := obj["apiVersion"].(string)
		spec, _ := obj["spec"].(map[string]any)
		if spec != nil {
			var err error
			switch {
			case from == "example.com/v1beta1" && to == "example.com/v1":
				err = toV1(spec, f, calls)
			case from == "example.com/v1" && to == "example.com/v1beta1":
				err = toV1beta1(spec, f)
			case f != "knows every version":
				err = fmt.Errorf("no conversion from %q to %q", from, to)
			}
			if err != nil {
				return nil, err
			}
		} else if !slices.Contains([]string{"example.com/v1", "example.com/v1beta1"}, from) || !strings.HasSuffix(to, "/v1") && !strings.HasSuffix(to, "/v1beta1") {
			if f != "knows every version" {
				return nil, errors.New("unknown version")
			}
		}
		obj["apiVersion"] = to
		spoil(obj, f, c)
		return obj, nil
	}
}

// spoil makes the mistakes that do not depend on the version.
func spoil(obj map[string]any, f fault, c *clock) {
	meta, _ := obj["metadata"].(map[string]any)
	spec, _ := obj["spec"].(map[string]any)
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
	case "slow answer":
		if spec["size"] == "large" {
			c.at = c.at.Add(time.Second)
		}
	}
}

func toV1(spec map[string]any, f fault, calls int) error {
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
			slices.SortFunc(ports, func(a, b any) int { return int(a.(int64) - b.(int64)) })
		}
		for i := range ports {
			ports[i] = map[string]any{"port": ports[i]}
		}
	}
	if source, ok := spec["source"].(map[string]any); ok {
		delete(spec, "source")
		for k, v := range source {
			spec[k] = v
		}
	}
	replicas, has := spec["replicas"].(int64)
	switch {
	case f == "wrong default" && !has:
		spec["replicas"] = int64(3)
	case f == "panic on one object" && spec["size"] == "large" && spec["image"] != nil:
		panic("no large images")
	case f == "invalid result" && replicas == 10:
		spec["replicas"] = int64(11)
	case f == "other default" && spec["debug"] == false:
		delete(spec, "debug")
	}
	return nil
}

func toV1beta1(spec map[string]any, f fault) error {
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
	return nil
}

package features

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/input"
)

// sourcePlace is a place in a file.
type sourcePlace struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// String writes a place as compilers do; empty if the place is not known.
func (p sourcePlace) String() string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// placePrefix is String, followed by a colon if it is not empty.
func (p sourcePlace) placePrefix() string {
	if p.File == "" {
		return ""
	}
	return p.String() + ": "
}

// sourceName is the name of a source for people.
func sourceName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// exactPlace follows a path of keys and indices in an object as far as it goes; it reports whether the whole path exists.
func exactPlace(at *input.Positions, where ...string) (sourcePlace, bool) {
	pos, found := at.Find(where...)
	return sourcePlace{sourceName(pos.File), pos.Line}, found
}

// lastPlace is the place of a path in the last object that has it, or else of the longest part of it in the last object. Objects that
// are not from files have no place.
func lastPlace(at []*input.Positions, where ...string) (out sourcePlace) {
	exact := false
	for _, p := range at {
		if place, found := exactPlace(p, where...); found || !exact {
			out, exact = place, found
		}
	}
	return out
}

// findFeature finds a part of the Feature of a gate, findComponent a part of a Component.
func (d *definitions) findFeature(component, gate string, where ...string) sourcePlace {
	var at []*input.Positions
	for i := range d.featuresAt {
		if s := &d.features[i].Spec; s.Component == component && s.Gate == gate {
			at = append(at, d.featuresAt[i])
		}
	}
	return lastPlace(at, where...)
}

func (d *definitions) findComponent(name string, where ...string) sourcePlace {
	var at []*input.Positions
	for i := range d.componentsAt {
		if d.components[i].Name == name {
			at = append(at, d.componentsAt[i])
		}
	}
	return lastPlace(at, where...)
}

// settingsOf are the places of the ConfigMaps of a component that come from files.
func (d *definitions) settingsOf(c *v1alpha1.Component) (at []*input.Positions) {
	for i := range d.configMapsAt {
		if isOf(&d.configMaps[i], c) {
			at = append(at, d.configMapsAt[i])
		}
	}
	return at
}

// settingPlace finds a key of settings; binaryData/KEY is one of binaryData.
func settingPlace(at []*input.Positions, key string) sourcePlace {
	in, rest, ok := strings.Cut(key, "/")
	if !ok {
		in, rest = "data", key
	}
	return lastPlace(at, in, rest)
}

// isOf reports whether a ConfigMap is the one of a component.
func isOf(m *corev1.ConfigMap, c *v1alpha1.Component) bool {
	ref := c.Spec.ConfigMap
	return ref != nil && m.Name == ref.Name && (m.Namespace == ref.Namespace || m.Namespace == "")
}

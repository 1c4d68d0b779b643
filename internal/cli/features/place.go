package features

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/input"
	"sluice.dev/internal/settings"
)

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

// isOf reports whether a ConfigMap is the one of a component.
func isOf(m *corev1.ConfigMap, c *v1alpha1.Component) bool {
	ref := c.Spec.ConfigMap
	return ref != nil && m.Name == ref.Name && (m.Namespace == ref.Namespace || m.Namespace == "")
}

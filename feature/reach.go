package feature

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
)

// reachable tells of parts whose field can be written in a version that no part of the feature names, although the versions have the same
// data. Where a webhook converts, such writes are judged in a version that is named.
func (d *definer) reachable() {
	for _, f := range d.model.features {
		if f.Stage == v1alpha1.Removed || d.has(f.Spec.Gate) {
			continue
		}
		for i := range f.Spec.Parts {
			p := &f.Spec.Parts[i]
			r, ok := d.model.Resource(p.Group, p.Resource)
			if !ok || r.Converted || p.WholeVersion || len(p.Versions) == 0 {
				continue
			}
			path, err := ParsePath(p.Field)
			if err != nil {
				continue
			}
			var open []string
			for _, v := range r.Versions {
				if v.Schema == nil || d.gates(f, p, v.Name) {
					continue
				}
				if _, _, problem := resolvePath(v.Schema, path); problem == "" {
					open = append(open, v.Name)
				}
			}
			if open != nil {
				d.warn(CodeOpenVersion, f.Spec.Gate, fmt.Sprintf("spec.parts[%d].versions", i), "%s can be set in version %s, which no part names, and is the same data there: name it, or leave versions out",
					p.Field, strings.Join(open, ", "))
			}
		}
	}
}

// gates tells whether a feature has a part of a resource in a version, or any feature of the component gates all of that version.
func (d *definer) gates(f *Feature, p *v1alpha1.Part, version string) bool {
	for _, g := range d.model.features {
		for i := range g.Targets {
			t := &g.Targets[i]
			if t.Group == p.Group && t.Resource == p.Resource && t.Version == version && (t.WholeVersion || g == f) {
				return true
			}
		}
	}
	return slices.Contains(p.Versions, version)
}

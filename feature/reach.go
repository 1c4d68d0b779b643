package feature

// In which versions can clients write the same data? Without a conversion webhook the versions of a CRD differ in their
// name only, so a field that is gated in v1 could be set through v1beta1. Such versions get the same targets.

import (
	"reflect"
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
)

// sameData adds targets for the versions that a part does not name, but in which clients can write the same data. Without a conversion
// webhook, versions differ only in their name, so a field that is gated in one of them would be open in the others. It reports versions
// in which the field cannot be gated.
func (d *definer) sameData(f *Feature, i int, t Target, where string) {
	p := &f.Spec.Parts[i]
	r, ok := d.model.Resource(p.Group, p.Resource)
	if !ok || r.Converted || p.WholeVersion || len(p.Versions) == 0 || f.Stage == v1alpha1.Removed {
		return
	}
	var open []string
	for _, v := range r.Versions {
		if v.Schema == nil || f.namesVersion(p, v.Name) {
			continue
		}
		path, node, problem := resolvePath(v.Schema, t.Path)
		if problem != "" {
			continue
		}
		target, told := t, len(d.list)
		target.Version, target.Scale, target.Path, target.Schema = v.Name, v.Scale, path, node
		d.readReset(f, &target, where)
		d.checkTarget(f, &target, v.Schema, where)
		wrong := slices.ContainsFunc(d.list[told:], func(x Finding) bool { return x.Severity == Error })
		d.list = d.list[:told] // it is about a version that the part does not name
		if wrong {
			open = append(open, v.Name)
			continue
		}
		target.MaxItems = target.itemBound(p.MaxItems)
		f.Targets = append(f.Targets, target)
	}
	if open != nil {
		d.addWarning(CodeOpenVersion, f.Spec.Gate, where+".versions", "%s can also be set in version %s, which the part does not name, and is the same data there. It cannot be gated there, so it stays open. If you name the version, sluice features lint says why",
			p.Field, strings.Join(open, ", "))
	}
}

// namesVersion reports whether a part, or another one that differs only in its versions, names a version.
func (f *Feature) namesVersion(p *v1alpha1.Part, version string) bool {
	return slices.ContainsFunc(f.Spec.Parts, func(o v1alpha1.Part) bool {
		versions := o.Versions
		o.Versions = p.Versions
		return reflect.DeepEqual(o, *p) && (len(versions) == 0 || slices.Contains(versions, version))
	})
}

// Converted returns the gates of the features that judge objects of this version in another version, because the API server converts
// the objects first. It is sorted; nil if there are none. Of a resource that is not known, each version may be converted.
func (m *Model) Converted(group, resource, version string) (gates []string) {
	r, ok := m.Resource(group, resource)
	if ok && !r.Converted && slices.ContainsFunc(r.Versions, func(v Version) bool { return v.Name == version }) {
		return nil
	}
	for _, f := range m.features {
		elsewhere := false
		for i := range f.Targets {
			t := &f.Targets[i]
			if t.Group != group || t.Resource != resource || t.WholeVersion {
				continue
			}
			if elsewhere = t.Version != "" && t.Version != version; !elsewhere {
				break
			}
		}
		if elsewhere {
			gates = append(gates, f.Spec.Gate)
		}
	}
	return gates
}

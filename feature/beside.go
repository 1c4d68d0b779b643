package feature

// May two components have one ConfigMap? Only if each of them knows the keys of the other: its policies refuse a key
// that they do not know, so one component would make the settings of the other impossible. For example, demo and extra
// both name demo-system/flags. Extra is refused until the spec.settings of each list the keys of the other.

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
)

// checkSharedSettings refuses the ConfigMap of the model's component if another component has the same one, because the policies of each component
// refuse unknown keys. It accepts both if each knows the keys of the other as plain settings. Otherwise it refuses the newer component,
// or, for objects in files, the one with the later name.
func (m *Model) checkSharedSettings(components []v1alpha1.Component, features []v1alpha1.Feature, out *findings) {
	ref := m.component.ConfigMap
	for i := range components {
		c := &components[i]
		if c.Name == m.name || ref == nil || c.Spec.ConfigMap == nil || *ref != *c.Spec.ConfigMap || !m.isNewerThan(c) {
			continue
		}
		mine := keysOf(&v1alpha1.Component{Spec: m.component}, nil)
		mine.features = slices.Collect(maps.Keys(m.byKey))
		theirs := keysOf(c, features)
		unknown := slices.Concat(mine.unknownTo(theirs), theirs.unknownTo(mine))
		if unknown == nil {
			continue
		}
		slices.Sort(unknown)
		unknown = slices.Compact(unknown)
		if len(unknown) > 5 {
			unknown = append(unknown[:5:5], "…")
		}
		out.addError(CodeSettingsShared, "", "spec.configMap", "%s/%s also holds the settings of component %q. Each component refuses keys that only the other knows (%s). Give %q its own ConfigMap, or name the keys of each in spec.settings of the other, with different gatesKeys",
			ref.Namespace, ref.Name, c.Name, strings.Join(unknown, ", "), m.name)
	}
}

// isNewerThan reports whether the model's component is newer than another.
func (m *Model) isNewerThan(c *v1alpha1.Component) bool {
	return cmp.Or(m.created.Compare(c.CreationTimestamp.Time), strings.Compare(m.name, c.Name)) > 0
}

// settingKeys are the keys of the settings of a component.
type settingKeys struct {
	level, gates string
	features     []string
	plain        map[string]bool
}

// keysOf returns the keys of a component's settings, with defaults filled in. Features of other components are passed
// over.
func keysOf(c *v1alpha1.Component, features []v1alpha1.Feature) settingKeys {
	k := settingKeys{level: cmp.Or(c.Spec.LevelKey, defaultLevelKey), gates: cmp.Or(c.Spec.GatesKey, defaultGatesKey), plain: map[string]bool{}}
	for i := range features {
		if s := &features[i].Spec; s.Component == c.Name {
			k.features = append(k.features, cmp.Or(s.Key, Kebab(s.Gate)))
		}
	}
	for _, s := range c.Spec.Settings {
		k.plain[s.Name] = true
	}
	return k
}

// unknownTo lists the keys that another component refuses. Both may have a level under one key. A gate in a list is unknown to a
// component without that gate.
func (k settingKeys) unknownTo(o settingKeys) (out []string) {
	for _, key := range append([]string{k.gates}, k.features...) {
		if !o.plain[key] {
			out = append(out, key)
		}
	}
	if k.level != o.level && !o.plain[k.level] {
		out = append(out, k.level)
	}
	for key := range k.plain {
		if !o.plain[key] && key != o.level && key != o.gates && !slices.Contains(o.features, key) {
			out = append(out, key)
		}
	}
	return out
}

package feature

// Is a definition valid, by itself and beside the other features of its component? Names, keys, defaults and
// requirements are checked here, without a schema. For example, a key that another feature has is an error, and so is a
// circle: A requires B, and B is implied by A.

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/api/v1alpha1"
)

// checkComponent checks the spec of the component.
func (d *definer) checkComponent() {
	m := d.model
	c := &m.component
	if errs := validation.IsDNS1123Label(m.name); len(errs) > 0 {
		d.addError(CodeName, "", "metadata.name", "%q cannot be part of a label: %s", clipWord(m.name), errs[0])
	}
	if c.Release != "" {
		if _, err := semver.NewVersion(c.Release); err != nil {
			d.addError(CodeRelease, "", "spec.release", "%q is no version such as v1.2.0", clipWord(c.Release))
		}
	}
	if ref := c.ConfigMap; ref != nil && (ref.Name == "" || ref.Namespace == "") {
		d.addError(CodeBadValue, "", "spec.configMap", "name and namespace must be there")
	}
	oneOf(d, "", "spec.mode", c.Mode, v1alpha1.Live, v1alpha1.Baked)
	// A level that does not exist counts as the narrowest, so that the checks below still make sense.
	if !oneOf(d, "", "spec.defaultLevel", c.DefaultLevel, levels...) {
		c.DefaultLevel = v1alpha1.LevelStable
	}
	if !oneOf(d, "", "spec.maxLevel", c.MaxLevel, levels...) {
		c.MaxLevel = v1alpha1.LevelStable
	}
	if levelRank(c.DefaultLevel) > levelRank(c.MaxLevel) {
		d.addError(CodeBeyondMax, "", "spec.defaultLevel", "%s is beyond maxLevel %s", c.DefaultLevel, c.MaxLevel)
	}
	for i, stage := range c.TellUse {
		oneOf(d, "", fmt.Sprintf("spec.tellUse[%d]", i), stage, v1alpha1.Alpha, v1alpha1.Beta, v1alpha1.Deprecated)
	}
	if c.LevelKey == c.GatesKey {
		d.addError(CodeKeyTaken, "", "spec.gatesKey", "%q is the levelKey already", clipWord(c.GatesKey))
	}
	d.checkSettings()
	for i, r := range c.Resources {
		where := fmt.Sprintf("spec.resources[%d]", i)
		key := groupResource{r.Group, r.Resource}
		if _, twice := m.lifted[key]; twice {
			d.addError(CodeDuplicate, "", where, "%s stands there twice", qualifiedResource(r.Group, r.Resource))
		}
		m.lifted[key] = oneOf(d, "", where+".highestStage", r.HighestStage, v1alpha1.Beta, v1alpha1.Stable) && r.HighestStage == v1alpha1.Beta
	}
}

// checkConvention reports what has no meaning in the component's convention.
func (d *definer) checkConvention() {
	c := &d.model.component
	if c.Convention != "" && !oneOf(d, "", "spec.convention", c.Convention, v1alpha1.ConventionKubernetes, v1alpha1.ConventionTekton, v1alpha1.ConventionCertManager) || c.Convention.HasLevel() {
		return
	}
	lifts := -1
	for i, r := range c.Resources {
		if r.HighestStage == v1alpha1.Beta {
			lifts = i
		}
	}
	for _, x := range []struct {
		where string
		set   bool
	}{{"spec.defaultLevel", c.DefaultLevel != ""}, {"spec.levelKey", c.LevelKey != ""}, {fmt.Sprintf("spec.resources[%d].highestStage", lifts), lifts >= 0}} {
		if x.set {
			d.addError(CodeBadValue, "", x.where, "the convention %s has no level: leave it out, or leave out the convention", c.Convention)
		}
	}
}

// checkConventionOf reports what has no meaning in a feature by the component's convention.
func (d *definer) checkConventionOf(f *Feature) {
	c := d.model.component.Convention
	switch {
	case c.HasLevel():
	case f.Spec.ImpliedByLevel:
		d.addError(CodeBadValue, f.Spec.Gate, "spec.impliedByLevel", "the convention %s has no level: leave it out", c)
	case f.FollowsLevel:
		d.addError(CodeBadValue, f.Spec.Gate, "spec.followsLevel", "the convention %s has no level: leave it out", c)
	}
	on, at := f.declaredDefault()
	if at < 0 || f.Locked {
		return
	}
	where := fmt.Sprintf("spec.stages[%d].default", at)
	switch {
	case c == v1alpha1.ConventionTekton && f.FollowsLevel && on && f.Spec.Stages[at].Stage != v1alpha1.Stable:
		d.addError(CodeOverruled, f.Spec.Gate, where, "default: true has no effect, because by the convention %s %s follows the level: leave it out, or set followsLevel: false", c, f.Spec.Gate)
	case f.obeysLevel() && f.Stage == v1alpha1.Deprecated && f.Level == v1alpha1.LevelStable && !on:
		d.addError(CodeOverruled, f.Spec.Gate, where, "default: false has no effect, because %s was stable, and every level opens what is stable: leave it out, or set %s",
			f.Spec.Gate, f.leaveLevelText())
	}
}

// checkLifts reports a feature to which level stable gives two answers: on in a resource whose highest stage is Beta, off in another one.
func (d *definer) checkLifts(f *Feature) {
	if !f.Free() || f.Level != v1alpha1.LevelBeta || !f.obeysLevel() {
		return
	}
	for i := range f.Spec.Parts {
		lifted, other := &f.Spec.Parts[0], &f.Spec.Parts[i]
		if d.model.liftsResource(lifted) == d.model.liftsResource(other) {
			continue
		}
		if d.model.liftsResource(other) {
			lifted, other = other, lifted
		}
		d.addError(CodeContradiction, f.Spec.Gate, fmt.Sprintf("spec.parts[%d].resource", i),
			"%s follows the level, and level stable opens what is beta in %s, whose highestStage is Beta, but not in %s: give both the same highestStage in the Component, or set %s",
			f.Spec.Gate, qualifiedResource(lifted.Group, lifted.Resource), qualifiedResource(other.Group, other.Resource), f.leaveLevelText())
		return
	}
}

// obeysLevel reports whether the level can open the feature.
func (f *Feature) obeysLevel() bool { return f.FollowsLevel || f.Spec.ImpliedByLevel }

// leaveLevelText says what to set in the definition so that the level does not open the feature.
func (f *Feature) leaveLevelText() string {
	switch {
	case !f.Spec.ImpliedByLevel:
		return "followsLevel: false"
	case !f.FollowsLevel:
		return "impliedByLevel: false"
	}
	return "followsLevel: false and impliedByLevel: false"
}

// checkSettings checks the settings beside the gates.
func (d *definer) checkSettings() {
	m := d.model
	c := &m.component
	for i, s := range c.Settings {
		where := fmt.Sprintf("spec.settings[%d]", i)
		if _, twice := m.settings[s.Name]; twice {
			d.addError(CodeDuplicate, "", where+".name", "%q stands there twice", clipWord(s.Name))
		}
		if s.Name == c.LevelKey || s.Name == c.GatesKey {
			d.addError(CodeKeyTaken, "", where+".name", "%q is the key of the level or of gates", clipWord(s.Name))
		}
		d.settingsKey("", where+".name", s.Name)
		plain := plainSetting{minimum: s.Minimum, maximum: s.Maximum}
		if s.Pattern != "" {
			if _, ok := d.compilePattern("", where+".pattern", s.Pattern); ok {
				// The pattern has to compile alone before it gets anchors, so that it cannot close their group.
				plain.pattern = regexp.MustCompile(`^(?:` + s.Pattern + `)$`)
			}
		}
		if s.Minimum != nil && s.Maximum != nil && *s.Minimum > *s.Maximum {
			d.addError(CodePart, "", where+".minimum", "%d is greater than maximum, which is %d", *s.Minimum, *s.Maximum)
		}
		m.settings[s.Name] = plain
	}
}

// oneOf reports whether v is one of the values, and adds an error if it is not.
func oneOf[T ~string](d *definer, gate, where string, v T, values ...T) bool {
	if slices.Contains(values, v) {
		return true
	}
	list := make([]string, len(values))
	for i, s := range values {
		list[i] = string(s)
	}
	d.addError(CodeBadValue, gate, where, "%q is not one of %s%s", clipWord(string(v)), strings.Join(list, ", "), nameHint(string(v), values))
	return false
}

// settingsKey checks that a key can stand in a ConfigMap.
func (d *definer) settingsKey(gate, where, key string) {
	if errs := validation.IsConfigMapKey(key); len(errs) > 0 {
		d.addError(CodeName, gate, where, "%q is no key of a ConfigMap: %s", clipWord(key), errs[0])
	}
}

// compilePattern compiles a pattern of a definition. If ok is false, the pattern is too long or no regular expression
// (RE2), and the finding is added.
func (d *definer) compilePattern(gate, where, pattern string) (*regexp.Regexp, bool) {
	if len(pattern) > maxPattern {
		d.addError(CodePattern, gate, where, "a pattern may have %d bytes", maxPattern)
		return nil, false
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		d.addError(CodePattern, gate, where, "%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return nil, false
	}
	return re, true
}

// checkFeature checks names, keys and choices.
func (d *definer) checkFeature(f *Feature) {
	s := &f.Spec
	gate := s.Gate
	if !gateName.MatchString(gate) {
		d.addError(CodeName, gate, "spec.gate", "%q is no name of a gate: letters and digits, a capital first", clipWord(gate))
	} else if n := len(s.Component) + 1 + len(gate); n > maxLabel {
		d.addError(CodeName, gate, "spec.gate", "component and gate have %d characters together with the dot between them; a label has room for %d", n, maxLabel)
	} else if gate == AllAlpha || gate == AllBeta {
		d.addError(CodeName, gate, "spec.gate", "%s stands for all features of a stage", gate)
	} else if want := ObjectName(s.Component, gate); f.Name != want {
		d.addError(CodeName, gate, "metadata.name", "%q: the name has to be %q", clipWord(f.Name), want)
	}
	// Both are left out then, because findings go by gate.
	if slices.ContainsFunc(d.model.features, func(o *Feature) bool { return o.Spec.Gate == gate }) {
		d.addError(CodeDuplicate, gate, "spec.gate", "there are two features with this gate; a gate is not used again, even if its feature was removed")
	}
	c := &d.model.component
	d.settingsKey(gate, "spec.key", s.Key)
	_, plain := d.model.settings[s.Key]
	switch {
	case s.Key == c.LevelKey, s.Key == c.GatesKey:
		d.addError(CodeKeyTaken, gate, "spec.key", "%q is the key of the level or of gates", clipWord(s.Key))
	case plain:
		d.addError(CodeKeyTaken, gate, "spec.key", "%q is a plain setting of the component", clipWord(s.Key))
	}
	for _, o := range d.model.features {
		if o.Spec.Key == s.Key && o.Spec.Gate != gate {
			d.addError(CodeKeyTaken, gate, "spec.key", "%q is the key of %s already", clipWord(s.Key), o.Spec.Gate)
		}
	}
	oneOf(d, gate, "spec.whenDisabled", s.WhenDisabled, v1alpha1.Reject, v1alpha1.Drop, v1alpha1.Warn)
	oneOf(d, gate, "spec.ratchet", s.Ratchet, v1alpha1.InUse, v1alpha1.InObject, v1alpha1.Unchanged)
	for i, p := range s.RequiredProcesses {
		if p == "" || slices.Contains(s.RequiredProcesses[:i], p) {
			d.addError(CodeDuplicate, gate, fmt.Sprintf("spec.requiredProcesses[%d]", i), "%q is empty or stands there twice", clipWord(p))
		}
	}
}

// checkTogether checks the features with each other: requirements and contradictions.
func (d *definer) checkTogether() {
	byGate := make(map[string]*Feature, len(d.model.features))
	gates := make([]string, len(d.model.features))
	for i, f := range d.model.features {
		byGate[f.Spec.Gate], gates[i] = f, f.Spec.Gate
	}
	for _, f := range d.model.features {
		for i, name := range f.Spec.Requires {
			where := fmt.Sprintf("spec.requires[%d]", i)
			switch o := d.namedFeature(f, where, f.Spec.Requires[:i], name, byGate, gates); {
			case o == nil:
			case f.Entry >= 0 && f.Default && !o.Default:
				d.addError(CodeRequires, f.Spec.Gate, where, "%s is on by default, but %s, which it requires, is off", f.Spec.Gate, name)
			case f.Entry >= 0 && f.Stage != v1alpha1.Removed && levelRank(f.Level) < levelRank(o.Level):
				d.addError(CodeRequires, f.Spec.Gate, where, "%s is %s, but %s, which it requires, is only %s", f.Spec.Gate, f.Level, name, o.Level)
			}
		}
		for i, name := range f.Spec.ImpliedBy {
			d.namedFeature(f, fmt.Sprintf("spec.impliedBy[%d]", i), f.Spec.ImpliedBy[:i], name, byGate, gates)
		}
	}
	d.findCycles(byGate)
	d.findContradictions()
	d.resetsInto()
	d.checkTombstones()
}

// namedFeature finds the feature that another names; nil if there is none, or it was named before.
func (d *definer) namedFeature(f *Feature, where string, before []string, name string, byGate map[string]*Feature, gates []string) *Feature {
	switch o := byGate[name]; {
	case slices.Contains(before, name):
		d.addError(CodeDuplicate, f.Spec.Gate, where, "%q stands there twice", name)
	case o != nil:
		return o
	case !d.model.left[name]: // the errors of a feature that is left out are reported already
		d.addError(CodeRequires, f.Spec.Gate, where, "the component has no feature %q%s", clipWord(name), nameHint(name, gates))
	}
	return nil
}

// findCycles finds cycles of requirements and implications, and reports each once, at its first gate.
func (d *definer) findCycles(byGate map[string]*Feature) {
	const (
		fresh = iota
		open
		done
	)
	state := map[string]int{}
	var trail []string
	var visit func(gate string)
	visit = func(gate string) {
		state[gate] = open
		trail = append(trail, gate)
		for _, next := range slices.Concat(byGate[gate].Spec.Requires, byGate[gate].Spec.ImpliedBy) {
			switch {
			case byGate[next] == nil:
			// The trail has come back to a gate that is on it.
			case state[next] == open:
				circle := append(slices.Clone(trail[slices.Index(trail, next):]), next)
				words := circle[:1:1]
				for i, to := range circle[1:] {
					how := "is implied by"
					if slices.Contains(byGate[circle[i]].Spec.Requires, to) {
						how = "requires"
					}
					words = append(words, how, to)
				}
				text := strings.Join(words, " ")
				// Each gate of the circle has the error, since none of them can be decided.
				for i, g := range circle[:len(circle)-1] {
					where := "spec.requires"
					if !slices.Contains(byGate[g].Spec.Requires, circle[i+1]) {
						where = "spec.impliedBy"
					}
					d.addError(CodeCycle, g, where, "a circle: %s", clipText(text))
				}
			case state[next] == fresh:
				visit(next)
			}
		}
		trail = trail[:len(trail)-1]
		state[gate] = done
	}
	for _, f := range d.model.features {
		if state[f.Spec.Gate] == fresh {
			visit(f.Spec.Gate)
		}
	}
}

// sameValues reports whether two targets of one path narrow it down in the same way.
func sameValues(a, b *Target) bool {
	return slices.Equal(a.Values, b.Values) && patternText(a.Pattern) == patternText(b.Pattern) && a.Beyond.equalBounds(b.Beyond) &&
		slices.EqualFunc(a.Match, b.Match, func(x, y Condition) bool {
			return x.Path.equalPath(y.Path) && slices.Equal(x.Values, y.Values) && patternText(x.Pattern) == patternText(y.Pattern)
		})
}

// mayOverlap reports whether a value may be a use of both targets of one path. If it cannot decide, it returns true.
func mayOverlap(a, b *Target) bool {
	for _, p := range [][2]*Target{{a, b}, {b, a}} {
		x, y := p[0], p[1]
		if x.Values == nil {
			continue
		}
		if !slices.ContainsFunc(x.Values, func(v string) bool {
			return (y.Values == nil || slices.Contains(y.Values, v)) && (y.Pattern == nil || y.Pattern.MatchString(v))
		}) {
			return false
		}
	}
	return true
}

// patternText is the source of a pattern, empty for nil. Compiled patterns cannot be compared.
func patternText(re *regexp.Regexp) string {
	if re == nil {
		return ""
	}
	return re.String()
}

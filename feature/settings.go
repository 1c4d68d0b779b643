package feature

// What do the data of a ConfigMap say about features? For example, enable-api-fields: alpha is a level, feature-gates:
// "A=true,B=false" lists gates, and tasks-timeout: "true" is the key of one. A slip in one key is reported with the
// nearest name, and leaves the others as they are.

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice.dev/api/v1alpha1"
)

// Names of settings that stand for all features of a stage (k8s.io/component-base/featuregate has the same).
const (
	AllAlpha = "AllAlpha"
	AllBeta  = "AllBeta"
)

// Settings are the parsed settings of a component. The zero value sets nothing: everything has its default.
type Settings struct {
	level v1alpha1.Level  // empty where there is none
	gates map[string]says // by gate, AllAlpha and AllBeta among them
	pins  map[string]bool // by gate, see Pin
}

// says collects the values of all places that mention a gate.
type says struct {
	yes, no, allowed bool
	listedOff        bool // by its entry among the gates
}

// Level returns the level that the settings give; set is false if they give none.
func (s *Settings) Level() (level v1alpha1.Level, set bool) {
	if s == nil {
		return "", false
	}
	return s.level, s.level != ""
}

// Gate returns the setting of a gate, or of AllAlpha and AllBeta: by its own key (an inverted one is reversed) and by its entry
// among the gates. set is false if there is none, or if both contradict each other.
func (s *Settings) Gate(gate string) (value, set bool) {
	if s == nil {
		return false, false
	}
	said := s.gates[gate]
	return said.yes, said.yes != said.no
}

// listsAsOff reports whether the entry of a gate among the gates says that it is off.
func (s *Settings) listsAsOff(gate string) bool { return s != nil && s.gates[gate].listedOff }

// allowsOptIn reports whether the settings allow users who opt in to use a gate.
func (s *Settings) allowsOptIn(gate string) bool {
	return s != nil && s.gates[gate].allowed && !s.gates[gate].yes
}

// parseLevel reads a level. Spaces around it and the case of ASCII letters do not count.
func parseLevel(s string) (v1alpha1.Level, bool) {
	l := v1alpha1.Level(strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, strings.TrimSpace(s)))
	return l, slices.Contains(levels, l)
}

// SettingWords returns the spellings of on, or of off, in settings of gates: those of strconv.ParseBool, and in a component with optIn
// those of Knative as well.
func (m *Model) SettingWords(on bool) []string {
	words, more := []string{"false", "False", "FALSE", "f", "F", "0"}, []string{"disabled", "Disabled"}
	if on {
		words, more = []string{"true", "True", "TRUE", "t", "T", "1"}, []string{"enabled", "Enabled"}
	}
	if m.component.OptIn == nil {
		return words
	}
	return append(words, more...)
}

// AllowedWords are the values of a gate that is off, except for users who opt in. They count in a component with optIn.
func AllowedWords() []string { return []string{"allowed", "Allowed"} }

// maxGatesText bounds the characters in the list of gates, so that policies can search it. A longer list counts as not set, in
// policies too.
const maxGatesText = 65536

// parseState reads the setting of a gate: a boolean, or in a component with optIn a state of Knative. Spaces around it do not count.
func (m *Model) parseState(s string) (value, allowed, ok bool) {
	word := strings.TrimSpace(s)
	value = slices.Contains(m.SettingWords(true), word)
	allowed = m.component.OptIn != nil && slices.Contains(AllowedWords(), word)
	return value, allowed, value || allowed || slices.Contains(m.SettingWords(false), word)
}

// binaryPrefix begins the keys of binaryData in [SettingsOf]. No key of a ConfigMap has a slash.
const binaryPrefix = "binaryData/"

// Immutable says what is wrong with settings in an immutable ConfigMap.
const Immutable = "the ConfigMap is immutable, so the settings cannot be changed"

// SettingsOf returns the data of a ConfigMap for [Model.ParseSettings], together with the keys of its binaryData. Nobody reads settings there,
// so that they are errors, except for keys that begin with an underscore, which are left out.
func SettingsOf[V any](data map[string]string, binary map[string]V) map[string]string {
	out := data
	for key := range binary {
		if strings.HasPrefix(key, "_") {
			continue
		}
		if len(out) == len(data) { // data belongs to the caller
			out = make(map[string]string, len(data)+len(binary))
			maps.Copy(out, data)
		}
		out[binaryPrefix+key] = ""
	}
	return out
}

// ParseSettings parses the data of the component's ConfigMap, see [SettingsOf]; nil stands for a missing ConfigMap. The returned settings are never
// nil.
//
// If the findings include an error, the settings are bad. A caller with an earlier state keeps it (baked mode, the library). A caller
// without one uses the returned settings (live mode), in which wrong parts count as not set. If a gate is mentioned several times,
// readable mentions count; if they contradict each other, none does.
//
// A level, an entry or a key with an impossible value, because the feature is locked or beyond maxLevel or requires a closed one,
// is an error as well. It has no effect on [Model.Resolve].
func (m *Model) ParseSettings(data map[string]string) (*Settings, Findings) {
	p := m.parseData(data)
	m.findUnmet(p.settings, func(gate, other string) { p.reportNeeds(gate, other) })
	return p.settings, p.sortedList()
}

// parseData parses the keys in order, so that equal data give equal findings. It does not check what features
// require.
func (m *Model) parseData(data map[string]string) *settingsParser {
	p := &settingsParser{model: m, settings: &Settings{gates: map[string]says{}}, mentions: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		p.parseKey(key, data[key])
	}
	return p
}

type settingsParser struct {
	findings
	model    *Model
	settings *Settings
	mentions map[string]string // the key in which a gate was mentioned first
}

// parseKey reads one key. Keys with an underscore in front belong to nobody, as in ConfigMaps of Knative and Tekton
// (_example), and so do those of features that were left out because of errors.
func (p *settingsParser) parseKey(key, value string) {
	m := p.model
	c := &m.component
	setting, plain := m.settings[key]
	f := m.byKey[key]
	binary, isBinary := strings.CutPrefix(key, binaryPrefix)
	switch {
	case isBinary:
		p.addError(CodeBinary, "", key, "nobody reads settings in binaryData: write %s into data, as text", clipWord(binary))
	case key == c.LevelKey && c.Convention.HasLevel():
		level, ok := parseLevel(value)
		if !ok {
			p.addError(CodeBadLevel, "", key, "%q is no level%s; the levels are stable, beta, alpha", clipWord(value), nameHint(strings.TrimSpace(value), levels))
			return
		}
		p.settings.level = level
		if levelRank(level) > levelRank(c.MaxLevel) {
			p.addError(CodeBeyondMax, "", key, "%s is beyond %s, the maxLevel of component %q", level, c.MaxLevel, m.name)
		}
	case key == c.GatesKey:
		p.parseEntries(key, value)
	case plain:
		if problem := setting.problemWith(value); problem != "" {
			p.addError(CodeBadSetting, "", key, "%s", problem)
		}
	case f != nil:
		on, allowed, ok := m.parseState(value)
		if !ok {
			p.badBool(f.Spec.Gate, key, value)
			return
		}
		p.setFeature(f, key, !allowed && on != f.Spec.Inverted, allowed)
	case strings.HasPrefix(key, "_") || m.left[key]:
	default:
		if p.isFull() { // looking for the nearest name takes time
			p.addError(CodeUnknownKey, "", key, "")
			return
		}
		p.addError(CodeUnknownKey, "", key, "there is no such key%s", nameHint(key, p.allowedKeys()))
	}
}

// plainSetting restricts the value of a key that is no gate; the zero value allows everything.
type plainSetting struct {
	pattern          *regexp.Regexp
	minimum, maximum *int64
}

// wholeNumber matches integers that fit into 64 bits, in the form that policies read.
var wholeNumber = regexp.MustCompile("^-?[0-9]{1,18}$")

// problemWith says what is wrong with a value; empty if nothing is.
func (s *plainSetting) problemWith(value string) string {
	if s.pattern != nil && !s.pattern.MatchString(value) {
		return fmt.Sprintf("%q does not match %s", clipWord(value), s.pattern)
	}
	if s.minimum == nil && s.maximum == nil {
		return ""
	}
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil || !wholeNumber.MatchString(value):
		return fmt.Sprintf("%q is no whole number of 18 digits at most", clipWord(value))
	case s.minimum != nil && n < *s.minimum:
		return fmt.Sprintf("%d is less than %d", n, *s.minimum)
	case s.maximum != nil && n > *s.maximum:
		return fmt.Sprintf("%d is greater than %d", n, *s.maximum)
	}
	return ""
}

// badBool reports a value that is no boolean, with the word that was probably meant.
func (p *settingsParser) badBool(gate, key, value string) {
	more := ""
	switch {
	case p.model.component.OptIn != nil && gate != AllAlpha && gate != AllBeta:
		more = "; enabled, disabled and allowed count, too"
	case slices.Contains(AllowedWords(), strings.TrimSpace(value)):
		more = "; a component with optIn takes it, for its features"
	}
	p.addError(CodeBadBool, gate, key, "%q is neither true nor false%s%s", clipWord(value), boolHint(value), more)
}

// boolHint suggests a boolean for a word such as yes or off.
func boolHint(value string) string {
	word := strings.ToLower(strings.TrimSpace(value))
	switch {
	case slices.Contains([]string{"yes", "y", "on", "enable", "enabled"}, word):
		word = "true"
	case slices.Contains([]string{"no", "n", "off", "disable", "disabled"}, word):
		word = "false"
	}
	return nameHint(word, []string{"true", "false"})
}

// allowedKeys returns all keys that the settings may have.
func (p *settingsParser) allowedKeys() []string {
	m := p.model
	out := []string{m.component.GatesKey}
	if m.component.Convention.HasLevel() {
		out = append(out, m.component.LevelKey)
	}
	out = slices.AppendSeq(out, maps.Keys(m.byKey))
	out = slices.AppendSeq(out, maps.Keys(m.settings))
	slices.Sort(out)
	return out
}

// parseEntries reads A=true,B=false.
func (p *settingsParser) parseEntries(key, value string) {
	m := p.model
	if utf8.RuneCountInString(value) > maxGatesText {
		p.addError(CodeBadEntry, "", key, "longer than %d characters", maxGatesText)
		return
	}
	seen := map[string]bool{}
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		gate, word, ok := strings.Cut(entry, "=")
		gate = strings.TrimSpace(gate)
		f := m.byGate[gate]
		switch {
		case !ok:
			p.addError(CodeBadEntry, "", key, "%q has to be NAME=true or NAME=false", clipWord(entry))
			continue
		// Its definition has errors, which are reported there.
		case m.left[gate]:
			continue
		case f == nil && gate != AllAlpha && gate != AllBeta:
			if p.isFull() {
				p.addError(CodeUnknownGate, "", key, "")
				continue
			}
			p.addError(CodeUnknownGate, "", key, "there is no gate %q%s", clipWord(gate), nameHint(gate, p.gateNames()))
			p.list[len(p.list)-1].Entry = gate
			continue
		case seen[gate]:
			p.addError(CodeTwice, gate, key, "%s stands there twice", gate)
		}
		seen[gate] = true
		on, allowed, ok := m.parseState(word)
		switch {
		case !ok || f == nil && allowed:
			p.badBool(gate, key, strings.TrimSpace(word))
		case f != nil:
			p.setFeature(f, key, on, allowed)
		default:
			p.noteGate(gate, on, false)
			p.warnOfLevel(gate, key)
		}
	}
}

// warnOfLevel warns that AllAlpha or AllBeta does not set features that follow the level.
func (p *settingsParser) warnOfLevel(all, key string) {
	stage := v1alpha1.Alpha
	if all == AllBeta {
		stage = v1alpha1.Beta
	}
	for _, f := range p.model.features {
		if f.Stage == stage && f.Free() && f.GateOfStage() == "" {
			p.addWarning(CodeOverruled, "", key, "%s does not set %s, which follows the level by the convention %s: set %s", all, f.Spec.Gate, p.model.component.Convention, p.model.component.LevelKey)
			return
		}
	}
}

func (p *settingsParser) gateNames() []string {
	out := []string{AllAlpha, AllBeta}
	for _, f := range p.model.features {
		out = append(out, f.Spec.Gate)
	}
	return out
}

// noteGate records that a place mentions a gate. Both yes and no may be set: the places contradict each other
// then, and none counts.
func (p *settingsParser) noteGate(gate string, on, allowed bool) {
	s := p.settings.gates[gate]
	s.yes, s.no, s.allowed = s.yes || on, s.no || !on, s.allowed || allowed
	p.settings.gates[gate] = s
}

// setFeature records that a place sets a feature, and checks whether it may.
func (p *settingsParser) setFeature(f *Feature, key string, on, allowed bool) {
	gate := f.Spec.Gate
	if other, ok := p.mentions[gate]; !ok {
		p.mentions[gate] = key
	} else if s := p.settings.gates[gate]; other != key && (s.yes && !on || s.no && on) {
		p.addError(CodeDisagree, gate, key, "%s says that %s is %s", other, gate, OnOff(!on))
	}
	p.noteGate(gate, on, allowed)
	if key == p.model.component.GatesKey && !on {
		s := p.settings.gates[gate]
		s.listedOff = true
		p.settings.gates[gate] = s
	}
	switch {
	case f.GateGone():
		p.addWarning(CodeRemovedGate, gate, key, "%s is always on, its gate was removed in %s: the setting has no effect, take it out", gate, stageSince(f))
	case f.Stage == v1alpha1.Removed:
		p.addWarning(CodeRemovedGate, gate, key, "%s was removed in %s: the setting has no effect, take it out", gate, stageSince(f))
	case f.Entry < 0:
		p.addError(CodeLocked, gate, key, "%s is not there yet, it comes with %s", gate, Since(&f.Spec.Stages[0]))
	case f.Locked && on != f.Default:
		p.addError(CodeLocked, gate, key, "%s is %s", gate, f.lockedText())
	case on && !f.Locked && f.isCapped():
		p.addError(CodeBeyondMax, gate, key, "%s is %s, which is beyond %s, the maxLevel of component %q", gate, f.Level, p.model.component.MaxLevel, p.model.name)
	}
}

func (p *settingsParser) reportNeeds(gate, other string) {
	p.addError(CodeNeedsAnother, gate, p.mentions[gate], "%s is on, but requires %s, which is off", gate, other)
}

// findUnmet reports features that the settings turn on although a required feature is off.
func (m *Model) findUnmet(settings *Settings, tell func(gate, other string)) {
	var states *States
	for _, f := range m.features {
		gate := f.Spec.Gate
		if on, set := settings.Gate(gate); !set || !on || f.Locked || len(f.Spec.Requires) == 0 {
			continue
		}
		if states == nil {
			states = m.Resolve(settings, Runtime{AssumeProcesses: true})
		}
		for _, other := range f.Spec.Requires {
			if s := states.byGate[other]; s == nil || !s.Open {
				tell(gate, other)
			}
		}
	}
}

// OnOff is the state of a feature in words.
func OnOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// stageSince says when a feature's stage began.
func stageSince(f *Feature) string { return Since(&f.Spec.Stages[f.Entry]) }

// Since is the release with which a stage begins, or else its day.
func Since(s *v1alpha1.FeatureStage) string { return cmp.Or(s.Release, s.Date) }

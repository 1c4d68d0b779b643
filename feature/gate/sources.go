package gate

// How do settings get into a process that has no cluster? By --feature-gates, by variables such as
// DEMO_FEATURE_GATES and DEMO_FAST_PATH, and by a file.

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"sluice.dev/feature"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/settings"
)

// FlagName is the name of the flag, which is the same for all programs with gates.
const FlagName = "feature-gates"

// AddFlags adds --feature-gates, in the form A=true,B=false. It may be given several times; of several entries of a gate the last counts, as in
// k8s.io/component-base/featuregate.
func (g *Gates) AddFlags(fs *pflag.FlagSet) { fs.Var(&gatesFlag{gates: g}, FlagName, g.flagUsage()) }

// AddGoFlags is AddFlags for the flags of the standard library.
func (g *Gates) AddGoFlags(fs *flag.FlagSet) { fs.Var(&gatesFlag{gates: g}, FlagName, g.flagUsage()) }

func (g *Gates) flagUsage() string {
	return "A set of key=value pairs that turn features on and off. Options are:\n" + strings.Join(g.upstream.KnownFeatures(), "\n")
}

// gatesFlag implements [pflag.Value].
type gatesFlag struct {
	gates *Gates
	value string
}

// String implements [pflag.Value].
func (f *gatesFlag) String() string { return f.value }

// Type implements [pflag.Value].
func (f *gatesFlag) Type() string { return "mapStringBool" }

// Set implements [pflag.Value]. It refuses errors that no other setting could correct; [Gates.Begin] reports the others.
func (f *gatesFlag) Set(value string) error {
	if f.value != "" {
		value = f.value + "," + value
	}
	f.value = lastOfEachGate(value)
	var errs []error
	for _, p := range f.gates.setFlags(value) {
		errs = append(errs, errors.New(p))
	}
	return errors.Join(errs...)
}

// lastOfEachGate leaves the last entry of each gate in a list like A=true,B=false.
func lastOfEachGate(value string) string {
	seen := map[string]bool{}
	var out []string
	for _, entry := range slices.Backward(strings.Split(value, ",")) {
		gate, _, _ := strings.Cut(entry, "=")
		if gate = strings.TrimSpace(gate); gate != "" && !seen[gate] {
			seen[gate] = true
			out = append(out, entry)
		}
	}
	slices.Reverse(out)
	return strings.Join(out, ",")
}

// setFlags takes the flag in and returns the errors of its form, in entries without effect too.
func (g *Gates) setFlags(value string) []string {
	key := g.Model().Spec().GatesKey
	g.mu.Lock()
	g.flags = lastOfEachGate(value)
	data := g.directData(Flags)
	g.mu.Unlock()
	g.Set(Flags, data, "")
	_, findings := g.Model().ParseSettings(map[string]string{key: value})
	later := []feature.Code{feature.CodeNeedsAnother, feature.CodeLocked, feature.CodeBeyondMax, feature.CodeRemovedGate, feature.CodeTwice}
	var out []string
	for _, f := range findings {
		if f.Severity != feature.Error || slices.Contains(later, f.Code) {
			continue
		}
		text := f.Message
		if f.Gate != "" && !strings.Contains(text, f.Gate) {
			text = f.Gate + ": " + text
		}
		out = append(out, text)
	}
	return out
}

// notInEnv are the characters that the name of a variable does not have.
var notInEnv = regexp.MustCompile(`[^A-Za-z0-9]`)

// envName writes a name as the name of a variable: in capitals, with _ for characters that are no letters or digits.
func envName(s string) string { return strings.ToUpper(notInEnv.ReplaceAllString(s, "_")) }

// readEnvironment reads the settings that the environment gives; nil if it gives none. strays are unknown variables that look like
// settings. They are no errors, because others may use the same prefix.
func (g *Gates) readEnvironment() (data map[string]string, strays []Problem) {
	values := map[string]string{}
	for _, e := range g.options.Environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			values[name] = value
		}
	}
	spec := g.model.Spec()
	prefix := envName(g.declaration.Name) + "_"
	keys := []string{spec.LevelKey, spec.GatesKey}
	for _, f := range g.model.Features() {
		keys = append(keys, f.Spec.Key)
	}
	var names []string
	for _, key := range keys {
		name := prefix + envName(key)
		names = append(names, strings.TrimPrefix(name, prefix))
		if value, ok := values[name]; ok {
			if data == nil {
				data = map[string]string{}
			}
			data[key] = value
		}
	}
	// A variable with a slip in its name has no effect, which nobody would notice otherwise.
	for _, name := range slices.Sorted(maps.Keys(values)) {
		rest, ours := strings.CutPrefix(name, prefix)
		if !ours || slices.Contains(names, rest) || !looksLikeSetting(values[name]) {
			continue
		}
		if meant := brief.Hint(rest, names); meant != "" {
			strays = append(strays, Problem{Source: Environment, Message: fmt.Sprintf("%s is no setting of component %q: there is no %s%s", name, g.declaration.Name, rest, meant)})
		}
	}
	return data, strays
}

// looksLikeSetting reports whether a value is a boolean, a level, or a list of gates.
func looksLikeSetting(value string) bool {
	_, err := strconv.ParseBool(value)
	return err == nil || strings.Contains(value, "=") || slices.Contains([]string{"alpha", "beta", "stable"}, value)
}

// LoadFile reads the settings of a file, and sets them as those of source File. The file holds YAML or JSON: a ConfigMap, or a mapping of keys to
// values. In a mapping, featureGates is the same as the key of gates, and its value may be a mapping of gates to booleans. Of an
// object of another kind, with apiVersion and kind, only featureGates is read: such are the configuration files of cert-manager's and Kubernetes'
// own programs. A directory is one in which a ConfigMap is mounted: each file is a key, and what begins with a dot is passed over.
//
// If the file cannot be read, earlier settings stay, and the error is returned and kept in [Gates.Problems]. The returned problems are
// those of the content. Errors and problems begin with the place, FILE:LINE.
func (g *Gates) LoadFile(path string) ([]Problem, error) {
	s, err := settings.Read(path, g.Model().Spec().GatesKey)
	if err != nil {
		g.Fail(File, err)
		return nil, err
	}
	return g.setLayer(File, layer{data: s.Data, file: s}, ""), nil
}

package policy

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// Names of settings that stand for all features of a stage (k8s.io/component-base/featuregate has the same).
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// The spellings of booleans, which are those of strconv.ParseBool.
const (
	trueWords  = "['true', 'True', 'TRUE', 't', 'T', '1']"
	falseWords = "['false', 'False', 'FALSE', 'f', 'F', '0']"
	// allowedWords are for what is off, but for who opts in, in a component that lets somebody.
	allowedWords = "['allowed', 'Allowed']"
)

var levels = []v1alpha1.Level{v1alpha1.LevelStable, v1alpha1.LevelBeta, v1alpha1.LevelAlpha}

// off are the words that say that a gate is closed, besides others where there is opting in.
func (g *gates) off(words string) string {
	if g.model.Spec().OptIn == nil {
		return words
	}
	return strings.TrimSuffix(words, "]") + ", " + strings.TrimPrefix(allowedWords, "[")
}

// gates writes the variables that say which features are open.
type gates struct {
	*emitter
	model  *feature.Model
	states *feature.States // of the settings in baked mode; of none in live mode
	live   bool
	lifted bool
	// alike means that what is asked is what settings say by themselves, whoever writes and whichever processes report.
	alike bool
	done  map[string]bool
}

// OpenVariable is the name of the variable of a policy that tells whether a gate is open for who writes. A policy has none for a
// gate that is closed whatever the settings say.
func OpenVariable(gate string) string { return "g" + gate }

// isOpen returns an expression that tells whether a gate is open for a request, and whether that is certain: "true" or
// "false". Without asking the authorizer it is what can be told in messages.
func (g *gates) isOpen(gate string, ask bool) string {
	f := g.model.Feature(gate)
	s, ok := g.states.State(gate)
	if !ok {
		return "false"
	}
	reported := g.alike || s.Reported()
	if !f.Free() {
		return fmt.Sprint(s.Alone(g.lifted) && reported)
	}
	if !reported {
		return "false"
	}
	name := OpenVariable(gate)
	if !ask {
		name = "q" + gate
	}
	if g.done[name] {
		return ref(name)
	}
	alone := fmt.Sprint(s.Alone(g.lifted))
	if g.live {
		alone = g.alone(f)
	}
	ways := []string{alone}
	if f.CanOptIn() && alone != "true" && !g.alike {
		ways = slices.Concat(ways, g.optIn(f, ask))
	}
	ways = slices.DeleteFunc(ways, func(s string) bool { return s == "false" })
	all := []string{}
	switch {
	case slices.Contains(ways, "true"):
	case len(ways) == 0:
		return "false"
	default:
		all = append(all, or(ways...))
	}
	for _, other := range f.Spec.Requires {
		switch o := g.isOpen(other, ask); o {
		case "true":
		case "false":
			return "false"
		default:
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return "true"
	}
	g.done[name] = true
	return g.add(name, and(all...))
}

// orAllowed tells that an entry p says allowed of a feature.
func (g *gates) orAllowed() string {
	if g.model.Spec().OptIn == nil {
		return ""
	}
	return " || p[1].trim() in " + allowedWords + " && !(p[0].trim() in " + quotes([]string{allAlpha, allBeta}) + ")"
}

// allowed tells whether the settings say of a gate that who opts in may use it.
func (g *gates) allowed(f *feature.Feature) string {
	key, list := quote(f.Spec.Key), quote(g.model.Spec().GatesKey)
	data := g.data()
	// A key that says so is found at once; the list of gates is short, or reads as not set.
	return or(key+" in "+data+" && "+data+"["+key+"].trim() in "+allowedWords,
		list+" in "+data+" && "+data+"["+list+"].size() <= 65536 && "+data+"["+list+"].split(',').exists(e, e.contains('=') && e.split('=', 2)[0].trim() == "+quote(f.Spec.Gate)+
			" && e.split('=', 2)[1].trim() in "+allowedWords+")")
}

// optIn lists the ways to opt in.
func (g *gates) optIn(f *feature.Feature, ask bool) (ways []string) {
	o := g.model.Spec().OptIn
	if o.OnlyAllowed {
		if !g.live {
			if s, _ := g.states.State(f.Spec.Gate); !s.OptIn() {
				return nil
			}
		} else {
			defer func() {
				if len(ways) > 0 {
					ways = []string{and("("+g.allowed(f)+")", g.says(f.Spec.Gate, f)+" == -1", or(ways...))}
				}
			}()
		}
	}
	if o.NamespaceLabel {
		labels := feature.OptInLabels(g.model.Component(), f.Spec.Gate)
		ways = append(ways, "(namespaceObject != null && has(namespaceObject.metadata.labels) && "+quotes(labels)+".exists(l, l in namespaceObject.metadata.labels && namespaceObject.metadata.labels[l] == "+quote(feature.OptInValue)+"))")
	}
	if o.RBAC && ask {
		ways = append(ways, "authorizer.group('sluice.dev').resource('features').namespace(has(request.namespace) ? request.namespace : '').name("+quote(feature.ObjectName(g.model.Component(), f.Spec.Gate))+").check("+quote(feature.OptInVerb)+").allowed()")
	}
	return ways
}

// alone is what the table of precedence says by itself of a feature whose state is not fixed.
func (g *gates) alone(f *feature.Feature) string {
	var rows []string
	opens := g.level(f)
	if f.Spec.ImpliedByLevel {
		if opens == "true" {
			return "true"
		}
		rows = append(rows, opens+" ? true : ")
	}
	if name := "s" + f.Spec.Gate; g.alike || g.done[name] {
		said := g.says(f.Spec.Gate, f)
		rows = append(rows, said+" != 0 ? "+said+" == 1 : ")
	} else { // what is asked once needs no variable
		yes, no := g.sayings(f.Spec.Gate, f)
		rows = append(rows, yes+" && !"+no+" ? true : "+no+" && !"+yes+" ? false : ")
	}
	last := fmt.Sprint(f.Default)
	if f.FollowsLevel {
		last = opens
	} else {
		for _, all := range []struct {
			gate  string
			stage v1alpha1.Stage
		}{{allAlpha, v1alpha1.Alpha}, {allBeta, v1alpha1.Beta}} {
			if f.Stage == all.stage {
				said := g.says(all.gate, nil)
				rows = append(rows, said+" != 0 ? "+said+" == 1 : ")
			}
		}
	}
	return "(" + strings.Join(rows, "") + last + ")"
}

// data is the data of the parameter.
func (g *gates) data() string {
	return g.once("data", func() string { return "has(params.data) ? params.data : {}" })
}

func (g *gates) once(name string, expression func() string) string {
	if !g.done[name] {
		text := expression()
		g.done[name] = true
		g.add(name, text)
	}
	return ref(name)
}

// level tells whether the level opens a feature.
func (g *gates) level(f *feature.Feature) string {
	rank := slices.Index(levels, f.Level)
	if rank == 0 || rank == 1 && g.lifted {
		return "true"
	}
	spec := g.model.Spec()
	key := quote(spec.LevelKey)
	word := g.once("levelWord", func() string {
		return key + " in " + g.data() + " ? " + g.data() + "[" + key + "].trim().lowerAscii() : ''"
	})
	level := g.once("level", func() string {
		fallback := slices.Index(levels, spec.DefaultLevel)
		return fmt.Sprintf("%s == 'stable' ? 0 : %s == 'beta' ? 1 : %s == 'alpha' ? 2 : %d", word, word, word, fallback)
	})
	return fmt.Sprintf("%s >= %d", level, rank)
}

// says tells what the settings say of a gate: 1 on, -1 off, 0 nothing, or both.
func (g *gates) says(gate string, f *feature.Feature) string {
	return g.once("s"+gate, func() string {
		yes, no := g.sayings(gate, f)
		return "(" + yes + " ? 1 : 0) - (" + no + " ? 1 : 0)"
	})
}

// sayings tell whether the settings say on and whether they say off of a gate.
func (g *gates) sayings(gate string, f *feature.Feature) (on, off string) {
	entries := g.entries()
	yes, no := []string{quote(gate+"=1") + " in " + entries}, []string{quote(gate+"=0") + " in " + entries}
	if f != nil {
		key := quote(f.Spec.Key)
		value := g.data() + "[" + key + "].trim()"
		on, off := trueWords, falseWords
		if f.Spec.Inverted {
			on, off = off, on
		}
		off = g.off(off)
		there := key + " in " + g.data()
		yes = append([]string{there + " && " + value + " in " + on}, yes...)
		no = append([]string{there + " && " + value + " in " + off}, no...)
	}
	return "(" + or(yes...) + ")", "(" + or(no...) + ")"
}

// entries are those of the key that lists gates, with 1 or 0 behind the sign of equality, or neither for what is no boolean.
// A value that is too long for a list of gates reads as not set, so that none can cost more than a request may.
func (g *gates) entries() string {
	key := quote(g.model.Spec().GatesKey)
	return g.once("entries", func() string {
		data := g.data()
		return key + " in " + data + " && " + data + "[" + key + "].size() <= 65536 ? " + data + "[" + key +
			"].split(',').map(e, e.split('=', 2)).filter(p, p.size() == 2).map(p, p[0].trim() + '=' + (p[1].trim() in " +
			trueWords + " ? '1' : p[1].trim() in " + falseWords + g.orAllowed() + " ? '0' : '')) : []"
	})
}

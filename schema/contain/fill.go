package contain

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// fills says which defaults are filled in below a value of the node: two nodes with the same answer fill in the same.
// It is empty where there are none.
func fills(n *schema.Node) string {
	if n == nil {
		return ""
	}
	var b strings.Builder
	for _, c := range n.Properties {
		part := fills(c.Node)
		if c.Node.HasDefault {
			part += "=" + string(schema.AppendValue(nil, c.Node.Default))
			if c.Node.Nullable {
				part += "?"
			}
		}
		if part != "" {
			b.WriteString(strconv.Quote(c.Name) + strconv.Quote(part))
		}
	}
	if part := fills(n.Additional); part != "" {
		b.WriteString("*" + strconv.Quote(part)) // its own default stands in for null alone, which is no raw value here
	}
	if part := fills(n.Items); part != "" {
		b.WriteString("[]" + strconv.Quote(part))
	}
	return b.String()
}

// enum says that the value is one of the enum's. Lists and objects are compared after defaulting.
func enum(n *schema.Node, p place) logic.Formula {
	whole := logic.Enum{Values: n.Enum}
	compound := slices.ContainsFunc(n.Enum, func(v any) bool { return logic.KindOf(v)&compounds != 0 })
	if !compound {
		return whole
	}
	filled := fills(p.node)
	if filled == "" {
		return whole
	}
	id := schema.AppendValue([]byte("one of "), n.Enum)
	return logic.Or{
		logic.And{logic.Kinds(logic.AnyKind &^ compounds), whole},
		logic.And{logic.Kinds(compounds), logic.Opaque{ID: string(id) + " after defaulting " + filled}},
	}
}

const compounds = logic.Array | logic.Object

// embedded is what the API server demands of every embedded resource
// (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta, Coerce and Validate).
func (t *translator) embedded(n *schema.Node) logic.Formula {
	var out logic.And
	text := func(name string, f logic.Formula) {
		f = logic.And{logic.Kinds(logic.String), f}
		out = append(out, logic.Prop{Name: name, F: f})
		c := n.Property(name)
		if c == nil || !c.HasDefault || logic.Eval(f, c.Default, t.opts.strings()) == logic.No {
			out = append(out, logic.Has{Name: name})
		}
	}
	// A group and a version, or a version alone.
	text("apiVersion", logic.And{logic.Length{Min: 1, Max: logic.Unbounded}, logic.Pattern{Expr: `^[^/]*(/[^/]*)?$`}})
	// A DNS label of RFC 1035 once it is in lower case; two letters beyond ASCII become i and k.
	text("kind", logic.And{logic.Length{Min: 1, Max: 63}, logic.Pattern{Expr: `^[a-zA-Z\x{130}\x{212A}]([-a-zA-Z0-9\x{130}\x{212A}]*[a-zA-Z0-9\x{130}\x{212A}])?$`}})
	var filled string
	if c := n.Property("metadata"); c != nil {
		filled = fills(c)
		if c.HasDefault { // checked with the CRD
			filled += "=" + string(schema.AppendValue(nil, c.Default))
		}
	}
	valid := logic.Formula(logic.Opaque{ID: "valid metadata " + filled})
	if filled == "" {
		valid = logic.Or{logic.NumProps{Max: 0}, valid}
	}
	return append(out, logic.Prop{Name: "metadata", F: logic.And{logic.Kinds(logic.Object), valid}})
}

// filling is what both schemas fill in at a place where the value, or one around it, is left out.
type filling struct {
	from     int // how long the path is to the value that is left out
	new, old any
	had      bool // old is filled in
	below    bool // the place is in a list or map that is filled in
}

// filledAt returns what is filled in at the property of the place where the walk is, in which both schemas differ. Where the
// new schema fills in nothing, an update finds no value, and no rule about updates is evaluated.
func (w *walker) filledAt(o, n place, name string) []filling {
	var out []filling
	for _, f := range w.fillings {
		if f.below {
			out = append(out, f)
			continue
		}
		after, _ := f.new.(map[string]any)
		before, _ := f.old.(map[string]any)
		f.new, f.old = after[name], before[name]
		_, filled := after[name]
		if _, f.had = before[name]; filled && !f.same() {
			out = append(out, f)
		}
	}
	if n.kind == declared && n.node.HasDefault {
		f := filling{from: len(w.path), new: schema.WithDefaults(n.node, n.node.Default)}
		if f.had = o.kind == declared && o.node.HasDefault; f.had {
			f.old = schema.WithDefaults(o.node, o.node.Default)
		}
		if !f.same() {
			out = append(out, f)
		}
	}
	return out
}

func (f filling) same() bool { return f.had && reflect.DeepEqual(f.old, f.new) }

// fillBelow returns what is filled in at the items or values of the place where the walk is.
func (w *walker) fillBelow() []filling {
	out := slices.Clone(w.fillings)
	for i := range out {
		out[i].below = true
	}
	return out
}

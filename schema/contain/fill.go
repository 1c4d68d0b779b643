package contain

// Which defaults are filled in below a value? For example, a new default of a field makes objects that lack it differ.

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// defaultsText is a text of the defaults that are filled in below a value of the node. Two nodes with the same text fill in the same. It is
// empty if there are no defaults.
func (l *library) defaultsText(n *schema.Node) string {
	if n == nil {
		return ""
	}
	if known, ok := l.filled[n]; ok {
		return known
	}
	var b []byte
	for _, c := range n.Properties {
		part := l.defaultsText(c.Node)
		if part == "" && !c.Node.HasDefault {
			continue
		}
		b = append(strconv.AppendQuote(b, c.Name), part...)
		if c.Node.HasDefault {
			b = schema.AppendValue(append(b, '='), c.Node.Default)
			if c.Node.Nullable {
				b = append(b, '?')
			}
		}
	}
	if part := l.defaultsText(n.Additional); part != "" {
		b = append(b, "*"+part...) // its own default only replaces null, which is no raw value here
	}
	if part := l.defaultsText(n.Items); part != "" {
		b = append(b, "[]"+part...)
	}
	out := ""
	if len(b) > 0 { // of one length, however deep it goes
		sum := sha256.Sum256(b)
		out = hex.EncodeToString(sum[:])
	}
	l.filled[n] = out
	return out
}

// withDefault is the default of n with the defaults below it. Its size is charged.
func (l *library) withDefault(n *schema.Node) any {
	v := schema.WithDefaults(n, n.Default)
	l.work.Charge(weightOf(v))
	return v
}

// enumFormula is true of the values in the enum. Lists and objects are compared after defaulting.
func (l *library) enumFormula(n *schema.Node, p place) logic.Formula {
	whole := logic.Enum{Values: n.Enum}
	compound := slices.ContainsFunc(n.Enum, func(v any) bool { return logic.KindOf(v)&compounds != 0 })
	if !compound {
		return whole
	}
	filled := l.defaultsText(p.node)
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

// embeddedResource has the API server's demands on every embedded resource (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta,
// Coerce and Validate). If the resource is not checked, Coerce is all there is: it refuses what it cannot read.
func (t *translator) embeddedResource(n *schema.Node, unchecked bool) logic.Formula {
	var out logic.And
	if unchecked {
		return append(
			out, logic.Prop{Name: "apiVersion", F: logic.Kinds(logic.String)}, logic.Prop{Name: "kind", F: logic.Kinds(logic.String)},
			logic.Prop{Name: "metadata", F: logic.And{objectMeta(), logic.Or{logic.NumProps{Max: 0}, logic.Opaque{ID: "readable metadata"}}}},
		)
	}
	text := func(name string, f logic.Formula) {
		f = logic.And{logic.Kinds(logic.String), f}
		out = append(out, logic.Prop{Name: name, F: f})
		c := n.Property(name)
		if c == nil || !c.HasDefault || logic.Eval(f, c.Default, t.opts.solverStrings()) == logic.No {
			out = append(out, logic.Has{Name: name})
		}
	}
	// A group and a version, or a version alone.
	text("apiVersion", logic.And{logic.Length{Min: 1, Max: logic.Unbounded}, logic.Pattern{Expr: `^[^/]*(/[^/]*)?$`}})
	// A DNS label of RFC 1035 after conversion to lower case; two letters beyond ASCII become i and k.
	text("kind", logic.And{logic.Length{Min: 1, Max: 63}, logic.Pattern{Expr: `^[a-zA-Z\x{130}\x{212A}]([-a-zA-Z0-9\x{130}\x{212A}]*[a-zA-Z0-9\x{130}\x{212A}])?$`}})
	var filled string
	if c := n.Property("metadata"); c != nil {
		filled = t.opts.sharedLibrary().defaultsText(c) // its own default is checked with the CRD
	}
	valid := logic.Formula(logic.Opaque{ID: "valid metadata " + filled})
	if filled == "" {
		valid = logic.Or{logic.NumProps{Max: 0}, valid}
	}
	return append(out, logic.Prop{Name: "metadata", F: logic.And{objectMeta(), valid}})
}

// objectMeta is true of metadata whose fields have the types of ObjectMeta. Other fields, and null, are dropped.
func objectMeta() logic.Formula {
	out := logic.And{logic.Kinds(logic.Object)}
	var names []string
	add := func(f logic.Formula, fields ...string) {
		for _, name := range fields {
			names = append(names, name)
			out = append(out, logic.Prop{Name: name, F: f})
		}
	}
	text := logic.Kinds(logic.String)
	add(text, "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
	add(logic.Kinds(logic.Number), "generation", "deletionGracePeriodSeconds")
	add(logic.And{logic.Kinds(logic.Object), logic.Rest{F: text}}, "labels", "annotations")
	add(logic.Kinds(logic.Array), "ownerReferences", "finalizers", "managedFields")
	return append(out, logic.Rest{Except: logic.NamesExcept(names...), F: logic.False})
}

// weightOf is the number of values in v, and more for long strings.
func weightOf(v any) int64 {
	n := int64(1)
	switch v := v.(type) {
	case string:
		n += int64(len(v)) / 512
	case map[string]any:
		for _, x := range v {
			n += weightOf(x)
		}
	case []any:
		for _, x := range v {
			n += weightOf(x)
		}
	}
	return n
}

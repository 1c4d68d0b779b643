package contain

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/schema"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/schemagen"
)

// unblamed returns the gaps that blame a keyword which stands alike on both sides, and do not say what changed instead.
func unblamed(t *testing.T, old, new Side) (gaps int, out []string) {
	t.Helper()
	for _, g := range Decide(t.Context(), old, new, Options{Namespaced: true}).Gaps {
		gaps++
		o, n := nodeAt(old.Node, g.Path), nodeAt(new.Node, g.Path)
		if g.Harm != Refused || o == nil || n == nil || g.Cause != "" {
			continue
		}
		x := piece{keyword: g.Keyword, detail: g.Detail, before: g.After}
		if g.Rule >= 0 {
			x.rule = &n.Rules[g.Rule]
		}
		w := (&Options{Work: NewWork(DefaultBudget)}).newWalker()
		if x.keyword != "allOf" && w.keywordAlike(place{node: o}, n, x) {
			out = append(out, fmt.Sprintf("%s: %s %s stands alike on both sides and is blamed: %s", g.Path, g.Keyword, g.Detail, g.Reason))
		}
	}
	return gaps, out
}

// nodeAt returns the node at the path, nil if none is declared.
func nodeAt(n *schema.Node, path Path) *schema.Node {
	for _, s := range path {
		switch {
		case n == nil:
			return nil
		case s.Kind == AnyItem:
			n = n.Items
		case s.Kind == Field && n.Property(s.Name) != nil:
			n = n.Property(s.Name)
		default:
			n = n.Additional
		}
	}
	return n
}

func TestWhatIsBlamedHasChanged(t *testing.T) {
	all := 0
	for seed := range draws.Seeds(4000) {
		g := schemagen.New(seed + 2_000_000)
		g.Rules = seed%4 > 0
		old := g.Schema()
		new := g.Change(g.Change(old))
		gaps, bad := unblamed(t, side(t, old), side(t, new))
		all += gaps
		for _, b := range bad {
			t.Errorf("seed %d: %s\nold:\n%s\nnew:\n%s", seed, b, showSchema(old), showSchema(new))
		}
	}
	if all < 300 {
		t.Errorf("only %d gaps: the test says little", all)
	}
}

// The same of the real upgrades in the folder SLUICE_CORPUS, whose pairs.tsv names an old and a new file in each line.
func TestWhatIsBlamedInRealUpgradesHasChanged(t *testing.T) {
	root := os.Getenv("SLUICE_CORPUS")
	if root == "" {
		t.Skip("SLUICE_CORPUS names no corpus of real upgrades")
	}
	f, err := os.Open(filepath.Join(root, "pairs.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	read := func(name string) map[string]*apiextensionsv1.JSONSchemaProps {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		var d apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(data, &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out := map[string]*apiextensionsv1.JSONSchemaProps{}
		for _, v := range d.Spec.Versions {
			if v.Schema != nil {
				out[v.Name] = v.Schema.OpenAPIV3Schema
			}
		}
		return out
	}
	gaps := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		col := strings.Split(lines.Text(), "\t")
		if len(col) < 3 || col[0] == "id" {
			continue
		}
		old, new := read(col[1]), read(col[2])
		for name, o := range old {
			if n := new[name]; n != nil {
				k, bad := unblamed(t, side(t, o), side(t, n))
				gaps += k
				for _, b := range bad {
					t.Errorf("%s %s: %s", col[0], name, b)
				}
			}
		}
	}
	t.Logf("%d gaps", gaps)
}

// unionOf is a spec with n members, each for one type, as the API conventions have unions.
func unionOf(n int, more string) string {
	var b strings.Builder
	b.WriteString("{type: object, properties: {spec: {type: object, required: [type], properties: {type: {type: string}" + more)
	for i := range n {
		fmt.Fprintf(&b, ", t%d: {type: object, properties: {x: {type: string}}}", i)
	}
	b.WriteString("}, x-kubernetes-validations: [")
	for i := range n {
		fmt.Fprintf(&b, "{rule: \"!(has(self.t%d) && self.type != 'T%d')\"}, ", i, i)
	}
	b.WriteString("]}}}")
	return b.String()
}

// A union of any size takes an optional field more.
func TestAFieldIsAddedToAUnion(t *testing.T) {
	for _, n := range []int{5, 6, 12, 40} {
		r := Decide(t.Context(), side(t, parseSchema(t, unionOf(n, ""))), side(t, parseSchema(t, unionOf(n, ", extra: {type: string}"))), Options{})
		if r.Verdict != Contained {
			t.Errorf("%d members: %v %+v", n, r.Verdict, r.Gaps)
		}
	}
}

func TestCauses(t *testing.T) {
	for _, c := range []struct{ name, old, new, keyword, want string }{
		{
			"a default that is gone", "required: [a], properties: {a: {type: string, default: x}}", "required: [a], properties: {a: {type: string}}",
			"required", ".spec.a has lost its default",
		},
		{
			"a type that a rule reads", "properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: 'has(self.a)'}, {rule: 'self.a > 1'}]",
			"properties: {a: {type: integer}, b: {type: string}}, x-kubernetes-validations: [{rule: 'has(self.a)'}, {rule: 'self.a > 2'}]",
			keywordRules, "",
		},
		{"a keyword that changed itself", "properties: {a: {type: string}}", "required: [a], properties: {a: {type: string}}", "required", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := func(s string) Side {
				return side(t, parseSchema(t, "{type: object, properties: {spec: {type: object, "+s+"}}}"))
			}
			r := Decide(t.Context(), spec(c.old), spec(c.new), Options{})
			for _, g := range r.Gaps {
				if g.Keyword == c.keyword && g.Cause == c.want {
					return
				}
			}
			t.Errorf("no gap of %s with the cause %q: %+v", c.keyword, c.want, r.Gaps)
		})
	}
}

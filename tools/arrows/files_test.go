package arrows

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gopackages "golang.org/x/tools/go/packages"
)

// layers has, for packages that are read from the bottom up, their files in that order: a file may use what files before it declare. Some
// recursions run through several files; at most one pair of files in twenty may use each other against the order. A name with an asterisk stands
// for files that are one layer.
var layers = map[string]string{
	"apply": `values object event order warning client normal owned unowned mapping parts annotations inventory model preflight_permission takeover version
		conflict foreign relocate ready live wait waves process shelter count protect gates preflight_feature lock preflight_crd
		namespace preflight rebase prune local versioned replace leftover history adopt helm newschema rehearse plan run diff doc`,
	"compat": `doc told model tree example same places comparison steps alike refusal format names conversion witness afterupdate decide change claims twins digest
		readers journey reach readdefaults label status oldvalue anew rule_* check rule`,
	"conversion": `doc rules differ targets objects review run trips shrink check`,
	"internal/controller/features": `doc client server builtins objects settings world model hooks metrics session hookstore plan standing
		probe skew webhook claims moves shared optin rights usage putback enforce status controller`,
	"schema": `schema keywords hash build default walk stored copy`,
	"schema/upstream": `doc words versions value estimate bounds celschema dear explain lazy meta rulemessage rules ruletree ruleeval
		shape ratchet stored validator deardefaults plainmeta validate decode request forcrd project crdrules
		typed work crd`,
	"schema/contain/internal/logic":   `work formula eval intern state solver fields values add known enum numbers strings array object text solve`,
	"schema/contain/internal/regular": `pattern search`,
	"schema/contain/internal/celrule": `cond value node rule ast translator canon cardinality strings relate prefix emit bounds implied junction quantify
		equalnode shape num opaque library needed celrule scope sum compr total absent guards fewitems parts unique update count
		members index compare textcalls equal convert call macro sees hints function translate unclear`,
	"schema/contain": `doc gap place translator options fill patterns rules strange strip trace numbers formats translate written
		walker blame search confirm transition lastword searchtrace unequal fillings fate probe draw unclear cause updates
		walk rounds implied oldvalue contain`,
}

// TestFilesAreLayers: whoever reads a package in the order of its files knows nearly all that a file uses.
func TestFilesAreLayers(t *testing.T) {
	var patterns []string
	for pkg := range layers {
		patterns = append(patterns, module+"/"+pkg)
	}
	loaded, err := gopackages.Load(&gopackages.Config{
		Mode: gopackages.NeedName | gopackages.NeedSyntax | gopackages.NeedTypes | gopackages.NeedTypesInfo | gopackages.NeedImports,
		Dir:  "../..",
	}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded) != len(layers) {
		t.Fatalf("%d packages of %d", len(loaded), len(layers))
	}
	for _, p := range loaded {
		pkg := strings.TrimPrefix(p.PkgPath, module+"/")
		order := strings.Fields(layers[pkg])
		uses := usesOfFiles(p)
		for file := range uses {
			if !slices.ContainsFunc(order, func(layer string) bool { return isOfLayer(layer, file) }) {
				t.Errorf("%s: %s.go has no place in the order of the files", pkg, file)
			}
		}
		for _, layer := range order {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(uses)), func(file string) bool { return isOfLayer(layer, file) }) {
				t.Errorf("%s: there is no file %s.go", pkg, layer)
			}
		}
		place := func(file string) int {
			return slices.IndexFunc(order, func(layer string) bool { return isOfLayer(layer, file) })
		}
		all, up := 0, []string{}
		for file, others := range uses {
			for other, name := range others {
				if all++; place(other) > place(file) {
					up = append(up, file+".go uses "+name+" of "+other+".go")
				}
			}
		}
		if len(up)*20 > all {
			slices.Sort(up)
			t.Errorf("%s: %d of %d arrows between files run up:\n%s", pkg, len(up), all, strings.Join(up, "\n"))
		}
	}
}

// isOfLayer reports whether a name in the list of layers stands for the file.
func isOfLayer(layer, file string) bool {
	prefix, all := strings.CutSuffix(layer, "*")
	return layer == file || all && strings.HasPrefix(file, prefix)
}

// usesOfFiles returns for each file of a package which other files it uses, with a name that it uses.
func usesOfFiles(p *gopackages.Package) map[string]map[string]string {
	fileOf := func(n interface{ Pos() token.Pos }) string {
		return strings.TrimSuffix(filepath.Base(p.Fset.Position(n.Pos()).Filename), ".go")
	}
	uses := map[string]map[string]string{}
	for _, f := range p.Syntax {
		file := fileOf(f)
		uses[file] = map[string]string{}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if o := p.TypesInfo.Uses[id]; o != nil && declaredIn(p.Types, o) && fileOf(o) != file {
					uses[file][fileOf(o)] = o.Name()
				}
			}
			return true
		})
	}
	return uses
}

// declaredIn reports whether a package declares the object, on its own or as a field or method: not inside of a function.
func declaredIn(pkg *types.Package, o types.Object) bool {
	return o.Pkg() == pkg && (o.Parent() == pkg.Scope() || o.Parent() == nil)
}

package arrows

import (
	"fmt"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"

	gopackages "golang.org/x/tools/go/packages"
)

// TestPublicPackagesNameNoInternalTypes: whoever imports a package can name each type that its exported functions, fields and methods
// have, also if it is an alias. Other types of internal packages cannot be named, so that nobody can store or make one.
func TestPublicPackagesNameNoInternalTypes(t *testing.T) {
	loaded, err := gopackages.Load(&gopackages.Config{Mode: gopackages.NeedName | gopackages.NeedTypes | gopackages.NeedImports, Dir: "../.."}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	loaded = slices.DeleteFunc(loaded, func(p *gopackages.Package) bool {
		return strings.Contains(p.PkgPath, "/internal/") || under(p.PkgPath, module+"/tools") || p.Name == "main"
	})
	if len(loaded) < 20 {
		t.Fatalf("%d packages are public", len(loaded))
	}
	aliases := map[types.Type]bool{}
	for _, p := range loaded {
		for _, name := range p.Types.Scope().Names() {
			if o := p.Types.Scope().Lookup(name); o.Exported() {
				if a, ok := o.Type().(*types.Alias); ok {
					aliases[types.Unalias(a)] = true
				}
			}
		}
	}
	for _, p := range loaded {
		scope := p.Types.Scope()
		for _, name := range scope.Names() {
			if o := scope.Lookup(name); o.Exported() {
				for _, hidden := range internalTypesOf(o, aliases) {
					t.Errorf("%s.%s", p.PkgPath, hidden)
				}
			}
		}
	}
}

// internalTypesOf lists where an exported object has a type of an internal package.
func internalTypesOf(o types.Object, aliases map[types.Type]bool) (out []string) {
	note := func(where string, typ types.Type) {
		if name := internalType(typ, maps.Clone(aliases)); name != "" {
			out = append(out, fmt.Sprintf("%s is of type %s, which is internal", where, name))
		}
	}
	named, isType := o.Type().(*types.Named)
	if _, ok := o.(*types.TypeName); !ok || !isType {
		note(o.Name(), o.Type())
		return out
	}
	for m := range named.Methods() {
		if m.Exported() {
			note(o.Name()+"."+m.Name(), m.Type())
		}
	}
	if s, ok := named.Underlying().(*types.Struct); ok {
		for f := range s.Fields() {
			if f.Exported() {
				note(o.Name()+"."+f.Name(), f.Type())
			}
		}
		return out
	}
	note(o.Name(), named.Underlying())
	return out
}

// internalType is the first type of an internal package that one is made of, except those seen; empty if there is none.
func internalType(typ types.Type, seen map[types.Type]bool) string {
	if seen[typ] {
		return ""
	}
	seen[typ] = true
	var parts []types.Type
	switch x := typ.(type) {
	case *types.Alias:
		return internalType(types.Unalias(x), seen)
	case *types.Named:
		if p := x.Obj().Pkg(); p != nil && strings.HasPrefix(p.Path(), module) && strings.Contains(p.Path(), "/internal/") {
			return x.String()
		}
		for a := range x.TypeArgs().Types() {
			parts = append(parts, a)
		}
	case *types.Map:
		parts = append(parts, x.Key(), x.Elem())
	case interface{ Elem() types.Type }:
		parts = append(parts, x.Elem())
	case *types.Signature:
		for v := range x.Params().Variables() {
			parts = append(parts, v.Type())
		}
		for v := range x.Results().Variables() {
			parts = append(parts, v.Type())
		}
	case *types.Interface:
		for m := range x.Methods() {
			if m.Exported() {
				parts = append(parts, m.Type())
			}
		}
	}
	for _, p := range parts {
		if name := internalType(p, seen); name != "" {
			return name
		}
	}
	return ""
}

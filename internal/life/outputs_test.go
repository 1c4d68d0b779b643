package life

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/api/v1alpha1"
)

// paper has fields of one type, and markers that gate values of some of them.
const paper = `	// +sluice:feature:values:name=Labels,values=Gold
	Wrap Paper ` + "`json:\"wrap,omitempty\"`" + `
	Lining Paper ` + "`json:\"lining,omitempty\"`" + `
	// +sluice:feature:beyond:name=Sheets,values=Plain
	Ribbon Paper ` + "`json:\"ribbon,omitempty\"`" + `
	// Script is run.
`

// TestOutputsDoNotDependOnEachOther: each file is as if it was the only output, in every order, and the project stays as it was. The CRDs
// come from Go types, then from files.
func TestOutputsDoNotDependOnEachOther(t *testing.T) {
	text := strings.Replace(shopText, "\t// Script is run.\n", paper, 1)
	text = strings.Replace(text, "// Delivery is how things", "// Paper is a paper.\n// +kubebuilder:validation:Enum=Plain;Gold;Red\ntype Paper string\n\n// Delivery is how things", 1)
	project(t, text)
	outputs := []CRDOutput{
		{Path: "full.yaml"},
		{Path: "stable.yaml", Channel: Channel{Level: v1alpha1.LevelStable}},
		{Path: "beta.yaml", Channel: Channel{Level: v1alpha1.LevelBeta}},
		{Path: "gate.yaml", Channel: Channel{Level: v1alpha1.LevelStable, Gates: map[string]bool{"Labels": true}}},
	}
	sources := map[string]func() *Project{"packages": func() *Project {
		p, err := load(t)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}}
	whole := sources["packages"]()
	var crds strings.Builder
	for _, c := range whole.CRDs {
		data, err := crdYAML(c)
		if err != nil {
			t.Fatal(err)
		}
		crds.WriteString("---\n" + string(data))
	}
	write(t, "source.yaml", crds.String())
	sources["crds"] = func() *Project {
		f, err := Read(t.Context(), "features.yaml")
		if err != nil {
			t.Fatal(err)
		}
		f.Source = Source{CRDs: []string{"source.yaml"}}
		for i := range f.Features {
			f.Features[i].Parts = whole.Declaration.Features[i].Parts
		}
		p, err := Load(t.Context(), f, promoteDay)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for source, load := range sources {
		made := func(p *Project, list ...CRDOutput) map[string]string {
			t.Helper()
			p.File.Output = Output{CRDs: list}
			files, err := p.Outputs(t.Context(), Channel{})
			if err != nil {
				t.Fatal(err)
			}
			out := map[string]string{}
			for _, f := range files {
				out[f.path] = string(f.data)
			}
			return out
		}
		alone := map[string]string{}
		for _, o := range outputs {
			maps.Copy(alone, made(load(), o))
		}
		if full := alone["full.yaml"]; strings.Count(full, "- Gold\n") != 3 || strings.Count(full, "- Express\n") != 1 || strings.Contains(full, "null") {
			t.Errorf("%s: the CRD with everything is\n%s", source, full)
		}
		if stable := alone["stable.yaml"]; strings.Count(stable, "- Gold\n") != 1 || strings.Contains(stable, "Express") || strings.Contains(stable, "null") {
			t.Errorf("%s: the stable channel is\n%s", source, stable)
		}
		for seed := range uint64(12) {
			list := slices.Clone(outputs)
			rand.New(rand.NewPCG(seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			p := load()
			before := asJSON(t, p.base, p.CRDs, p.Declaration)
			if diff := cmp.Diff(alone, made(p, list...)); diff != "" {
				t.Fatalf("%s: in the order %v, -alone +together:\n%s", source, list, diff)
			}
			if diff := cmp.Diff(before, asJSON(t, p.base, p.CRDs, p.Declaration)); diff != "" {
				t.Fatalf("%s: in the order %v, the project has changed:\n%s", source, list, diff)
			}
		}
	}
}

func asJSON(t *testing.T, values ...any) string {
	t.Helper()
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestACRDWhoseKindIsGoneIsTold: it would be installed again. A file that others wrote is none of ours.
func TestACRDWhoseKindIsGoneIsTold(t *testing.T) {
	project(t, shopText)
	p, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Outputs(t.Context(), Channel{})
	if err == nil {
		_, err = out.Write()
	}
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("config/crd/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	write(t, "config/crd/shop.example.dev_foreign.yaml", "# another\n")
	if _, err := p.Outputs(t.Context(), Channel{}); err != nil {
		t.Error(err)
	}
	write(t, "config/crd/shop.example.dev_olds.yaml", read(t, names[0]))
	if _, err := p.Outputs(t.Context(), Channel{}); err == nil || !strings.Contains(err.Error(), "config/crd/shop.example.dev_olds.yaml was generated, and source no longer has its kind: delete the file") {
		t.Error(err)
	}
}

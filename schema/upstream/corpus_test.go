package upstream_test

import (
	"bufio"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/schema/upstream"
)

// corpusPair is one real upgrade of a CRD. The folder that SLUICE_CORPUS names holds pairs.tsv (id, old file, new file, ...)
// and the files; SLUICE_PAIR is the id of one pair to look at alone. Without it the tests of this file are skipped.
type corpusPair struct {
	id       string
	old, new *apiextensionsv1.CustomResourceDefinition
}

// eachPair calls f for one pair of every step.
func eachPair(t testing.TB, step int, f func(corpusPair)) {
	t.Helper()
	root := os.Getenv("SLUICE_CORPUS")
	if root == "" {
		t.Skip("SLUICE_CORPUS is not set")
	}
	list, err := os.Open(filepath.Join(root, "pairs.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := list.Close(); err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewScanner(list)
	for i := 0; lines.Scan(); i++ {
		cells := strings.Split(lines.Text(), "\t")
		if only := os.Getenv("SLUICE_PAIR"); only != "" {
			if cells[0] != only {
				continue
			}
		} else if i == 0 || i%step != 0 {
			continue
		}
		f(corpusPair{cells[0], corpusCRD(t, filepath.Join(root, cells[1])), corpusCRD(t, filepath.Join(root, cells[2]))})
	}
}

// eachVersion calls f for the versions of the newer CRD of one pair of every step.
func eachVersion(t testing.TB, step int, f func(id string, s *props, o upstream.Options)) {
	t.Helper()
	eachPair(t, step, func(p corpusPair) {
		for i := range p.new.Spec.Versions {
			name := p.new.Spec.Versions[i].Name
			s, o, err := upstream.ForCRD(p.new, name, nil)
			if err != nil {
				t.Fatal(p.id, err)
			}
			if s != nil {
				f(p.id+" "+name, s, o)
			}
		}
	})
}

func corpusCRD(t testing.TB, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(data, crd); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return crd
}

func (g generator) resourceOf(s *props, o upstream.Options, fit int) map[string]any {
	obj := g.resource(s, fit)
	obj["apiVersion"], obj["kind"] = o.Group+"/"+o.Version, o.Kind
	return obj
}

// quantiles reports the median, the 99th percentile and the worst of d, processor time in µs.
func quantiles(b *testing.B, name string, d []time.Duration) {
	b.Helper()
	if len(d) == 0 {
		return
	}
	slices.Sort(d)
	for i, part := range []string{"median", "p99", "worst"} {
		at := []int{len(d) / 2, len(d) * 99 / 100, len(d) - 1}[i]
		b.ReportMetric(float64(d[at].Nanoseconds())/1000, name+"-"+part+"-µs")
	}
}

// BenchmarkCorpusValidators returns what it takes to make a validator of a real version, to use it for the first time, to
// confirm a small object, and to touch a stored one.
func BenchmarkCorpusValidators(b *testing.B) {
	g := generator{rand.New(rand.NewPCG(1, 1))}
	var made, first, confirmed, touched []time.Duration
	timed := func(list *[]time.Duration, f func()) {
		start := processTime(b)
		f()
		*list = append(*list, processTime(b)-start)
	}
	eachVersion(b, 3, func(_ string, s *props, o upstream.Options) {
		var v *upstream.Validator
		var err error
		timed(&made, func() { v, err = upstream.New(s, o) })
		if err != nil {
			return
		}
		obj, small := g.resourceOf(s, o, 100), g.resourceOf(s, o, 100)
		timed(&first, func() { _, err = v.Create(b.Context(), obj) })
		p := upstream.NewProjector(s, o)
		for range 5 {
			thin(g, small)
			timed(&touched, func() { _, err = v.TouchUpdate(b.Context(), obj, true) })
			timed(&confirmed, func() {
				var part *upstream.Validator
				if part, err = p.For(small); err == nil {
					_, err = part.Create(b.Context(), small)
				}
			})
		}
		if err != nil {
			b.Error(err)
		}
	})
	for b.Loop() {
	}
	quantiles(b, "new", made)
	quantiles(b, "first", first)
	quantiles(b, "confirm", confirmed)
	quantiles(b, "touch", touched)
}

// BenchmarkCorpusCRDs returns what it takes to validate real upgrades of CRDs.
func BenchmarkCorpusCRDs(b *testing.B) {
	var creates, updates []time.Duration
	eachPair(b, 3, func(p corpusPair) {
		start := processTime(b)
		if _, err := upstream.ValidateCRD(b.Context(), p.new, nil); err != nil {
			b.Fatal(p.id, err)
		}
		between := processTime(b)
		if _, err := upstream.ValidateCRDUpdate(b.Context(), p.new, p.old, nil); err != nil {
			b.Fatal(p.id, err)
		}
		creates, updates = append(creates, between-start), append(updates, processTime(b)-between)
	})
	for b.Loop() {
	}
	quantiles(b, "create", creates)
	quantiles(b, "update", updates)
}

// thin leaves out about half of an object.
func thin(g generator, o map[string]any) {
	for _, k := range sorted(o) {
		if k == "apiVersion" || k == "kind" || k == "metadata" {
			continue
		}
		if m, ok := o[k].(map[string]any); ok {
			thin(g, m)
			if len(m) > 0 {
				continue
			}
		}
		if g.chance(50) {
			delete(o, k)
		}
	}
}

// TestCorpusObjectsAreJudgedAlike compares verdicts on generated objects under real schemas: with and without short cuts,
// whole and projected.
func TestCorpusObjectsAreJudgedAlike(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(2, 2))}
	eachVersion(t, 2, func(id string, s *props, o upstream.Options) {
		exact, err := upstream.NewExact(s, o)
		if err != nil {
			t.Log(id, err)
			return
		}
		p := upstream.NewProjector(s, o)
		fast, err := p.Whole()
		if err != nil {
			t.Fatal(id, err)
		}
		for _, fit := range []int{100, 98} {
			obj := g.resourceOf(s, o, fit)
			old := asMap(g.mutate(obj))
			if diff := compareVerdicts(t, exact, fast, obj, old); diff != "" {
				t.Errorf("%s: -exact +fast:\n%s", id, diff)
			}
			for range 4 {
				thin(g, obj)
			}
			part, err := p.For(obj, old)
			if err != nil {
				t.Fatal(id, err)
			}
			if diff := compareVerdicts(t, exact, part, obj, old); diff != "" {
				t.Errorf("%s: -whole +projected:\n%s", id, diff)
			}
		}
	})
}

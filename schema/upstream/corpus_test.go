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

	"github.com/google/go-cmp/cmp"

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
	defer list.Close()
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

func TestCorpusNumbers(t *testing.T) {
	var news, first, fors, touches, creates []time.Duration
	g := generator{rand.New(rand.NewPCG(1, 1))}
	eachPair(t, 3, func(p corpusPair) {
		for i := range p.new.Spec.Versions {
			version := &p.new.Spec.Versions[i]
			s, o, err := upstream.ForCRD(p.new, version.Name, nil)
			if err != nil || s == nil {
				t.Log(p.id, version.Name, err)
				continue
			}
			start := cpuNow(t)
			v, err := upstream.New(s, o)
			news = append(news, cpuNow(t)-start)
			if err != nil {
				t.Log(p.id, err)
				continue
			}
			obj := g.resourceOf(s, o, 100)
			start = cpuNow(t)
			v.Create(t.Context(), obj)
			first = append(first, cpuNow(t)-start)
			for range 3 {
				start = cpuNow(t)
				v.TouchUpdate(t.Context(), obj, true)
				touches = append(touches, cpuNow(t)-start)
				start = cpuNow(t)
				v.Create(t.Context(), obj)
				creates = append(creates, cpuNow(t)-start)
			}
			proj := upstream.NewProjector(s, o)
			small := g.resourceOf(s, o, 100)
			for range 5 {
				thin(g, small)
			}
			for range 5 {
				start = cpuNow(t)
				if v, err := proj.For(small); err == nil {
					v.Create(t.Context(), small)
				}
				fors = append(fors, cpuNow(t)-start)
			}
		}
	})
	for name, d := range map[string][]time.Duration{"new": news, "first create": first, "for+create": fors, "touch": touches, "create": creates} {
		slices.Sort(d)
		t.Logf("%-14s n=%d median %v p90 %v p99 %v worst %v", name, len(d), d[len(d)/2], d[len(d)*9/10], d[len(d)*99/100], d[len(d)-1])
	}
}

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

func cpuNow(t testing.TB) time.Duration { return processTime(t) }

func TestCorpusCRDNumbers(t *testing.T) {
	var creates, updates []time.Duration
	refused, invalid := 0, 0
	worst := ""
	eachPair(t, 3, func(p corpusPair) {
		start := cpuNow(t)
		errs, err := upstream.ValidateCRD(t.Context(), p.new, nil)
		creates = append(creates, cpuNow(t)-start)
		if err != nil {
			t.Error(err)
		}
		if len(errs) > 0 {
			invalid++
		}
		start = cpuNow(t)
		errs, err = upstream.ValidateCRDUpdate(t.Context(), p.new, p.old, nil)
		d := cpuNow(t) - start
		if len(updates) == 0 || d > slices.Max(updates) {
			worst = p.id
		}
		updates = append(updates, d)
		if d > 15*time.Millisecond {
			t.Log(p.id, d)
		}
		if err != nil {
			t.Error(err)
		}
		if len(errs) > 0 {
			refused++
			t.Log(p.id, len(errs), errs[0])
		}
	})
	t.Log("invalid", invalid, "refused", refused, "worst", worst)
	for name, d := range map[string][]time.Duration{"create": creates, "update": updates} {
		slices.Sort(d)
		t.Logf("%-14s n=%d median %v p90 %v p99 %v worst %v", name, len(d), d[len(d)/2], d[len(d)*9/10], d[len(d)*99/100], d[len(d)-1])
	}
}

func TestCorpusCRDsAreJudgedAlike(t *testing.T) {
	eachPair(t, 2, func(p corpusPair) {
		slow, err := upstream.ValidateCRDUpdateSlowly(t.Context(), p.new, p.old)
		if err != nil {
			t.Fatal(err)
		}
		fast, err := upstream.ValidateCRDUpdate(t.Context(), p.new, p.old, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(errorTexts(upstream.Result{Errors: slow}), errorTexts(upstream.Result{Errors: fast})); diff != "" {
			t.Errorf("%s: -slow +fast:\n%s", p.id, diff)
		}
	})
}

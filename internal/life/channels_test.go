package life

import (
	"context"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/schema/upstream"
	"sluice.dev/tools/schemagen"
)

// TestRandomChannelsAreContained: of random schemas with random gates, each channel is valid and contained in the whole CRD (which
// Cut proves, or says that it cannot), and no gated part is left in it. SLUICE_CHANNELS is how many are tried.
func TestRandomChannelsAreContained(t *testing.T) {
	var all tally
	tries := triesOf(60)
	for seed := range tries {
		crd, g := generatedCRD(t, seed)
		if crd != nil {
			all.cutEach(t, fmt.Sprintf("seed %d", seed), crd, randomParts(g, crd))
		}
	}
	all.log(t)
	if all.cuts < tries/2 || all.refused > all.cuts {
		t.Errorf("only %d channels of %d tries, %d refused: nothing was shown", all.cuts, tries, all.refused)
	}
}

// TestChannelsOfTheCorpus does the same with the newest version of each CRD of the folder that SLUICE_CORPUS names, and random gates that
// are left out together. SLUICE_CHANNELS is how many choices of gates are tried of each.
func TestChannelsOfTheCorpus(t *testing.T) {
	var all tally
	crds := corpus(t)
	for _, name := range slices.Sorted(maps.Keys(crds)) {
		for seed := range triesOf(1) {
			all.cutTogether(t, fmt.Sprintf("%s, seed %d", name, seed), crds[name], randomParts(random(name, seed), crds[name]))
		}
	}
	all.log(t)
	t.Logf("%d CRDs", len(crds))
}

func triesOf(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("SLUICE_CHANNELS")); err == nil {
		return n
	}
	return usual
}

// generatedCRD is a CRD with a random schema; nil if the API server refuses it.
func generatedCRD(t *testing.T, seed int) (*apiextensionsv1.CustomResourceDefinition, *schemagen.Gen) {
	t.Helper()
	g := schemagen.New(uint64(seed))
	crd := crdOf(t, cutCRD)
	crd.Spec.Versions = crd.Spec.Versions[1:]
	v := &crd.Spec.Versions[0]
	v.AdditionalPrinterColumns, v.SelectableFields = nil, nil
	v.Schema.OpenAPIV3Schema = g.Schema()
	if errs, err := upstream.ValidateCRD(t.Context(), crd, nil); err != nil || len(errs) > 0 {
		return nil, g
	}
	return crd, g
}

// random is a source of random numbers that is always the same for a name and a seed.
func random(name string, seed int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(h.Sum64(), uint64(seed)))
}

// corpus are the newest files of each CRD, by repository and name, those that the API server accepts.
func corpus(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	root := os.Getenv("SLUICE_CORPUS")
	if root == "" {
		t.Skip("SLUICE_CORPUS is not set")
	}
	list, err := os.ReadFile(filepath.Join(root, "pairs.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(list)) {
		if cells := strings.Split(line, "\t"); len(cells) > 2 && strings.HasSuffix(cells[2], ".yaml") {
			files[path.Dir(cells[0])] = cells[2] // the last pair has the newest
		}
	}
	out := map[string]*apiextensionsv1.CustomResourceDefinition{}
	refused := 0
	for name, file := range files {
		data, err := fs.ReadFile(os.DirFS(root), file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(data, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		if errs, err := upstream.ValidateCRD(t.Context(), crd, nil); err != nil || len(errs) > 0 || crd.APIVersion != "apiextensions.k8s.io/v1" {
			refused++
			continue
		}
		out[name] = crd
	}
	t.Logf("%d CRDs, and %d that are no valid CRDs of v1", len(out), refused)
	return out
}

// tally counts channels.
type tally struct {
	cuts     int // channels
	gates    int // features that were left out in them
	unproven int // channels of which containment could not be proven
	refused  int // features that cannot be left out
	wrong    int
}

func (c *tally) log(t *testing.T) {
	t.Helper()
	t.Logf("%d channels with %d features left out; containment proven for %d, not proven for %d; %d features cannot be left out", c.cuts, c.gates, c.cuts-c.unproven, c.unproven, c.refused)
}

// cutEach leaves out each feature alone, so that one that cannot be left out hides no other.
func (c *tally) cutEach(t *testing.T, name string, crd *apiextensionsv1.CustomResourceDefinition, parts []v1alpha1.Part) (out []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	model, _, err := modelOf(crd, parts...)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range model.Features() {
		if cut := c.cut(t.Context(), t, name, crd, []*feature.Feature{f}); cut != nil {
			out = append(out, cut)
		}
	}
	return out
}

// cutTogether leaves out all features that can be left out.
func (c *tally) cutTogether(t *testing.T, name string, crd *apiextensionsv1.CustomResourceDefinition, parts []v1alpha1.Part) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	model, _, err := modelOf(crd, parts...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	features := slices.DeleteFunc(model.Features(), func(f *feature.Feature) bool {
		problem := false
		for i := range f.Targets {
			for j := range crd.Spec.Versions {
				if v := crd.Spec.Versions[j].DeepCopy(); v.Schema != nil && v.Name == f.Targets[i].Version {
					problem = problem || len(cutTarget(v, &f.Targets[i])) > 0
				}
			}
		}
		if problem {
			c.refused++
		}
		return problem
	})
	if len(features) == 0 {
		return nil
	}
	return c.cut(t.Context(), t, name, crd, features)
}

// cut makes a channel and looks for what is left.
func (c *tally) cut(ctx context.Context, t *testing.T, name string, crd *apiextensionsv1.CustomResourceDefinition, features []*feature.Feature) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	before := asJSON(t, crd)
	out, notes, err := Cut(ctx, crd, crd, features, "stable")
	if diff := cmp.Diff(before, asJSON(t, crd)); diff != "" {
		c.wrong++
		t.Errorf("%s: the whole CRD has changed:\n%s", name, diff)
	}
	if err != nil {
		if !strings.Contains(err.Error(), "cannot be left out: ") {
			c.wrong++
			t.Errorf("%s: %s: %v", name, features[0].Spec.Parts[0].Field, err)
		}
		c.refused += len(features)
		return nil
	}
	c.cuts++
	c.gates += len(features)
	if len(notes) > 0 {
		c.unproven++
		t.Logf("%s: %s", name, strings.Join(notes, "\n"))
	}
	for _, f := range features {
		if left := leftIn(out, f); left != "" {
			t.Errorf("%s: %s is left in the channel", name, left)
		}
	}
	return out
}

// chooser chooses numbers below n.
type chooser interface{ IntN(n int) int }

// randomParts gates at most 26 of the fields of an object, or a value of one: with few fields each third, with many fewer.
func randomParts(g chooser, crd *apiextensionsv1.CustomResourceDefinition) (parts []v1alpha1.Part) {
	seen := map[string]bool{}
	var all []v1alpha1.Part
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Schema == nil {
			continue
		}
		walkSchema(v.Schema.OpenAPIV3Schema.DeepCopy(), nil, func(p feature.Path, s *apiextensionsv1.JSONSchemaProps) bool {
			if len(p) == 0 {
				return true
			}
			if first := p[0].Name; first == "apiVersion" || first == "kind" || first == "metadata" || len(p) == 1 && first != "data" || seen[p.String()] {
				return first != "metadata"
			}
			seen[p.String()] = true
			part := v1alpha1.Part{Field: p.String()}
			if s.Type == "string" && len(s.Enum) > 1 && g.IntN(2) == 0 {
				part.Values = []string{plainScalar(string(s.Enum[g.IntN(len(s.Enum))].Raw))}
			}
			all = append(all, part)
			return true
		})
	}
	rare := max(3, len(all)/20)
	for _, p := range all {
		if len(parts) < 26 && g.IntN(rare) == 0 {
			parts = append(parts, p)
		}
	}
	return parts
}

// leftIn names a part of a feature that is still in a CRD, or named in it.
func leftIn(crd *apiextensionsv1.CustomResourceDefinition, f *feature.Feature) (left string) {
	for i := range f.Targets {
		x := &f.Targets[i]
		for j := range crd.Spec.Versions {
			v := &crd.Spec.Versions[j]
			if v.Schema == nil || v.Name != x.Version {
				continue
			}
			schema := v.Schema.OpenAPIV3Schema.DeepCopy()
			last := x.Path[len(x.Path)-1]
			withSchemaAt(schema, x.Path, func(s *apiextensionsv1.JSONSchemaProps) {
				for _, e := range s.Enum {
					if slices.Contains(x.Values, plainScalar(string(e.Raw))) {
						left = fmt.Sprintf("%s=%s", x.Path, e.Raw)
					}
				}
			})
			if x.Values != nil || last.Kind != feature.Field {
				continue
			}
			withSchemaAt(schema, x.Path[:len(x.Path)-1], func(s *apiextensionsv1.JSONSchemaProps) {
				if _, ok := s.Properties[last.Name]; ok || slices.Contains(s.Required, last.Name) || slices.Contains(s.XListMapKeys, last.Name) {
					left = x.Path.String()
				}
			})
			for _, c := range v.AdditionalPrinterColumns {
				if c.JSONPath == "."+x.Path.String() {
					left = "the column of " + c.JSONPath
				}
			}
			for _, c := range v.SelectableFields {
				if c.JSONPath == "."+x.Path.String() {
					left = "the selectable field " + c.JSONPath
				}
			}
		}
	}
	return left
}

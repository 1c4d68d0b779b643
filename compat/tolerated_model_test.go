package compat

import (
	"math/rand/v2"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/report"
	"sluice.dev/tools/draws"
)

// withDrawnChange returns the CRD with one change that says nothing of most objects: mostly a default more or less in one version, else
// another storage version, a field that is required or not, or unknown fields that are kept or not.
func withDrawnChange(r *rand.Rand, d *crd) *crd {
	out := d.DeepCopy()
	v := &out.Spec.Versions[r.IntN(len(out.Spec.Versions))]
	spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
	name := []string{"a", "b", "c"}[r.IntN(3)]
	field, declared := spec.Properties[name]
	below := field.Properties["d"]
	switch kind := r.IntN(10); {
	case kind == 0:
		for i := range out.Spec.Versions {
			out.Spec.Versions[i].Storage = &out.Spec.Versions[i] == v
		}
		v.Served = true
	case kind == 1 && len(spec.Required) > 0:
		spec.Required = nil
	case kind == 1 && declared:
		spec.Required = []string{name}
	case kind == 2 && spec.XPreserveUnknownFields != nil:
		spec.XPreserveUnknownFields = nil
	case kind == 2:
		yes := true
		spec.XPreserveUnknownFields = &yes
	case name == "c" && field.Properties != nil && r.IntN(2) == 0:
		below.Default = toggledDefault(below.Default, "1")
		field.Properties["d"] = below
	case declared:
		field.Default = toggledDefault(field.Default, map[string]string{"a": "1", "b": `"x"`, "c": "{}"}[name])
	}
	if declared {
		spec.Properties[name] = field
	}
	v.Schema.OpenAPIV3Schema.Properties["spec"] = spec
	return out
}

func toggledDefault(was *apiextensionsv1.JSON, value string) *apiextensionsv1.JSON {
	if was != nil {
		return nil
	}
	return &apiextensionsv1.JSON{Raw: []byte(value)}
}

// setsLabel reports whether a served version lets a client set a label on a stored object, where errors in unchanged values are tolerated.
func (w *world) setsLabel(t testing.TB, stored map[string]any, storedIn, version string) bool {
	t.Helper()
	home := w.validators[storedIn]
	if storedIn == version {
		home = nil
	}
	res, err := w.validators[version].TouchUpdateFrom(t.Context(), home, stored, true)
	if err != nil {
		t.Fatal(err)
	}
	return !res.Refused()
}

// An upgrade with such a change that is called safe refuses no label that a client could set before: whichever
// version stored the object, and whatever the API server tolerates in it.
func TestLabelsCanStillBeSetAfterASafeUpgrade(t *testing.T) {
	specs := specs()
	safe, undecided, labels := 0, 0, 0
	for _, seed := range slices.AppendSeq([]uint64{5391, 510011, 53973, 55576, 201936, 202412}, draws.Seeds(2000)) { // the first ones found something
		r := rand.New(rand.NewPCG(seed, 40))
		old, _ := drawVersions(t, r, nil)
		for _, v := range old.Spec.Versions {
			if v.Storage || r.IntN(3) == 0 {
				old.Status.StoredVersions = append(old.Status.StoredVersions, v.Name)
			}
		}
		next := withDrawnChange(r, old)
		verdict := check(t, old, next).Verdict
		if verdict == report.IsUndecided {
			undecided++
		}
		if verdict != report.Safe {
			continue
		}
		safe++
		before, after := newWorld(t, old), newWorld(t, next)
		for range 40 {
			spec := specs[r.IntN(len(specs))]
			from := old.Spec.Versions[r.IntN(len(old.Spec.Versions))]
			in := old.Status.StoredVersions[r.IntN(len(old.Status.StoredVersions))]
			stored := map[string]any(nil)
			if from.Served || from.Name == in {
				stored = before.write(t, from.Name, in, spec)
			}
			for _, v := range old.Spec.Versions {
				if stored == nil || !v.Served || !before.setsLabel(t, stored, in, v.Name) {
					continue
				}
				labels++
				if !after.setsLabel(t, stored, in, v.Name) {
					t.Fatalf("seed %d: safe, but %s refuses a label on %v, written in %s and stored in %s", seed, v.Name, stored, from.Name, in)
				}
			}
		}
	}
	if safe == 0 || labels == 0 {
		t.Fatalf("%d safe pairs and %d labels show nothing", safe, labels)
	}
	t.Logf("%d safe pairs, %d labels; %d undecided", safe, labels, undecided)
}

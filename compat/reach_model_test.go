package compat

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/schema/upstream"
)

// drawProps draws the properties of spec of one version, like those of another one or not.
func drawProps(r *rand.Rand) map[string]string {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	all := map[string]string{
		"a": "{type: integer" + pick("", "", ", maximum: 2", ", maximum: 4", ", nullable: true") + pick("", "", "", ", default: 1", ", default: 2") + "}",
		"b": "{type: string" + pick("", ", enum: [x]", ", enum: [x, u]", ", enum: [x, u, z]") + pick("", "", ", default: x") + "}",
		"c": "{type: object" + pick("", ", default: {}") + pick(", properties: {d: {type: integer}}", ", properties: {d: {type: integer, default: 1}}",
			", properties: {d: {type: integer}}, required: [d]", ", x-kubernetes-preserve-unknown-fields: true") + "}",
	}
	for _, name := range []string{"a", "b", "c"} {
		if r.IntN(4) == 0 {
			delete(all, name)
		}
	}
	return all
}

func drawSpec(r *rand.Rand, like map[string]string) (map[string]string, string) {
	properties := drawProps(r)
	if like != nil {
		for _, name := range []string{"a", "b", "c"} {
			switch was, had := like[name]; {
			case r.IntN(3) == 0: // as drawn
			case had:
				properties[name] = was
			default:
				delete(properties, name)
			}
		}
	}
	var b strings.Builder
	b.WriteString("{type: object, properties: {")
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		b.WriteString(name + ": " + properties[name] + ", ")
	}
	b.WriteString("}")
	for _, name := range []string{"a", "b"} {
		if _, ok := properties[name]; ok && r.IntN(5) == 0 {
			b.WriteString(", required: [" + name + "]")
			break
		}
	}
	if properties["a"] != "" && properties["b"] != "" && r.IntN(3) == 0 {
		b.WriteString(", x-kubernetes-validations: [{rule: '" + []string{"!has(self.a) || !has(self.b) || self.b != \"u\"", "has(self.a) || !has(self.b) || self.b == \"x\""}[r.IntN(2)] + "'}]")
	}
	return properties, b.String() + "}"
}

// drawVersions draws a CRD of up to three versions.
func drawVersions(t *testing.T, r *rand.Rand, like map[string]string) (*crd, map[string]string) {
	names := []string{"v1alpha1", "v1beta1", "v1"}
	n := 1 + r.IntN(len(names))
	first := r.IntN(len(names) - n + 1)
	store := r.IntN(n)
	var b strings.Builder
	b.WriteString("versions:\n")
	for i := range n {
		properties, spec := drawSpec(r, like)
		if like == nil || r.IntN(2) == 0 {
			like = properties
		}
		fmt.Fprintf(&b, "- {name: %s, served: %t, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: %s}}}}\n",
			names[first+i], i == store || r.IntN(5) > 0, i == store, spec)
	}
	return patched(t, b.String()), like
}

// world runs requests against a CRD through the API server's code.
type world struct {
	crd        *crd
	validators map[string]*upstream.Validator
}

func newWorld(t testing.TB, d *crd) *world {
	t.Helper()
	w := &world{d, map[string]*upstream.Validator{}}
	for _, v := range d.Spec.Versions {
		schema, o, err := upstream.ForCRD(d, v.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		made, err := upstream.New(schema, o)
		if err != nil {
			t.Fatal(err)
		}
		w.validators[v.Name] = made
	}
	return w
}

func (w *world) store() apiextensionsv1.CustomResourceDefinitionVersion {
	i := slices.IndexFunc(w.crd.Spec.Versions, func(v crdVersion) bool { return v.Storage })
	return w.crd.Spec.Versions[i]
}

// storing are the versions in which objects of a version are stored: the storage version, and the version itself if some were stored before.
func (w *world) storing(version string) []string {
	out := []string{w.store().Name}
	if version != out[0] && slices.Contains(w.crd.Status.StoredVersions, version) {
		out = append(out, version)
	}
	return out
}

func (w *world) serves(version string) bool {
	return slices.ContainsFunc(w.crd.Spec.Versions, func(v crdVersion) bool { return v.Name == version && v.Served })
}

// write creates an object of the given spec in a version and returns what is stored in another one, and nil if it is refused or pruned.
func (w *world) write(t testing.TB, version, in string, spec map[string]any) map[string]any {
	t.Helper()
	res, err := w.validators[version].Create(t.Context(), map[string]any{
		"apiVersion": "example.com/" + version, "kind": "Widget", "metadata": map[string]any{"name": "w", "namespace": "default"}, "spec": spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	if res.Refused() || len(res.Pruned) > 0 {
		return nil
	}
	return w.stores(t, res.Stored, in)
}

// create returns what is stored of a new object of a version, nil if it is refused, pruned, or the version is not served.
func (w *world) create(t testing.TB, version string, spec map[string]any) map[string]any {
	t.Helper()
	if !w.serves(version) {
		return nil
	}
	return w.write(t, version, w.store().Name, spec)
}

// stores returns what is stored of an object in a version.
func (w *world) stores(t testing.TB, obj map[string]any, in string) map[string]any {
	t.Helper()
	stored, _, err := w.validators[in].Convert(obj)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// label reads what is stored in a version, writes it back with a label, and says which fields of spec are gone and what is
// refused; next is what is stored then, nil if it is refused.
func (w *world) label(t testing.TB, stored map[string]any, version string) (erased, refused []string, next map[string]any) {
	t.Helper()
	home := w.validators[strings.TrimPrefix(stored["apiVersion"].(string), "example.com/")] //nolint:errcheck,forcetypeassert // a test
	target := w.validators[version]
	read, _, _, err := home.Read(stored)
	if err != nil {
		t.Fatal(err)
	}
	converted, _, err := target.Convert(read)
	if err != nil {
		t.Fatal(err)
	}
	erased = missing(stored["spec"], converted["spec"], "spec") // a default that only reading fills in is no data
	from := home
	if from == target {
		from = nil
	}
	res, err := target.TouchUpdateFrom(t.Context(), from, stored, false)
	if err != nil {
		t.Fatal(err)
	}
	if !res.Refused() {
		next = w.stores(t, res.Stored, w.store().Name)
	}
	return erased, placesOf(res.Errors), next
}

// labels does so in each served version, and says what is refused; nothing if there is no object.
func (w *world) labels(t testing.TB, stored map[string]any) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, v := range w.crd.Spec.Versions {
		if stored != nil && v.Served {
			_, refused, _ := w.label(t, stored, v.Name)
			out[v.Name] = refused
		}
	}
	return out
}

// stuck reports whether each served version refuses to write back what is stored.
func (w *world) stuck(t testing.TB, stored map[string]any) bool {
	t.Helper()
	for _, refused := range w.labels(t, stored) {
		if len(refused) == 0 {
			return false
		}
	}
	return true
}

// placesOf lists the places of the errors. It leaves out errors of single branches of a junctor, which explain the error of the junctor.
func placesOf(errs field.ErrorList) []string {
	var junctors, out []string
	for _, e := range errs {
		if place := placeOf(e); e.Field == "<nil>" && place != "" {
			junctors = append(junctors, place)
		}
	}
	for _, e := range errs {
		place := placeOf(e)
		explains := e.Field != "<nil>" && slices.ContainsFunc(junctors, func(j string) bool { return strings.HasPrefix(place, j+".") || strings.HasPrefix(place, j+"[") })
		if place != "" && !explains {
			out = append(out, place)
		}
	}
	return out
}

// missing lists what a has and b has not. A null that became a value is gone, too.
func missing(a, b any, path string) []string {
	from, ok := a.(map[string]any)
	if !ok {
		return nil
	}
	to, _ := b.(map[string]any)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(from)) {
		if v, ok := to[k]; !ok || from[k] == nil && v != nil {
			out = append(out, path+"."+k)
		} else {
			out = append(out, missing(from[k], v, path+"."+k)...)
		}
	}
	return out
}

// specs are all objects of the domain.
func specs() []map[string]any {
	values := map[string][]any{
		"a": {nil, int64(1), int64(3), int64(5), "null"},
		"b": {nil, "x", "u", "z", "w"},
		"c": {nil, map[string]any{}, map[string]any{"d": int64(1)}, map[string]any{"d": int64(2)}, map[string]any{"d": "x"}, map[string]any{"d": map[string]any{"f": int64(1)}}, map[string]any{"e": "x"}},
	}
	out := []map[string]any{{}}
	for _, name := range []string{"a", "b", "c"} {
		var next []map[string]any
		for _, o := range out {
			for _, v := range values[name] {
				p := maps.Clone(o)
				switch v {
				case nil:
				default:
					p[name] = v
					if v == "null" {
						p[name] = nil
					}
				}
				next = append(next, p)
			}
		}
		out = next
	}
	return out
}

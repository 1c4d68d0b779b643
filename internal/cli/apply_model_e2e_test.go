//go:build e2e

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/schemagen"
)

// TestE2EApplySucceedsWheneverKubectlDoes brings a source of random objects, whose CRD changes at random, to two equal places of a cluster in
// which others own objects and fields: by kubectl apply --server-side, run twice, and by sluice apply. Whenever kubectl succeeds, sluice does,
// and both places have the same objects in the end.
func TestE2EApplySucceedsWheneverKubectlDoes(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	sum := map[string]int{}
	n := 300 // a tenth catches what tools/mutants seeds, the last one by seed 24
	if draws.All() {
		n = 500
	}
	t.Run("seeds", func(t *testing.T) {
		for seed := range draws.Seeds(n) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				own := *w
				own.t, own.dir = t, t.TempDir()
				outcome := (&applyModel{world: &own, r: rand.New(rand.NewPCG(seed, 32)), g: schemagen.New(seed), seed: seed}).run()
				mu.Lock()
				defer mu.Unlock()
				sum[outcome]++
			})
		}
	})
	t.Logf("%v", sum)
	if sum["both succeed"] == 0 {
		t.Error("kubectl never succeeded: the test shows nothing")
	}
}

// applyModel is one run.
type applyModel struct {
	*world

	r    *rand.Rand
	g    *schemagen.Gen
	seed uint64
	// old and next are the schemas of the CRD; versions are those of the next one that are served.
	old, next *apiextensionsv1.JSONSchemaProps
	versions  []string
	force     bool
	log       []string
}

// applySide is one of the two places.
type applySide struct {
	name  string
	model *applyModel
}

func (m *applyModel) chance(percent int) bool { return m.r.IntN(100) < percent }

func (m *applyModel) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (s applySide) group() string {
	return fmt.Sprintf("%s%d.%s.example.com", s.name, s.model.seed, s.model.namespace)
}

func (s applySide) crd() string { return "examples." + s.group() }

func (s applySide) examples(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: s.group(), Version: version, Resource: "examples"}
}

func (s applySide) mapName(i int) string { return fmt.Sprintf("%s%d-%d", s.name, s.model.seed, i) }

// modelMarker is a field by which the schemas differ: a dry run shows which of them is in force.
const modelMarker = "marker"

// addedField is a field that the new schemas alone have: an object with it cannot be tried while the old CRD is in force.
const addedField = "added"

// define is the CRD with these schemas of v1 and v2; a nil v2 stands for none.
func (s applySide) define(v1, v2 *apiextensionsv1.JSONSchemaProps, storage, marker string) *apiextensionsv1.CustomResourceDefinition {
	version := func(name string, props *apiextensionsv1.JSONSchemaProps) apiextensionsv1.CustomResourceDefinitionVersion {
		props = props.DeepCopy()
		props.Properties[modelMarker] = apiextensionsv1.JSONSchemaProps{Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"` + marker + `"`)}}}
		if marker == "new" {
			props.Properties[addedField] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: name == storage, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
		}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: s.crd()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: s.group(), Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "examples", Singular: "example", Kind: "Example", ListKind: "ExampleList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", v1)},
		},
	}
	if v2 != nil {
		crd.Spec.Versions = append(crd.Spec.Versions, version("v2", v2))
	}
	return crd
}

// modelObject is an object of either side: version and name say where, content is the rest. A map is a ConfigMap.
type modelObject struct {
	isMap   bool
	version string
	number  int
	content map[string]any
}

// on is the object on one side.
func (o modelObject) on(s applySide) map[string]any {
	out := map[string]any{"apiVersion": s.group() + "/" + o.version, "kind": "Example", "metadata": map[string]any{
		"name": fmt.Sprintf("o%d", o.number), "namespace": s.model.namespace,
	}}
	if o.isMap {
		out["apiVersion"], out["kind"], out["metadata"] = "v1", "ConfigMap", map[string]any{"name": s.mapName(o.number), "namespace": s.model.namespace}
	}
	maps.Copy(out, o.content)
	return out
}

// draw is an object at random, a ConfigMap or of a schema. So many of a hundred are valid. ok is false if drawing often gives none.
func (m *applyModel) draw(props *apiextensionsv1.JSONSchemaProps, version string, number int, isMap bool, valid int) (o modelObject, ok bool) {
	o = modelObject{isMap: isMap, version: version, number: number}
	if isMap {
		data := map[string]any{}
		for _, key := range []string{"a", "b", "c"} {
			if m.chance(60) {
				data[key] = []string{"x", "y", ""}[m.r.IntN(3)]
			}
		}
		o.content = map[string]any{"data": data}
		return o, true
	}
	wantsValid := m.chance(valid)
	for range 30 {
		drawn := m.g.Object(props)
		isValid := m.takes(props, drawn)
		delete(drawn, "apiVersion")
		delete(drawn, "kind")
		delete(drawn, "metadata")
		o.content = drawn
		if isValid == wantsValid {
			return o, true
		}
	}
	return o, false
}

func (m *applyModel) takes(props *apiextensionsv1.JSONSchemaProps, o map[string]any) bool {
	validator, err := upstream.New(props, upstream.Options{})
	if err != nil {
		return false
	}
	res, err := validator.Create(m.t.Context(), o)
	return err == nil && !res.Refused() && len(res.Pruned) == 0
}

func (s applySide) source(objects []modelObject, crd *apiextensionsv1.CustomResourceDefinition) string {
	var out []string
	add := func(v any) {
		data, err := yaml.Marshal(v)
		if err != nil {
			s.model.t.Fatal(err)
		}
		out = append(out, string(data))
	}
	if crd != nil {
		add(crd)
	}
	for _, o := range objects {
		add(o.on(s))
	}
	return strings.Join(out, "---\n")
}

// kubectl applies a source, and reports whether it succeeds.
func (s applySide) kubectl(source string) error {
	args := []string{"apply", "--server-side", "-f", "-"}
	if s.model.force {
		args = append(args, "--force-conflicts")
	}
	if _, errs, err := s.model.Kubectl(s.model.t, source, args...); err != nil {
		return errors.New(errs)
	}
	return nil
}

func (s applySide) sluice(name, source string) error {
	m := s.model
	args := []string{"apply", "--kubeconfig", m.Kubeconfig, "-n", m.namespace, "--app", fmt.Sprintf("m%d", m.seed), "--preflight", "", "--wait=false", "-f", m.file(name, source)}
	if m.force {
		args = append(args, "--force-conflicts")
	}
	code, out, errs := sluice(m.t, args...)
	if code != ExitOK {
		return fmt.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	return nil
}

// untilInForce waits until the API server judges by the schemas with the marker.
func (s applySide) untilInForce(versions []string, marker string) {
	m := s.model
	for _, version := range versions {
		probe := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": s.group() + "/" + version, "kind": "Example", "metadata": map[string]any{"name": "probe"}, modelMarker: marker,
		}}
		until(m.t, "the schema of "+version, func() error {
			_, err := m.dynamic.Resource(s.examples(version)).Namespace(m.namespace).Create(m.t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if apierrors.IsNotFound(err) || err != nil && strings.Contains(err.Error(), modelMarker) {
				return err
			}
			return nil
		})
	}
}

// others do something to an object as another client, and say whether the API server let them.
func (s applySide) others(o modelObject, how int) error {
	m := s.model
	client := m.dynamic.Resource(s.examples(o.version)).Namespace(m.namespace)
	if o.isMap {
		client = m.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(m.namespace)
	}
	u := &unstructured.Unstructured{Object: o.on(s)}
	var err error
	switch how {
	case 0:
		_, err = client.Create(m.t.Context(), u, metav1.CreateOptions{FieldManager: "others"})
	case 1:
		_, err = client.Apply(m.t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "others", Force: true})
	case 2:
		var data []byte
		if data, err = (&unstructured.Unstructured{Object: u.Object}).MarshalJSON(); err == nil {
			_, err = client.Patch(m.t.Context(), u.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: "others"})
		}
	}
	return err
}

func (m *applyModel) run() string {
	// The schemas: a CRD that the API server does not take shows nothing.
	m.old = m.g.Schema()
	m.next = m.g.Change(m.old)
	kubectl, ours := applySide{"k", m}, applySide{"s", m}
	var v2 *apiextensionsv1.JSONSchemaProps
	storage := "v1"
	m.versions = []string{"v1"}
	if m.chance(20) {
		v2, m.versions = m.g.Change(m.next), append(m.versions, "v2")
		if m.chance(50) {
			storage = "v2"
		}
	}
	before := func(s applySide) *apiextensionsv1.CustomResourceDefinition {
		return s.define(m.old, nil, "v1", "old")
	}
	after := func(s applySide) *apiextensionsv1.CustomResourceDefinition {
		return s.define(m.next, v2, storage, "new")
	}
	refused, err := upstream.ValidateCRD(m.t.Context(), before(ours), nil)
	again, err2 := upstream.ValidateCRDUpdate(m.t.Context(), after(ours), before(ours), nil)
	if err != nil || err2 != nil || len(refused)+len(again) > 0 {
		return "no CRD"
	}
	m.force = m.chance(75)

	// What was there before: objects of the app, and of others.
	var first, second []modelObject
	type deed struct {
		o   modelObject
		how int
	}
	var deeds []deed
	for i := range 5 {
		isMap := i >= 3
		o, ok := m.draw(m.old, "v1", i, isMap, 100)
		switch {
		case ok && m.chance(50):
			first = append(first, o)
		case ok && m.chance(50):
			deeds = append(deeds, deed{o, m.r.IntN(2)})
		}
		if theirs, ok := m.draw(m.old, "v1", i, isMap, 80); ok && m.chance(40) {
			deeds = append(deeds, deed{m.part(theirs), 1 + m.r.IntN(2)})
		}
		version, props := "v1", m.next
		if v2 != nil && m.chance(50) {
			version, props = "v2", v2
		}
		if m.chance(10) {
			props = m.old
		}
		other, okOther := m.draw(props, version, i, isMap, 97)
		switch {
		case ok && m.chance(20):
			o.version = version
			second = append(second, o)
		case okOther && m.chance(80):
			if !isMap && m.chance(50) {
				other.content[addedField] = "x"
			}
			second = append(second, other)
		}
	}
	defer func() {
		for _, s := range []applySide{kubectl, ours} {
			_ = m.dynamic.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Delete(context.WithoutCancel(m.t.Context()), s.crd(), metav1.DeleteOptions{})
		}
	}()
	if err := kubectl.kubectl(kubectl.source(nil, before(kubectl))); err != nil {
		m.t.Errorf("the first CRD: %v", err)
		return "no CRD"
	}
	kubectl.untilInForce([]string{"v1"}, "old")
	if err := kubectl.kubectl(kubectl.source(first, before(kubectl))); err != nil {
		m.t.Logf("before: %v", err)
		return "kubectl fails before"
	}
	if err := ours.sluice("before.yaml", ours.source(first, before(ours))); err != nil {
		m.t.Errorf("kubectl applies the first source, and sluice does not: %v\n%s", err, ours.source(first, before(ours)))
		return "only kubectl succeeds"
	}
	ours.untilInForce([]string{"v1"}, "old")
	for _, d := range deeds {
		a, b := kubectl.others(d.o, d.how), ours.others(d.o, d.how)
		if (a == nil) != (b == nil) {
			m.t.Errorf("others: %v and %v", a, b)
			return "different"
		}
		m.note("others, way %d, %v: %v", d.how, d.o, a)
	}
	m.compare("before", kubectl, ours, []string{"v1"})
	if m.t.Failed() {
		return "different"
	}

	err = kubectl.kubectl(kubectl.source(nil, after(kubectl)))
	if err == nil {
		kubectl.untilInForce(m.versions, "new")
		err = kubectl.kubectl(kubectl.source(second, after(kubectl)))
	}
	failed := ours.sluice("after.yaml", ours.source(second, after(ours)))
	describe := func() string {
		return fmt.Sprintf("force %t\n--- first\n%s--- others\n%s\n--- second\n%s", m.force, ours.source(first, before(ours)), strings.Join(m.log, "\n"), ours.source(second, after(ours)))
	}
	switch {
	case err != nil && failed != nil:
		m.t.Logf("both fail: %v", err)
		return "both fail"
	case err != nil:
		return "only sluice succeeds"
	case failed != nil:
		m.t.Errorf("kubectl succeeds, and sluice does not: %v\n%s", failed, describe())
		return "only kubectl succeeds"
	}
	ours.untilInForce(m.versions, "new")
	m.compare("after", kubectl, ours, m.versions)
	if m.t.Failed() {
		m.t.Error(describe())
		return "different"
	}
	return "both succeed"
}

// part drops some fields of an object at random.
func (m *applyModel) part(o modelObject) modelObject {
	content := runtimeCopy(o.content)
	for _, top := range slices.Sorted(maps.Keys(content)) {
		fields, _ := content[top].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			if m.chance(60) {
				delete(fields, key)
			}
		}
	}
	o.content = content
	return o
}

func runtimeCopy(o map[string]any) map[string]any {
	return (&unstructured.Unstructured{Object: o}).DeepCopy().Object
}

// compare holds the objects of one side against those of the other.
func (m *applyModel) compare(when string, a, b applySide, versions []string) {
	for _, version := range versions {
		if diff := cmp.Diff(a.stored(version), b.stored(version)); diff != "" {
			m.t.Errorf("%s, in %s (- kubectl, + sluice): %s", when, version, diff)
		}
	}
}

// stored are the objects of a side in a version, and the CRD, without what the server notes, what marks them as an app's, and the side's names.
func (s applySide) stored(version string) map[string]any {
	m := s.model
	out := map[string]any{}
	add := func(gvr schema.GroupVersionResource, namespace string, name func(string) (string, bool)) {
		list, err := m.dynamic.Resource(gvr).Namespace(namespace).List(m.t.Context(), metav1.ListOptions{})
		if err != nil {
			m.t.Fatal(err)
		}
		for _, o := range list.Items {
			key, ok := name(o.GetName())
			if !ok {
				continue
			}
			meta := map[string]any{}
			for what, from := range map[string]map[string]string{"labels": o.GetLabels(), "annotations": o.GetAnnotations()} {
				maps.DeleteFunc(from, func(k, _ string) bool { return strings.HasPrefix(k, "sluice.dev/") })
				if len(from) > 0 {
					meta[what] = from
				}
			}
			content := runtimeCopy(o.Object)
			delete(content, "apiVersion")
			delete(content, "metadata")
			content["meta"] = meta
			if gvr.Group == apiextensionsv1.GroupName {
				delete(content, "status")
				unstructured.RemoveNestedField(content, "spec", "group")
			}
			out[gvr.Resource+" "+key] = content
		}
	}
	add(s.examples(version), m.namespace, func(n string) (string, bool) { return n, true })
	prefix := fmt.Sprintf("%s%d-", s.name, m.seed)
	add(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, m.namespace, func(n string) (string, bool) { return strings.CutPrefix(n, prefix) })
	add(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), "", func(n string) (string, bool) { return "crd", n == s.crd() })
	return out
}

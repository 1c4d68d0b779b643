package upstream_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/schema/upstream"
)

// widgetCRD is a CRD of Widgets with one version, and what edit does to it.
func widgetCRD(t testing.TB, edit string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := decodeYAML[apiextensionsv1.CustomResourceDefinition](t, `
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string}}}}}}
`)
	if edit != "" {
		edited := decodeYAML[apiextensionsv1.CustomResourceDefinition](t, edit)
		if edited.Spec.Versions != nil {
			crd.Spec.Versions = edited.Spec.Versions
		}
		if edited.Spec.Scope != "" {
			crd.Spec.Scope = edited.Spec.Scope
		}
		if edited.Spec.Names.Kind != "" {
			crd.Spec.Names = edited.Spec.Names
		}
		if edited.Spec.Conversion != nil {
			crd.Spec.Conversion = edited.Spec.Conversion
		}
		crd.Spec.PreserveUnknownFields = edited.Spec.PreserveUnknownFields
		crd.Status = edited.Status
	}
	return &crd
}

func oneVersion(name, schema string) string {
	return "spec: {versions: [{name: " + name + ", served: true, storage: true, schema: {openAPIV3Schema: " + schema + "}}]}"
}

func TestValidateCRD(t *testing.T) {
	tests := []struct {
		name, edit string
		want       []string
	}{
		{name: "a manifest needs neither list kind nor singular, conversion or status"},
		{
			name: "a schema that is not structural is refused", edit: oneVersion("v1", "{type: object, properties: {a: {}}}"),
			want: []string{`spec.validation.openAPIV3Schema.properties[a].type: Required value: must not be empty`},
		},
		{
			name: "a default that does not hold is refused", edit: oneVersion("v1", "{type: object, properties: {a: {type: string, default: 7}}}"),
			want: []string{`spec.validation.openAPIV3Schema.properties[a].default: Invalid value`},
		},
		{
			name: "a rule that does not compile is refused",
			edit: oneVersion("v1", "{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: self > 5}]}}}"),
			want: []string{"spec.validation.openAPIV3Schema.properties[a].x-kubernetes-validations[0].rule: Invalid value"},
		},
		{
			name: "two storage versions are refused", edit: `spec: {versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}, {name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: {type: string}}}}}]}`,
			want: []string{"must have exactly one version marked as storage version", "status.storedVersions: Invalid value"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			crd := widgetCRD(t, tt.edit)
			before := crd.DeepCopy()
			errs, err := upstream.ValidateCRD(t.Context(), crd, nil)
			if err != nil {
				t.Fatal(err)
			}
			checkErrors(t, tt.want, upstream.Result{Errors: errs})
			if diff := cmp.Diff(before, crd); diff != "" {
				t.Errorf("the CRD was changed:\n%s", diff)
			}
		})
	}
}

func TestValidateCRDUpdate(t *testing.T) {
	const twoVersions = `spec: {versions: [{name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}, {name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: {type: string}}}}}]}`
	tests := []struct {
		name, old, new string
		want           []string
	}{
		{name: "no change", old: "", new: ""},
		{
			name: "the storage version of a manifest counts as stored", old: "", new: oneVersion("v2", "{type: object}"),
			want: []string{`status.storedVersions[0]: Invalid value: "v1": missing from spec.versions`},
		},
		{name: "a new storage version beside the old one is fine", old: "", new: twoVersions},
		{
			name: "the status of a live CRD counts", old: twoVersions + "\nstatus: {storedVersions: [v0, v2]}", new: twoVersions,
			want: []string{`status.storedVersions[0]: Invalid value: "v0": missing from spec.versions`},
		},
		{
			name: "scope and kind cannot be changed", old: "", new: "spec: {scope: Cluster, names: {plural: widgets, kind: Gadget}}",
			want: []string{`spec.names.kind: Invalid value: "Gadget": field is immutable`, `spec.scope: Invalid value: "Cluster": field is immutable`},
		},
		{
			name: "but can before the CRD is established", new: "spec: {scope: Cluster}",
			old: "status: {conditions: [{type: Established, status: 'False', reason: x, message: y, lastTransitionTime: '2025-01-01T00:00:00Z'}]}",
		},
		{
			name: "what was wrong before may stay wrong", old: oneVersion("v1", "{type: object, properties: {a: {type: array, x-kubernetes-list-type: set, items: {type: object, properties: {b: {type: string}}}}}}"),
			new: oneVersion("v1", "{type: object, properties: {c: {type: string}, a: {type: array, x-kubernetes-list-type: set, items: {type: object, properties: {b: {type: string}}}}}}"),
		},
		{
			name: "and may not become so", old: "",
			new:  oneVersion("v1", "{type: object, properties: {c: {type: string}, a: {type: array, x-kubernetes-list-type: set, items: {type: object, properties: {b: {type: string}}}}}}"),
			want: []string{"spec.validation.openAPIV3Schema.properties[a].items.x-kubernetes-map-type: Invalid value"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			errs, err := upstream.ValidateCRDUpdate(t.Context(), widgetCRD(t, tt.new), widgetCRD(t, tt.old), nil)
			if err != nil {
				t.Fatal(err)
			}
			checkErrors(t, tt.want, upstream.Result{Errors: errs})
		})
	}
}

func TestRulesFollowTheVersion(t *testing.T) {
	const with = `{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: "isIP(self)"}]}}}` // since 1.31
	crd, old := widgetCRD(t, oneVersion("v1", with)), widgetCRD(t, "")
	for _, tt := range []struct {
		kube string
		old  *apiextensionsv1.CustomResourceDefinition
		want []string
	}{
		{"1.29.0", old, []string{"spec.validation.openAPIV3Schema.properties[a].x-kubernetes-validations[0].rule: Invalid value: \"isIP(self)\": compilation failed"}},
		{"1.30.0", old, []string{"undeclared reference to 'isIP'"}},
		{"1.32.0", old, nil},
		{"1.29.0", crd, nil}, // what is stored stays understood
	} {
		kube := version.MustParse(tt.kube)
		errs, err := upstream.ValidateCRDUpdate(t.Context(), crd, tt.old, kube)
		if err != nil {
			t.Fatal(err)
		}
		checkErrors(t, tt.want, upstream.Result{Errors: errs})
		if tt.old == old {
			if errs, err = upstream.ValidateCRD(t.Context(), crd, kube); err != nil {
				t.Fatal(err)
			}
			checkErrors(t, tt.want, upstream.Result{Errors: errs})
		}
	}
}

// TestThinnedCRDsAreJudgedAlike compares the validation of CRDs with one that leaves nothing out.
func TestThinnedCRDsAreJudgedAlike(t *testing.T) {
	all, accepted := 0, 0
	seeds(t, 150, func(seed uint64) {
		all++
		accepted += compareThinned(t, seed)
	})
	if accepted < all/10 || accepted > all*9/10 {
		t.Errorf("%d of %d CRDs were accepted: too few or too many to tell", accepted, all)
	}
}

func FuzzThin(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { compareThinned(t, seed) })
}

// compareThinned returns 1 where the CRD was accepted.
func compareThinned(t *testing.T, seed uint64) int {
	t.Helper()
	g := generator{rand.New(rand.NewPCG(seed, 3))}
	crd, old := widgetCRD(t, ""), widgetCRD(t, "")
	schemas := []*props{g.validRoot(), g.validRoot()}
	versions := func() []apiextensionsv1.CustomResourceDefinitionVersion {
		var out []apiextensionsv1.CustomResourceDefinitionVersion
		for i, name := range []string{"v1", "v2"}[:1+g.IntN(2)] {
			schema := schemas[g.IntN(2)].DeepCopy()
			for g.chance(25) {
				g.spoil(schema)
			}
			v := apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: i == 0, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema}}
			if g.chance(30) {
				v.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
			}
			out = append(out, v)
		}
		return out
	}
	crd.Spec.Versions, old.Spec.Versions = versions(), versions()
	before := crd.DeepCopy()
	compare := func(what string, slow, fast field.ErrorList, errSlow, errFast error) {
		t.Helper()
		if errSlow != nil || errFast != nil {
			t.Fatalf("seed %d: %v, %v", seed, errSlow, errFast)
		}
		if diff := cmp.Diff(evenTexts(slow), evenTexts(fast)); diff != "" {
			t.Errorf("seed %d: %s: -slow +fast:\n%s\nnew:\n%s\nold:\n%s", seed, what, diff, asYAML(t, crd), asYAML(t, old))
		}
	}
	slow, errSlow := upstream.ValidateCRDSlowly(t.Context(), crd)
	fast, errFast := upstream.ValidateCRD(t.Context(), crd, nil)
	compare("create", slow, fast, errSlow, errFast)
	created := len(fast) == 0
	slow, errSlow = upstream.ValidateCRDUpdateSlowly(t.Context(), crd, old)
	fast, errFast = upstream.ValidateCRDUpdate(t.Context(), crd, old, nil)
	compare("update", slow, fast, errSlow, errFast)
	if diff := cmp.Diff(before, crd); diff != "" {
		t.Errorf("seed %d: the CRD was changed:\n%s", seed, diff)
	}
	if created {
		return 1
	}
	return 0
}

// evenTexts are the errors' texts, without what differs between two calls.
func evenTexts(errs field.ErrorList) []string {
	texts := errorTexts(upstream.Result{Errors: errs})
	for i, text := range texts {
		if strings.Contains(text, "evaluating rule") {
			texts[i] = text[:strings.Index(text, ":")] + ": a rule fails on a default"
		}
		if strings.Contains(text, "Invalid value: {") {
			texts[i] = text[:strings.Index(text, ":")] + ": a whole schema"
		}
	}
	return texts
}

// validRoot makes a schema that has a chance to be that of a CRD.
func (g generator) validRoot() *props {
	for {
		s := g.root()
		s.Properties["metadata"] = props{Type: "object"}
		s.MaxProperties, s.MinProperties = nil, nil
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crd.Name, crd.Spec.Group, crd.Spec.Scope = "widgets.example.com", "example.com", apiextensionsv1.NamespaceScoped
		crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"}
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: s}}}
		if errs, err := upstream.ValidateCRDSlowly(context.Background(), crd); err == nil && (len(errs) == 0 || g.chance(3)) {
			return s
		}
	}
}

// spoil makes one change to one part of a schema, which may be for the worse.
func (g generator) spoil(s *props) {
	for range 6 {
		if g.chance(25) {
			break
		}
		switch {
		case len(s.Properties) > 0 && g.chance(70):
			name := pick(g, sorted(s.Properties)...)
			child := s.Properties[name]
			g.spoil(&child)
			s.Properties[name] = child
			return
		case s.Items != nil && s.Items.Schema != nil:
			g.spoil(s.Items.Schema)
			return
		case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
			g.spoil(s.AdditionalProperties.Schema)
			return
		}
	}
	raw := func(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }
	changes := []func(){
		func() { s.Type = pick(g, "", "null", "string", "object", "array", "integer", "file") },
		func() { s.Default = raw(pick(g, "7", `"x"`, "{}", "[]", "null", "1.5", "true")) },
		func() { s.Nullable = !s.Nullable },
		func() { s.Pattern = pick(g, "(", "^a$") },
		func() { s.UniqueItems = true },
		func() { s.XPreserveUnknownFields = new(g.chance(50)) },
		func() { s.XEmbeddedResource = true },
		func() { s.XIntOrString = true },
		func() { s.XListType = new(pick(g, "set", "map", "atomic", "bag")) },
		func() { s.XListMapKeys = []string{pick(g, names...)} },
		func() { s.XMapType = new(pick(g, "atomic", "granular", "loose")) },
		func() { s.Ref = new("#/x") },
		func() { s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &props{Type: "string"}} },
		func() { s.Items = nil },
		func() { s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: g.chance(50)} },
		func() {
			s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &props{Type: "string"}}
		},
		func() { s.Properties = map[string]props{"metadata": {Type: "string"}} },
		func() { s.AllOf = []props{{Properties: map[string]props{"nowhere": {Pattern: "x"}}}} },
		func() { s.AnyOf = []props{{Type: "integer"}, {Type: "string"}} },
		func() { s.AnyOf = []props{{Type: "integer", Format: "x"}, {Type: "string"}} },
		func() { s.Not = &props{Required: []string{"a"}} },
		func() { s.XValidations = g.rules(s) },
		func() { s.XValidations = apiextensionsv1.ValidationRules{{Rule: "self.nowhere"}} },
		func() { s.Enum = []apiextensionsv1.JSON{{Raw: []byte(`"x"`)}, {Raw: []byte("1")}} },
		func() { s.Example = raw(`{"a": 1}`) },
		func() { s.ID = "x" },
		func() { s.Required = []string{"a"} },
		func() { s.Format = "date-time" },
		func() { s.MaxLength = new(int64(1)) },
	}
	pick(g, changes...)()
}

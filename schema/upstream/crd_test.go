package upstream_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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

// A field of rules that an older API server drops changes what the rule says.
func TestOptionalOldSelfFollowsTheVersion(t *testing.T) {
	crd := widgetCRD(t, oneVersion("v1", `{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: "oldSelf.orValue('') != 'x'", optionalOldSelf: true}]}}}`))
	for kube, want := range map[string][]string{"1.29.0": {"no matching overload for 'orValue'"}, "1.30.0": nil} {
		errs, err := upstream.ValidateCRDUpdate(t.Context(), crd, widgetCRD(t, ""), version.MustParse(kube))
		if err != nil {
			t.Fatal(err)
		}
		checkErrors(t, want, upstream.Result{Errors: errs})
	}
}

func TestCABundlesFollowTheVersion(t *testing.T) {
	const conversion = "spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://example.com'"
	for kube, want := range map[string][]string{"1.30.0": nil, "1.31.0": {"spec.conversion.webhookClientConfig.caBundle: Invalid value"}} {
		crd := widgetCRD(t, conversion+", caBundle: Cg==}}}}")
		errs, err := upstream.ValidateCRDUpdate(t.Context(), crd, widgetCRD(t, conversion+"}}}}"), version.MustParse(kube))
		if err != nil {
			t.Fatal(err)
		}
		checkErrors(t, want, upstream.Result{Errors: errs})
	}
}

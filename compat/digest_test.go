package compat_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/compat"
)

const digestCRD = `
metadata: {name: databases.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Database, plural: databases}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: "a <b> & c"
        properties:
          n: {type: integer, minimum: 1, default: 2, enum: [1, 2, 12345678901234567]}
`

func digest(t *testing.T, text string, change func(*apiextensionsv1.CustomResourceDefinition)) string {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(text), crd); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(crd)
	}
	d, err := compat.SpecDigest(crd)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func webhook(bundle string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"},
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: new("https://example.com"), CABundle: []byte(bundle)},
			},
		}
	}
}

func TestTheDigestIsThatOfWhatTheAPIServerMakesOfTheSpec(t *testing.T) {
	plain := digest(t, digestCRD, nil)
	for name, same := range map[string]string{
		"the same":          plain,
		"the defaults":      digest(t, strings.Replace(digestCRD, "plural: databases", "plural: databases, singular: database, listKind: DatabaseList", 1), nil),
		"conversion":        digest(t, strings.Replace(digestCRD, "scope:", "conversion: {strategy: None}\n  scope:", 1), nil),
		"numbers":           digest(t, strings.Replace(digestCRD, "default: 2", "default: 2.0", 1), nil),
		"empty lists":       digest(t, strings.Replace(digestCRD, "served:", "additionalPrinterColumns: []\n    served:", 1), nil),
		"metadata":          digest(t, strings.Replace(digestCRD, "metadata: {", "metadata: {labels: {a: b}, ", 1), nil),
		"status":            digest(t, digestCRD+"status: {storedVersions: [v0]}\n", nil),
		"not preserving":    digest(t, digestCRD+"  preserveUnknownFields: false\n", nil),
		"order of the keys": digest(t, strings.Replace(digestCRD, "{kind: Database, plural: databases}", "{plural: databases, kind: Database}", 1), nil),
	} {
		if same != plain {
			t.Errorf("%s: the digest changed", name)
		}
	}
	for name, other := range map[string]string{
		"a default":     digest(t, strings.Replace(digestCRD, "default: 2", "default: 1", 1), nil),
		"a large value": digest(t, strings.Replace(digestCRD, "12345678901234567", "12345678901234568", 1), nil),
		"a text":        digest(t, strings.Replace(digestCRD, "a <b>", "a <c>", 1), nil),
		"a webhook":     digest(t, digestCRD, webhook("x")),
	} {
		if other == plain {
			t.Errorf("%s: the digest is the same", name)
		}
	}
	if digest(t, digestCRD, webhook("x")) != digest(t, digestCRD, webhook("y")) {
		t.Error("the CA bundle changes the digest")
	}
	// Pinned: people keep digests in manifests.
	if want := "865ee72f8ee1c1d9dc3dcd08e2eb4a67c3bcdf19e6bc7271112929822d36efa9"; plain != want {
		t.Errorf("the digest is %s, and was %s", plain, want)
	}
}

func TestTheDigestOfARemovalSpeaksOfOneObject(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name, crd.UID = "databases.example.com", "1"
	one := compat.RemovalDigest(crd)
	crd.UID = "2"
	if two := compat.RemovalDigest(crd); one == two || len(one) != 64 {
		t.Errorf("%s and %s", one, two)
	}
}

func TestASchemaThatIsTooDeepHasNoDigest(t *testing.T) {
	deep := &apiextensionsv1.JSONSchemaProps{Type: "object"}
	for range 100_000 {
		deep = &apiextensionsv1.JSONSchemaProps{Not: deep}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: deep}}}
	if _, err := compat.SpecDigest(crd); err == nil {
		t.Error("it has one")
	}
}

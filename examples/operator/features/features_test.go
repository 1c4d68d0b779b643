package features_test

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/examples/operator/features"
	"sluice.dev/feature"
	"sluice.dev/feature/gate"
)

var update = flag.Bool("update", false, "write config/features.yaml anew")

func TestTheManifestIsThatOfTheDeclaration(t *testing.T) {
	const file = "../config/features.yaml"
	d := features.Declaration()
	want, err := d.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	want = append([]byte("# Written by go test ./examples/operator/features -update.\n"), want...)
	if *update {
		if err := os.WriteFile(file, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestTheFeaturesFitTheCRD(t *testing.T) {
	text, err := os.ReadFile("../config/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	r, err := feature.ResourceOf(&crd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.New(features.Declaration(), gate.Options{Resources: []feature.Resource{r}}); err != nil {
		t.Error(err)
	}
}

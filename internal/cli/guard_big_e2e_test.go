//go:build e2e

package cli

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/controller/guard"
)

const bigCRDName = "engines.guarded.example"

// big is a CRD with so many texts, of which the first may have at most so many characters: 2000 make a megabyte in JSON.
func big(name string, texts, first int, longest int64) *apiextensionsv1.CustomResourceDefinition {
	crd := gauge(strings.ToLower(name)+"s", name, "guarded.example", "")
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	for i := range texts {
		most := int64(200)
		if i < first {
			most = longest
		}
		part := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"image": {Type: "string", MaxLength: &most, Description: strings.Repeat("Image is what the part runs, with its tag or digest. ", 8)},
			"count": {Type: "integer", Format: "int32"},
		}}
		spec.Properties[fmt.Sprintf("part%04d", i)] = part
	}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	return crd
}

// judgesBigCRDs leaves a big CRD behind.
func (g *guarded) judgesBigCRDs(t *testing.T) {
	crds := g.as("alice", nil).ApiextensionsV1().CustomResourceDefinitions()
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{big("Engine", 2000, 0, 0), big("Wheel", 50, 0, 0)} {
		made, err := crds.Create(t.Context(), crd, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if data, err := json.Marshal(made); err != nil || made.Name == bigCRDName && len(data) < 1<<20 {
			t.Errorf("the CRD has only %d bytes: %v", len(data), err)
		}
	}
	wants(t, g.update(t, "alice", bigCRDName, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec = big("Engine", 2000, 2, 100).Spec }, dryRun, nil),
		"is unsafe: 2 findings fail", "max-length-lowered, v1 .spec.part0001.image", "sluice check NEW.yaml")
	wants(t, g.update(t, "alice", "wheels.guarded.example", func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec = big("Wheel", 50, 50, 100).Spec }, dryRun, nil),
		"is unsafe: 50 findings fail", "max-length-lowered, v1 .spec.part", "\nand 4", "sluice check NEW.yaml", bypassedKey)
	if err := g.update(t, "alice", bigCRDName, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec = big("Engine", 2000, 2, 300).Spec }, dryRun, nil); err != nil {
		t.Error(err)
	}
	// Labels of big ones: the API server itself sees that the spec is left alone.
	if _, err := crds.Patch(t.Context(), bigCRDName, types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"c"}}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

// stopsEveryClient sends the unsafe change in each way that the API knows, by plain HTTP.
func (g *guarded) stopsEveryClient(t *testing.T) {
	before := g.live(t, databasesCRD)
	cfg := g.cluster.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "alice"}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	url := g.cluster.Server + "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + databasesCRD
	next := parseCRD(t, upgrade+"v2-unsafe.yaml")
	whole := g.changed(t, withSpecOf(t, upgrade+"v2-unsafe.yaml"))
	whole.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
	inJSON := func(v any) []byte {
		t.Helper()
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	inYAML := func(v any) []byte {
		t.Helper()
		data, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	applied := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": databasesCRD}, "spec": next.Spec,
	}
	for _, test := range []struct {
		name, method, query string
		contentType         types.PatchType
		body                []byte
	}{
		{"update", http.MethodPut, "", "application/json", inJSON(whole)},
		{"update in YAML", http.MethodPut, "", "application/yaml", inYAML(whole)},
		{"merge patch", http.MethodPatch, "", types.MergePatchType, inJSON(map[string]any{"spec": next.Spec})},
		{"JSON patch", http.MethodPatch, "", types.JSONPatchType, inJSON([]any{map[string]any{"op": "replace", "path": "/spec/versions", "value": next.Spec.Versions}})},
		{"strategic merge patch", http.MethodPatch, "", types.StrategicMergePatchType, inJSON(map[string]any{"spec": map[string]any{"versions": next.Spec.Versions}})},
		{"server-side apply", http.MethodPatch, "fieldManager=kubectl&force=true", types.ApplyPatchType, inYAML(applied)},
		{"server-side apply, tried only", http.MethodPatch, "fieldManager=kubectl&force=true&dryRun=All", types.ApplyPatchType, inYAML(applied)},
		{"deletion", http.MethodDelete, "", "application/json", nil},
		{"deletion in the background", http.MethodDelete, "", "application/json", []byte(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background","gracePeriodSeconds":0}`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), test.method, url+"?"+test.query, bytes.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", string(test.contentType))
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close() //nolint:errcheck // read
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			var status metav1.Status
			if err := json.Unmarshal(body, &status); err != nil || resp.StatusCode != http.StatusForbidden || status.Reason != metav1.StatusReasonForbidden ||
				!strings.HasPrefix(status.Message, `admission webhook "crd-guard.sluice.dev" denied the request: this `) || !strings.Contains(status.Message, "data-lost") {
				t.Errorf("%s: %.500s", resp.Status, body)
			}
		})
	}
	if after := g.live(t, databasesCRD); after.Generation != before.Generation || after.DeletionTimestamp != nil {
		t.Error("the CRD changed")
	}
}

// survivesNonsense posts to the webhook what no API server would.
func (g *guarded) survivesNonsense(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	post := func(path string, body []byte) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+g.address+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			// It need not read to the end what is too much.
			return http.StatusRequestEntityTooLarge
		}
		defer resp.Body.Close() //nolint:errcheck // only the code is looked at
		return resp.StatusCode
	}
	for name, test := range map[string]struct {
		path string
		body []byte
		code int
	}{
		"nothing":          {guard.Path, nil, http.StatusBadRequest},
		"no review":        {guard.Path, []byte(`{"kind":"Pod"}`), http.StatusBadRequest},
		"20 MB":            {guard.Path + "?timeout=10s", bytes.Repeat([]byte(" "), 20<<20), http.StatusRequestEntityTooLarge},
		"another path":     {"/", nil, http.StatusNotFound},
		"a garbled update": {guard.Path, []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"UPDATE","resource":{"group":"apiextensions.k8s.io","version":"v1","resource":"customresourcedefinitions"},"object":[],"oldObject":"x"}}`), http.StatusOK},
	} {
		if got := post(test.path, test.body); got != test.code {
			t.Errorf("%s: %d", name, got)
		}
	}
	wants(t, g.update(t, "alice", databasesCRD, dropServed, dryRun, nil), "clients-broken")
}

//go:build e2e

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"sluice.dev/compat"
	"sluice.dev/report"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

// Reasons of several blocks.
const (
	partOfCRD    = "a part of a CRD; TestThePagesShowWhatIsPrinted checks the whole"
	partOfObject = "a part of an object"
	configFile   = "a file that Sluice reads; TestYAMLOnPagesIsRead reads it"
	featureFile  = "a file that Sluice reads; internal/life TestTheSchemaAndTheParserAgree reads it"
	otherTool    = "a file of another tool"
	isRefused    = "the rule is about a CRD that the API server refuses"
)

// notAccepted says why an API server does not accept a block, by page and by the beginning of the block. In docs/rules.md,
// the ID of the rule and a colon come before that.
var notAccepted = map[string]map[string]string{
	"docs/ci.md":            {"name: CRDs": otherTool, "repos:": otherTool, "apiVersion: v1\nname: sluice": otherTool},
	"docs/conversion.md":    {"apiVersion: sluice.dev/v1alpha1\nkind: Config": configFile},
	"docs/configuration.md": {"apiVersion: kapp.k14s.io": configFile, "apiVersion: sluice.dev/v1alpha1\nkind: Config": configFile},
	"docs/features-for-operators.md": {
		`- {apiGroups: [""], resources: [configmaps]`: partOfObject, "- {apiGroups: [sluice.dev], resources: [components]": partOfObject,
	},
	"docs/features-life.md": {
		"apiVersion: sluice.dev/v1alpha1\nkind: FeatureFile": featureFile,
		"output:": "a part of a feature file", "policy:": "a part of a feature file",
	},
	"docs/features.md":                   {"data:": partOfObject},
	"docs/guard.md":                      {"metadata:\n  annotations:": partOfObject},
	"docs/howto/add-required-field.md":   {"spec:": partOfCRD},
	"docs/howto/allow-unsafe-upgrade.md": {"metadata:\n  annotations:": partOfObject},
	"docs/howto/move-from-crdify.md":     {"apiVersion:": configFile, "validations:": configFile},
	"docs/howto/rename-field.md":         {"engine:": partOfCRD},
	"docs/howto/suppress-finding.md":     {"apiVersion:": configFile},
	"docs/installation.md":               {"# values.yaml": otherTool, "# kustomization.yaml": otherTool},
	"docs/reference.md":                  {"# yaml-language-server:": configFile},
	"docs/resolution.md":                 {"ref:": partOfObject, "      form: cosign": "a part of a policy"},
	rulesPage: {
		"crd-refused-by-api-server: # after": isRefused, "old-crd-invalid: # before": isRefused, "group-changed: # after": isRefused,
		"plural-changed: # after": isRefused, "unique-items-added: # after": isRefused, "default-invalid: # after": isRefused, "schema-changed: # after": isRefused,
		"preserve-unknown-fields-disabled: # before":   "a CRD of apiextensions.k8s.io/v1 can keep this field, but not begin to have it",
		"preserve-unknown-fields-disabled: apiVersion": "nobody can create its CRD, see above",
		"conversion-webhook-dropped: apiVersion":       "its CRD needs a conversion webhook, and the cluster has none",
	},
	"docs/tutorials/first-check.md": {"name: CRDs": otherTool},
	"docs/tutorials/gate-a-field.md": {
		"apiVersion: sluice.dev/v1alpha1\nkind: FeatureFile": featureFile,
		"apiVersion: notes.example.com":                      "the page generates the CRD; TestE2EThePagesShowWhatIsPrinted applies the object",
	},
}

// rulesPage has fragments of CRDs, and objects of the CRD of their rule.
const rulesPage = "docs/rules.md"

// TestE2EAnAPIServerAcceptsTheYAMLOfThePages creates each object in a YAML block as a dry run that refuses unknown fields. Each
// fragment of a CRD in docs/rules.md is sent as a whole CRD, and each witness to the CRD of its rule.
func TestE2EAnAPIServerAcceptsTheYAMLOfThePages(t *testing.T) {
	cluster := clustertest.Start(t)
	var blocks []yamlBlock
	for page, text := range pagesOf(t, "README.md", "docs") {
		for _, b := range pageBlocks(t, text) {
			if b.language == "yaml" {
				blocks = append(blocks, newYAMLBlock(filepath.ToSlash(page), text, b))
			}
		}
	}
	s := newDryServer(t, cluster, blocks)

	used := map[string]bool{}
	accepted := 0
	for _, b := range blocks {
		err := b.err
		for _, u := range b.objects {
			err = errors.Join(err, s.create(t.Context(), u))
		}
		why := ""
		for beginning, reason := range notAccepted[b.page] {
			if strings.HasPrefix(b.text, beginning) {
				why, used[b.page+beginning] = reason, true
			}
		}
		switch {
		case err != nil && why == "":
			t.Errorf("%s:%d: %v", b.page, b.line, err)
		case err == nil && why != "":
			t.Errorf("%s:%d: the API server accepts this block, so it needs no reason: %s", b.page, b.line, why)
		case err == nil:
			accepted++
		}
	}
	for page, reasons := range notAccepted {
		for beginning := range reasons {
			if !used[page+beginning] {
				t.Errorf("%s: no block begins with %q", page, beginning)
			}
		}
	}
	t.Logf("the API server accepts %d of %d blocks", accepted, len(blocks))
	if accepted < 250 {
		t.Errorf("the API server accepts only %d of %d blocks", accepted, len(blocks))
	}
}

// yamlBlock is a block with its objects.
type yamlBlock struct {
	page, rule, text string
	line             int
	objects          []*unstructured.Unstructured
	err              error
}

func newYAMLBlock(page, all string, b pageBlock) yamlBlock {
	out := yamlBlock{page: page, text: b.text, line: b.line}
	if page == rulesPage {
		before := strings.Join(strings.Split(all, "\n")[:b.line], "\n")
		_, section, _ := strings.Cut(before[strings.LastIndex(before, "\n## "):], "## ")
		out.rule, _, _ = strings.Cut(section, "\n")
		out.text = out.rule + ": " + b.text
	}
	switch {
	case strings.Contains(b.text, "# no such CRD"):
	case out.rule != "" && strings.HasPrefix(b.text, "# "):
		crd, err := crdOfRule(out.rule, func(compat.Rule) string { return b.text })
		out.objects, out.err = []*unstructured.Unstructured{crd}, err
	default:
		out.objects, out.err = kube.Decode([]byte(b.text))
	}
	for _, u := range out.objects {
		if out.err == nil && (u.GetKind() == "" || u.GetAPIVersion() == "") {
			out.err = errors.New("no object: apiVersion or kind is missing")
		}
		if out.rule != "" && u.GetKind() == "Widget" {
			u.SetAPIVersion(out.rule + "." + u.GetAPIVersion())
		}
	}
	if out.err != nil {
		out.objects = nil
	}
	return out
}

// crdOfRule is the CRD around a fragment of the rule's documentation.
func crdOfRule(id string, fragment func(compat.Rule) string) (*unstructured.Unstructured, error) {
	rule, ok := compat.Lookup(id)
	if !ok {
		return nil, fmt.Errorf("no rule %q", id)
	}
	crd, err := compat.ExampleCRD(fragment(rule), rule.InSpec())
	if err != nil {
		return nil, err
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	return &unstructured.Unstructured{Object: object}, err
}

// dryServer creates objects as a dry run, in a cluster that has the namespaces and CRDs that they need.
type dryServer struct {
	dynamic dynamic.Interface
	kinds   meta.RESTMapper
}

func newDryServer(t *testing.T, cluster *clustertest.Cluster, blocks []yamlBlock) *dryServer {
	t.Helper()
	k, err := kube.New(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	code, own, errs := sluice(t, "manifests", "--image=sluice:test", "--roles=all")
	if code != ExitOK {
		t.Fatal(errs)
	}
	needed, err := kube.Decode([]byte(own))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"examples/operator/config/crd.yaml", "examples/tekton/crds.yaml"} {
		crds, err := kube.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		needed = append(needed, crds...)
	}
	installed := map[string]bool{}
	for _, b := range blocks {
		for _, u := range b.objects {
			if ns := u.GetNamespace(); ns != "" && ns != "default" && !installed[ns] {
				installed[ns] = true
				namespace := &unstructured.Unstructured{}
				namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
				namespace.SetName(ns)
				if err := k.ApplyObject(t.Context(), namespace, false); err != nil {
					t.Fatal(err)
				}
			}
			switch {
			case b.rule == "":
				needed = append(needed, u)
			case u.GetKind() == "Widget":
				crd, err := crdOfRule(b.rule, acceptsWitness)
				if err != nil {
					t.Fatal(err)
				}
				group := u.GroupVersionKind().Group
				crd.SetName("widgets." + group)
				if err := unstructured.SetNestedField(crd.Object, group, "spec", "group"); err != nil {
					t.Fatal(err)
				}
				needed = append(needed, crd)
			}
		}
	}
	var crds []*unstructured.Unstructured
	for _, u := range needed {
		if u.GetKind() != "CustomResourceDefinition" || installed[u.GetName()] {
			continue
		}
		// An error here is an error for each object of the CRD as well.
		if err := k.Create(t.Context(), u); err == nil {
			crds, installed[u.GetName()] = append(crds, u), true
		}
	}
	for _, crd := range crds {
		if err := k.WaitServed(t.Context(), crd); err != nil {
			t.Fatalf("%s: %v", crd.GetName(), err)
		}
	}
	s := &dryServer{dynamic: dynamic.NewForConfigOrDie(cluster.Config())}
	client := discovery.NewDiscoveryClientForConfigOrDie(cluster.Config())
	known := func(context.Context) (bool, error) {
		groups, err := restmapper.GetAPIGroupResources(client)
		if err != nil {
			return false, nil //nolint:nilerr // discovery lags behind the CRDs
		}
		s.kinds = restmapper.NewDiscoveryRESTMapper(groups)
		for _, crd := range crds {
			group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
			if _, err := s.kinds.RESTMapping(schema.GroupKind{Group: group, Kind: kind}); err != nil {
				return false, nil //nolint:nilerr // as above
			}
		}
		return true, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 6*pagePatience, true, known); err != nil {
		t.Fatal(err)
	}
	return s
}

// acceptsWitness is the fragment of the CRD that accepts the rule's witness: the new one if new values surprise readers.
func acceptsWitness(r compat.Rule) string {
	if r.Level == report.ReadersSurprised {
		return r.Unsafe.New
	}
	return r.Unsafe.Old
}

// create creates an object as a dry run. An object that exists is one that the server accepts.
func (s *dryServer) create(ctx context.Context, u *unstructured.Unstructured) error {
	kind := u.GroupVersionKind()
	mapping, err := s.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	in := dynamic.ResourceInterface(s.dynamic.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		in = s.dynamic.Resource(mapping.Resource).Namespace(cmp.Or(u.GetNamespace(), metav1.NamespaceDefault))
	}
	_, err = in.Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

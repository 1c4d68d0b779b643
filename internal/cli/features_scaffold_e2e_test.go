//go:build e2e

package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/tools/clustertest"
)

// A version that scaffold adds is refused by the API server until its gate is on.
func TestE2EAScaffoldedVersionIsEnforced(t *testing.T) {
	// An API server that once had policies with a ConfigMap and has none any more reads no new ConfigMap (kubernetes/kubernetes issue 130887).
	w := newWorldIn(t, clustertest.Start(t, clustertest.WithoutControllers()))
	group, project := w.namespace+".example.com", exampleProject(t)
	in := func(name string) string { return filepath.Join(project, name) }
	for name, replaced := range map[string]*strings.Replacer{
		"features.yaml": strings.NewReplacer("component: pages", "component: "+w.namespace, "./api/v1", "./api/...", "{namespace: pages-system, name: feature-flags}", "{namespace: "+w.namespace+", name: settings}"),
		"api/v1/doc.go": strings.NewReplacer("pages.example.dev", group), "api/v1/types.go": strings.NewReplacer("pages.example.dev", group),
	} {
		text, err := os.ReadFile(in(name))
		if err == nil {
			err = os.WriteFile(in(name), []byte(replaced.Replace(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, generated := range []string{"config", "FEATURES.md", "features/zz_generated.features.go", "admission", "controller"} {
		if err := os.RemoveAll(in(generated)); err != nil {
			t.Fatal(err)
		}
	}
	code, _, errs := sluice(t, "features", "scaffold", "PageV2", "--version", "v2alpha1", "-f", in("features.yaml"))
	if code != ExitOK || !strings.Contains(errs, "next: register the types of "+in("api/v2alpha1")) {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	k := w.featureKinds()
	apply := func(text []byte) {
		t.Helper()
		for _, u := range w.decoded(text) {
			if err := k.ApplyObject(t.Context(), u, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	crd, err := os.ReadFile(in("config/crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	apply(crd)
	w.set("page-v2", "false")
	code, policies, errs := sluice(t, "features", "compile", "-f", in("config/features.yaml"), "-f", in("config/crd.yaml"))
	if code != ExitOK {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	apply([]byte(policies))
	create := func(ctx context.Context, version, name string) error {
		u := w.decoded(fmt.Appendf(nil, "{apiVersion: %s/%s, kind: Page, metadata: {name: %s}, spec: {text: x}}", group, version, name))[0]
		_, err := w.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: "pages"}).Namespace(w.namespace).Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}) // a try that passes leaves nothing in the way of the next one
		return err
	}
	clustertest.Eventually(t, "the kind", func(ctx context.Context) error { return create(ctx, "v1", "one") })
	clustertest.Eventually(t, "a refusal", func(ctx context.Context) error {
		if err := create(ctx, "v2alpha1", "two"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "PageV2") {
			return fmt.Errorf("it is %w", err)
		}
		return nil
	})
	w.set("page-v2", "true")
	clustertest.Eventually(t, "the gate to open", func(ctx context.Context) error { return create(ctx, "v2alpha1", "three") })
}

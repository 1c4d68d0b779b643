package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"sluice.dev/compat"
	bookv1 "sluice.dev/examples/kubebuilder/api/v1"
	"sluice.dev/examples/kubebuilder/internal/features"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/report"
)

const (
	released = "../../testdata/v1.1.0"
	current  = "../../config/crd/bases"
	file     = "book.example.dev_guestbooks.yaml"
)

// TestAgainstAnAPIServer upgrades the CRD of the last release to that of this tree, beside an object of the last release, and then has the
// API server hold the gates. It needs the binaries of envtest, or a cluster that is for tests.
func TestAgainstAnAPIServer(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" && os.Getenv("USE_EXISTING_CLUSTER") != "true" {
		t.Skip("set KUBEBUILDER_ASSETS to what setup-envtest prints, or USE_EXISTING_CLUSTER=true and KUBECONFIG")
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{released}, ErrorIfCRDPathMissing: true}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, bookv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	old := book("old", bookv1.GuestbookSpec{Title: "Visitors", Order: bookv1.Newest, Entries: []string{"hello"}})
	if err := c.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}

	t.Run("the CRD upgrades safely", func(t *testing.T) {
		safe(t, read(t, released), read(t, current))
		if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{current}, ErrorIfPathMissing: true}); err != nil {
			t.Fatal(err)
		}
		old.Spec.Entries = append(old.Spec.Entries, "hi")
		if err := c.Update(t.Context(), old); err != nil {
			t.Errorf("an object of the last release cannot be updated: %v", err)
		}
	})

	t.Run("the API server holds the gates", func(t *testing.T) {
		enforce(t, c)
		titled := book("titled", bookv1.GuestbookSpec{Title: "Visitors"})
		eventually(t, func(ctx context.Context) error {
			err := c.Create(ctx, titled.DeepCopy(), client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), `feature "BookTitle"`) {
				return fmt.Errorf("a title passes while the feature is off: %w", err)
			}
			return nil
		})
		if err := c.Create(t.Context(), book("plain", bookv1.GuestbookSpec{Entries: []string{"hello"}})); err != nil {
			t.Errorf("a book without gated fields: %v", err)
		}
		old.Spec.Order = bookv1.Oldest
		if err := c.Update(t.Context(), old); err != nil {
			t.Errorf("a book that has its title already: %v", err)
		}
		settings(t, c, map[string]string{"book-title": "true"})
		eventually(t, func(ctx context.Context) error { return c.Create(ctx, titled.DeepCopy()) })
	})
}

// safe fails if an upgrade harms anybody.
func safe(t *testing.T, from, to *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	result, err := compat.Check(t.Context(), from, to, compat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range result.Findings {
		if f.Severity == report.Fail {
			t.Errorf("%s: %s %s: %s", f.Rule, f.Version, f.Path, f.Message)
		}
	}
}

// TestAnUnsafeUpgradeIsFound holds the check itself, which needs no API server.
func TestAnUnsafeUpgradeIsFound(t *testing.T) {
	from, to := read(t, released), read(t, current)
	spec := to.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	delete(spec.Properties, "title")
	result, err := compat.Check(t.Context(), from, to, compat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if result.Verdict != report.Unsafe || len(result.Findings) == 0 || result.Findings[0].Rule != "property-removed" {
		t.Errorf("without its title the CRD is %s: %+v", result.Verdict, result.Findings)
	}
}

func book(name string, spec bookv1.GuestbookSpec) *bookv1.Guestbook {
	return &bookv1.Guestbook{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec}
}

func read(t *testing.T, dir string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// enforce installs the policies of the features, and the ConfigMap with their settings.
func enforce(t *testing.T, c client.Client) {
	t.Helper()
	d := features.Declaration()
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.Spec.ConfigMap.Namespace}}); err != nil {
		t.Fatal(err)
	}
	settings(t, c, nil)
	resource, err := feature.ResourceOf(read(t, current))
	if err != nil {
		t.Fatal(err)
	}
	component, list := d.Objects()
	model, findings := feature.Define(component, list, feature.Options{Resources: []feature.Resource{resource}})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	set, err := policy.Compile(t.Context(), model, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range set.Objects() {
		object, ok := o.(client.Object)
		if !ok {
			t.Fatalf("%T is no object", o)
		}
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func settings(t *testing.T, c client.Client, data map[string]string) {
	t.Helper()
	ref := features.Declaration().Spec.ConfigMap
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Data: data}
	put := c.Create
	if data != nil {
		put = func(ctx context.Context, o client.Object, _ ...client.CreateOption) error { return c.Update(ctx, o) }
	}
	if err := put(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
}

// eventually waits: an API server takes a moment to act on policies and settings.
func eventually(t *testing.T, condition func(ctx context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 6*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatal(errors.Join(err, last))
	}
}

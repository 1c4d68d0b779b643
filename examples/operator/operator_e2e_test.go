//go:build e2e

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	pagesv1 "sluice.dev/examples/operator/api/v1"
	"sluice.dev/examples/operator/features"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

const patience = 6 * time.Minute

// scene is a cluster in which the operator runs.
type scene struct {
	*testing.T

	cluster *clustertest.Cluster
	put     *kube.Client
	client  client.Client
}

func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, cluster: clustertest.Start(t)}
	var err error
	if s.put, err = kube.New(s.cluster.Config()); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, pagesv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	if s.client, err = client.New(s.cluster.Config(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"../../config/chart/files/features.yaml", "config/crd.yaml", "config/operator.yaml", "config/features.yaml"} {
		if err := s.put.Apply(t.Context(), filepath.FromSlash(file), false); err != nil {
			t.Fatal(err)
		}
	}
	s.settings(map[string]string{})
	s.enforce()
	return s
}

// enforce applies what sluice features compile prints.
func (s *scene) enforce() {
	s.Helper()
	text, err := os.ReadFile("config/crd.yaml")
	if err != nil {
		s.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		s.Fatal(err)
	}
	r, err := feature.ResourceOf(&crd)
	if err != nil {
		s.Fatal(err)
	}
	d := features.Declaration()
	component, list := d.Objects()
	model, findings := feature.Define(component, list, feature.Options{Resources: []feature.Resource{r}})
	if err := findings.Err(); err != nil {
		s.Fatal(err)
	}
	set, err := policy.Compile(s.Context(), model, policy.Options{})
	if err != nil {
		s.Fatal(err)
	}
	for _, o := range set.Objects() {
		u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			s.Fatal(err)
		}
		if err := s.put.ApplyObject(s.Context(), &unstructured.Unstructured{Object: u}, false); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *scene) settings(data map[string]string) {
	s.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "pages-system", Name: "feature-flags"}, Data: data}
	err := s.client.Update(s.Context(), cm)
	if apierrors.IsNotFound(err) {
		err = s.client.Create(s.Context(), cm)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// operate starts the operator under its ServiceAccount, and has it end with the test.
func (s *scene) operate() {
	config := s.cluster.Config()
	config.Impersonate.UserName = "system:serviceaccount:pages-system:operator"
	ctx, cancel := context.WithCancel(s.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		environ := []string{"POD_NAME=operator-0", "POD_NAMESPACE=pages-system"}
		if err := runOperator(ctx, testr.New(s.T), nil, environ, func() (*rest.Config, error) { return config, nil }); err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// label gives the namespace of the pages a label of a feature; empty takes it away.
func (s *scene) label(gate, value string) {
	s.Helper()
	eventually(s.T, "the label", func() error {
		var ns corev1.Namespace
		if err := s.client.Get(s.Context(), client.ObjectKey{Name: "default"}, &ns); err != nil {
			return err
		}
		delete(ns.Labels, "feature.sluice.dev/"+gate)
		if value != "" {
			ns.Labels["feature.sluice.dev/"+gate] = value
		}
		return s.client.Update(s.Context(), &ns)
	})
}

func (s *scene) namespace(name string) {
	s.Helper()
	if err := s.client.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		s.Fatal(err)
	}
}

func page(name string) *pagesv1.Page {
	return &pagesv1.Page{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: pagesv1.PageSpec{Text: "text"}}
}

// refused waits until a page cannot be created; allowed until it can be.
func (s *scene) refused(p *pagesv1.Page, words ...string) {
	s.Helper()
	eventually(s.T, "to be refused", func() error {
		err := s.client.Create(s.Context(), p.DeepCopy(), client.DryRunAll)
		if err == nil {
			return errors.New("it passes")
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				return fmt.Errorf("no %q in %w", w, err)
			}
		}
		return nil
	})
}

func (s *scene) create(p *pagesv1.Page) {
	s.Helper()
	eventually(s.T, "to be created", func() error { return s.client.Create(s.Context(), p.DeepCopy()) })
}

// shows waits until a page's ConfigMap holds a text, and a digest if it is to have one.
func (s *scene) shows(name, text string, digest bool) {
	s.Helper()
	eventually(s.T, name, func() error {
		var cm corev1.ConfigMap
		if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: name}, &cm); err != nil {
			return err
		}
		if _, signed := cm.Data["digest"]; cm.Data["page"] != text || signed != digest {
			return fmt.Errorf("it shows %v", cm.Data)
		}
		return nil
	})
}

// change updates a page, again if the operator was faster.
func (s *scene) change(name string, change func(*pagesv1.Page)) error {
	s.Helper()
	for {
		var p pagesv1.Page
		if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: name}, &p); err != nil {
			return err
		}
		change(&p)
		if err := s.client.Update(s.Context(), &p); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func TestE2ETheOperatorThroughTheLifeOfItsFeatures(t *testing.T) {
	s := newScene(t)
	s.operate()
	bold := page("bold")
	bold.Spec.Banner = &pagesv1.Banner{Text: "new"}
	markdown := page("markdown")
	markdown.Spec.Format = pagesv1.Markdown

	s.refused(bold, "spec.banner", `feature "Banner" of component "pages"`, `set banner: "true", or enable-api-fields: alpha without banner, in ConfigMap pages-system/feature-flags`)
	s.refused(markdown, "spec.format", "Markdown")
	s.create(page("plain"))
	s.shows("plain", "text", false)

	// Turned on: in force, and done by the operator, without a restart.
	s.settings(map[string]string{"banner": "true"})
	s.create(bold)
	s.shows("bold", "*** new ***\ntext", false)
	s.settings(map[string]string{"banner": "true", "signature": "true"})
	s.shows("plain", "text", true)
	s.shows("bold", "*** new ***\ntext", true)

	// Turned off: what is stored stays and can be changed, its status too; the operator does not show it.
	s.settings(map[string]string{})
	s.refused(renamed(bold, "another"), "spec.banner")
	s.shows("bold", "text", false)
	if err := s.change("bold", func(p *pagesv1.Page) { p.Spec.Text = "other" }); err != nil {
		t.Error(err)
	}
	s.shows("bold", "other", false)
	eventually(t, "the status", func() error {
		var p pagesv1.Page
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(bold), &p); err != nil {
			return err
		}
		if p.Spec.Banner == nil || p.Status.ObservedGeneration != p.Generation || len(p.Status.Shown) != 1 {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	if err := s.change("plain", func(p *pagesv1.Page) { p.Spec.Banner = bold.Spec.Banner }); err == nil || !strings.Contains(err.Error(), "spec.banner") {
		t.Errorf("a new use: %v", err)
	}

	// The settings have a third state, allowed: off, but for namespaces that opt in. Without it the label of a namespace has no effect.
	s.label("pages.Banner", "enabled")
	s.refused(renamed(bold, "early"), "spec.banner", "where the settings say allowed")
	s.settings(map[string]string{"banner": "allowed", "signature": "allowed"})
	s.create(renamed(bold, "early"))
	s.namespace("others")
	elsewhere := renamed(bold, "elsewhere")
	elsewhere.Namespace = "others"
	s.refused(elsewhere, "spec.banner", "label the namespace feature.sluice.dev/pages.Banner: enabled")

	// The operator does what the pages of that namespace ask; behaviour too. Then the namespace opts out.
	s.shows("early", "*** new ***\ntext", false)
	s.shows("bold", "*** new ***\nother", false)
	s.label("pages.Signature", "enabled")
	s.shows("plain", "text", true)
	s.label("pages.Signature", "")
	s.label("pages.Banner", "")
	s.shows("plain", "text", false)
	s.shows("early", "text", false)
	s.refused(renamed(bold, "another"), "spec.banner", "label the namespace feature.sluice.dev/pages.Banner: enabled")

	// Allowed no more: what was let in stays, and is not shown.
	s.label("pages.Banner", "enabled")
	s.shows("early", "*** new ***\ntext", false)
	s.settings(map[string]string{"banner": "false"})
	s.shows("early", "text", false)
	s.refused(renamed(bold, "another"), "spec.banner")

	// The operator reports what it runs with.
	eventually(t, "the report", func() error {
		var list v1alpha1.FeatureReportList
		if err := s.client.List(t.Context(), &list, client.InNamespace("pages-system")); err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Name != "pages.controller.operator-0" || len(list.Items[0].Spec.Features) != 3 || list.Items[0].Spec.Features[0].Enabled {
			return fmt.Errorf("%+v", list.Items)
		}
		return nil
	})
}

func renamed(p *pagesv1.Page, name string) *pagesv1.Page {
	out := p.DeepCopy()
	out.Name = name
	return out
}

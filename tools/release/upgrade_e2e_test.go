//go:build e2e

package main

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestE2EAnUpgradeLosesNothing applies the manifests of this version over those of each earlier one, which testdata keeps, while users
// work. The processes are all of this version: the manifests differ.
func TestE2EAnUpgradeLosesNothing(t *testing.T) {
	stored, err := filepath.Glob("testdata/manifests-*.yaml.gz")
	if err != nil || len(stored) == 0 {
		t.Fatalf("no manifests of earlier versions: %v", err)
	}
	for _, file := range stored {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml.gz"), func(t *testing.T) {
			old := unzipped(t, file)
			w := newWalk(t, false)
			w.shop(old + gitSettings)
			l := w.begin(false)
			kinds := []string{"requests", "unsafe changes refused", "safe changes", "writes of a gated field"}
			w.eventually(func() error { return l.busy(kinds...) })
			w.apply(w.manifests())
			w.rolledOut()
			t.Log(l.anew()) // users go on after the upgrade
			w.eventually(func() error { return l.busy(kinds...) })
			l.end(kinds...)
			w.says(w.kubectl("get", "configmap", "settings", "-n", "shop", "-o", "yaml"), "currency: EUR")
			w.healthy()
			w.allowed(w.requests())
		})
	}
}

// shop installs manifests, and has a stored object, a Delivery and a closed gate.
func (w *walk) shop(manifests string) {
	w.Helper()
	w.install(manifests)
	w.commit("deploy/settings.yaml", walkSettings)
	w.commit("extra/extra.yaml", strings.ReplaceAll(walkSettings, "settings", "extra"))
	w.apply(walkCRD("postgres, mysql"))
	w.kubectl("wait", "--for=condition=Established", "crd/databases.shop.example.com")
	w.apply(walkObject("orders", "engine: mysql"))
	w.deliver()
	w.apply(walkFeature)
	w.ready("", "Enforced", "component/shop")
}

// rolledOut waits until each Deployment runs what its template says.
func (w *walk) rolledOut() {
	w.Helper()
	for d := range strings.FieldsSeq(w.kubectl("-n", "sluice-system", "get", "deployments", "-o", "name")) {
		w.kubectl("-n", "sluice-system", "rollout", "status", "--timeout=300s", d)
	}
}

func unzipped(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	in, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

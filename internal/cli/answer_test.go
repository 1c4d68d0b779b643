package cli

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/life"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/featuregen"
)

// TestCommandsGiveOneAnswer draws definitions and settings, and holds list, get, docs and matrix to what a process says of each gate; and the
// settings that docs names, to whether they change the feature. Policies and the
// webhook are held to it by TestOneAnswer of feature/policy/simulate, and by TestE2EOneAnswer on an API server.
func TestCommandsGiveOneAnswer(t *testing.T) {
	asked, on, changes := 0, 0, 0
	for seed := range draws.Seeds(600) {
		r := rand.New(rand.NewPCG(seed, 32))
		w, err := featuregen.New(r)
		if err != nil {
			t.Fatal(err)
		}
		unset, err := w.Process(nil)
		if err != nil {
			t.Fatal(err)
		}
		if unset == nil || len(w.Model.Features()) == 0 {
			continue
		}
		dir := t.TempDir()
		write := func(name string, objects ...any) string {
			t.Helper()
			var text []byte
			for _, o := range objects {
				one, err := yaml.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				text = append(append(text, "---\n"...), one...)
			}
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
		ask := func(into any, args ...string) {
			t.Helper()
			code, out, errs := sluice(t, append([]string{"features"}, append(args, "-o", "json")...)...)
			if code != ExitOK {
				t.Fatalf("seed %d: %v: exit code %d\n%s", seed, args, code, errs)
			}
			if err := json.Unmarshal([]byte(out), into); err != nil {
				t.Fatal(err)
			}
		}
		component := w.Component.DeepCopy()
		component.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Component"}
		objects := []any{component}
		var entries []life.Entry
		for _, f := range w.Features {
			if w.Model.Feature(f.Spec.Gate) != nil {
				objects = append(objects, f)
				entries = append(entries, life.Entry{FeatureSpec: f.Spec, BehaviourOnly: len(f.Spec.Parts) == 0})
			}
		}
		crd, definitions := write("crd.yaml", w.CRD, w.Second), write("definitions.yaml", objects...)
		wrong := func(what, gate string, settings map[string]string) {
			t.Errorf("seed %d: %s disagrees with a process about %s, with %v", seed, what, gate, settings)
		}
		for range 4 {
			settings := w.Settings(r)
			process, err := w.Process(settings)
			if err != nil {
				t.Fatal(err)
			}
			if process == nil {
				continue
			}
			configMap := write("settings.yaml", map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": component.Spec.ConfigMap.Namespace, "name": component.Spec.ConfigMap.Name}, "data": settings,
			})
			for _, command := range []string{"list", "get"} {
				var said struct {
					Features []struct {
						Gate    string
						Enabled bool
						Default bool
					}
				}
				args := []string{command, "-f", definitions, "-f", crd, "-f", configMap}
				if command == "get" {
					for _, f := range w.Model.Features() {
						args = append(args, f.Name)
					}
				}
				ask(&said, args...)
				for _, f := range said.Features {
					asked++
					if f.Enabled {
						on++
					}
					if f.Enabled != process.Enabled(featuregate.Feature(f.Gate)) {
						wrong(command, f.Gate, settings)
					}
					if f.Default != unset.Enabled(featuregate.Feature(f.Gate)) {
						wrong(command+", by default,", f.Gate, nil)
					}
				}
			}
		}
		source := write("features.yaml", map[string]any{
			"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "FeatureFile", "component": component.Name, "spec": component.Spec, "features": entries, "source": map[string]any{"crds": []string{"crd.yaml"}},
		})
		var docs struct {
			Features []struct{ Name, Default, Change string }
		}
		ask(&docs, "docs", "-f", source)
		for _, f := range docs.Features {
			asked++
			on := unset.Enabled(featuregate.Feature(f.Name))
			if f.Default != map[bool]string{true: "always "}[w.Model.Feature(f.Name).Locked]+map[bool]string{true: "on", false: "off"}[on] {
				t.Errorf("seed %d: docs says that %s is %s by default; without settings it is on: %t", seed, f.Name, f.Default, on)
			}
			if !strings.HasPrefix(f.Change, "`") {
				continue
			}
			for way := range strings.SplitSeq(f.Change, " or ") {
				changes++
				settings := map[string]string{}
				for one := range strings.SplitSeq(way, " with ") {
					key, value, _ := strings.Cut(strings.Trim(one, "`"), ": ")
					settings[key] = strings.Trim(value, `"`)
				}
				process, err := w.Process(settings)
				if err != nil || process == nil {
					t.Fatalf("seed %d: a process does not take %s, by which docs changes %s: %v", seed, way, f.Name, err)
				}
				if process.Enabled(featuregate.Feature(f.Name)) == on {
					t.Errorf("seed %d: docs says that %s changes %s, and it does not", seed, way, f.Name)
				}
			}
		}
		var matrix struct {
			Cases []struct {
				Name             string
				Values, Settings map[string]any
			}
		}
		ask(&matrix, "matrix", "-f", source, "--kinds", "off,on,defaults,levels")
		for _, c := range matrix.Cases {
			settings := map[string]string{}
			for key, value := range c.Settings {
				settings[key], _ = value.(string)
			}
			process, err := w.Process(settings)
			if err != nil || process == nil {
				t.Fatalf("seed %d: %s: a process does not take %v: %v", seed, c.Name, settings, err)
			}
			for gate, value := range c.Values {
				asked++
				if value != process.Enabled(featuregate.Feature(gate)) {
					wrong("matrix, "+c.Name+",", gate, settings)
				}
			}
		}
	}
	if changes == 0 || asked < 500 || on == 0 || on == asked {
		t.Errorf("of %d answers %d are on", asked, on)
	}
	t.Logf("%d answers", asked)
}

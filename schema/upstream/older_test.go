package upstream_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/schema"
	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
)

// older is an API server's code of Kubernetes 1.32, in a program of its own (test/older).
type older struct {
	questions *json.Encoder
	answers   *json.Decoder
}

// startOlder builds and starts the program of test/older, which takes minutes the first time.
func startOlder(t *testing.T) *older {
	t.Helper()
	if !draws.All() {
		t.Skip("make test-long builds the API server's code of Kubernetes 1.32")
	}
	dir, err := filepath.Abs("../../test/older")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "older")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), bin)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &older{json.NewEncoder(in), json.NewDecoder(out)}
}

// askForErrors returns the errors of an update.
func (o *older) askForErrors(t *testing.T, question map[string]any) (errs []string) {
	t.Helper()
	if err := o.questions.Encode(question); err != nil {
		t.Fatal(err)
	}
	if err := o.answers.Decode(&errs); err != nil {
		t.Fatal(err)
	}
	return errs
}

// withoutOldFaults leaves out what Kubernetes 1.32 does wrong beside ratcheting, which is not told here: it does not find fields whose names need
// escaping, such as foo-bar, as keys of items, and takes null for a missing field when it compares objects (unstructuredMap.Find
// and unstructuredMapList in k8s.io/apiserver/pkg/cel/common/values.go of v0.32).
func withoutOldFaults(t *testing.T, p *props) *props {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer("a__underscores__b", "ab", "a__b", "ab", "foo__dash__bar", "fb", "foo-bar", "fb", "x__dot__y", "xy", "x.y", "xy",
		"__namespace__", "ns", "namespace", "ns")
	p = &props{}
	if err := json.Unmarshal([]byte(plain.Replace(string(text))), p); err != nil {
		t.Fatal(err)
	}
	return schema.Rewrite(p, schema.InStructure, func(p *props) {
		if p.Type == "object" || p.Type == "array" || p.Type == "" {
			p.XValidations = slices.DeleteFunc(slices.Clone(p.XValidations), func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, "==") })
		}
	})
}

// servedForm is an object as the API server serves it, which stays the same when it is read once more. A read can fill in a default with a null
// that the next one drops.
func servedForm(v *upstream.Validator, obj map[string]any) (map[string]any, bool) {
	for range 5 {
		read, _, _, err := v.Read(obj)
		if err != nil {
			return nil, false
		}
		served := asMap(schema.AsStored(read))
		if reflect.DeepEqual(served, obj) {
			return served, true
		}
		obj = served
	}
	return nil, false
}

// TestOlderUpdates compares updates of objects and of their status, by the rules of Kubernetes 1.32, with the API server's code of that version.
// It ratchets the former and not the latter.
func TestOlderUpdates(t *testing.T) {
	server := startOlder(t)
	kube := version.MajorMinor(1, 32)
	compared, refused, ratcheted, unratcheted := 0, 0, 0, 0
	seeds(t, 6000, func(seed uint64) {
		g := generator{rand.New(rand.NewPCG(seed, 32))}
		props := withoutOldFaults(t, g.root())
		o := widgets
		o.StatusSubresource, o.KubeVersion = true, kube
		v, err := upstream.New(props, o)
		if err != nil {
			return
		}
		old, ok := servedForm(v, g.resource(props, pick(g, 80, 95)))
		if !ok {
			return
		}
		obj := asMap(jsonCopy(old))
		if g.chance(60) {
			obj = asMap(g.mutate(old))
			obj["apiVersion"], obj["kind"], obj["metadata"] = old["apiVersion"], old["kind"], jsonCopy(old["metadata"])
			if obj, ok = servedForm(v, obj); !ok {
				return
			}
		}
		for _, status := range []bool{false, true} {
			update := v.Update
			if status {
				update = v.UpdateStatus
			}
			got, err := update(t.Context(), obj, old, true)
			if err != nil {
				t.Fatal(err)
			}
			want := server.askForErrors(t, map[string]any{"Schema": props, "Old": old, "New": obj, "Status": status})
			if compared++; len(want) > 0 {
				refused++
			}
			if got.Refused() != (len(want) > 0) {
				t.Errorf("seed %d, status %v: Kubernetes 1.32 says %v, and here it is %v\nschema:\n%s\nold:\n%s\nnew:\n%s",
					seed, status, want, got.Errors, asYAML(t, props), asYAML(t, old), asYAML(t, obj))
			}
			plain, err := update(t.Context(), obj, old, false)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Refused() && plain.Refused() {
				ratcheted++
			}
			o.KubeVersion = version.MajorMinor(1, 33)
			newer, err := upstream.New(props, o)
			if err != nil {
				t.Fatal(err)
			}
			o.KubeVersion = kube
			if r, err := newer.UpdateStatus(t.Context(), obj, old, true); status && err == nil && got.Refused() && !r.Refused() {
				unratcheted++
			}
		}
	})
	t.Logf("%d updates compared, %d refused, %d pass by ratcheting, %d writes of the status pass from 1.33 on", compared, refused, ratcheted, unratcheted)
	if ratcheted == 0 || unratcheted == 0 || compared == refused {
		t.Error("the cases do not show the difference")
	}
}

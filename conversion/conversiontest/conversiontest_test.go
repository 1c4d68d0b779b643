package conversiontest_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/conversion"
	"sluice.dev/conversion/conversiontest"
	"sluice.dev/tools/convertfaults"
)

// recorder is a test whose failures are kept.
type recorder struct {
	testing.TB
	errors, logs []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Log(args ...any)           { r.logs = append(r.logs, fmt.Sprint(args...)) }
func (r *recorder) Error(args ...any)         { r.errors = append(r.errors, fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(f, a...)) }

const widgets = "../../tools/convertfaults/widgets.yaml"

func TestRoundTripFailsForALoss(t *testing.T) {
	conversiontest.RoundTrip(t, conversiontest.CRD(t, widgets), conversion.Func(convertfaults.Widgets("", nil)))

	r := &recorder{TB: t}
	conversiontest.RoundTrip(r, conversiontest.CRD(t, widgets), conversion.Func(convertfaults.Widgets("lost field", nil)))
	if len(r.errors) != 2 || !strings.Contains(r.errors[1], "color: a") {
		t.Errorf("%q", r.errors)
	}
}

func TestALossMayBeDeclared(t *testing.T) {
	for _, x := range []struct {
		path, reason, expires string
		want                  string
	}{
		{".spec.*", "nobody uses it", "2999-01-01", ""},
		{".spec.*", "nobody uses it", "2020-01-01", "expired on 2020-01-01"},
		{".spec.*", "nobody uses it", "soon", "allowed are dates of the form YYYY-MM-DD"},
		{".spec.*", "", "", "reason must not be empty"},
		{".status.*", "nobody uses it", "", "conversion-loses-value"},
	} {
		r := &recorder{TB: t}
		conversiontest.RoundTrip(r, conversiontest.CRD(t, widgets), conversion.Func(convertfaults.Widgets("lost field", nil)), conversiontest.AllowLoss(x.path, x.reason, x.expires))
		if x.want == "" && len(r.errors) > 0 || !strings.Contains(strings.Join(r.errors, "\n"), x.want) {
			t.Errorf("%+v: %q", x, r.errors)
		}
	}
}

func TestALossInAListMayBeDeclared(t *testing.T) {
	right := convertfaults.Widgets("", nil)
	onePort := conversion.Func(func(obj map[string]any, to string) (map[string]any, error) {
		if spec, _ := obj["spec"].(map[string]any); spec != nil {
			if ports, _ := spec["ports"].([]any); len(ports) > 1 {
				spec["ports"] = ports[:1]
			}
		}
		return right(obj, to)
	})
	r := &recorder{TB: t}
	conversiontest.RoundTrip(r, conversiontest.CRD(t, widgets), onePort,
		conversiontest.AllowLoss(".spec.ports[*]", "nobody has two", ""), conversiontest.AllowLoss(".spec.size", "nobody uses it", ""))
	if len(r.errors) > 0 || !strings.Contains(strings.Join(r.logs, "\n"), "suppression-unused") {
		t.Errorf("%q, logged %q", r.errors, r.logs)
	}
}

// hub is controller-runtime's conversion.Hub.
type hub interface {
	runtime.Object
	Hub()
}

type spec struct {
	Color string `json:"color,omitempty"`
	Size  string `json:"size,omitempty"`
}

type gadgetV1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              spec `json:"spec,omitzero"`
}

func (g *gadgetV1) Hub() {}

// DeepCopyObject implements [runtime.Object].
func (g *gadgetV1) DeepCopyObject() runtime.Object { c := *g; return &c }

type gadgetV1beta1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              spec `json:"spec,omitzero"`
}

// DeepCopyObject implements [runtime.Object].
func (g *gadgetV1beta1) DeepCopyObject() runtime.Object { c := *g; return &c }

func (g *gadgetV1beta1) ConvertTo(h hub) error {
	to, ok := h.(*gadgetV1)
	if !ok {
		return errors.New("not a hub")
	}
	to.ObjectMeta, to.Spec = g.ObjectMeta, spec{Color: g.Spec.Color, Size: strings.ToLower(g.Spec.Size)}
	return nil
}

func (g *gadgetV1beta1) ConvertFrom(h hub) error {
	from, ok := h.(*gadgetV1)
	if !ok {
		return errors.New("not a hub")
	}
	g.ObjectMeta, g.Spec = from.ObjectMeta, spec{Color: from.Spec.Color, Size: strings.ToUpper(from.Spec.Size)}
	return nil
}

const gadgets = `
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  names: {kind: Gadget, plural: gadgets}
  scope: Cluster
  versions:
  - name: v1beta1
    served: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {color: {type: string}, size: {type: string, enum: [A, B]}}}
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {color: {type: string}, size: {type: string, enum: [a, b]}}}
`

func writeFile(name, text string) error { return os.WriteFile(name, []byte(text), 0o600) }

func TestTypesWithAHubAreConverted(t *testing.T) {
	file := t.TempDir() + "/crd.yaml"
	if err := writeFile(file, gadgets); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}, &gadgetV1{})
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v1beta1", Kind: "Gadget"}, &gadgetV1beta1{})
	conversiontest.RoundTrip(t, conversiontest.CRD(t, file), conversion.Typed[hub](scheme, &gadgetV1{}, &gadgetV1beta1{}))
}

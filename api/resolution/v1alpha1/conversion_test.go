package v1alpha1_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/randfill"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1alpha1"
	"sluice.dev/api/resolution/v1beta1"
)

func filler(data []byte) *randfill.Filler {
	return randfill.NewFromGoFuzz(data).NilChance(.3).NumElements(0, 4).Funcs(
		func(v *v1beta1.ParamValue, c randfill.Continue) {
			switch c.Intn(4) {
			case 0:
				*v = v1beta1.ArrayValue("", c.String(4))
			case 1:
				*v = v1beta1.ObjectValue(map[string]string{c.String(3): c.String(4)})
			default:
				*v = v1beta1.StringValue(c.String(8))
			}
		},
		func(p *v1beta1.Param, c randfill.Continue) {
			// Few names, so that some stand twice.
			p.Name = string(rune('a' + c.Intn(5)))
			c.Fill(&p.Value)
		},
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			m.Name, m.Generation = c.String(5), int64(c.Intn(9))
			c.Fill(&m.Annotations)
			c.Fill(&m.Labels)
		},
		func(m *metav1.TypeMeta, _ randfill.Continue) {},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(int64(c.Intn(1<<30)), 0) },
	)
}

var equal = cmp.Options{cmpopts.EquateEmpty()}

func FuzzV1beta1ComesBackAsItWas(f *testing.F) {
	for seed := range byte(60) {
		data := make([]byte, 400)
		for i := range data {
			data[i] = seed*31 + byte(i)*(seed|1)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want := &v1beta1.ResolutionRequest{}
		filler(data).Fill(want)
		want.TypeMeta = metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "ResolutionRequest"}
		delete(want.Annotations, resolution.AnnotationV1beta1)

		object := decode(t, want)
		before := decode(t, want)
		if err := v1alpha1.ConvertObject(object, v1alpha1.SchemeGroupVersion.String()); err != nil {
			t.Fatal(err)
		}
		// What the API server stores fits the type.
		encode(t, object, &v1alpha1.ResolutionRequest{})
		if err := v1alpha1.ConvertObject(object, want.APIVersion); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, object, equal); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func FuzzV1alpha1ComesBackAsItWas(f *testing.F) {
	f.Add([]byte("seed of some length, to have something to fill from"), `{"url":"u","params":[{"name":"zz","value":["x"]}]}`)
	f.Add([]byte{}, `{"order":["b","a","nothing"]}`)
	f.Add([]byte{1, 2, 3}, `{"params":[{"name":"a"}]}`)
	f.Add([]byte{1}, `[`)
	f.Fuzz(func(t *testing.T, data []byte, note string) {
		in := &v1alpha1.ResolutionRequest{}
		filler(data).Fill(in)
		in.APIVersion = v1alpha1.SchemeGroupVersion.String()
		if note != "" {
			if in.Annotations == nil {
				in.Annotations = map[string]string{}
			}
			in.Annotations[resolution.AnnotationV1beta1] = note
		}
		beta, err := toV1beta1(t, in)
		if err != nil {
			return
		}
		got, err := toV1alpha1(t, beta)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range in.Spec.Params {
			if got.Spec.Params[name] != value {
				t.Errorf("parameter %q: %q, want %q", name, got.Spec.Params[name], value)
			}
		}
		if diff := cmp.Diff(in.Status, got.Status, equal); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		again, err := toV1beta1(t, got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(beta, again, equal); diff != "" {
			t.Errorf("v1beta1 (-first +second):\n%s", diff)
		}
	})
}

func decode(t *testing.T, from any) map[string]any {
	t.Helper()
	data, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func encode(t *testing.T, from map[string]any, to any) {
	t.Helper()
	data, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		t.Fatal(err)
	}
}

// toV1beta1 and toV1alpha1 convert requests by way of decoded JSON.
func toV1beta1(t *testing.T, in *v1alpha1.ResolutionRequest) (*v1beta1.ResolutionRequest, error) {
	t.Helper()
	out := &v1beta1.ResolutionRequest{}
	return out, convertObject(t, in, v1alpha1.SchemeGroupVersion.String(), out, v1beta1.SchemeGroupVersion.String())
}

func toV1alpha1(t *testing.T, in *v1beta1.ResolutionRequest) (*v1alpha1.ResolutionRequest, error) {
	t.Helper()
	out := &v1alpha1.ResolutionRequest{}
	return out, convertObject(t, in, v1beta1.SchemeGroupVersion.String(), out, v1alpha1.SchemeGroupVersion.String())
}

func convertObject(t *testing.T, in any, from string, out any, to string) error {
	t.Helper()
	object := decode(t, in)
	object["apiVersion"] = from
	err := v1alpha1.ConvertObject(object, to)
	if err == nil {
		encode(t, object, out)
	}
	return err
}

func TestTheAnnotationCarriesWhatV1alpha1CannotSay(t *testing.T) {
	str, array := v1beta1.StringValue("v"), v1beta1.ArrayValue("x", "y")
	for name, test := range map[string]struct {
		spec   v1beta1.ResolutionRequestSpec
		params map[string]string
		note   string
	}{
		"strings in order":  {v1beta1.ResolutionRequestSpec{Params: []v1beta1.Param{{Name: "a", Value: str}, {Name: "b", Value: str}}}, map[string]string{"a": "v", "b": "v"}, ""},
		"strings, no order": {v1beta1.ResolutionRequestSpec{Params: []v1beta1.Param{{Name: "b", Value: str}, {Name: "a", Value: str}}}, map[string]string{"a": "v", "b": "v"}, `{"order":["b","a"]}`},
		"url":               {v1beta1.ResolutionRequestSpec{URL: "u"}, nil, `{"url":"u"}`},
		"an array":          {v1beta1.ResolutionRequestSpec{Params: []v1beta1.Param{{Name: "a", Value: array}}}, nil, `{"params":[{"name":"a","value":["x","y"]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := toV1alpha1(t, &v1beta1.ResolutionRequest{Spec: test.spec})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.params, got.Spec.Params); diff != "" {
				t.Error(diff)
			}
			if note := got.Annotations[resolution.AnnotationV1beta1]; note != test.note {
				t.Errorf("annotation %s, want %s", note, test.note)
			}
		})
	}
}

func TestAStatusIsNeverTakenFromAnAnnotation(t *testing.T) {
	in := &v1alpha1.ResolutionRequest{}
	in.Annotations = map[string]string{resolution.AnnotationV1beta1: `{"url":"u","status":{"data":"eA=="},"data":"eA==","conditions":[{"type":"Succeeded","status":"True"}]}`}
	got, err := toV1beta1(t, in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v1beta1.ResolutionRequestStatus{}, got.Status); diff != "" || got.Spec.URL != "u" {
		t.Errorf("url %q, status %s", got.Spec.URL, diff)
	}
}

func TestAnAnnotationThatContradictsTheSpecIsRefused(t *testing.T) {
	for name, note := range map[string]string{
		"not JSON":              `{`,
		"a parameter of both":   `{"params":[{"name":"a","value":"other"}]}`,
		"another shape of JSON": `{"params":{"b":"x"}}`,
	} {
		in := &v1alpha1.ResolutionRequest{Spec: v1alpha1.ResolutionRequestSpec{Params: map[string]string{"a": "v"}}}
		in.Annotations = map[string]string{resolution.AnnotationV1beta1: note}
		if _, err := toV1beta1(t, in); err == nil || !strings.Contains(err.Error(), resolution.AnnotationV1beta1) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestOddObjectsAreErrorsNotPanics(t *testing.T) {
	beta, alpha := v1beta1.SchemeGroupVersion.String(), v1alpha1.SchemeGroupVersion.String()
	for _, text := range []string{
		`{}`, `{"apiVersion":7}`, `{"apiVersion":"v1"}`,
		`{"apiVersion":"` + beta + `","spec":[]}`,
		`{"apiVersion":"` + beta + `","spec":{"params":{}}}`,
		`{"apiVersion":"` + beta + `","spec":{"params":["x"]}}`,
		`{"apiVersion":"` + beta + `","spec":{"url":5}}`,
		`{"apiVersion":"` + beta + `","metadata":"x","spec":{"url":"u"}}`,
		`{"apiVersion":"` + alpha + `","spec":{"params":{"a":1}}}`,
		`{"apiVersion":"` + alpha + `","spec":{"params":[]}}`,
		`{"apiVersion":"` + alpha + `","metadata":{"annotations":{"` + resolution.AnnotationV1beta1 + `":5}}}`,
	} {
		var object map[string]any
		if err := utiljson.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		to := alpha
		if object["apiVersion"] == alpha {
			to = beta
		}
		if err := v1alpha1.ConvertObject(object, to); err == nil {
			t.Errorf("%s was converted", text)
		}
	}
}

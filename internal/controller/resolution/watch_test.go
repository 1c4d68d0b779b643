package resolution

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
)

func TestEventsOfAWatch(t *testing.T) {
	type event struct {
		typ, name, param, data string
		code                   int32
	}
	const added = `{"type":"ADDED","object":{"apiVersion":"resolution.tekton.dev/v1beta1","kind":"ResolutionRequest","metadata":{"name":"a"},"spec":{"params":[{"name":"url","value":"u"}]},"status":{"data":"eA=="}}}` + "\n"
	for _, tt := range []struct {
		name, stream string
		want         []event
		end          error // nil: any other than those of a stream that ends
	}{
		{"an empty stream ends", "", nil, io.EOF},
		{"events come one by one", added + strings.ReplaceAll(added, "ADDED", "DELETED"), []event{
			{typ: "ADDED", name: "a", param: "u", data: "eA=="}, {typ: "DELETED", name: "a", param: "u", data: "eA=="},
		}, io.EOF},
		{"a bookmark has no more than metadata", `{"type":"BOOKMARK","object":{"metadata":{"name":"b"}}}` + "\n", []event{{typ: "BOOKMARK", name: "b"}}, io.EOF},
		{
			"an error brings its status", `{"type":"ERROR","object":{"kind":"Status","metadata":{},"status":"Failure","reason":"Expired","code":410}}` + "\n",
			[]event{{typ: "ERROR", code: 410}},
			io.EOF,
		},
		{
			"the order of the keys does not matter", `{"object":{"status":"Failure","code":410},"type":"ERROR"}` + "\n",
			[]event{{typ: "ERROR", code: 410}},
			io.EOF,
		},
		{"keys in another case are others", `{"type":"ADDED","object":{"metadata":{"name":"a"},"Status":{"data":"eA=="}}}` + "\n", []event{{typ: "ADDED", name: "a"}}, io.EOF},
		{"an event that is cut off is no event", added + added[:50], []event{{typ: "ADDED", name: "a", param: "u", data: "eA=="}}, io.ErrUnexpectedEOF},
		{"what is no JSON fails", "hello\n", nil, nil},
		{"an unknown type fails", `{"type":"SURPRISE","object":{}}` + "\n", nil, nil},
		{"an object of another shape fails", `{"type":"ADDED","object":{"status":"Failure"}}` + "\n", nil, nil},
		{"an event without bound fails", strings.Repeat("a", maxEvent+1) + "\n", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEvents(io.NopCloser(strings.NewReader(tt.stream)))
			var got []event
			for {
				typ, o, err := e.Decode()
				if err != nil {
					ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
					if (tt.end != nil && !errors.Is(err, tt.end)) || (tt.end == nil && ended) {
						t.Errorf("it ends with %v, want %v", err, tt.end)
					}
					break
				}
				out := event{typ: string(typ)}
				switch o := o.(type) {
				case *metav1.Status:
					out.code = o.Code
				case *v1beta1.ResolutionRequest:
					out.name, out.data = o.Name, o.Status.Data
					for _, p := range o.Spec.Params {
						out.param = p.Value.StringVal
					}
				}
				got = append(got, out)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(event{})); diff != "" {
				t.Errorf("events (-want +got)\n%s", diff)
			}
		})
	}
}

func TestAnEventThatCannotBeReadIsTold(t *testing.T) {
	w := watch.NewStreamWatcher(newEvents(io.NopCloser(strings.NewReader("hello\n"))), reporter{})
	e := <-w.ResultChan()
	if s, ok := e.Object.(*metav1.Status); e.Type != watch.Error || !ok || s.Code != 500 || s.Message == "" {
		t.Errorf("got %v", e)
	}
	if e, open := <-w.ResultChan(); open {
		t.Errorf("then %v", e)
	}
}

// Whatever a request has, a process that waits keeps a few kilobytes of it, and what it keeps says all that it looks at.
func TestCachesKeepLittleOfEachRequest(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	yes := true
	full := func(params ...v1beta1.Param) *v1beta1.ResolutionRequest {
		r := &v1beta1.ResolutionRequest{
			ObjectMeta: metav1.ObjectMeta{
				Name: "r", UID: "u", Finalizers: []string{large}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: large}},
				Labels:      map[string]string{resolution.LabelType: "git", "other": large},
				Annotations: map[string]string{resolution.AnnotationTimeout: "5s", resolution.AnnotationLookAfter: large, "other": large},
			},
			Spec: v1beta1.ResolutionRequestSpec{Params: params},
		}
		for range 100 {
			r.OwnerReferences = append(r.OwnerReferences, metav1.OwnerReference{Name: large[:1000]})
		}
		r.OwnerReferences = append(r.OwnerReferences, metav1.OwnerReference{Name: "run", Controller: &yes})
		return r
	}
	finished := full(v1beta1.Param{Name: "p", Value: v1beta1.StringValue("v")})
	finished.Status = v1beta1.ResolutionRequestStatus{
		Data: large, Annotations: map[string]string{"a": large}, RefSource: &v1beta1.RefSource{URI: large}, Source: &v1beta1.RefSource{URI: large},
		Conditions: []v1beta1.Condition{{Type: resolution.ConditionSucceeded, Status: metav1.ConditionTrue}},
	}
	for name, tt := range map[string]struct {
		r       *v1beta1.ResolutionRequest
		params  int
		leftOut bool
	}{
		"small":            {full(v1beta1.Param{Name: "p", Value: v1beta1.StringValue("v")}), 1, false},
		"a large string":   {full(v1beta1.Param{Name: "p", Value: v1beta1.StringValue(large)}), 0, true},
		"a large array":    {full(v1beta1.Param{Name: "p", Value: v1beta1.ArrayValue("a", large)}), 0, true},
		"an array of none": {full(v1beta1.Param{Name: "p", Value: v1beta1.ArrayValue(make([]string, 5000)...)}), 0, true},
		"a large object":   {full(v1beta1.Param{Name: "p", Value: v1beta1.ObjectValue(map[string]string{"k": large})}), 0, true},
		"a large name":     {full(v1beta1.Param{Name: large, Value: v1beta1.StringValue("v")}), 0, true},
		"finished":         {finished, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			// A list is slimmed page by page, and once more by the informer.
			for range 2 {
				if _, err := slimRequest(tt.r); err != nil {
					t.Fatal(err)
				}
			}
			text, err := json.Marshal(tt.r)
			if err != nil {
				t.Fatal(err)
			}
			if len(text) > 8<<10 {
				t.Errorf("%d bytes stay", len(text))
			}
			r := tt.r
			if left := r.Annotations[annotationSpecLeftOut] != ""; left != tt.leftOut || len(r.Spec.Params) != tt.params {
				t.Errorf("the spec is left out: %v; it has %d params", left, len(r.Spec.Params))
			}
			if c := metav1.GetControllerOf(r); c == nil || c.Name != "run" || r.Labels[resolution.LabelType] != "git" || r.Annotations[resolution.AnnotationTimeout] != "5s" {
				t.Errorf("too much is gone: %s", text)
			}
			if _, err := withoutSpec(r); err != nil || len(r.Spec.Params) != 0 {
				t.Errorf("the spec is there: %v", err)
			}
		})
	}
}

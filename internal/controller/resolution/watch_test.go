package resolution

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

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

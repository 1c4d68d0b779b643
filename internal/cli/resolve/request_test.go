package resolve

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution/v1beta1"
)

const requestBeta = `apiVersion: resolution.tekton.dev/v1beta1
kind: ResolutionRequest
metadata: {name: a, namespace: ns, labels: {resolution.tekton.dev/type: git}}
spec: {params: [{name: url, value: u}, {name: list, value: [x]}], url: whole}
`

const requestAlpha = `apiVersion: resolution.tekton.dev/v1alpha1
kind: ResolutionRequest
metadata: {labels: {resolution.tekton.dev/resolver: in-cluster}, uid: other, resourceVersion: "7"}
spec: {params: {kind: task}}
status: {data: eA==}
`

func TestRequestsOfBothVersionsAreRead(t *testing.T) {
	got, err := parseRequests([]byte(requestBeta + "---\n" + requestAlpha))
	if err != nil || len(got) != 2 {
		t.Fatalf("%v %v", got, err)
	}
	want := []v1beta1.ResolutionRequestSpec{
		{URL: "whole", Params: []v1beta1.Param{{Name: "url", Value: v1beta1.StringValue("u")}, {Name: "list", Value: v1beta1.ArrayValue("x")}}},
		{Params: []v1beta1.Param{{Name: "kind", Value: v1beta1.StringValue("task")}}},
	}
	if diff := cmp.Diff(want, []v1beta1.ResolutionRequestSpec{got[0].Spec, got[1].Spec}); diff != "" {
		t.Error(diff)
	}
	if got[1].GenerateName == "" || got[1].UID != "" || got[1].ResourceVersion != "" || got[1].Status.Data != "" {
		t.Errorf("what belongs to another request stays: %+v", got[1])
	}
	for name, bad := range map[string]string{
		"nothing":       "",
		"another kind":  "apiVersion: v1\nkind: ConfigMap\n",
		"another field": strings.Replace(requestBeta, "spec:", "spce:", 1),
		"no resolver":   strings.Replace(requestBeta, ", labels: {resolution.tekton.dev/type: git}", "", 1),
		"no YAML":       "a: [",
		"too many":      strings.Repeat(requestBeta+"---\n", maxRequests+1),
	} {
		if got, err := parseRequests([]byte(bad)); err == nil {
			t.Errorf("%s is taken: %v", name, got)
		}
	}
}

// TestJSONIsNoYAML uses surrogate pairs, which YAML does not have.
func TestJSONIsNoYAML(t *testing.T) {
	const request = `{"apiVersion": "resolution.tekton.dev/v1beta1", "kind": "ResolutionRequest",
 "metadata": {"labels": {"resolution.tekton.dev/type": "git"}, "annotations": {"mood": "\ud83d\ude00 \u003c"}}, "spec": {"params": []}}`
	got, err := parseRequests([]byte("---\n" + request + "\n---\n" + requestBeta))
	if err != nil || len(got) != 2 {
		t.Fatalf("%v %v", got, err)
	}
	if diff := cmp.Diff(map[string]string{"mood": "😀 <"}, got[0].Annotations); diff != "" {
		t.Error(diff)
	}
	list, err := objectsInStream([]byte(`{"mood": "\ud83d\ude00"}`))
	if err != nil || len(list) != 1 {
		t.Fatalf("%v %v", list, err)
	}
}

func TestAListTellsOfEachRequest(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	request := func(name string, status metav1.ConditionStatus, reason string, change func(*v1beta1.ResolutionRequest)) Summary {
		r := &v1beta1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Labels: map[string]string{"resolution.tekton.dev/resolver": "bundle"}, CreationTimestamp: metav1.NewTime(at),
		}}
		if status != "" {
			r.Status.Conditions = []v1beta1.Condition{{Type: "Succeeded", Status: status, Reason: reason, Message: "why\nexactly", LastTransitionTime: metav1.NewTime(at.Add(3 * time.Second))}}
		}
		if change != nil {
			change(r)
		}
		return Summarize(r)
	}
	items := []Summary{
		request("new", "", "", func(r *v1beta1.ResolutionRequest) { r.Labels = nil }),
		request("waiting", metav1.ConditionUnknown, "ResolutionInProgress", nil),
		request("done", metav1.ConditionTrue, "", func(r *v1beta1.ResolutionRequest) {
			r.Status.Data = strings.Repeat("eHh4", 512)
			r.Status.Annotations = map[string]string{"resolution.tekton.dev/cache-operation": "retrieve"}
			r.Status.RefSource = &v1beta1.RefSource{URI: "registry.test/b"}
			r.OwnerReferences = []metav1.OwnerReference{{Kind: "TaskRun", Name: "run"}}
		}),
		request("empty", metav1.ConditionTrue, "", nil),
		request("bad", metav1.ConditionFalse, "ResolutionFailed", func(r *v1beta1.ResolutionRequest) {
			r.Status.Annotations = map[string]string{"sluice.dev/reason": "NotFound"}
		}),
		request("late", metav1.ConditionFalse, "ResolutionTimedOut", nil),
	}
	for format, want := range map[string]string{
		"table": `NAME      RESOLVER   PHASE        REASON               SIZE    CACHE      AGE
new       -          Pending      -                    -       -          2m
waiting   bundles    InProgress   -                    -       -          2m
done      bundles    Succeeded    -                    1.5Ki   retrieve   2m
empty     bundles    Succeeded    -                    0B      -          2m
bad       bundles    Failed       NotFound             -       -          2m
late      bundles    TimedOut     ResolutionTimedOut   -       -          2m
`,
		"name": `resolutionrequest.resolution.tekton.dev/new
resolutionrequest.resolution.tekton.dev/waiting
resolutionrequest.resolution.tekton.dev/done
resolutionrequest.resolution.tekton.dev/empty
resolutionrequest.resolution.tekton.dev/bad
resolutionrequest.resolution.tekton.dev/late
`,
	} {
		var out bytes.Buffer
		table := &requestTable{out: &out, format: format, now: func() time.Time { return at.Add(2 * time.Minute) }}
		if err := table.printRows(items); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s: %s", format, diff)
		}
	}
	var out bytes.Buffer
	table := &requestTable{out: &out, all: true, format: "wide", now: func() time.Time { return at }}
	if err := table.printRows(items); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NAMESPACE   NAME", "TaskRun/run   registry.test/b", "3s", "why; exactly\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// What YAML does not read as text is an error, so that no version becomes another one.
func TestParametersAreTexts(t *testing.T) {
	for params, want := range map[string]string{
		"[{name: version, value: 0.10}]":                    `parameter "version" has 0.1, which is a number`,
		"[{name: version, value: '0.10'}]":                  "",
		"[{name: x, value: true}]":                          `parameter "x" has true, which is a number, true or false in YAML`,
		"[{name: x, value: [a, [b]]}]":                      `parameter "x" has a list or an object where a text is wanted`,
		"[{name: x, value: [a, 1]}]":                        `parameter "x" has 1`,
		"[{name: x, value: {a: {b: c}}}]":                   `parameter "x" has a list or an object`,
		"[{name: x, value: [a]}, {name: y, value: {a: b}}]": "",
		"{version: 0.9}":                                    `parameter "version" has 0.9, which is a number`,
		"{version: '0.9'}":                                  "",
		"{version: [a]}":                                    `parameter "version" has a list`,
	} {
		version := "v1beta1"
		if params[0] == '{' {
			version = "v1alpha1"
		}
		_, err := parseRequests([]byte("apiVersion: resolution.tekton.dev/" + version + "\nkind: ResolutionRequest\nmetadata: {labels: {resolution.tekton.dev/type: hub}}\nspec: {params: " + params + "}\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", params, err)
		}
	}
}

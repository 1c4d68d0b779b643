package refs_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/requester"
	"sluice.dev/requester/refs"
)

func TestDefaultsOfACluster(t *testing.T) {
	got, err := refs.ReadDefaults(map[string]string{
		"default-resolver-type": "git\n", "default-timeout-minutes": "5",
		"default-remotes": "Task: {params: [{name: pathInRepo, value: 'tasks/{name}.yaml'}]}\n'*': {resolver: hub, url: 'hub://{kind}/{name}'}\n",
	})
	want := refs.Defaults{Resolver: "git", Remotes: map[string]requester.Ref{
		"task": ref("git", "pathInRepo", "tasks/{name}.yaml"), "": {Resolver: "hub", URL: "hub://{kind}/{name}"},
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v %s", err, diff)
	}
	for kind, want := range map[string]requester.Ref{"task": ref("git", "pathInRepo", "tasks/x.yaml"), "pipeline": {Resolver: "hub", URL: "hub://pipeline/x"}} {
		remote, ok := refs.Origin{}.Effective(refs.Found{Kind: kind, Name: "x"}, refs.Templates(got.Remotes))
		if diff := cmp.Diff(want, remote); !ok || diff != "" {
			t.Errorf("%s: %v %s", kind, ok, diff)
		}
	}
	if none, err := refs.ReadDefaults(nil); err != nil || none.Resolver != "" || none.Remotes != nil {
		t.Errorf("without a ConfigMap: %+v, %v", none, err)
	}
	for wrong, text := range map[string]string{
		"task: git": "default-remotes", "task: {resolver: git, parms: []}": "parms", "task: {params: []}": "names no resolver",
		"{Task: {resolver: a}, task: {resolver: b}}": "twice",
	} {
		if _, err := refs.ReadDefaults(map[string]string{"default-remotes": wrong}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestReferencesByURL(t *testing.T) {
	const text = `kind: Pipeline
spec:
  tasks:
  - taskRef: {resolver: git, name: "https://git.test/r//task.yaml"}
  - taskRef: {resolver: git, name: "https://git.test/$(params.x)"}
  - taskRef: {resolver: git, params: [{name: revision, value: main}], name: "https://git.test/r"}
`
	found, err := refs.Find([]byte(text))
	if err != nil || len(found) != 3 {
		t.Fatalf("%v, %+v", err, found)
	}
	if diff := cmp.Diff(requester.Ref{Resolver: "git", URL: "https://git.test/r//task.yaml"}, found[0].Ref); diff != "" || found[0].Variable || !found[1].Variable {
		t.Errorf("%+v %s", found[:2], diff)
	}
	out, err := refs.Rewrite([]byte(text), refs.Origin{}, nil)
	if err != nil || !strings.Contains(string(out), `"https://git.test/r//task.yaml"`) {
		t.Errorf("%v: %s", err, out)
	}
}

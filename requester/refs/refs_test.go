package refs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/requester"
	"sluice.dev/requester/refs"
)

func ref(resolver string, pairs ...string) requester.Ref {
	r := requester.Ref{Resolver: resolver}
	for i := 0; i < len(pairs); i += 2 {
		r.Params = append(r.Params, v1beta1.Param{Name: pairs[i], Value: v1beta1.StringValue(pairs[i+1])})
	}
	return r
}

const pipeline = `# the pipeline
apiVersion: tekton.dev/v1
kind: Pipeline
metadata: {name: p}
spec:
  params: [{name: x, value: y}]
  tasks:
  - name: list
    taskRef:
      resolver: git
      params:
      - {name: pathInRepo, value: ./task.yaml} # beside it
  - name: older
    taskRef: {resolver: git, resource: {repository_url: https://git.test/r, branch: v1, path: b.yaml}}
  - name: oldest
    taskRef: {resolver: git, resource: [{name: url, value: https://git.test/other}]}
  - name: image
    taskRef: {bundle: reg.test/b:1, name: build}
  - name: local
    taskRef: {name: here, kind: Task}
  - name: custom
    taskRef: {name: here, kind: Wait, apiVersion: example.test/v1}
  - name: variable
    taskRef: {resolver: git, params: [{name: pathInRepo, value: "$(params.x)"}]}
  - name: nested
    pipelineRef: {resolver: cluster, params: [{name: name, value: q}, {name: many, value: [a, b]}]}
---
kind: Task
spec:
  steps:
  - ref: {name: step}
  - ref: {resolver: http, params: [{name: url, value: https://web.test/s}]}
---
kind: Other
spec:
  anywhere: {resolver: hub, params: []}
  ref: {name: no-reference}
  resolver: only-a-word
`

func TestReferencesOfEverySyntaxAreFound(t *testing.T) {
	many := ref("cluster", "name", "q")
	many.Params = append(many.Params, v1beta1.Param{Name: "many", Value: v1beta1.ArrayValue("a", "b")})
	want := []refs.Found{
		{Path: "spec.tasks[0].taskRef", Line: 10, Kind: "task", Ref: ref("git", "pathInRepo", "./task.yaml")},
		{Path: "spec.tasks[1].taskRef", Line: 14, Kind: "task", Ref: ref("git", "branch", "v1", "path", "b.yaml", "repository_url", "https://git.test/r")},
		{Path: "spec.tasks[2].taskRef", Line: 16, Kind: "task", Ref: ref("git", "url", "https://git.test/other")},
		{Path: "spec.tasks[3].taskRef", Line: 18, Kind: "task", Ref: ref("bundles", "bundle", "reg.test/b:1", "name", "build", "kind", "task")},
		{Path: "spec.tasks[4].taskRef", Line: 20, Kind: "task", Name: "here"},
		{Path: "spec.tasks[6].taskRef", Line: 24, Kind: "task", Ref: ref("git", "pathInRepo", "$(params.x)"), Variable: true},
		{Path: "spec.tasks[7].pipelineRef", Line: 26, Kind: "pipeline", Ref: many},
		{Document: 1, Path: "spec.steps[0].ref", Line: 31, Kind: "stepaction", Name: "step"},
		{Document: 1, Path: "spec.steps[1].ref", Line: 32, Kind: "stepaction", Ref: ref("http", "url", "https://web.test/s")},
		{Document: 2, Path: "spec.anywhere", Line: 36, Ref: ref("hub")},
	}
	got, err := refs.Find([]byte(pipeline))
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(refs.Found{})); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

var git = refs.Origin{
	Ref:    ref("git", "url", "https://git.test/r.git", "revision", "v1", "pathInRepo", "dir/p.yaml", "gitToken", "secret"),
	Source: &v1beta1.RefSource{URI: "git+https://git.test/r.git", Digest: map[string]string{"sha1": "c0ffee"}, EntryPoint: "dir/p.yaml"},
}

func TestWhatAReferenceMeansWhereItStands(t *testing.T) {
	bundle := refs.Origin{
		Ref:    ref("bundle", "bundle", "reg.test/b:1", "name", "p", "secret", "s"),
		Source: &v1beta1.RefSource{URI: "reg.test/b", Digest: map[string]string{"sha256": "ab"}},
	}
	api := refs.Origin{
		Ref:    ref("git", "org", "o", "repo", "r", "token", "t", "pathInRepo", "p.yaml"),
		Source: &v1beta1.RefSource{URI: "git+https://github.test/o/r.git", Digest: map[string]string{"sha1": "c0ffee"}, EntryPoint: "p.yaml"},
	}
	byDefault := refs.Origin{Ref: ref("git", "pathInRepo", "p.yaml"), Source: git.Source}
	remotes := refs.Templates(map[string]requester.Ref{"task": ref("git", "pathInRepo", "tasks/{name}.yaml"), "": ref("hub", "name", "{name}", "kind", "{kind}")})
	for name, test := range map[string]struct {
		origin refs.Origin
		found  refs.Found
		want   requester.Ref
	}{
		"relative":           {git, refs.Found{Ref: ref("git", "pathInRepo", "./t.yaml")}, ref("git", "pathInRepo", "dir/t.yaml", "url", "https://git.test/r.git", "gitToken", "secret", "revision", "c0ffee")},
		"up":                 {git, refs.Found{Ref: ref("git", "path", "../t.yaml")}, ref("git", "pathInRepo", "t.yaml", "url", "https://git.test/r.git", "gitToken", "secret", "revision", "c0ffee")},
		"out":                {git, refs.Found{Ref: ref("git", "pathInRepo", "../../t.yaml")}, ref("git", "pathInRepo", "../../t.yaml", "url", "https://git.test/r.git", "gitToken", "secret", "revision", "c0ffee")},
		"from the root":      {git, refs.Found{Ref: ref("git", "pathInRepo", "t.yaml", "gitToken", "own")}, ref("git", "pathInRepo", "t.yaml", "gitToken", "own", "url", "https://git.test/r.git", "revision", "c0ffee")},
		"same address":       {git, refs.Found{Ref: ref("git", "url", "https://GIT.test/r", "pathInRepo", "t")}, ref("git", "url", "https://GIT.test/r", "pathInRepo", "t", "revision", "c0ffee")},
		"same revision":      {git, refs.Found{Ref: ref("git", "url", "https://git.test/r", "branch", "v1")}, ref("git", "url", "https://git.test/r", "revision", "c0ffee")},
		"another revision":   {git, refs.Found{Ref: ref("git", "url", "https://git.test/r", "revision", "v2")}, ref("git", "url", "https://git.test/r", "revision", "v2")},
		"another repository": {git, refs.Found{Ref: ref("git", "url", "https://git.test/s", "revision", "v1")}, ref("git", "url", "https://git.test/s", "revision", "v1")},
		"another resolver":   {git, refs.Found{Ref: ref("http", "url", "https://git.test/r")}, ref("http", "url", "https://git.test/r")},
		"by the API":         {api, refs.Found{Ref: ref("git", "pathInRepo", "t")}, ref("git", "pathInRepo", "t", "org", "o", "repo", "r", "token", "t", "revision", "c0ffee")},
		"same by the API":    {api, refs.Found{Ref: ref("git", "org", "o", "repo", "r", "pathInRepo", "t")}, ref("git", "org", "o", "repo", "r", "pathInRepo", "t", "revision", "c0ffee")},
		"other by the API":   {api, refs.Found{Ref: ref("git", "org", "o", "repo", "s", "pathInRepo", "t")}, ref("git", "org", "o", "repo", "s", "pathInRepo", "t")},
		// What was fetched does not choose to which server the credential of its origin goes.
		"another server":        {api, refs.Found{Ref: ref("git", "serverURL", "https://evil.test", "pathInRepo", "t")}, ref("git", "serverURL", "https://evil.test", "pathInRepo", "t")},
		"another provider":      {api, refs.Found{Ref: ref("git", "scmType", "gitea", "pathInRepo", "t")}, ref("git", "scmType", "gitea", "pathInRepo", "t")},
		"another configuration": {git, refs.Found{Ref: ref("git", "configKey", "x", "pathInRepo", "t")}, ref("git", "configKey", "x", "pathInRepo", "t")},
		"another organization":  {api, refs.Found{Ref: ref("git", "org", "evil", "pathInRepo", "t")}, ref("git", "org", "evil", "pathInRepo", "t")},
		"the same organization": {api, refs.Found{Ref: ref("git", "org", "o", "pathInRepo", "t")}, ref("git", "org", "o", "pathInRepo", "t", "repo", "r", "token", "t", "revision", "c0ffee")},
		"operator's default":    {byDefault, refs.Found{Ref: ref("git", "pathInRepo", "t")}, ref("git", "pathInRepo", "t", "url", "https://git.test/r.git", "revision", "c0ffee")},
		"unknown source":        {refs.Origin{Ref: git.Ref}, refs.Found{Ref: ref("git", "pathInRepo", "t")}, ref("git", "pathInRepo", "t")},
		"not from git":          {refs.Origin{Ref: git.Ref, Source: &v1beta1.RefSource{URI: "echo:", Digest: git.Source.Digest}}, refs.Found{Ref: ref("git", "pathInRepo", "t")}, ref("git", "pathInRepo", "t")},
		"image":                 {bundle, refs.Found{Ref: ref("bundles", "bundle", "reg.test/b:1", "name", "t")}, ref("bundles", "bundle", "reg.test/b@sha256:ab", "name", "t")},
		"same image":            {bundle, refs.Found{Ref: ref("bundles", "name", "t")}, ref("bundles", "name", "t", "bundle", "reg.test/b@sha256:ab", "secret", "s")},
		"another tag":           {bundle, refs.Found{Ref: ref("bundles", "bundle", "reg.test/b:2")}, ref("bundles", "bundle", "reg.test/b:2")},
		"default remote":        {git, refs.Found{Kind: "task", Name: "t"}, ref("git", "pathInRepo", "tasks/t.yaml", "url", "https://git.test/r.git", "gitToken", "secret", "revision", "c0ffee")},
		"default of others":     {git, refs.Found{Kind: "pipeline", Name: "p"}, ref("hub", "name", "p", "kind", "pipeline")},
	} {
		got, ok := test.origin.Effective(test.found, remotes)
		if diff := cmp.Diff(test.want, got); !ok || diff != "" {
			t.Errorf("%s: %v %s", name, ok, diff)
		}
	}
	if _, ok := git.Effective(refs.Found{Kind: "task", Name: "t"}, nil); ok {
		t.Error("a local reference is followed without a default remote")
	}
	if _, ok := git.Effective(refs.Found{Kind: "task", Name: "t"}, refs.Templates(nil)); ok {
		t.Error("a local reference is followed although no default remote is for it")
	}
}

func TestRewritingKeepsAllElse(t *testing.T) {
	got, err := refs.Rewrite([]byte(pipeline), git, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	for _, want := range []string{"# the pipeline", "value: dir/task.yaml", "value: c0ffee", "https://git.test/other", "$(params.x)", "name: here", "kind: Wait", "resolver: only-a-word", "name: no-reference"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, gone := range []string{"./task.yaml", "bundle: reg.test/b:1, name", "repository_url: https://git.test/r,"} {
		if strings.Contains(text, gone) {
			t.Errorf("%q is left in\n%s", gone, text)
		}
	}
	again, err := refs.Rewrite(got, git, nil)
	if err != nil || string(again) != text {
		t.Errorf("what was rewritten changes again: %v %s", err, cmp.Diff(text, string(again)))
	}
	for name, data := range map[string]string{
		"nothing to do": "# c\nkind:   Task\n",
		"merged":        "base: &b {resolver: git, params: [{name: pathInRepo, value: x}]}\nuse:\n  taskRef:\n    <<: *b\n    kind: Task\n",
		"aliased":       "a: &b {resolver: git, params: [{name: pathInRepo, value: x}]}\nb: *b\nc: *b\n",
	} {
		got, err := refs.Rewrite([]byte(data), git, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		list, err := refs.Find(got)
		if err != nil {
			t.Errorf("%s: %v in\n%s", name, err, got)
		}
		for _, f := range list {
			if len(f.Ref.Params) != 4 {
				t.Errorf("%s: %v in\n%s", name, f.Ref, got)
			}
		}
		if name == "nothing to do" && string(got) != data {
			t.Errorf("it is changed: %s", got)
		}
	}
}

// world is what there is to fetch, by path.
type world map[string]string

func (w world) fetch(_ context.Context, r requester.Ref) (*requester.Resource, error) {
	file, commit := "", ""
	for _, p := range r.Params {
		switch p.Name {
		case "pathInRepo":
			file = p.Value.StringVal
		case "revision":
			commit = p.Value.StringVal
		}
	}
	text, ok := w[file]
	if !ok || commit != "c0ffee" {
		return nil, fmt.Errorf("no %s at %q", file, commit)
	}
	return &requester.Resource{Data: []byte(text), Source: &v1beta1.RefSource{URI: git.Source.URI, Digest: git.Source.Digest, EntryPoint: file}}, nil
}

func to(files ...string) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "taskRef: {resolver: git, params: [{name: pathInRepo, value: %s}]}\n---\n", f)
	}
	return b.String()
}

func TestCollectBringsEachThingOnceWithinBounds(t *testing.T) {
	w := world{"a": to("b", "c"), "b": to("c"), "c": "kind: Task\n", "loop": to("x"), "x": to("y"), "y": to("x"), "self": to("./p.yaml"), "dir/p.yaml": "root", "no-yaml": "a: [", "deep": to("a")}
	for name, test := range map[string]struct {
		root string
		want []string // path in the repository of each, with the index that it comes from
		fail error
	}{
		"each once": {to("a", "c", "c"), []string{"a -1", "b 0", "c 1"}, nil},
		"a cycle":   {to("loop"), nil, refs.ErrCycle},
		"too deep":  {to("deep"), nil, refs.ErrTooMany},
		"too many":  {to("a", "no-yaml", "dir/p.yaml"), nil, refs.ErrTooMany},
		"no YAML":   {to("no-yaml"), []string{"no-yaml -1"}, nil},
		"nothing":   {"kind: Task\n", nil, nil},
		"variables": {to("$(params.x)"), nil, nil},
	} {
		list, skipped, err := refs.Collect(t.Context(), git, []byte(test.root), nil, refs.Limits{Resources: 4, Depth: 3}, w.fetch)
		var got []string
		for _, c := range list {
			got = append(got, fmt.Sprint(c.Source.EntryPoint, " ", c.From))
		}
		if !errors.Is(err, test.fail) || test.fail == nil && cmp.Diff(test.want, got) != "" || (len(skipped) > 0) != (name == "variables") {
			t.Errorf("%s: %v %v, skipped %v", name, got, err, skipped)
		}
	}
	// The root itself is part of a cycle.
	root := to("self")
	w["dir/p.yaml"], w["self"] = root, to("dir/p.yaml")
	if _, _, err := refs.Collect(t.Context(), git, []byte(root), nil, refs.Limits{}, w.fetch); !errors.Is(err, refs.ErrCycle) {
		t.Errorf("error %v", err)
	}
	if _, _, err := refs.Collect(t.Context(), git, []byte(to("none")), nil, refs.Limits{}, w.fetch); err == nil || !strings.Contains(err.Error(), "taskRef: no none") {
		t.Errorf("error %v", err)
	}
}

func TestHostileContentIsBounded(t *testing.T) {
	bomb := "a0: &a0 [x, x]\n"
	for i := range 40 {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	if list, err := refs.Find([]byte(bomb)); len(list) > 0 || err != nil {
		t.Errorf("%d references, %v", len(list), err)
	}
	for name, data := range map[string]string{
		"deep": strings.Repeat("{a: ", 500) + "x" + strings.Repeat("}", 500),
		"many": to(strings.Split(strings.Repeat("x ", 1001), " ")[:1001]...),
		"loop": "a: &a\n  taskRef: *a\n",
	} {
		if _, err := refs.Find([]byte(data)); err == nil && name != "loop" {
			t.Errorf("%s is taken", name)
		}
	}
}

func FuzzRewrite(f *testing.F) {
	f.Add([]byte(pipeline))
	f.Add([]byte("a: &b {resolver: git, params: [{name: pathInRepo, value: x}]}\nb: {<<: *b}\n"))
	f.Add([]byte("a: &a\n  taskRef: *a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		before, err := refs.Find(data)
		if err != nil {
			return
		}
		out, err := refs.Rewrite(data, git, nil)
		if err != nil {
			return
		}
		after, err := refs.Find(out)
		if err != nil {
			t.Fatalf("%v in %q, from %q", err, out, data)
		}
		if len(before) != len(after) {
			t.Errorf("%d references, before %d: %q from %q", len(after), len(before), out, data)
		}
	})
}

// server is what moves between two fetches: main is HEAD, and so is the tag 1.0 of an image.
type server struct {
	fetches int
	files   map[string]string
}

func (s *server) fetchResource(_ context.Context, r requester.Ref) (*requester.Resource, error) {
	s.fetches++
	by := map[string]string{}
	for _, p := range r.Params {
		by[p.Name] = p.Value.StringVal
	}
	at := fmt.Sprintf("%040d", s.fetches)
	out := &requester.Resource{Source: &v1beta1.RefSource{Digest: map[string]string{}}, Annotations: map[string]string{}}
	if r.Resolver == "bundles" {
		_, digest, ok := strings.Cut(by["bundle"], "@sha256:")
		if !ok {
			digest = at
		}
		out.Source.URI, out.Source.Digest["sha256"], out.Source.EntryPoint = "index.docker.io/library/b", digest, by["name"]
		out.Data = []byte(s.files[by["name"]])
		return out, nil
	}
	switch by["revision"] {
	case "", "HEAD", "main", "refs/heads/main":
		out.Annotations["sluice.dev/revisions"] = "HEAD main refs/heads/main"
	default:
		at = by["revision"]
	}
	out.Source.URI, out.Source.Digest["sha1"], out.Source.EntryPoint = "git+https://git.test/r", at, by["pathInRepo"]
	out.Data = []byte(s.files[by["pathInRepo"]])
	return out, nil
}

func refTo(kind, resolver string, pairs ...string) string {
	text := kind + ": {resolver: " + resolver + ", params: ["
	for i := 0; i < len(pairs); i += 2 {
		text += fmt.Sprintf("{name: %s, value: %q},", pairs[i], pairs[i+1])
	}
	return text + "]}\n---\n"
}

func TestARunSeesOneCommitAndOneDigest(t *testing.T) {
	const url = "https://git.test/r"
	in := func(revision string, more ...string) string {
		if revision != "" {
			more = append(more, "revision", revision)
		}
		return refTo("taskRef", "git", append(more, "url", url+".git", "pathInRepo", "a")...)
	}
	every := in("main") + in("refs/heads/main") + in("heads/main") + in("HEAD") + in("") +
		refTo("taskRef", "git", "url", "ssh://git@GIT.test:22/r", "revision", "main", "pathInRepo", "a")
	q := refTo("pipelineRef", "git", "url", url, "pathInRepo", "q")
	images := refTo("taskRef", "bundles", "bundle", "b:latest", "name", "t") + refTo("taskRef", "bundles", "bundle", "docker.io/library/b", "name", "t")
	for name, test := range map[string]struct {
		root refs.Origin
		data string
		want int // how many commits or digests
	}{
		"nested":           {refs.Origin{Ref: ref("git", "url", url, "revision", "main", "pathInRepo", "p")}, in("main") + q, 1},
		"no revision":      {refs.Origin{Ref: ref("git", "url", url, "pathInRepo", "p")}, q + every, 1},
		"the full name":    {refs.Origin{Ref: ref("git", "url", url, "revision", "refs/heads/main", "pathInRepo", "p")}, every + q, 1},
		"HEAD":             {refs.Origin{Ref: ref("git", "url", url, "revision", "HEAD", "pathInRepo", "p")}, every, 1},
		"from elsewhere":   {refs.Origin{Ref: ref("http", "url", "https://web.test/p"), Source: &v1beta1.RefSource{URI: "https://web.test/p"}}, in("HEAD") + every + q, 1},
		"another revision": {refs.Origin{Ref: ref("git", "url", url, "revision", "main", "pathInRepo", "p")}, in("v1") + q, 2},
		"an image":         {refs.Origin{Ref: ref("bundles", "bundle", "b", "name", "p")}, images + refTo("pipelineRef", "bundles", "bundle", "b", "name", "qb"), 1},
		"another's image":  {refs.Origin{Ref: ref("http", "url", "https://web.test/p"), Source: &v1beta1.RefSource{URI: "https://web.test/p"}}, images, 1},
	} {
		s := &server{files: map[string]string{"q": every, "qb": images}}
		if test.root.Source == nil {
			res, err := s.fetchResource(t.Context(), test.root.Ref)
			if err != nil {
				t.Fatal(err)
			}
			test.root.Source, test.root.Annotations = res.Source, res.Annotations
		}
		test.root.Pins = &refs.Pins{}
		list, _, err := refs.Collect(t.Context(), test.root, []byte(test.data), nil, refs.Limits{}, s.fetchResource)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		seen := map[string]bool{}
		for _, c := range list {
			if d := c.Source.Digest["sha1"] + c.Source.Digest["sha256"]; d != "" {
				seen[d] = true
			}
			// The pinned form names what was fetched, with nothing that can move.
			origin := refs.Origin{Ref: c.Ref, Source: c.Source, Annotations: c.Annotations, Pins: test.root.Pins}
			out, err := refs.Rewrite(c.Data, origin, nil)
			for _, moves := range []string{"value: main", "value: heads/main", "value: refs/heads/main", "value: HEAD", "value: b:latest"} {
				if err != nil || strings.Contains(string(out), moves) {
					t.Errorf("%s: %v, %q in\n%s", name, err, moves, out)
				}
			}
		}
		if len(seen) != test.want {
			t.Errorf("%s: it sees %d, want %d: %v", name, len(seen), test.want, seen)
		}
	}
}

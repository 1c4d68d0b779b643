package resolve_test

import (
	"context"
	"strings"
	"testing"

	"sluice.dev/resolve"
)

func TestContentIsOfTheKindsThatTheOperatorAllows(t *testing.T) {
	const task = "apiVersion: tekton.dev/v1\nkind: Task\n"
	for name, test := range map[string]struct {
		kinds, data string
		ok          bool
	}{
		"all":                                  {"*", "token", true},
		"not said":                             {"", "token", true},
		"a group":                              {"*.tekton.dev", task, true},
		"JSON":                                 {"*.tekton.dev", `{"kind":"Task","apiVersion":"tekton.dev/v1beta1"}`, true},
		"a comment and an empty document":      {"*.tekton.dev", "# x\n---\n---\n" + task, true},
		"several":                              {"*.tekton.dev", task + "---\n" + task, true},
		"a kind of a group":                    {"Pipeline.tekton.dev, Task.tekton.dev", task, true},
		"a kind in other letters":              {"PIPELINE.Tekton.dev task.TEKTON.dev", task, true},
		"the core group":                       {"ConfigMap", "apiVersion: v1\nkind: ConfigMap\n", true},
		"another kind":                         {"Pipeline.tekton.dev", task, false},
		"another group":                        {"*.tekton.dev", "apiVersion: tekton.dev.evil.org/v1\nkind: Task\n", false},
		"a Secret":                             {"*.tekton.dev", "apiVersion: v1\nkind: Secret\n", false},
		"a Secret behind a Task":               {"*.tekton.dev", task + "---\napiVersion: v1\nkind: Secret\n", false},
		"a token":                              {"*.tekton.dev", "abcdef", false},
		"nothing":                              {"*.tekton.dev", "# nothing", false},
		"garbage":                              {"*.tekton.dev", "\x00\x01{", false},
		"a list":                               {"*.tekton.dev", "- " + strings.ReplaceAll(task, "\n", "\n  "), false},
		"no kind":                              {"*.tekton.dev", "apiVersion: tekton.dev/v1\n", false},
		"a kind that is no text":               {"*.tekton.dev", "apiVersion: tekton.dev/v1\nkind: [Task]\n", false},
		"a kind that stands there twice":       {"*.tekton.dev", task + "kind: Secret\n", false},
		"a kind that stands there in capitals": {"*.tekton.dev", task + "Kind: Secret\n", false},
		"a kind that is merged":                {"*.tekton.dev", "x: &x {kind: Secret}\n" + task + "<<: *x\n", false},
		"an alias bomb":                        {"*.tekton.dev", task + "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]\n", true},
		"the core group is no empty group":     {"*.tekton.dev", "apiVersion: v1\nkind: Task\n", false},
		"large":                                {"*.tekton.dev", task + "spec: [" + strings.Repeat("x,", 100_000) + "]\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := runner(t, spec(), resolve.Options{}, func(context.Context, *resolve.Request) (*resolve.Resource, error) { return resource(test.data), nil })
			if err := r.Configure("fake", map[string]string{resolve.KeyContentKinds: test.kinds}); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second comes from the cache
				_, err := r.Resolve(t.Context(), ask("p", str("cache", "always")))
				if test.ok && err != nil || !test.ok && reason(err) != resolve.ReasonForbidden {
					t.Errorf("got %v", err)
				}
			}
		})
	}
	r := runner(t, spec(), resolve.Options{}, func(context.Context, *resolve.Request) (*resolve.Resource, error) { return resource(task), nil })
	for _, bad := range []string{"Task/tekton.dev", ",", "*.", "a*", "Task", "tasks.tekton.dev", "# Task.tekton.dev"} {
		if err := r.Configure("fake", map[string]string{resolve.KeyContentKinds: bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
		if _, err := r.Resolve(t.Context(), ask("p")); reason(err) != resolve.ReasonForbidden {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAWrongDefaultIsAnError(t *testing.T) {
	for value, want := range map[string]string{"*.tekton.dev": "", "tasks.tekton.dev": "the default of content-kinds: ", " ": "it names no kind"} {
		registry, err := resolve.NewRegistry(&fake{spec(), nil})
		if err != nil {
			t.Fatal(err)
		}
		_, err = resolve.NewRunner(resolve.Options{Resolvers: registry, Defaults: map[string]map[string]string{"fake": {resolve.KeyContentKinds: value}}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// A list of kinds means what it seems to, or is an error that names what is allowed.
func TestListsOfKinds(t *testing.T) {
	for list, want := range map[string]string{
		"Task.tekton.dev":                        "task.tekton.dev",
		"task.tekton.dev,ConfigMap *.apps *":     "task.tekton.dev configmap. *.apps all",
		"Widget.example.com Things.acme.io":      "widget.example.com things.acme.io",
		"Deployment.apps Endpoints":              "deployment.apps endpoints.",
		"ClusterTask.Tekton.dev\nRun.tekton.dev": "clustertask.tekton.dev run.tekton.dev",
	} {
		kinds, err := resolve.ParseKinds(list)
		var got []string
		for _, k := range kinds {
			if k.All {
				got = append(got, "all")
			} else {
				got = append(got, k.Name+"."+k.Group)
			}
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
	for list, want := range map[string]string{
		"":                                "it names no kind",
		" , ":                             "it names no kind",
		"# Task.tekton.dev":               `"#": it is no kind`,
		"Task":                            `"Task": the core group has no such kind`,
		"configmaps":                      "it is in the plural; the kind is ConfigMap",
		"Confgmap":                        `(did you mean "ConfigMap"?)`,
		"Tasks.tekton.dev":                "it is in the plural; the kind is Task.tekton.dev",
		"verificationpolicies.tekton.dev": "the kind is VerificationPolicy.tekton.dev",
		"tekton.dev/v1/Task":              "it has a slash",
		"tekton.dev/Task":                 "it has a slash",
		"Task.tekton.dev/v1":              "it has a slash",
		"v1/ConfigMap":                    "it has a slash",
		"Task.v1.tekton.dev":              "it has a version",
		"ConfigMap.v1":                    "it has a version",
		"Task.v1beta1.tekton.dev":         "it has a version",
		"ConfigMap.core":                  "there is no group core",
		"Task.tekton":                     "there is no group tekton",
		"tekton.dev":                      "there is no group dev",
		"Deployment.app":                  `(did you mean "apps"?)`,
		"*.":                              "it is no kind",
		"*.*":                             "it is no kind",
		"Task.*":                          "it is no kind",
		"*tekton.dev":                     "it is no kind",
		"**":                              "it is no kind",
		"[Task.tekton.dev]":               "it is no kind",
		"Task.tekton.dev;ConfigMap":       "it is no kind",
		"Task.tekton.dev.":                "it is no kind",
		"!Secret":                         "it is no kind",
	} {
		kinds, err := resolve.ParseKinds("Task.tekton.dev," + list)
		if strings.Trim(list, " ,") == "" {
			kinds, err = resolve.ParseKinds(list)
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "want *, or kinds such as Task.tekton.dev") {
			t.Errorf("%q: %v, %v", list, kinds, err)
		}
	}
}

func TestContentThatStandsForAFileIsNamed(t *testing.T) {
	const pointer, page, object = "a pointer of Git LFS", "an HTML page", "is no Kubernetes object"
	for data, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n":      pointer,
		"\uFEFFversion https://hawser.github.com/spec/v1\noid sha256:ab\nsize 3\n": pointer,
		"version http://git-media.io/v/2\noid sha256:ab\nsize 3\n":                 pointer,
		"\n<!DOCTYPE html>\n<html><body>Sign in</body></html>":                     page,
		"<html lang=en>": page,
		"<HTML>":         page,
		"\uFEFF \r\n<!-- a comment\n of two lines -->\n<!-- --><!doctype  HTML PUBLIC \"\">": page,
		"<?xml version=\"1.0\"?>\n<!DOCTYPE html>":                                           page,
		"<head><title>Sign in</title>":                                                       page,
		strings.Repeat(" \n", 5000) + "<Body>":                                               page,
		"<!-- " + strings.Repeat("x", 5000) + " --><form action=login>":                      page,
		"# <html>\njust a word":                                                              object,
		"<htmlish>":                                                                          object,
		"version https://git-lfs.github.com.evil.example/spec/v1":                            object,
		"\x1f\x8b\x08\x00":                                                                   "compressed by gzip",
		"just a word":                                                                        object,
		"apiVersion: v1\nkind: ConfigMap\ndata: {x: <html>, y: version https://git-lfs.github.com/spec/v1}": "of the kind \"ConfigMap\"",
	} {
		for kinds, told := range map[string]bool{"": want == pointer || want == page, "Task.tekton.dev": true} {
			r := runner(t, spec(), resolve.Options{}, func(context.Context, *resolve.Request) (*resolve.Resource, error) {
				return resource(data), nil
			})
			if err := r.Configure("fake", map[string]string{resolve.KeyContentKinds: kinds}); err != nil {
				t.Fatal(err)
			}
			_, err := r.Resolve(t.Context(), ask("p"))
			if told != (err != nil) || told && !strings.Contains(err.Error(), want) {
				t.Errorf("%.80q, kinds %q: %v", data, kinds, err)
			}
		}
	}
}

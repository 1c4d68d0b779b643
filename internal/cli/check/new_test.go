package check

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/internal/cli/command"
	"sluice.dev/report"
	"sluice.dev/tools/gittest"
)

func crdText(singular string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: %[1]ss, singular: %[1]s, kind: %[2]s}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string}}}}}}}
`, singular, strings.ToUpper(singular[:1])+singular[1:])
}

// repository makes a git repository of the commits, with the tags v1, v2 and so on, and goes there.
func repository(t *testing.T, commits ...map[string]string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	gittest.Run(t, dir, nil, "init", "-q", "-b", "main")
	for i, files := range commits {
		for name, text := range files {
			if text == "" {
				gittest.Run(t, dir, nil, "rm", "-q", name)
				continue
			}
			writeFile(t, name, text)
		}
		gittest.Run(t, dir, nil, "add", "-A")
		gittest.Run(t, dir, nil, "commit", "-q", "--allow-empty", "-m", "x")
		gittest.Run(t, dir, nil, "tag", fmt.Sprintf("v%d", i+1))
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func runWith(t *testing.T, newCommand func(*command.Env) *cobra.Command, in string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	e := &command.Env{In: strings.NewReader(in), Out: &out, Err: &errs, Now: time.Now, Getenv: func(string) string { return "" }}
	code = command.Run(t.Context(), e, args, newCommand)
	return code, out.String(), errs.String()
}

var saysSafe = regexp.MustCompile(`(?i)\bsafe\b`)

// A CRD that was compared with nothing is never called safe: whatever way leads to it, and in every format.
func TestWhatIsComparedWithNothingIsNotCalledSafe(t *testing.T) {
	gadget, widget := crdText("gadget"), crdText("widget")
	both := widget + "---\n" + gadget
	list := "apiVersion: v1\nkind: List\nitems:\n"
	for _, doc := range []string{widget, gadget} {
		list += "- " + strings.ReplaceAll(strings.TrimSpace(doc), "\n", "\n  ") + "\n"
	}
	files := map[string]string{"old.yaml": widget, "new.yaml": both, "list.yaml": list, "a/x.yaml": widget, "b/x.yaml": widget, "b/y.yaml": gadget}
	unread := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }
	for name, way := range map[string]struct {
		commits []map[string]string
		args    []string
		in      string
		alone   bool // no other CRD is in the report
		says    string
	}{
		"two files":                            {commits: []map[string]string{files}, args: []string{"old.yaml", "new.yaml"}},
		"two folders":                          {commits: []map[string]string{files}, args: []string{"a", "b"}},
		"a list":                               {commits: []map[string]string{files}, args: []string{"old.yaml", "list.yaml"}},
		"standard input":                       {commits: []map[string]string{files}, args: []string{"old.yaml", "-"}, in: both},
		"two revisions":                        {commits: []map[string]string{{"w.yaml": widget}, {"g.yaml": gadget}}, args: []string{"--git", "v1..v2"}},
		"the merge base":                       {commits: []map[string]string{{"w.yaml": widget}, {"g.yaml": gadget}}, args: []string{"--git", "v1...v2"}},
		"a revision and the work tree":         {commits: []map[string]string{{"w.yaml": widget}, {"g.yaml": gadget}}, args: []string{"--git", "v1"}},
		"a revision as a source":               {commits: []map[string]string{{"w.yaml": widget}, {"g.yaml": gadget}}, args: []string{"git:v1:w.yaml", "git:v2"}},
		"a revision without CRDs":              {commits: []map[string]string{{"README": "x"}, {"g.yaml": gadget}}, args: []string{"--git", "v1..v2"}, alone: true},
		"a file that one revision lacks":       {commits: []map[string]string{{"w.yaml": widget}, {"g.yaml": gadget}}, args: []string{"--git", "v1..v2", "g.yaml"}, alone: true, says: `"./g.yaml" is not in revision "v1"`},
		"a file that the revision lacks":       {commits: []map[string]string{{"w.yaml": widget}, {"g.yaml": gadget}}, args: []string{"--git", "v1", "g.yaml"}, alone: true, says: `"./g.yaml" is not in revision "v1"`},
		"one of two files":                     {commits: []map[string]string{{"w.yaml": widget}, {"g.yaml": gadget}}, args: []string{"--git", "v1..v2", "w.yaml", "g.yaml"}, says: "does not have ./g.yaml"},
		"a CRD that the cluster does not have": {commits: []map[string]string{{"g.yaml": gadget}}, args: []string{"g.yaml", "--new-crds=allow", "--kube-version=1.36", "--kubeconfig=" + fakeCluster(t, unread)}, alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			repository(t, way.commits...)
			for _, p := range report.Printers() {
				code, out, errs := runWith(t, New, way.in, append([]string{"-o", p.Name}, way.args...)...)
				if code != 0 {
					t.Fatalf("%s: exit code %d: %s%s", p.Name, code, errs, out)
				}
				if !strings.Contains(errs, way.says) {
					t.Errorf("the notes do not say %q: %s", way.says, errs)
				}
				requireTold(t, p.Name, out, way.alone)
			}
		})
	}
}

func requireTold(t *testing.T, format, out string, alone bool) {
	t.Helper()
	told := "compared with nothing"
	switch format {
	case "json":
		told = `"verdict": "new"`
	case "yaml":
		told = "verdict: new"
	case "sarif":
		told = `"comparedWithNothing"`
	}
	if !strings.Contains(out, told) {
		t.Errorf("%s does not say %q:\n%s", format, told, out)
	}
	if alone && saysSafe.MatchString(out) {
		t.Errorf("%s says safe:\n%s", format, out)
	}
	if alone && strings.Contains(out, "PASS") {
		t.Errorf("%s passes what was compared with nothing:\n%s", format, out)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "gadget") && !strings.Contains(line, "widget") && saysSafe.MatchString(line) {
			t.Errorf("%s calls it safe: %s", format, line)
		}
	}
}

// A file that moved is compared with what it was.
func TestAMovedFileIsComparedWithWhatItWas(t *testing.T) {
	gadget := crdText("gadget")
	tight := strings.Replace(gadget, "type: string", "type: string, maxLength: 3", 1)
	repository(t, map[string]string{"old/g.yaml": gadget, "broken.yaml": "gadgets.example.org: [", ".hidden/g.yaml": tight}, map[string]string{"old/g.yaml": "", "new/g.yaml": tight, "broken.yaml": "", "x": "x"})
	for name, args := range map[string][]string{
		"a file":                        {"--git", "v1..v2", "new/g.yaml"},
		"a folder":                      {"--git", "v1..v2", "new"},
		"a file of the work tree":       {"--git", "v1", "new/g.yaml"},
		"the folder in which one is":    {"--git", "v1...HEAD", "./new"},
		"a revision as a source":        {"git:v1:old", "new"},
		"a revision as a source, twice": {"git:v1:old/g.yaml", "git:v2:new/g.yaml"},
	} {
		code, out, errs := runWith(t, New, "", args...)
		if code != 1 || !strings.Contains(out, "max-length-lowered") {
			t.Errorf("%s: exit code %d: %s%s", name, code, errs, out)
		}
	}
}

// A CRD in a new folder is compared with the release before it, of several in the old revision that differ.
func TestANewReleaseFolderIsComparedWithTheLastOne(t *testing.T) {
	gadget := func(most string) string {
		return strings.Replace(crdText("gadget"), "type: string", "type: string, maxLength: "+most, 1)
	}
	repository(t, map[string]string{"deploy/1.9/g.yaml": gadget("5"), "deploy/1.10/g.yaml": gadget("9")}, map[string]string{"deploy/1.11/g.yaml": gadget("7")})
	for _, args := range [][]string{{"--git", "v1...v2", "deploy/1.11/g.yaml"}, {"--git", "v1...v2", "deploy/1.11"}, {"--git", "v1...v2"}} {
		if code, out, errs := runWith(t, New, "", args...); code != 1 || !strings.Contains(out, "max-length-lowered") || !strings.Contains(errs+out, "deploy/1.10/g.yaml") {
			t.Errorf("%v: exit code %d: %s%s", args, code, errs, out)
		}
	}
}

// Of several old copies that differ, the one that is gone has moved; and a link that leads nowhere does not end the search.
func TestTheCopyThatIsGoneHasMoved(t *testing.T) {
	gadget := crdText("gadget")
	other := strings.Replace(gadget, "type: string", "type: integer", 1)
	repository(t, map[string]string{"x/v1/g.yaml": gadget, "y/g.yaml": other}, map[string]string{"x/v1/g.yaml": "", "n/g.yaml": gadget + "# moved\n"}, map[string]string{"n/g.yaml": other})
	if err := os.Symlink("/nowhere", "docs.yaml"); err != nil {
		t.Fatal(err)
	}
	gittest.Run(t, ".", nil, "checkout", "-q", "v1")
	gittest.Run(t, ".", nil, "add", "-A")
	gittest.Run(t, ".", nil, "commit", "-q", "-m", "x")
	gittest.Run(t, ".", nil, "tag", "linked")
	gittest.Run(t, ".", nil, "checkout", "-q", "v3")
	for _, old := range []string{"v1", "linked"} {
		for args, want := range map[string]int{old + "..v2 n": 0, old + "..v3 n": 1, old + " n": 1} {
			if code, out, errs := runWith(t, New, "", append([]string{"--git"}, strings.Fields(args)...)...); code != want || strings.Contains(out, "NEW") {
				t.Errorf("%s: exit code %d, want %d: %s%s", args, code, want, errs, out)
			}
		}
	}
}

// A repository that is reached through a link is the same repository, and what a link within it leads to is in it, unless git ignores it.
func TestALinkWithinTheRepositoryIsFollowed(t *testing.T) {
	repository(t, map[string]string{"real/g.yaml": crdText("gadget"), "crds/w.yaml": crdText("widget")})
	for _, link := range [][2]string{{"../real/g.yaml", "crds/g.yaml"}} {
		if err := os.Symlink(link[0], link[1]); err != nil {
			t.Fatal(err)
		}
	}
	gittest.Run(t, ".", nil, "add", "-A")
	gittest.Run(t, ".", nil, "commit", "-q", "-m", "x")
	writeFile(t, ".git/info/exclude", "ignored\n")
	writeFile(t, "ignored/g.yaml", strings.Replace(crdText("gadget"), "type: string", "type: integer", 1))
	if err := os.Symlink("ignored", "link"); err != nil {
		t.Fatal(err)
	}
	gittest.Run(t, ".", nil, "clone", "-q", ".", "nested")
	writeFile(t, "nested/real/g.yaml", strings.Replace(crdText("gadget"), "type: string", "type: integer", 1))
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(here, linked); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{here, linked} {
		t.Chdir(dir)
		t.Setenv("PWD", dir)
		for _, args := range [][]string{{"--git", "HEAD"}, {"--git", "HEAD", "crds"}, {"git:HEAD:crds", "crds"}} {
			if code, out, errs := runWith(t, New, "", args...); code != 0 || strings.Contains(out, "NEW") {
				t.Errorf("%s, %v: exit code %d: %s%s", dir, args, code, errs, out)
			}
		}
	}
}

// What tests read is no API: it neither hides the removal of a CRD nor is a CRD compared with it, unless somebody names its folder.
func TestCRDsOfTestsAreLeftOut(t *testing.T) {
	gadget := func(most string) string {
		return strings.Replace(crdText("gadget"), "type: string", "type: string, maxLength: "+most, 1)
	}
	const left = "note: CRDs in folders of tests (testdata, src/test) are left out"
	for name, row := range map[string]struct {
		old, next map[string]string
		args      []string
		code      int
		says      []string
	}{
		"a copy stays":          {map[string]string{"crds/g.yaml": gadget("9"), "a/testdata/g.yaml": gadget("9"), "w.yaml": crdText("widget")}, map[string]string{"crds/g.yaml": ""}, nil, 1, []string{"crd-removed", left}},
		"a fixture changes":     {map[string]string{"w.yaml": crdText("widget"), "src/test/g.yaml": gadget("9")}, map[string]string{"src/test/g.yaml": gadget("3")}, nil, 0, []string{left}},
		"a fixture is broken":   {map[string]string{"w.yaml": crdText("widget"), "testdata/g.yaml": gadget("9")}, map[string]string{"testdata/g.yaml": "kind: CustomResourceDefinition\nspec: ["}, nil, 0, []string{left}},
		"a fixture is promoted": {map[string]string{"w.yaml": crdText("widget"), "testdata/g.yaml": gadget("9")}, map[string]string{"crds/g.yaml": gadget("3")}, nil, 0, []string{"NEW", "compared with nothing"}},
		"a CRD moves":           {map[string]string{"crds/g.yaml": gadget("9"), "testdata/g.yaml": gadget("1")}, map[string]string{"crds/g.yaml": "", "charts/g.yaml": gadget("3")}, []string{"charts"}, 1, []string{"max-length-lowered", "compared with crds/g.yaml"}},
		"a part of src":         {map[string]string{"src/main/g.yaml": gadget("9"), "src/test/g.yaml": gadget("9"), "src/w.yaml": crdText("widget")}, map[string]string{"src/main/g.yaml": ""}, []string{"src"}, 1, []string{"crd-removed", left}},
		"the folder is named":   {map[string]string{"testdata/g.yaml": gadget("9")}, map[string]string{"testdata/g.yaml": gadget("3")}, []string{"testdata"}, 1, []string{"max-length-lowered"}},
		"there is nothing else": {map[string]string{"testdata/g.yaml": gadget("9")}, map[string]string{"testdata/g.yaml": gadget("3")}, nil, 2, []string{left, "no CustomResourceDefinition"}},
	} {
		t.Run(name, func(t *testing.T) {
			repository(t, row.old, row.next)
			for _, revs := range []string{"v1...v2", "v1"} {
				code, out, errs := runWith(t, New, "", append([]string{"--git", revs}, row.args...)...)
				for _, want := range row.says {
					if code != row.code || !strings.Contains(out+errs, want) {
						t.Errorf("%s: exit code %d, want %d and %q: %s%s", revs, code, row.code, want, errs, out)
					}
				}
			}
		})
	}
}

// What leads nowhere, and what git does not know, neither hides a CRD nor adds one. Each row changes a repository with a CRD between two
// revisions, and stands beside an unsafe change of it, and beside none.
func TestFilesThatAreInNoRevisionChangeNothing(t *testing.T) {
	link := func(target, name string) func() error { return func() error { return os.Symlink(target, name) } }
	file := func(name, text string) func() error {
		return func() error {
			return errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600))
		}
	}
	wide := strings.Replace(crdText("gadget"), "type: string", "type: string, maxLength: 9", 1)
	tight := strings.Replace(wide, "9", "3", 1)
	for name, row := range map[string]struct {
		old, next []func() error
	}{
		"a link to nothing in the old revision":    {old: []func() error{link("nowhere", "x.yaml")}, next: []func() error{func() error { return os.Remove("x.yaml") }}},
		"a link to nothing in the new revision":    {next: []func() error{link("nowhere", "x.yaml")}},
		"a link to nothing in both":                {old: []func() error{link("nowhere", "x.yaml")}},
		"a link out of the repository":             {next: []func() error{link("/etc/hostname", "x.yaml")}},
		"a link to itself":                         {old: []func() error{link("self", "self")}, next: []func() error{link("y.yaml", "y.yaml")}},
		"a link to a folder that contains it":      {old: []func() error{link(".", "here")}, next: []func() error{link("..", "crds/up")}},
		"a link to a folder beside the repository": {next: []func() error{link("../..", "out")}},
		"a file that git ignores":                  {old: []func() error{file(".gitignore", "build/\nnode_modules\n")}, next: []func() error{file("build/g.yaml", strings.Replace(wide, "9", "1", 1)), file("crds/node_modules/h.yaml", crdText("widget"))}},
	} {
		for _, unsafe := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", unsafe ", unsafe), func(t *testing.T) {
				repository(t, map[string]string{"crds/g.yaml": wide})
				do := func(steps []func() error, tag string) {
					for _, step := range steps {
						if err := step(); err != nil {
							t.Fatal(err)
						}
					}
					gittest.Run(t, ".", nil, "add", "-A")
					gittest.Run(t, ".", nil, "commit", "-q", "--allow-empty", "-m", "x")
					gittest.Run(t, ".", nil, "tag", tag)
				}
				do(row.old, "old")
				text := wide + "# a change\n"
				if unsafe {
					text = tight
				}
				writeFile(t, "crds/g.yaml", text)
				do(row.next, "new")
				for _, args := range [][]string{{"--git", "old...new"}, {"--git", "old"}, {"git:old:.", "."}, {"git:old:crds", "crds"}} {
					code, out, errs := runWith(t, New, "", args...)
					if want := map[bool]int{true: 1}[unsafe]; code != want || unsafe && !strings.Contains(out, "max-length-lowered") || strings.Contains(out, "NEW") || strings.Contains(out, "removed") {
						t.Errorf("%v: exit code %d: %s%s", args, code, errs, out)
					}
				}
			})
		}
	}
}

// A submodule is named in the report if its commit changed, and so is a path in one.
func TestSubmodulesAreNamed(t *testing.T) {
	repository(t, map[string]string{"g.yaml": crdText("gadget")}, map[string]string{"g.yaml": crdText("gadget") + "\n"})
	inner, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	repository(t, map[string]string{"w.yaml": crdText("widget")})
	gittest.Run(t, ".", nil, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "sub")
	gittest.Run(t, ".", nil, "commit", "-q", "-m", "x")
	gittest.Run(t, ".", nil, "tag", "added")
	gittest.Run(t, "sub", nil, "checkout", "-q", "v1")
	gittest.Run(t, ".", nil, "commit", "-qam", "y")
	gittest.Run(t, ".", nil, "tag", "changed")
	gittest.Run(t, ".", nil, "commit", "-q", "--allow-empty", "-m", "z")
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"new":                    {[]string{"--git", "v1..added"}, "note: the submodule sub is new, and its CRDs are not compared"},
		"another commit":         {[]string{"--git", "added...changed"}, "note: the submodule sub changes from [0-9a-f]{12} to [0-9a-f]{12}, and its CRDs are not compared: run sluice check --git"},
		"another, in JSON":       {[]string{"--git", "added...changed", "-o", "json"}, `"remarks": \[\s*"the submodule sub changes from`},
		"another, in YAML":       {[]string{"--git", "added...changed", "-o", "yaml"}, `remarks:\s*- 'the submodule sub changes from`},
		"another, in HTML":       {[]string{"--git", "added...changed", "-o", "html"}, "Note: the submodule sub changes from"},
		"another, in markdown":   {[]string{"--git", "added...changed", "-o", "markdown"}, "the submodule sub changes from"},
		"another, in SARIF":      {[]string{"--git", "added...changed", "-o", "sarif"}, `"remarks": \[\s*"the submodule sub changes from`},
		"another, in JUnit":      {[]string{"--git", "added...changed", "-o", "junit"}, `<skipped message="the submodule sub changes from`},
		"another, on GitHub":     {[]string{"--git", "added...changed", "-o", "github"}, "::warning title=sluice check::the submodule sub changes from"},
		"another, in a subtree":  {[]string{"--git", "added...changed", "sub", "w.yaml"}, "sub: is a submodule; its files are in another repository"},
		"gone":                   {[]string{"--git", "changed..v1"}, "note: the submodule sub is gone, and its CRDs are not compared"},
		"the same":               {[]string{"--git", "changed...HEAD"}, ""},
		"the work tree":          {[]string{"--git", "HEAD"}, ""},
		"the work tree, another": {[]string{"--git", "added"}, "note: the submodule sub changes from [0-9a-f]{12} to [0-9a-f]{12}"},
		"excluded":               {[]string{"--git", "added...changed", "--exclude", "sub"}, ""},
		"no repository":          {[]string{"w.yaml", "git:HEAD"}, "note: the submodule sub is not read"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := runWith(t, New, "", c.args...)
			if c.says == "" && strings.Contains(out+errs, "submodule") || !regexp.MustCompile(c.says).MatchString(out+errs) {
				t.Errorf("exit code %d, want %q: %s%s", code, c.says, errs, out)
			}
		})
	}
	if code, out, errs := runWith(t, New, "", "--git", "HEAD", "sub/g.yaml"); code != 0 || !strings.Contains(errs, "is in the submodule sub") {
		t.Errorf("a path: exit code %d: %s%s", code, errs, out)
	}
	// What ends with an error has no report, and tells it all the same.
	if code, _, errs := runWith(t, New, "", "--git", "added...changed", "--exclude", "w.yaml"); code != 2 || !strings.Contains(errs, "note: the submodule sub changes") {
		t.Errorf("no CRD: exit code %d: %s", code, errs)
	}
}

// --new-crds counts whatever OLD is.
func TestNewCRDsCountWhateverOldIs(t *testing.T) {
	widget, gadget := crdText("widget"), crdText("gadget")
	repository(t, map[string]string{"old.yaml": widget}, map[string]string{"new.yaml": widget + "---\n" + gadget, "g.yaml": gadget, "old.yaml": ""})
	writeFile(t, "base.yaml", widget)
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"files, by default":            {[]string{"base.yaml", "new.yaml"}, 0, ""},
		"files, fail":                  {[]string{"base.yaml", "new.yaml", "--new-crds=fail"}, 2, "base.yaml does not have gadgets.example.org, and --new-crds=fail"},
		"files, some":                  {[]string{"base.yaml", "new.yaml", "--new-crds=some"}, 0, ""},
		"revisions, by default":        {[]string{"--git", "v1..v2", "g.yaml"}, 0, ""},
		"revisions, some, and all new": {[]string{"--git", "v1..v2", "g.yaml", "--new-crds=some"}, 2, "has none of the CRDs (gadgets.example.org)"},
		"revisions, fail":              {[]string{"--git", "v1..v2", "new.yaml", "--new-crds=fail"}, 2, "does not have gadgets.example.org"},
		"no such value":                {[]string{"base.yaml", "new.yaml", "--new-crds=maybe"}, 2, `--new-crds "maybe"`},
	} {
		code, _, errs := runWith(t, New, "", c.args...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, c.code, errs)
		}
	}
}

// The filter passes what is new, and says so.
func TestTheFilterNamesWhatIsNew(t *testing.T) {
	widget, gadget := crdText("widget"), crdText("gadget")
	repository(t, map[string]string{"old.yaml": widget})
	in := widget + "---\n" + gadget
	code, out, errs := runWith(t, NewFilter, in, "old.yaml")
	if code != 0 || out != in || !strings.Contains(errs, "new: not in old.yaml, compared with nothing: gadgets.example.org") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

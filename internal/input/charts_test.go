package input

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const widgetTemplate = `{{- if .Values.crds }}
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
{{- end }}
`

// writeChart writes a chart and a program helm that runs a script, and returns the folder around the chart.
func writeChart(t *testing.T, script, template string) string {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(dir, "x/Chart.yaml"): "apiVersion: v2\nname: named\nversion: 1.0.0\n", filepath.Join(dir, "x/templates/widget.yaml"): template,
		filepath.Join(dir, "x/values.schema.json"): "{}", filepath.Join(bin, "helm"): "#!/bin/sh\n" + script + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "x/link")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return dir
}

// renders is a script that prints the template without its first and last line, as helm does.
const renders = `test "$1 $2 $3" = "template release ./chart" || exit 3
echo '---'
echo '# Source: named/templates/widget.yaml'
sed '1d;$d' chart/templates/widget.yaml`

func TestAChartIsRenderedOrToldWhyNot(t *testing.T) {
	elseTemplate := strings.Replace(widgetTemplate, "{{- end", "{{ else }}\n{{- end", 1)
	for name, test := range map[string]struct {
		script, template, note string
		rendered, unread       bool
	}{
		"success":                  {script: renders, template: widgetTemplate, rendered: true},
		"both branches":            {script: "sed '/^{{/d' >/dev/null; " + strings.Replace(renders, "sed '1d;$d'", "sed '/^{{/d'", 1), template: elseTemplate, rendered: true},
		"failure":                  {script: "echo 'Error: no such value' >&2; exit 1", template: widgetTemplate, note: "helm template: no such value; lines"},
		"failure without words":    {script: "exit 1", template: widgetTemplate, note: "helm template: exit status 1; lines"},
		"nothing":                  {script: "true", template: widgetTemplate, note: "renders nothing of it"},
		"broken":                   {script: "echo '# Source: named/templates/widget.yaml'; echo 'a: b: c'", template: widgetTemplate, note: "what helm renders of it cannot be read"},
		"huge":                     {script: "exec yes", template: widgetTemplate, note: "helm prints more than 32 MiB"},
		"huge errors":              {script: "yes >&2; exit 1", template: widgetTemplate, note: "helm template"},
		"failure of both branches": {script: "exit 1", template: elseTemplate, unread: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeChart(t, test.script, test.template)
			set, err := Load(t.Context(), Source{Kind: Path, Paths: []string{dir}}, Options{PassTemplates: true, KeepAll: true})
			if test.unread {
				if len(set.Unread) != 1 || !strings.Contains(set.Unread[0].Err.Error(), "it is not rendered: helm template: exit status 1") {
					t.Fatalf("unread: %v (%v)", set.Unread, err)
				}
				return
			}
			if err != nil || len(set.Documents) != 1 || (len(set.Rendered) == 1) != test.rendered {
				t.Fatalf("%d documents, rendered %v, notes %v: %v", len(set.Documents), set.Rendered, set.Unrendered, err)
			}
			if d := set.Documents[0]; d.Key != "0/x/templates/widget.yaml" || d.File != filepath.Join(dir, "x/templates/widget.yaml") || (d.Sum == "") != test.rendered {
				t.Errorf("the definition stands in %s (%s)", d.File, d.Key)
			}
			if notes := fmt.Sprint(set.Unrendered); !strings.Contains(notes, test.note) || (len(set.Unrendered) == 0) != test.rendered {
				t.Errorf("notes: %s", notes)
			}
		})
	}
}

func TestHelmHasItsTime(t *testing.T) {
	dir := filepath.Join(writeChart(t, "sleep 3", widgetTemplate), "x")
	r := &reader{loader: newLoader("", Options{})}
	begin := time.Now()
	_, err := helmProgram{time: 50 * time.Millisecond, most: 1 << 10}.renderChart(t.Context(), dir, surroundings{copyFolder: r.copyFolderBeside})
	if err == nil || !strings.Contains(err.Error(), "did not end within 50ms") {
		t.Error(err)
	}
	if waited := time.Since(begin); waited > 2500*time.Millisecond {
		t.Errorf("it took %s", waited)
	}
}

// What helm writes goes to a folder that is removed, and what it reads is a copy without links and without schemas of values.
func TestHelmStaysInAFolderOfItsOwn(t *testing.T) {
	told := filepath.Join(t.TempDir(), "told")
	t.Setenv("SECRET", "s")
	t.Setenv("HELM_PLUGINS", "/plugins")
	dir := writeChart(t, `test -z "$SECRET" && test ! -e chart/link && test ! -e chart/values.schema.json || exit 4
for d in . .. chart/../.. "$HOME" "$TMPDIR" "$HELM_CACHE_HOME"; do (cd "$d" && pwd); done | sed '2,3d' >`+told+`
echo x >chart/templates/new.yaml; echo x >"$HOME/new"; echo x >new
`+renders, widgetTemplate)
	set, err := Load(t.Context(), Source{Kind: Path, Paths: []string{dir}}, Options{PassTemplates: true, KeepAll: true})
	if err != nil || len(set.Rendered) != 1 {
		t.Fatal(err, set.Unrendered)
	}
	text, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	for place := range strings.FieldsSeq(string(text)) {
		if _, err := os.Stat(place); !os.IsNotExist(err) || strings.HasPrefix(place, dir) {
			t.Errorf("%s is still there: %v", place, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "x/templates/new.yaml")); !os.IsNotExist(err) {
		t.Errorf("helm wrote into the chart: %v", err)
	}
}

func TestASubchartIsRenderedWithTheChartAroundIt(t *testing.T) {
	charts := []string{"a/Chart.yaml", "a/charts/b/Chart.yaml", "charts/c/Chart.yaml", "Chart.yaml"}
	for name, want := range map[string]string{
		"a/templates/x.yaml": "a", "a/templates/crds/x.yaml": "a", "a/charts/b/templates/x.yaml": "a", "charts/c/templates/x.yaml": ".",
		"a/charts/b-1.0.0.tgz/b/templates/x.yaml": "a", "a/charts/b/charts/e-1.0.0.tgz/e/charts/f.tgz/f/templates/x.yaml": "a", "d/charts/g.tgz/g/templates/x.yaml": "",
		"templates/x.yaml": ".", "d/templates/x.yaml": "", "/d/templates/x.yaml": "",
	} {
		s := surroundings{read: func(_ context.Context, name string) ([]byte, error) {
			if !slices.Contains(charts, name) {
				return nil, os.ErrNotExist
			}
			return nil, nil
		}}
		if got := s.chartOf(t.Context(), name); got != want {
			t.Errorf("%s is in the chart %q, want %q", name, got, want)
		}
	}
}

func TestDependenciesThatAreNotThereAreLeftOut(t *testing.T) {
	dir := writeChart(t, "! grep -q absent chart/Chart.yaml && grep -q here chart/Chart.yaml && grep -q packed chart/Chart.yaml || exit 5\n"+renders, widgetTemplate)
	chart := filepath.Join(dir, "x/Chart.yaml")
	for name, text := range map[string]string{
		chart: "{apiVersion: v2, name: named, version: 1.0.0, dependencies: [{name: absent, version: 1}, {name: here}, {name: packed}]}",
		filepath.Join(dir, "x/charts/here/Chart.yaml"): "", filepath.Join(dir, "x/charts/packed-1.0.0.tgz"): "",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := Load(t.Context(), Source{Kind: Path, Paths: []string{dir}}, Options{PassTemplates: true, KeepAll: true})
	if err != nil || len(set.Rendered) != 1 {
		t.Error(err, set.Unrendered)
	}
	if text, err := os.ReadFile(chart); err != nil || !strings.Contains(string(text), "absent") {
		t.Errorf("the chart itself changed: %s %v", text, err)
	}
}

func TestAFolderCalledTemplatesNeedsNoChart(t *testing.T) {
	_, yaml, _ := strings.Cut(strings.TrimSuffix(widgetTemplate, "{{- end }}\n"), "\n")
	dir := writeChart(t, "exit 1", "# a {{ name }}\n"+yaml)
	if err := os.Remove(filepath.Join(dir, "x/Chart.yaml")); err != nil {
		t.Fatal(err)
	}
	set, err := Load(t.Context(), Source{Kind: Path, Paths: []string{dir}}, Options{PassTemplates: true, KeepAll: true})
	if err != nil || len(set.Documents) != 1 || len(set.Unrendered) > 0 {
		t.Error(err, set.Unrendered)
	}
}

// packChart returns a packed chart with the given files.
func packChart(t *testing.T, files map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := archive.WriteHeader(&tar.Header{Name: name, Size: int64(len(files[name])), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(archive, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A packed chart in the folder charts has its CRDs in its folder crds and among its templates, which helm renders with the chart around it.
func TestAPackedChartIsRead(t *testing.T) {
	dir := writeChart(t, renders+`
echo '---'
echo '# Source: named/charts/sub/templates/widget.yaml'
sed '1d;$d' chart/templates/widget.yaml | sed 's/widget/gizmo/'`, widgetTemplate)
	chart := func(name, version string) string {
		return packChart(t, map[string]string{name + "/crds/x.yaml": crd(version + ".x.io")})
	}
	write := func(name, text string) {
		t.Helper()
		writeTree(t, dir, map[string]string{name: text})
	}
	write("x/charts/sub-1.0.0.tgz", packChart(t, map[string]string{
		"sub/Chart.yaml": "name: sub", "sub/values.yaml": "a: {{", "sub/templates/widget.yaml": widgetTemplate, "sub/templates/service.yaml": "{{ x }}",
		"sub/crds/a.yaml": crd("as.x.io"), "sub/charts/deep-1.0.0.tgz": chart("deep", "deep"), "sub/crds/.hidden.yaml": "{{", "sub/../../crds/b.yaml": "{{",
	}))
	write("other/sub-1.0.0.tgz", chart("sub", "other"))
	load := func() *Set {
		t.Helper()
		set, err := Load(t.Context(), Source{Kind: Path, Paths: []string{"."}}, Options{Dir: dir, PassTemplates: true, KeepAll: true})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	set := load()
	want := []string{
		"as.x.io x/charts/sub-1.0.0.tgz/sub/crds/a.yaml:1", "deep.x.io x/charts/sub-1.0.0.tgz/sub/charts/deep-1.0.0.tgz/deep/crds/x.yaml:1",
		"gizmos.example.com x/charts/sub-1.0.0.tgz/sub/templates/widget.yaml:0", "widgets.example.com x/templates/widget.yaml:0",
	}
	got := places(set)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(set.Unread) > 0 || len(set.Unrendered) > 0 {
		t.Errorf("(-want +got):\n%s%v %v", diff, set.Unread, set.Unrendered)
	}
	nested := chart("sub", "n")
	for range maxPacked {
		nested = packChart(t, map[string]string{"n/charts/n.tgz": nested})
	}
	for name, text := range map[string]string{
		"not packed": "x", "cut off": chart("sub", "cut")[:60], "nested": nested, "a broken CRD": packChart(t, map[string]string{"sub/crds/x.yaml": "kind: CustomResourceDefinition\n{{"}),
		"too large": packChart(t, map[string]string{"sub/x": strings.Repeat("x", maxChartBytes), "sub/y": "y"}),
	} {
		write("x/charts/sub-1.0.0.tgz", text)
		if set := load(); len(set.Unread) != 1 || !strings.HasPrefix(set.Unread[0].Err.Error(), "x/charts/sub-1.0.0.tgz") || set.Unread[0].Sum == "" {
			t.Errorf("%s: %v", name, set.Unread)
		}
	}
}

// TestLinesThatAreOnlyTemplateAreEmptied: what is left has its lines at their places.
func TestLinesThatAreOnlyTemplateAreEmptied(t *testing.T) {
	for text, want := range map[string]string{
		"{{- if .Values.crds }}\na: 1\n{{- end }}\n":                          "\na: 1\n\n",
		"{{- /*\nA licence {{ with }} braces.\n*/ -}}\na: 1\n":                "\n\n\na: 1\n",
		"{{/* one line */}}\n  {{- include \"x\" . | nindent 2 }} \r\na: 1\n": "\n\na: 1\n",
		"{{- include \"x\" (dict\n  \"a\" 1\n) }}\na: 1\n":                    "\n\n\na: 1\n",
		"{{ if .a }}{{ if .b }}\na: 1\n{{ end }}{{ end }}\n":                  "\na: 1\n\n",
		"a: '{{ .Release.Namespace }}'\n{{ if .b }}\nb: {{ .c }}\n":           "a: '{{ .Release.Namespace }}'\n\nb: {{ .c }}\n",
	} {
		if got, ok := withoutTemplateLines(text); got != want || !ok {
			t.Errorf("%q becomes %q, %t; want %q", text, got, ok, want)
		}
	}
	for _, text := range []string{"a: 1\n", "{{ if .a }}\na: 1\n{{ else }}\na: 2\n{{ end }}\n", "{{/* never ends\na: 1\n"} {
		if got, ok := withoutTemplateLines(text); ok {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

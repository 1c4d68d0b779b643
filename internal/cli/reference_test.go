package cli

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"sluice.dev/feature/gate"
	"sluice.dev/internal/controller/delivery"
	"sluice.dev/internal/controller/features"
	"sluice.dev/internal/controller/guard"
	"sluice.dev/internal/controller/resolution"
	"sluice.dev/internal/process"
)

// TestTheReferenceIsCurrent writes docs/reference.md and docs/commands.md from the code with -update, and compares them with it
// otherwise.
func TestTheReferenceIsCurrent(t *testing.T) {
	for name, page := range map[string]string{"reference.md": referencePage(t), "commands.md": commandsPage()} {
		file := filepath.Join("..", "..", "docs", name)
		if *update {
			if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		now, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(string(now), page); diff != "" {
			t.Errorf("%s is not current; write it with: go test ./internal/cli -run TheReferenceIsCurrent -update (-file +now)\n%s", file, diff)
		}
	}
}

func referencePage(t *testing.T) string {
	var b strings.Builder
	b.WriteString(`# Reference: output, statuses, events and metrics

A test writes this page from the code. Other pages have the [commands](commands.md), the [rules](rules.md), the
[keys of Components and Features](features-reference.md), and the [parameters of resolvers](resolvers.md).

## Exit codes

All commands have the same exit codes.

`)
	table(&b, "code", "meaning")
	for _, c := range constants(t, "command/run.go") {
		if c.group == "Exit codes of every command." {
			row(&b, "`"+c.value+"`", c.text)
		}
	}
	own, none := failing()
	b.WriteString(`
## Documents for programs

With ` + "`-o json`" + ` a command prints one document with ` + "`apiVersion` and `kind`. `sluice features compile`" + ` prints Kubernetes objects instead. Each kind
has a JSON Schema. The version in its name is that of ` + "`apiVersion`" + `.

If a command fails (exit code 2) before it has printed anything, it prints a document with ` + "`outcome: failed` and `error`" + `:

- with their own kind: ` + own + `;
- no document: ` + none + `;
- the kind ` + "`Error`" + `: all other commands.

`)
	documentsTable(&b)
	b.WriteString(`
## Schemas for editors

These JSON Schemas describe [configuration files](configuration.md) and the features of a component. Editors use them to complete keys and to mark
mistakes.

`)
	table(&b, "file", "schema")
	row(&b, "[`features.yaml`](features-life.md#featuresyaml-says-the-rest)", "[feature-file-v1alpha1.json](schemas/feature-file-v1alpha1.json)")
	row(&b, "`kind: Config`, `apiVersion: sluice.dev/v1alpha1`", "[config-sluice-v1alpha1.json](schemas/config-sluice-v1alpha1.json)")
	row(&b, "`kind: Config`, `apiVersion: kapp.k14s.io/v1alpha1`", "[config-kapp-v1alpha1.json](schemas/config-kapp-v1alpha1.json)")
	row(&b, "[crdify's file](howto/move-from-crdify.md)", "[config-crdify.json](schemas/config-crdify.json)")
	b.WriteString(`
With the YAML language server, name the schema in the first line of the file:

` + "```yaml" + `
# yaml-language-server: $schema=docs/schemas/config-sluice-v1alpha1.json
apiVersion: sluice.dev/v1alpha1
kind: Config
levels: {meaning-changed: warn}
` + "```" + `

## Conditions and their reasons
`)
	statuses(t, &b)
	b.WriteString(`
## Events

`)
	events(t, &b)
	b.WriteString(`
## Metrics

` + "`sluice serve`" + ` serves metrics at ` + "`/metrics`" + `, with those of the Go runtime and the process. A process has the metrics of its roles.

`)
	metrics(t, &b)
	return b.String()
}

// statuses writes the constants of the API packages that are types or reasons of conditions.
func statuses(t *testing.T, b *strings.Builder) {
	t.Helper()
	for _, kind := range []struct {
		title string
		files []string
	}{
		{"ResolutionRequest", []string{"../../api/resolution/resolution.go", "../../resolve/error.go"}},
		{"Component and Feature", []string{"../../api/v1alpha1/component.go", "../../api/v1alpha1/feature.go"}},
		{"Delivery", []string{"../../api/v1alpha1/delivery.go"}},
	} {
		fmt.Fprintf(b, "\n### %s\n", kind.title)
		group := ""
		for _, c := range constants(t, kind.files...) {
			condition := strings.HasPrefix(c.name, "Condition")
			if !condition && !strings.HasPrefix(c.name, "Reason") {
				continue
			}
			if c.group != group {
				group = c.group
				fmt.Fprintf(b, "\n%s\n\n", c.group)
				if condition {
					table(b, "condition", "meaning")
				} else {
					table(b, "reason", "meaning")
				}
			}
			row(b, "`"+c.value+"`", c.text)
		}
	}
}

// eventSources has a row for each function that makes events, by package and function.
var eventSources = map[string][]string{
	"delivery.sendEvents":       {"Delivery", "Normal, Warning", "a reason of the condition `Ready`, `DriftCorrected` or `InventoryLost`", "the status or the reason of `Ready` changes, or the controller has corrected drift"},
	"delivery.finalizeDelivery": {"Delivery", "Warning", "`DeletionIncomplete`", "objects stay after the deletion of the delivery"},
	"features.writeStatus":      {"Feature, Component", "Normal, Warning", "`Opened`, `Closed`; `Restored`, `SettingsPutBack`", "a feature opens or closes; the controller restores a policy, a binding or the ConfigMap"},
	"features.storeStatus":      {"Feature, Component", "Normal, Warning", "a reason of a condition", "a condition changes"},
	"guard.sendEvent":           {"CustomResourceDefinition", "Warning", "`" + guard.EventRefused + "`, `" + guard.EventBypassed + "`", "the guard refuses an unsafe change, or allows it because of an annotation and a permission"},
	"resolution.writeResult":    {"ResolutionRequest", "Warning", "an exact reason", "a resolver ends a request without success"},
	"resolution.endRequest":     {"ResolutionRequest", "Warning", "an exact reason", "the lifecycle controller ends a request without success"},
	"resolution.applyData":      {"ConfigMap", "Warning", "`InvalidConfiguration`", "the ConfigMap of a resolver has an error"},
}

// events writes eventSources, and fails if a function makes events and has no row.
func events(t *testing.T, b *strings.Builder) {
	t.Helper()
	files, err := filepath.Glob("../controller/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "Event" || s.Sel.Name == "Eventf") {
					if of, ok := s.X.(*ast.SelectorExpr); ok && of.Sel.Name == "Recorder" {
						found[file.Name.Name+"."+f.Name.Name] = true
					}
				}
				return true
			})
		}
	}
	if diff := gocmp.Diff(slices.Sorted(maps.Keys(eventSources)), slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("the functions that make events (-described here +in the code)\n%s", diff)
	}
	table(b, "object", "type", "reason", "when")
	for _, source := range slices.Sorted(maps.Keys(eventSources)) {
		row(b, eventSources[source]...)
	}
}

// registered keeps the collectors that are registered with it.
type registered struct{ collectors []prometheus.Collector }

func (r *registered) Register(c prometheus.Collector) error {
	r.collectors = append(r.collectors, c)
	return nil
}

func (r *registered) MustRegister(c ...prometheus.Collector) {
	r.collectors = append(r.collectors, c...)
}

func (*registered) Unregister(prometheus.Collector) bool { return false }

var (
	description = regexp.MustCompile(`^Desc\{fqName: (".*?"), help: ("(?:[^"\\]|\\.)*"), .*variableLabels: \{(.*)\}\}$`)
	metricName  = regexp.MustCompile(`"(sluice_[a-z_]+)"`)
)

// metrics writes the metrics that are registered, and fails if the sources of the module have one that is not among them.
func metrics(t *testing.T, b *strings.Builder) {
	t.Helper()
	gates, err := gate.New(gate.Declaration{Name: "reference"}, gate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	for _, part := range []struct {
		title string
		fill  func(r prometheus.Registerer)
	}{
		{"Every process", func(r prometheus.Registerer) { process.NewMetrics(r, "") }},
		{"Resolution", func(r prometheus.Registerer) { resolution.NewMetrics(r) }},
		{"Features", func(r prometheus.Registerer) { features.NewMetrics(r) }},
		{"Operators that use the Go library for features", func(r prometheus.Registerer) { r.MustRegister(gates.Collector()) }},
		{"Deliveries", func(r prometheus.Registerer) { delivery.NewMetrics(r) }},
		{"The guard of CRDs", func(r prometheus.Registerer) { guard.NewMetrics(r) }},
	} {
		r := &registered{}
		part.fill(r)
		var rows [][]string
		for _, c := range r.collectors {
			sort := "gauge"
			switch c.(type) {
			case prometheus.Counter, *prometheus.CounterVec:
				sort = "counter"
			case prometheus.Histogram, *prometheus.HistogramVec:
				sort = "histogram"
			}
			if _, ok := c.(prometheus.Gauge); ok { // a Gauge is a Counter as well
				sort = "gauge"
			}
			for _, d := range descriptions(c) {
				m := description.FindStringSubmatch(d.String())
				if m == nil {
					t.Fatalf("a metric is described as %s", d)
				}
				name, errName := strconv.Unquote(m[1])
				help, err := strconv.Unquote(m[2])
				if errName != nil || err != nil || help == "" {
					t.Errorf("a metric is described as %s: %v, %v", d, errName, err)
				}
				labels := "none"
				if m[3] != "" {
					labels = "`" + strings.ReplaceAll(m[3], ",", "`, `") + "`"
				}
				written[name] = true
				rows = append(rows, []string{"`" + name + "`", sort, labels, help})
			}
		}
		slices.SortFunc(rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
		fmt.Fprintf(b, "### %s\n\n", part.title)
		table(b, "metric", "type", "labels", "meaning")
		for _, r := range rows {
			row(b, r...)
		}
		b.WriteString("\n")
	}
	for _, dir := range []string{"../controller/*/metrics.go", "../../feature/gate/*.go", "../../internal/cli/serve*.go"} {
		files, err := filepath.Glob(dir)
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range files {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range metricName.FindAllStringSubmatch(string(src), -1) {
				if !strings.HasSuffix(name, "_test.go") && !written[m[1]] {
					t.Errorf("%s has the metric %s, which nothing registers", name, m[1])
				}
			}
		}
	}
}

func descriptions(c prometheus.Collector) (out []*prometheus.Desc) {
	to := make(chan *prometheus.Desc)
	go func() {
		defer close(to)
		c.Describe(to)
	}()
	for d := range to {
		out = append(out, d)
	}
	return out
}

// constant is a constant of a package with its documentation.
type constant struct {
	name, value string
	// group is the comment of its declaration, text its own. A reference [Name] in group stands as the value.
	group, text string
}

var (
	reference = regexp.MustCompile(`\[(\w+)\]`)
	// named is the beginning of a comment that is about the constant itself.
	named = regexp.MustCompile(`^(\w+)(?: is |: )`)
)

// constants lists the exported constants of files that have a literal value. One without a comment is an error.
func constants(t *testing.T, files ...string) (out []constant) {
	t.Helper()
	values := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST {
				continue
			}
			for _, s := range decl.Specs {
				spec, ok := s.(*ast.ValueSpec)
				if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || !spec.Names[0].IsExported() {
					continue
				}
				literal, ok := spec.Values[0].(*ast.BasicLit)
				if !ok {
					continue
				}
				c := constant{name: spec.Names[0].Name, value: literal.Value, group: oneLine(decl.Doc)}
				if text, err := strconv.Unquote(literal.Value); err == nil {
					c.value = text
				}
				doc := cmp.Or(spec.Doc, spec.Comment)
				if !decl.Lparen.IsValid() {
					doc, c.group = decl.Doc, "The condition of a request:"
				}
				c.text = oneLine(doc)
				if m := named.FindStringSubmatch(c.text); m != nil && m[1] == c.name {
					c.text = strings.TrimPrefix(c.text, m[0])
				} else if strings.HasPrefix(c.name, "Reason") || strings.HasPrefix(c.name, "Condition") || strings.HasPrefix(c.name, "Exit") {
					t.Errorf("%s: the comment of %s should begin with its name, and \": \" or \" is \": %q", name, c.name, c.text)
				}
				if strings.Count(c.text, ". ") == 0 {
					c.text = strings.TrimSuffix(c.text, ".")
				}
				values[c.name] = c.value
				out = append(out, c)
			}
		}
	}
	for i := range out {
		out[i].group = reference.ReplaceAllStringFunc(out[i].group, func(s string) string {
			return "`" + cmp.Or(values[strings.Trim(s, "[]")], strings.Trim(s, "[]")) + "`"
		})
	}
	return out
}

func oneLine(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }

func table(b *strings.Builder, columns ...string) {
	row(b, columns...)
	b.WriteString(strings.Repeat("| --- ", len(columns)) + "|\n")
}

func row(b *strings.Builder, cells ...string) {
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// eachCommand visits the commands that people call, each before those below it.
func eachCommand(c *cobra.Command, visit func(c *cobra.Command)) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	visit(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, visit)
	}
}

// commandsPage has the use, the help and the flags of each command.
func commandsPage() string {
	var b strings.Builder
	b.WriteString("# Commands and flags\n\nA test writes this page from the help texts. `sluice COMMAND --help` prints the same.\n" +
		"[reference.md](reference.md) has the exit codes and the documents for programs.\n")
	eachCommand(Command(), func(c *cobra.Command) {
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", c.CommandPath(), strings.TrimSpace(cmp.Or(c.Long, c.Short)+"\n\n"+c.UsageString()))
	})
	return b.String()
}

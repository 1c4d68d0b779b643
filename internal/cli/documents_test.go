package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/apply"
	applycmd "sluice.dev/internal/cli/apply"
	"sluice.dev/internal/cli/check"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/cli/features"
	"sluice.dev/internal/cli/install"
	"sluice.dev/internal/cli/migrate"
	"sluice.dev/internal/cli/resolve"
	"sluice.dev/internal/life"
	"sluice.dev/report"
	"sluice.dev/tools/jsonschema"
)

// documentTypes has the Go type of each document that commands print for programs, by kind. A schema of each stands in docs/schemas.
var documentTypes = map[string]reflect.Type{
	"AdoptResult":            reflect.TypeFor[applycmd.AdoptResult](),
	"App":                    reflect.TypeFor[applycmd.ObjectList](),
	"AppList":                reflect.TypeFor[applycmd.AppList](),
	"ApplyResult":            reflect.TypeFor[applycmd.Result](),
	"ChannelStep":            reflect.TypeFor[features.ChannelStep](),
	"DeleteResult":           reflect.TypeFor[applycmd.DeleteResult](),
	"Diagnosis":              reflect.TypeFor[install.Diagnosis](),
	"Diff":                   reflect.TypeFor[applycmd.DiffResult](),
	"Error":                  reflect.TypeFor[command.Failure](),
	"FeatureChange":          reflect.TypeFor[features.Change](),
	"FeatureDetails":         reflect.TypeFor[features.DetailsList](),
	"FeatureDocs":            reflect.TypeFor[life.Docs](),
	"FeatureFindings":        reflect.TypeFor[features.Findings](),
	"FeatureMatrix":          reflect.TypeFor[features.Matrix](),
	"FeatureSimulation":      reflect.TypeFor[features.Simulation](),
	"FeatureSkew":            reflect.TypeFor[features.Skew](),
	"FeatureStates":          reflect.TypeFor[features.States](),
	"FeatureUsage":           reflect.TypeFor[features.Usage](),
	"History":                reflect.TypeFor[applycmd.HistoryResult](),
	"MigrationResult":        reflect.TypeFor[migrate.Result](),
	"OrphanList":             reflect.TypeFor[applycmd.OrphanList](),
	"ReleaseMatrix":          reflect.TypeFor[check.ReleaseMatrix](),
	report.Kind:              reflect.TypeFor[report.Document](),
	resolve.KindRequestsList: reflect.TypeFor[resolve.SummaryList](),
	resolve.KindResolved:     reflect.TypeFor[resolve.ResolvedList](),
	"RuleList":               reflect.TypeFor[check.RuleList](),
	"UninstallResult":        reflect.TypeFor[install.UninstallResult](),
	"Version":                reflect.TypeFor[versionInfo](),
}

// printed has a row for each command that prints a document, with the kind. The commands without a cluster run in the folder of
// exampleProject, and those with one in that of the test with a cluster, in this order.
var printed = []struct {
	command, kind string
	cluster       bool
}{
	{"check old.yaml new.yaml", report.Kind, false},
	{"check old.yaml none.yaml", "Error", false},
	{"check --releases old.yaml,new.yaml", "ReleaseMatrix", false},
	{"check conversion none.yaml", "Error", false},
	{"rules", "RuleList", false},
	{"version", "Version", false},
	{"features list -f config", "FeatureStates", false},
	{"features get -f config Banner", "FeatureDetails", false},
	{"features lint -f config", "FeatureFindings", false},
	{"features docs", "FeatureDocs", false},
	{"features docs --from v1.0.0", "FeatureDocs", false},
	{"features matrix", "FeatureMatrix", false},
	{"features verify --against .", report.Kind, false},
	{"features simulate -f page.yaml --features config --settings enable-api-fields=alpha", "FeatureSimulation", false},
	{"features simulate -f page.yaml --features config", "FeatureSimulation", false},
	{"resolve dir -p path=config/crd.yaml", resolve.KindResolved, false},
	{"history shop", "History", false},
	{"diff -f none.yaml", "Diff", false},
	{"apply -f none.yaml", "ApplyResult", false},
	{"delete shop --yes", "DeleteResult", false},
	{"adopt shop", "AdoptResult", false},
	{"migrate pages.example.com", "MigrationResult", false},

	{"diff --app shop -f settings.yaml", "Diff", true},
	{"apply --app shop -f settings.yaml", "ApplyResult", true},
	{"apply --app crds -f config/crd.yaml --dry-run=server", "ApplyResult", true},
	{"diff --app crds -f config/crd.yaml", "Diff", true},
	{"ls", "AppList", true},
	{"ls shop", "App", true},
	{"ls --orphans -A", "OrphanList", true},
	{"history shop", "History", true},
	{"adopt shop --dry-run", "AdoptResult", true},
	{"delete shop --yes", "DeleteResult", true},
	{"features list", "FeatureStates", true},
	{"features get Banner", "FeatureDetails", true},
	{"features enable Banner", "FeatureChange", true},
	{"features disable Banner --dry-run", "FeatureChange", true},
	{"features usage", "FeatureUsage", true},
	{"features channel --to stable", "ChannelStep", true},
	{"features skew", "FeatureSkew", true},
	{"resolve ls -A", resolve.KindRequestsList, true},
	{"migrate --all --dry-run", "MigrationResult", true},
	{"doctor", "Diagnosis", true},
	{"uninstall --dry-run", "UninstallResult", true},
}

// others print objects of Kubernetes with -o json, which have schemas of their own.
var others = []string{"sluice features compile"}

// oneResolver is a command for one resolver. They all print the same.
var oneResolver = regexp.MustCompile(`^sluice resolve (bundles|cluster|dir|git|http|hub)$`)

// schemaOf is the file of a schema. That of the report is named for the package that has it.
func schemaOf(kind string) string {
	if kind == report.Kind {
		kind = "Report"
	}
	name := strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(kind, "$1-$2"))
	return filepath.Join("..", "..", "docs", "schemas", name+"-v1alpha1.json")
}

// TestTheSchemasOfDocumentsAreCurrent writes a schema of each document with -update, and compares them with the files otherwise.
func TestTheSchemasOfDocumentsAreCurrent(t *testing.T) {
	m := jsonschema.New(t, "../..")
	m.Special[reflect.TypeFor[json.RawMessage]()] = m.Of(documentTypes[report.Kind])
	m.Special[reflect.TypeFor[v1beta1.ParamValue]()] = jsonschema.Object{"description": "A string, an array of strings, or an object of strings."}
	m.Special[reflect.TypeFor[apply.Removal]()] = m.Of(reflect.TypeFor[applycmd.ObjectResult]())
	failures := map[string]bool{}
	eachCommand(Command(), func(c *cobra.Command) { failures[c.Annotations[command.ResultKind]] = true })
	for kind, typ := range documentTypes {
		if kind == report.Kind {
			continue // package report has its schema
		}
		schema := m.Document(typ, kind+", "+report.APIVersion, report.APIVersion, kind)
		if failures[kind] {
			orFailure(schema)
		}
		jsonschema.Current(t, schemaOf(kind), schema, *update, "go test ./internal/cli -run SchemasOfDocuments -update")
	}
}

// orFailure makes the schema of a document fit what a command prints that has failed before it had the document.
func orFailure(schema jsonschema.Object) {
	properties, _ := schema["properties"].(jsonschema.Object)
	if properties["outcome"] == nil {
		properties["outcome"] = jsonschema.Object{"type": "string", "description": "Outcome is failed if there is nothing but an error, and is missing otherwise."}
	}
	properties["error"] = jsonschema.Object{"type": "string", "description": "Error says what failed; empty if nothing did."}
	schema["anyOf"] = []jsonschema.Object{
		{"required": schema["required"]},
		{"required": []string{"apiVersion", "error", "kind", "outcome"}, "properties": jsonschema.Object{"outcome": jsonschema.Object{"enum": []string{command.OutcomeFailed}}}},
	}
	delete(schema, "required")
}

// TestEachCommandForProgramsHasADocument: a command with -o json stands in printed, and each kind is printed by one.
func TestEachCommandForProgramsHasADocument(t *testing.T) {
	var have []string
	eachCommand(Command(), func(c *cobra.Command) {
		complete, ok := c.GetFlagCompletionFunc("output")
		if !ok {
			return
		}
		values, _ := complete(c, nil, "")
		if slices.Contains(values, "json") && !slices.Contains(others, c.CommandPath()) {
			have = append(have, oneResolver.ReplaceAllString(c.CommandPath(), "sluice resolve"))
		}
	})
	var rows []string
	kinds := map[string]bool{}
	for _, p := range printed {
		cmd, _, err := Command().Find(strings.Fields(p.command))
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, oneResolver.ReplaceAllString(cmd.CommandPath(), "sluice resolve"))
		kinds[p.kind] = true
	}
	slices.Sort(have)
	slices.Sort(rows)
	if diff := gocmp.Diff(slices.Compact(have), slices.Compact(rows)); diff != "" {
		t.Errorf("commands with -o json (-program +table)\n%s", diff)
	}
	if diff := gocmp.Diff(slices.Sorted(maps.Keys(documentTypes)), slices.Sorted(maps.Keys(kinds))); diff != "" {
		t.Errorf("kinds (-documents +table)\n%s", diff)
	}
}

// TestDocumentsFitTheirSchemas runs the commands that need no cluster.
func TestDocumentsFitTheirSchemas(t *testing.T) {
	fits := schemasOfDocuments(t)
	project := exampleProject(t)
	t.Chdir(project)
	t.Setenv("KUBECONFIG", filepath.Join(project, "no-kubeconfig"))
	page := "apiVersion: pages.example.dev/v1\nkind: Page\nmetadata: {name: home, namespace: default}\nspec:\n  text: hello\n  banner: {text: new}\n"
	if err := os.WriteFile("page.yaml", []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range printed {
		if !p.cluster {
			printsDocument(t, fits, p.command, p.kind)
		}
	}
}

// schemasOfDocuments reads the schemas before the working directory changes.
func schemasOfDocuments(t *testing.T) map[string]func(v any) error {
	t.Helper()
	out := map[string]func(v any) error{}
	for kind := range documentTypes {
		fits, err := jsonschema.Read(schemaOf(kind))
		if err != nil {
			t.Fatal(err)
		}
		out[kind] = fits
	}
	return out
}

// printsDocument runs a command with -o json. What it prints has the kind, fits the schema, and with a value of another type in any
// place it does not.
func printsDocument(t *testing.T, fits map[string]func(v any) error, line, kind string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := Main(append(strings.Fields(line), "-o", "json"), strings.NewReader(""), &out, &errs)
	var document map[string]any
	if err := json.Unmarshal(out.Bytes(), &document); err != nil {
		t.Errorf("sluice %s prints no document, exit code %d: %v\n%s%s", line, code, err, out.String(), errs.String())
		return
	}
	if document["kind"] != kind {
		t.Errorf("sluice %s prints the kind %v, want %s\n%s", line, document["kind"], kind, errs.String())
		return
	}
	if err := fits[kind](document); err != nil {
		t.Errorf("sluice %s does not fit %s: %v\n%.2000s", line, schemaOf(kind), err, out.String())
	}
	for key, value := range document {
		document[key] = func() {} // no JSON value has this type
		if fits[kind](document) == nil {
			t.Errorf("%s: %s of %s can have any value", schemaOf(kind), key, kind)
		}
		document[key] = value
	}
	if missing := fits[kind](map[string]any{"apiVersion": report.APIVersion, "kind": kind}); missing == nil {
		t.Errorf("%s requires nothing", schemaOf(kind))
	}
}

// failing lists the commands that give the document of a failure their own kind, and those that print none.
func failing() (own, none string) {
	var with, without []string
	eachCommand(Command(), func(c *cobra.Command) {
		switch kind := c.Annotations[command.ResultKind]; {
		case kind == "" || c.Flags().Lookup("output") == nil:
		case kind == command.NoDocument:
			without = append(without, "`"+c.CommandPath()+"`")
		default:
			with = append(with, "`"+c.CommandPath()+"`")
		}
	})
	return strings.Join(with, ", "), strings.Join(without, ", ")
}

// documentsTable is for docs/reference.md: kinds, the commands that print them, and their schemas.
func documentsTable(b *strings.Builder) {
	commands := map[string][]string{}
	for _, p := range printed {
		cmd, _, err := Command().Find(strings.Fields(p.command))
		if name := "`" + oneResolver.ReplaceAllString(cmd.CommandPath(), "sluice resolve") + "`"; err == nil && p.kind != "Error" && !slices.Contains(commands[p.kind], name) {
			commands[p.kind] = append(commands[p.kind], name)
		}
	}
	table(b, "kind", "printed by", "schema")
	for _, kind := range slices.Sorted(maps.Keys(documentTypes)) {
		by := strings.Join(commands[kind], ", ")
		if kind == "Error" {
			by = "commands that fail, see above"
		}
		file := filepath.Base(schemaOf(kind))
		row(b, "`"+kind+"`", by, fmt.Sprintf("[%s](schemas/%s)", file, file))
	}
}

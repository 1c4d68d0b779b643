package compat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/report"
)

func TestCheckNeedsTwoSidesOfOneCRD(t *testing.T) {
	a, b := patched(t, "scope: Namespaced"), patched(t, "scope: Namespaced")
	b.Name = "gadgets.example.com"
	if _, err := Check(t.Context(), nil, nil, Options{}); !errors.Is(err, ErrNothing) {
		t.Errorf("no CRD at all: %v", err)
	}
	if _, err := Check(t.Context(), a, b, Options{}); !errors.Is(err, ErrDifferentCRDs) {
		t.Errorf("two different CRDs: %v", err)
	}
}

func TestVerdictAndUnchanged(t *testing.T) {
	number := "num: {type: integer, maximum: 10}"
	for _, tt := range []struct {
		name     string
		old, new *crd
		verdict  report.Verdict
		rules    []string
	}{
		{"the same", specCRD(t, number), specCRD(t, number), report.IsUnchanged, nil},
		{"another description", specCRD(t, number), specCRD(t, "num: {type: integer, maximum: 10, description: how many}"), report.IsUnchanged, nil},
		{
			"another message of a rule",
			specCRD(t, "num: {type: string, x-kubernetes-validations: [{rule: self != 'x', message: one}]}"),
			specCRD(t, "num: {type: string, x-kubernetes-validations: [{rule: self != 'x', message: two}]}"),
			report.IsUnchanged, nil,
		},
		{
			"a message expression that does not compile",
			specCRD(t, "num: {type: string, x-kubernetes-validations: [{rule: self != 'x'}]}"),
			specCRD(t, "num: {type: string, x-kubernetes-validations: [{rule: self != 'x', messageExpression: nope}]}"),
			report.Unsafe,
			[]string{"crd-refused-by-api-server"},
		},
		{"a new field", specCRD(t, number), specCRD(t, number+"\nm: {type: string}"), report.Safe, nil},
		{"a looser bound", specCRD(t, number), specCRD(t, "num: {type: integer}"), report.Safe, nil},
		{"a warning only", specCRD(t, number), specCRD(t, "num: {type: integer, maximum: 10, default: 3}"), report.Safe, []string{"default-added"}},
		{"a tighter bound", specCRD(t, number), specCRD(t, "num: {type: integer, maximum: 9}"), report.Unsafe, []string{"maximum-lowered"}},
		{"only texts of columns", patched(t, "scope: Namespaced"), patched(t, "scope: Namespaced\nversions: [{name: v1, served: true, storage: true, additionalPrinterColumns: [{name: A, type: string, jsonPath: .a, description: new}]}]"), report.Safe, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := check(t, tt.old, tt.new)
			if got.Verdict != tt.verdict {
				t.Errorf("verdict %s, want %s", got.Verdict, tt.verdict)
			}
			want := tt.rules
			if want == nil {
				want = []string{}
			}
			if diff := cmp.Diff(want, ruleIDs(got.Findings)); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if got.Name != "widgets.example.com" {
				t.Errorf("name %q", got.Name)
			}
		})
	}
}

func TestOneSideAlone(t *testing.T) {
	got := check(t, nil, specCRD(t, "num: {type: integer, default: many}"))
	if got.Verdict != report.Unsafe || !slices.Equal(ruleIDs(got.Findings), []string{"crd-refused-by-api-server"}) {
		t.Errorf("got %s %v", got.Verdict, ruleIDs(got.Findings))
	}
	if got := check(t, nil, specCRD(t, "num: {type: integer}")); got.Verdict != report.IsNew || len(got.Findings) > 0 {
		t.Errorf("a valid one: %s %v", got.Verdict, ruleIDs(got.Findings))
	}
	if got := check(t, specCRD(t, "num: {type: integer}"), nil); got.Verdict != report.IsRemoved || !slices.Equal(ruleIDs(got.Findings), []string{"crd-removed"}) {
		t.Errorf("one that is gone: %s %v", got.Verdict, ruleIDs(got.Findings))
	}
}

// versions is a fragment with versions in which num has the given schema.
func versions(vs ...string) string {
	var b strings.Builder
	b.WriteString("versions:\n")
	for _, v := range vs {
		f := strings.Fields(v)
		fmt.Fprintf(&b, "- name: %s\n  served: %t\n  storage: %t\n  schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {num: {%s}}}}}}\n",
			f[0], strings.Contains(f[1], "served"), strings.Contains(f[1], "storage"), strings.Join(f[2:], " "))
	}
	return b.String()
}

const webhook = `
conversion:
  strategy: Webhook
  webhook:
    conversionReviewVersions: [v1]
    clientConfig: {service: {name: widget-webhook, namespace: widgets}}
`

func TestWhichVersionsAreCompared(t *testing.T) {
	const loose, tight, other = "type: string", "type: string, maxLength: 3", "type: integer"
	const more, less = "type: object, properties: {a: {type: string}, b: {type: string}}", "type: object, properties: {a: {type: string}}"
	for _, tt := range []struct {
		name     string
		old, new string
		stored   []string
		rules    []string
	}{
		{
			"a version that is neither served nor stored does not count",
			versions("v1 served,storage "+loose, "v2 none "+loose), versions("v1 served,storage "+loose, "v2 none "+tight), nil,
			[]string{},
		},
		{
			"not even for what it prunes",
			versions("v1 served,storage "+loose, "v2 none "+more), versions("v1 served,storage "+loose, "v2 none "+less), nil,
			[]string{},
		},
		{
			"nor for what it refuses once it is served, but for contradicting the other one",
			versions("v1 served,storage "+loose, "v2 none "+loose), versions("v1 served,storage "+loose, "v2 served "+tight), nil,
			[]string{"versions-contradict"},
		},
		{
			"what is pruned of a version that is only stored is lost",
			versions("v1 storage "+more, "v2 served "+more), versions("v1 storage "+less, "v2 served "+more), nil,
			[]string{"property-removed"},
		},
		{
			"a version that is only stored is read, so that it must not prune, but nobody is refused",
			versions("v1 storage "+loose, "v2 served "+loose), versions("v1 storage "+tight, "v2 served "+loose), nil,
			[]string{},
		},
		{
			"a version that is not served any more is reported as that, not for what it refuses",
			versions("v1 served "+loose, "v2 served,storage "+loose), versions("v1 none "+tight, "v2 served,storage "+loose), nil,
			[]string{"version-unserved"},
		},
		{
			"a version that comes to be served is new to clients",
			versions("v1 served,storage "+loose, "v2 none "+loose), versions("v1 served,storage "+loose, "v2 served "+loose), nil,
			[]string{},
		},
		{
			"a version that is neither may go",
			versions("v1 served,storage "+loose, "v2 none "+loose), versions("v1 served,storage " + loose), nil,
			[]string{"owners-in-removed-version"}, // a note
		},
		{
			"a version that is neither may stand in managedFields, which a new webhook has to convert",
			versions("v1 served,storage "+loose, "v2 none "+loose), versions("v1 served,storage "+loose, "v2 none "+loose) + webhook, nil,
			[]string{"owners-in-removed-version"}, // a note
		},
		{
			"unless objects are stored in it",
			versions("v1 served,storage "+loose, "v2 none "+loose), versions("v1 served,storage " + loose),
			[]string{"v1", "v2"},
			[]string{"stored-version-removed"},
		},
		{
			"a stored version that neither manifest names is missing",
			versions("v1 served,storage " + loose), versions("v1 served,storage " + loose),
			[]string{"v1alpha1"},
			[]string{"stored-version-removed"},
		},
		{
			"each served version is compared",
			versions("v1 served "+loose, "v2 served,storage "+loose), versions("v1 served "+tight, "v2 served,storage "+tight), nil,
			[]string{"max-length-lowered", "max-length-lowered"},
		},
		{
			"two versions that disagreed before are no news",
			versions("v1 served "+other, "v2 served,storage "+loose), versions("v1 served "+other+", description: new", "v2 served,storage "+loose+", description: new"), nil,
			[]string{},
		},
		{
			"another storage version is no harm where it takes the same objects",
			versions("v1 served,storage "+loose, "v2 served "+loose), versions("v1 served "+loose, "v2 served,storage "+loose), nil,
			[]string{},
		},
		{
			"what the new storage version refuses is harm where the old one is no longer served",
			versions("v1 served,storage "+loose, "v2 served "+tight), versions("v1 none "+loose, "v2 served,storage "+tight), nil,
			[]string{"storage-version-changed", "version-unserved"},
		},
		{
			"the strategy None that is written out converts nothing",
			"conversion: {strategy: None}\n" + versions("v1 served,storage "+loose, "v2 none "+loose),
			"conversion: {strategy: None}\n" + versions("v1 served,storage "+loose, "v2 served "+tight), nil,
			[]string{"versions-contradict"},
		},
		{
			"a field that one version demands and the other does not know",
			versions("v1 served,storage "+less, "v2 none "+less), versions("v1 served,storage "+less, "v2 served "+more+", required: [b]"), nil,
			[]string{"versions-contradict", "added-in-one-version"},
		},
		{
			"a field that one version demands and both know is one",
			versions("v1 served,storage "+more, "v2 none "+more), versions("v1 served,storage "+more, "v2 served "+more+", required: [b]"), nil,
			[]string{"versions-contradict"},
		},
		{
			"without its webhook a version that is only stored is not converted",
			webhook + versions("v1 storage "+more, "v2 served "+less), versions("v1 none "+more, "v2 served,storage "+less), nil,
			[]string{"storage-version-changed", "conversion-webhook-dropped"},
		},
		{
			"what a version that is not served any more would demand is told of another that demands it",
			versions("v1 served,storage " + more), versions("v1 none "+more+", required: [b]", "v2 served "+more+", required: [b]", "v3 served,storage "+more), nil,
			[]string{"version-unserved", "versions-contradict"},
		},
		{
			"no version is served",
			versions("v1 storage " + loose), versions("v1 storage " + tight), nil,
			[]string{},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Check(t.Context(), patched(t, tt.old), patched(t, tt.new), Options{Stored: tt.stored})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.rules, ruleIDs(got.Findings)); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
				for _, f := range got.Findings {
					t.Logf("%s %s: %s", f.Rule, f.Version, f.Message)
				}
			}
		})
	}
}

func TestWhatStandsAroundTheSchema(t *testing.T) {
	version := func(more string) string { return "versions: [{name: v1, served: true, storage: true, " + more + "}]" }
	scale := func(more string) string {
		return version("subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas" + more + "}}")
	}
	column := func(more string) string {
		return version("additionalPrinterColumns: [{name: Age, jsonPath: .metadata.creationTimestamp, " + more + "}]")
	}
	for _, tt := range []struct {
		name     string
		old, new string
		rules    []string
	}{
		{"a label selector path that is gone", scale(", labelSelectorPath: .status.selector"), scale(""), []string{"scale-subresource-changed"}},
		{"another label selector path", scale(", labelSelectorPath: .status.selector"), scale(", labelSelectorPath: .status.labels"), []string{"scale-value-refused", "scale-subresource-changed"}},
		{"a new label selector path over any value", scale(""), scale(", labelSelectorPath: .status.selector"), []string{"scale-value-refused"}},
		{"another type of a column", column("type: date"), column("type: string"), []string{"printer-column-changed"}},
		{"another format of a column", column("type: integer, format: int32"), column("type: integer, format: int64"), []string{"printer-column-changed"}},
		{"a column's description", column("type: date"), column("type: date, description: how old it is"), []string{}},
		{"no scope", "scope: Namespaced", "scope: ''", []string{"crd-refused-by-api-server", "scope-changed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := check(t, patched(t, tt.old), patched(t, tt.new))
			if diff := cmp.Diff(tt.rules, slices.Compact(ruleIDs(got.Findings))); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStoredVersionsOfTheLiveObjectCount(t *testing.T) {
	old, new := patched(t, versions("v1 served,storage type: string", "v2 none type: string")), patched(t, versions("v1 served,storage type: string"))
	old.Status.StoredVersions = []string{"v2", "v1"}
	got := check(t, old, new)
	if !slices.Equal(ruleIDs(got.Findings), []string{"stored-version-removed"}) {
		t.Fatalf("got %v", ruleIDs(got.Findings))
	}
	f := got.Findings[0]
	if f.Level != report.RefusedByAPIServer || !strings.Contains(f.Message, "missing from spec.versions") {
		t.Errorf("level %s without the API server's words: %s", f.Level, f.Message)
	}
	if !strings.Contains(f.Message, "sluice migrate "+old.Name) {
		t.Errorf("the way on is not named: %s", f.Message)
	}
	for i := range old.Spec.Versions { // objects of the storage version cannot be rewritten in it
		old.Spec.Versions[i].Storage = old.Spec.Versions[i].Name == "v2"
	}
	for _, f := range check(t, old, new).Findings {
		if f.Rule == "stored-version-removed" && strings.Contains(f.Message, "sluice migrate") {
			t.Errorf("a way is named that leads nowhere: %s", f.Message)
		}
	}
}

func TestDefaultsOfAVersionThatIsOnlyStoredCount(t *testing.T) {
	for name, c := range map[string]struct {
		v1, v2 string
		want   []string
	}{
		"stored":     {"v1 none,storage type: integer, default: ", "v2 served type: integer", []string{"default-changed"}},
		"not stored": {"v1 none type: integer, default: ", "v2 served,storage type: integer", []string{}},
	} {
		got := ruleIDs(check(t, patched(t, versions(c.v1+"1", c.v2)), patched(t, versions(c.v1+"2", c.v2))).Findings)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestWithoutRatchetingObjectsAreStuck(t *testing.T) {
	old, new := specCRD(t, "num: {type: integer}"), specCRD(t, "num: {type: integer, maximum: 9}")
	for v, want := range map[string]report.Level{"1.29": report.ObjectsStuck, "1.30": report.ObjectsRatcheted} {
		got, err := Check(t.Context(), old, new, Options{KubeVersion: version.MustParse(v)})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Findings) != 1 || got.Findings[0].Level != want {
			t.Errorf("Kubernetes %s: got %+v, want level %s", v, got.Findings, want)
		}
	}
}

func TestUndecidedIsTold(t *testing.T) {
	old, new := specCRD(t, "num: {type: integer}"), specCRD(t, "num: {type: integer, maximum: 9}")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := Check(ctx, old, new, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"crd-refused-by-api-server", "maximum-lowered"}; got.Verdict != report.IsUndecided || !slices.Equal(ruleIDs(got.Findings), want) {
		t.Fatalf("got %s with %v", got.Verdict, got.Findings)
	}
	f := got.Findings[1]
	if f.Outcome != report.Undecided || f.Level != "" || f.Severity != report.Fail || f.Reason == "" || f.Rule != "maximum-lowered" {
		t.Errorf("got %+v", f)
	}
	if !strings.Contains(f.Message, "unable to determine if change to existing field is safe") {
		t.Errorf("message %q", f.Message)
	}
}

func TestFindingsOfEveryRule(t *testing.T) {
	var b strings.Builder
	for _, r := range Rules() {
		old, new, err := crdsOf(&r, r.Unsafe)
		if err != nil {
			t.Fatal(err)
		}
		got := check(t, old, new)
		fmt.Fprintf(&b, "%s: %s\n", r.ID, got.Verdict)
		writeFindings(&b, got.Findings)
	}
	golden(t, "testdata/findings.golden", b.String())
}

// writeFindings writes everything but witnesses: which ones are found is the prover's choice.
func writeFindings(b *strings.Builder, fs []report.Finding) {
	for _, f := range fs {
		fmt.Fprintf(b, "  %s %s %s %s\n", f.Outcome, f.Level, f.Severity, f.Rule)
		document := "new"
		if f.InOld {
			document = "old"
		}
		for _, x := range []struct{ name, value string }{
			{"version", f.Version},
			{"path", f.Path},
			{"message", f.Message},
			{"before", f.Before},
			{"after", f.After},
			{"in " + document, strings.Join(f.SchemaPath, " ")},
		} {
			if x.value != "" {
				fmt.Fprintf(b, "    %s: %s\n", x.name, x.value)
			}
		}
	}
}

func indented(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCheckChangesNeitherCRD(t *testing.T) {
	for _, r := range Rules() {
		old, new, err := crdsOf(&r, r.Unsafe)
		if err != nil {
			t.Fatal(err)
		}
		oldCopy, newCopy := old.DeepCopy(), new.DeepCopy()
		check(t, old, new)
		if diff := cmp.Diff(oldCopy, old) + cmp.Diff(newCopy, new); diff != "" {
			t.Errorf("%s: %s", r.ID, diff)
		}
	}
}

func TestTheSameBytesOnEveryRun(t *testing.T) {
	old, new := manyChanges(t)
	want := indented(t, check(t, old, new))
	for range 5 {
		if diff := cmp.Diff(want, indented(t, check(t, old.DeepCopy(), new.DeepCopy()))); diff != "" {
			t.Fatal(diff)
		}
	}
}

// manyChanges has each unsafe example of the rules about schemas side by side.
func manyChanges(t *testing.T) (old, new *crd) {
	t.Helper()
	var before, after strings.Builder
	for _, r := range Rules() {
		if !r.InSpec() || r.ID == "schema-changed" { // that one is not structural
			continue
		}
		for b, text := range map[*strings.Builder]string{&before: r.Unsafe.Old, &after: r.Unsafe.New} {
			fmt.Fprintf(b, "%s:\n  type: object\n  properties:\n    %s\n", r.ID, strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    "))
		}
	}
	return specCRD(t, before.String()), specCRD(t, after.String())
}

// A list of type map finds its items by their keys. An item without a key makes the whole list count as changed, but not if the list is
// part of an atomic list, which is compared as a whole.
func TestAStuckObjectSaysWhichKeyIsMissing(t *testing.T) {
	list := func(more string) string {
		return "{type: array, items: {type: object, properties: {ip: {type: string}}" + more
	}
	atomic, keyed := list("}}"), list(", required: [ip]}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [ip]}")
	inList := func(schema string) string {
		return "outer: {type: array, items: {type: object, properties: {hosts: " + schema + "}}}"
	}
	for name, x := range map[string]struct {
		old, new string
		says     bool
	}{
		"on its own":       {"hosts: " + atomic, "hosts: " + keyed, true},
		"in another list":  {inList(atomic), inList(keyed), false},
		"required, as map": {"hosts: " + list("}, x-kubernetes-list-type: atomic}"), "hosts: " + keyed, true},
	} {
		got := check(t, specCRD(t, x.old), specCRD(t, x.new))
		said := false
		for _, f := range got.Findings {
			why := f.Witness != nil && strings.Contains(f.Witness.Effect, `without its key "ip" never counts as unchanged`)
			said = said || why
			if why && f.Level != report.ObjectsStuck {
				t.Errorf("%s: %s at level %s: %s", name, f.Rule, f.Level, f.Witness.Effect)
			}
		}
		if said != x.says {
			t.Errorf("%s: says why %t, want %t: %+v", name, said, x.says, got.Findings)
		}
	}
}

// The API server demands an object of metadata and a string of its name, whatever the old schema says of them. So a limit is the only news.
func TestALimitOnTheNameOfObjectsIsNoNewType(t *testing.T) {
	of := func(metadata string) *crd {
		return patched(t, "versions:\n- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {"+metadata+"spec: {type: object}}}}}\n")
	}
	for _, old := range []string{"", "metadata: {type: object}, "} {
		for limit, rule := range map[string]string{"maxLength: 63": "max-length-lowered", "pattern: ^a": "pattern-added"} {
			got := check(t, of(old), of("metadata: {type: object, properties: {name: {type: string, "+limit+"}}}, "))
			if ids := ruleIDs(got.Findings); !slices.Equal(ids, []string{rule}) || got.Findings[0].Path != ".metadata.name" {
				t.Errorf("%q: %v", old, ids)
			}
		}
	}
}

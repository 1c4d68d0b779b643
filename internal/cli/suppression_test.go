package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPrintedSuppressionsAcceptTheFindings pastes what a report prints under its groups into sluice.yaml, for a report with few groups and
// for one with many. Then the check passes.
func TestPrintedSuppressionsAcceptTheFindings(t *testing.T) {
	crd := func(properties string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\n" +
			"spec: {group: example.com, names: {kind: Widget, plural: widgets}, scope: Namespaced, versions: [{name: v1, served: true, storage: true, " +
			"schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {" + properties + "}}}}}}]}\n"
	}
	for name, x := range map[string]struct{ old, new string }{
		"few groups": {
			"a: {type: integer, maximum: 9}, b: {type: array, items: {type: object, properties: {c: {type: string}}}}",
			"a: {type: integer, maximum: 5}, b: {type: array, items: {type: object}}",
		},
		"many groups": {
			"a: {type: integer, maximum: 9}, b: {type: integer}, c: {type: string}, d: {type: string}, e: {type: array, items: {type: string}}, f: {type: object, additionalProperties: {type: string}}",
			"a: {type: integer, maximum: 5}, b: {type: string}, c: {type: string, maxLength: 3}, e: {type: array, items: {type: string, pattern: '^a'}}, f: {type: object, additionalProperties: {type: string, enum: [a]}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, content string) string {
				file := filepath.Join(dir, name)
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				return file
			}
			before, after := write("old.yaml", crd(x.old)), write("new.yaml", crd(x.new))
			code, out, errs := sluice(t, "check", before, after)
			if code != ExitFindings {
				t.Fatalf("exit code %d: %s%s", code, out, errs)
			}
			config := "apiVersion: sluice.dev/v1alpha1\nkind: Config\nsuppressions:\n"
			for line := range strings.Lines(out) {
				if i := strings.Index(line, "- {rule: "); i >= 0 {
					config += strings.Replace(line[i:], "WHY", "every object was migrated", 1)
				}
			}
			if code, out, errs = sluice(t, "check", before, after, "-c", write("sluice.yaml", config)); code != ExitOK {
				t.Errorf("exit code %d with\n%s:\n%s%s", code, config, out, errs)
			}
		})
	}
}

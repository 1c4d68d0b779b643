//go:build e2e

package cli

import (
	"strings"
	"testing"

	"sluice.dev/internal/cli/apply"
)

// In mode stored a widening can be rolled back as long as no stored object uses it, and a finding says why it only warns.
func TestE2EModeStoredBlocksWhatStoredObjectsBearOut(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	narrow, wide := w.file("narrow.yaml", widget(group, "small")), w.file("wide.yaml", widget(group, "small, large"))
	w.apply(ExitOK, "--app", "x", "-f", wide)
	if r := w.apply(ExitFindings, "--app", "x", "-f", narrow); r.Outcome != apply.OutcomeBlocked {
		t.Errorf("%+v", r)
	}
	r := w.apply(ExitOK, "--app", "x", "-f", narrow, "--mode", "stored")
	if report := string(r.Report); !strings.Contains(report, "(mode stored: no stored object bears it out, of 1)") || !strings.Contains(report, "enum-value-removed") {
		t.Errorf("%s", report)
	}
	w.apply(ExitOK, "--app", "x", "-f", wide)
	if _, errs, err := w.Kubectl(t, "apiVersion: "+group+"/v1\nkind: Widget\nmetadata: {name: other}\nspec: {size: large}\n", "-n", w.namespace, "create", "-f", "-"); err != nil {
		t.Fatal(err, errs)
	}
	r = w.apply(ExitFindings, "--app", "x", "-f", narrow, "-c", w.file("c.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Config\nmode: stored\n"))
	if report := string(r.Report); r.Outcome != apply.OutcomeBlocked || !strings.Contains(report, "1 of 2 stored objects would be refused") {
		t.Errorf("%+v", r)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// prelude is what the pieces of Go in the documentation take as given; %s stands for the piece.
const prelude = `package snippets

import (
	"context"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"

	"sluice.dev/api/v1alpha1"
	pagesv1 "sluice.dev/examples/operator/api/v1"
	"sluice.dev/examples/operator/features"
	"sluice.dev/feature/featuretest"
	"sluice.dev/feature/gate"
	"sluice.dev/feature/process"
	"sluice.dev/feature/typed"
)

%s
`

// statements are a piece that stands in a function.
const statements = `func _(t *testing.T, ctx context.Context, gates *gate.Gates, flags *pflag.FlagSet, log logr.Logger, config *rest.Config, manager ctrl.Manager,
	page *pagesv1.Page, podName, podNamespace, file, namespace string) {
	{
%s
	}
}
`

// TestEveryPieceOfGoInTheDocumentationCompiles: only what a piece does not use may be left over.
func TestEveryPieceOfGoInTheDocumentationCompiles(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "features-for-operators.md"))
	if err != nil {
		t.Fatal(err)
	}
	pieces := strings.Split(string(page), "\n```go\n")[1:]
	if len(pieces) < 7 {
		t.Fatalf("there are %d pieces", len(pieces))
	}
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	var packages []string
	for i, piece := range pieces {
		text, _, ok := strings.Cut(piece, "\n```\n")
		if !ok {
			t.Fatalf("piece %d has no end", i)
		}
		switch {
		case strings.HasPrefix(text, "package "):
			continue // TestTheProgramOfTheDocumentation builds it
		case strings.HasPrefix(text, "func "), strings.HasPrefix(text, "var "):
			text = fmt.Sprintf(prelude, text)
		default:
			text = fmt.Sprintf(prelude, fmt.Sprintf(statements, strings.ReplaceAll(text, "{ ... }", "{}")))
		}
		file := filepath.Join(dir, fmt.Sprintf("piece%d.go", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at, err := filepath.Abs(filepath.Join("..", "snippets", fmt.Sprint(i), "piece.go"))
		if err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][at] = file
		packages = append(packages, fmt.Sprintf("sluice.dev/examples/snippets/%d", i))
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-gcflags=-e", "-overlay", filepath.Join(dir, "overlay.json")}, packages...)...)
	out, err := build.CombinedOutput()
	compiled := 0
	for line := range strings.Lines(string(out)) {
		switch {
		case strings.HasPrefix(line, "# "):
			compiled++
		case strings.Contains(line, "and not used"):
		default:
			t.Error(strings.TrimSpace(line))
		}
	}
	// Every piece leaves something over, or else it was not looked at.
	if err == nil || compiled != len(packages) {
		t.Errorf("%d of %d pieces were compiled: %v\n%s", compiled, len(packages), err, out)
	}
}

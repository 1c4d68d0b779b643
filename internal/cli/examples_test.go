package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var (
	exampleComment = regexp.MustCompile(`\s#.*$`)
	examplePipe    = regexp.MustCompile(`'[^']*'|\|`)
	// noCluster is in the error of a command that needs a cluster.
	noCluster = regexp.MustCompile(`no-kubeconfig|no access to the cluster`)
)

// exampleCommands are the commands of sluice in the help texts, with the command that shows each. Other programs of a pipe are left out.
func exampleCommands(t *testing.T) (out []struct {
	of   string
	args []string
},
) {
	t.Helper()
	eachCommand(Command(), func(c *cobra.Command) {
		for line := range strings.SplitSeq(strings.ReplaceAll(c.Example, "\\\n", " "), "\n") {
			line = exampleComment.ReplaceAllString(strings.TrimSpace(line), "")
			line = examplePipe.ReplaceAllStringFunc(line, func(s string) string {
				if s == "|" {
					return "\n"
				}
				return s
			})
			for part := range strings.SplitSeq(line, "\n") {
				words := quotedWord.FindAllString(strings.TrimSpace(part), -1)
				for i := range words {
					words[i] = strings.Trim(words[i], `'"`)
				}
				if len(words) > 0 && words[0] == "sluice" {
					out = append(out, struct {
						of   string
						args []string
					}{c.CommandPath(), words[1:]})
				}
			}
		}
	})
	if len(out) < 40 {
		t.Errorf("only %d examples", len(out))
	}
	return out
}

// TestExamplesHaveValidArguments parses the flags and checks the arguments of each example in a help text.
func TestExamplesHaveValidArguments(t *testing.T) {
	for _, example := range exampleCommands(t) {
		cmd, args, err := Command().Find(example.args)
		if err == nil {
			if err = cmd.ParseFlags(args); err == nil {
				err = errors.Join(cmd.ValidateArgs(cmd.Flags().Args()), cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups())
			}
		}
		if err != nil && !errors.Is(err, pflag.ErrHelp) {
			t.Errorf("%s shows sluice %s: %v", example.of, strings.Join(example.args, " "), err)
		}
	}
}

// otherCodes are the exit codes of examples that do not succeed in the project of exampleProject, and why.
var otherCodes = map[string]int{
	"features promote Banner --to beta --release v1.4.0 --dry-run":                                       ExitFindings, // it has no documentation yet
	"features promote Banner --default on --release v1.5.0":                                              ExitFailed,   // it is alpha
	"features promote Banner --lock --release v1.6.0":                                                    ExitFindings, // it is alpha
	"features remove Banner --release v1.6.0 --dry-run":                                                  ExitFindings, // it was never announced
	"check --ci config/crd":                                                                              ExitFailed,   // the test is no job of a CI system
	"features scaffold Banner --field PageSpec.Banner --description A page can have a banner. --dry-run": ExitFailed,   // the project has it
	"features scaffold BookV2 --version v2alpha1":                                                        ExitFailed,   // source.packages names one version
}

// skippedExamples begin the examples that need a network or a converter, or serve until they are interrupted.
var skippedExamples = []string{"apply --app shop -f git+https", "apply --app operator -f oci", "resolve git --param", "resolve -f request.yaml", "check conversion", "check oci:", "ui"}

// TestExamplesRun runs each example of a help text in a project without a cluster. It succeeds, or says that there is no cluster.
func TestExamplesRun(t *testing.T) {
	project := exampleProject(t)
	t.Chdir(project)
	t.Setenv("KUBECONFIG", filepath.Join(project, "no-kubeconfig"))
	crd, err := os.ReadFile("old.yaml") // standard input
	if err != nil {
		t.Fatal(err)
	}
	local := 0
	for _, example := range exampleCommands(t) {
		line := strings.Join(example.args, " ")
		if slices.ContainsFunc(skippedExamples, func(prefix string) bool { return strings.HasPrefix(line, prefix) }) {
			continue
		}
		var out, errs bytes.Buffer
		code := Main(example.args, bytes.NewReader(crd), &out, &errs)
		if code == ExitFailed && noCluster.MatchString(errs.String()+out.String()) {
			continue
		}
		if want := otherCodes[line]; code != want {
			t.Errorf("%s shows sluice %s: exit code %d, want %d\n%.600s%s", example.of, line, code, want, out.String(), errs.String())
		}
		local++
	}
	if local < 15 {
		t.Errorf("only %d examples run without a cluster", local)
	}
}

// exampleProject is a folder with the files that examples name: the example operator, two versions of a CRD, and a history in git.
func exampleProject(t *testing.T) string {
	t.Helper()
	root := filepath.Join("..", "..")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples", "operator"))); err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{
		"old.yaml": "examples/upgrade/v1.yaml", "new.yaml": "examples/upgrade/v3-safe.yaml", "config/crd/database.yaml": "examples/upgrade/v1.yaml",
		"crds/pages.yaml": "examples/operator/config/crd.yaml", "go.mod": "go.mod", "go.sum": "go.sum",
	} {
		text, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), bytes.Replace(text, []byte("module sluice.dev\n"), []byte("module example.com/operator\n"), 1), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"table.tmpl": "{{range .Features}}{{.Name}}\n{{end}}", "docs/features.md": "", "manifests/page.yaml": "apiVersion: pages.example.dev/v1\nkind: Page\nmetadata: {name: home}\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"add", "."},
		{"commit", "-q", "-m", "a project"},
		{"tag", "v1.1.0"},
		{"tag", "v1.2.0"},
		{"update-ref", "refs/remotes/origin/main", "HEAD"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), pageEnv...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

package cli

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write the expected output of the scripts anew")

// sluiceMain is the program that the scripts run.
func sluiceMain() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func TestScripts(t *testing.T) {
	examples, err := filepath.Abs(upgrade)
	if err != nil {
		t.Fatal(err)
	}
	caches, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE", "GOMODCACHE").Output()
	folders := strings.Fields(string(caches))
	if err != nil || len(folders) != 2 {
		t.Fatalf("go env: %v: %s", err, caches)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Cmds:          map[string]func(*testscript.TestScript, bool, []string){"untimed": untimed},
		Setup: func(e *testscript.Env) error {
			e.Setenv("EXAMPLES", examples)
			e.Setenv("GOCACHE", folders[0])
			e.Setenv("GOMODCACHE", folders[1])
			e.Setenv("GOPROXY", "off")
			for _, name := range []string{"CGO_ENABLED", "GOGC"} { // a shell of a script begins with an empty environment
				e.Setenv(name, os.Getenv(name))
			}
			e.Setenv("KUBECONFIG", filepath.Join(e.WorkDir, "no-kubeconfig"))
			e.Setenv("GIT_AUTHOR_NAME", "test")
			e.Setenv("GIT_AUTHOR_EMAIL", "test@example.com")
			e.Setenv("GIT_COMMITTER_NAME", "test")
			e.Setenv("GIT_COMMITTER_EMAIL", "test@example.com")
			return nil
		},
	})
}

// untimed takes the lines with the times of looks out of the file IN, and writes the rest to OUT.
func untimed(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: untimed IN OUT")
	}
	times := regexp.MustCompile(`,\n *"sluice\.dev/looked-at": "20[^"]*Z"`)
	text := ts.ReadFile(args[0])
	if !times.MatchString(text) {
		ts.Fatalf("%s tells nothing of when it was looked at", args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(times.ReplaceAllString(text, "")), 0o600))
}

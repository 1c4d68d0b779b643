// Package gittest makes git repositories and serves them by HTTP, HTTPS and SSH on loopback, with faults for tests. It runs the git
// command, which must be on the PATH. It promises nothing about real servers.
package gittest

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// PEM returns a certificate in PEM.
func PEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// Run is [Git] in a test, which a failure of git ends.
// Names and times are fixed, so that a commit of the same content has the same ID in each run.
func Run(t testing.TB, dir string, stdin io.Reader, args ...string) string {
	t.Helper()
	out, err := Git(t.Context(), dir, stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Git runs git in a folder, without the settings of the user, and returns its output without the last line break.
func Git(ctx context.Context, dir string, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // what a test wants to run
	cmd.Dir, cmd.Stdin = dir, stdin
	// Settings of the user, such as signing or hooks, would change what a test sees.
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=c", "GIT_COMMITTER_EMAIL=c@example.com",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %v: %w\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Origin is a bare repository. It is for one test, and not safe for concurrent use.
type Origin struct {
	// Dir is the folder of the repository.
	Dir string

	t testing.TB
}

// At returns the bare repository in a folder, which may be created later.
func At(t testing.TB, dir string) *Origin { return &Origin{dir, t} }

// NewOrigin makes the repository root/name with one commit on main that has these files. A value that begins with -> is a link; one
// that begins with @ is the commit of a submodule.
func NewOrigin(t testing.TB, root, name string, files map[string]string) *Origin {
	t.Helper()
	o := At(t, filepath.Join(root, name))
	Run(t, root, nil, "init", "-q", "--bare", "-b", "main", o.Dir)
	for _, c := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant", "http.uploadpack"} {
		Run(t, o.Dir, nil, "config", c, "true")
	}
	o.Commit("main", files)
	return o
}

// Commit adds a commit with these files to a branch, and returns its ID.
// Files that were there stay, unless they are among the new ones. The order of the files means nothing to
// git.
func (o *Origin) Commit(branch string, files map[string]string) string {
	o.t.Helper()
	var s strings.Builder
	fmt.Fprintf(&s, "commit refs/heads/%s\ncommitter c <c@example.com> 1700000000 +0000\ndata 1\nm\n", branch)
	out, err := exec.Command("git", "-C", o.Dir, "rev-parse", "-q", "--verify", "refs/heads/"+branch).Output() //nolint:gosec,noctx // a test's own folder
	if err == nil {
		fmt.Fprintf(&s, "from %s\n", strings.TrimSpace(string(out)))
	}
	for name, content := range files {
		mode := "100644"
		if to, ok := strings.CutPrefix(content, "->"); ok {
			mode, content = "120000", to
		}
		if id, ok := strings.CutPrefix(content, "@"); ok {
			fmt.Fprintf(&s, "M 160000 %s %s\n", id, name)
			continue
		}
		fmt.Fprintf(&s, "M %s inline %s\ndata %d\n%s\n", mode, name, len(content), content)
	}
	s.WriteString("\ndone\n")
	Run(o.t, o.Dir, strings.NewReader(s.String()), "fast-import", "--quiet", "--done")
	return Run(o.t, o.Dir, nil, "rev-parse", "refs/heads/"+branch)
}

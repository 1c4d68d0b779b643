//go:build e2e

package cli

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/internal/cli/apply"
)

func TestE2EAnAppGoesBackToAnEarlierRevision(t *testing.T) {
	w := newWorld(t)
	repo := filepath.Join(w.dir, "repo")
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	source := "git+file://" + repo + "//deploy?ref=main"
	var commits []string
	for i := range 13 {
		w.file("repo/deploy/a.yaml", configMap("a", "version", fmt.Sprint(i))+configMap(fmt.Sprintf("only-%d", i)))
		if i == 0 {
			git("init", "-q", "-b", "main")
		}
		git("add", ".")
		git("commit", "-qm", "change")
		commits = append(commits, git("rev-parse", "HEAD"))
		w.run(ExitOK, "apply", "--app", "x", "-f", source, "--prune")
		w.run(ExitOK, "apply", "--app", "x", "-f", source, "--prune") // the same once more is no revision
	}
	out, _ := w.run(ExitOK, "history", "x", "-o", "json")
	var h apply.HistoryResult
	if err := json.Unmarshal([]byte(out), &h); err != nil || len(h.Revisions) != 10 {
		t.Fatalf("%v, %d revisions: %s", err, len(h.Revisions), out)
	}
	for i, r := range h.Revisions {
		if r.Sources[0].Digest["sha1"] != commits[12-i] || r.Objects != 2 || r.Applied == nil {
			t.Errorf("revision %d: %+v, want commit %s", i, r, commits[12-i])
		}
	}
	if out, _ := w.run(ExitOK, "history", "x"); strings.Count(out, "\n") != 11 || !strings.Contains(out, commits[12]) {
		t.Errorf("%s", out)
	}
	back := []string{"--app", "x", "--prune", "--revision"}
	w.run(ExitOK, "apply", append(back, commits[5][:12], "--dry-run=server")...)
	w.run(ExitOK, "apply", append(back, "sha1:"+commits[5][:12])...)
	cm, err := w.kube.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || cm.Data["version"] != "5" || !w.exists(w.namespace+"/only-5") || w.exists(w.namespace+"/only-12") {
		t.Errorf("%v: %v", err, cm.Data)
	}
	if out, _ := w.run(ExitOK, "history", "x"); !strings.Contains(strings.Split(out, "\n")[1], commits[5]) {
		t.Errorf("going back is no revision of its own:\n%s", out)
	}
	for says, args := range map[string][]string{
		"no such revision": append(back, commits[0]), // the eleventh from the end is forgotten
		"at least 7":       append(back, "abc"),
		"without -f":       append(back, commits[7], "-f", source),
		"is for --app":     {"--revision", commits[7]},
	} {
		if _, errs := w.run(ExitFailed, "apply", args...); !strings.Contains(errs, says) {
			t.Errorf("%v: %s", args, errs)
		}
	}
	// A folder holds what it holds now, and standard input nothing any more.
	f := w.file("plain.yaml", configMap("plain", "k", "1"))
	w.run(ExitOK, "apply", "--app", "y", "-f", f)
	w.file("plain.yaml", configMap("plain", "k", "2"))
	w.run(ExitOK, "apply", "--app", "y", "-f", f)
	out, _ = w.run(ExitOK, "history", "y", "-o", "json")
	if err := json.Unmarshal([]byte(out), &h); err != nil || len(h.Revisions) != 2 {
		t.Fatalf("%v: %s", err, out)
	}
	if _, errs := w.run(ExitFailed, "apply", "--app", "y", "--revision", h.Revisions[1].Sources[0].Digest["sha256"]); !strings.Contains(errs, "no longer holds this revision") {
		t.Errorf("%s", errs)
	}
	w.pipe(ExitOK, configMap("piped"), "apply", "--app", "z")
	out, _ = w.run(ExitOK, "history", "z", "-o", "json")
	if err := json.Unmarshal([]byte(out), &h); err != nil || len(h.Revisions) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	if _, errs := w.run(ExitFailed, "apply", "--app", "z", "--revision", h.Revisions[0].Sources[0].Digest["sha256"]); !strings.Contains(errs, "standard input") {
		t.Errorf("%s", errs)
	}
	w.run(ExitFailed, "history", "none")
}

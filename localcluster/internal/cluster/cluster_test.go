package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/localcluster/internal/pki"
)

func TestTheLogTellsWhyAComponentEnded(t *testing.T) {
	for name, test := range map[string]struct{ log, want string }{
		"our own last line": {"I1121 03:00:03.6 1 a.go:1] fine\nerror: unknown flag: --x\n", "unknown flag: --x"},
		"the last of two":   {"error: one\nerror: two\n", "two"},
		"klog fatal":        {"F1121 03:00:03.625025   14437 options.go:205] no way\ngoroutine 1 [running]:\nmain.main()\n", "no way"},
		"panic":             {"panic: nil map\n\ngoroutine 1 [running]:\n", "nil map"},
		"runtime":           {"fatal error: out of memory\n", "out of memory"},
		"nothing said":      {"I1121 03:00:03.6 1 a.go:1] fine\n", ""},
		"empty":             {"", ""},
		"at the end of much": {
			strings.Repeat("I1121 03:00:03.6 1 a.go:1] fine\n", 10_000) + "error: at last", "at last",
		},
		"too much to say": {"error: " + strings.Repeat("x", 2*maxLastWord), strings.Repeat("x", maxLastWord) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(log, []byte(test.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, lastWords(log)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := lastWords(filepath.Join(t.TempDir(), "missing")); got != "" {
		t.Errorf("a missing log says %q", got)
	}
}

func TestAnExtraAPIServerFlagReplacesOurs(t *testing.T) {
	extra, err := parseAPIServerArgs([]string{"--authorization-mode=AlwaysAllow", "profiling", "feature-gates=A=true,B=false"})
	if err != nil {
		t.Fatal(err)
	}
	got := apiServerFlags(credentials{}, "1234", extra)
	var modes []string
	for _, f := range got {
		if strings.HasPrefix(f, "--authorization-mode=") {
			modes = append(modes, f)
		}
	}
	if diff := cmp.Diff([]string{"--authorization-mode=AlwaysAllow"}, modes); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"--profiling=true", "--feature-gates=A=true,B=false", "--secure-port=1234", "--bind-address=127.0.0.1"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among %q", want, got)
		}
	}
}

func TestFlagsThatHoldTheClusterTogetherAreReserved(t *testing.T) {
	for _, arg := range []string{"bind-address=0.0.0.0", "--secure-port=1", "tls_cert_file=x", "etcd-servers=http://x"} {
		if _, err := parseAPIServerArgs([]string{arg}); err == nil {
			t.Errorf("%s is accepted", arg)
		}
	}
}

func TestOnlyAKubeconfigOfOursIsReplaced(t *testing.T) {
	ca := pki.Pair{CertPEM: []byte("ca")}
	mine, err := kubeconfig("https://127.0.0.1:1", ca, pki.Pair{}, "admin")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		content string
		ours    bool
	}{
		"ours":           {string(mine), true},
		"ours, edited":   {strings.Replace(string(mine), "user: admin", "user: admin\n    namespace: other", 1), true},
		"empty":          {" \n", true},
		"another's":      {strings.ReplaceAll(string(mine), "name: localcluster", "name: production"), false},
		"no kubeconfig":  {"hello", false},
		"no clusters":    {"apiVersion: v1\nkind: Config\n", false},
		"something else": {"apiVersion: v1\nkind: Secret\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := writeKubeconfig(path, []byte("new")); (err == nil) != test.ours {
				t.Errorf("replacing it: %v", err)
			}
			want := test.content
			if test.ours {
				want = "new"
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Errorf("then it is %q (%v)", got, err)
			}
		})
	}
}

func TestAKubeconfigThatWasChangedSinceIsNotRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeKubeconfig(path, []byte("written")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if err := removeKubeconfig(path, []byte("changed")); err != nil {
		t.Error(err)
	}
	if err := removeKubeconfig(path, []byte("changed")); err != nil {
		t.Errorf("removing it twice: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it is still there")
	}
}

// Sweeping must leave alone what is in use, what is not ours, and what is just being made.
func TestSweepingRemovesOnlyWhatAKilledProcessLeft(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	mkdir := func(name string, mode os.FileMode, pid string) string {
		dir := filepath.Join(temp, name)
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
		if pid != "none" {
			if err := os.WriteFile(filepath.Join(dir, "lock"), []byte(pid), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	left := mkdir("localcluster-left", 0o700, "4711\n")
	stay := []string{
		mkdir("localcluster-starting", 0o700, "none"),
		mkdir("localcluster-released", 0o700, ""),
		mkdir("localcluster-shared", 0o755, "4711\n"),
		mkdir("another", 0o700, "4711\n"),
	}
	held, err := openFolder(filepath.Join(temp, "localcluster-held"), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	target := mkdir("target", 0o700, "4711\n")
	link := filepath.Join(temp, "localcluster-link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	stay = append(stay, held.dir, target, link)

	var notes []string
	sweep(func(note string) { notes = append(notes, note) })
	if _, err := os.Stat(left); err == nil {
		t.Error("what was left behind is still there")
	}
	for _, dir := range stay {
		if _, err := os.Lstat(dir); err != nil {
			t.Errorf("removed: %v", err)
		}
	}
	if len(notes) != 1 || !strings.Contains(notes[0], left) || !strings.Contains(notes[0], "4711") {
		t.Errorf("notes %q", notes)
	}
	if err := held.close(); err != nil {
		t.Error(err)
	}
}

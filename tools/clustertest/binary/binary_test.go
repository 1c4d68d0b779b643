package binary

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newTree makes a working tree with a tiny localcluster module that prints what it says.
func newTree(t *testing.T, says string) string {
	t.Helper()
	t.Setenv(EnvOverride, "")
	t.Setenv(EnvAssets, "")
	root := t.TempDir()
	write(t, root, "localcluster/go.mod", "module sluice.dev/localcluster\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.36.3\n\nreplace k8s.io/kubernetes => ./kubernetes\n")
	write(t, root, "localcluster/kubernetes/go.mod", "module k8s.io/kubernetes\n\ngo 1.26.0\n")
	write(t, root, "localcluster/main.go", printer(says))
	return root
}

func printer(says string) string {
	return "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"" + says + "\") }\n"
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, root string) (path, log string) {
	t.Helper()
	var buffer bytes.Buffer
	path, err := Path(t.Context(), filepath.Join(root, "localcluster"), &buffer)
	if err != nil {
		t.Fatal(err)
	}
	return path, buffer.String()
}

func output(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestTheBinaryIsBuiltOncePerStateOfTheSources(t *testing.T) {
	root := newTree(t, "one")
	first, log := get(t, root)
	if got := output(t, first); got != "one" || strings.Count(log, "\n") != 1 {
		t.Errorf("it says %q, after a log of %q", got, log)
	}
	if again, log := get(t, root); again != first || log != "" {
		t.Errorf("the second time: %s, log %q", again, log)
	}
	write(t, root, "localcluster/main_test.go", "package main\n")
	if again, log := get(t, root); again != first || log != "" {
		t.Errorf("after a change of a test: %s, log %q", again, log)
	}
	write(t, root, "localcluster/main.go", printer("two"))
	second, _ := get(t, root)
	if got := output(t, second); second == first || got != "two" {
		t.Errorf("after a change: %s says %q", second, got)
	}
	if fileExists(first) {
		t.Error("the outdated binary was kept")
	}
}

func TestKubectlIsBuiltOncePerVersionOfKubernetes(t *testing.T) {
	root := newTree(t, "localcluster")
	t.Setenv(EnvKubectl, "")
	t.Setenv(EnvAssets, "")
	write(t, root, "localcluster/kubernetes/cmd/kubectl/main.go", printer("kubectl"))
	ask := func() (path, log string) {
		t.Helper()
		var buffer bytes.Buffer
		path, err := Kubectl(t.Context(), root, &buffer)
		if err != nil {
			t.Fatal(err)
		}
		return path, buffer.String()
	}
	first, log := ask()
	if got := output(t, first); got != "kubectl" || strings.Count(log, "\n") != 1 || filepath.Base(first) != "kubectl" {
		t.Errorf("%s says %q, after a log of %q", first, got, log)
	}
	write(t, root, "localcluster/main.go", printer("changed"))
	if again, log := ask(); again != first || log != "" {
		t.Errorf("after a change of localcluster: %s, log %q", again, log)
	}
	mod, err := os.ReadFile(filepath.Join(root, "localcluster/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, "localcluster/go.mod", strings.Replace(string(mod), "v1.36.3", "v1.36.4", 1))
	if again, _ := ask(); again == first || fileExists(first) {
		t.Errorf("of another version of Kubernetes: %s, and %s is there: %t", again, first, fileExists(first))
	}
	t.Setenv(EnvKubectl, "/opt/kubectl")
	if path, _ := ask(); path != "/opt/kubectl" {
		t.Errorf("with an override: %s", path)
	}
}

func TestThoseWhoAskAtOnceShareOneBuild(t *testing.T) {
	root := newTree(t, "shared")
	const askers = 8
	var wait sync.WaitGroup
	logs := make([]bytes.Buffer, askers)
	paths := make([]string, askers)
	errs := make([]error, askers)
	for i := range askers {
		wait.Go(func() { paths[i], errs[i] = Path(t.Context(), root, &logs[i]) })
	}
	wait.Wait()
	built := 0
	for i := range askers {
		if errs[i] != nil || paths[i] != paths[0] {
			t.Errorf("%s (%v), want %s", paths[i], errs[i], paths[0])
		}
		built += strings.Count(logs[i].String(), "building")
	}
	if built != 1 {
		t.Errorf("%d builds", built)
	}
}

func TestAFailedBuildIsToldAndLeavesNothing(t *testing.T) {
	root := newTree(t, "fine")
	write(t, root, "localcluster/main.go", "package main\n\nfunc main() { undefinedName() }\n")
	_, err := Path(t.Context(), root, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "undefinedName") {
		t.Errorf("error %v", err)
	}
	files, err := filepath.Glob(filepath.Join(root, ".cache", module, "*", "*"))
	if err != nil || len(files) > 0 {
		t.Errorf("left: %v (%v)", files, err)
	}
	write(t, root, "localcluster/main.go", printer("mended"))
	path, _ := get(t, root)
	if got := output(t, path); got != "mended" {
		t.Errorf("it says %q", got)
	}
}

func TestWaitingForAnotherBuildIsToldAndEndsWithTheContext(t *testing.T) {
	root := newTree(t, "never built")
	write(t, root, ".cache/localcluster/lock", "")
	unlock, err := lockBuild(t.Context(), filepath.Join(root, ".cache", module, "lock"), module, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	told := writerFunc(func(p []byte) (int, error) {
		if strings.HasPrefix(string(p), "waiting") {
			cancel()
		}
		return len(p), nil
	})
	if _, err := Path(ctx, root, told); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestTheOverrideIsTakenAsItIs(t *testing.T) {
	t.Setenv(EnvOverride, "/opt/localcluster")
	path, err := Path(t.Context(), t.TempDir(), &bytes.Buffer{})
	if err != nil || path != "/opt/localcluster" {
		t.Errorf("%s (%v)", path, err)
	}
}

func TestOutsideOfAWorkingTreeIsAnError(t *testing.T) {
	t.Setenv(EnvOverride, "")
	t.Setenv(EnvAssets, "")
	dir := t.TempDir()
	if _, err := Path(t.Context(), dir, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v", err)
	}
}

func TestTheKubernetesVersionIsStamped(t *testing.T) {
	for name, test := range map[string]struct {
		mod  string
		want []string // parts of the flags; nil for an error
	}{
		"block":       {"require (\n\tk8s.io/kubernetes v1.36.3\n)\n", []string{"component-base/version.gitVersion=v1.36.3", "client-go/pkg/version.gitMinor=36"}},
		"one line":    {"require k8s.io/kubernetes v1.40.0-rc.1\n", []string{".gitVersion=v1.40.0-rc.1", ".gitMajor=1", ".gitMinor=40"}},
		"replacement": {"replace k8s.io/kubernetes => k8s.io/kubernetes v1.36.3\n", nil},
		"none":        {"module x\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, "localcluster/go.mod", test.mod)
			flags, err := linkerFlags(root)
			if diff := cmp.Diff(test.want == nil, err != nil); diff != "" {
				t.Fatalf("%v: %s", err, diff)
			}
			for _, want := range test.want {
				if !strings.Contains(flags, want) {
					t.Errorf("%q lacks %q", flags, want)
				}
			}
		})
	}
}

// The localcluster module names every staging module of Kubernetes at one version, and the main module none of it.
func TestTheMainModuleStaysFreeOfKubernetesItself(t *testing.T) {
	root, err := findRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`(?m)^\s*(?:replace\b|(?:require\s+)?k8s\.io/kubernetes\b).*`).Find(content); found != nil {
		t.Errorf("%s: %s", found, "go.mod requires k8s.io/kubernetes or replaces modules; only localcluster/go.mod may")
	}
}

func TestAssetsReplaceWhatWouldBeBuilt(t *testing.T) {
	assets := t.TempDir()
	t.Setenv(EnvAssets, assets)
	t.Setenv(EnvKubectl, "")
	t.Setenv(EnvOverride, "")
	if _, err := Path(t.Context(), ".", io.Discard); err == nil || !strings.Contains(err.Error(), filepath.Join(assets, "kube-apiserver")) {
		t.Errorf("without a kube-apiserver: %v", err)
	}
	for _, name := range []string{"kube-apiserver", "kubectl"} {
		if err := os.WriteFile(filepath.Join(assets, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if HasControllers() {
		t.Error("there is a kube-controller-manager")
	}
	if got, err := Kubectl(t.Context(), ".", io.Discard); err != nil || got != filepath.Join(assets, "kubectl") {
		t.Errorf("kubectl %q, %v", got, err)
	}
	got, err := Path(t.Context(), ".", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), got, "start", "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "--dir") {
		t.Errorf("%v\n%s", err, out)
	}
}

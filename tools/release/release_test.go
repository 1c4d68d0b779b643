package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestArchivesAreTheSameEveryTime(t *testing.T) {
	at := time.Unix(1_700_000_000, 0).UTC()
	one := []file{{name: "a/", mode: 0o755}, {name: "a/b", mode: 0o644, content: []byte("x")}, {name: "c", mode: 0o777, target: "a/b"}}
	other := []file{one[2], one[0], one[1]}
	for name, pack := range map[string]func([]file, time.Time) ([]byte, error){"tar.gz": tarGzOf, "zip": zipOf} {
		first, err := pack(one, at)
		if err != nil {
			t.Fatal(err)
		}
		second, err := pack(other, at)
		if err != nil {
			t.Fatal(err)
		}
		if sha256.Sum256(first) != sha256.Sum256(second) {
			t.Errorf("%s: another order gives other bytes", name)
		}
	}
}

func TestAPackageHasTheFilesOfTheImage(t *testing.T) {
	data, err := tarOf([]file{
		{name: "./lib/", mode: 0o755},
		{name: "./lib/x86_64-linux-gnu/", mode: 0o755},
		{name: "./lib/x86_64-linux-gnu/libz.so.1.2", mode: 0o644, content: []byte("z")},
		{name: "./lib/x86_64-linux-gnu/libz.so.1", mode: 0o777, target: "libz.so.1.2"},
		{name: "./usr/share/doc/zlib1g/copyright", mode: 0o644, content: []byte("c")},
		{name: "./etc/shadow", mode: 0o600, content: []byte("s")},
	}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	p := debianPackage{name: "zlib1g", files: []string{"lib/*/libz.so.*"}}
	files, err := p.takeFiles(data)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range withFolders(files) {
		names = append(names, f.name)
	}
	want := []string{
		"lib/x86_64-linux-gnu/libz.so.1", "lib/x86_64-linux-gnu/libz.so.1.2", "usr/share/doc/zlib1g/copyright",
		"lib/x86_64-linux-gnu/", "lib/", "usr/share/doc/zlib1g/", "usr/share/doc/", "usr/share/", "usr/",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	p.files = []string{"usr/bin/git"}
	if _, err := p.takeFiles(data); err == nil || !strings.Contains(err.Error(), "zlib1g") {
		t.Errorf("a package without the file: %v", err)
	}
}

func TestTheChartOfAReleaseKnowsItsImage(t *testing.T) {
	r := &release{version: "v1.2.3", image: "registry.example.com/sluice", time: time.Unix(0, 0).UTC(), dir: t.TempDir()}
	if err := r.writeChart(); err != nil {
		t.Fatal(err)
	}
	got := unpack(t, r.pathTo("sluice-1.2.3.tgz"))
	for name, want := range map[string]string{
		"sluice/Chart.yaml": "\nversion: 1.2.3\nappVersion: v1.2.3\n", "sluice/values.yaml": "\nimage: registry.example.com/sluice:v1.2.3\n",
		"sluice/templates/_helpers.tpl": "sluice.workload", "sluice/values.schema.json": "workloads", "sluice/files/resolution.yaml": "ResolutionRequest",
	} {
		if f := got[name]; f == nil || !bytes.Contains(f.Data, []byte(want)) {
			t.Errorf("%s does not have %q", name, want)
		}
	}
}

func TestArchivesHaveCompletionsAndManPages(t *testing.T) {
	t.Chdir("../..")
	r := &release{version: "v1.2.3", time: time.Unix(0, 0).UTC(), dir: t.TempDir()}
	files, err := r.sharedFiles()
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for _, f := range files {
		text[f.name] = string(f.content)
	}
	for name, want := range map[string]string{
		"completions/sluice.bash": "__start_sluice", "completions/_sluice": "#compdef sluice", "completions/sluice.fish": "complete", "completions/sluice.ps1": "sluice",
		"man/sluice.1": ".TH", "man/sluice-check.1": "stored objects", "LICENSE": "Apache License", "README.md": "Sluice",
	} {
		if !strings.Contains(text[name], want) {
			t.Errorf("%s does not have %q", name, want)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// unpack reads a tar.gz.
func unpack(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	in, err := gzip.NewReader(strings.NewReader(readFile(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	out := fstest.MapFS{}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = &fstest.MapFile{Data: data}
	}
}

// The folder of a release is relative in the Makefile, and apt reads relative folders below the root of the system.
func TestAptGetsAbsoluteFolders(t *testing.T) {
	bin := t.TempDir()
	for name, text := range map[string]string{
		"go":      `while [ "$1" != -o ]; do shift; done; mkdir -p "$(dirname "$2")" && echo program >"$2"`,
		"apt-get": `echo "$@" >"$(dirname "$0")/asked"; exit 1`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GO", filepath.Join(bin, "go"))
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "a"}} {
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	r := &release{version: "v1", image: "i", out: "dist", platforms: []string{"linux/amd64"}}
	if err := r.runRelease(t.Context(), "image"); err == nil || !strings.Contains(err.Error(), "apt-get") {
		t.Fatal(err)
	}
	asked, err := os.ReadFile(filepath.Join(bin, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	for word := range strings.FieldsSeq(string(asked)) {
		if option, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(option, "Dir::") && !filepath.IsAbs(value) {
			t.Errorf("apt-get got %s", word)
		}
	}
}

// TestChangedSourcesAreNotCalledTheCommit has a repository with a file that is not in the commit.
func TestChangedSourcesAreNotCalledTheCommit(t *testing.T) {
	t.Chdir(t.TempDir())
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "a")
	for _, dirty := range []bool{false, true} {
		if dirty {
			if err := os.WriteFile("new.go", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := &release{version: "v1"}
		if err := r.describeCommit(t.Context()); err != nil {
			t.Fatal(err)
		}
		statement, err := r.provenanceOf(v1.Hash{Algorithm: "sha256", Hex: "0"})
		if err != nil {
			t.Fatal(err)
		}
		text := string(statement)
		if got := strings.Contains(text, `"digest":{"gitCommit":"`+r.commit); got == dirty {
			t.Errorf("changes: %t, the commit as the digest of the sources: %t: %s", dirty, got, text)
		}
		if got := strings.Contains(text, `"modified":true`); got != dirty {
			t.Errorf("changes: %t, told: %t: %s", dirty, got, text)
		}
		if got := r.revisionLabel() == r.commit; got == dirty {
			t.Errorf("changes: %t, the revision is %s", dirty, r.revisionLabel())
		}
	}
}

// TestWhatAKilledReleaseLeavesIsNoSource: git ignores its folder, and make clean removes it.
func TestWhatAKilledReleaseLeavesIsNoSource(t *testing.T) {
	t.Chdir("../..")
	if out, err := exec.CommandContext(t.Context(), "git", "check-ignore", ".release-123/").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), "make", "-n", "clean").CombinedOutput(); err != nil || !strings.Contains(string(out), " .release-*") {
		t.Errorf("%v: %s", err, out)
	}
}

package main

// What do people download? Archives with the program, completions and man pages, the Helm chart, and the
// manifests.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra/doc"

	"sluice.dev/config"
	"sluice.dev/internal/cli"
)

// buildFiles writes what people download beside the image.
// Each platform has an archive and a bill of materials. The chart and the manifests are the same for all.
func (r *release) buildFiles(_ context.Context, programs []program) error {
	// They are made once, because each platform has the same.
	shared, err := r.sharedFiles()
	if err != nil {
		return err
	}
	for _, p := range programs {
		binary, err := os.ReadFile(p.path)
		if err != nil {
			return err
		}
		files := append(slices.Clone(shared), file{name: filepath.Base(p.path), mode: 0o755, content: binary})
		name := fmt.Sprintf("sluice_%s_%s_%s", r.version, p.os, p.arch)
		pack, extension := tarGzOf, ".tar.gz"
		if p.os == "windows" {
			pack, extension = zipOf, ".zip"
		}
		data, err := pack(files, r.time)
		if err != nil {
			return err
		}
		b, err := r.billOf(p, nil)
		if err != nil {
			return err
		}
		if err := r.writeFile(name+extension, data); err != nil {
			return err
		}
		if err := r.writeFile(name+".cdx.json", b.json); err != nil {
			return err
		}
	}
	if err := r.writeChart(); err != nil {
		return err
	}
	manifests, err := config.Manifests(config.Options{Image: r.imageReference()})
	if err != nil {
		return err
	}
	return r.writeFile("install.yaml", manifests)
}

// sharedFiles are those of all archives: the licence, completions and man pages.
// They come out of the command itself, so that they cannot differ from it.
func (r *release) sharedFiles() (out []file, err error) {
	for _, name := range []string{"LICENSE", "README.md"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out = append(out, file{name: name, mode: 0o644, content: data})
	}
	root := cli.Command()
	for name, write := range map[string]func(io.Writer) error{
		"sluice.bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"_sluice":     root.GenZshCompletion,
		"sluice.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"sluice.ps1":  root.GenPowerShellCompletionWithDesc,
	} {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			return nil, err
		}
		out = append(out, file{name: "completions/" + name, mode: 0o644, content: text.Bytes()})
	}
	// kubectl completes a plugin by a program of this name beside it.
	// The program of that name asks the plugin itself, as the shells do.
	out = append(out, file{name: "completions/kubectl_complete-sluice", mode: 0o755, content: []byte("#!/bin/sh\nexec sluice __complete \"$@\"\n")})
	dir := r.pathTo("build", "man")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Sluice " + r.version, Manual: "Sluice", Date: &r.time}, dir); err != nil {
		return nil, err
	}
	pages, err := filesBelow(os.DirFS(dir), "man")
	return append(out, pages...), err
}

// filesBelow reads a folder; their names in an archive begin with into.
// All files get mode 0644: neither man pages nor charts have programs among them.
func filesBelow(dir fs.FS, into string) (out []file, err error) {
	err = fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(dir, name)
		out = append(out, file{name: path.Join(into, name), mode: 0o644, content: data})
		return err
	})
	return out, err
}

// writeChart writes the Helm chart with the version and the image of the release.
// The chart in the sources has 0.0.0 for the version and no image. A line that is missing is an error, so
// that no release goes out with the version of the sources.
func (r *release) writeChart() error {
	chart, err := fs.Sub(config.Chart(), "chart")
	if err != nil {
		return err
	}
	files, err := filesBelow(chart, "sluice")
	if err != nil {
		return err
	}
	number := strings.TrimPrefix(r.version, "v")
	// The lines are searched with their line breaks, so that no other line can be hit.
	changes := map[string][][2]string{
		"sluice/Chart.yaml":  {{"\nversion: 0.0.0\n", "\nversion: " + number + "\n"}, {"\nappVersion: 0.0.0\n", "\nappVersion: " + r.version + "\n"}},
		"sluice/values.yaml": {{"\nimage: \"\"\n", "\nimage: " + r.imageReference() + "\n"}},
	}
	for i, f := range files {
		for _, change := range changes[f.name] {
			changed := bytes.Replace(files[i].content, []byte(change[0]), []byte(change[1]), 1)
			if bytes.Equal(changed, files[i].content) {
				return fmt.Errorf("%s has no line %q", f.name, strings.TrimSpace(change[0]))
			}
			files[i].content = changed
		}
	}
	data, err := tarGzOf(files, r.time)
	if err != nil {
		return err
	}
	return r.writeFile("sluice-"+number+".tgz", data)
}

// writeFile writes a file into the folder of the release, under its final name; nothing is published before all files are
// complete.
func (r *release) writeFile(name string, data []byte) error {
	return os.WriteFile(r.pathTo(name), data, 0o644) //nolint:gosec // what is to be published
}

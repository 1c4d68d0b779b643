package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra/doc"

	"sluice.dev/config"
	"sluice.dev/internal/cli"
)

// buildFiles writes what people download beside the image.
func (r *release) buildFiles(_ context.Context, programs []program) error {
	shared, err := r.sharedFiles()
	if err != nil {
		return err
	}
	archives := map[string]string{} // by platform
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
		archives[p.os+"/"+p.arch] = name + extension
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
	if err := r.writeFile("install.yaml", manifests); err != nil {
		return err
	}
	if r.url != "" {
		if err := r.writePackagers(archives); err != nil {
			return err
		}
	}
	return r.writeChecksums()
}

// sharedFiles are those of all archives: the licence, completions and man pages.
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
	out = append(out, file{name: "completions/kubectl_complete-sluice", mode: 0o755, content: []byte("#!/bin/sh\nexec sluice __complete \"$@\"\n")})
	dir := r.pathTo("build", "man")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Sluice " + r.version, Manual: "Sluice", Date: &r.time}, dir); err != nil {
		return nil, err
	}
	return out, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		out = append(out, file{name: "man/" + name, mode: 0o644, content: data})
		return err
	})
}

// writeChart writes the Helm chart with the version and the image of the release.
func (r *release) writeChart() error {
	files := config.Chart()
	var out []file
	err := fs.WalkDir(files, "chart", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		for _, change := range map[string][][2]string{
			"chart/Chart.yaml":  {{"\nversion: 0.0.0\n", "\nversion: " + strings.TrimPrefix(r.version, "v") + "\n"}, {"\nappVersion: 0.0.0\n", "\nappVersion: " + r.version + "\n"}},
			"chart/values.yaml": {{"\nimage: \"\"\n", "\nimage: " + r.imageReference() + "\n"}},
		}[name] {
			changed := bytes.Replace(data, []byte(change[0]), []byte(change[1]), 1)
			if bytes.Equal(changed, data) {
				return fmt.Errorf("%s has no line %q", name, strings.TrimSpace(change[0]))
			}
			data = changed
		}
		out = append(out, file{name: path.Join("sluice", strings.TrimPrefix(name, "chart")), mode: 0o644, content: data})
		return nil
	})
	if err != nil {
		return err
	}
	data, err := tarGzOf(out, r.time)
	if err != nil {
		return err
	}
	return r.writeFile("sluice-"+strings.TrimPrefix(r.version, "v")+".tgz", data)
}

// writeTarball writes a folder of the release as a tar.
func (r *release) writeTarball(dir, name string) error {
	var files []file
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		files = append(files, file{name: name, mode: 0o644, content: data})
		return err
	})
	if err != nil {
		return err
	}
	data, err := tarOf(files, r.time)
	if err != nil {
		return err
	}
	return r.writeFile(name, data)
}

const krew = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: sluice
spec:
  version: {{.Version}}
  shortDescription: Change APIs without breaking their users
  description: |
    Checks whether an upgrade of a CRD is safe, puts fields behind feature gates, fetches resources from git, OCI bundles and
    hubs, and delivers them.
  platforms:
  {{- range .Archives}}
  - selector: {matchLabels: {os: {{.OS}}, arch: {{.Arch}}}}
    uri: {{$.URL}}/{{.Name}}
    sha256: {{.Sum}}
    bin: {{.Bin}}
  {{- end}}
`

const homebrew = `class Sluice < Formula
  desc "Change Kubernetes APIs without breaking those who use them"
  version "{{.Number}}"
  license "Apache-2.0"
{{range .Archives}}{{if ne .OS "windows"}}
  on_{{if eq .OS "darwin"}}macos{{else}}linux{{end}} do
    on_{{if eq .Arch "arm64"}}arm{{else}}intel{{end}} do
      url "{{$.URL}}/{{.Name}}"
      sha256 "{{.Sum}}"
    end
  end
{{end}}{{end}}
  def install
    bin.install "sluice"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/sluice.bash" => "sluice"
    zsh_completion.install "completions/_sluice"
    fish_completion.install "completions/sluice.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/sluice --version")
  end
end
`

// writePackagers writes the manifest for Krew and the formula for Homebrew.
func (r *release) writePackagers(archives map[string]string) error {
	type archive struct{ OS, Arch, Name, Sum, Bin string }
	data := struct {
		Version, Number, URL string
		Archives             []archive
	}{Version: r.version, Number: strings.TrimPrefix(r.version, "v"), URL: strings.TrimSuffix(r.url, "/")}
	for _, platform := range r.platforms {
		goos, arch, _ := strings.Cut(platform, "/")
		sum, err := r.fileSum(archives[platform])
		if err != nil {
			return err
		}
		bin := "sluice"
		if goos == "windows" {
			bin += ".exe"
		}
		data.Archives = append(data.Archives, archive{goos, arch, archives[platform], sum, bin})
	}
	for name, text := range map[string]string{"krew.yaml": krew, "sluice.rb": homebrew} {
		var out bytes.Buffer
		if err := template.Must(template.New(name).Parse(text)).Execute(&out, data); err != nil {
			return err
		}
		if err := r.writeFile(name, out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// writeChecksums writes the SHA-256 of each file, in the form of sha256sum.
func (r *release) writeChecksums() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		sum, err := r.fileSum(e.Name())
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, e.Name())
	}
	return r.writeFile("checksums.txt", out.Bytes())
}

func (r *release) fileSum(name string) (string, error) {
	data, err := os.ReadFile(r.pathTo(name))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

func (r *release) writeFile(name string, data []byte) error {
	return os.WriteFile(r.pathTo(name), data, 0o644) //nolint:gosec // what is to be published
}

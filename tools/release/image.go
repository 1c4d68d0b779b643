package main

// What is in the image, and who can check it? The program, git with its libraries, and roots of trust; bills of
// materials and the provenance refer to the image by its digest.

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// debianPackage is a package of which the image has some files. The resolver git runs git to read packs; everything runs without C.
// Versions are those of the Debian release on which this runs, and are noted in the bill of materials.
type debianPackage struct {
	name string
	// files are patterns of path.Match.
	files []string
	// of the package as it was downloaded
	version, arch string
}

// debianPackages lists what the image needs beside the program: git with its libraries, the loader, and
// the roots of trust. Nothing else of Debian is in it, and no shell.
func debianPackages() []debianPackage {
	return []debianPackage{
		{name: "git", files: []string{"usr/bin/git"}},
		{name: "libc6", files: []string{"lib/*/libc.so.6", "lib/*/ld-linux-*.so.*", "lib/ld-linux-*.so.*", "lib64/ld-linux-*.so.*"}},
		{name: "libpcre2-8-0", files: []string{"usr/lib/*/libpcre2-8.so.*"}},
		{name: "zlib1g", files: []string{"lib/*/libz.so.*"}},
		{name: "ca-certificates", files: []string{"usr/share/ca-certificates/mozilla/*.crt"}},
	}
}

// buildImage writes the image of all platforms of linux as an OCI layout, and its digest. Bills of materials and the provenance are
// artifacts that refer to it.
// The layout has an index at its top, so that one name stands for all platforms. What refers to the image
// names the digest of that index.
func (r *release) buildImage(ctx context.Context, programs []program) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var boms []bom
	for _, p := range programs {
		if p.os != "linux" {
			continue
		}
		fmt.Fprintln(os.Stderr, "image for", p.arch)
		image, packages, err := r.platformImage(ctx, p)
		if err != nil {
			return fmt.Errorf("the image for %s: %w", p.arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
		b, err := r.billOf(p, packages)
		if err != nil {
			return err
		}
		boms = append(boms, b)
	}
	if len(boms) == 0 {
		return errors.New("--platforms has none of linux, for the image")
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	dir, err := layout.Write(r.pathTo("image"), empty.Index)
	if err != nil {
		return err
	}
	if err := dir.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version})); err != nil {
		return err
	}
	subject, err := partial.Descriptor(index)
	if err != nil {
		return err
	}
	statement, err := r.provenanceOf(digest)
	if err != nil {
		return err
	}
	attachments := map[string][][]byte{"application/vnd.in-toto+json": {statement}}
	for _, b := range boms {
		attachments["application/vnd.cyclonedx+json"] = append(attachments["application/vnd.cyclonedx+json"], b.json)
	}
	// The order is fixed, so that two builds write the same index.
	for _, kind := range []string{"application/vnd.cyclonedx+json", "application/vnd.in-toto+json"} {
		for _, content := range attachments[kind] {
			artifact, err := artifactOf(kind, content, *subject)
			if err != nil {
				return err
			}
			if err := dir.AppendImage(artifact); err != nil {
				return err
			}
		}
	}
	files, err := filesBelow(os.DirFS(r.pathTo("image")), "")
	if err != nil {
		return err
	}
	tarball, err := tarOf(files, r.time)
	if err != nil {
		return err
	}
	if err := r.writeFile("image.tar", tarball); err != nil {
		return err
	}
	return r.writeFile("image.digest", []byte(r.image+"@"+digest.String()+"\n"))
}

// artifactOf is content that refers to a subject, as OCI 1.1 has it.
// The type of the artifact is that of its config, as registries that know no artifactType read it.
func artifactOf(kind string, content []byte, subject v1.Descriptor) (v1.Image, error) {
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.MediaType(kind))
	image, err := mutate.AppendLayers(image, static.NewLayer(content, types.MediaType(kind)))
	if err != nil {
		return nil, err
	}
	referring, ok := mutate.Subject(image, subject).(v1.Image)
	if !ok {
		return nil, errors.New("the artifact is no image")
	}
	return referring, nil
}

// platformImage is the image of one platform: a layer with git and certificates, which changes rarely, and one with the program.
// It has no base image: nothing is in it that is not listed here. The zone file comes from Go, so that
// times with zones work without Debian's.
func (r *release) platformImage(ctx context.Context, p program) (v1.Image, []debianPackage, error) {
	base, packages, err := r.debianFiles(ctx, p.arch)
	if err != nil {
		return nil, nil, err
	}
	// The zone file of the Go that builds the program goes with it.
	zones, err := runCommand(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, nil, err
	}
	zoneinfo, err := os.ReadFile(filepath.Join(strings.TrimSpace(zones), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return nil, nil, err
	}
	base = append(base,
		file{name: "tmp/", mode: 0o1777},
		file{name: "etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/root:/sbin/nologin\nsluice:x:65532:65532:sluice:/tmp:/sbin/nologin\n")},
		file{name: "etc/group", mode: 0o644, content: []byte("root:x:0:\nsluice:x:65532:\n")},
		file{name: "usr/share/zoneinfo.zip", mode: 0o644, content: zoneinfo})
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return nil, nil, err
	}
	licence, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, nil, err
	}
	// The program has a layer of its own, so that a new release sends that layer alone.
	own := []file{{name: "usr/bin/sluice", mode: 0o755, content: binary}, {name: "usr/share/doc/sluice/LICENSE", mode: 0o644, content: licence}}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, files := range [][]file{base, own} {
		data, err := tarGzOf(withFolders(files), r.time)
		if err != nil {
			return nil, nil, err
		}
		if image, err = mutate.AppendLayers(image, static.NewLayer(data, types.OCILayer)); err != nil {
			return nil, nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, nil, err
	}
	// The image keeps its own copy, which must not change.
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: r.time}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/sluice"}, User: "65532:65532", WorkingDir: "/",
		Env: []string{"PATH=/usr/bin", "ZONEINFO=/usr/share/zoneinfo.zip", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Labels: map[string]string{
			"org.opencontainers.image.title": "sluice", "org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.revisionLabel(),
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	image, err = mutate.ConfigFile(image, config)
	return image, packages, err
}

// withFolders adds the folders of files.
// Container runtimes make missing folders with modes of their own, which differ.
func withFolders(files []file) []file {
	seen := map[string]bool{}
	out := slices.Clone(files)
	for _, f := range files {
		seen[f.name] = true
	}
	for _, f := range files {
		for dir := path.Dir(strings.TrimSuffix(f.name, "/")); dir != "."; dir = path.Dir(dir) {
			if !seen[dir+"/"] {
				seen[dir+"/"] = true
				out = append(out, file{name: dir + "/", mode: 0o755})
			}
		}
	}
	return out
}

// debianFiles downloads packages for an architecture, which apt verifies, and takes the files that the image needs with the
// copyright of each package.
// apt has folders of its own here, so that neither the packages nor the sources of this machine matter,
// and each architecture can be downloaded on any. The signatures are those of Debian's archive.
func (r *release) debianFiles(ctx context.Context, arch string) ([]file, []debianPackage, error) {
	dir := r.pathTo("build", "debian-"+arch)
	for _, d := range []string{"state/lists/partial", "cache/archives/partial", "packages"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil { //nolint:gosec // apt's own user reads it
			return nil, nil, err
		}
	}
	status := filepath.Join(dir, "status")
	if err := os.WriteFile(status, nil, 0o600); err != nil {
		return nil, nil, err
	}
	options := []string{
		"-q", "-o", "Dir::State=" + filepath.Join(dir, "state"), "-o", "Dir::State::status=" + status, "-o", "Dir::Cache=" + filepath.Join(dir, "cache"),
		"-o", "APT::Architecture=" + arch, "-o", "APT::Architectures=" + arch, "-o", "APT::Sandbox::User=",
	}
	if _, err := runCommand(ctx, nil, "apt-get", append(options, "update")...); err != nil {
		return nil, nil, err
	}
	packages := debianPackages()
	var files []file
	var roots bytes.Buffer
	for i := range packages {
		p := &packages[i]
		into := filepath.Join(dir, "packages", p.name)
		if err := os.MkdirAll(into, 0o755); err != nil { //nolint:gosec // as above
			return nil, nil, err
		}
		// apt-get download writes into the working folder and has no option for another one.
		script := `cd "$1" && shift && exec apt-get "$@"`
		if _, err := runCommand(ctx, nil, "sh", append([]string{"-c", script, "sh", into}, append(options, "download", p.name)...)...); err != nil {
			return nil, nil, err
		}
		found, err := filepath.Glob(filepath.Join(into, "*.deb"))
		if err != nil || len(found) != 1 {
			return nil, nil, fmt.Errorf("%s: %d files were downloaded, %w", p.name, len(found), err)
		}
		name := strings.Split(strings.TrimSuffix(filepath.Base(found[0]), ".deb"), "_")
		if len(name) != 3 {
			return nil, nil, fmt.Errorf("%s is no name of a package", found[0])
		}
		p.version, p.arch = strings.ReplaceAll(name[1], "%3a", ":"), name[2]
		content, err := runCommand(ctx, nil, "dpkg-deb", "--fsys-tarfile", found[0])
		if err != nil {
			return nil, nil, err
		}
		taken, err := p.takeFiles([]byte(content))
		if err != nil {
			return nil, nil, err
		}
		for _, f := range taken {
			if strings.HasSuffix(f.name, ".crt") {
				roots.Write(f.content)
				continue
			}
			files = append(files, f)
		}
	}
	return append(files, file{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: roots.Bytes()}), packages, nil
}

// takeFiles returns the files of a package's tar that the image has. Each pattern fits something, but those of the loader, whose place
// depends on the architecture.
// Links are taken as links. The copyright belongs to each package, as its licence asks.
func (p *debianPackage) takeFiles(data []byte) (out []file, err error) {
	patterns := append(slices.Clone(p.files), "usr/share/doc/"+p.name+"/copyright")
	in := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "./"))
		fits := slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, err := path.Match(pattern, name)
			return ok && err == nil
		})
		// Folders are made again by withFolders, with modes that are known.
		if !fits || h.Typeflag == tar.TypeDir {
			continue
		}
		f := file{name: name, mode: h.Mode & int64(fs.ModePerm), target: h.Linkname}
		if f.content, err = io.ReadAll(in); err != nil { //nolint:forbidigo // apt has verified the package
			return nil, err
		}
		out = append(out, f)
	}
	// The copyright alone would mean that Debian has moved the files.
	if len(out) < 2 {
		return nil, fmt.Errorf("the package %s has %d of the files %v", p.name, len(out), patterns)
	}
	return sortedFiles(out), nil
}

// revisionLabel is the commit, or says that there is none that has the sources.
// It is a label of the image, by which people find the sources.
func (r *release) revisionLabel() string {
	if r.dirty {
		return r.commit + "-dirty"
	}
	return r.commit
}

// provenanceOf is a statement of in-toto with SLSA's predicate: from which commit, how. Sources with changes have no digest, only an
// annotation about the commit that was changed.
// A statement about changed sources must not claim a digest: nobody could build the same from the commit.
func (r *release) provenanceOf(digest v1.Hash) ([]byte, error) {
	source := map[string]any{"uri": "git+https://sluice.dev", "digest": map[string]string{"gitCommit": r.commit}}
	if r.dirty {
		source = map[string]any{"uri": "git+https://sluice.dev", "annotations": map[string]any{"gitCommit": r.commit, "modified": true}}
	}
	return json.Marshal(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       []any{map[string]any{"name": r.image, "digest": map[string]string{digest.Algorithm: digest.Hex}}},
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            "https://sluice.dev/tools/release/v1",
				"externalParameters":   map[string]any{"version": r.version, "image": r.image, "platforms": r.platforms},
				"resolvedDependencies": []any{source},
			},
			"runDetails": map[string]any{"builder": map[string]string{"id": "https://sluice.dev/tools/release"}},
		},
	})
}

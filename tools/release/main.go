// Command release builds the files of a release of Sluice: the program for each platform with completions and man pages, the
// container image, the Helm chart, the manifests, and bills of materials. The Makefile adds checksums.
//
// Two runs at the same commit with the same Debian packages give the same bytes, because all times are that of the commit. The
// command publishes nothing, and an error leaves an existing folder as it was. It needs go, git, apt-get and dpkg-deb.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// main reads the flags and exits with 2 on any error; there is no other outcome than a complete release.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := &release{flags: []string{"-trimpath"}}
	var only, platforms string
	flag.StringVar(&r.image, "image", "", "name of the image without a tag, such as registry.example.com/sluice")
	flag.StringVar(&r.out, "out", "dist", "folder to write")
	flag.StringVar(&only, "only", "", "image, or files; default: both")
	flag.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64", "platforms of the program; the image has those of linux")
	flag.Parse()
	r.platforms = strings.Split(platforms, ",")
	if err := r.runRelease(ctx, only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(2)
	}
}

// release is one release in the making.
// The fields are set in three steps: by flags, by [release.describeCommit], and while the files are
// written.
type release struct {
	// version is what git describe says, unless it is set.
	version, image, out string
	platforms           []string
	// flags are more of those with which the programs are built.
	// Tests add some that make the build faster.
	flags []string
	// time is that of the commit, commit its name.
	time   time.Time
	commit string
	// dirty is set if the sources are not those of the commit.
	dirty bool
	// dir holds the files until all of them are complete.
	dir string
}

// imageReference is the image with its tag.
func (r *release) imageReference() string { return r.image + ":" + r.version }

// runRelease builds all into a folder beside the one that is wanted, and renames it at the end, so that
// an error leaves what was there.
func (r *release) runRelease(ctx context.Context, only string) error {
	if r.image == "" {
		return errors.New("--image is missing: name the image without a tag, such as registry.example.com/sluice")
	}
	// The image takes longest to build, so that the files can be made alone.
	if only != "" && only != "image" && only != "files" {
		return fmt.Errorf("--only=%s: want image or files", only)
	}
	if err := r.describeCommit(ctx); err != nil {
		return err
	}
	// The folder beside it is on the same file system, so that the rename at the end is one step.
	out, err := filepath.Abs(r.out) // other programs take a relative folder for one below another place
	if err != nil {
		return err
	}
	if r.dir, err = os.MkdirTemp(filepath.Dir(out), ".release-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.dir) }() // gone already unless something failed
	programs, err := r.buildPrograms(ctx)
	if err != nil {
		return err
	}
	if only != "files" {
		if err := r.buildImage(ctx, programs); err != nil {
			return err
		}
	}
	if only != "image" {
		if err := r.buildFiles(ctx, programs); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(r.pathTo("build")); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.Chmod(r.dir, 0o755); err != nil { //nolint:gosec // what is to be published
		return err
	}
	return os.Rename(r.dir, r.out)
}

// describeCommit asks git for the commit, its time and the version.
// Sources with changes get a version that says so. A tag of an image has few letters, so others are
// refused here and not by the registry in the end.
func (r *release) describeCommit(ctx context.Context) error {
	out, err := runCommand(ctx, nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(out), " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.commit, r.time = commit, time.Unix(n, 0).UTC()
	changes, err := runCommand(ctx, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	r.dirty = strings.TrimSpace(changes) != ""
	if r.version == "" {
		out, err := runCommand(ctx, nil, "git", "describe", "--tags", "--always", "--dirty")
		if err != nil {
			return err
		}
		r.version = strings.TrimSpace(out)
	}
	if strings.Trim(r.version, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
		return fmt.Errorf("%q is no version and no tag of an image", r.version)
	}
	return nil
}

// pathTo is a path in the folder of the release. Names are final ones, or below build, which is removed at the end.
func (r *release) pathTo(names ...string) string {
	return filepath.Join(append([]string{r.dir}, names...)...)
}

// program is a built program.
// One is built for each platform, and goes into an archive; those for linux go into the image as well.
type program struct{ os, arch, path string }

// buildPrograms builds the programs without C, so that they run in an empty root.
// -trimpath and the stamped version make the same program on each machine.
func (r *release) buildPrograms(ctx context.Context) (out []program, err error) {
	for _, platform := range r.platforms {
		goos, arch, ok := strings.Cut(platform, "/")
		if !ok {
			return nil, fmt.Errorf("%q is no platform of the form OS/ARCHITECTURE", platform)
		}
		p := program{goos, arch, r.pathTo("build", goos+"-"+arch, "sluice")}
		if goos == "windows" {
			p.path += ".exe"
		}
		fmt.Fprintln(os.Stderr, "building", platform)
		args := append([]string{
			"build", "-buildvcs=false", "-tags", "grpcnotrace", "-o", p.path, "-ldflags", // the tag: see the Makefile
			"-s -w -X sluice.dev/internal/cli.sluiceVersion=" + r.version + " -X sluice.dev/config.defaultImage=" + r.imageReference(),
		}, r.flags...)
		_, err := runCommand(ctx, []string{"CGO_ENABLED=0", "GOOS=" + goos, "GOARCH=" + arch}, cmp.Or(os.Getenv("GO"), "go"), append(args, "./cmd/sluice")...)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// runCommand runs a program and returns its output. Its error includes its standard error.
// env is added to the environment of this process; nil adds nothing.
func runCommand(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the commands of this package, and the one that --sign names
	cmd.Env = append(os.Environ(), env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return string(out), nil
}

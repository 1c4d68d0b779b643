// Package binary finds the localcluster binary that belongs to this working tree, and builds it when there is none yet.
//
// It promises that the binary returned was built from the sources as they are now, with the Kubernetes version stamped
// into it, and that any number of processes asking at once build it one time. It does not start it.
package binary

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	// EnvOverride names a binary to use instead of building one; it is not checked against the sources.
	EnvOverride = "SLUICE_LOCALCLUSTER"

	name         = "localcluster"
	lockInterval = 200 * time.Millisecond
	maxBuildLog  = 8 << 10
)

// Path returns the absolute path of the binary for the working tree that dir is in, building it first when it is not in
// the tree's .cache folder. A build takes minutes when Go's build cache is empty, so its begin is announced on log in one
// line, as is waiting for another process that builds.
func Path(ctx context.Context, dir string, log io.Writer) (string, error) {
	if override := os.Getenv(EnvOverride); override != "" {
		return filepath.Abs(override)
	}
	root, err := findRoot(dir)
	if err != nil {
		return "", err
	}
	flags, err := linkerFlags(root)
	if err != nil {
		return "", err
	}
	key, err := sourceKey(root, flags)
	if err != nil {
		return "", err
	}
	cache := filepath.Join(root, ".cache", name)
	path := filepath.Join(cache, key, name)
	if exists(path) {
		return path, nil
	}
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, filepath.Join(cache, "lock"), log)
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(path) {
		return path, nil
	}
	_, _ = fmt.Fprintf(log, "building %s for the tests (about five minutes on two cores when Go's build cache is empty)\n", name)
	if err := build(ctx, filepath.Join(root, name), path, flags); err != nil {
		return "", err
	}
	return path, prune(cache, key)
}

// findRoot returns the nearest folder at or above dir that holds the localcluster module.
func findRoot(dir string) (string, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at := start; ; at = filepath.Dir(at) {
		if exists(filepath.Join(at, name, "go.mod")) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("neither %s nor a folder above it holds %s/go.mod", start, name)
		}
	}
}

var kubernetesVersion = regexp.MustCompile(`(?m)^\s*(?:require\s+)?k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)`)

// linkerFlags stamps the Kubernetes version that go.mod asks for into the two packages that report it, as upstream's own
// build does (hack/lib/version.sh).
func linkerFlags(root string) (string, error) {
	path := filepath.Join(root, name, "go.mod")
	content, err := os.ReadFile(path) //nolint:gosec // a file of this working tree
	if err != nil {
		return "", err
	}
	match := kubernetesVersion.FindSubmatch(content)
	if match == nil {
		return "", fmt.Errorf("%s requires no version of k8s.io/kubernetes", path)
	}
	flags := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X", pkg+".gitVersion="+string(match[1]), "-X", pkg+".gitMajor="+string(match[2]), "-X", pkg+".gitMinor="+string(match[3]),
			"-X", pkg+".gitCommit=", "-X", pkg+".gitTreeState=")
	}
	return strings.Join(flags, " "), nil
}

// sourceKey names what the binary is built from: the module's files that go into it, the flags, the Go version, the
// platform.
func sourceKey(root, flags string) (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s %s/%s %q\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, flags)
	module := filepath.Join(root, name)
	err := filepath.WalkDir(module, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !isSource(entry.Name()) {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // a file of this working tree
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(module, path)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(sum, "%q %x\n", filepath.ToSlash(relative), sha256.Sum256(content))
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil))[:16], err
}

func isSource(file string) bool {
	return file == "go.mod" || file == "go.sum" || strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go")
}

// build builds into a temporary file first, so that path never holds half a binary.
func build(ctx context.Context, module, path, flags string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	temp := path + ".building"
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", flags, "-o", temp, ".") //nolint:gosec // flags are ours
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=off")
	output, err := cmd.CombinedOutput()
	if err != nil {
		if len(output) > maxBuildLog {
			output = output[len(output)-maxBuildLog:]
		}
		return errors.Join(fmt.Errorf("build %s: %w\n%s", module, err, bytes.TrimSpace(output)), os.RemoveAll(temp))
	}
	return os.Rename(temp, path)
}

// prune removes the binaries of other states of the sources, which are large. One that runs keeps running.
func prune(cache, keep string) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() || e.Name() == keep }) {
		errs = append(errs, os.RemoveAll(filepath.Join(cache, entry.Name())))
	}
	return errors.Join(errs...)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lock waits until this process is the only one that builds.
func lock(ctx context.Context, path string, log io.Writer) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a file of this working tree
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(lockInterval)
	defer ticker.Stop()
	for told := false; ; told = true {
		taken, err := tryLock(file)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		if taken {
			// Closing ends the lock.
			return func() { _ = file.Close() }, nil
		}
		if !told {
			_, _ = fmt.Fprintf(log, "waiting for another process that builds %s\n", name)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), file.Close())
		case <-ticker.C:
		}
	}
}

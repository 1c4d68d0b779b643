// Package binary finds the localcluster binary that belongs to this working tree, and the kubectl of the same Kubernetes version.
// It builds them if there are none yet.
//
// It promises that the binary was built from the current sources, with the Kubernetes version stamped into it. If several processes
// ask at once, only one builds. It does not start the binary.
package binary

import (
	"bytes"
	"cmp"
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

	"github.com/gofrs/flock"
)

const (
	// EnvOverride names a localcluster binary to use instead of building one; it is not checked against the sources.
	EnvOverride = "SLUICE_LOCALCLUSTER"
	// EnvKubectl does the same for kubectl.
	EnvKubectl = "SLUICE_KUBECTL"
	// EnvAssets names a folder with a kube-apiserver, and perhaps a kubectl and a kube-controller-manager, to use instead of building them:
	// that of setup-envtest (controller-runtime).
	EnvAssets = "KUBEBUILDER_ASSETS"

	// module is the folder of the module that knows Kubernetes itself.
	module       = "localcluster"
	lockInterval = 200 * time.Millisecond
	maxBuildLog  = 8 << 10
)

// program is a program of the module. Kubectl and the API server take minutes to build, so both are kept until
// their sources change.
type program struct {
	// name is that of the binary, and of its folder in .cache.
	name     string
	override string
	// pkg is the Go package.
	pkg string
	// foreign: no file of the module but go.mod and go.sum goes into it.
	foreign bool
	// first is the duration of a build with an empty Go build cache.
	first string
	// tags are the build tags.
	tags string
}

// Path returns the absolute path of the localcluster binary for the working tree of dir. If the tree's .cache folder does not have
// it, Path builds it first. With an empty Go build cache a build takes minutes, so Path announces it on log in one line. It also
// announces that it waits for another process that builds.
func Path(ctx context.Context, dir string, log io.Writer) (string, error) {
	p := program{name: module, override: EnvOverride, pkg: ".", first: "about five minutes"}
	if os.Getenv(EnvAssets) != "" {
		if err := checkAsset("kube-apiserver"); err != nil {
			return "", err
		}
		p.name, p.tags, p.first = module+"-assets", "assets", "half a minute"
	}
	return pathOf(ctx, dir, log, p)
}

// Kubectl returns the absolute path of a kubectl of the Kubernetes version that the local cluster has, otherwise as [Path] does.
func Kubectl(ctx context.Context, dir string, log io.Writer) (string, error) {
	if os.Getenv(EnvAssets) != "" && checkAsset("kubectl") == nil {
		return filepath.Abs(filepath.Join(os.Getenv(EnvAssets), "kubectl"))
	}
	return pathOf(ctx, dir, log, program{name: "kubectl", override: EnvKubectl, pkg: "k8s.io/kubernetes/cmd/kubectl", foreign: true, first: "about two minutes"})
}

// checkAsset fails if there is no such program among the assets.
func checkAsset(name string) error {
	path := filepath.Join(os.Getenv(EnvAssets), name)
	info, err := os.Stat(path) //nolint:gosec // the folder that the user names
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s=%s: there is no program %s; setup-envtest use -p path prints a folder that has one", EnvAssets, os.Getenv(EnvAssets), path)
	}
	return nil
}

// HasControllers reports whether the clusters have a kube-controller-manager. The folder of setup-envtest has none.
func HasControllers() bool {
	return os.Getenv(EnvAssets) == "" || checkAsset("kube-controller-manager") == nil
}

// pathOf returns the path of a program, which it builds if the cache lacks it. The path has a key of the sources, so
// that two working trees or two states of one never use each other's binary.
func pathOf(ctx context.Context, dir string, log io.Writer, p program) (string, error) {
	if override := os.Getenv(p.override); override != "" {
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
	key, err := sourceKey(root, flags, p.foreign)
	if err != nil {
		return "", err
	}
	cache := filepath.Join(root, ".cache", p.name)
	path := filepath.Join(cache, key, p.name)
	if fileExists(path) {
		return path, nil
	}
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return "", err
	}
	unlock, err := lockBuild(ctx, filepath.Join(cache, "lock"), p.name, log)
	if err != nil {
		return "", err
	}
	defer unlock()
	if fileExists(path) {
		return path, nil
	}
	_, _ = fmt.Fprintf(log, "building %s for the tests (%s on two cores when Go's build cache is empty)\n", p.name, p.first)
	if err := buildBinary(ctx, filepath.Join(root, module), p, path, flags); err != nil {
		return "", err
	}
	return path, pruneCache(cache, key)
}

// findRoot returns the nearest folder at or above dir that holds the localcluster module.
// Tests run in the folders of their packages, so the root is somewhere above.
func findRoot(dir string) (string, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at := start; ; at = filepath.Dir(at) {
		if fileExists(filepath.Join(at, module, "go.mod")) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("neither %s nor a folder above it holds %s/go.mod", start, module)
		}
	}
}

var kubernetesVersion = regexp.MustCompile(`(?m)^\s*(?:require\s+)?k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)`)

// linkerFlags stamps the Kubernetes version that go.mod asks for into the two packages that report it, as upstream's own
// build does (hack/lib/version.sh).
func linkerFlags(root string) (string, error) {
	path := filepath.Join(root, module, "go.mod")
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

// sourceKey identifies the sources of a binary: the module's files that go into it, the flags, the Go version, the platform.
// Foreign programs have none of the module's Go files in them.
// Tests and documentation do not count, so that editing them builds nothing.
func sourceKey(root, flags string, foreign bool) (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s %s/%s %q\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, flags)
	folder := filepath.Join(root, module)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !isSource(entry.Name()) {
			return err
		}
		if foreign && strings.HasSuffix(entry.Name(), ".go") {
			return nil
		}
		content, err := os.ReadFile(path) //nolint:gosec // a file of this working tree
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, path)
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

// buildBinary builds into a temporary file first, so that path never holds half a binary.
// The error has the end of what the compiler says. An aborted build leaves no file under the final name.
func buildBinary(ctx context.Context, folder string, p program, path, flags string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	temp := path + ".building"
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-tags", cmp.Or(p.tags, "grpcnotrace"), "-ldflags", flags, "-o", temp, p.pkg) //nolint:gosec // flags are ours
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off")
	output, err := cmd.CombinedOutput()
	if err != nil {
		if len(output) > maxBuildLog {
			output = output[len(output)-maxBuildLog:]
		}
		return errors.Join(fmt.Errorf("build %s in %s: %w\n%s", p.pkg, folder, err, bytes.TrimSpace(output)), os.RemoveAll(temp))
	}
	return os.Rename(temp, path)
}

// pruneCache removes the binaries of other states of the sources, which are large. One that runs keeps running.
func pruneCache(cache, keep string) error {
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

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lockBuild waits until this process is the only one that builds.
// The lock is a file that the kernel unlocks when its process ends, so that a killed build blocks nobody.
func lockBuild(ctx context.Context, path, name string, log io.Writer) (unlock func(), err error) {
	file := flock.New(path, flock.SetPermissions(0o600))
	ticker := time.NewTicker(lockInterval)
	defer ticker.Stop()
	for told := false; ; told = true {
		taken, err := file.TryLock()
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

// Package dir reads files below directories that are mounted into the process, for work on a resource without a remote. Neither ..
// nor a symbolic link leads out of a directory. The package does not watch files: each request reads them again.
package dir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"sluice.dev/internal/limit"
	"sluice.dev/resolve"
)

// Names of parameters.
const (
	ParamPath      = "path"
	ParamDirectory = "directory"
	// DefaultDirectory is the directory for requests that name none.
	DefaultDirectory = "default"
)

// Resolver is the resolver dir.
type Resolver struct{ roots map[string]string }

// New returns the resolver. Roots are the directories by the names that requests use; [DefaultDirectory] is for requests that name
// none.
func New(roots map[string]string) *Resolver { return &Resolver{roots: maps.Clone(roots)} }

// Spec implements [resolve.Resolver].
func (d *Resolver) Spec() resolve.Spec {
	names := slices.Sorted(maps.Keys(d.roots))
	directory := resolve.Param{Name: ParamDirectory, MaxLength: 253, Allowed: names, Doc: "The name that the operator gave the directory."}
	if d.roots[DefaultDirectory] != "" {
		directory.Default = DefaultDirectory
	} else {
		directory.Required = true
	}
	return resolve.Spec{
		Name: "dir", Doc: "Reads a file below a directory that is mounted into the resolver.",
		Params: []resolve.Param{
			{Name: ParamPath, Aliases: []string{"pathInRepo"}, Required: true, Check: checkPath, Doc: "The path of the file in the directory; a leading / stands for the directory."},
			directory,
		},
		// All clients that can make requests may read the mounted directories.
		Scope: func(*resolve.Request) string { return resolve.PublicScope },
	}
}

// pathInRoot returns the path as it is below the root.
func pathInRoot(p string) string { return path.Clean(strings.TrimLeft(p, "/")) }

// checkPath refuses paths that leave the directory by their text. Symbolic links are for readBelow.
func checkPath(v string) error {
	if !fs.ValidPath(pathInRoot(v)) || pathInRoot(v) == "." {
		return errors.New("it is no path of a file inside the directory")
	}
	return nil
}

// Resolve implements [resolve.Resolver].
func (d *Resolver) Resolve(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, file := r.Get(ParamDirectory), pathInRoot(r.Get(ParamPath))
	data, err := readBelow(d.roots[name], file, r.Limit())
	if err != nil {
		return nil, withoutLocalPath(err, name, file, r.Limit())
	}
	return &resolve.Resource{
		Data:        data,
		Annotations: map[string]string{resolve.AnnotationContentType: resolve.ContentTypeYAML},
		// The requester must not learn where the directory is mounted.
		Source: resolve.Source{
			URI: "dir://" + name, EntryPoint: file, Digest: resolve.SHA256(data),
		},
	}, nil
}

// errNoRoot means that the directory itself does not exist.
var errNoRoot = errors.New("no directory")

// errNoFile means that the path exists and is no regular file.
var errNoFile = errors.New("no regular file")

// readBelow reads a regular file of at most most bytes. os.Root keeps the path below the root, whatever symbolic links are on it, also
// if they change in the meantime.
func readBelow(root, file string, most int64) (data []byte, err error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, errNoRoot
	}
	defer func() { _ = r.Close() }()
	// Without O_NONBLOCK, opening a named pipe waits for a writer.
	f, err := r.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	if info.Size() > most {
		return nil, resolve.TooLarge("the file", info.Size(), most)
	}
	return limit.ReadSized(io.Reader(f), info.Size(), most)
}

// withoutLocalPath removes the path on this machine, which errors of package os contain.
func withoutLocalPath(err error, name, file string, most int64) error {
	e, ok := errors.AsType[*resolve.Error](err)
	switch {
	case ok:
		return e
	case errors.Is(err, limit.ErrTooLarge):
		return resolve.TooLarge("the file", 0, most)
	case errors.Is(err, errNoRoot):
		return resolve.Errorf(resolve.ReasonFailed, "the directory %q is not there for the resolver, or cannot be read; the operator has to mount it", name)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return resolve.Errorf(resolve.ReasonNotFound, "there is no file %.200q in the directory %q", file, name)
	case errors.Is(err, errNoFile):
		return resolve.Errorf(resolve.ReasonNotFound, "%.200q in the directory %q is no regular file", file, name)
	case errors.Is(err, fs.ErrPermission):
		return resolve.Errorf(resolve.ReasonDenied, "the file %.200q in the directory %q may not be read", file, name)
	default:
		return resolve.Errorf(resolve.ReasonForbidden, "the file %.200q in the directory %q cannot be read; a symbolic link may lead out of the directory", file, name)
	}
}

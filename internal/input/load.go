package input

// How does a source become a set? Load reads its files one by one, decodes them, and then does what needs all of
// them: it renders charts, and applies kustomizations. Where a file cannot be read, the options say whether that
// is an error, or something that the comparison of two sources decides later.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/internal/limit"
)

// Load reads a source. Its errors are of type [*Error], or the context's. The set is returned with [ErrNoCRD] as well,
// so that the caller can tell what was skipped.
func Load(ctx context.Context, src Source, opts Options) (*Set, error) {
	r := &reader{loader: newLoader(src.String(), opts)}
	var err error
	if r.exclude, err = newExclusion(opts.Exclude); err != nil {
		return nil, err
	}
	switch src.Kind {
	case Stdin:
		err = r.readStdin(ctx, src.String())
	case Path:
		if err = r.readPaths(ctx, src); err == nil && opts.PassTemplates {
			err = r.finishSource(ctx, surroundings{read: r.readBeside, copyFolder: r.copyFolderBeside})
		}
	case Git:
		r.inRevision = true
		err = asSourceError(ctx, src.String(), r.readRevision(ctx, src))
	case Cluster:
		err = fileError(src.String(), ErrCluster, "%v", ErrCluster)
	}
	if err != nil {
		return nil, err
	}
	return r.finishSet()
}

// reader reads the files of one source into a set.
type reader struct {
	*loader
	// total is the number of bytes read, entries the number of directory entries.
	total   int64
	entries int
	exclude exclusion
	// deferred are the templates of definitions, which are read after all other files.
	deferred []chartTemplate
	// kustomizations has the content of the files of this kind that were read, by name.
	kustomizations map[string][]byte
	// roots are the paths of the source, as the names of files have them.
	roots []string
	// tree is the work tree that is read; nil if the files are not compared with a revision.
	tree *workTree
	// inRevision is set if the names of files are relative to the root of a git revision.
	inRevision bool
}

// finishSource does what needs more than one file: it renders charts and applies patches.
func (r *reader) finishSource(ctx context.Context, around surroundings) error {
	if err := r.renderCharts(ctx, around); err != nil {
		return err
	}
	return r.applyKustomizations(ctx, around.read)
}

// linkLeftOut is the remark on a symbolic link.
const linkLeftOut = "a symbolic link that leads to no file here; it is left out"

// addRemark adds a remark about a file, once. Its key is the place below the paths of the source, by which the
// same remark on two sides is found.
func (r *reader) addRemark(file, text string, ifChanged bool) {
	key := file
	for i, root := range r.roots {
		if below, err := filepath.Rel(root, file); err == nil && (i == 0 || fs.ValidPath(filepath.ToSlash(below))) {
			key = keyOf(i, below)
		}
	}
	m := Remark{Key: key, Text: strings.ReplaceAll(text, "\n", " "), File: file, IfChanged: ifChanged}
	if !slices.Contains(r.set.Remarks, m) {
		r.set.Remarks = append(r.set.Remarks, m)
	}
}

// readStdin reads standard input.
func (r *reader) readStdin(ctx context.Context, name string) error {
	if r.opts.Stdin == nil {
		return fileError(name, nil, "there is no standard input")
	}
	return r.readStream(ctx, name, r.opts.Stdin)
}

// readStream reads and decodes what may block for long: standard input or a pipe.
func (r *reader) readStream(ctx context.Context, name string, in io.Reader) error {
	data, err := awaitBlocking(ctx, func() ([]byte, error) { return limit.ReadAll(&contextReader{ctx: ctx, r: in}, r.bytesAllowed()) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.decodeContent(ctx, name, data, false, err)
}

// bytesAllowed returns the number of bytes that the next file may have.
func (r *reader) bytesAllowed() int64 {
	return min(r.opts.MaxFileBytes, r.opts.MaxTotalBytes-r.total)
}

// checkFits refuses a file of the given size if it is over a limit.
func (r *reader) checkFits(name string, size int64) error {
	switch {
	case size > r.opts.MaxFileBytes:
		return fileError(name, ErrTooLarge, "too large: more than %s, the limit for one file", byteSize(r.opts.MaxFileBytes))
	case r.total+size > r.opts.MaxTotalBytes:
		return fileError(name, ErrTooLarge, "too large: with this file the source has more than %s, the limit for all files",
			byteSize(r.opts.MaxTotalBytes))
	}
	return nil
}

// decodeContent decodes what was read from the file called name. below tells that it was found in a directory. err
// is the error of reading the file; data is nil then. With [Options.KeepAll], a file of a directory that cannot be
// decoded is kept among the unread ones.
func (r *reader) decodeContent(ctx context.Context, name string, data []byte, below bool, err error) error {
	if below && r.opts.PassTests && r.isOfTests() {
		if bytes.Contains(data, []byte(crdKind)) {
			r.set.Tests = append(r.set.Tests, name)
		}
		return ctx.Err()
	}
	switch {
	case err != nil:
		r.sum = r.blob
	case r.opts.KeepAll:
		r.sum = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	if err = r.decodeStrictly(ctx, name, data, below, err); err == nil || !r.opts.KeepAll || !below {
		return err
	}
	if isPackedChart(name) {
		data = nil // what is in it cannot be told
	}
	return r.keepUnread(err, data)
}

// isOfTests reports whether the file with the current key is for tests.
func (r *reader) isOfTests() bool {
	index, below, _ := strings.Cut(r.key, "/")
	i, err := strconv.Atoi(index)
	if err != nil || i >= len(r.roots) {
		return false
	}
	root := r.roots[i]
	if root == "." {
		if here, err := withoutLinks(r.opts.Dir); err == nil && !r.inRevision {
			root = here
		}
	}
	return isOfTests(root, below)
}

// isOfTests reports whether a file below a folder is for tests: in a folder testdata, as Go has them, or src/test, as Maven and Gradle do. The folder
// itself does not count: a user who names a folder of tests wants it read.
func isOfTests(root, below string) bool {
	steps := append([]string{path.Base(filepath.ToSlash(root))}, strings.Split(path.Dir(below), "/")...)
	for i, step := range steps[1:] {
		if step == "testdata" || step == "test" && steps[i] == "src" {
			return true
		}
	}
	return false
}

// keepUnread lists a file that cannot be read among those of the set. A file in which no definition can stand is left out.
func (r *reader) keepUnread(err error, data []byte) error {
	e, ok := errors.AsType[*Error](err)
	letters := bytes.ReplaceAll(data, []byte{0}, nil) // of UTF-16, which kubectl reads, too
	switch {
	case !ok || errors.Is(err, ErrTooLarge):
		return err
	case data == nil || bytes.Contains(letters, []byte(crdKind)) || errors.Is(err, errPointer):
		r.set.Unread = append(r.set.Unread, Unread{Key: r.key, Sum: r.sum, Err: e})
	default:
		r.set.Skipped[Unreadable]++
	}
	return nil
}

// decodeStrictly decodes a file; whatever cannot be read is an error. Packed charts are unpacked, and templates of
// charts are deferred until all files are read.
func (r *reader) decodeStrictly(ctx context.Context, name string, data []byte, below bool, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, limit.ErrTooLarge):
		return r.checkFits(name, r.bytesAllowed()+1)
	case err != nil:
		return fileError(name, err, "cannot be read: %v", systemReason(err))
	}
	r.total += int64(len(data))
	if sum, ok := pointerSum(data); ok {
		r.sum = sum
		fetch := "git lfs pull"
		if r.inRevision {
			fetch = "git lfs fetch --all"
		}
		return fileError(name, errPointer, "is a pointer of Git LFS, and not its content: %s", fetch)
	}
	if len(bytes.TrimSpace(data)) == 0 && name == "-" {
		return fileError(name, ErrNoCRD, "standard input is empty; if several files are given, only one can be -")
	}
	if below && r.opts.PassTemplates && isPackedChart(name) {
		return r.readPacked(ctx, name, data)
	}
	if below && (r.deferTemplate(name, data) || r.passTemplate(ctx, name, data)) {
		return nil
	}
	r.passPatches = below && r.opts.PassTemplates
	if r.passPatches && slices.Contains(kustomizationNames, filepath.Base(name)) {
		if r.kustomizations == nil {
			r.kustomizations = map[string][]byte{}
		}
		r.kustomizations[filepath.ToSlash(name)] = data
	}
	return r.addFile(ctx, name, data)
}

// errPointer says that a file is a pointer of Git LFS.
var errPointer = errors.New("pointer of Git LFS")

// lfsPointer matches the pointer that stands in git for a large file (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
var lfsPointer = regexp.MustCompile(`\Aversion https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\n`)

// pointerSum returns the SHA-256 of the content that a pointer of Git LFS stands for.
func pointerSum(data []byte) (string, bool) {
	if len(data) > 1024 { // the longest pointer
		return "", false
	}
	m := lfsPointer.FindSubmatch(data)
	if m == nil {
		return "", false
	}
	return string(m[1]), true
}

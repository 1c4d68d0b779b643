package input

// Which files does a path stand for? The file itself, or in a directory all files with the names of manifests, in
// the order of their paths. Symbolic links are followed, loops are found, and what is hidden, excluded, or not of
// the repository is left out. Reading is bounded, and stops when the context ends, also at a pipe that nobody
// writes to.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/patternmatcher"

	"sluice.dev/internal/limit"
)

// isWantedName is true for the names of files that are read in a directory. Letters of the extension may be in any
// case.
func isWantedName(name string) bool {
	return !isHiddenName(name) && slices.Contains(extensions, strings.ToLower(filepath.Ext(name)))
}

// isWanted is true for the files that are read in a directory: those of a wanted name, and packed charts.
func (r *reader) isWanted(name string) bool {
	return isWantedName(filepath.Base(name)) || r.opts.PassTemplates && isPackedChart(name)
}

// keyOf returns the key of a file below the path at index i of a source.
func keyOf(i int, below string) string { return fmt.Sprintf("%d/%s", i, filepath.ToSlash(below)) }

// isHiddenName is true for names that begin with a dot.
func isHiddenName(name string) bool { return strings.HasPrefix(name, ".") }

// forEachPath calls read for each path of a source. If some may be missing, one has to be there.
func (r *reader) forEachPath(paths []string, some bool, read func(i int, p string) (missing, err error)) error {
	var lacking error
	found := false
	for i, p := range paths {
		missing, err := read(i, p)
		switch {
		case err != nil:
			return err
		case missing == nil:
			found = true
		case !some:
			return missing
		default:
			lacking = missing
			r.set.Missing = append(r.set.Missing, p)
		}
	}
	if !found {
		return lacking
	}
	return nil
}

// readPaths reads files and directories. If they are compared with a revision of the same repository, what a
// sparse checkout leaves out is read from the index first. Then a path may be missing on disk.
func (r *reader) readPaths(ctx context.Context, src Source) error {
	return r.forEachPath(src.Paths, src.Some, func(i int, p string) (missing, err error) {
		r.roots = append(r.roots, filepath.Clean(p))
		sparse := false
		r.tree = nil
		if src.inGit {
			if sparse, err = r.readSparse(ctx, i, p); err != nil {
				return nil, err
			}
			if r.tree, err = r.findWorkTree(ctx, p); err != nil {
				return nil, err
			}
		}
		err = r.readPath(ctx, i, p)
		switch {
		case errors.Is(err, ErrNotFound) && sparse:
			return nil, nil
		case errors.Is(err, ErrNotFound):
			return err, nil
		}
		return nil, err
	})
}

// pathInDir returns the path of a file for the system: names are relative to [Options.Dir].
func (r *reader) pathInDir(name string) string {
	full := filepath.FromSlash(name)
	if r.opts.Dir != "" && !filepath.IsAbs(full) {
		full = filepath.Join(r.opts.Dir, full)
	}
	return full
}

// readPath reads the file p, or those below it, at index i of a source. A path that does not exist is an
// [ErrNotFound]. A file that the user names is read whatever its name is; in a directory, names matter.
func (r *reader) readPath(ctx context.Context, i int, p string) error {
	full := r.pathInDir(p)
	info, err := os.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fileError(p, ErrNotFound, "no such file or directory; %s", sourceForms)
	case err != nil:
		return fileError(p, err, "cannot be read: %v", systemReason(err))
	case !info.IsDir():
		r.key = keyOf(i, "")
		return r.readFile(ctx, walked{name: p, full: full, info: info}, false)
	}
	w := &walker{r: r}
	if err := w.collectBelow(ctx, p, full, []fs.FileInfo{info}); err != nil {
		return err
	}
	slices.SortFunc(w.files, func(a, b walked) int { return strings.Compare(a.name, b.name) })
	for _, f := range w.files {
		if r.exclude.isExcluded(f.name) {
			r.set.Excluded++
			continue
		}
		below, err := filepath.Rel(p, f.name)
		if err != nil {
			return err
		}
		r.key = keyOf(i, below)
		if err := r.readFile(ctx, f, true); err != nil {
			return err
		}
	}
	return nil
}

// walker collects the files below a directory.
type walker struct {
	r     *reader
	files []walked
}

// walked is a file: its name for people, its path for the system.
type walked struct {
	name, full string
	info       fs.FileInfo
}

// collectBelow collects the files below the directory full. above are the directories on the way to it, itself included.
func (w *walker) collectBelow(ctx context.Context, name, full string, above []fs.FileInfo) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(full)
	if err != nil {
		return fileError(name, err, "cannot be read: %v", systemReason(err))
	}
	w.r.entries += len(entries)
	if w.r.entries > maxEntries {
		return fileError(name, ErrTooLarge, "too large: more than %d files and directories", maxEntries)
	}
	for _, e := range entries {
		f := walked{name: filepath.Join(name, e.Name()), full: filepath.Join(full, e.Name())}
		if isHiddenName(e.Name()) || w.r.tree.isForeign(f.name, f.full) {
			continue
		}
		if err := w.collectEntry(ctx, f, e.Type()&fs.ModeSymlink != 0, above); err != nil {
			return err
		}
	}
	return nil
}

// collectEntry collects a file, or those below a directory. With [Options.KeepAll], a link that leads nowhere, or
// out of the work tree, is a remark instead of an error.
func (w *walker) collectEntry(ctx context.Context, f walked, isLink bool, above []fs.FileInfo) error {
	var err error
	switch f.info, err = os.Stat(f.full); {
	case err != nil && !w.r.isWanted(f.name):
	case isLink && w.r.opts.KeepAll && (err != nil || !w.r.tree.hasTargetOf(f.full)):
		if w.r.isWanted(f.name) {
			w.r.addRemark(f.name, linkLeftOut, true)
		}
	case err != nil:
		return fileError(f.name, err, "cannot be read: %v", systemReason(err))
	case f.info.IsDir() && slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, f.info) }):
		if !w.r.opts.KeepAll { // otherwise all of it is read already
			return fileError(f.name, fs.ErrInvalid, "is a symbolic link to a directory that contains it, a loop")
		}
	case f.info.IsDir():
		return w.collectBelow(ctx, f.name, f.full, append(slices.Clip(above), f.info))
	case f.info.Mode().IsRegular() && w.r.isWanted(f.name):
		w.files = append(w.files, f)
	}
	return nil
}

// readFile reads and decodes one file. below tells that it was found in a directory. A file that is not regular,
// such as a pipe, is read as a stream of unknown size.
func (r *reader) readFile(ctx context.Context, file walked, below bool) error {
	name, info := file.name, file.info
	if info.Mode().IsRegular() {
		if err := r.checkFits(name, info.Size()); err != nil {
			return err
		}
	}
	f, err := openFile(ctx, file.full)
	if err != nil {
		return fileError(name, err, "cannot be read: %v", systemReason(err))
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if !info.Mode().IsRegular() {
		return r.readStream(ctx, name, f)
	}
	data, err := limit.ReadSized(&contextReader{ctx: ctx, r: f}, info.Size(), r.bytesAllowed())
	return r.decodeContent(ctx, name, data, below, err)
}

// openFile opens a file to read, and stops waiting when the context is done: a named pipe does not open before somebody
// writes to it.
func openFile(ctx context.Context, path string) (*os.File, error) {
	return awaitBlocking(ctx, func() (*os.File, error) { return os.Open(path) }) //nolint:gosec // reading the file that the user names is what this is for
}

// awaitBlocking does what may block for long, and stops waiting when the context is done. The call that blocks
// goes on in the background; its result is dropped.
func awaitBlocking[T any](ctx context.Context, do func() (T, error)) (out T, err error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case got := <-done:
		return got.value, got.err
	case <-ctx.Done():
		return out, ctx.Err()
	}
}

// systemReason returns the system's message, without the operation and the path, which the reader knows.
func systemReason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// byteSize writes n bytes for people.
func byteSize(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// errTemplate says that a file holds a template of text, such as Helm's, and no YAML.
var errTemplate = errors.New("a template, not YAML")

// exclusion decides which files below a directory are skipped.
type exclusion struct {
	matcher *patternmatcher.PatternMatcher // nil excludes nothing
	// prefix is the current directory within a repository, with a slash at the end, for files of a revision.
	prefix string
}

// newExclusion compiles the patterns; none exclude nothing.
func newExclusion(patterns []string) (exclusion, error) {
	if len(patterns) == 0 {
		return exclusion{}, nil
	}
	m, err := patternmatcher.New(patterns)
	if err != nil {
		return exclusion{}, &Error{Msg: "bad pattern of files to exclude: " + err.Error(), Err: err}
	}
	return exclusion{matcher: m}, nil
}

// isExcluded is true for a file that is left out; name is how it was reached.
func (x exclusion) isExcluded(name string) bool {
	if x.matcher == nil {
		return false
	}
	name = strings.TrimPrefix(filepath.ToSlash(filepath.Clean(name)), x.prefix)
	found, err := x.matcher.MatchesOrParentMatches(name)
	return err == nil && found // New has compiled all patterns
}

// passTemplate reports whether a file that was found in a directory is a template of a Helm chart, which cannot be read before it is
// rendered, and records it in the set. Only files below a folder called templates, as in charts, are skipped: elsewhere a file that
// cannot be read is an error.
func (r *reader) passTemplate(ctx context.Context, name string, data []byte) bool {
	if !r.opts.PassTemplates || !isTemplateName(name) {
		return false
	}
	if _, err := Decode(ctx, name, data); !errors.Is(err, errTemplate) {
		return false
	}
	r.set.Templates = append(r.set.Templates, name)
	return true
}

package git

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"sluice.dev/internal/brief"
	"sluice.dev/resolve"
)

// This file finds a path in the trees of a commit. It fetches a tree only if the path leads through it, and reads it as a stream: a
// directory may have a million entries. For example, a/b.yaml takes the root tree, the tree a, and the blob b.yaml.

// Bounds of walks through a tree.
const (
	maxSymlinks   = 16
	maxLink       = 4096
	maxComponents = 512
	// maxDirectoryFiles bounds the files of a directory that are joined.
	maxDirectoryFiles = 500
)

// The modes of tree entries.
const (
	modeTree      = "40000"
	modeSymlink   = "120000"
	modeSubmodule = "160000"
)

// entry is one entry of a tree.
type entry struct {
	mode, name, id string
}

// file is a place in a tree: its path after links were followed, and its entry.
type file struct {
	entry
	path string
}

// maxEntryName bounds the name of an entry; longer names are ignored. No file system allows as much.
const maxEntryName = 16 << 10

// rawEntry is an entry during the walk. Its bytes are reused for the next one.
type rawEntry struct{ mode, name, id []byte }

func (e rawEntry) toEntry() entry {
	return entry{mode: strings.TrimLeft(string(e.mode), "0"), name: string(e.name), id: hex.EncodeToString(e.id)}
}

// errEnough ends a walk through a tree early, without a failure.
var errEnough = errors.New("the rest is not wanted")

// eachEntry reads the entries of a tree object from a stream, to its end. idSize is the length of an object ID in bytes.
func eachEntry(r *bufio.Reader, idSize int, visit func(rawEntry) error) error {
	id := make([]byte, idSize)
	var line []byte
	for {
		if _, err := r.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		var err error
		if line, err = upTo(r, 0, maxEntryName, line[:0]); err != nil {
			return errCorrupt
		}
		if _, err := io.ReadFull(r, id); err != nil {
			return errCorrupt
		}
		if len(line) == 0 {
			continue // it is too long
		}
		mode, name, ok := bytes.Cut(line, []byte{' '})
		if !ok || len(mode) == 0 || len(mode) > 7 {
			return errCorrupt
		}
		if len(name) == 0 {
			continue
		}
		switch err := visit(rawEntry{mode, name, id}); {
		case errors.Is(err, errEnough):
			if _, err := io.Copy(io.Discard, r); err != nil {
				return errCorrupt
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// upTo appends the bytes before the byte end to out; nothing if there are more than limit.
func upTo(r *bufio.Reader, end byte, limit int, out []byte) ([]byte, error) {
	for long := false; ; {
		part, err := r.ReadSlice(end)
		if long = long || len(out)+len(part) > limit+1; long {
			out = out[:0]
		} else {
			out = append(out, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, err
		case long:
			return out, nil
		default:
			return out[:len(out)-1], nil
		}
	}
}

// walker finds paths in the tree of one commit.
type walker struct {
	mirror *mirror
	commit commit
	// fileBytes bounds the result, packBytes a fetch.
	fileBytes, packBytes int64
	// below includes files in subdirectories.
	below bool
	// known caches found entries, by the ID of the tree and their names, because links lead through them again.
	known map[[2]string]entry
}

// maxKnown bounds that cache.
const maxKnown = 4096

// eachEntryOf visits the entries of a tree, in the tree's order.
func (w *walker) eachEntryOf(ctx context.Context, id string, visit func(rawEntry) error) error {
	read := func() error {
		return w.mirror.withObject(ctx, id, "tree", maxTreeSize, func(_ string, _ int64, body io.Reader) error {
			return eachEntry(bufio.NewReaderSize(body, 32<<10), len(id)/2, visit)
		})
	}
	err := read()
	if errors.Is(err, errMissing) {
		if err = w.mirror.fetchMissing(ctx, w.commit, "tree", []string{id}, maxTreeSize, w.packBytes); err == nil {
			err = read()
		}
	}
	if size, ok := errors.AsType[*sizeError](err); ok {
		return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: the list of a directory of the repository has %w", size)
	}
	if errors.Is(err, errTooMuch) {
		return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: a directory of the repository is larger than %d bytes", min(maxTreeSize, w.packBytes))
	}
	return err
}

// childEntry returns the entry of that name in a directory. If there is none, it returns a description of the directory.
func (w *walker) childEntry(ctx context.Context, dir file, name string) (found entry, instead *listing, err error) {
	key := [2]string{dir.id, name}
	if e, ok := w.known[key]; ok {
		return e, nil, nil
	}
	instead = &listing{dir: dir.path, name: name}
	err = w.eachEntryOf(ctx, dir.id, func(e rawEntry) error {
		if string(e.name) == name {
			found = e.toEntry()
			return errEnough
		}
		instead.addName(e.name)
		return nil
	})
	if err == nil && found.name != "" && len(w.known) < maxKnown {
		if w.known == nil {
			w.known = map[[2]string]entry{}
		}
		w.known[key] = found
	}
	return found, instead, err
}

// findPath walks to a path. It follows symbolic links inside the tree, also in the middle of the path.
func (w *walker) findPath(ctx context.Context, p string) (file, error) {
	bad := func(reason resolve.Reason, format string, args ...any) (file, error) {
		return file{}, resolve.Errorf(reason, "pathInRepo: %q "+format, append([]any{p}, args...)...)
	}
	root := file{entry: entry{mode: modeTree, id: w.commit.tree}}
	stack := []file{root}
	todo := strings.Split(p, "/")
	links := 0
	for len(todo) > 0 {
		if len(todo) > maxComponents || len(stack) > maxComponents {
			return bad(resolve.ReasonInvalid, "has more than %d parts", maxComponents)
		}
		c := todo[0]
		todo = todo[1:]
		// The stack has the directories from the root to here, so that .. leads to the one above, also behind a link.
		here := stack[len(stack)-1]
		if c == "" || c == "." {
			continue
		}
		if c == ".." {
			if len(stack) == 1 {
				return bad(resolve.ReasonForbidden, "leaves the repository")
			}
			stack = stack[:len(stack)-1]
			continue
		}
		if here.mode != modeTree {
			return bad(resolve.ReasonNotFound, "goes through %q, which is a file", here.path)
		}
		e, instead, err := w.childEntry(ctx, here, c)
		if err != nil {
			return file{}, err
		}
		if e.name == "" {
			return bad(resolve.ReasonNotFound, "is not in commit %s: %s", w.commit.id, instead)
		}
		at := path.Join(here.path, c)
		switch e.mode {
		case modeSubmodule:
			return bad(resolve.ReasonForbidden, "is in the submodule %q; submodules are not fetched: name the submodule's own repository", at)
		case modeSymlink:
			if links++; links > maxSymlinks {
				return bad(resolve.ReasonForbidden, "goes through more than %d symbolic links", maxSymlinks)
			}
			to, err := w.readLink(ctx, e.id)
			if err != nil {
				return file{}, err
			}
			if strings.HasPrefix(to, "/") || to == "" || strings.ContainsRune(to, 0) {
				return bad(resolve.ReasonForbidden, "goes through the symbolic link %q, which leaves the repository", at)
			}
			// The target is relative to the directory of the link, which is the end of the stack.
			todo = append(strings.Split(to, "/"), todo...)
		default:
			stack = append(stack, file{e, at})
		}
	}
	return stack[len(stack)-1], nil
}

// listing describes the entries of a directory that lacks a name.
type listing struct {
	dir, name   string
	near        string   // the name that is most like it
	same, other []string // a few names with the extension of the name, and with others
	count       int
}

const (
	maxListed = 5
	// maxCompared bounds the names that are compared with the missing one.
	maxCompared = 20_000
)

// addName notes a name for the description. It keeps a few names, so that a directory with a million entries costs no memory.
func (l *listing) addName(raw []byte) {
	l.count++
	if d := len(raw) - len(l.name); l.count <= maxCompared && d >= -3 && d <= 3 && !hasControl(string(raw)) {
		l.near = brief.Nearest(l.name, slices.DeleteFunc([]string{l.near, string(raw)}, func(s string) bool { return s == "" }))
	}
	if len(l.same) == maxListed || len(raw) > 255 {
		return // the names with the extension come first
	}
	name := string(raw)
	if hasControl(name) {
		return
	}
	to := &l.other
	if path.Ext(name) == path.Ext(l.name) {
		to = &l.same
	}
	if len(*to) < maxListed {
		*to = append(*to, name)
	}
}

// String names the nearest entry first, then those with the same extension, then others: dir has no "tsk.yaml" but task.yaml, a.yaml,
// ...
func (l *listing) String() string {
	dir := cmp.Or(l.dir, "the root")
	if l.count == 0 {
		return dir + " is empty"
	}
	names := slices.Concat(l.same, l.other)
	if l.near != "" {
		names = append([]string{l.near}, slices.DeleteFunc(names, func(s string) bool { return s == l.near })...)
	}
	names = names[:min(len(names), maxListed)]
	more := ""
	if l.count > len(names) {
		more = ", ..."
	}
	return fmt.Sprintf("%s has no %q but %s%s", dir, l.name, strings.Join(names, ", "), more)
}

// readLink returns the target of a symbolic link, which git stores as the content of a blob.
func (w *walker) readLink(ctx context.Context, id string) (string, error) {
	data, err := w.readBlob(ctx, id, maxLink)
	if errors.Is(err, errTooMuch) {
		return "", resolve.Errorf(resolve.ReasonForbidden, "pathInRepo: a symbolic link on the way is longer than %d bytes", maxLink)
	}
	return string(data), err
}

// readBlob reads a blob, and fetches it first if it is missing.
func (w *walker) readBlob(ctx context.Context, id string, limit int64) ([]byte, error) {
	_, data, err := w.mirror.readObject(ctx, id, "blob", limit)
	if !errors.Is(err, errMissing) {
		return data, err
	}
	if err := w.mirror.fetchMissing(ctx, w.commit, "blob", []string{id}, max(limit, 64<<10), w.packBytes); err != nil {
		return nil, err
	}
	_, data, err = w.mirror.readObject(ctx, id, "blob", limit)
	if errors.Is(err, errMissing) {
		return nil, missingError(resolve.ReasonFailed, "the server does not send the blob "+id)
	}
	return data, err
}

// readPath returns the content of a path. A file is returned unchanged. For a directory it joins the YAML and JSON files, in the order
// of their names, to a stream of documents. It also returns the place of each file, after links.
func (w *walker) readPath(ctx context.Context, p string, allowed func(path string) error) ([]byte, error) {
	f, err := w.findPath(ctx, p)
	if err != nil {
		return nil, err
	}
	if f.mode != modeTree {
		if err := allowed(f.path); err != nil {
			return nil, err
		}
		data, err := w.readBlob(ctx, f.id, w.fileBytes)
		if size, ok := errors.AsType[*sizeError](err); ok {
			return nil, resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: %q has %w", p, size)
		}
		return data, w.tooLarge(p, err)
	}
	c := &collector{walker: w, asked: p, allowed: allowed}
	if err := c.collectFiles(ctx, f, ""); err != nil {
		return nil, err
	}
	files := c.files
	if len(files) == 0 {
		return nil, resolve.Errorf(resolve.ReasonNotFound, "pathInRepo: %q is a directory without .yaml, .yml or .json files", p)
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return w.streamFiles(ctx, p, files)
}

// collector gathers the files of a directory.
type collector struct {
	*walker

	// asked is the requested path.
	asked   string
	allowed func(path string) error
	files   []file
	// looked is the number of entries so far.
	looked int
}

// maxLooked bounds the entries of all directories below one.
const maxLooked = 100_000

// maxDirectories bounds the directories that are entered below one.
const maxDirectories = 10_000

// collectFiles gathers the files of the directory f. prefix is its path below the requested directory. It enters directories, but not
// links to directories.
func (c *collector) collectFiles(ctx context.Context, f file, prefix string) error {
	if strings.Count(prefix, "/") > maxComponents {
		return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: %q has directories nested deeper than %d", c.asked, maxComponents)
	}
	found, err := c.chooseEntries(ctx, f.id)
	if err != nil {
		return err
	}
	if err := c.prefetchTrees(ctx, found); err != nil {
		return err
	}
	for _, e := range found {
		at := path.Join(f.path, e.name)
		if e.mode == modeTree {
			if err := c.collectFiles(ctx, file{e, at}, prefix+e.name+"/"); err != nil {
				return err
			}
			continue
		}
		one := file{e, at}
		if e.mode == modeSymlink {
			if one, err = c.findPath(ctx, at); err != nil {
				return err
			}
			if one.mode == modeTree {
				continue
			}
		}
		if err := c.allowed(one.path); err != nil {
			return err
		}
		one.name = prefix + e.name
		if c.files = append(c.files, one); len(c.files) > maxDirectoryFiles {
			return c.tooMany()
		}
	}
	return nil
}

// chooseEntries returns the entries of one directory that are wanted: files by their extensions, and directories if those are entered.
func (c *collector) chooseEntries(ctx context.Context, id string) (found []entry, err error) {
	files, directories := len(c.files), 0
	err = c.eachEntryOf(ctx, id, func(raw rawEntry) error {
		if c.looked++; c.looked > maxLooked {
			return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: the directory %q has more than %d entries", c.asked, maxLooked)
		}
		e := raw.toEntry()
		switch hidden := c.below && strings.HasPrefix(e.name, "."); {
		case hidden || e.mode == modeSubmodule:
			return nil
		case e.mode == modeTree:
			if !c.below {
				return nil
			}
			if directories++; directories > maxDirectories {
				return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: the directory %q has more than %d directories in one", c.asked, maxDirectories)
			}
		case !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(e.name)):
			return nil
		default:
			// Links to directories are ignored, but their number has a limit.
			if files++; files > 2*maxDirectoryFiles {
				return c.tooMany()
			}
		}
		if e.name == "." || e.name == ".." || strings.Contains(e.name, "/") {
			// Its path would be that of another file.
			return resolve.Errorf(resolve.ReasonForbidden, "pathInRepo: the directory %q has an entry whose name is not one of a file", c.asked)
		}
		found = append(found, e)
		return nil
	})
	return found, err
}

// prefetchTrees fetches the directories among the entries in one fetch.
func (c *collector) prefetchTrees(ctx context.Context, found []entry) error {
	var ids []string
	for _, e := range found {
		if e.mode == modeTree {
			ids = append(ids, e.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return c.mirror.fetchMissing(ctx, c.commit, "tree", ids, maxTreeSize, c.packBytes)
}

func (c *collector) tooMany() error {
	return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: the directory %q has more than %d files", c.asked, maxDirectoryFiles)
}

// streamFiles joins files to a stream of YAML documents. It fetches all of them at once. The limit is for all together.
func (w *walker) streamFiles(ctx context.Context, p string, files []file) ([]byte, error) {
	ids := make([]string, len(files))
	for i, f := range files {
		ids[i] = f.id
	}
	if err := w.mirror.fetchMissing(ctx, w.commit, "blob", ids, w.fileBytes, w.packBytes); err != nil {
		return nil, w.tooLarge(p, err)
	}
	var out bytes.Buffer
	for i, f := range files {
		data, err := w.readBlob(ctx, f.id, w.fileBytes-int64(out.Len()))
		if err != nil {
			return nil, w.tooLarge(p, err)
		}
		if i > 0 && !bytes.HasPrefix(data, []byte("---")) {
			out.WriteString("---\n")
		}
		out.Write(data)
		if len(data) > 0 && data[len(data)-1] != '\n' {
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}

// tooLarge names the limit if an error is about that; it returns other errors as they are.
func (w *walker) tooLarge(p string, err error) error {
	if !errors.Is(err, errTooMuch) {
		return err
	}
	return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: %q has more than the %d bytes that are allowed", p, w.fileBytes)
}

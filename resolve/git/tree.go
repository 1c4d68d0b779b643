package git

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"sluice.dev/resolve"
)

// Bounds of walks through a tree.
const (
	maxSymlinks   = 16
	maxLink       = 4096
	maxComponents = 512
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

// file is a place in a tree: where it was found after links were followed, and what is there.
type file struct {
	entry
	path string
}

// maxEntryName bounds the name of an entry that can be asked for; longer ones are passed over. It is more than any file system
// takes.
const maxEntryName = 16 << 10

// eachEntry reads the entries of a tree object from a stream. idSize is the length of an object's name in bytes.
func eachEntry(r *bufio.Reader, idSize int, visit func(entry) error) error {
	id := make([]byte, idSize)
	for {
		if _, err := r.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		mode, err := upTo(r, ' ', 8)
		if err != nil || mode == "" {
			return errCorrupt
		}
		name, err := upTo(r, 0, maxEntryName)
		if err != nil {
			return errCorrupt
		}
		if _, err := io.ReadFull(r, id); err != nil {
			return errCorrupt
		}
		if name == "" {
			continue
		}
		if err := visit(entry{mode: strings.TrimLeft(mode, "0"), name: name, id: hex.EncodeToString(id)}); err != nil {
			return err
		}
	}
}

// upTo reads what stands before the byte end; it is empty where that is more than limit bytes.
func upTo(r *bufio.Reader, end byte, limit int) (string, error) {
	var out []byte
	for long := false; ; {
		part, err := r.ReadSlice(end)
		if long = long || len(out)+len(part) > limit+1; long {
			out = nil
		} else {
			out = append(out, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return "", err
		case long:
			return "", nil
		default:
			return string(out[:len(out)-1]), nil
		}
	}
}

// walker finds paths in the tree of one commit.
type walker struct {
	mirror *mirror
	commit commit
	limits Limits
	// below takes the files in the directories below a directory as well.
	below bool
	// trees are small ones that were read, by object name: links lead through them again.
	trees map[string][]entry
}

// Bounds of what a walker remembers: a tree with a million entries takes hundreds of megabytes in memory.
const (
	maxKeptEntries = 200
	maxKeptTrees   = 32
)

// each visits the entries of a tree, in the tree's order.
func (w *walker) each(ctx context.Context, id string, visit func(entry) error) error {
	if t, ok := w.trees[id]; ok {
		for _, e := range t {
			if err := visit(e); err != nil {
				return err
			}
		}
		return nil
	}
	var small []entry
	read := func() error {
		return w.mirror.stream(ctx, id, "tree", maxTreeSize, func(r *bufio.Reader) error {
			return eachEntry(r, len(id)/2, func(e entry) error {
				if len(small) <= maxKeptEntries && len(e.name) < 1024 {
					small = append(small, e)
				}
				return visit(e)
			})
		})
	}
	err := read()
	if errors.Is(err, errMissing) {
		if err = w.mirror.objects(ctx, w.commit, "tree", []string{id}, maxTreeSize, w.limits); err == nil {
			err = read()
		}
	}
	if errors.Is(err, errTooMuch) {
		return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: a directory of the repository is larger than %d bytes", maxTreeSize)
	}
	if err == nil && len(small) <= maxKeptEntries && len(w.trees) < maxKeptTrees {
		if w.trees == nil {
			w.trees = map[string][]entry{}
		}
		w.trees[id] = small
	}
	return err
}

// find walks to a path. Symbolic links are followed inside the tree, also those in the middle of the path.
func (w *walker) find(ctx context.Context, p string) (file, error) {
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
		var e entry
		instead := listing{dir: here.path, name: c}
		if err := w.each(ctx, here.id, func(one entry) error {
			if one.name == c && e.name == "" {
				e = one
			}
			instead.add(one.name)
			return nil
		}); err != nil {
			return file{}, err
		}
		if e.name == "" {
			return bad(resolve.ReasonNotFound, "is not in commit %s: %s", w.commit.id, &instead)
		}
		at := path.Join(here.path, c)
		switch e.mode {
		case modeSubmodule:
			return bad(resolve.ReasonForbidden, "is in the submodule %q; submodules are not fetched: name the submodule's own repository", at)
		case modeSymlink:
			if links++; links > maxSymlinks {
				return bad(resolve.ReasonForbidden, "goes through more than %d symbolic links", maxSymlinks)
			}
			to, err := w.link(ctx, e.id)
			if err != nil {
				return file{}, err
			}
			if strings.HasPrefix(to, "/") || to == "" || strings.ContainsRune(to, 0) {
				return bad(resolve.ReasonForbidden, "goes through the symbolic link %q, which leaves the repository", at)
			}
			todo = append(strings.Split(to, "/"), todo...)
		default:
			stack = append(stack, file{e, at})
		}
	}
	return stack[len(stack)-1], nil
}

// listing says what a directory has instead of a name.
type listing struct {
	dir, name   string
	same, other []string // a few names with the extension of the name, and with others
	count       int
}

const maxListed = 5

func (l *listing) add(name string) {
	l.count++
	if hasControl(name) || len(name) > 255 {
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

func (l *listing) String() string {
	dir := l.dir
	if dir == "" {
		dir = "the root"
	}
	if l.count == 0 {
		return dir + " is empty"
	}
	names := append(slices.Clone(l.same), l.other...)
	names = names[:min(len(names), maxListed)]
	more := ""
	if l.count > len(names) {
		more = ", ..."
	}
	return fmt.Sprintf("%s has no %q but %s%s", dir, l.name, strings.Join(names, ", "), more)
}

func (w *walker) link(ctx context.Context, id string) (string, error) {
	data, err := w.blob(ctx, id, maxLink)
	if errors.Is(err, errTooMuch) {
		return "", resolve.Errorf(resolve.ReasonForbidden, "pathInRepo: a symbolic link on the way is longer than %d bytes", maxLink)
	}
	return string(data), err
}

// blob reads a blob, and fetches it first if it is not there.
func (w *walker) blob(ctx context.Context, id string, limit int64) ([]byte, error) {
	data, err := w.mirror.object(ctx, id, "blob", limit)
	if !errors.Is(err, errMissing) {
		return data, err
	}
	if err := w.mirror.objects(ctx, w.commit, "blob", []string{id}, max(limit, 64<<10), w.limits); err != nil {
		return nil, err
	}
	data, err = w.mirror.object(ctx, id, "blob", limit)
	if errors.Is(err, errMissing) {
		return nil, missingError(resolve.ReasonFailed, "the server does not send the blob "+id)
	}
	return data, err
}

// read returns the content of a path: a file as it is, of a directory its YAML and JSON files in the order of their names,
// as a stream of documents. It says where each file was found, after links.
func (w *walker) read(ctx context.Context, p string, allowed func(path string) error) ([]byte, error) {
	f, err := w.find(ctx, p)
	if err != nil {
		return nil, err
	}
	if f.mode != modeTree {
		if err := allowed(f.path); err != nil {
			return nil, err
		}
		data, err := w.blob(ctx, f.id, w.limits.FileBytes)
		if size, ok := errors.AsType[*sizeError](err); ok {
			return nil, resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: %q has %d bytes; at most %d are allowed", p, size.size, w.limits.FileBytes)
		}
		return data, w.tooLarge(p, err)
	}
	c := &collector{walker: w, asked: p, allowed: allowed}
	if err := c.collect(ctx, f, ""); err != nil {
		return nil, err
	}
	files := c.files
	if len(files) == 0 {
		return nil, resolve.Errorf(resolve.ReasonNotFound, "pathInRepo: %q is a directory without .yaml, .yml or .json files", p)
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return w.stream(ctx, p, files)
}

// collector gathers the files of a directory.
type collector struct {
	*walker

	// asked is the path that was asked for.
	asked   string
	allowed func(path string) error
	files   []file
	// looked is how many entries were looked at.
	looked int
}

// maxLooked bounds the entries of all directories below one.
const maxLooked = 100_000

// maxDirectories bounds the directories in one that are entered.
const maxDirectories = 10_000

// collect gathers the files of the directory f, whose path below the one that was asked for is prefix. Directories are entered,
// links to directories are not.
func (c *collector) collect(ctx context.Context, f file, prefix string) error {
	if strings.Count(prefix, "/") > maxComponents {
		return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: %q has directories nested deeper than %d", c.asked, maxComponents)
	}
	var found []entry
	files, directories := len(c.files), 0
	err := c.each(ctx, f.id, func(e entry) error {
		if c.looked++; c.looked > maxLooked {
			return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: the directory %q has more than %d entries", c.asked, maxLooked)
		}
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
			// Links to directories do not count, but so many need not be looked at.
			if files++; files > 2*c.limits.DirectoryFiles {
				return c.tooMany()
			}
		}
		if e.name == "." || e.name == ".." || strings.Contains(e.name, "/") {
			// Its path would be another's.
			return resolve.Errorf(resolve.ReasonForbidden, "pathInRepo: the directory %q has an entry whose name is not one of a file", c.asked)
		}
		found = append(found, e)
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.prepare(ctx, found); err != nil {
		return err
	}
	for _, e := range found {
		at := path.Join(f.path, e.name)
		if e.mode == modeTree {
			if err := c.collect(ctx, file{e, at}, prefix+e.name+"/"); err != nil {
				return err
			}
			continue
		}
		one := file{e, at}
		if e.mode == modeSymlink {
			if one, err = c.find(ctx, at); err != nil {
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
		if c.files = append(c.files, one); len(c.files) > c.limits.DirectoryFiles {
			return c.tooMany()
		}
	}
	return nil
}

// prepare brings the directories among the entries at once.
func (c *collector) prepare(ctx context.Context, found []entry) error {
	var ids []string
	for _, e := range found {
		if e.mode == modeTree {
			ids = append(ids, e.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return c.mirror.objects(ctx, c.commit, "tree", ids, maxTreeSize, c.limits)
}

func (c *collector) tooMany() error {
	return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: the directory %q has more than %d files", c.asked, c.limits.DirectoryFiles)
}

func (w *walker) stream(ctx context.Context, p string, files []file) ([]byte, error) {
	ids := make([]string, len(files))
	for i, f := range files {
		ids[i] = f.id
	}
	if err := w.mirror.objects(ctx, w.commit, "blob", ids, w.limits.FileBytes, w.limits); err != nil {
		return nil, w.tooLarge(p, err)
	}
	var out bytes.Buffer
	for i, f := range files {
		data, err := w.blob(ctx, f.id, w.limits.FileBytes-int64(out.Len()))
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

func (w *walker) tooLarge(p string, err error) error {
	if !errors.Is(err, errTooMuch) {
		return err
	}
	return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: %q has more than the %d bytes that are allowed", p, w.limits.FileBytes)
}

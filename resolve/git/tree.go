package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// parseTree reads a tree object. idSize is the length of an object's name in bytes.
func parseTree(data []byte, idSize int) ([]entry, error) {
	var out []entry
	for len(data) > 0 {
		space := bytes.IndexByte(data[:min(len(data), 8)], ' ')
		end := bytes.IndexByte(data, 0)
		if space < 1 || end < space || len(data) < end+1+idSize {
			return nil, errCorrupt
		}
		out = append(out, entry{
			mode: strings.TrimLeft(string(data[:space]), "0"), name: string(data[space+1 : end]),
			id: fmt.Sprintf("%x", data[end+1:end+1+idSize]),
		})
		data = data[end+1+idSize:]
	}
	return out, nil
}

// walker finds paths in the tree of one commit.
type walker struct {
	mirror *mirror
	commit commit
	limits Limits
	// below takes the files in the directories below a directory as well.
	below bool
	// trees are those that were read, by object name.
	trees map[string][]entry
}

func (w *walker) tree(ctx context.Context, id string) ([]entry, error) {
	if t, ok := w.trees[id]; ok {
		return t, nil
	}
	data, err := w.mirror.object(ctx, id, "tree", maxTreeSize)
	if errors.Is(err, errTooMuch) {
		return nil, resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: a directory of the repository is larger than %d bytes", maxTreeSize)
	}
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(data, len(id)/2)
	if err != nil {
		return nil, err
	}
	if w.trees == nil {
		w.trees = map[string][]entry{}
	}
	w.trees[id] = entries
	return entries, nil
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
		entries, err := w.tree(ctx, here.id)
		if err != nil {
			return file{}, err
		}
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == c })
		if i < 0 {
			return bad(resolve.ReasonNotFound, "is not in commit %s: %s", w.commit.id, listing(here.path, c, entries))
		}
		e := entries[i]
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

// listing says what a directory has instead.
func listing(dir, name string, entries []entry) string {
	if dir == "" {
		dir = "the root"
	}
	if len(entries) == 0 {
		return dir + " is empty"
	}
	names := make([]string, 0, 5)
	ext := path.Ext(name)
	for _, sameSort := range []bool{true, false} {
		for _, e := range entries {
			if len(names) < 5 && (path.Ext(e.name) == ext) == sameSort && !hasControl(e.name) {
				names = append(names, e.name)
			}
		}
	}
	more := ""
	if len(entries) > len(names) {
		more = ", ..."
	}
	return fmt.Sprintf("%s has no %q but %s%s", dir, name, strings.Join(names, ", "), more)
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
	if err := w.mirror.blobs(ctx, w.commit, []string{id}, max(limit, 64<<10), w.limits); err != nil {
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

// collect gathers the files of the directory f, whose path below the one that was asked for is prefix. Directories are entered,
// links to directories are not.
func (c *collector) collect(ctx context.Context, f file, prefix string) error {
	if strings.Count(prefix, "/") > maxComponents {
		return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: %q has directories nested deeper than %d", c.asked, maxComponents)
	}
	entries, err := c.tree(ctx, f.id)
	if err != nil {
		return err
	}
	if c.looked += len(entries); c.looked > maxLooked {
		return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: the directory %q has more than %d entries", c.asked, maxLooked)
	}
	for _, e := range entries {
		at := path.Join(f.path, e.name)
		if e.mode == modeTree {
			if c.below && !strings.HasPrefix(e.name, ".") {
				if err := c.collect(ctx, file{e, at}, prefix+e.name+"/"); err != nil {
					return err
				}
			}
			continue
		}
		switch path.Ext(e.name) {
		case ".yaml", ".yml", ".json":
		default:
			continue
		}
		if e.mode == modeSubmodule || c.below && strings.HasPrefix(e.name, ".") {
			continue
		}
		found, err := c.find(ctx, at)
		if err != nil {
			return err
		}
		if found.mode == modeTree {
			continue
		}
		if err := c.allowed(found.path); err != nil {
			return err
		}
		found.name = prefix + e.name
		if c.files = append(c.files, found); len(c.files) > c.limits.DirectoryFiles {
			return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: the directory %q has more than %d files", c.asked, c.limits.DirectoryFiles)
		}
	}
	return nil
}

func (w *walker) stream(ctx context.Context, p string, files []file) ([]byte, error) {
	ids := make([]string, len(files))
	for i, f := range files {
		ids[i] = f.id
	}
	if err := w.mirror.blobs(ctx, w.commit, ids, w.limits.FileBytes, w.limits); err != nil {
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
	if size, ok := errors.AsType[*sizeError](err); ok {
		return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: %q has %d bytes; at most %d are allowed", p, size.size, w.limits.FileBytes)
	}
	return resolve.Errorf(resolve.ReasonTooLarge, "pathInRepo: %q has more than the %d bytes that are allowed", p, w.limits.FileBytes)
}

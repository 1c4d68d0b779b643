package input

// Which files does a work tree have, if it is compared with a revision? A sparse checkout leaves files out that belong to the commit all the same:
// they are read from the index, so that they do not count as removed. Files that git ignores, those of submodules, and what links outside
// of the repository lead to are in no revision: they would count as new, so they are left out.

import (
	"bytes"
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// readSparse reads the files below the path p, at index i of a source, that a sparse checkout leaves out. It reports whether there are any. It also
// keeps the commits of submodules, as they are checked out.
func (r *reader) readSparse(ctx context.Context, i int, p string) (bool, error) {
	g := &gitRepo{dir: r.opts.Dir}
	out, err := g.runGit(ctx, "ls-files", "-t", "-s", "-z", "--", p)
	if err != nil {
		return false, ctx.Err() // git knows nothing of this path
	}
	w := &gitWalker{r: r, g: g}
	root := filepath.ToSlash(path.Clean(p))
	for line := range bytes.SplitSeq(out, []byte{0}) {
		// S 100644 OBJECT 0<tab>NAME; S means skip-worktree (git-ls-files(1)).
		meta, name, ok := strings.Cut(string(line), "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 4 {
			continue
		}
		below := strings.TrimPrefix(strings.TrimPrefix(name, root), "/")
		if root == "." {
			below = name
		}
		if f[1] == gitModule && !r.skipGit(name, strings.Split(below, "/"), f[1]) && !r.exclude.isExcluded(name) {
			commit := f[2]
			sub := &gitRepo{dir: filepath.Join(r.opts.Dir, name)}
			if prefix, err := sub.runGit(ctx, "rev-parse", "--show-prefix"); err == nil && len(bytes.TrimSpace(prefix)) == 0 {
				if commit, err = sub.commitOf(ctx, "HEAD"); err != nil {
					return false, err
				}
			}
			r.set.Submodules = append(r.set.Submodules, Submodule{name, commit})
		}
		if f[0] != "S" {
			continue
		}
		if name != root && (r.skipGit(name, strings.Split(below, "/"), f[1]) || f[1] == gitLink || f[1] == gitModule) {
			continue
		}
		if name != root && r.exclude.isExcluded(name) {
			r.set.Excluded++
			continue
		}
		w.files = append(w.files, gitEntry{mode: f[1], object: f[2], path: name, name: name, key: keyOf(i, below), below: name != root})
	}
	slices.SortFunc(w.files, func(a, b gitEntry) int { return strings.Compare(a.name, b.name) })
	return len(w.files) > 0, w.readFiles(ctx)
}

// workTree tells which files below a path of a work tree git does not know. It is nil for files that are not compared with a revision.
type workTree struct {
	top string
	// foreign are files and directories that git ignores, and submodules.
	foreign map[string]bool
}

// findWorkTree looks at the work tree below the path p. It returns nil if git knows nothing of p, or ignores all of it.
func (r *reader) findWorkTree(ctx context.Context, p string) (*workTree, error) {
	g := &gitRepo{dir: r.opts.Dir}
	top, err := g.runGit(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, ctx.Err()
	}
	ignored, err := g.runGit(ctx, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z", "--", p)
	if err != nil {
		return nil, ctx.Err()
	}
	t := &workTree{foreign: map[string]bool{}}
	if t.top, err = filepath.EvalSymlinks(strings.TrimSuffix(string(top), "\n")); err != nil {
		return nil, nil //nolint:nilerr // it cannot be told what is outside
	}
	for name := range bytes.SplitSeq(ignored, []byte{0}) {
		if len(name) > 0 {
			t.foreign[path.Clean(string(name))] = true
		}
	}
	for _, m := range r.set.Submodules {
		t.foreign[m.Path] = true
	}
	if t.foreign[filepath.ToSlash(filepath.Clean(p))] {
		return nil, nil // whoever names it means it
	}
	return t, nil
}

// isForeign reports whether git does not know a file or directory; name is relative to the current directory.
func (t *workTree) isForeign(name string) bool {
	return t != nil && t.foreign[filepath.ToSlash(filepath.Clean(name))]
}

// contains reports whether a link leads to a file of the work tree.
func (t *workTree) contains(link string) bool {
	if t == nil {
		return true
	}
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		return false
	}
	if target, err = filepath.Abs(target); err != nil {
		return false
	}
	below, err := filepath.Rel(t.top, target)
	return err == nil && filepath.IsLocal(below)
}

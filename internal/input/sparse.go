package input

// Which files does a work tree have, if it is compared with a revision? A sparse checkout leaves files out that belong to the commit all the same:
// they are read from the index, so that they do not count as removed. Files that git ignores, those of submodules, and what links outside
// of the repository lead to are in no revision: they would count as new, so they are left out.

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// readSparse reads the files below the path p, at index i of a source, that a sparse checkout leaves out. It reports whether there are any. It also
// keeps the commits of submodules, as they are checked out.
func (r *reader) readSparse(ctx context.Context, i int, p string) (bool, error) {
	g, err := openGit(ctx, r.opts.Dir)
	if err != nil {
		return false, ctx.Err()
	}
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
			commit, err := g.checkedOut(ctx, name)
			if err != nil {
				return false, err
			}
			commit = cmp.Or(commit, f[2])
			if strings.HasPrefix(name, "../") { // of those elsewhere, revisions have the path from the root
				name = path.Join(g.prefix, name)
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

// checkedOut returns the commit that a submodule has in the work tree; empty if it has none.
func (g *gitRepo) checkedOut(ctx context.Context, name string) (string, error) {
	sub := &gitRepo{dir: filepath.Join(g.dir, name), other: true}
	if prefix, err := sub.lineOf(ctx, "rev-parse", "--show-prefix"); err != nil || prefix != "" {
		return "", ctx.Err()
	}
	return sub.commitOf(ctx, "HEAD")
}

// workTree tells which files below a path of a work tree git does not know. It is nil for files that are not compared with a revision.
type workTree struct {
	// top is the root of the work tree, and here the current directory, both without links.
	top, here string
	// foreign are files and directories that git ignores, and submodules, relative to the current directory.
	foreign map[string]bool
}

// findWorkTree looks at the work tree below the path p. It returns nil if git knows nothing of p, or ignores all of it.
func (r *reader) findWorkTree(ctx context.Context, p string) (*workTree, error) {
	g := &gitRepo{dir: r.opts.Dir}
	top, err := g.lineOf(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, ctx.Err()
	}
	t := &workTree{foreign: map[string]bool{}}
	var failed error
	if t.top, failed = withoutLinks(top); failed == nil {
		t.here, failed = withoutLinks(r.opts.Dir)
	}
	if failed != nil {
		return nil, nil //nolint:nilerr // it cannot be told what is outside
	}
	list := []string{"ls-files", "--others", "--ignored", "--exclude-standard", "-z"}
	ignored, err := g.runGit(ctx, append(list, "--directory", "--", p)...)
	if err != nil {
		return nil, ctx.Err()
	}
	root := filepath.ToSlash(filepath.Clean(p))
	if slices.ContainsFunc(strings.Split(string(ignored), "\x00"), func(name string) bool { return name != "" && path.Clean(name) == root }) {
		if _, err := g.runGit(ctx, "check-ignore", "--quiet", "--", p); err == nil {
			return nil, nil // the user names an ignored folder, and wants it read
		}
		if ignored, err = g.runGit(ctx, append(list, "--", p)...); err != nil { // all in it is ignored, and not the folder
			return nil, ctx.Err()
		}
	}
	for name := range bytes.SplitSeq(ignored, []byte{0}) {
		if len(name) > 0 {
			t.foreign[path.Clean(string(name))] = true
		}
	}
	return t, nil
}

// withoutLinks returns the absolute path of a folder without symbolic links; empty is the current directory.
func withoutLinks(dir string) (string, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(full)
}

// isForeign reports whether git does not know a file or directory, or it is another repository. name is relative to the current directory.
func (t *workTree) isForeign(name, full string) bool {
	if t == nil {
		return false
	}
	if t.foreign[filepath.ToSlash(filepath.Clean(name))] {
		return true
	}
	_, err := os.Lstat(filepath.Join(full, ".git"))
	return err == nil
}

// hasTargetOf reports whether a link leads to a file of the work tree.
func (t *workTree) hasTargetOf(link string) bool {
	if t == nil {
		return true
	}
	target, err := withoutLinks(link)
	if err != nil {
		return false
	}
	below, err := filepath.Rel(t.top, target)
	if err != nil || !filepath.IsLocal(below) {
		return false
	}
	name, err := filepath.Rel(t.here, target)
	for dir := filepath.ToSlash(name); err == nil && dir != "." && dir != ".." && dir != "/"; dir = path.Dir(dir) {
		if t.foreign[dir] {
			return false
		}
	}
	return true
}

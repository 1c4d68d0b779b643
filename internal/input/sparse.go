package input

// What does the work tree of a sparse checkout have? Git leaves files out of it that belong to the commit all the same. Whoever compares the
// work tree with a revision must not take them for removed, so they are read from the index.

import (
	"bytes"
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// readSparse reads the files below the path p, at index i of a source, that a sparse checkout leaves out. It reports whether there are any. It also
// keeps the commits of submodules, whose files are read from the work tree.
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
			r.set.Submodules = append(r.set.Submodules, Submodule{name, f[2]})
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

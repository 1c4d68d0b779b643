package input

// Which files does a work tree have, if it is compared with a revision? A sparse checkout leaves files out that belong to the commit all the same:
// they are read from the index, so that they do not count as removed. Files that git ignores, those of submodules, and what links outside
// of the repository lead to are in no revision: they would count as new, so they are left out.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/internal/limit"
)

// gitRepo reads one repository with the git program. It never touches the work tree or the index, and runs no hooks. It passes only
// checked revisions and object IDs to git.
type gitRepo struct {
	dir string
	// prefix is the current directory relative to the root of the repository, with a slash at the end, or empty.
	prefix string
	// other is set for a repository within that of the current directory: variables of git, as it sets them for hooks, are not about it.
	other bool
}

// openGit finds the repository of dir, empty for the process's directory. The error wraps [ErrGitMissing] or
// [ErrNotRepository].
func openGit(ctx context.Context, dir string) (*gitRepo, error) {
	g := &gitRepo{dir: dir}
	if _, err := exec.LookPath("git"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGitMissing, err)
	}
	var err error
	if g.prefix, err = g.lineOf(ctx, "rev-parse", "--show-prefix"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotRepository, err)
	}
	return g, nil
}

// openRevision finds the repository of dir, and the tree of a revision in it.
func openRevision(ctx context.Context, dir, rev string) (g *gitRepo, tree string, err error) {
	if g, err = openGit(ctx, dir); err != nil {
		return nil, "", err
	}
	tree, err = g.treeOf(ctx, rev)
	return g, tree, err
}

// gitCommand returns a command of git for the repository. Its messages are in English, it asks for no password,
// takes no locks, and takes paths as they are, without patterns.
func (g *gitRepo) gitCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // the arguments are checked, see gitRepo
	cmd.Dir = g.dir
	env := os.Environ()
	if g.other {
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	}
	cmd.Env = append(env, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_LITERAL_PATHSPECS=1", "GIT_TERMINAL_PROMPT=0")
	return cmd
}

// maxGitOutput bounds what git may list.
const maxGitOutput = 64 << 20

// runGit runs git and returns what it wrote. Errors carry git's own words.
func (g *gitRepo) runGit(ctx context.Context, args ...string) ([]byte, error) {
	out, err := outputOf(g.gitCommand(ctx, args...), maxGitOutput)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return out, err
}

// lineOf runs git and returns the one line that it wrote, without its end. A path may have spaces at its end, so they stay.
func (g *gitRepo) lineOf(ctx context.Context, args ...string) (string, error) {
	out, err := g.runGit(ctx, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// outputOf runs a command and returns what it wrote, or [limit.ErrTooLarge] if that is more than most bytes. Other
// errors carry the first line of its own words. For a repository of another user, the words contain the git config
// command that git suggests.
func outputOf(cmd *exec.Cmd, most int64) ([]byte, error) {
	out, complaint := &boundedWriter{left: most}, &boundedWriter{left: 1 << 20}
	cmd.Stdout, cmd.Stderr = out, complaint
	err := cmd.Run()
	switch {
	case out.over:
		return nil, limit.ErrTooLarge
	case err != nil:
		text := strings.TrimSpace(complaint.kept.String())
		if first, rest, _ := strings.Cut(text, "\n"); first != "" {
			if _, command, ok := strings.Cut(rest, "git config "); ok { // git's own way out, for a repository of another user
				command, _, _ = strings.Cut(command, "\n")
				first += "; git config " + command
			}
			return nil, errors.New(strings.TrimPrefix(first, "fatal: "))
		}
		return nil, err
	}
	return out.kept.Bytes(), nil
}

// boundedWriter keeps what is written to it, and fails after left bytes. Then the command that writes gets a broken pipe.
type boundedWriter struct {
	kept bytes.Buffer // embedded, its ReadFrom would pass the bound by
	left int64
	over bool
}

// Write implements [io.Writer].
func (w *boundedWriter) Write(p []byte) (int, error) {
	if w.left -= int64(len(p)); w.left < 0 {
		w.over = true
		return 0, limit.ErrTooLarge
	}
	return w.kept.Write(p)
}

// Tags lists the tags of the current repository that match a pattern, as git tag --list has them. The error wraps [ErrGitMissing] or
// [ErrNotRepository] if there is none.
func Tags(ctx context.Context, pattern string) ([]string, error) {
	if err := checkRevision(pattern); err != nil {
		return nil, err
	}
	g, err := openGit(ctx, "")
	if err != nil {
		return nil, err
	}
	out, err := g.runGit(ctx, "tag", "--list", pattern)
	return strings.Fields(string(out)), err
}

// treeOf returns the name of the tree of a revision. A revision that git does not know is an [ErrUnknownRevision],
// with advice in a shallow clone.
func (g *gitRepo) treeOf(ctx context.Context, rev string) (string, error) {
	if err := checkRevision(rev); err != nil {
		return "", err
	}
	if _, err := g.runGit(ctx, "rev-parse", "--verify", "--quiet", rev+"^{object}"); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("%w %q in this repository%s", ErrUnknownRevision, rev, g.shallowAdvice(ctx))
	}
	tree, err := g.lineOf(ctx, "rev-parse", "--verify", "--quiet", rev+"^{tree}")
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("%w: %q is no commit and no tree", ErrUnknownRevision, rev)
	}
	return tree, nil
}

// shallowAdvice returns advice if the history is incomplete, as in a clone of a CI system; empty if it is complete.
func (g *gitRepo) shallowAdvice(ctx context.Context) string {
	if shallow, err := g.lineOf(ctx, "rev-parse", "--is-shallow-repository"); err != nil || shallow != "true" {
		return ""
	}
	return ", which is a shallow clone; fetch the history first: git fetch --unshallow"
}

// commitOf returns the ID of the commit of a revision; empty if the revision is a tree.
func (g *gitRepo) commitOf(ctx context.Context, rev string) (string, error) {
	commit, err := g.lineOf(ctx, "rev-parse", "--verify", "--quiet", rev+"^{commit}")
	if err != nil {
		return "", ctx.Err()
	}
	return commit, nil
}

// gitEntry is one entry of a tree.
type gitEntry struct {
	mode, object string
	size         int64
	// path is the path relative to the root. name is the path by which it was reached, which differs after links, and key that of [Unread].
	path, name, key string
	// below tells that it was found in a directory.
	below bool
}

// The modes of entries that are no regular files.
const (
	gitTree   = "040000"
	gitLink   = "120000"
	gitModule = "160000"
)

// listTree lists the entry at p, relative to the root, and all entries below it if it is a directory. Empty is the
// root. A path that is not in the tree gives no entry.
func (g *gitRepo) listTree(ctx context.Context, tree, p string) ([]gitEntry, error) {
	args := []string{"ls-tree", "-r", "-t", "-z", "-l", "--full-tree", tree}
	if p != "" {
		args = append(args, "--", p)
	}
	out, err := g.runGit(ctx, args...)
	if err != nil {
		return nil, err
	}
	var entries []gitEntry
	for line := range bytes.SplitSeq(out, []byte{0}) {
		meta, name, ok := strings.Cut(string(line), "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 4 {
			continue
		}
		// Directories on the way to p are listed too.
		if p != "" && name != p && !strings.HasPrefix(name, p+"/") {
			continue
		}
		size, _ := strconv.ParseInt(f[3], 10, 64) // - for a tree
		entries = append(entries, gitEntry{mode: f[0], object: f[2], size: size, path: name, name: name})
	}
	return entries, nil
}

// GitFiles returns the files of a name in a revision of the repository of dir, with paths relative to the root of the repository, and the
// folder of this root.
func GitFiles(ctx context.Context, dir, rev, name string) (files []string, root string, err error) {
	g, tree, err := openRevision(ctx, dir, rev)
	if err != nil {
		return nil, "", err
	}
	entries, err := g.listTree(ctx, tree, "")
	if err != nil {
		return nil, "", err
	}
	for _, e := range entries {
		if path.Base(e.path) == name && (e.mode == "100644" || e.mode == "100755") {
			files = append(files, e.path)
		}
	}
	root, err = g.lineOf(ctx, "rev-parse", "--show-toplevel")
	return files, root, err
}

// resolvePath turns a path as the user gave it into one relative to the root; empty is the root. Paths with ./ or
// ../ at the beginning are relative to the current directory, as for git show. One that leads out of the
// repository is an [ErrNotFound].
func (g *gitRepo) resolvePath(p string) (string, error) {
	full := strings.TrimPrefix(p, "/")
	if p == "." || p == ".." || strings.HasPrefix(p, "./") || strings.HasPrefix(p, "../") {
		full = g.prefix + p
	}
	full = path.Clean(full)
	switch {
	case full == ".":
		return "", nil
	case full == "..", strings.HasPrefix(full, "../"), strings.ContainsRune(full, 0):
		return "", fmt.Errorf("%w: %q is outside of the repository", ErrNotFound, p)
	}
	return full, nil
}

// GitRefs returns branches and tags of the repository of the current directory, the newest first, at most so many. It is empty outside of a
// repository.
func GitRefs(ctx context.Context, most int) []string {
	g, err := openGit(ctx, "")
	if err != nil {
		return nil
	}
	out, err := g.runGit(ctx, "for-each-ref", "--sort=-creatordate", "--format=%(refname:short)", fmt.Sprintf("--count=%d", most), "refs/heads", "refs/tags", "refs/remotes")
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}

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

// findWorkTree looks at the work tree below the path p. It returns nil if git knows nothing of p, or ignores all
// of it. A folder that the user names is read even if git ignores all of it.
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

// hasTargetOf reports whether a link leads to a file of the work tree. Without a work tree, it does: then no link
// is left out.
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

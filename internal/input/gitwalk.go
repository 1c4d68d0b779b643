package input

// Which files does a git revision have at a path? git lists its tree, and this file picks the files that a
// directory on disk would give: the same names, the same links followed within the revision, the same ones
// excluded. So a revision and a work tree can be compared. The files are read over one git process. GitRange says
// which two revisions an argument such as main...HEAD means.

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sluice.dev/internal/limit"
)

// asSourceError gives an error the form of this package, with the name of the source. If ctx is done, its error takes precedence over what
// git says then.
func asSourceError(ctx context.Context, name string, err error) error {
	if e := (*Error)(nil); err == nil || errors.As(err, &e) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fileError(name, err, "%v", err)
}

// readRevision reads the files of a revision.
func (r *reader) readRevision(ctx context.Context, src Source) error {
	w, err := r.openTree(ctx, src.Rev)
	if err != nil {
		return err
	}
	if r.opts.Objects {
		if r.set.Commit, err = w.g.commitOf(ctx, src.Rev); err != nil {
			return err
		}
	}
	paths := src.Paths
	if len(paths) == 0 {
		paths = []string{""}
	}
	if err := r.forEachPath(paths, src.Some, func(i int, p string) (missing, err error) { return w.collectPath(ctx, i, p, src.Rev) }); err != nil {
		return err
	}
	if err := w.readFiles(ctx); err != nil || !r.opts.PassTemplates {
		return err
	}
	return r.finishSource(ctx, surroundings{copyFolder: w.copyFolderOf, read: func(ctx context.Context, name string) ([]byte, error) {
		data, err := w.g.runGit(ctx, "cat-file", "blob", w.tree+":"+name)
		if err != nil && ctx.Err() == nil {
			return nil, fs.ErrNotExist // git's words have the tree's name, which differs on both sides
		}
		return data, err
	}})
}

// openTree returns a walker of the tree of a revision.
func (r *reader) openTree(ctx context.Context, rev string) (*gitWalker, error) {
	g, tree, err := openRevision(ctx, r.opts.Dir, rev)
	if err != nil {
		return nil, err
	}
	r.exclude.prefix = g.prefix
	return &gitWalker{r: r, g: g, tree: tree}, nil
}

// gitWalker collects the files below paths of a tree.
type gitWalker struct {
	r     *reader
	g     *gitRepo
	tree  string
	files []gitEntry
}

// collectPath collects the files at the path p of the user, at index i of a source, in the order of their names. missing says that p is not in
// the revision rev.
func (w *gitWalker) collectPath(ctx context.Context, i int, p, rev string) (missing, err error) {
	full, err := w.g.resolvePath(p)
	if err != nil {
		return nil, err
	}
	w.r.roots = append(w.r.roots, cmp.Or(full, "."))
	n := len(w.files)
	if here, err := w.collectFrom(ctx, full); err != nil {
		return nil, err
	} else if !here {
		return w.reasonMissing(ctx, p, full, rev)
	}
	added := w.files[n:]
	slices.SortFunc(added, func(a, b gitEntry) int { return strings.Compare(a.name, b.name) })
	for j := range added {
		added[j].key = keyOf(i, strings.TrimPrefix(strings.TrimPrefix(added[j].name, full), "/"))
	}
	return nil, nil
}

// collectFrom collects the file at p, or those below it. It returns false where p is not in the tree.
func (w *gitWalker) collectFrom(ctx context.Context, p string) (bool, error) {
	entries, err := w.g.listTree(ctx, w.tree, p)
	if err != nil || p != "" && len(entries) == 0 {
		return false, err
	}
	return true, w.collectEntries(ctx, entries, p, p, nil)
}

// reasonMissing says why a path, which the user calls name, is not in the tree.
func (w *gitWalker) reasonMissing(ctx context.Context, name, p, rev string) (why, err error) {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		entries, err := w.g.listTree(ctx, w.tree, dir)
		if err != nil {
			return nil, err
		}
		if len(entries) == 1 && entries[0].mode == gitModule {
			return fmt.Errorf("%w: %q is in the submodule %s, which is not read", ErrNotFound, name, dir), nil
		}
	}
	return fmt.Errorf("%w: %q is not in revision %q of this repository", ErrNotFound, name, rev), nil
}

// collectEntries takes the entries of list(at): the entry at itself if it is a file, else those below it. They were reached
// under the name name, over links that stand at the paths above.
func (w *gitWalker) collectEntries(ctx context.Context, entries []gitEntry, at, name string, above []string) error {
	w.r.entries += len(entries)
	if w.r.entries > maxEntries {
		return fileError(name, ErrTooLarge, "too large: more than %d files and directories", maxEntries)
	}
	for _, e := range entries {
		below := e.path != at
		if below {
			e.name = path.Join(name, strings.TrimPrefix(e.path, at))
			if w.r.skipGit(e.name, strings.Split(strings.Trim(strings.TrimPrefix(e.path, at), "/"), "/"), e.mode) {
				continue
			}
		} else {
			e.name = name
		}
		switch e.mode {
		case gitTree:
		case gitModule:
			if !below {
				return fileError(e.name, fs.ErrInvalid, "is a submodule; its files are in another repository")
			}
			if !w.r.exclude.isExcluded(e.name) {
				w.r.set.Submodules = append(w.r.set.Submodules, Submodule{strings.TrimPrefix(e.name, w.g.prefix), e.object})
			}
		case gitLink:
			if err := w.followLink(ctx, e, above, below || len(above) > 0); err != nil {
				return err
			}
		default:
			if e.below = below; below && w.r.exclude.isExcluded(e.name) {
				w.r.set.Excluded++
				continue
			}
			w.files = append(w.files, e)
		}
	}
	return nil
}

// skipGit reports whether an entry of a directory is skipped: hidden names among the steps below the directory, and files that are not wanted.
func (r *reader) skipGit(name string, steps []string, mode string) bool {
	if slices.ContainsFunc(steps, isHiddenName) {
		return true
	}
	return mode != gitLink && mode != gitTree && mode != gitModule && !r.isWanted(name)
}

// followLink takes what the symbolic link e leads to. It is an error if that is nothing in the revision, or a
// loop. With [Options.KeepAll], such a link in a directory is left out instead, and a remark says so if its name
// is that of a file that is read. Links to links are followed, up to maxLinks.
func (w *gitWalker) followLink(ctx context.Context, e gitEntry, above []string, below bool) error {
	wanted := !below || isWantedName(path.Base(e.name))
	full, entries, err := w.linkTarget(ctx, e, len(above))
	if problem, ok := errors.AsType[*Error](err); ok && below && (w.r.opts.KeepAll || !wanted) {
		if wanted {
			w.r.addRemark(problem.Position.File, linkLeftOut, true)
		}
		return nil
	}
	if err != nil {
		return err
	}
	above = append(slices.Clip(above), e.path)
	isDir := entries[0].path != full || entries[0].mode == gitTree
	switch {
	case isDir && slices.ContainsFunc(above, func(p string) bool { return full == "" || strings.HasPrefix(p, full+"/") }):
		if w.r.opts.KeepAll && below {
			return nil // all of it is read already
		}
		return fileError(e.name, fs.ErrInvalid, "is a symbolic link to a directory that contains it, a loop")
	case !isDir && !wanted && entries[0].mode != gitLink:
		return nil
	}
	return w.collectEntries(ctx, entries, full, e.name, above)
}

// linkTarget returns the path to which a symbolic link leads, and the entries there, at least one. The error is an [*Error] if there are none.
func (w *gitWalker) linkTarget(ctx context.Context, e gitEntry, links int) (full string, entries []gitEntry, err error) {
	const longest = 4096
	if e.size > longest || links == maxLinks {
		return "", nil, fileError(e.name, fs.ErrInvalid, "is a symbolic link that leads too far")
	}
	out, err := w.g.runGit(ctx, "cat-file", "blob", e.object)
	if err != nil {
		return "", nil, err
	}
	target := string(out)
	full = path.Join(path.Dir(e.path), target)
	if !path.IsAbs(target) && full != ".." && !strings.HasPrefix(full, "../") {
		if full == "." {
			full = ""
		}
		if entries, err = w.g.listTree(ctx, w.tree, full); err != nil {
			return "", nil, err
		}
	}
	if len(entries) == 0 {
		return "", nil, fileError(e.name, ErrNotFound, "is a symbolic link to %s, which is not in the revision", target)
	}
	return full, entries, nil
}

// readFiles reads and decodes the files.
func (w *gitWalker) readFiles(ctx context.Context) error {
	return w.forEachFile(ctx, func(f gitEntry, data []byte, err error) error {
		w.r.key, w.r.blob = f.key, f.object
		return w.r.decodeContent(ctx, f.name, w.g.fetchedFromLFS(ctx, data, w.r.bytesAllowed()), f.below, err)
	})
}

// fetchedFromLFS returns the content that Git LFS has fetched into the repository for a pointer. It returns data that is no pointer, or whose
// content is not there, as it is.
func (g *gitRepo) fetchedFromLFS(ctx context.Context, data []byte, most int64) []byte {
	sum, ok := pointerSum(data)
	if !ok {
		return data
	}
	common, err := g.lineOf(ctx, "rev-parse", "--git-common-dir")
	if err != nil {
		return data
	}
	folder := filepath.Join(common, "lfs")
	if storage, err := g.lineOf(ctx, "config", "--get", "lfs.storage"); err == nil && filepath.IsAbs(storage) {
		folder = storage
	} else if err == nil {
		folder = filepath.Join(common, storage)
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(g.dir, folder)
	}
	f, err := os.Open(filepath.Join(folder, "objects", sum[:2], sum[2:4], sum)) //nolint:gosec // a file of the repository
	if err != nil {
		return data
	}
	defer f.Close() //nolint:errcheck // nothing was written
	content, err := limit.ReadAll(f, most)
	if err != nil || fmt.Sprintf("%x", sha256.Sum256(content)) != sum {
		return data
	}
	return content
}

// FindInRevision looks for definitions of the given names in all files of a git revision, and returns them by name, in the order of the
// files' paths. Files that cannot be read as manifests are passed over. Errors are of type [*Error], or the context's.
func FindInRevision(ctx context.Context, rev string, names []string, opts Options) (map[string][]Document, error) {
	src := Source{Kind: Git, Rev: rev}
	r := &reader{loader: newLoader(src.String(), opts)}
	found := map[string][]Document{}
	if err := r.findInTree(ctx, rev, names, found); err != nil {
		return nil, asSourceError(ctx, src.String(), err)
	}
	return found, nil
}

// Gone returns those of the documents of a revision whose files a source of the same repository does not have: it
// is another revision, or the work tree. The order stays.
func Gone(ctx context.Context, src Source, docs []Document, opts Options) ([]Document, error) {
	g, err := openGit(ctx, opts.Dir)
	if err != nil {
		return nil, asSourceError(ctx, src.String(), err)
	}
	var there func(file string) bool
	if src.Kind == Git {
		tree, err := g.treeOf(ctx, src.Rev)
		if err != nil {
			return nil, asSourceError(ctx, src.String(), err)
		}
		there = func(file string) bool {
			entries, err := g.listTree(ctx, tree, file)
			return err == nil && len(entries) > 0
		}
	} else {
		top, err := g.lineOf(ctx, "rev-parse", "--show-toplevel")
		if err != nil {
			return nil, ctx.Err() // a bare repository: the source is elsewhere
		}
		there = func(file string) bool {
			_, err := os.Lstat(filepath.Join(top, file))
			return err == nil
		}
	}
	return slices.DeleteFunc(slices.Clone(docs), func(d Document) bool { return there(d.File) }), ctx.Err()
}

// findInTree adds to found the definitions of the given names in a revision, wherever they are. A file is decoded
// only if one of the names is in its text: most files of a repository have none.
func (r *reader) findInTree(ctx context.Context, rev string, names []string, found map[string][]Document) (err error) {
	if r.exclude, err = newExclusion(r.opts.Exclude); err != nil {
		return err
	}
	r.opts.KeepAll = true // links that lead nowhere are passed over
	w, err := r.openTree(ctx, rev)
	if err != nil {
		return err
	}
	if _, err := w.collectFrom(ctx, ""); err != nil {
		return err
	}
	return w.forEachFile(ctx, func(f gitEntry, data []byte, err error) error {
		data = w.g.fetchedFromLFS(ctx, data, r.opts.MaxFileBytes)
		if err != nil || r.opts.PassTests && isOfTests("", f.name) || !slices.ContainsFunc(names, func(name string) bool { return bytes.Contains(data, []byte(name)) }) {
			return err
		}
		set, err := Decode(ctx, f.name, data)
		if err != nil {
			return ctx.Err()
		}
		for _, d := range set.Documents {
			if slices.Contains(names, d.CRD.Name) {
				found[d.CRD.Name] = append(found[d.CRD.Name], d)
			}
		}
		return nil
	})
}

// forEachFile reads the files, over one git cat-file --batch. take gets the content or the error of each file in
// order; its own error ends the loop. Files over the limits are an error before they are read.
func (w *gitWalker) forEachFile(ctx context.Context, take func(f gitEntry, data []byte, err error) error) error {
	if len(w.files) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := w.g.gitCommand(ctx, "cat-file", "--batch")
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	from := bufio.NewReaderSize(out, 1<<16)
	for _, f := range w.files {
		if err := w.r.checkFits(f.name, f.size); err != nil {
			return err
		}
		data, err := fetchBlob(in, from, f.object, w.r.bytesAllowed())
		if err := take(f, data, err); err != nil {
			return err
		}
	}
	return nil
}

// fetchBlob asks a git cat-file --batch for one object. An object of more than most bytes is a
// [limit.ErrTooLarge], and is not read.
func fetchBlob(in io.Writer, out *bufio.Reader, object string, most int64) ([]byte, error) {
	if _, err := io.WriteString(in, object+"\n"); err != nil {
		return nil, err
	}
	header, err := out.ReadString('\n')
	if err != nil {
		return nil, err
	}
	var name, kind string
	var size int64
	if _, err := fmt.Sscanf(header, "%s %s %d", &name, &kind, &size); err != nil {
		return nil, fmt.Errorf("git has no object %s: it said %q", object, strings.TrimSpace(header))
	}
	if size > most {
		return nil, limit.ErrTooLarge
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(out, data); err != nil {
		return nil, err
	}
	return data[:size], nil
}

// GitRange parses the value of --git, and returns the old source and the new one. BASE..HEAD and BASE...HEAD compare two revisions;
// the latter takes the merge base as old. BASE alone compares with the work tree. A missing revision beside the dots is HEAD. Paths
// are relative to the current directory; without paths it is the current directory. If there are several, some may be missing on
// either side. Each source is named after the revision as arg has it; the name of old also has the merge base if that is another commit. The
// note of old says what a reader of the comparison should know about the revisions. Errors are of type [*Error], or the context's.
func GitRange(ctx context.Context, arg string, paths []string, opts Options) (old, next Source, err error) {
	fail := func(err error) (Source, Source, error) {
		return Source{}, Source{}, asSourceError(ctx, "--git "+arg, err)
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	base, head, isRange, symmetric, err := splitRange(arg)
	if err != nil {
		return fail(err)
	}
	g, err := openGit(ctx, opts.Dir)
	if err != nil {
		return fail(err)
	}
	relative := make([]string, len(paths))
	for i, p := range paths {
		if path.IsAbs(p) {
			return fail(fmt.Errorf("%q must be relative to the current directory", p))
		}
		relative[i] = "./" + path.Clean(p)
	}
	some := len(paths) > 1
	old = Source{Kind: Git, Rev: base, Paths: relative, Some: some}
	next = Source{Kind: Path, Paths: paths, Some: some, inGit: true}
	if isRange {
		next = Source{Kind: Git, Rev: head, Paths: relative, Some: some}
	}
	old.name, next.name = rangeName(old, paths), rangeName(next, paths)
	if !isRange {
		if inside, err := g.lineOf(ctx, "rev-parse", "--is-inside-work-tree"); err == nil && inside != "true" {
			return fail(fmt.Errorf("this repository has no work tree to compare with; name two revisions, as in %s...main", base))
		}
		if base != "HEAD" {
			return old, next, err
		}
		if first, _ := g.commitOf(ctx, "HEAD"); first == "" {
			// Before the first commit, everything is new.
			old.Rev, err = g.lineOf(ctx, "hash-object", "-t", "tree", "--stdin") // the empty tree, which git knows in each repository
			old.Note = "this repository has no commit yet, so every CRD is new"
		}
		return old, next, err
	}
	fork, err := g.mergeBase(ctx, base, head)
	switch {
	case err == nil:
		old.Same = g.isCommit(ctx, head, fork) && (symmetric || g.isCommit(ctx, base, fork))
		old.Note = g.rangeNote(ctx, base, head, fork, symmetric)
	case symmetric: // otherwise trees can be compared, and histories that share no commit
		return fail(err)
	}
	if symmetric {
		old.Rev = fork
		if !g.isCommit(ctx, base, fork) {
			old.name = fmt.Sprintf("git:%s (merge base %.12s):%s", base, fork, strings.Join(paths, " "))
		}
	}
	return old, next, nil
}

// splitRange takes the value of --git apart. symmetric tells three dots.
func splitRange(arg string) (base, head string, isRange, symmetric bool, err error) {
	if base, head, isRange = strings.Cut(arg, ".."); isRange {
		head, symmetric = strings.CutPrefix(head, ".")
		if base == "" && (head == "" || head == "HEAD") {
			return "", "", false, false, fmt.Errorf("%w: there is no revision before the dots, so HEAD would be compared with itself", ErrUnknownRevision)
		}
		base, head = cmp.Or(base, "HEAD"), cmp.Or(head, "HEAD")
		if err := checkRevision(head); err != nil {
			return "", "", false, false, err
		}
	}
	return base, head, isRange, symmetric, checkRevision(base)
}

// rangeNote says what a reader of a comparison of base and head should know, whose histories part at the commit
// fork. It is empty if there is nothing to say.
func (g *gitRepo) rangeNote(ctx context.Context, base, head, fork string, symmetric bool) string {
	switch {
	case g.isCommit(ctx, head, fork):
		return fmt.Sprintf("%s has no commit that %s lacks", head, base)
	case !symmetric && !g.isCommit(ctx, base, fork):
		return fmt.Sprintf("%s has commits that %s lacks, and their changes count as undone; %s...%s leaves them out", base, head, base, head)
	}
	return ""
}

// isCommit reports whether a revision is the commit of this ID.
func (g *gitRepo) isCommit(ctx context.Context, rev, id string) bool {
	found, err := g.commitOf(ctx, rev)
	return err == nil && found == id
}

// mergeBase returns the commit at which the histories of two revisions part.
func (g *gitRepo) mergeBase(ctx context.Context, base, head string) (string, error) {
	for _, rev := range []string{base, head} {
		if _, err := g.treeOf(ctx, rev); err != nil {
			return "", err
		}
	}
	fork, err := g.lineOf(ctx, "merge-base", base, head)
	if err != nil {
		return "", fmt.Errorf("%w: %q and %q have no common ancestor in this repository%s", ErrUnknownRevision, base, head, g.shallowAdvice(ctx))
	}
	return fork, nil
}

// rangeName is the name of a side of a range in reports: git:REV:PATHS, or the paths alone for the work tree.
func rangeName(s Source, paths []string) string {
	if s.Kind == Path {
		return strings.Join(paths, " ")
	}
	return "git:" + s.Rev + ":" + strings.Join(paths, " ")
}

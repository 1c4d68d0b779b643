package main

// Where do the resolvers of the bench fetch from? Git's own server serves repositories that are made here: a
// catalog of many files, and a folder with a million names.

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"

	"sluice.dev/tools/gittest"
)

const (
	// catalogFiles of fileSize bytes make a tree of about 13 MB.
	catalogFiles, fileSize = 1865, 7000
	// wideFiles are in one folder.
	wideFiles = 1_000_000
)

// filePath is the path of the i-th file of a catalog.
func filePath(i int) string { return fmt.Sprintf("catalog/d%02d/e%d/task-%04d.yaml", i%40, i%7, i) }

// widePath is the name of the i-th of a million files in one folder. It is short enough for the resolver's limit on a folder.
func widePath(i int) string { return fmt.Sprintf("%05x", i) }

// fileText is a Task of about that size, of words that compress as texts do.
// The noise has a fixed seed, so that each run measures the same bytes.
func fileText(i int) []byte {
	words := strings.Fields("clone build push scan image commit workspace secret step script volume mount cache branch digest " +
		"registry the a of with from into and when result param default description container timeout retries runAfter")
	noise := rand.New(rand.NewPCG(uint64(i), 1)) //nolint:gosec // the same files each time
	var b bytes.Buffer
	fmt.Fprintf(&b, "apiVersion: tekton.dev/v1\nkind: Task\nmetadata:\n  name: task-%04d\nspec:\n  steps:\n  - name: run\n    image: registry.example.com/builder:%d\n    script: |\n", i, i)
	for b.Len() < fileSize {
		b.WriteString("      ")
		for range 12 {
			b.WriteString(words[noise.IntN(len(words))] + " ")
		}
		b.WriteString("\n")
	}
	return b.Bytes()
}

// writeCatalog writes a commit with the files of a catalog, for git fast-import.
// The author and the time are fixed, so that the commit has the same ID in each run.
func writeCatalog(w io.Writer) {
	fmt.Fprint(w, "commit refs/heads/main\ncommitter c <c@example.com> 1700000000 +0000\ndata 1\nm\n")
	for i := range catalogFiles {
		text := fileText(i)
		fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n%s\n", filePath(i), len(text), text)
	}
}

// initRepository makes a bare repository whose server sends what is asked for and no more.
// Partial clones need a server that filters, and one that sends any object by its ID.
func initRepository(ctx context.Context, dir string) error {
	_, err := gittest.Git(ctx, "", nil, "init", "-q", "--bare", "-b", "main", dir)
	for _, key := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"} {
		if err == nil {
			_, err = gittest.Git(ctx, dir, nil, "config", key, "true")
		}
	}
	return err
}

// importRepository makes a bare repository from input for git fast-import.
// Compression is off: it would take longer than all that is measured, and the server sends what it has.
func importRepository(ctx context.Context, dir string, write func(io.Writer)) error {
	if err := initRepository(ctx, dir); err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() {
		b := bufio.NewWriterSize(w, 1<<20)
		write(b)
		fmt.Fprint(b, "done\n")
		_ = w.CloseWithError(b.Flush()) // it has the first error of all writes
	}()
	defer r.Close() //nolint:errcheck // it ends the writer where git has ended before
	_, err := gittest.Git(ctx, dir, r, "-c", "core.compression=0", "-c", "pack.compression=0", "fast-import", "--quiet", "--done")
	return err
}

// makeWideRepository makes one with a million names in one folder, of one file. For git fast-import that would take hours.
func makeWideRepository(ctx context.Context, dir string) error {
	if err := initRepository(ctx, dir); err != nil {
		return err
	}
	blob, err := gittest.Git(ctx, dir, strings.NewReader("kind: Task\n"), "hash-object", "-w", "--stdin")
	if err != nil {
		return err
	}
	var entries bytes.Buffer
	for i := range wideFiles {
		fmt.Fprintf(&entries, "100644 blob %s\t%s\n", blob, widePath(i))
	}
	tree, err := gittest.Git(ctx, dir, &entries, "mktree")
	if err != nil {
		return err
	}
	commit, err := gittest.Git(ctx, dir, nil, "commit-tree", "-m", "m", tree)
	if err != nil {
		return err
	}
	if _, err := gittest.Git(ctx, dir, nil, "update-ref", "refs/heads/main", commit); err != nil {
		return err
	}
	_, err = gittest.Git(ctx, dir, nil, "repack", "-q", "-a", "-d")
	return err
}

// gitServer serves the repositories below a folder by git's own server. It ignores the first element of a path, so that one repository has
// many addresses.
// The server of gittest answers the rest of the path.
type gitServer struct {
	*httptest.Server

	git gittest.Server
}

// serveGit starts a server for the repositories below root. /1/a.git and /2/a.git are the same repository to git and
// two to the resolver, which has cached neither.
func serveGit(root string) *gitServer {
	s := &gitServer{git: gittest.Server{Root: root}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		r.URL.Path = "/" + path
		s.git.ServeHTTP(w, r)
	}))
	return s
}

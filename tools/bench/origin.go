package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cgi" //nolint:gosec // the attack that is meant was closed in Go 1.6.3
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// repositoryFiles and fileSize make a tree of about 13 MB.
	repositoryFiles = 1865
	fileSize        = 7000
	// resolvedFiles is the number of files that are requested.
	resolvedFiles = 50
	// importTimeout bounds the making of a repository.
	importTimeout = 5 * time.Minute
	// largeBlob is the size of each blob of a long history.
	largeBlob = 1 << 20
)

// filePath is the path of the i-th file of a repository.
func filePath(i int) string { return fmt.Sprintf("catalog/d%02d/e%d/task-%04d.yaml", i%40, i%7, i) }

// fileText is a Task of about that size, of words that compress as texts do.
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

// makeRepository makes a bare repository with the files on the branch main, and so many more commits that replace a blob of
// noise each.
func makeRepository(ctx context.Context, dir string, commits int) error {
	return importRepository(ctx, dir, func(w io.Writer) error { return writeHistory(w, commits) })
}

// importRepository makes a bare repository from input for git fast-import.
func importRepository(ctx context.Context, dir string, write func(io.Writer) error) error {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	if _, err := runGit(ctx, "", nil, "init", "-q", "--bare", "-b", "main", dir); err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(write(w)) }()
	defer r.Close() //nolint:errcheck // it ends the writer where git has ended before
	_, err := runGit(ctx, dir, r, "-c", "core.compression=0", "-c", "pack.compression=0", "fast-import", "--quiet", "--done")
	return err
}

// manyPath is the path of the i-th of a million files in folders.
func manyPath(i int) string { return fmt.Sprintf("d%04d/task-%07d.yaml", i/folderFiles, i) }

// widePath is the name of the i-th of a million files in one folder. It is short enough for the resolver's limit on a folder.
func widePath(i int) string { return fmt.Sprintf("%05x", i) }

// writeManyFiles is a commit with a million different files in folders.
func writeManyFiles(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<20)
	fmt.Fprint(b, "commit refs/heads/main\ncommitter c <c@example.com> 1700000000 +0000\ndata 1\nm\n")
	for i := range manyFiles {
		text := fmt.Sprintf("kind: Task\nn: %d\n", i)
		fmt.Fprintf(b, "M 100644 inline %s\ndata %d\n%s\n", manyPath(i), len(text), text)
	}
	fmt.Fprint(b, "done\n")
	return b.Flush() // it has the first error of all writes
}

// makeWideRepository makes one with a million names in one folder, of one file. For git fast-import that would take hours.
func makeWideRepository(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	if _, err := runGit(ctx, "", nil, "init", "-q", "--bare", "-b", "main", dir); err != nil {
		return err
	}
	blob, err := runGit(ctx, dir, strings.NewReader("kind: Task\n"), "hash-object", "-w", "--stdin")
	if err != nil {
		return err
	}
	var entries bytes.Buffer
	for i := range manyFiles {
		fmt.Fprintf(&entries, "100644 blob %s\t%s\n", blob, widePath(i))
	}
	tree, err := runGit(ctx, dir, &entries, "mktree")
	if err != nil {
		return err
	}
	commit, err := runGit(ctx, dir, nil, "-c", "user.name=c", "-c", "user.email=c@example.com", "commit-tree", "-m", "m", tree)
	if err != nil {
		return err
	}
	if _, err := runGit(ctx, dir, nil, "update-ref", "refs/heads/main", commit); err != nil {
		return err
	}
	_, err = runGit(ctx, dir, nil, "repack", "-q", "-a", "-d")
	return err
}

func writeHistory(w io.Writer, commits int) error {
	b := bufio.NewWriterSize(w, 1<<20)
	fmt.Fprint(b, "commit refs/heads/main\ncommitter c <c@example.com> 1700000000 +0000\ndata 1\nm\n")
	for i := range repositoryFiles {
		text := fileText(i)
		fmt.Fprintf(b, "M 100644 inline %s\ndata %d\n%s\n", filePath(i), len(text), text)
	}
	noise := rand.NewChaCha8([32]byte{1})
	blob := make([]byte, largeBlob)
	for c := range commits {
		// Noise never fails to be read.
		_, _ = noise.Read(blob)
		fmt.Fprintf(b, "commit refs/heads/main\ncommitter c <c@example.com> %d +0000\ndata 1\nm\nM 100644 inline big/%d\ndata %d\n", 1700000001+c, c%10, len(blob))
		_, _ = b.Write(blob) // an error stays until Flush
		fmt.Fprint(b, "\n")
	}
	fmt.Fprint(b, "done\n")
	return b.Flush()
}

// runGit runs git without the settings of the user.
func runGit(ctx context.Context, dir string, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdin = dir, stdin
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(out))
	}
	return strings.TrimSpace(string(out)), nil
}

// server is an HTTP server on loopback. It counts what it is asked and what it sends.
type server struct {
	*http.Server

	host            string
	requests, bytes atomic.Int64
}

func serveOn(ctx context.Context, h http.Handler) (*server, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{host: l.Addr().String()}
	s.Server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		h.ServeHTTP(&counted{w, &s.bytes}, r)
	})}
	go func() {
		// It ends when it is closed.
		_ = s.Serve(l)
	}()
	return s, nil
}

func (s *server) url(path string) string { return "http://" + s.host + path }

type counted struct {
	http.ResponseWriter

	n *atomic.Int64
}

// Write implements [http.ResponseWriter].
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// Unwrap is for [http.ResponseController].
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// catalog makes the repository /catalog.git in the folder of a system, and serves it.
func (s *system) catalog(ctx context.Context) (repo string, origin *server, err error) {
	root := filepath.Join(s.dir, "origin")
	if err := os.Mkdir(root, 0o700); err != nil {
		return "", nil, err
	}
	repo = filepath.Join(root, "catalog.git")
	if err := makeRepository(ctx, repo, 0); err != nil {
		return "", nil, err
	}
	origin, err = gitServer(ctx, root, true)
	return repo, origin, err
}

// gitServer serves the repositories below a folder as git's own http-backend does it.
func gitServer(ctx context.Context, root string, filter bool) (*server, error) {
	path, err := runGit(ctx, "", nil, "--exec-path")
	if err != nil {
		return nil, err
	}
	return serveOn(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := cgi.Handler{
			Path: filepath.Join(path, "git-http-backend"), Stderr: io.Discard,
			Env: []string{
				"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
				"GIT_PROTOCOL=" + r.Header.Get("Git-Protocol"), "GIT_CONFIG_COUNT=2",
				"GIT_CONFIG_KEY_0=uploadpack.allowFilter", fmt.Sprintf("GIT_CONFIG_VALUE_0=%t", filter),
				"GIT_CONFIG_KEY_1=uploadpack.allowAnySHA1InWant", "GIT_CONFIG_VALUE_1=true",
			},
		}
		h.ServeHTTP(w, r)
	}))
}

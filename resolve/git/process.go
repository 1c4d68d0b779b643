package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"sluice.dev/resolve"
)

// This package runs only a few git commands, on local files, and object IDs are the only arguments from outside: index-pack or
// unpack-objects after a fetch, and cat-file to read packs. None of them uses a network.

// Limits of git processes. They protect against objects that claim huge sizes.
const (
	// The limit is on address space. Mapped files and git's own code take baseMemory of it.
	maxProcessMemory = 192 << 20
	minProcessMemory = 64 << 20
	baseMemory       = 16 << 20
	// Objects up to smallObject need no memory reservation.
	smallObject = 1 << 20
	// In seconds. A catfile lives long, so its CPU time has no limit; it only copies objects.
	maxProcessCPU = 300
	// Small packs unpack in less, and to smaller files. If more is needed, the pack stays a pack.
	maxUnpackCPU  = 20
	maxUnpackFile = 16 << 20
)

var (
	errMissing  = errors.New("the object is not in the mirror")
	errCorrupt  = errors.New("the mirror is damaged")
	errDiskFull = errors.New("the disk is full")
	errKilled   = errors.New("the git process was killed, maybe for want of memory")
	// errNotStarted: git is not installed, or the machine lacks the resources for a process.
	errNotStarted = errors.New("the git command cannot be started")
)

// gitCommand prepares a git command in a repository. It passes no environment and no configuration but the ones here.
func gitCommand(ctx context.Context, binary, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // the git command that findGit found, see above for the arguments
	cmd.Dir = dir
	config := [][2]string{
		{"core.bigFileThreshold", "1m"},
		{"core.packedGitWindowSize", "8m"},
		{"core.packedGitLimit", "32m"},
		{"core.deltaBaseCacheLimit", "16m"},
		{"core.hooksPath", "/dev/null"},
		{"gc.auto", "0"},
		{"pack.threads", "1"},
	}
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_DIR=" + dir,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0",
		// Freed memory goes back to the system; otherwise glibc would raise these thresholds over time.
		"MALLOC_MMAP_THRESHOLD_=131072", "MALLOC_TRIM_THRESHOLD_=131072", "MALLOC_ARENA_MAX=1",
		"GIT_CONFIG_COUNT=" + strconv.Itoa(len(config)),
	}
	for i, kv := range config {
		cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	// Git may start processes of its own, which end with it.
	killGroup(cmd)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// indexer puts packs into repositories.
type indexer struct {
	binary string
	// turns bounds the number of processes. A process that waits for a network never holds one.
	turns *turns
	// memory bounds the memory of all git processes together.
	memory *resolve.Memory
}

func newIndexer(binary string, memory *resolve.Memory) *indexer {
	return &indexer{binary: binary, turns: newTurns(max(2, runtime.GOMAXPROCS(0))), memory: memory}
}

// indexPack makes the index of the pack file, next to it.
func (x *indexer) indexPack(ctx context.Context, dir, pack string) error {
	return x.runGit(ctx, dir, nil, nil, limitsFor(pack), "index-pack", "--threads=1", "-o", strings.TrimSuffix(pack, ".pack")+".idx", pack)
}

// completeThinPack adds the missing base objects from the repository to a thin pack. The pack and its index end up in the folder pack of
// staging.
func (x *indexer) completeThinPack(ctx context.Context, dir, staging, pack string) error {
	return x.readPack(ctx, dir, staging, pack, limitsFor(pack), "index-pack", "--threads=1", "--stdin", "--fix-thin")
}

// unpackLoose writes the objects of a small pack file into another folder than the repository's, as loose objects.
func (x *indexer) unpackLoose(ctx context.Context, dir, loose, pack string) error {
	limits := processLimits{memory: limitsFor(pack).memory, cpu: maxUnpackCPU, file: maxUnpackFile}
	return x.readPack(ctx, dir, loose, pack, limits, "unpack-objects", "-q")
}

// readPack runs a command that reads a pack file and writes into another folder than the repository's. The repository has the objects
// that the pack may depend on.
func (x *indexer) readPack(ctx context.Context, dir, into, pack string, limits processLimits, args ...string) error {
	f, err := os.Open(pack) //nolint:gosec // a file that this process has just written
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	env := []string{"GIT_OBJECT_DIRECTORY=" + into, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(dir, "objects")}
	return x.runGit(ctx, dir, f, env, limits, args...)
}

// processLimits are the limits of a process: memory and the size of each file that it writes, in bytes, and CPU time in seconds. 0
// sets none.
type processLimits struct{ memory, cpu, file uint64 }

// limitsFor returns the limits for reading a pack. A small pack may unpack to much data, but not as much as a large one.
func limitsFor(pack string) processLimits {
	l := processLimits{memory: maxProcessMemory, cpu: maxProcessCPU}
	if info, err := os.Stat(pack); err == nil && info.Size() < maxProcessMemory/16 {
		l.memory = min(l.memory, minProcessMemory+16*uint64(info.Size())) //nolint:gosec // a size is not negative
	}
	return l
}

// runGit runs a git command that reads a pack, in its turn and within its limits. env is added to the environment; stdin may be nil.
// The error is a *[packError] if git refuses the pack, errDiskFull, errKilled, or that of the context.
func (x *indexer) runGit(ctx context.Context, dir string, stdin *os.File, env []string, limits processLimits, args ...string) error {
	done, err := x.turns.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer done()
	held, err := x.memory.Reserve(ctx, int64(limits.memory)-baseMemory) //nolint:gosec // at most maxProcessMemory
	if err != nil {
		return err
	}
	defer held.Release()
	cmd := gitCommand(ctx, x.binary, dir, args...)
	cmd.Env = append(cmd.Env, env...)
	stderr := &boundedBuffer{left: 4096}
	cmd.Stderr = stderr
	if stdin != nil {
		cmd.Stdin = stdin
	}
	if err := cmd.Start(); err != nil {
		return notStarted(err)
	}
	limitProcess(cmd.Process.Pid, limits)
	err = cmd.Wait()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case bytes.Contains(stderr.Bytes(), []byte("No space left")):
		return errDiskFull
	}
	// Other signals come from the limits. An object that unpacks to too much data causes them.
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
		return errKilled
	}
	return &packError{firstLine(stderr.Bytes())}
}

// notStarted returns why a git command did not start.
func notStarted(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok && path.Op != "chdir" {
		return fmt.Errorf("%w: %s", errNotStarted, path.Err.Error())
	}
	return err // the mirror is gone
}

// packError means that the fetched data is not a valid pack.
type packError struct{ text string }

func (e *packError) Error() string { return e.text }

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return strings.TrimPrefix(line, "fatal: ")
}

// catfile is a git cat-file that waits for requests.
type catfile struct {
	memory *resolve.Memory
	// held is the memory of a large object that was read. The process ends before the memory is released.
	held  *resolve.Reservation
	dir   string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

// catfiles lends catfiles: at most max at once, idle ones included.
type catfiles struct {
	binary string
	slots  chan struct{}
	memory *resolve.Memory

	mu sync.Mutex
	// idle has the idle ones, the most recently used last.
	idle []*catfile
	busy int
	max  int
}

func newCatfiles(binary string, limit int, memory *resolve.Memory) *catfiles {
	return &catfiles{binary: binary, slots: make(chan struct{}, limit), max: limit, memory: memory}
}

// withProcess runs fn with a catfile of the repository. After an error it does not use that catfile again.
func (c *catfiles) withProcess(ctx context.Context, dir string, fn func(*catfile) error) error {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p, err := c.takeProcess(ctx, dir)
	if err != nil {
		return err
	}
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		_ = p.cmd.Cancel()
	})
	err = fn(p)
	unharmed := stop()
	if !unharmed {
		// After the wait, another process may have its ID.
		<-killed
	}
	c.mu.Lock()
	c.busy--
	keep := unharmed && p.held == nil && (err == nil || errors.Is(err, errMissing) || errors.Is(err, errTooMuch))
	if keep {
		c.idle = append(c.idle, p)
	}
	c.mu.Unlock()
	if !keep {
		p.stopProcess()
		p.held.Release()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return err
}

// takeProcess returns a process of the repository: one that is idle, or a new one. If there are as many as allowed, the process that
// has been idle for longest ends for it.
func (c *catfiles) takeProcess(ctx context.Context, dir string) (*catfile, error) {
	c.mu.Lock()
	for i, p := range slices.Backward(c.idle) {
		if p.dir == dir {
			c.idle = slices.Delete(c.idle, i, i+1)
			c.busy++
			c.mu.Unlock()
			return p, nil
		}
	}
	var old *catfile
	if len(c.idle) > 0 && len(c.idle)+c.busy >= c.max {
		old, c.idle = c.idle[0], c.idle[1:]
	}
	c.busy++
	c.mu.Unlock()
	if old != nil {
		old.stopProcess()
	}
	p, err := c.startProcess(ctx, dir)
	if err != nil {
		c.mu.Lock()
		c.busy--
		c.mu.Unlock()
	}
	return p, err
}

// startProcess starts a catfile that outlives its first request.
func (c *catfiles) startProcess(ctx context.Context, dir string) (*catfile, error) {
	cmd := gitCommand(context.WithoutCancel(ctx), c.binary, dir, "cat-file", "--batch-command")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, notStarted(err)
	}
	limitProcess(cmd.Process.Pid, processLimits{memory: maxProcessMemory})
	return &catfile{memory: c.memory, dir: dir, cmd: cmd, stdin: stdin, out: bufio.NewReaderSize(stdout, 32<<10)}, nil
}

// endIdle ends the idle catfiles of a repository, or all if dir is empty.
func (c *catfiles) endIdle(dir string) {
	c.mu.Lock()
	var gone, keep []*catfile
	for _, p := range c.idle {
		if dir == "" || p.dir == dir {
			gone = append(gone, p)
		} else {
			keep = append(keep, p)
		}
	}
	c.idle = keep
	c.mu.Unlock()
	for _, p := range gone {
		p.stopProcess()
	}
}

// stopProcess ends a process and waits for its end, so that none is left behind.
func (p *catfile) stopProcess() {
	_ = p.stdin.Close()
	_ = p.cmd.Cancel()
	_ = p.cmd.Wait()
}

// objectInfo asks for the type and size of an object.
func (p *catfile) objectInfo(name string) (id, kind string, size int64, err error) {
	if _, err := io.WriteString(p.stdin, "info "+name+"\n"); err != nil {
		return "", "", 0, errCorrupt
	}
	return p.readHeader()
}

// readHeader reads the line that git prints before an object, and instead of one that is missing (git-cat-file, "BATCH OUTPUT"). If a
// name is the beginning of several objects, the kind is ambiguous.
func (p *catfile) readHeader() (id, kind string, size int64, err error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", "", 0, errCorrupt
	}
	words := strings.Fields(line)
	if len(words) >= 2 && (words[len(words)-1] == "missing" || words[1] == "missing") {
		return "", "", 0, errMissing
	}
	if len(words) == 2 && words[1] == "ambiguous" {
		return "", "ambiguous", 0, nil
	}
	if len(words) != 3 {
		return "", "", 0, errCorrupt
	}
	size, err = strconv.ParseInt(words[2], 10, 64)
	if err != nil || size < 0 {
		return "", "", 0, errCorrupt
	}
	return words[0], words[1], size, nil
}

// reserveMemory waits for the memory that git needs for an object and its delta bases.
func (p *catfile) reserveMemory(ctx context.Context, size int64) (err error) {
	if size <= smallObject {
		return nil
	}
	p.held.Release()
	p.held, err = p.memory.Reserve(ctx, 3*size)
	return err
}

// maxPacked is the largest object that git reads from a pack within its memory.
const maxPacked = 48 << 20

// withObject is [mirror.withObject] for an object that may be in a pack.
func (p *catfile) withObject(ctx context.Context, name, want string, limit int64, fn func(kind string, size int64, body io.Reader) error) error {
	_, kind, size, err := p.objectInfo(name)
	if err == nil {
		err = checkObject(kind, want, size, min(limit, maxPacked))
	}
	if err != nil {
		return err
	}
	if err := p.reserveMemory(ctx, size); err != nil {
		return err
	}
	if _, err := io.WriteString(p.stdin, "contents "+name+"\n"); err != nil {
		return errCorrupt
	}
	if _, _, again, err := p.readHeader(); err != nil || again != size {
		return errCorrupt
	}
	body := &io.LimitedReader{R: p.out, N: size}
	if err := fn(kind, size, body); err != nil {
		return err
	}
	if end, err := p.out.ReadByte(); body.N > 0 || err != nil || end != '\n' {
		return errCorrupt
	}
	return nil
}

// findGit returns the git command and checks that it is new enough.
func findGit(ctx context.Context) (string, error) {
	found, err := exec.LookPath("git")
	if err != nil {
		return "", fmt.Errorf("the git command is needed and not there: %w", err)
	}
	if found, err = filepath.Abs(found); err != nil {
		return "", err
	}
	out, err := gitCommand(ctx, found, os.TempDir(), "version").Output()
	if err != nil {
		return "", fmt.Errorf("git version: %w", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(out), "git version %d.%d", &major, &minor); err != nil {
		return "", fmt.Errorf("git version answers %q", firstLine(out))
	}
	if major < 2 || major == 2 && minor < 36 {
		return "", fmt.Errorf("git %d.%d is too old; 2.36 is needed", major, minor)
	}
	return found, nil
}

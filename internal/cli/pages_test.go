package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The pages are run from their own text. A block with file=NAME behind its language is written into the page's folder. The
// commands of a block sh are run, and have to succeed. A block console has commands behind "$ " and, below each, what it prints:
// "…" stands for any text, and on a line of its own for any lines. Its commands may fail; echo $? shows it. All blocks share one
// shell and one folder. The folder of a tutorial is empty at first, and that of another page has examples. A block that is not run
// has a reason in pagePlans.

// pageBlock is one block of code on a page.
type pageBlock struct {
	line           int // of its fence, from 1
	language, file string
	text           string
}

var (
	pageFence = regexp.MustCompile("^( *)```(.*)$")
	// repeatable are commands that change nothing: they are run until they print what the page shows, because a cluster takes a
	// moment to act on a change.
	repeatable = regexp.MustCompile(`--dry-run=server|^kubectl get `)
)

func pageBlocks(t *testing.T, page string) (out []pageBlock) {
	t.Helper()
	var open *pageBlock
	indent := ""
	for i, line := range strings.Split(page, "\n") {
		m := pageFence.FindStringSubmatch(line)
		switch {
		case m != nil && open == nil:
			open, indent = &pageBlock{line: i + 1}, m[1]
			for j, word := range strings.Fields(m[2]) {
				if name, ok := strings.CutPrefix(word, "file="); ok {
					open.file = name
				} else if j == 0 {
					open.language = word
				}
			}
		case m != nil:
			out, open = append(out, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open != nil {
		t.Fatalf("line %d: the block has no end", open.line)
	}
	return out
}

// pageShell is the shell that runs the commands of a page.
type pageShell struct {
	script io.Writer
	lines  *bufio.Reader
	dir    string
}

const (
	commandEnds  = "end-of-command"
	pagePatience = time.Minute
)

// startShell starts one in an empty folder. With the test everything ends that its commands have left running.
func startShell(t *testing.T, env ...string) *pageShell {
	t.Helper()
	dir := t.TempDir()
	scriptIn, script, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	lines, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "/dev/fd/3")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{scriptIn}, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // the group of the shell, which may be gone
		_ = script.Close()
		_ = cmd.Wait()
		_, _ = scriptIn.Close(), lines.Close()
	})
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return &pageShell{script, bufio.NewReader(lines), dir}
}

// run returns what a command prints, on both of its streams, and its exit code.
func (s *pageShell) run(command string) (printed string, code int, err error) {
	// The code is kept for the command after it.
	if _, err := fmt.Fprintf(s.script, "%s\n_code=$?; printf '\\n%%s %%d\\n' %s $_code; (exit $_code)\n", command, commandEnds); err != nil {
		return "", 0, err
	}
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return printed, 0, fmt.Errorf("the shell ended: %w", err)
		}
		if n, _ := fmt.Sscanf(line, commandEnds+" %d\n", &code); n == 1 {
			// The mark has a line before it that belongs to it, so that output without an end of line is seen.
			return strings.TrimSuffix(printed, "\n"), code, nil
		}
		printed += line
	}
}

// shown is an expression for what a page shows.
func shown(text string) *regexp.Regexp {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "…" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*"))
	}
	return regexp.MustCompile(`^` + b.String() + `$`)
}

// transcript splits a block console into its commands and what follows each. Lines with "> " continue a command.
func transcript(text string) (commands, outputs []string) {
	for line := range strings.Lines(text) {
		last := len(commands) - 1
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			commands, outputs = append(commands, command), append(outputs, "")
		} else if more, ok := strings.CutPrefix(line, "> "); ok && last >= 0 && outputs[last] == "" {
			commands[last] += more
		} else if last >= 0 {
			outputs[last] += line
		}
	}
	return commands, outputs
}

// runPage runs a page of docs, or the README. Names of the environment that stand in it as $NAME are the shell's.
func runPage(t *testing.T, page string, replace *strings.Replacer, env ...string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	plan := pagePlans[page]
	s := startShell(t, env...)
	if !strings.HasPrefix(page, tutorials) {
		for _, dir := range append([]string{"examples"}, plan.folders...) {
			if err := os.CopyFS(filepath.Join(s.dir, dir), os.DirFS(filepath.Join("..", "..", dir))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, b := range pageBlocks(t, string(data)) {
		where := fmt.Sprintf("%s:%d", page, b.line)
		if plan.reason(b) != "" {
			continue
		}
		s.succeed(t, where+": what is assumed", plan.assumed(b))
		b.text = replace.Replace(strings.NewReplacer(plan.replace...).Replace(b.text))
		switch {
		case b.file != "":
			name := filepath.Join(s.dir, b.file)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(b.text), 0o644); err != nil {
				t.Fatal(err)
			}
		case b.language == "sh":
			s.succeed(t, where, b.text)
		case b.language == "console":
			commands, outputs := transcript(b.text)
			for i, command := range commands {
				s.show(t, where, command, outputs[i])
			}
		case strings.HasPrefix(page, tutorials):
			t.Errorf("%s: a block %q that nothing runs", where, b.language)
		}
	}
}

// succeed runs commands; none may fail.
func (s *pageShell) succeed(t *testing.T, where, commands string) {
	t.Helper()
	if commands == "" {
		return
	}
	printed, code, err := s.run("failed=0; trap failed=1 ERR\n" + commands + "\ntrap - ERR; [ $failed = 0 ]")
	if err != nil || code != 0 {
		t.Fatalf("%s: a command fails: %v\n%s", where, err, printed)
	}
}

// show runs a command and compares what it prints with what the page shows.
func (s *pageShell) show(t *testing.T, where, command, want string) {
	t.Helper()
	for end := time.Now().Add(pagePatience); ; {
		printed, _, err := s.run(command)
		if err != nil {
			t.Fatalf("%s: %s%v\n%s", where, command, err, printed)
		}
		if shown(want).MatchString(printed) {
			return
		}
		if !repeatable.MatchString(command) || time.Now().After(end) {
			t.Fatalf("%s: %sprints (-page +now)\n%s", where, command, cmp.Diff(want, printed))
		}
		<-time.After(100 * time.Millisecond) // the cluster needs the processor more than the next try does
	}
}

func TestThePagesShowWhatIsPrinted(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for page, plan := range pagePlans {
		if plan.cluster || plan.skip[everyBlock] != "" {
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			runPage(t, page, strings.NewReplacer(), append(slices.Clone(pageEnv), "SLUICE="+root, "KUBECONFIG=/nonexistent")...)
		})
	}
}

// pageEnv has git commit, and go build what Sluice is built with, wherever the pages are run: the sums of these modules are in
// Sluice's own go.sum.
var pageEnv = []string{
	"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com",
	"GIT_CONFIG_GLOBAL=/dev/null", "GOSUMDB=off",
}

// TestAPageThatShowsSomethingElseFails holds the comparison itself.
func TestAPageThatShowsSomethingElseFails(t *testing.T) {
	for _, c := range []struct {
		page, printed string
		same          bool
	}{
		{"a\nb\n", "a\nb\n", true},
		{"a\n", "a\nb\n", false},
		{"a\nb\n", "a\n", false},
		{"", "", true},
		{"", "a\n", false},
		{"a\n…\n", "a\nb\nc\n", true},
		{"…\nc\n", "a\nb\nc\n", true},
		{"a …\n", "a b c\n", true},
		{"a …\n", "a b\nc\n", false},
		{"a.c\n", "abc\n", false},
	} {
		if shown(c.page).MatchString(c.printed) != c.same {
			t.Errorf("the page %q and the output %q: the same is %t, want %t", c.page, c.printed, !c.same, c.same)
		}
	}
	s := startShell(t)
	for _, c := range []struct {
		command, printed string
		code             int
	}{
		{"echo a; echo b >&2\n", "a\nb\n", 0},
		{"printf a\n", "a", 0},
		{"false\n", "", 1},
		{"echo $?\n", "1\n", 0},
		{"x=1\n", "", 0},
		{"echo $x\n", "1\n", 0},
	} {
		if printed, code, err := s.run(c.command); printed != c.printed || code != c.code || err != nil {
			t.Errorf("%q prints %q, exit code %d, %v", c.command, printed, code, err)
		}
	}
	commands, outputs := transcript("$ a \\\n>   b\nout\n> more\n$ c\n")
	if diff := cmp.Diff([][]string{{"a \\\n  b\n", "c\n"}, {"out\n> more\n", ""}}, [][]string{commands, outputs}); diff != "" {
		t.Error(diff)
	}
}

package life

// Does the copy of a package compile? The go command says so, while the files of the copy are on the disk for
// a moment. Its errors name the place in the package that was copied, because nothing of the copy is left to
// look at.

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// checkCompiles compiles the copy, and the package that it comes from, in the module of dir. It has the files of the copy on the disk meanwhile.
// Errors of the copy have the place in the other package: nothing is left of the copy.
func (c *packageCopy) checkCompiles(ctx context.Context, dir string) error {
	undo, err := slices.Concat(c.sameLines, c.embedded).stage()
	if err != nil {
		return err
	}
	defer undo()
	said, err := goBuild(ctx, dir, c.from.dir, c.dir)
	if err == nil || said == "" || ctx.Err() != nil {
		return cmp.Or(ctx.Err(), err)
	}
	own, copied, err := c.compilerProblems(dir, said)
	if err != nil {
		return err
	}
	from, to := filepath.ToSlash(c.from.dir), filepath.ToSlash(c.dir)
	if len(own) > 0 {
		return fmt.Errorf("%w\n%s does not compile, so that there can be no copy of it: mend it first", own.asError(), from)
	}
	advice := ""
	if len(c.leftOut) > 0 {
		advice = fmt.Sprintf("The copy is without what belongs to %s only: %s. Move what the rest needs from there to another file, and run the command again. ", c.from.version, strings.Join(c.leftOut, ", "))
	}
	return fmt.Errorf("%w\n%s does not compile as a copy of %s, and was not written. %sIf you write the package yourself, the command adds the marker to it", copied.asError(), to, from, advice)
}

// compilerProblems sorts what the go command said in dir into problems of the copy, and others.
func (c *packageCopy) compilerProblems(dir, said string) (own, copied Problems, err error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	sources := map[string]string{}
	for _, f := range c.code {
		name, err := filepath.Abs(f.path)
		if err != nil {
			return nil, nil, err
		}
		sources[name] = c.sources[f.path]
	}
	var placeless Problems
	for _, p := range readProblems(said) {
		full := p.File
		if !filepath.IsAbs(full) {
			full, p.File = filepath.Join(absolute, full), filepath.Join(dir, full)
		}
		source, ok := sources[full]
		switch {
		case p.Line == 0:
			placeless.addProblem("", 0, "%s", p.Message)
		case ok:
			copied.addProblem(source, p.Line, "%s (in the copy for %s)", p.Message, c.version)
		default:
			own = append(own, p)
		}
	}
	// What has no place, such as an error in go.mod, is no fault of the copy.
	if own == nil && copied == nil {
		own = placeless
	}
	return own, copied, nil
}

// goBuild compiles packages in the module of dir, and keeps nothing. If that fails, it returns what the go command said.
func goBuild(ctx context.Context, dir string, folders ...string) (said string, err error) {
	args := []string{"build", "-o", os.DevNull}
	for _, folder := range folders {
		args = append(args, folderIn(dir, folder))
	}
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // folders of the project
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	return stderr.String(), err
}

// ModulesSuffice reports whether go.mod and go.sum of the module at dir have all that the packages of the Go files import, and their tests too. The
// go command knows that, because it reads the imports of imports. It changes neither file.
func (o Outputs) ModulesSuffice(ctx context.Context, dir string) bool {
	args := []string{"list", "-deps", "-test", "-f", "{{.ImportPath}}"}
	if strings.Contains(os.Getenv("GOFLAGS"), "-mod=mod") {
		args = append(args, "-mod=readonly")
	}
	for _, f := range o {
		if filepath.Ext(f.path) == ".go" {
			args = append(args, folderIn(dir, filepath.Dir(f.path)))
		}
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	return cmd.Run() == nil
}

// folderIn is a folder as the go command names it in dir.
func folderIn(dir, folder string) string {
	rel, err := filepath.Rel(dir, folder)
	if err != nil {
		return folder
	}
	return "." + string(filepath.Separator) + rel
}

// readProblems reads what the go command says of code that does not compile. Lines that begin with a tab belong to the one before.
func readProblems(text string) (out Problems) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		m := compilerLine.FindStringSubmatch(line)
		switch {
		case m != nil:
			number, _ := strconv.Atoi(m[2]) // digits
			out.addProblem(m[1], number, "%s", m[3])
		case strings.HasPrefix(line, "#"), strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, "\t") && len(out) > 0:
			out[len(out)-1].Message += " " + strings.TrimSpace(line)
		default:
			out.addProblem("", 0, "%s", line)
		}
	}
	return out
}

var compilerLine = regexp.MustCompile(`^(.+?\.\w+):(\d+)(?::\d+)?: (.*)$`)

package check

// What should a reader of the report know about the files that were compared? For example that a submodule has another commit now, or that a
// kustomization no longer includes a CRD. Such remarks are part of the report, because a pass must not hide what nobody looked at.

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/patternmatcher/ignorefile"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/input"
)

// ignoreFile has the patterns of files that a check leaves out, with the syntax of .dockerignore.
const ignoreFile = ".sluiceignore"

// excludePatterns gives the patterns of the command line and of the file, in this order: the later one wins. A
// file that does not exist has no pattern.
func (c *checker) excludePatterns() ([]string, error) {
	data, err := os.ReadFile(ignoreFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.flags.exclude, nil
	case err != nil:
		return nil, err
	}
	patterns, err := ignorefile.ReadAll(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ignoreFile, err)
	}
	return append(patterns, c.flags.exclude...), nil
}

// tellLeftOut tells what was not read in a source, and how it was read; templates that both sources have once.
// Some of it is told on standard error, since it is about how the command ran; names that stand for templates are
// remarks of the report.
func (c *checker) tellLeftOut(source string, set *input.Set) {
	// Both sides of a comparison mostly have the same ones: once is enough.
	if len(set.Templates) > 0 && !slices.Equal(set.Templates, c.templates) {
		c.templates = set.Templates
		fmt.Fprintf(c.Err, "note: Helm templates are not checked: %s; check what they render: helm template CHART | sluice check OLD -\n", firstNames(set.Templates))
	}
	if len(set.Tests) > 0 && !slices.Equal(set.Tests, c.tests) {
		c.tests = set.Tests
		fmt.Fprintf(c.Err, "note: CRDs in folders of tests (testdata, src/test) are left out: %s; to check them, name the folder\n", firstNames(set.Tests))
	}
	c.tellUnrendered(set.Unrendered)
	if len(set.Rendered) > 0 {
		fmt.Fprintf(c.Err, "note: %s: templates rendered by helm with the default values: %s\n", source, firstNames(set.Rendered))
	}
	patched, templated := 0, 0
	for i := range set.Documents {
		if set.Documents[i].Patched {
			patched++
		}
		if set.Documents[i].Templated {
			templated++
		}
		if d := &set.Documents[i]; d.Renamed {
			c.addRemark("%s: its name or group is a template ({{), for which %s stands; to check what it becomes: helm template CHART | sluice check OLD -", d.File, d.CRD.Name)
		}
	}
	if patched > 0 {
		fmt.Fprintf(c.Err, "note: %s: CRDs with the patches of their kustomization: %d\n", source, patched)
	}
	if templated > 0 {
		fmt.Fprintf(c.Err, "note: %s: CRDs compared without labels and annotations that are templates ({{): %d\n", source, templated)
	}
	if len(set.Missing) > 0 {
		fmt.Fprintf(c.Err, "note: %s does not have %s\n", source, firstNames(set.Missing))
	}
	if set.Excluded > 0 && c.flags.verbose {
		fmt.Fprintf(c.Err, "note: %s: files excluded by %s or --exclude: %d\n", source, ignoreFile, set.Excluded)
	}
}

// refuseMissing is an error if neither side has one of the paths: a misspelt path must not pass.
func (c *checker) refuseMissing(paths []string) error {
	lacks := func(s side, p string) bool {
		return slices.ContainsFunc(s.Missing, func(m string) bool { return path.Clean(m) == path.Clean(p) })
	}
	var both []string
	for _, p := range paths {
		if lacks(c.old, p) && lacks(c.next, p) {
			both = append(both, path.Clean(p))
		}
	}
	if len(both) == 0 {
		return nil
	}
	return fmt.Errorf("%s: neither %s nor %s has it: check the path", strings.Join(both, ", "), c.old.name, c.next.name)
}

// firstNames lists the first few names, and counts the others.
func firstNames(names []string) string { return brief.FirstNames(names, 3) }

// tellUnrendered tells which templates were not rendered: those with one cause together, and what both sides have once.
func (c *checker) tellUnrendered(all []input.Unrendered) {
	var causes []string
	files := map[string][]string{}
	for _, u := range all {
		if slices.Contains(c.unrendered, u) {
			continue
		}
		if c.unrendered = append(c.unrendered, u); files[u.Why] == nil {
			causes = append(causes, u.Why)
		}
		files[u.Why] = append(files[u.Why], u.File)
	}
	for _, why := range causes {
		fmt.Fprintf(c.Err, "note: not rendered: %s: %s\n", firstNames(files[why]), brief.OneLine(why))
	}
}

// goTypesHint says what to do in a project of Go types whose CRDs are not written yet; empty elsewhere. It looks
// at up to 20,000 files below the current directory, and gives up at the first error.
func goTypesHint() string {
	const most = 20_000
	found, seen := "", 0
	_ = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		seen++
		switch {
		case err != nil || seen > most:
			return fs.SkipAll // a hint is not worth an error
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"vendor", "node_modules"}, d.Name())):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_types.go") && d.Name() != "types.go":
			return nil
		}
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte("+kubebuilder:")) { //nolint:gosec // a file below the current directory
			found = path
			return fs.SkipAll
		}
		return nil
	})
	if found == "" {
		return ""
	}
	return fmt.Sprintf("; %s has kubebuilder markers: write the CRDs first (make manifests, or controller-gen crd paths=./...)", found)
}

// addRemark adds a remark to the report, once.
func (c *checker) addRemark(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.remarks, text) {
		c.remarks = append(c.remarks, text)
	}
}

// remarkOnFiles collects what is to be said about the files of both sides; what both have once. A remark that only
// one side has says so: its file is then not read on that side alone, and the comparison is lopsided.
func (c *checker) remarkOnFiles() {
	c.remarkOnSubmodules()
	for _, s := range []struct {
		side, other *side
		only        string
	}{{&c.next, &c.old, " (only on the new side)"}, {&c.old, &c.next, " (only on the old side)"}} {
		for _, m := range s.side.Remarks {
			both := slices.ContainsFunc(s.other.Remarks, func(o input.Remark) bool { return o.Key == m.Key && o.Text == m.Text })
			switch {
			case both && (m.IfChanged || s.side == &c.old):
			case both || !s.other.files:
				c.addRemark("%s: %s", m.File, m.Text)
			default:
				c.addRemark("%s: %s%s", m.File, m.Text, s.only)
			}
		}
		if patches := s.side.Patches; len(patches) > 0 {
			c.addRemark("kustomize patches of CRDs are not checked: %s; check what they render: kubectl kustomize DIR | sluice check OLD -", firstNames(patches))
		}
	}
}

// remarkOnSubmodules names the submodules whose files are not compared: those of another commit, and those that
// only a work tree has read. A submodule with the same commit on both sides is not worth a remark, unless a work
// tree has read its files.
func (c *checker) remarkOnSubmodules() {
	commits := func(s *side) map[string]string {
		out := map[string]string{}
		for _, m := range s.Submodules {
			out[m.Path] = m.Commit
		}
		return out
	}
	old, next := commits(&c.old), commits(&c.next)
	for _, m := range slices.Concat(c.old.Submodules, c.next.Submodules) {
		// Empty on the side that does not have the submodule.
		was, is := old[m.Path], next[m.Path]
		switch {
		case was == is && !c.next.hasBelow(m.Path):
		case was == is:
			c.addRemark("the submodule %s is not read in %s, so its CRDs are compared with nothing", m.Path, c.old.name)
		case c.flags.git == "": // a side may be no repository
			c.addRemark("the submodule %s is not read, so its CRDs are not compared", m.Path)
		case was == "":
			c.addRemark("the submodule %s is new, and its CRDs are not compared: run the check in it", m.Path)
		case is == "":
			c.addRemark("the submodule %s is gone, and its CRDs are not compared: run the check in it", m.Path)
		default:
			c.addRemark("the submodule %s changes from %.12s to %.12s, and its CRDs are not compared: run sluice check --git %.12[2]s...%.12[3]s in it", m.Path, was, is)
		}
	}
}

// hasBelow reports whether a side has a CRD in a file below a folder.
func (s *side) hasBelow(dir string) bool {
	for _, docs := range s.crds {
		if slices.ContainsFunc(docs, func(d input.Document) bool {
			return strings.HasPrefix(filepath.ToSlash(filepath.Clean(d.File)), dir+"/")
		}) {
			return true
		}
	}
	return false
}

// remarkOnKustomizations names the CRDs that a kustomization included and no longer includes, though their files
// are there. For example, config/crd/kustomization.yaml no longer lists bases/widgets.yaml: the file has not
// changed, and yet the next apply with pruning deletes the CRD.
func (c *checker) remarkOnKustomizations(pairs []pair) {
	left := map[string][]string{}
	var files []string
	for _, p := range pairs {
		if p.old == nil || p.next == nil {
			continue
		}
		for _, was := range p.old.Kustomizations {
			below, err := filepath.Rel(filepath.Dir(p.old.File), was)
			// Where the kustomization would be on the new side, if both moved together.
			file := path.Join(path.Dir(filepath.ToSlash(p.next.File)), filepath.ToSlash(below))
			if err != nil || !slices.Contains(c.next.Kustomizations, file) || slices.Contains(p.next.Kustomizations, file) {
				continue
			}
			if left[file] == nil {
				files = append(files, file)
			}
			left[file] = append(left[file], p.name)
			break // what includes it loses the CRD too
		}
	}
	for _, file := range files {
		c.addRemark("%s: it no longer includes %s; an apply of it leaves the old version in place, and with pruning deletes the CRD and all its objects", file, firstNames(left[file]))
	}
}

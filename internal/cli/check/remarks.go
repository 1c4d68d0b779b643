package check

// What should a reader of the report know about the files that were compared? For example that a submodule has another commit now, or that a
// kustomization no longer includes a CRD. Such remarks are part of the report, because a pass must not hide what nobody looked at.

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sluice.dev/internal/input"
)

// addRemark adds a remark to the report, once.
func (c *checker) addRemark(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.remarks, text) {
		c.remarks = append(c.remarks, text)
	}
}

// remarkOnFiles collects what is to be said about the files of both sides; what both have once.
func (c *checker) remarkOnFiles() {
	c.remarkOnSubmodules()
	for _, s := range []struct {
		side, other *side
		only        string
	}{{&c.next, &c.old, " (only on the new side)"}, {&c.old, &c.next, " (only on the old side)"}} {
		for _, m := range s.side.remarks {
			both := slices.ContainsFunc(s.other.remarks, func(o input.Remark) bool { return o.Key == m.Key && o.Text == m.Text })
			switch {
			case both && (m.IfChanged || s.side == &c.old):
			case both || !s.other.files:
				c.addRemark("%s: %s", m.File, m.Text)
			default:
				c.addRemark("%s: %s%s", m.File, m.Text, s.only)
			}
		}
		if patches := s.side.patches; len(patches) > 0 {
			c.addRemark("kustomize patches of CRDs are not checked: %s; check what they render: kubectl kustomize DIR | sluice check OLD -", firstNames(patches))
		}
	}
}

// remarkOnSubmodules names the submodules whose files are not compared: those of another commit, and those that only a work tree has read.
func (c *checker) remarkOnSubmodules() {
	commits := func(s *side) map[string]string {
		out := map[string]string{}
		for _, m := range s.submodules {
			out[m.Path] = m.Commit
		}
		return out
	}
	old, next := commits(&c.old), commits(&c.next)
	for _, m := range slices.Concat(c.old.submodules, c.next.submodules) {
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

// remarkOnKustomizations names the CRDs that a kustomization included and no longer includes, though their files are there.
func (c *checker) remarkOnKustomizations(pairs []pair) {
	left := map[string][]string{}
	var files []string
	for _, p := range pairs {
		if p.old == nil || p.next == nil {
			continue
		}
		for _, was := range p.old.Kustomizations {
			below, err := filepath.Rel(filepath.Dir(p.old.File), was)
			file := path.Join(path.Dir(filepath.ToSlash(p.next.File)), filepath.ToSlash(below))
			if err != nil || !slices.Contains(c.next.kustomizations, file) || slices.Contains(p.next.Kustomizations, file) {
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

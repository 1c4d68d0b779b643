package report

// Which file of the repository has a finding? Positions name what the user compared: files, revisions of git,
// or sources that are no files at all.

import (
	"net/url"
	"path"
	"path/filepath"
	"strings"
)

// inRepository returns the position for formats that show findings in the files of a repository. The path has slashes, and is
// relative to root if root is set. For git:REV:PATH it is PATH without a line, because the file may have other lines now. It
// returns false if there is no such file: standard input, a cluster, a path outside of root.
// Sources that are no files of a repository are -, cluster, and addresses such as oci://. An absolute path without a
// root could be anywhere, so it is none either.
func (p *Position) inRepository(root string) (Position, bool) {
	if p == nil {
		return Position{}, false
	}
	at := Position{File: p.File, Line: max(p.Line, 0)}
	if at.Line > 0 {
		at.Column = max(p.Column, 0)
	}
	if rest, ok := strings.CutPrefix(at.File, "git:"); ok {
		_, file, _ := strings.Cut(rest, ":")
		at = Position{File: file}
	}
	if at.File == "" || at.File == "-" || at.File == "cluster" || strings.Contains(at.File, "://") {
		return Position{}, false
	}
	if filepath.IsAbs(at.File) {
		if root == "" {
			return Position{}, false
		}
		rel, err := filepath.Rel(root, at.File)
		if err != nil {
			return Position{}, false
		}
		at.File = rel
	}
	at.File = path.Clean(filepath.ToSlash(at.File))
	if at.File == ".." || strings.HasPrefix(at.File, "../") || strings.HasPrefix(at.File, "/") {
		return Position{}, false
	}
	return at, true
}

// fileURI writes a relative path as a URI reference.
func fileURI(file string) string {
	return (&url.URL{Path: file}).String()
}

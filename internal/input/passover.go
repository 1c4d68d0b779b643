package input

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/moby/patternmatcher"
)

// errTemplate says that a file holds a template of text, such as Helm's, and no YAML.
var errTemplate = errors.New("a template, not YAML")

// exclusion decides which files below a directory are skipped.
type exclusion struct {
	matcher *patternmatcher.PatternMatcher // nil excludes nothing
	// prefix is the current directory within a repository, with a slash at the end, for files of a revision.
	prefix string
}

func newExclusion(patterns []string) (exclusion, error) {
	if len(patterns) == 0 {
		return exclusion{}, nil
	}
	m, err := patternmatcher.New(patterns)
	if err != nil {
		return exclusion{}, &Error{Msg: "bad pattern of files to exclude: " + err.Error(), Err: err}
	}
	return exclusion{matcher: m}, nil
}

// isExcluded is true for a file that is left out; name is how it was reached.
func (x exclusion) isExcluded(name string) bool {
	if x.matcher == nil {
		return false
	}
	name = strings.TrimPrefix(filepath.ToSlash(filepath.Clean(name)), x.prefix)
	found, err := x.matcher.MatchesOrParentMatches(name)
	return err == nil && found // New has compiled all patterns
}

// passTemplate reports whether a file that was found in a directory is a template of a Helm chart, which cannot be read before it is
// rendered, and records it in the set. Only files below a folder called templates, as in charts, are skipped: elsewhere a file that
// cannot be read is an error.
func (r *reader) passTemplate(ctx context.Context, name string, data []byte) bool {
	if !r.opts.PassTemplates || !isTemplateName(name) {
		return false
	}
	if _, err := Decode(ctx, name, data); !errors.Is(err, errTemplate) {
		return false
	}
	r.set.Templates = append(r.set.Templates, name)
	return true
}

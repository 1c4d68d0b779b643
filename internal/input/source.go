package input

// What does a user name when she names a source? ParseSource reads the forms that commands take: a path, -,
// git:REV:PATH and cluster. Options say how its files are read. URLs are paths to it: commands fetch them, and
// hand over a stream.

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice.dev/internal/sourceurl"
)

// Kind is the kind of a [Source].
type Kind int

// The kinds of sources.
const (
	// Path is files and directories.
	Path Kind = iota
	// Stdin is standard input.
	Stdin
	// Git is files and directories of a revision in the current git repository.
	Git
	// Cluster is the cluster that the kubeconfig names. [Load] does not read it.
	Cluster
)

// Source is a place that definitions are read from.
type Source struct {
	Kind Kind
	// Paths are files and directories, for Path and Git. A directory stands for all files below it that end in .yaml, .yml or
	// .json. Files and directories whose names begin with a dot are skipped. For Git, paths are relative to the root of the
	// repository, or to the current directory if they begin with ./ or ../, as in git show REV:PATH; none means the root.
	Paths []string
	// Rev is a revision as git rev-parse takes it, for Git.
	Rev string
	// Some accepts that some of several Paths do not exist, as long as one does.
	Some bool
	// Note is what a reader of the comparison should know about Rev; empty for nothing. [GitRange] sets it.
	Note string
	// Same is set if the new revision of [GitRange] has no commit that the old one lacks.
	Same bool

	name string
	// inGit is set for the work tree of a repository that is compared with a revision.
	inGit bool
}

// String returns the source as the user gave it, or in the form that [ParseSource] takes.
func (s Source) String() string {
	switch {
	case s.name != "":
		return s.name
	case s.Kind == Stdin:
		return "-"
	case s.Kind == Cluster:
		return "cluster"
	case s.Kind == Git && len(s.Paths) > 0:
		return "git:" + s.Rev + ":" + strings.Join(s.Paths, " ")
	case s.Kind == Git:
		return "git:" + s.Rev
	}
	return strings.Join(s.Paths, " ")
}

// Stream is a source that is read from Options.Stdin. name stands for it in messages and positions.
func Stream(name string) Source { return Source{Kind: Stdin, name: name} }

// InWorkTree is a source of files that are compared with a revision of the same repository, if they may be in its work tree. What a sparse
// checkout leaves out is read from the index, and what git ignores is left out.
func (s Source) InWorkTree() Source {
	s.inGit = s.Kind == Path && !s.IsRemote() && !slices.ContainsFunc(s.Paths, filepath.IsAbs)
	return s
}

// IsRemote tells a URL, which [Load] does not fetch.
func (s Source) IsRemote() bool { return s.Kind == Path && strings.Contains(s.name, "://") }

// GitFile reads git+file:///REPO//PATH?ref=REV: a revision of another repository on this machine, and the
// directory to load it in. Without ref, it is HEAD. The directory has to exist.
func GitFile(name string) (src Source, dir string, err error) {
	dir, path, ref, err := sourceurl.SplitGit(strings.TrimPrefix(name, "git+file://"))
	switch {
	case err != nil:
		return src, "", fmt.Errorf("%s: %w", name, err)
	case !filepath.IsAbs(dir):
		return src, "", fmt.Errorf("%s: git+file:// needs an absolute path: git+file:///path/of/repository//path/in/it?ref=REV", name)
	}
	if _, err := os.Stat(dir); err != nil {
		return src, "", fmt.Errorf("%s: there is no repository at %s", name, dir)
	}
	if src, err = ParseSource("git:" + cmp.Or(ref, "HEAD")); path != "" {
		src.Paths = []string{"/" + path}
	}
	src.name = name
	return src, dir, err
}

// sourceForms is the end of a message about a source that is not there.
const sourceForms = "a source is a file, a directory, - (standard input), git:REV[:PATH] or cluster"

// ParseSource parses a source as users give it. - is standard input, cluster the cluster, git:REV or git:REV:PATH a revision in the
// current repository, and all else a file or directory. A file called cluster, or one whose name begins with git:, is ./cluster and
// ./git:... It does not check whether the source exists.
func ParseSource(s string) (Source, error) {
	rest, isGit := strings.CutPrefix(s, "git:")
	switch {
	case s == "":
		return Source{}, &Error{Msg: "empty source; " + sourceForms}
	case s == "-":
		return Source{Kind: Stdin, name: s}, nil
	case s == "cluster":
		return Source{Kind: Cluster, name: s}, nil
	case isGit:
		rev, path, _ := strings.Cut(rest, ":")
		if err := checkRevision(rev); err != nil {
			return Source{}, fileError(s, err, "%v", err)
		}
		src := Source{Kind: Git, Rev: rev, name: s}
		if path != "" {
			src.Paths = []string{path}
		}
		return src, nil
	}
	return Source{Kind: Path, Paths: []string{s}, name: s}, nil
}

// checkRevision refuses what git would take for an option, or for more than one revision. The error says what
// would be right.
func checkRevision(rev string) error {
	switch {
	case rev == "":
		return fmt.Errorf("%w: the revision is missing; write git:REV or git:REV:PATH", ErrUnknownRevision)
	case strings.HasPrefix(rev, "-"):
		return fmt.Errorf("%w: %q begins with a dash, which no revision does", ErrUnknownRevision, rev)
	case strings.ContainsAny(rev, "\x00\n\r"):
		return fmt.Errorf("%w: %q has a line break or a NUL in it", ErrUnknownRevision, rev)
	case strings.Contains(rev, ".."):
		return fmt.Errorf("%w: %q is a range; one revision is needed here", ErrUnknownRevision, rev)
	}
	return nil
}

// Options say how [Load] reads. The zero value reads relative to the process's directory, with the default limits and
// without standard input.
type Options struct {
	// Dir is the current directory; empty is the process's.
	Dir string
	// Stdin is standard input; nil is an error for a source of kind Stdin. If the context ends while a read from it
	// blocks, the read goes on in the background until it returns.
	Stdin io.Reader
	// MaxFileBytes and MaxTotalBytes bound one file and all files of the source; 0 is the default.
	MaxFileBytes, MaxTotalBytes int64
	// Objects asks for all objects, not only for definitions. Then a value that is not an object, or has no kind, is an error, and
	// a source without definitions is not.
	Objects bool
	// Mappings asks for all objects, and for mappings that have no kind.
	Mappings bool
	// Exclude are patterns, with the syntax of .dockerignore (github.com/moby/patternmatcher), of files and folders
	// that are left out where a directory is read. They are relative to the current directory.
	Exclude []string
	// PassTemplates skips files that cannot be read because they are templates of a Helm chart, and lists them in [Set.Templates].
	// Without it, such a file is an error. In the same way it skips patches of definitions for kustomize, and lists them in
	// [Set.Patches], and labels and annotations of definitions that are templates.
	PassTemplates bool
	// PassTests leaves out files in folders of tests, testdata and src/test, below the paths of the source, and lists those with definitions
	// in [Set.Tests].
	PassTests bool
	// KeepAll reads on where a comparison of two sources can tell whether a problem matters: definitions of one name with different content
	// are all kept, also equal ones, and files of directories that cannot be read are listed in [Set.Unread]. Without it, both are errors.
	KeepAll bool
}

// withDefaults fills in the limits, and that mappings are objects.
func (o Options) withDefaults() Options {
	o.Objects = o.Objects || o.Mappings
	if o.MaxFileBytes <= 0 {
		o.MaxFileBytes = DefaultMaxFileBytes
	}
	if o.MaxTotalBytes <= 0 {
		o.MaxTotalBytes = DefaultMaxTotalBytes
	}
	return o
}

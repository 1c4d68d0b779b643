// Package input reads CustomResourceDefinitions from the places that a user names: files, directories, standard input, a git
// revision.
//
// It promises that a set holds what kubectl would send to the API server: YAML as sigs.k8s.io/yaml reads it, JSON as the API server
// reads it. [Load] does not touch a work tree. Its result is bounded in size, depth and expansion, and its order does not depend on
// the file system. Input that cannot be read is an error of one line with its place. The package skips nothing silently except what
// [Set.Skipped] counts. It does not decide whether a definition is valid or its change safe, and it does not talk to a cluster: the
// caller reads a source of kind [Cluster].
package input

import (
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/report"
)

// The limits that hold where [Options] says nothing, and those that always hold.
const (
	// DefaultMaxFileBytes bounds one file.
	DefaultMaxFileBytes = 64 << 20
	// DefaultMaxTotalBytes bounds all files of one source.
	DefaultMaxTotalBytes = 512 << 20
	// maxDepth bounds the nesting of a document. Real CRDs stay below 100.
	maxDepth = 1000
	// maxNodes bounds the number of values in one document, and so the memory that it takes.
	maxNodes = 4_000_000
	// maxEntries bounds the number of directory entries looked at for one source.
	maxEntries = 200_000
	// maxLinks bounds how many symbolic links are followed to reach one file of a git revision.
	maxLinks = 40
	// maxListDepth bounds lists in lists.
	maxListDepth = 8
)

// extensions are those of the files that are read in a directory.
var extensions = []string{".yaml", ".yml", ".json"}

// Errors that a caller may distinguish with errors.Is.
var (
	// ErrNotFound says that a file or directory does not exist, or that a path is not in the git revision.
	ErrNotFound = errors.New("not found")
	// ErrNoCRD says that a source could be read but holds no CustomResourceDefinition.
	ErrNoCRD = errors.New("no CustomResourceDefinition")
	// ErrTooLarge says that a file, or a source as a whole, is over its limit.
	ErrTooLarge = errors.New("too large")
	// ErrCluster says that [Load] was given a source of kind [Cluster].
	ErrCluster = errors.New("the cluster is not read by this package")
	// ErrGitMissing says that there is no git program.
	ErrGitMissing = errors.New("git is not installed")
	// ErrNotRepository says that the current directory is in no git repository that git can use.
	ErrNotRepository = errors.New("no usable git repository")
	// ErrUnknownRevision says that git does not know the revision.
	ErrUnknownRevision = errors.New("unknown revision")
)

// Error is a problem and its place, in one line.
type Error struct {
	// Position is the place; its zero value means that there is none.
	Position report.Position
	// Msg describes the problem, without the place.
	Msg string
	// Err is one of the errors of this package, or what the system said; it may be nil, and is not part of the text.
	Err error
}

// Error implements error: FILE:LINE: MSG.
func (e *Error) Error() string { return e.Position.Tell(e.Msg) }

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// lineError is an error at a line of a text whose file is not known yet; 0 is no line.
func lineError(line int, msg string) *Error {
	return &Error{Position: report.Position{Line: line}, Msg: msg}
}

func fileError(file string, err error, format string, args ...any) *Error {
	return &Error{Position: report.Position{File: file}, Msg: fmt.Sprintf(format, args...), Err: err}
}

// Document is one CustomResourceDefinition and where it stands.
type Document struct {
	// File is the path by which the file was reached: below the path that the user gave, relative to the repository's root for a
	// git revision, and - for standard input.
	File string
	// Line is the first line of the definition, counted from 1.
	Line int
	// CRD is the definition. It is never nil and has a name. The JSON values in its schemas (defaults, enums, examples) are in the form in
	// which the API server stores them, whether the document is YAML or JSON.
	CRD *apiextensionsv1.CustomResourceDefinition
	// Positions finds the places of the parts of CRD. It is nil, Line 0 and Sum empty if helm rendered the definition.
	Positions *Positions
	// Key and Sum are those of the file.
	Key, Sum string
	// Kustomizations are the files of the kustomizations that include File, the nearest first.
	Kustomizations []string
	// Patched is set if patches of a kustomization changed CRD, and Templated if labels or annotations that are templates were left out. Renamed is
	// set if CRD has stand-ins for templates in its name or its group.
	Patched, Templated, Renamed bool
}

// Unread is a file that may have a definition and cannot be read.
type Unread struct {
	// Key is the file's place below the paths of the source: two sources that are compared have the same keys for the same files.
	Key string
	// Sum is the SHA-256 of the content in hexadecimal, or the file's name in git if there is no content. Empty is unknown.
	Sum string
	// Err says why, with the place.
	Err *Error
}

// Object is an object of any kind and where it stands.
type Object struct {
	// File and Line are those of [Document].
	File string
	Line int
	// JSON is the object as compact JSON with sorted keys, and numbers as storage has them. It has a kind unless [Options.Mappings] asks for others, too.
	JSON []byte
	// Positions finds the places of the parts of the object. It is never nil, and keeps the text of the document.
	Positions *Positions
	// Twice says that a key stands twice somewhere in the document; the last one counts. It is nil if none does.
	Twice *Error
}

// Warning is something that the API server would warn about, or that a reader should know.
type Warning struct {
	Position report.Position
	// CRD is the name of the definition.
	CRD string
	// Message is one sentence without a full stop.
	Message string
}

// Submodule is a folder that stands for a commit of another repository. Path is relative to the current directory if it is below it, and
// otherwise to the root of the repository.
type Submodule struct{ Path, Commit string }

// Remark is what a reader of a comparison should know about a file, such as what was not read.
type Remark struct {
	// File is the file, and Text a sentence about it without a full stop.
	File, Text string
	// Key is that of [Unread].
	Key string
	// IfChanged is set if it matters only where the other source does not have the same remark.
	IfChanged bool
}

// Unrendered is a template that helm did not render. Why says why, and what was done instead.
type Unrendered struct{ File, Why string }

// Set is the content of one source.
type Set struct {
	// Name is the source, as [Source.String] gives it.
	Name string
	// Documents are the definitions in the order of the files' paths, and within a file in the order of the text. No
	// two have the same name: of definitions that are equal the first is kept. With [Options.KeepAll] all are there.
	Documents []Document
	// Unread are the files that could not be read, with [Options.KeepAll].
	Unread []Unread
	// Skipped counts the documents of other kinds, by kind. Objects without a kind are counted under [NoKind], documents
	// that are no objects under [NoObject].
	Skipped map[string]int
	// Objects are all objects, definitions included, in the order of the files' paths and of the text; lists are taken
	// apart. It is nil unless [Options.Objects] asks for them, and then nothing is skipped.
	Objects []Object
	// Commit is the commit of a git revision that was read with [Options.Objects]; empty for other sources.
	Commit string
	// Warnings are in the order of the documents.
	Warnings []Warning
	// Files is the number of files that were read.
	Files int
	// Templates are the files that were passed over as [Options.PassTemplates] says, and Excluded is how many files
	// [Options.Exclude] left out.
	Templates []string
	Excluded  int
	// Tests are the files with definitions that [Options.PassTests] left out.
	Tests []string
	// Rendered are the templates that helm rendered, Unrendered those that it did not.
	Rendered   []string
	Unrendered []Unrendered
	// Submodules are those of a git revision, which are not read, or of a work tree that is compared with one. Missing are the paths that are
	// not in the revision, where [Source.Some] accepts that.
	Submodules []Submodule
	Missing    []string
	// Patches are the files with patches for kustomize that were passed over as [Options.PassTemplates] says, and Kustomizations those of
	// the kustomizations that were found.
	Patches, Kustomizations []string
	// Remarks are in the order in which they arose.
	Remarks []Remark
}

// Under these names [Set.Skipped] counts documents that have no kind of their own.
const (
	NoKind   = "(no kind)"
	NoObject = "(no object)"
	// Unreadable counts files that cannot be read, and have no definition.
	Unreadable = "(unreadable, no CRD)"
	// CRDPatch counts patches of definitions.
	CRDPatch = "patches of a CustomResourceDefinition"
)

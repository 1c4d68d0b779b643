package life

// What does an author write by hand? features.yaml: the component, the history of its features, the policy,
// and what is to be generated. Errors have the line, and all of them are reported at once.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/input"
	"sluice.dev/internal/limit"
	"sluice.dev/report"
)

// Kind is the kind of features.yaml; its apiVersion is that of package v1alpha1.
const Kind = "FeatureFile"

// maxFile bounds features.yaml.
const maxFile = 8 << 20

// File is features.yaml: the handwritten part of the features of a component. The other part is in markers.
type File struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Component is the name of the component, Spec the spec of its manifest.
	Component string                 `json:"component"`
	Spec      v1alpha1.ComponentSpec `json:"spec"`
	// Source says where the API is; empty if no feature gates a part of an API of this project.
	Source Source `json:"source,omitzero"`
	// Policy is the law of the component: kubernetes (if left out), tekton, cert-manager, or custom, which has Windows of its own.
	Policy string `json:"policy,omitempty"`
	// Windows are the times between an announcement and the change, by stage: Alpha, Beta, Stable. They replace those of the policy.
	Windows map[v1alpha1.Stage]Window `json:"windows,omitempty"`
	// Rules replace the severity of rules: fail, warn or ignore, by ID.
	Rules map[string]string `json:"rules,omitempty"`
	// Releases are the past releases with their days, oldest first.
	Releases []Release `json:"releases,omitempty"`
	// Output says which files are written, and where. A file that is not named is not written.
	Output Output `json:"output"`
	// Features are the definitions.
	Features []Entry `json:"features"`

	dir string
	at  *input.Positions
}

// Source says where the API is.
type Source struct {
	// Packages are Go packages, as the go command takes them, relative to the folder of features.yaml.
	Packages []string `json:"packages,omitempty"`
	// CRDs are files or folders with CRDs, for an API without Go types.
	CRDs []string `json:"crds,omitempty"`
}

// Output says which files are written. Paths are relative to the folder of features.yaml.
type Output struct {
	// Manifests is the file of the Component and its Features.
	Manifests string `json:"manifests,omitempty"`
	// Go is a file of Go, with constants and the declaration for package feature/gate. Its package is the name of its folder.
	Go string `json:"go,omitempty"`
	// Docs is a Markdown file. Template is the file of a text/template for it, which gets [Docs]; empty for the built-in one.
	Docs     string `json:"docs,omitempty"`
	Template string `json:"template,omitempty"`
	// CRDs are the CRDs, with stage and gate in the descriptions.
	CRDs []CRDOutput `json:"crds,omitempty"`
}

// CRDOutput is a file or a folder of CRDs.
type CRDOutput struct {
	// Path is a file. With a / at its end it is a folder, whose files have the names that controller-gen gives them.
	Path string `json:"path"`
	// Kinds are the kinds that are written there; empty stands for those that no other output has.
	Kinds []string `json:"kinds,omitempty"`

	// Channel and Gates leave features out; without them nothing is left out.
	Channel `json:",inline"`
}

// Entry is a feature. Its parts come from markers. Parts has those of an API without Go types, and conditions that no marker can
// express.
type Entry struct {
	v1alpha1.FeatureSpec `json:",inline"`

	// BehaviourOnly says that the feature gates no part of the API, so that no marker names it.
	BehaviourOnly bool `json:"behaviourOnly,omitempty"`
	// Announced has the release that announced a later change: of the default (Default), or the removal (Removed). A stage Deprecated
	// announces the removal as well.
	Announced map[string]string `json:"announced,omitempty"`
	// Documentation is the page of the feature.
	Documentation string `json:"documentation,omitempty"`
	// Tests name the tests with the feature on and off.
	Tests Tests `json:"tests,omitzero"`
	// UnknownValues says how other implementations of the API treat a value of the enum that they do not know.
	UnknownValues string `json:"unknownValues,omitempty"`
	// ReadBy are the processes that read the gated part. If there is only one, SafeSince is its first release to which the value does no
	// harm.
	ReadBy    []string `json:"readBy,omitempty"`
	SafeSince string   `json:"safeSince,omitempty"`
}

// Tests name tests.
type Tests struct {
	// The names are not on and off, which YAML reads as booleans.
	On  []string `json:"enabled,omitempty"`
	Off []string `json:"disabled,omitempty"`
}

// Release is a release of the component.
type Release struct {
	// Release is its version, Date its day in the form 2026-01-31.
	Release string `json:"release"`
	Date    string `json:"date"`
}

// Window is the time between the announcement of a change and the change: that many months and that many minor releases.
type Window struct {
	Months   int `json:"months,omitempty"`
	Releases int `json:"releases,omitempty"`
}

// Problem is an error at a place in a file.
type Problem struct {
	// File and Line are empty and 0 if the place is not known.
	File    string
	Line    int
	Message string
}

// Problems are all errors, sorted by place.
type Problems []Problem

// Error has a line for each problem: FILE:LINE: MESSAGE.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, x := range p {
		lines[i] = x.String()
	}
	return strings.Join(lines, "\n")
}

// String is the problem as compilers write it.
func (p Problem) String() string {
	return report.Position{File: p.File, Line: p.Line}.Tell(p.Message)
}

// addProblem adds a problem. The file is empty and the line 0 if the place is not known.
func (p *Problems) addProblem(file string, line int, format string, args ...any) {
	*p = append(*p, Problem{file, line, fmt.Sprintf(format, args...)})
}

// asError returns the problems sorted, without duplicates, or nil if there is none.
func (p Problems) asError() error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(p)
}

// Read reads features.yaml. The error lists all unknown fields, with their lines and the nearest names.
func Read(ctx context.Context, path string) (*File, error) {
	data, err := limit.ReadFile(path, maxFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; docs/features-life.md says what it holds", path)
	}
	if err != nil {
		return nil, err
	}
	return parseFile(ctx, path, data)
}

// parseFile reads the text of features.yaml, and checks what needs neither the API nor package feature. If the
// error is of type [Problems], the file is returned with it.
func parseFile(ctx context.Context, path string, data []byte) (*File, error) {
	set, err := input.DecodeObjects(ctx, path, data)
	if err != nil {
		return nil, err
	}
	file, err := fileIn(set, path)
	if err != nil {
		return nil, err
	}
	file.dir = filepath.Dir(path)
	var p Problems
	wrong := func(where, format string, args ...any) {
		p = append(p, file.problemAt(where, format, args...)...)
	}
	if want := v1alpha1.SchemeGroupVersion.String(); file.APIVersion != want {
		wrong("apiVersion", "the apiVersion is %q; %s is expected", file.APIVersion, want)
	}
	if file.Kind != Kind {
		wrong("kind", "the kind is %q; %s is expected", file.Kind, Kind)
	}
	if file.Component == "" {
		wrong("", "component is missing: the name of the component")
	}
	// Features without parts need markers, and generated CRDs need an API to come from.
	marked := slices.ContainsFunc(file.Features, func(e Entry) bool { return !e.BehaviourOnly && len(e.Parts) == 0 })
	if !file.hasSource() && (marked || len(file.Output.CRDs) > 0) {
		wrong("source", "source is missing: packages with Go types, or crds")
	}
	for i := range file.Features {
		if c := file.Features[i].Component; c != "" && c != file.Component {
			wrong(fmt.Sprintf("features[%d].component", i), "the component is %q; %s is expected, or nothing", c, file.Component)
		}
		for _, what := range sortedKeys(file.Features[i].Announced) {
			if changes := sortedKeys(announcements); announcements[what] == "" {
				wrong(fmt.Sprintf("features[%d].announced", i), "%q is no change that can be announced%s; the changes are %s", what, brief.Hint(what, changes), strings.Join(changes, ", "))
			}
		}
	}
	return file, p.asError()
}

// fileIn is the one features.yaml that a file holds.
func fileIn(set *input.Set, name string) (*File, error) {
	if len(set.Objects) != 1 {
		return nil, fmt.Errorf("%s holds %d objects; one of kind %s is expected", name, len(set.Objects), Kind)
	}
	f := &File{at: set.Objects[0].Positions}
	return f, set.Objects[0].Strict(f)
}

// hasSource reports whether there is an API to read. Without one, features gate behaviour, or parts of APIs of other projects.
func (f *File) hasSource() bool { return len(f.Source.Packages) > 0 || len(f.Source.CRDs) > 0 }

// entryOf returns the feature of a gate, or nil with a hint at the nearest name.
func (f *File) entryOf(gate string) (*Entry, string) {
	names := make([]string, len(f.Features))
	for i := range f.Features {
		if names[i] = f.Features[i].Gate; names[i] == gate {
			return &f.Features[i], ""
		}
	}
	return nil, brief.Hint(gate, names)
}

// placeOf finds a part of features.yaml.
func (f *File) placeOf(where string) (file string, line int) {
	at, _ := f.at.Find(input.Steps(where)...)
	return at.File, at.Line
}

// problemAt is a problem with a part of features.yaml.
func (f *File) problemAt(where, format string, args ...any) Problems {
	file, line := f.placeOf(where)
	return Problems{{file, line, fmt.Sprintf(format, args...)}}
}

// Template is output.template, relative to the working directory; empty if features.yaml has none.
func (f *File) Template() string { return f.optionalPath(f.Output.Template) }

// DocsFile is output.docs, relative to the working directory; empty if features.yaml has none.
func (f *File) DocsFile() string { return f.optionalPath(f.Output.Docs) }

// optionalPath is [File.resolvePath] for a path that may be left out.
func (f *File) optionalPath(p string) string {
	if p == "" {
		return ""
	}
	return f.resolvePath(p)
}

// resolvePath is a path of features.yaml, relative to the working directory.
func (f *File) resolvePath(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(f.dir, p)
}

// hasPage reports whether a page of documentation is there: a file, or an address that is not looked up.
func (f *File) hasPage(page string) bool {
	name, _, _ := strings.Cut(page, "#")
	if name == "" || strings.Contains(name, "://") {
		return true
	}
	_, err := os.Stat(f.resolvePath(name))
	return err == nil
}

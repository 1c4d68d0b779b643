package life

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
)

// Kind is that of features.yaml; its apiVersion is that of package v1alpha1.
const Kind = "FeatureFile"

// maxFile bounds features.yaml.
const maxFile = 8 << 20

// File is features.yaml: what people write of the features of a component. What markers say is not in it.
type File struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Component is the name of the component, Spec what its manifest says.
	Component string                 `json:"component"`
	Spec      v1alpha1.ComponentSpec `json:"spec"`
	// Source says where the API is; empty if no feature gates a part of an API that stands here.
	Source Source `json:"source,omitzero"`
	// Policy is the law of the component: kubernetes (if left out), tekton, cert-manager, or custom, which has Windows of its own.
	Policy string `json:"policy,omitempty"`
	// Windows are how long a change has to be announced, by stage: Alpha, Beta, Stable. They replace those of the policy.
	Windows map[v1alpha1.Stage]Window `json:"windows,omitempty"`
	// Rules replace the severity of rules: fail, warn or ignore, by ID.
	Rules map[string]string `json:"rules,omitempty"`
	// Releases are those that there have been, oldest first, with their days.
	Releases []Release `json:"releases,omitempty"`
	// Output says what is written, and where to. What is left out is not written.
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

// Output says what is written. Paths are relative to the folder of features.yaml.
type Output struct {
	// Manifests is the file of the Component and its Features.
	Manifests string `json:"manifests,omitempty"`
	// Go is a file of Go, with constants and the declaration for package feature/gate. Its package is the name of its folder.
	Go string `json:"go,omitempty"`
	// Docs is a file of Markdown. Template is the file of a text/template for it, which is filled in with [Docs]; empty for our own.
	Docs     string `json:"docs,omitempty"`
	Template string `json:"template,omitempty"`
	// CRDs are the CRDs, with stage and gate in the descriptions.
	CRDs []CRDOutput `json:"crds,omitempty"`
}

// CRDOutput is a file or a folder of CRDs.
type CRDOutput struct {
	// Path is a file; with a / at its end it is a folder, of files that are named as controller-gen does.
	Path string `json:"path"`
	// Kinds are those that go there; empty stands for those that go nowhere else.
	Kinds []string `json:"kinds,omitempty"`

	// Channel and Gates leave features out; without them nothing is left out.
	Channel `json:",inline"`
}

// Entry is a feature. Its parts come from markers; those of an API without Go types, and conditions that no marker can say,
// stand in Parts.
type Entry struct {
	v1alpha1.FeatureSpec `json:",inline"`

	// BehaviourOnly says that the feature gates no part of the API, so that no marker names it.
	BehaviourOnly bool `json:"behaviourOnly,omitempty"`
	// Announced says in which release a later change was announced: that of the default (Default), or the end (Removed). A
	// stage Deprecated announces the end as well.
	Announced map[string]string `json:"announced,omitempty"`
	// Documentation is where the feature is documented.
	Documentation string `json:"documentation,omitempty"`
	// Tests name the tests with the feature on and off.
	Tests Tests `json:"tests,omitzero"`
	// UnknownValues says what programs do with a value of the enum that they do not know, where others implement the API.
	UnknownValues string `json:"unknownValues,omitempty"`
	// ReadBy are the processes that read what is gated. If that is one only, SafeSince is the first release of it to which the value
	// does no harm.
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

// Window is how long a change has to be announced before it may happen: that many months and that many minor releases.
type Window struct {
	Months   int `json:"months,omitempty"`
	Releases int `json:"releases,omitempty"`
}

// Problem is something that is wrong at a place.
type Problem struct {
	// File and Line are empty and 0 where nothing is known.
	File    string
	Line    int
	Message string
}

// Problems are all that is wrong, sorted by place.
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
	switch {
	case p.File == "":
		return p.Message
	case p.Line == 0:
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

func (p *Problems) add(file string, line int, format string, args ...any) {
	*p = append(*p, Problem{file, line, fmt.Sprintf(format, args...)})
}

// err returns the problems sorted, without duplicates, or nil if there is none.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(p)
}

// Read reads features.yaml. The error tells all unknown fields at once, with their lines and the nearest names.
func Read(ctx context.Context, path string) (*File, error) {
	f, err := os.Open(path) //nolint:gosec // the file that the user names
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; docs/features-life.md says what it holds", path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	data, err := limit.ReadAll(f, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return parse(ctx, path, data)
}

func parse(ctx context.Context, path string, data []byte) (*File, error) {
	set, err := input.DecodeObjects(ctx, path, data)
	if err != nil {
		return nil, err
	}
	if len(set.Objects) != 1 {
		return nil, fmt.Errorf("%s holds %d objects; one of kind %s is expected", path, len(set.Objects), Kind)
	}
	o := &set.Objects[0]
	file := &File{dir: filepath.Dir(path), at: o.Positions}
	if err := o.Strict(file); err != nil {
		return nil, err
	}
	var p Problems
	wrong := func(where, format string, args ...any) {
		at, _ := o.Positions.Find(input.Steps(where)...)
		p.add(at.File, at.Line, format, args...)
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
	return file, p.err()
}

// hasSource reports whether there is an API to read. Without one, features gate behaviour, and parts of APIs that stand elsewhere.
func (f *File) hasSource() bool { return len(f.Source.Packages) > 0 || len(f.Source.CRDs) > 0 }

// entry returns the feature of a gate, or nil with a hint at the nearest name.
func (f *File) entry(gate string) (*Entry, string) {
	names := make([]string, len(f.Features))
	for i := range f.Features {
		if names[i] = f.Features[i].Gate; names[i] == gate {
			return &f.Features[i], ""
		}
	}
	return nil, brief.Hint(gate, names)
}

// place finds a part of features.yaml.
func (f *File) place(where string) (file string, line int) {
	at, _ := f.at.Find(input.Steps(where)...)
	return at.File, at.Line
}

// Template and DocsFile are output.template and output.docs as the working directory sees them; empty if features.yaml has none.
func (f *File) Template() string { return f.optional(f.Output.Template) }

// DocsFile is output.docs.
func (f *File) DocsFile() string { return f.optional(f.Output.Docs) }

func (f *File) optional(p string) string {
	if p == "" {
		return ""
	}
	return f.path(p)
}

// path is a path of features.yaml as the working directory sees it.
func (f *File) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(f.dir, p)
}

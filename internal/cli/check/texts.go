package check

// How do others than the command compare CRDs? The pages of sluice ui have two texts instead of files. Texts runs
// the same checker on them, and turns what the command would write to standard error into remarks. SourceText
// fetches the texts for the editors, from files, git or a cluster. The hashes of --print-hash are here as well.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/compat"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/cluster"
	"sluice.dev/internal/input"
	"sluice.dev/report"
)

// Texts compares CRDs that are given as text, as the command does with files, without a cluster.
type Texts struct {
	Env *command.Env
	// Configs are configuration files, as of --config.
	Configs []string
	// MaxBytes bounds a text.
	MaxBytes int64
}

// The names of the texts in reports.
const (
	oldText = "old"
	newText = "new"
)

// newChecker returns a checker, and what it writes to standard error.
func (t *Texts) newChecker() (*checker, *bytes.Buffer) {
	var notes bytes.Buffer
	e := *t.Env
	e.Err, e.ErrTTY = &notes, false
	return &checker{Env: &e, flags: &checkFlags{budget: compat.DefaultBudget, objectPages: cluster.DefaultPages, output: "html", configs: t.Configs}}, &notes
}

// CheckConfigs returns what is wrong with the configuration files. A server calls it at its start, so that a
// mistake does not show with the first comparison only.
func (t *Texts) CheckConfigs() error {
	c, _ := t.newChecker()
	_, err := c.loadConfig()
	return err
}

// Compare compares two texts; an empty one has no CRD. Positions of findings are lines of the files "old" and "new". The schemas of the CRDs are
// part of the report. What the command would write to standard error is among the remarks.
func (t *Texts) Compare(ctx context.Context, old, next string) (*report.Report, error) {
	c, notes := t.newChecker()
	cfg, err := c.loadConfig()
	if err != nil {
		return nil, err
	}
	if c.old, err = c.readText(ctx, oldText, old, t.MaxBytes); err != nil {
		return nil, err
	}
	if c.next, err = c.readText(ctx, newText, next, t.MaxBytes); err != nil {
		return nil, err
	}
	if c.kube == nil {
		_, c.kube = compat.KubeVersions()
	}
	c.remarkOnFiles()
	r, err := c.compareSides(ctx, cfg)
	if err != nil {
		return nil, err
	}
	// A page has no sources to name.
	r.Old, r.New = "", ""
	for i := range r.CRDs {
		for j := range r.CRDs[i].Findings {
			if p := r.CRDs[i].Findings[j].Position; p != nil {
				p.File = newText
				if r.CRDs[i].Verdict == report.IsRemoved {
					p.File = oldText
				}
			}
		}
	}
	// A page has no standard error, and what was left out must not be lost.
	for line := range strings.Lines(notes.String()) {
		r.Remarks = append(r.Remarks, strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "note: "), "."))
	}
	return r, nil
}

// readText reads one side. A text that is not there has no CRD; one that holds no CRD is an error. Errors have the
// name of the text in place of a file.
func (c *checker) readText(ctx context.Context, name, text string, most int64) (side, error) {
	if strings.TrimSpace(text) == "" {
		return side{name: "nothing", crds: map[string][]input.Document{}, files: true}, nil
	}
	s, err := c.readSide(ctx, input.Source{Kind: input.Stdin}, input.Options{Stdin: strings.NewReader(text), PassTemplates: true, MaxFileBytes: most, MaxTotalBytes: most})
	s.name = name
	if e, ok := errors.AsType[*input.Error](err); ok {
		e.Position.File = name
	}
	return s, err
}

// SourceText returns the CRDs of a source as YAML, of at most so many bytes: a file, a directory, git:REV[:PATH],
// cluster or cluster:NAME. flags say which cluster. Standard input is refused. A source that is larger is an error
// that says to name one CRD.
func SourceText(ctx context.Context, source string, flags *command.ClusterFlags, most int64) (string, error) {
	source = strings.TrimSpace(source)
	if source == "cluster" || strings.HasPrefix(source, "cluster:") {
		return clusterText(ctx, strings.TrimPrefix(strings.TrimPrefix(source, "cluster"), ":"), flags, most)
	}
	src, err := input.ParseSource(source)
	if err != nil {
		return "", err
	}
	if src.Kind == input.Stdin {
		return "", errors.New("the page has no standard input: name a file, a directory, git:REV[:PATH], cluster or cluster:NAME, or paste the CRD")
	}
	set, err := input.Load(ctx, src, input.Options{PassTemplates: true, MaxFileBytes: most, MaxTotalBytes: most})
	if err != nil {
		return "", err
	}
	return joinManifests(set.Documents, most)
}

// clusterText returns a CRD of the cluster as YAML, or all of them if the name is empty. A name that the cluster
// does not have is an error.
func clusterText(ctx context.Context, name string, flags *command.ClusterFlags, most int64) (string, error) {
	c, err := flags.Cluster()
	if err != nil {
		return "", err
	}
	var docs []input.Document
	if name != "" {
		crd, err := c.CRD(ctx, name)
		if err != nil {
			return "", err
		}
		if crd == nil {
			return "", fmt.Errorf("the cluster has no CRD %q", brief.Cut(name, 200))
		}
		return joinManifests([]input.Document{{CRD: crd}}, most)
	}
	crds, err := c.CRDs(ctx)
	for _, crd := range crds {
		docs = append(docs, input.Document{CRD: crd})
	}
	if err != nil {
		return "", err
	}
	return joinManifests(docs, most)
}

// joinManifests writes the definitions as one stream of YAML documents, as they stand in their files where that
// can be told. More than most bytes are an error.
func joinManifests(docs []input.Document, most int64) (string, error) {
	var b strings.Builder
	for i := range docs {
		text, err := docs[i].Manifest()
		if err != nil {
			return "", err
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.WriteString(text)
		if int64(b.Len()) > most {
			return "", fmt.Errorf("these CRDs are more than %d bytes: name one of them", most)
		}
	}
	return b.String(), nil
}

// printDigests prints a line for each CRD of the last source, by name, as sha256sum does: digest, two spaces,
// name. The digest is that of [compat.SpecDigest], which the guard compares with the annotation that lets a change
// pass.
//
//	0f3c...e1  gadgets.example.com
//	77ab...09  widgets.example.com
func (c *checker) printDigests(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("--print-hash: give the new CRDs as a file, a directory, -, git:REV or a remote source")
	}
	src, err := input.ParseSource(args[len(args)-1])
	if err != nil {
		return err
	}
	if src.Kind == input.Cluster {
		return errors.New("--print-hash: the hash that counts is that of the new CRDs; give them as a file, a directory, -, git:REV or a remote source")
	}
	set, err := c.loadSource(ctx, src, input.Options{Stdin: c.In})
	if err != nil {
		return err
	}
	docs := slices.Clone(set.Documents)
	slices.SortFunc(docs, func(a, b input.Document) int { return strings.Compare(a.CRD.Name, b.CRD.Name) })
	for _, d := range docs {
		digest, err := compat.SpecDigest(d.CRD)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.Out, "%s  %s\n", digest, d.CRD.Name)
	}
	return nil
}

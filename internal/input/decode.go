package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sluice.dev/report"
)

// Decode decodes the documents in data, which came from file, into a set that has the file's name as its own. Its errors
// are of type [*Error], or the context's. The set is returned with [ErrNoCRD] as well.
func Decode(ctx context.Context, file string, data []byte) (*Set, error) {
	return decode(ctx, newLoader(file), file, data)
}

// DecodeObjects is [Decode] for objects of all kinds, which it leaves in Set.Objects beside the definitions.
func DecodeObjects(ctx context.Context, file string, data []byte) (*Set, error) {
	l := newLoader(file)
	l.objects = true
	return decode(ctx, l, file, data)
}

func decode(ctx context.Context, l *loader, file string, data []byte) (*Set, error) {
	if err := l.file(ctx, file, data); err != nil {
		return nil, err
	}
	return l.finish()
}

// loader collects a set.
type loader struct {
	set *Set
	// byName has the index of each definition in set.Documents.
	byName map[string]int
	// objects tells that all objects are wanted.
	objects bool
}

func newLoader(name string) *loader {
	return &loader{set: &Set{Name: name, Skipped: map[string]int{}}, byName: map[string]int{}}
}

// finish gives the set, and an error if it is empty.
func (l *loader) finish() (*Set, error) {
	if len(l.set.Documents) > 0 || l.objects {
		return l.set, nil
	}
	if l.set.Files == 0 {
		return l.set, fileError(l.set.Name, ErrNoCRD, "no %s file is there", strings.Join(extensions, ", "))
	}
	if len(l.set.Skipped) == 0 {
		return l.set, fileError(l.set.Name, ErrNoCRD, "empty: no document in it, a CustomResourceDefinition is needed")
	}
	return l.set, fileError(l.set.Name, ErrNoCRD, "no CustomResourceDefinition in it, only %s", Counts(l.set.Skipped))
}

// Counts writes counts by kind in one line, sorted by kind: 1 Deployment, 2 Service.
func Counts(m map[string]int) string {
	var parts []string
	for k, n := range m {
		parts = append(parts, fmt.Sprintf("%d %s", n, k))
	}
	slices.SortFunc(parts, func(a, b string) int {
		_, a, _ = strings.Cut(a, " ")
		_, b, _ = strings.Cut(b, " ")
		return strings.Compare(a, b)
	})
	const most = 8
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("and %d other kinds", len(parts)-most))
	}
	return strings.Join(parts, ", ")
}

// file decodes one file.
func (l *loader) file(ctx context.Context, file string, data []byte) error {
	l.set.Files++
	text, plain, err := checkText(data)
	if err != nil {
		return located(file, err)
	}
	for _, c := range split(text, plain) {
		if err := ctx.Err(); err != nil {
			return err
		}
		start := c.content()
		if start < 0 {
			continue
		}
		if c.ignored { // k8s.io/apimachinery/pkg/util/yaml cuts at --- alone, and reads the first document of each part
			l.set.Warnings = append(l.set.Warnings, Warning{
				Position: report.Position{File: file, Line: c.line + strings.Count(c.text[:start], "\n")},
				Message:  "what stands behind a line ... is left out, as kubectl leaves it out; begin a document with ---",
			})
			continue
		}
		trees, err := parseChunk(ctx, c, start)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return located(file, template(c, err))
		}
		for i, t := range trees {
			d := &document{file: file, t: t, chunk: c, index: i}
			if err := l.object(d, 0, "", 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseChunk parses a chunk, whose content begins at offset start, with the first parser that takes it.
func parseChunk(ctx context.Context, c chunk, start int) ([]*tree, error) {
	if c.text[start] == '{' {
		if trees, ok := parseJSON(c.text, c.line); ok {
			return trees, nil
		}
	}
	if c.plain {
		if t := parseFast(c.text, c.line); t != nil {
			return []*tree{t}, nil
		}
	}
	t, err := parseLibrary(ctx, c.text, c.line)
	if err != nil {
		return nil, err
	}
	return []*tree{t}, nil
}

// located puts a place to an error of a parser.
func located(file string, err error) error {
	var syntax *syntaxError
	if !errors.As(err, &syntax) {
		return fileError(file, err, "%v", err)
	}
	return &Error{Position: report.Position{File: file, Line: syntax.line}, Msg: syntax.msg, Err: err}
}

// template says so where what could not be parsed is a template.
func template(c chunk, err error) error {
	var syntax *syntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	if i := strings.Index(c.text, "{{"); i >= 0 {
		return &syntaxError{
			line: c.line + lineAt(c.text, i) - 1,
			msg:  "is a template ({{), not YAML; render it first, for example with helm template, and check what comes out",
		}
	}
	return &syntaxError{line: syntax.line, msg: "broken YAML: " + syntax.msg}
}

// document is one parsed document: value index of a chunk.
type document struct {
	file  string
	t     *tree
	chunk chunk
	index int
	// whole finds places where t has none; nil until it is needed.
	whole *Positions
}

// positions makes the Positions of the object n.
func (d *document) positions(n int32) *Positions {
	return &Positions{file: d.file, chunk: d.chunk, index: d.index, base: d.t.steps(n)}
}

// place is where node n stands.
func (d *document) place(n int32) report.Position {
	if nd := d.t.nodes[n]; nd.line > 0 {
		return report.Position{File: d.file, Line: int(nd.line), Column: int(nd.col)}
	}
	if d.whole == nil {
		d.whole = d.positions(0)
	}
	pos, _ := d.whole.Find(d.t.steps(n)...)
	return pos
}

// object takes one object of a document: a definition, a list, or something to skip. kind is what to take it for if it
// does not say.
func (l *loader) object(d *document, n int32, kind string, depth int) error {
	if k := d.t.nodes[n].kind; k == kindNull {
		return nil
	} else if k != kindMap {
		if l.objects {
			return &Error{Position: d.place(n), Msg: "is " + k.words() + "; a Kubernetes object is wanted"}
		}
		l.set.Skipped[NoObject]++
		return nil
	}
	if k := d.t.text(d.t.child(n, "kind")); k != "" {
		kind = k
	}
	items := d.t.child(n, "items")
	switch {
	case kind == "" && l.objects:
		return &Error{Position: d.place(n), Msg: "an object without a kind"}
	case kind == "":
		l.set.Skipped[NoKind]++
	case kind == crdKind:
		if err := l.definition(d, n); err != nil {
			return err
		}
		l.keep(d, n)
	case strings.HasSuffix(kind, "List") && items != none && d.t.nodes[items].kind == kindList:
		return l.list(d, items, strings.TrimSuffix(kind, "List"), depth)
	case l.objects:
		l.keep(d, n)
	default:
		l.set.Skipped[kind]++
	}
	return nil
}

// keep adds an object to those of all kinds, if they are wanted.
func (l *loader) keep(d *document, n int32) {
	if !l.objects {
		return
	}
	r := renderer{t: d.t}
	r.value(n)
	o := Object{File: d.file, Line: d.place(n).Line, JSON: r.out, Positions: d.positions(n)}
	if twice := d.t.remark; twice != nil {
		o.Twice = &Error{Position: report.Position{File: d.file, Line: twice.line}, Msg: twice.msg, Err: twice}
	}
	l.set.Objects = append(l.set.Objects, o)
}

func (l *loader) list(d *document, items int32, kind string, depth int) error {
	if depth == maxListDepth {
		return &Error{Position: d.place(items), Msg: fmt.Sprintf("lists nested deeper than %d levels", maxListDepth)}
	}
	for c := d.t.nodes[items].first; c != none; c = d.t.nodes[c].next {
		if err := l.object(d, c, kind, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// definition decodes a CustomResourceDefinition and adds it to the set.
func (l *loader) definition(d *document, n int32) error {
	crd, err := decodeCRD(d.t, n)
	if err != nil {
		if value, ok := errors.AsType[*valueError](err); ok {
			return &Error{Position: d.place(value.node), Msg: value.msg, Err: err}
		}
		return err
	}
	doc := Document{File: d.file, Line: d.place(n).Line, CRD: crd.crd, Positions: d.positions(n)}
	if i, ok := l.byName[crd.crd.Name]; ok {
		earlier := l.set.Documents[i]
		if reflect.DeepEqual(earlier.CRD, crd.crd) {
			return nil
		}
		return &Error{
			Position: report.Position{File: doc.File, Line: doc.Line},
			Msg: fmt.Sprintf("CustomResourceDefinition %s stands here and, with other content, at %s:%d; one source may have it once",
				crd.crd.Name, earlier.File, earlier.Line),
		}
	}
	l.byName[crd.crd.Name] = len(l.set.Documents)
	l.set.Documents = append(l.set.Documents, doc)
	first := len(l.set.Warnings)
	if r := d.t.remark; r != nil {
		l.set.Warnings = append(l.set.Warnings, Warning{
			Position: report.Position{File: d.file, Line: r.line}, CRD: crd.crd.Name, Message: r.msg + "; the last one counts",
		})
	}
	for _, w := range crd.warnings {
		l.set.Warnings = append(l.set.Warnings, Warning{Position: d.place(w.node), CRD: crd.crd.Name, Message: w.msg})
	}
	slices.SortStableFunc(l.set.Warnings[first:], func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
	return nil
}

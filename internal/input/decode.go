package input

// What does a text hold? It is split into documents, each document becomes a value, and each value a definition,
// an object, or something to skip. A List is taken apart into its items. So one file may give many definitions,
// each with the line on which it stands.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/report"
)

// Decode decodes the documents in data, which came from file, into a set that has the file's name as its own. Its errors
// are of type [*Error], or the context's. The set is returned with [ErrNoCRD] as well.
func Decode(ctx context.Context, file string, data []byte) (*Set, error) {
	return decodeFile(ctx, file, data, Options{})
}

// DecodeObjects is [Decode] for objects of all kinds, which it leaves in Set.Objects beside the definitions.
func DecodeObjects(ctx context.Context, file string, data []byte) (*Set, error) {
	return decodeFile(ctx, file, data, Options{Objects: true})
}

// DecodeMappings is [DecodeObjects] for mappings without a kind, too.
func DecodeMappings(ctx context.Context, file string, data []byte) (*Set, error) {
	return decodeFile(ctx, file, data, Options{Mappings: true})
}

// decodeFile decodes one text with the options that matter without files: which objects are wanted.
func decodeFile(ctx context.Context, file string, data []byte, o Options) (*Set, error) {
	l := newLoader(file, o)
	if err := l.addFile(ctx, file, data); err != nil {
		return nil, err
	}
	return l.finishSet()
}

// loader collects a set.
type loader struct {
	set *Set
	// byName has the index of each definition in set.Documents.
	byName map[string]int
	opts   Options
	// passPatches tells that patches are skipped in the file that is read.
	passPatches bool
	// key and sum are those of the file that is read, see [Unread], and blob is its name in git.
	key, sum, blob string
}

func newLoader(name string, o Options) *loader {
	return &loader{set: &Set{Name: name, Skipped: map[string]int{}}, byName: map[string]int{}, opts: o.withDefaults()}
}

// finishSet returns the set, and an error if it is empty.
func (l *loader) finishSet() (*Set, error) {
	if len(l.set.Documents) > 0 || l.opts.Objects {
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

// Counts writes counts by kind in one line, sorted by kind: 1 Deployment, 2 Service. At most eight kinds are
// named.
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

// addFile decodes one file. The first error ends it, with what was read before still in the set.
func (l *loader) addFile(ctx context.Context, file string, data []byte) error {
	l.set.Files++
	text, err := checkText(data)
	if err != nil {
		return errorAt(file, err)
	}
	for _, c := range splitStream(text) {
		if err := ctx.Err(); err != nil {
			return err
		}
		start := contentOffset(c.text)
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
		docs, values, err := parseChunk(ctx, file, c, start)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return errorAt(file, asTemplateError(c, err))
		}
		for i, v := range values {
			if err := l.readObject(&place{doc: docs[i], twice: v.twice, value: v.v}, "", 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseChunk parses a chunk, whose content begins at offset start, as kubectl does: a run of JSON values, or one YAML document.
func parseChunk(ctx context.Context, file string, c chunk, start int) ([]*document, []value, error) {
	if c.text[start] == '{' {
		values, offsets, err := parseJSON(c.text, c.line)
		if err != nil {
			return nil, nil, err
		}
		if values != nil {
			docs := make([]*document, len(values))
			for i, at := range offsets {
				end := len(c.text)
				if i+1 < len(offsets) {
					end = offsets[i+1]
				}
				before := c.text[:at]
				column := at - strings.LastIndexByte(before, '\n') - 1
				docs[i] = &document{file: file, text: strings.Repeat(" ", column) + c.text[at:end], line: c.line + strings.Count(before, "\n")}
			}
			return docs, values, nil
		}
	}
	v, err := parseYAML(ctx, c.text, c.line)
	if err != nil {
		return nil, nil, err
	}
	return []*document{{file: file, text: c.text, line: c.line}}, []value{v}, nil
}

// errorAt puts the file to an error of a parser.
func errorAt(file string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Position.File = file
		return e
	}
	return fileError(file, err, "%v", err)
}

// asTemplateError says so where what could not be parsed is a template.
func asTemplateError(c chunk, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	if i := strings.Index(c.text, "{{"); i >= 0 {
		e = lineError(c.line+lineAt(c.text, i)-1, "is a template ({{), not YAML; render it first, for example with helm template, and check what comes out")
		e.Err = errTemplate
		return e
	}
	e.Msg = "broken YAML: " + e.Msg
	return e
}

// place is one object on its way into a set: its value, and where in its document it stands.
type place struct {
	doc   *document
	path  []string
	twice *Error
	value any
}

// positionAt returns the position of the part of the object that path leads to.
func (p *place) positionAt(path ...string) report.Position {
	pos, _ := p.doc.findPosition(append(slices.Clip(p.path), path...))
	return pos
}

// readObject reads one object of a document: a definition, a list, or something to skip. kind is its kind if it does not name one.
func (l *loader) readObject(p *place, kind string, depth int) error {
	if p.value == nil {
		return nil
	}
	object, ok := p.value.(map[string]any)
	if !ok {
		if l.opts.Objects {
			return &Error{Position: p.positionAt(), Msg: "is " + kindOf(p.value) + l.wantedText()}
		}
		l.set.Skipped[NoObject]++
		return nil
	}
	if k, _ := object["kind"].(string); k != "" {
		kind = k
	}
	items, isList := object["items"].([]any)
	switch {
	case kind == "" && l.opts.Objects && !l.opts.Mappings:
		return &Error{Position: p.positionAt(), Msg: "an object without a kind"}
	case kind == crdKind && l.passPatches && isPatch(object):
		l.set.Skipped[CRDPatch]++
		if object["spec"] != nil && !slices.Contains(l.set.Patches, p.doc.file) { // labels and annotations change no schema
			l.set.Patches = append(l.set.Patches, p.doc.file)
		}
	case kind == crdKind:
		if err := l.addDefinition(p, object); err != nil {
			return err
		}
		return l.keepObject(p)
	case strings.HasSuffix(kind, "List") && isList:
		version, _ := object["apiVersion"].(string)
		return l.readList(p, items, version, strings.TrimSuffix(kind, "List"), depth)
	case l.opts.Objects:
		return l.keepObject(p)
	default:
		l.set.Skipped[cmp.Or(kind, NoKind)]++
	}
	return nil
}

// wantedText says what a document has to be.
func (l *loader) wantedText() string {
	if l.opts.Mappings {
		return "; a mapping of keys to values is wanted, or a Kubernetes object"
	}
	return "; a Kubernetes object is wanted"
}

// isPatch reports whether a definition has none of the fields that each definition must have: it changes another one when
// kustomize builds.
func isPatch(object map[string]any) bool {
	spec, _ := object["spec"].(map[string]any)
	return spec["group"] == nil && spec["names"] == nil && spec["versions"] == nil
}

// keepObject adds an object to those of all kinds, if they are wanted.
func (l *loader) keepObject(p *place) error {
	if !l.opts.Objects {
		return nil
	}
	data, err := json.Marshal(p.value)
	if err != nil {
		return &Error{Position: p.positionAt(), Msg: err.Error(), Err: err}
	}
	o := Object{File: p.doc.file, Line: p.positionAt().Line, JSON: data, Positions: &Positions{p.doc, p.path}}
	if p.twice != nil {
		o.Twice = lineError(p.twice.Position.Line, p.twice.Msg)
		o.Twice.Position.File = p.doc.file
	}
	l.set.Objects = append(l.set.Objects, o)
	return nil
}

// readList reads the items of a list. An item that names neither its kind nor its version has those that the list
// says, as for kubectl. The depth bounds lists in lists.
func (l *loader) readList(p *place, items []any, version, kind string, depth int) error {
	if depth == maxListDepth {
		return &Error{Position: p.positionAt("items"), Msg: fmt.Sprintf("lists nested deeper than %d levels", maxListDepth)}
	}
	for i, v := range items {
		if object, ok := v.(map[string]any); ok && l.opts.Objects && kind != "" && version != "" && object["kind"] == nil && object["apiVersion"] == nil {
			object = maps.Clone(object)
			object["kind"], object["apiVersion"] = kind, version
			v = object
		}
		item := &place{doc: p.doc, path: append(slices.Clip(p.path), "items", strconv.Itoa(i)), twice: p.twice, value: v}
		if err := l.readObject(item, kind, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// addDefinition decodes a CustomResourceDefinition and adds it to the set. The same definition twice counts once.
// With other content, it is an error with both places, unless [Options.KeepAll] keeps those of different files.
// Unknown fields and keys that stand twice are warnings.
func (l *loader) addDefinition(p *place, object map[string]any) error {
	crd, unknown, err := decodeCRD(object)
	if err != nil {
		if value, ok := errors.AsType[*valueError](err); ok {
			return &Error{Position: p.positionAt(value.path...), Msg: value.msg, Err: err}
		}
		return err
	}
	templated := l.opts.PassTemplates && dropTemplates(crd)
	renamed := l.opts.PassTemplates && fillTemplates(crd)
	doc := Document{File: p.doc.file, Line: p.positionAt().Line, CRD: crd, Templated: templated, Renamed: renamed, Positions: &Positions{p.doc, p.path}, Key: l.key, Sum: l.sum}
	if i, ok := l.byName[crd.Name]; ok && (!l.opts.KeepAll || l.set.Documents[i].File == doc.File) {
		earlier := l.set.Documents[i]
		if reflect.DeepEqual(earlier.CRD, crd) {
			return nil
		}
		return &Error{
			Position: report.Position{File: doc.File, Line: doc.Line},
			Msg: fmt.Sprintf("CustomResourceDefinition %s is here and, with other content, at %s:%d; a source can have it only once: name the files to check, or leave one out with --exclude",
				crd.Name, earlier.File, earlier.Line),
		}
	}
	l.byName[crd.Name] = len(l.set.Documents)
	l.set.Documents = append(l.set.Documents, doc)
	first := len(l.set.Warnings)
	if p.twice != nil {
		l.set.Warnings = append(l.set.Warnings, Warning{
			Position: report.Position{File: p.doc.file, Line: p.twice.Position.Line}, CRD: crd.Name, Message: p.twice.Msg + "; the last one counts",
		})
	}
	for _, u := range unknown {
		l.set.Warnings = append(l.set.Warnings, Warning{
			Position: p.positionAt(u.path...), CRD: crd.Name, Message: fmt.Sprintf("unknown field %s is ignored", pathText(u.path)),
		})
	}
	slices.SortStableFunc(l.set.Warnings[first:], func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
	return nil
}

// dropTemplates leaves out labels and annotations that are templates, such as '{{ .Release.Name }}'. In quotes they are YAML, but the API
// server never sees them: Helm replaces them, and they change no schema.
func dropTemplates(crd *apiextensionsv1.CustomResourceDefinition) bool {
	dropped := false
	for _, m := range []map[string]string{crd.Labels, crd.Annotations} {
		before := len(m)
		maps.DeleteFunc(m, func(key, value string) bool { return strings.Contains(key, "{{") || strings.Contains(value, "{{") })
		dropped = dropped || len(m) < before
	}
	return dropped
}

// templateText matches a template in a text.
var templateText = regexp.MustCompile(`\{\{.*?\}\}`)

// fillTemplates replaces templates in the name and the group of a definition, such as '{{ .Values.group }}', by the words in them: values-group. So
// the rest can be compared. The name and the group say the same, so either takes the other's text if that is no template. It reports whether there was one.
func fillTemplates(crd *apiextensionsv1.CustomResourceDefinition) bool {
	isTemplate := func(s string) bool { return strings.Contains(s, "{{") }
	names := &crd.Spec.Names
	filled := false
	for _, s := range []*string{&names.Plural, &names.Singular, &names.Kind, &names.ListKind} {
		if isTemplate(*s) {
			*s, filled = standIn(*s), true
		}
	}
	if isTemplate(crd.Spec.Group) {
		group, ok := strings.CutPrefix(crd.Name, names.Plural+".")
		if !ok || isTemplate(group) {
			group = standIn(crd.Spec.Group)
		}
		crd.Spec.Group, filled = group, true
	}
	if isTemplate(crd.Name) {
		crd.Name, filled = names.Plural+"."+crd.Spec.Group, true
	}
	return filled
}

// standIn replaces each template in a text by the words in it.
func standIn(text string) string {
	return templateText.ReplaceAllStringFunc(text, func(template string) string {
		words := strings.FieldsFunc(strings.ToLower(template), func(r rune) bool { return (r < 'a' || 'z' < r) && (r < '0' || '9' < r) })
		return cmp.Or(strings.Join(words, "-"), "template")
	})
}

package compat

// What did the author change, field by field? Pages show both schemas as one tree, with each keyword that
// differs. For example, a description is no change here, and a new pattern is one whether or not it refuses
// anything.

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// maxTreeDepth is how deep [SchemaTrees] looks; what is below counts as the same.
// Pages indent each level, and nobody reads a hundred of them.
const maxTreeDepth = 100

// SchemaTrees returns the schemas of the versions of two CRDs side by side, in the order of new, then those that are gone. Either CRD may be
// nil. It compares words, not meanings: texts for people do not count, and whether a change does harm is for [Check] to say.
// It is for pages that show a change as people wrote it, field by field.
func SchemaTrees(old, new *apiextensionsv1.CustomResourceDefinition) []report.SchemaTree {
	var trees []report.SchemaTree
	before := schemasByVersion(old)
	add := func(version string, from, to *apiextensionsv1.JSONSchemaProps) {
		if from != nil || to != nil {
			trees = append(trees, report.SchemaTree{Version: version, Root: compareNode(from, to, nil, "")})
		}
	}
	if new != nil {
		for i := range new.Spec.Versions {
			name := new.Spec.Versions[i].Name
			add(name, before[name], schemaProps(&new.Spec.Versions[i]))
			delete(before, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		add(name, before[name], nil)
	}
	return trees
}

// schemasByVersion has the schemas of a CRD by the names of its versions. It is empty for a nil CRD; the schema of a
// version without one is nil.
func schemasByVersion(crd *apiextensionsv1.CustomResourceDefinition) map[string]*apiextensionsv1.JSONSchemaProps {
	schemas := map[string]*apiextensionsv1.JSONSchemaProps{}
	if crd != nil {
		for i := range crd.Spec.Versions {
			schemas[crd.Spec.Versions[i].Name] = schemaProps(&crd.Spec.Versions[i])
		}
	}
	return schemas
}

// compareNode compares two schemas at a path; one of them may be nil.
// A part that only one side has is added or removed with all below it, and counts as one change in the parts around
// it. Children are in the order of kinds and names.
func compareNode(old, new *apiextensionsv1.JSONSchemaProps, path contain.Path, name string) *report.SchemaNode {
	n := &report.SchemaNode{Name: name, Path: path.String()}
	was, is := ownKeywords(old), ownKeywords(new)
	switch {
	case old == nil:
		n.Change, n.Type = report.FieldAdded, typeText(new)
	case new == nil:
		n.Change, n.Type = report.FieldRemoved, typeText(old)
	default:
		n.Type = typeText(new)
		if !reflect.DeepEqual(was, is) {
			n.Keywords = changedKeywords(was, is)
		}
		if n.Keywords != nil {
			n.Change = report.FieldChanged
		}
	}
	if len(path) == maxTreeDepth {
		return n
	}
	below, after := fieldsBelow(old), fieldsBelow(new)
	var steps []contain.Step
	for step := range below {
		steps = append(steps, step)
	}
	for step := range after {
		if below[step] == nil {
			steps = append(steps, step)
		}
	}
	slices.SortFunc(steps, func(a, b contain.Step) int {
		if a.Kind != b.Kind {
			return int(a.Kind) - int(b.Kind)
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, step := range steps {
		here := append(slices.Clip(path), step)
		child := compareNode(below[step], after[step], here, nameOfStep(step))
		n.Children = append(n.Children, child)
		switch {
		case n.Change == report.FieldAdded || n.Change == report.FieldRemoved: // the whole part counts once
		case child.Change != "":
			n.Changes += 1 + child.Changes
		default:
			n.Changes += child.Changes
		}
	}
	return n
}

// nameOfStep is the name of a node for people: a field, or the sign for items and values of [report.SchemaNode].
func nameOfStep(s contain.Step) string {
	switch s.Kind {
	case contain.AnyItem:
		return "[*]"
	case contain.AnyKey:
		return "*"
	case contain.Field:
	}
	return s.Name
}

// fieldsBelow returns the schemas of the fields directly below p, which may be nil.
func fieldsBelow(p *apiextensionsv1.JSONSchemaProps) map[contain.Step]*apiextensionsv1.JSONSchemaProps {
	if p == nil {
		return nil
	}
	return maps.Collect(childSchemas(p))
}

// ownKeywords is a copy of p without the fields below it and without texts for people; nil if p is.
func ownKeywords(p *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if p == nil {
		return nil
	}
	own := *p
	own.Properties, own.Description, own.Title, own.Example, own.ExternalDocs = nil, "", "", nil, nil
	if own.Items != nil && own.Items.Schema != nil {
		own.Items = nil
	}
	if own.AdditionalProperties != nil && own.AdditionalProperties.Schema != nil {
		own.AdditionalProperties = nil
	}
	return &own
}

// changedKeywords lists the keywords that differ, sorted by name.
// It compares JSON texts: keywords that are written differently and mean the same, such as the order of required, are
// told too.
func changedKeywords(old, new *apiextensionsv1.JSONSchemaProps) []report.KeywordChange {
	was, is := keywordValues(old), keywordValues(new)
	names := slices.Collect(maps.Keys(was))
	for name := range is {
		if _, ok := was[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var changes []report.KeywordChange
	for _, name := range names {
		if before, after := string(was[name]), string(is[name]); before != after {
			changes = append(changes, report.KeywordChange{Keyword: name, Before: before, After: after})
		}
	}
	return changes
}

// keywordValues returns the keywords of a schema as JSON; empty if it cannot be written, as with a default that is no JSON.
func keywordValues(p *apiextensionsv1.JSONSchemaProps) map[string]json.RawMessage {
	values := map[string]json.RawMessage{}
	if raw, err := json.Marshal(p); err == nil {
		_ = json.Unmarshal(raw, &values)
	}
	return values
}

// typeText describes the type of a value in one or two words; it is empty for a schema that names no type.
func typeText(p *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case p.XIntOrString:
		return "integer or string"
	case p.Format != "" && p.Type != "":
		return p.Type + " (" + p.Format + ")"
	case p.Type == "" && p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields:
		return "anything"
	}
	return p.Type
}

package life

// Which markers are there, and how does a tag find the way through controller-tools? Each marker has a number, which
// is written into the keyword id of the schema that it marks. CRDs do not use this keyword otherwise. In the end the
// numbers are removed from there.

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/markers"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/schema"
)

// The markers.
const (
	// markFeature gates a field, every field of a type, a value of an enum, or a version: +sluice:feature=TasksTimeout.
	markFeature = "sluice:feature"
	// markItems gates the items of an array or the values of a map: +sluice:feature:items=StepWorkspaces.
	markItems = "sluice:feature:items"
	// markValues gates values of a field: +sluice:feature:values:name=Markdown,values=Markdown;AsciiDoc.
	markValues = "sluice:feature:values"
	// markPattern gates what a pattern finds in a string: +sluice:feature:pattern:name=WindowsScripts,pattern="^#!win".
	markPattern = "sluice:feature:pattern"
	// markBeyond gates values outside of bounds: +sluice:feature:beyond:name=Large,maximum=10.
	markBeyond = "sluice:feature:beyond"
	// markLoosen removes keywords from the schema of a field with a foreign type: +sluice:loosen=pattern;maxLength.
	markLoosen = "sluice:loosen"
	// markEnabled and markDisabled apply another marker only in CRDs with the feature, or without it:
	// +sluice:ifDisabled:name=Large,marker="kubebuilder:validation:Maximum=10".
	markEnabled  = "sluice:ifEnabled"
	markDisabled = "sluice:ifDisabled"
)

// markNames are those that stand at types and fields.
var markNames = []string{markFeature, markItems, markValues, markPattern, markBeyond, markLoosen, markEnabled, markDisabled}

// markerPrefix begins the markers of this package, and of no other tool.
const markerPrefix = "+sluice:"

// valuesMarker and the other types are the contents of the markers with these names.
type (
	valuesMarker struct {
		Name   string
		Values []string
	}
	patternMarker struct {
		Name    string
		Pattern string
	}
	beyondMarker struct {
		Name                                  string
		Minimum, Maximum, MaxLength, MaxItems *int     `marker:",optional"`
		Values                                []string `marker:",optional"`
		Pattern                               string   `marker:",optional"`
	}
	conditionMarker struct {
		Name   string
		Marker string
	}
)

// registerMarkers adds the markers to those of controller-tools.
func registerMarkers(r *markers.Registry) error {
	if err := crdmarkers.Register(r); err != nil {
		return err
	}
	onTypes := []markers.TargetType{markers.DescribesType, markers.DescribesField}
	for _, m := range []struct {
		name    string
		value   any
		targets []markers.TargetType
	}{
		{markFeature, "", append([]markers.TargetType{markers.DescribesPackage}, onTypes...)},
		{markItems, "", onTypes},
		{markValues, valuesMarker{}, onTypes},
		{markPattern, patternMarker{}, onTypes},
		{markBeyond, beyondMarker{}, onTypes},
		{markLoosen, []string(nil), onTypes[1:]},
		{markEnabled, conditionMarker{}, onTypes},
		{markDisabled, conditionMarker{}, onTypes},
	} {
		for _, target := range m.targets {
			if err := r.Define(m.name, target, m.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrongValues says what is wrong with the values of a marker; empty for nothing. The parser of controller-tools takes null for the text null, an empty
// value for the text "", and a list without values for none, so that the whole field would be gated.
func wrongValues(name, text string, marker any) string {
	var values []string
	switch v := marker.(type) {
	case valuesMarker:
		values = v.Values
	case beyondMarker:
		values = v.Values
	default:
		return ""
	}
	if len(values) == 0 && (name == markValues || strings.Contains(text, "values=")) {
		return "values is empty: name the values, such as values=A;B"
	}
	for _, v := range values {
		switch quoted := strings.Contains(text, strconv.Quote(v)) || strings.Contains(text, "`"+v+"`"); {
		case quoted, text == "": // without its text, nobody knows
		case v == "null":
			return `null is no value of a field; if it is a text, write "null", in quotes`
		case v == "" || v[0] == ';' || v[0] == ',':
			return `a value is empty, or has a space before it: take the space away, and write "" for an empty text`
		}
	}
	return ""
}

// mark is a marker of this package at its place.
type mark struct {
	gate    string
	items   bool
	values  []string
	pattern string
	beyond  *v1alpha1.Bounds
	loosen  []string // keywords; nil for the marks that gate
	// marker applies only in CRDs with the feature (enabled), or without it; empty for the marks that gate.
	marker  string
	enabled bool
	apply   schemaMarker

	file string
	line int
}

// newMark makes a mark from the content of a marker.
func newMark(name string, value any) mark {
	switch v := value.(type) {
	case valuesMarker:
		return mark{gate: v.Name, values: v.Values}
	case patternMarker:
		return mark{gate: v.Name, pattern: v.Pattern}
	case beyondMarker:
		return mark{gate: v.Name, beyond: v.asBounds()}
	case conditionMarker:
		return mark{gate: v.Name, marker: v.Marker, enabled: name == markEnabled}
	case []string:
		return mark{loosen: v}
	case string:
		return mark{gate: v, items: name == markItems}
	}
	return mark{}
}

// asBounds returns the bounds of a marker, whose numbers controller-tools reads as int.
func (m *beyondMarker) asBounds() *v1alpha1.Bounds {
	wide := func(n *int) *int64 {
		if n == nil {
			return nil
		}
		return new(int64(*n))
	}
	return &v1alpha1.Bounds{
		Minimum: wide(m.Minimum), Maximum: wide(m.Maximum), MaxLength: wide(m.MaxLength), MaxItems: wide(m.MaxItems), Values: m.Values, Pattern: m.Pattern,
	}
}

// schemaMarker is a marker that changes a schema.
type schemaMarker interface {
	ApplyToSchema(ctx *crdmarkers.SchemaContext, s *apiextensionsv1.JSONSchemaProps) error
}

// tag is a mark on its way through controller-tools. It writes its number into the keyword id of the schema that has the marker, so
// that the mark can be found wherever that schema is used. CRDs do not use the keyword id otherwise. It is removed afterwards.
type tag int

const (
	tagsKey   = "sluice:tag"
	tagPrefix = "sluice-marks"
)

// ApplyToSchema implements the interface that controller-tools has for markers of schemas.
func (t tag) ApplyToSchema(_ *crdmarkers.SchemaContext, s *apiextensionsv1.JSONSchemaProps) error {
	s.ID = cmp.Or(s.ID, tagPrefix)
	s.ID += ";" + strconv.Itoa(int(t))
	return nil
}

// itemsTag is a tag of the items of an array or the values of a map.
type itemsTag tag

// ApplyToSchema implements the interface that controller-tools has for markers of schemas.
func (t itemsTag) ApplyToSchema(ctx *crdmarkers.SchemaContext, s *apiextensionsv1.JSONSchemaProps) error {
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		return tag(t).ApplyToSchema(ctx, s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return tag(t).ApplyToSchema(ctx, s.AdditionalProperties.Schema)
	}
	return errors.New("+" + markItems + " stands at what is no array and no map that is written out here: mark the type of the items")
}

// use is a part of an API that a mark gates.
type use struct {
	mark int
	part v1alpha1.Part
}

// condition is a place in a CRD with a marker that applies only in some channels.
type condition struct {
	mark         int
	crd, version string
	path         feature.Path
}

// withConditionalMarkers returns a CRD with the markers that apply if some features are left out.
func withConditionalMarkers(crd *apiextensionsv1.CustomResourceDefinition, api *goAPI, closed []string) (*apiextensionsv1.CustomResourceDefinition, error) {
	out := schema.CopyCRD(crd)
	for _, c := range api.conditions {
		m := &api.marks[c.mark]
		if c.crd != crd.Name || m.enabled == slices.Contains(closed, m.gate) || m.apply == nil {
			continue
		}
		for i := range out.Spec.Versions {
			if v := &out.Spec.Versions[i]; v.Name == c.version {
				var err error
				withSchemaAt(v.Schema.OpenAPIV3Schema, c.path, func(s *apiextensionsv1.JSONSchemaProps) { err = m.apply.ApplyToSchema(&crdmarkers.SchemaContext{}, s) })
				if err != nil {
					return nil, Problems{{m.file, m.line, fmt.Sprintf("+%s: %s", m.marker, err)}}
				}
			}
		}
	}
	return out, nil
}

// takeTags removes the tags from a schema and returns the parts that they gate.
func takeTags(crd *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion, marks []mark) (out []use, conditions []condition) {
	if version.Schema == nil {
		return nil, nil
	}
	walkSchema(version.Schema.OpenAPIV3Schema, nil, func(path feature.Path, s *apiextensionsv1.JSONSchemaProps) bool {
		numbers := tagsOf(s)
		// If a field and its type have tags, controller-tools keeps both below allOf.
		s.AllOf = slices.DeleteFunc(s.AllOf, func(a apiextensionsv1.JSONSchemaProps) bool {
			more := tagsOf(&a)
			numbers = append(numbers, more...)
			return more != nil && reflect.DeepEqual(a, apiextensionsv1.JSONSchemaProps{})
		})
		// Those that stay say more than a tag, and still have it: DeleteFunc shows copies.
		for i := range s.AllOf {
			tagsOf(&s.AllOf[i])
		}
		if len(s.AllOf) == 0 {
			s.AllOf = nil
		}
		for _, n := range numbers {
			m := &marks[n]
			if m.loosen != nil {
				removeKeywords(s, m.loosen)
				continue
			}
			if m.marker != "" {
				conditions = append(conditions, condition{n, crd.Name, version.Name, path})
				continue
			}
			p := v1alpha1.Part{
				Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural, Versions: []string{version.Name},
				Field: path.String(), Values: m.values, Pattern: m.pattern, Beyond: m.beyond,
			}
			if len(path) == 0 {
				p.WholeVersion = true
			}
			out = append(out, use{n, p})
		}
		return true
	})
	return out, conditions
}

// loosenable are the keywords that [markLoosen] can remove.
var loosenable = map[string]func(s *apiextensionsv1.JSONSchemaProps){
	"pattern":   func(s *apiextensionsv1.JSONSchemaProps) { s.Pattern = "" },
	"minLength": func(s *apiextensionsv1.JSONSchemaProps) { s.MinLength = nil },
	"maxLength": func(s *apiextensionsv1.JSONSchemaProps) { s.MaxLength = nil },
	"minimum":   func(s *apiextensionsv1.JSONSchemaProps) { s.Minimum = nil },
	"maximum":   func(s *apiextensionsv1.JSONSchemaProps) { s.Maximum = nil },
}

// removeKeywords removes keywords from a schema and all schemas below it.
func removeKeywords(s *apiextensionsv1.JSONSchemaProps, keywords []string) {
	walkSchema(s, nil, func(_ feature.Path, s *apiextensionsv1.JSONSchemaProps) bool {
		for _, k := range keywords {
			if take := loosenable[k]; take != nil {
				take(s)
			}
		}
		return true
	})
}

// tagsOf removes the numbers from one schema and returns them.
func tagsOf(s *apiextensionsv1.JSONSchemaProps) (out []int) {
	rest, ok := strings.CutPrefix(s.ID, tagPrefix)
	if !ok {
		return nil
	}
	s.ID = ""
	for _, part := range strings.Split(rest, ";")[1:] {
		if n, err := strconv.Atoi(part); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// versionUse is the use of a mark that gates a whole version.
func versionUse(crd *apiextensionsv1.CustomResourceDefinition, version string, n int) use {
	return use{n, v1alpha1.Part{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural, Versions: []string{version}, WholeVersion: true}}
}

// compareUses orders uses by resource, field and version, so that the same types always give the same parts.
func compareUses(a, b use) int {
	return cmp.Or(strings.Compare(a.part.Group, b.part.Group), strings.Compare(a.part.Resource, b.part.Resource), strings.Compare(a.part.Field, b.part.Field),
		slices.Compare(a.part.Versions, b.part.Versions), strings.Compare(a.part.Pattern, b.part.Pattern), slices.Compare(a.part.Values, b.part.Values), cmp.Compare(a.mark, b.mark))
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

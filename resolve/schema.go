package resolve

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The schema is for those who make requests: editors and other tools read it from a ConfigMap in the cluster. It says less than the
// resolver checks, since OpenAPI cannot say what Check and Validate do.

// property is an OpenAPI v3 schema of one parameter.
type property struct {
	Type        Type      `json:"type"`
	Description string    `json:"description,omitempty"`
	Default     string    `json:"default,omitempty"`
	Enum        []string  `json:"enum,omitempty"`
	MaxLength   int       `json:"maxLength,omitempty"`
	Items       *property `json:"items,omitempty"`
	Additional  *property `json:"additionalProperties,omitempty"`
}

type requirement struct {
	Required []string `json:"required"`
}

type choice struct {
	AnyOf []requirement `json:"anyOf"`
}

// Schema returns the OpenAPI v3 schema of the parameters as one object, in JSON, with the parameter cache and with aliases. Equal
// specifications give equal schemas. It does not include the rules of Check and Validate.
func (s Spec) Schema() ([]byte, error) {
	type object struct {
		Type        Type                `json:"type"`
		Description string              `json:"description,omitempty"`
		Properties  map[string]property `json:"properties"`
		Required    []string            `json:"required,omitempty"`
		AllOf       []choice            `json:"allOf,omitempty"`
		Additional  bool                `json:"additionalProperties"`
	}
	out := object{Type: Object, Description: s.Doc, Properties: map[string]property{}, Additional: s.Undeclared}
	for _, d := range s.Parameters() {
		p := property{Type: d.typeOrString(), Description: d.docWithDefault()}
		value := property{Type: String, Enum: d.Allowed, MaxLength: d.maxLength()}
		switch d.typeOrString() {
		case Array:
			p.Items = &value
		case Object:
			p.Additional = &value
		case String:
			p.Default, p.Enum, p.MaxLength = d.Default, value.Enum, value.MaxLength
		}
		out.Properties[d.Name] = p
		for _, alias := range d.Aliases {
			other := p
			other.Default, other.Description = "", "Another name of "+d.Name+"."
			out.Properties[alias] = other
		}
		switch {
		case !d.Required || d.DefaultKey != "":
		case len(d.Aliases) == 0:
			out.Required = append(out.Required, d.Name)
		default:
			c := choice{}
			for _, n := range append([]string{d.Name}, d.Aliases...) {
				c.AnyOf = append(c.AnyOf, requirement{[]string{n}})
			}
			out.AllOf = append(out.AllOf, c)
		}
	}
	return json.MarshalIndent(out, "", "  ")
}

// docWithDefault says where the default is, for readers who do not see the configuration.
func (d Param) docWithDefault() string {
	if d.DefaultKey == "" {
		return d.Doc
	}
	return fmt.Sprintf("%s The default is in configuration key %s.", d.Doc, d.DefaultKey)
}

// Markdown returns tables of the parameters and of the keys of the configuration, for documentation.
func (s Spec) Markdown() string {
	var b strings.Builder
	cell := strings.NewReplacer("|", `\|`, "\n", " ").Replace
	b.WriteString("| parameter | type | default | what it is |\n| --- | --- | --- | --- |\n")
	for _, d := range s.Parameters() {
		name := "`" + strings.Join(append([]string{d.Name}, d.Aliases...), "`, `") + "`"
		standard := ""
		switch {
		case d.DefaultKey != "":
			standard = "key `" + d.DefaultKey + "`"
		case d.Default != "":
			standard = "`" + d.Default + "`"
		case d.Required:
			standard = "required"
		}
		doc := d.Doc
		if len(d.Allowed) > 0 {
			doc += " One of " + strings.Join(d.Allowed, ", ") + "."
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell(name), d.typeOrString(), cell(standard), cell(doc))
	}
	if s.ConfigMap == "" {
		return b.String()
	}
	fmt.Fprintf(&b, "\n| key of `%s` | default | what it is |\n| --- | --- | --- |\n", s.ConfigMap)
	for _, k := range s.Keys() {
		standard := ""
		if k.Default != "" {
			standard = "`" + k.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", cell(k.Name), cell(standard), cell(k.Doc))
	}
	return b.String()
}

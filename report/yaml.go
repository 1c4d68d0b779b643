package report

// How does the same document read best? In YAML, with texts of several lines as blocks, for people who look at
// a witness, and for tools such as yq. It must read the same in YAML 1.1 and 1.2.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// appendYAML writes the same content as appendJSON, in the same order. Texts of several lines become blocks.
func appendYAML(b *bytes.Buffer, r *Report, _ Options) error {
	raw, err := json.Marshal(documentOf(r))
	if err != nil {
		return fmt.Errorf("cannot write YAML: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	node, err := yamlNode(d)
	if err != nil {
		return fmt.Errorf("cannot write YAML: %w", err)
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(node); err != nil {
		return fmt.Errorf("cannot write YAML: %w", err)
	}
	if err := e.Close(); err != nil {
		return fmt.Errorf("cannot write YAML: %w", err)
	}
	escapeStrings(b, out.Bytes(), func(r rune) string {
		if r <= 0xffff {
			return fmt.Sprintf(`\u%04x`, r)
		}
		return fmt.Sprintf(`\U%08x`, r)
	})
	return nil
}

// yamlNode reads one JSON value, keeping the order of its keys.
func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if v == '{' {
			n.Kind = yaml.MappingNode
		}
		for d.More() {
			// The keys of an object are tokens between its values.
			child, err := yamlNode(d)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
		_, err := d.Token()
		return n, err
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v, Style: yamlStyle(v)}, nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: v.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

// yaml11 matches strings that readers of YAML 1.1, such as kubectl, read as a bool, a number in base 60 or a special key. Readers
// of YAML 1.2 do not.
var yaml11 = regexp.MustCompile(`^(?i:<<|=|y|n|yes|no|on|off|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)$`)

// yamlStyle chooses double quotes for strings that need escapes, and blocks for texts of several lines. It leaves the rest to the
// encoder.
func yamlStyle(s string) yaml.Style {
	text := true
	for _, r := range s {
		if r != '\n' && !unicode.IsPrint(r) {
			return yaml.DoubleQuotedStyle
		}
	}
	if logCommand.MatchString(s) || yaml11.MatchString(s) {
		return yaml.DoubleQuotedStyle
	}
	for line := range strings.SplitSeq(s, "\n") {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "::") {
			return yaml.DoubleQuotedStyle
		}
		text = text && !strings.HasSuffix(line, " ")
	}
	if !strings.Contains(s, "\n") {
		return 0
	}
	// A block that begins with a space or an empty line, or has trailing spaces, needs indicators that are hard to read.
	if !text || strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n") || strings.HasSuffix(s, "\n\n") {
		return yaml.DoubleQuotedStyle
	}
	return yaml.LiteralStyle
}

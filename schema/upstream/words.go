package upstream

// Which properties may a rule mention? Every word in its text counts. For example, self.a == 'b' may mention a and b. What no rule may mention
// can be left out of a projection.

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// words are the names that some validation rules may mention: every run of letters, digits and underscores in a rule, even inside of a
// string. nil means that there are no rules.
type words struct {
	above *words
	set   map[string]struct{}
	texts []string
}

// withRules adds the words of rules.
func (w *words) withRules(rules apiextensionsv1.ValidationRules) *words {
	out := &words{above: w, set: map[string]struct{}{}}
	for i := range rules {
		for _, text := range []string{rules[i].Rule, rules[i].MessageExpression, rules[i].FieldPath} {
			if text == "" {
				continue
			}
			out.texts = append(out.texts, text)
			start := -1
			for j := 0; j <= len(text); j++ {
				switch {
				case j < len(text) && isWord(text[j]):
					if start < 0 {
						start = j
					}
				case start >= 0:
					out.set[text[start:j]] = struct{}{}
					start = -1
				}
			}
		}
	}
	return out
}

// mayMention reports whether a rule may mention a property of that name.
func (w *words) mayMention(name string) bool {
	if w == nil {
		return false
	}
	escaped, ok := apiservercel.Escape(name)
	plain := escaped == name
	for ; w != nil; w = w.above {
		if _, said := w.set[name]; said {
			return true
		}
		if plain {
			continue
		}
		if _, said := w.set[escaped]; ok && said {
			return true
		}
		for _, text := range w.texts {
			if strings.Contains(text, name) {
				return true
			}
		}
	}
	return false
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

type props = apiextensionsv1.JSONSchemaProps

func isMetaField(name string) bool {
	return name == "metadata" || name == "apiVersion" || name == "kind"
}

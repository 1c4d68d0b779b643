package upstream

import "strings"

// BadRule is a validation rule that refuses every value, because it does not compile.
type BadRule struct {
	// Path is a JSON pointer to the node in the schema: /properties/spec/items; empty for the root.
	Path string
	// Rule is the text of the rule; empty stands for all rules of the node.
	Rule string
	// Err is why it does not compile.
	Err error
}

// pointerEscape writes a name as a token of a JSON pointer (RFC 6901).
var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// BadRules compiles every rule and returns those that do not compile, in the order of the schema. The API server refuses a CRD with
// such a rule.
func (v *Validator) BadRules() (bad []BadRule, err error) {
	defer recovered(&err)
	return v.tree().rules.bad("", nil), nil
}

func (n *ruleNode) bad(path string, out []BadRule) []BadRule {
	if n == nil {
		return out
	}
	if n.compiled != nil {
		made := n.compiled.of(n)
		if made.err != nil {
			out = append(out, BadRule{Path: path, Err: made.err})
		}
		for i := range made.results {
			if e := made.results[i].Error; e != nil {
				out = append(out, BadRule{path, n.rules[i].Rule, e})
			}
		}
	}
	out = n.items.bad(path+"/items", out)
	out = n.additional.bad(path+"/additionalProperties", out)
	for _, p := range n.props {
		out = p.node.bad(path+"/properties/"+pointerEscape.Replace(p.name), out)
	}
	return out
}

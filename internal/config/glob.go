package config

import "strings"

// pattern is a compiled pattern for names and paths: * stands for anything within a segment, ** for anything at all. The
// [*] of a path, which stands for any item, is no star: it matches itself.
type pattern []token

type token struct {
	// star is 1 for *, 2 for ** and 0 for text.
	star int
	text byte
}

func compilePattern(s string) pattern {
	var p pattern
	for s != "" {
		switch {
		case strings.HasPrefix(s, "[*]"):
			p = append(p, token{text: '['}, token{text: '*'}, token{text: ']'})
			s = s[3:]
		case strings.HasPrefix(s, "**"):
			p = append(p, token{star: 2})
			s = strings.TrimLeft(s, "*")
		case s[0] == '*':
			p = append(p, token{star: 1})
			s = s[1:]
		default:
			p = append(p, token{text: s[0]})
			s = s[1:]
		}
	}
	return p
}

// matchesWhole tells whether p matches the whole of text, in which the bytes of separators end a segment. It takes time
// proportional to the product of the two lengths at most.
func (p pattern) matchesWhole(text, separators string) bool {
	// reached[i] says that the tokens so far match text[:i].
	reached := make([]bool, len(text)+1)
	reached[0] = true
	for _, t := range p {
		if t.star > 0 {
			for i := range len(text) {
				if reached[i] && (t.star == 2 || strings.IndexByte(separators, text[i]) < 0) {
					reached[i+1] = true
				}
			}
			continue
		}
		for i := len(text); i > 0; i-- {
			reached[i] = reached[i-1] && text[i-1] == t.text
		}
		reached[0] = false
	}
	return reached[len(text)]
}

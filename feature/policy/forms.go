package policy

// Which expressions cost the same? Those that differ in names of the same length only, with objects that differ in the same names. For
// example, has(object.spec.tasks) and has(object.spec.steps). About half of the expressions for Tekton's features have the form of another.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// fieldNames are the names of the fields, gates and keys of all features. All other text of an expression is part of its form.
func (c *compiler) fieldNames() map[string]bool {
	names := map[string]bool{}
	for _, f := range c.model.Features() {
		names[f.Spec.Gate], names[f.Spec.Key] = true, true
		for i := range f.Targets {
			t := &f.Targets[i]
			for _, step := range t.Path {
				names[step.Name] = true
			}
			for _, condition := range t.Match {
				for _, step := range condition.Path {
					names[step.Name] = true
				}
			}
		}
	}
	return names
}

// formWriter writes expressions and objects with a number and the length in place of each name, the same ones wherever it occurs.
type formWriter struct {
	out       strings.Builder
	names     map[string]bool
	numbers   map[string]int
	variables []string // that expressions refer to, in the order of the first reference
}

// formOf is the same for expressions that cost the same, with all variables that they refer to, and for objects of the same form.
func (m *meter) formOf(expression string) string {
	w := &formWriter{names: m.names, numbers: map[string]int{}}
	w.addExpression(expression)
	for i := 0; i < len(w.variables); i++ {
		w.addExpression(m.byName[w.variables[i]])
	}
	for _, state := range m.states {
		w.addValue(state[0])
		w.addValue(state[1])
	}
	return hashOf(w.out.String())
}

// addExpression adds an expression. The names of its own variables have no length, because they cost nothing.
func (w *formWriter) addExpression(expression string) {
	quote := byte(0)
	for rest := expression; rest != ""; {
		word := rest[:wordLength(rest)]
		if word == "" {
			n := 1
			switch c := rest[0]; {
			case quote != 0 && c == '\\':
				n = 2
			case quote == 0 && (c == '\'' || c == '"'):
				quote = c
			case c == quote:
				quote = 0
			}
			n = min(n, len(rest))
			w.out.WriteString(rest[:n])
			rest = rest[n:]
			continue
		}
		rest = rest[len(word):]
		if quote == 0 && word == "variables" && strings.HasPrefix(rest, ".") {
			name := rest[1 : 1+wordLength(rest[1:])]
			rest = rest[1+len(name):]
			if !slices.Contains(w.variables, name) {
				w.variables = append(w.variables, name)
			}
			fmt.Fprintf(&w.out, "\x01%d", slices.Index(w.variables, name))
			continue
		}
		w.addWord(word)
		if quote != 0 && w.names[word] {
			fmt.Fprintf(&w.out, ",%d", len(word))
		}
	}
	w.out.WriteByte('\n')
}

// wordLength is how long the word is that a text begins with: letters, digits, - and _.
func wordLength(text string) int {
	for i := range len(text) {
		if c := text[i]; c != '_' && c != '-' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return i
		}
	}
	return len(text)
}

// addWord adds a word, or what stands for it if it is a name.
func (w *formWriter) addWord(word string) {
	if !w.names[word] {
		w.out.WriteString(word)
		return
	}
	number, ok := w.numbers[word]
	if !ok {
		number = len(w.numbers)
		w.numbers[word] = number
	}
	fmt.Fprintf(&w.out, "\x00%d", number)
}

// addValue adds a value of an object. Its fields come in the order of the expressions, because that of their names is no part of the form.
func (w *formWriter) addValue(value any) {
	switch v := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		order := func(key string) int {
			if number, ok := w.numbers[key]; ok {
				return number
			}
			return len(w.numbers)
		}
		slices.SortFunc(keys, func(a, b string) int {
			return cmp.Or(cmp.Compare(order(a), order(b)), strings.Compare(a, b))
		})
		w.out.WriteByte('{')
		for _, k := range keys {
			w.addWord(k)
			w.out.WriteByte(':')
			w.addValue(v[k])
		}
		w.out.WriteByte('}')
	case []any:
		w.out.WriteByte('[')
		for _, item := range v {
			w.addValue(item)
			w.out.WriteByte(',')
		}
		w.out.WriteByte(']')
	case string:
		fmt.Fprintf(&w.out, "%q", v)
	default:
		fmt.Fprintf(&w.out, "%T%v", v, v)
	}
}

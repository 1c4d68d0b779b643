package logic

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// library answers the questions about strings with little: patterns of the form ^(one|another)$ are understood, of others
// a few strings are tried. The one format that it knows, even, is of strings of an even length.
type library struct{}

var tried = []string{"", "a", "b", "A", "c", "d", "ab", "é", "aé", "aa", "abc", "abcd", "aaaaa"}

var compiled = map[string]*regexp.Regexp{}

func (library) MatchPattern(expr, s string) bool {
	re, ok := compiled[expr]
	if !ok {
		re = regexp.MustCompile(expr)
		compiled[expr] = re
	}
	return re.MatchString(s)
}

func (library) MatchFormat(name, s string) bool { return name != "even" || len(s)%2 == 0 }

func (library) Long(string) string  { return "" }
func (library) Shape(string) string { return "" }

func (library) Samples(name string) []string {
	if name == "even" {
		return []string{"ab", ""}
	}
	return nil
}

func (l library) Members(_ *Work, match, avoid []string, length Length, n int) (found []string, none bool) {
	from, all := tried, length.Min > length.Max
	for _, expr := range match {
		if list, ok := strings.CutPrefix(expr, "^("); ok && strings.HasSuffix(list, ")$") {
			from, all = strings.Split(strings.TrimSuffix(list, ")$"), "|"), true
		}
	}
	if len(match)+len(avoid) == 0 && length.Min <= length.Max && length.Min < 1000 {
		from = append(slices.Clone(tried), strings.Repeat("a", int(length.Min)), strings.Repeat("é", int(length.Min)))
	}
	for _, s := range from {
		size := int64(utf8.RuneCountInString(s))
		if size >= length.Min && size <= length.Max && !slices.Contains(found, s) && len(found) < n &&
			!slices.ContainsFunc(match, func(e string) bool { return !l.MatchPattern(e, s) }) &&
			!slices.ContainsFunc(avoid, func(e string) bool { return l.MatchPattern(e, s) }) {
			found = append(found, s)
		}
	}
	return found, all && len(found) == 0
}

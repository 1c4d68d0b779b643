package regular

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestMembersOfRealPatternsMatch(t *testing.T) {
	for _, c := range realCases {
		re := regexp.MustCompile(c.a)
		list := Members(mustCompile(t, c.a), 20, Budget{})
		for _, s := range list {
			if !re.MatchString(s) || !utf8.ValidString(s) {
				t.Errorf("%q: %q does not match", c.a, s)
			}
		}
		if again := slices.Compact(slices.Clone(list)); len(again) != len(list) {
			t.Errorf("%q: repetitions in %q", c.a, list)
		}
		if shortest := Empty(mustCompile(t, c.a), Budget{}); len(list) == 0 || utf8.RuneCountInString(list[0]) != utf8.RuneCountInString(shortest.Witness) {
			t.Errorf("%q: no shortest member in %q", c.a, list)
		}
	}
}

func TestMembersGoThroughEveryBranch(t *testing.T) {
	list := Members(mustCompile(t, `^(one|two|three)(-[0-9]+)?(\.(x|y))?$`), 20, Budget{})
	for _, part := range []string{"one", "two", "three", "-", ".x", ".y"} {
		if !slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, part) }) {
			t.Errorf("no %q in %q", part, list)
		}
	}
}

func TestMembers(t *testing.T) {
	re := func(p string) *Lang { return mustCompile(t, p) }
	tests := []struct {
		name string
		l    *Lang
		n    int
		want []string
	}{
		{"none", None(), 5, []string{}},
		{"none wanted", All(), 0, nil},
		{"all of few", re(`^(a|b)?c$`), 9, []string{"c", "ac", "bc"}},
		{"an enum, shortest first", oneOf([]string{"xyz", "b", "aa", "c0"}), 3, []string{"b", "aa", "c0"}},
		{"an enum, filtered", Intersect(oneOf([]string{"xyz", "b", "aa", "-"}), re(`^[a-z]+$`), LengthBetween(2, -1)), 9, []string{"aa", "xyz"}},
		{"one of a length", Intersect(re(`^a*$`), LengthBetween(5000, 5000)), 3, []string{strings.Repeat("a", 5000)}},
		{"from both parts", Union(oneOf([]string{"q"}), Intersect(re(`^z+$`), LengthBetween(2, 2))), 4, []string{"q", "zz"}},
		{"of a set that explodes", re(`^(a|b)*c(a|b){40}d$`), 1, []string{"c" + strings.Repeat("a", 40) + "d"}},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Members(c.l, c.n, Budget{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMembersKeepToLengths(t *testing.T) {
	for _, window := range [][2]int64{{0, 0}, {1, 3}, {60, 63}, {250, 253}, {64, -1}, {1000, 1000}} {
		l := Intersect(mustCompile(t, subdomain), LengthBetween(window[0], window[1]))
		list := Members(l, 10, Budget{})
		for _, s := range list {
			if !l.Match(s) {
				t.Errorf("%v: %q is no member", window, s)
			}
		}
		if want := 5; window[1] != 0 && len(list) < want {
			t.Errorf("%v: %d members, want %d and more: %q", window, len(list), want, list)
		}
	}
}

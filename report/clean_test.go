package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVisibleShowsWhatIsHidden(t *testing.T) {
	for _, x := range []struct{ name, in, want string }{
		{"plain text is left alone", `spec.größe → 5 "日本" 🚀`, `spec.größe → 5 "日本" 🚀`},
		{"terminal escapes", "\x1b[2J\x07\x7f", `\x1b[2J\x07\x7f`},
		{"line breaks and tabs", "a\r\nb\tc", `a\r\nb\tc`},
		{"direction marks and zero width", "a\u202eb\u200bc\ufeff", `a\u202eb\u200bc\ufeff`},
		{"other spaces and line separators", "a\u00a0b\u2028c", `a\u00a0b\u2028c`},
		{"C1 controls", "a\u009bb", `a\u009bb`},
		{"beyond the basic plane", "a\U000e0041", `a\U000e0041`},
		{"bytes that are no UTF-8", "a\xffb\xc3", `a\xffb\xc3`},
		{"a replacement character that is meant", "a\ufffdb", "a\ufffdb"},
		{"a workflow command", "::error::x", `\x3a:error::x`},
		{"a workflow command after spaces", "  ::error::x", `  \x3a:error::x`},
		{"colons inside", "a ::error::x", "a ::error::x"},
		{"logging commands anywhere", "a ##[error]b ##vso[x]", `a #\x23[error]b #\x23vso[x]`},
		{"headings", "## a", "## a"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if diff := cmp.Diff(x.want, visibleLine(x.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestClippingKeepsRunesWholeAndSaysWhatIsMissing(t *testing.T) {
	for _, x := range []struct {
		in    string
		width int
		want  string
	}{
		{"short", 10, "short"},
		{"short", 5, "short"},
		{"short", 0, "short"},
		{"0123456789", 4, "0123… (6 more bytes)"},
		{"01€", 3, "01… (3 more bytes)"},
		{"äö", 3, "ä… (2 more bytes)"},
		{"\x1b\x1b\x1b\x1b", 3, `\x1… (1 more byte)`},
	} {
		if diff := cmp.Diff(x.want, visibleClip(x.in, x.width)); diff != "" {
			t.Errorf("visibleClip(%q, %d): %s", x.in, x.width, diff)
		}
	}
}

func TestLinesAreLimitedAndTheRestIsCounted(t *testing.T) {
	type result struct {
		Lines []string
		More  int
	}
	for _, x := range []struct {
		name         string
		raw          string
		limit, width int
		want         result
	}{
		{"empty", "", 3, 0, result{}},
		{"only line breaks", "\n\n", 3, 0, result{}},
		{"no limit", "a\nb\n", 0, 0, result{[]string{"a", "b"}, 0}},
		{"as many as allowed", "a\nb\n", 2, 0, result{[]string{"a", "b"}, 0}},
		{"one too many", "a\nb\nc\n", 2, 0, result{[]string{"a", "b"}, 1}},
		{"empty lines count", "a\n\n\nb", 2, 0, result{[]string{"a", ""}, 2}},
		{"long lines", "abcdef\nb", 2, 3, result{[]string{"abc… (3 more bytes)", "b"}, 0}},
		{"each line is made visible", "a\tb\n::c", 0, 0, result{[]string{`a\tb`, `\x3a:c`}, 0}},
	} {
		t.Run(x.name, func(t *testing.T) {
			var got result
			got.Lines, got.More = visibleLines(x.raw, x.limit, x.width)
			if diff := cmp.Diff(x.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

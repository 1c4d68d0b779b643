package brief

import (
	"testing"
	"unicode/utf8"
)

func TestClip(t *testing.T) {
	for _, x := range []struct {
		in   string
		n    int
		want string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "…"},
		{"abcdef", 5, "ab…"},
		{"äöüß", 7, "äö…"},
		{"äöüß", 8, "äöüß"},
		{"\xff\xfe", 5, "?"},
		{"ab\xff\xff\xff\xffcdef", 6, "ab?…"},
		{"abc", 0, "…"},
	} {
		if got := Clip(x.in, x.n); got != x.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", x.in, x.n, got, x.want)
		}
	}
}

func FuzzClip(f *testing.F) {
	f.Add("日本語", 5)
	f.Add("\x80\x80\x80\x80\x80\x80", 4)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if got := Cut(s, n); len(got) > max(n, 0) || len(s) > n && n >= utf8.UTFMax && len(got) <= n-utf8.UTFMax {
			t.Errorf("Cut(%q, %d) = %q", s, n, got)
		}
		if got := Clip(s, n); n >= len(ellipsis) && len(got) > n || !utf8.ValidString(got) {
			t.Errorf("Clip(%q, %d) = %q", s, n, got)
		}
		one := OneLine(s)
		for _, r := range one {
			if r == '\n' || r == '\t' || r == utf8.RuneError && !utf8.ValidString(one) {
				t.Errorf("OneLine(%q) = %q", s, one)
			}
		}
		if again := OneLine(one); again != one {
			t.Errorf("OneLine(%q) = %q, and again %q", s, one, again)
		}
	})
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		" one ":                         "one",
		"one\r\n\ttwo\n\n":              "one; two",
		"errors:\n  line 1: no\nline 2": "errors: line 1: no; line 2",
		"a\u202eb\x1b[0m\tc\u2028d":     "ab[0m c; d",
		"\xffok":                        "ok",
	} {
		if got := OneLine(in); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestHint(t *testing.T) {
	names := []string{"stable", "beta", "alpha", "url"}
	for in, want := range map[string]string{"Betta": ` (did you mean "beta"?)`, "ulr": ` (did you mean "url"?)`, "btea": ` (did you mean "beta"?)`, "xyz": "", "x": "", "": "", "gamma": ""} {
		if got := Hint(in, names); got != want {
			t.Errorf("Hint(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCountsReadWell(t *testing.T) {
	for _, x := range []struct {
		n    int64
		want string
	}{
		{0, "0 places"},
		{1, "1 place"},
		{999, "999 places"},
		{1000, "1,000 places"},
		{1234567, "1,234,567 places"},
		{-1234, "-1,234 places"},
	} {
		if got := Count(x.n, "place"); got != x.want {
			t.Errorf("Count(%d) = %q, want %q", x.n, got, x.want)
		}
	}
}

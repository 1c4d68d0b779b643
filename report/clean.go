package report

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice.dev/internal/brief"
)

// Names, messages and witnesses come from files and clusters that nobody vouches for. All output for people passes through this
// file. So the input cannot control a terminal, hide or reorder text, or give commands to the CI system that reads the log.

// visibleLine returns s as one line in which every rune is printable (Go's definition: letters, marks, numbers, punctuation, symbols
// and the ASCII space). It escapes all others as \n, \x1b, \u202e, also line breaks and bytes that are no UTF-8.
func visibleLine(s string) string {
	i := firstUnprintable(s)
	if i == len(s) {
		return defuse(s)
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:i])
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteString(s[i : i+n])
		default:
			b.WriteString(escapeRune(r))
		}
		i += n
	}
	return defuse(b.String())
}

// Visible returns text in which control and format characters are escaped, as in a report. Line breaks stay.
func Visible(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = visibleLine(lines[i])
	}
	return strings.Join(lines, "\n")
}

func firstUnprintable(s string) int {
	for i, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return i
		}
	}
	return len(s)
}

// escapeRune writes a rune that cannot be printed as Go does, in the shortest form that has a number, with the usual
// letters for breaks and tabs.
func escapeRune(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < 0x80:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// CI systems read some lines of a log as commands: GitHub lines that begin with "::" after spaces or contain "##[", Azure "##vso[",
// TeamCity "##teamcity[".
var logCommand = regexp.MustCompile(`##([A-Za-z]*\[)`)

// defuse changes a line so that no CI system reads it as a command.
// The change is visible and small, so that a reader still knows what stood there.
func defuse(line string) string {
	if rest := strings.TrimLeft(line, " "); strings.HasPrefix(rest, "::") {
		line = line[:len(line)-len(rest)] + `\x3a` + rest[1:]
	}
	if strings.Contains(line, "##") {
		line = logCommand.ReplaceAllString(line, `#\x23$1`)
	}
	return line
}

// visibleLines splits raw text into lines and makes each of them visible. It returns at most limit lines (0: all) of at most width
// bytes (0: any), and the number of lines left out.
func visibleLines(raw string, limit, width int) (lines []string, more int) {
	raw = strings.TrimRight(raw, "\n")
	if raw == "" {
		return nil, 0
	}
	for {
		line, rest, found := strings.Cut(raw, "\n")
		lines = append(lines, visibleClip(line, width))
		if !found {
			return lines, 0
		}
		if limit > 0 && len(lines) == limit {
			return lines, strings.Count(rest, "\n") + 1
		}
		raw = rest
	}
}

// visibleClip makes raw text visible as one line of at most about width bytes (0: any). It reads no more of raw than it needs.
// The text is clipped before and after escaping: an escape takes up to ten bytes for one rune.
func visibleClip(raw string, width int) string {
	if width <= 0 || len(raw) <= width {
		return clipVisible(visibleLine(raw), width)
	}
	head := brief.Cut(raw, width)
	return fmt.Sprintf("%s… (%s)", brief.Cut(visibleLine(head), width), brief.Count(len(raw)-len(head), "more byte"))
}

// clipVisible shortens visible text to at most about width bytes (0: any) and says how much is left out.
func clipVisible(s string, width int) string {
	if width <= 0 || len(s) <= width {
		return s
	}
	short := brief.Cut(s, width)
	return fmt.Sprintf("%s… (%s)", short, brief.Count(len(s)-len(short), "more byte"))
}

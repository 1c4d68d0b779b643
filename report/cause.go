package report

// Which findings have one cause, and which finding is the same as in the last run? The first question is for
// readers, the second for alerts of code scanning. Both are answered by what a finding says, without its
// position in the file.

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice.dev/internal/brief"
)

// fingerprint identifies a finding. It stays the same if the finding moves within its file or its message is worded differently.
// It keys the alerts of code scanning and the IDs in pages. So it must not depend on the line, or on how this release
// says what it found.
func fingerprint(crd string, f *Finding) string {
	var b strings.Builder
	for _, x := range []string{f.Rule, crd, f.Version, f.Path, f.Before, f.After} {
		fmt.Fprintf(&b, "%d:%s", len(x), x)
	}
	h := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(h[:16])
}

// causeWidth is the number of bytes of a text that count when two findings are compared for a common cause.
const causeWidth = 2000

// causeKeyOf returns a key that is equal for findings of one CRD that have one cause. The key is the rule and the message, without the
// parts that depend on the place, such as the name of the field or its values.
// For example, a maxLength that 30 fields get at once is one cause: without the names of the fields and the values,
// the 30 messages are equal.
func causeKeyOf(f *Finding, c class) string {
	own := ownWords(f)
	parts := []string{c.String(), string(f.Outcome), string(f.Level), f.Rule, withoutOwnWords(f.Message, own), withoutOwnWords(f.Reason, own)}
	if f.Suppressed != nil {
		parts = append(parts, f.Suppressed.Reason, f.Suppressed.Expires)
	}
	return strings.Join(parts, "\x00")
}

// ownWords lists the parts of a finding's sentences that depend on its place: the values (of lists, their elements), the path and
// the name of the field.
func ownWords(f *Finding) []string {
	var own []string
	for _, value := range []string{f.Before, f.After} {
		value = brief.Cut(value, causeWidth)
		var elements []json.RawMessage
		if strings.HasPrefix(value, "[") && json.Unmarshal([]byte(value), &elements) == nil {
			for _, e := range elements {
				own = append(own, string(e))
			}
			continue
		}
		own = append(own, value)
	}
	path := brief.Cut(f.Path, causeWidth)
	return append(own, path, path[strings.LastIndexByte(path, '.')+1:])
}

// Each word that depends on the place becomes ownMark. A list of such words becomes one mark.
const ownMark = "\x01"

var ownList = regexp.MustCompile(`"?\x01"?(, "?\x01"?)*( and ([0-9]+|\x01) more)?`)

// withoutOwnWords replaces the words that depend on the place. Only the first [causeWidth] bytes count, so that a
// huge message costs no more than a long one.
func withoutOwnWords(s string, own []string) string {
	s = brief.Cut(s, causeWidth)
	for _, word := range own {
		s = replaceWord(s, strings.Trim(word, `"`), ownMark)
	}
	return ownList.ReplaceAllString(s, ownMark)
}

// replaceWord replaces word in s, except where it is part of a longer word.
// For the word size, size: 5 is replaced and resize is not.
func replaceWord(s, word, by string) string {
	if word == "" {
		return s
	}
	var b strings.Builder
	for from := 0; ; {
		i := strings.Index(s[from:], word)
		if i < 0 {
			b.WriteString(s[from:])
			return b.String()
		}
		start, end := from+i, from+i+len(word)
		before, _ := utf8.DecodeLastRuneInString(s[:start])
		after, _ := utf8.DecodeRuneInString(s[end:])
		b.WriteString(s[from:start])
		if inWord(before) || inWord(after) {
			b.WriteString(word)
		} else {
			b.WriteString(by)
		}
		from = end
	}
}

func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

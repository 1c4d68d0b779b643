// Package prose checks the words that people read: Markdown pages, and the help texts in the sources of the commands. It finds long
// sentences, banned phrases, misspellings, and wrong variants of glossary terms. It does not decide how much of that a page may have:
// its test does, with the ceilings in ceilings.txt. tools/site checks the links.
//
//	pages  *.md ──▶ markdown.go ─┐
//	                             ├─▶ text with line numbers ──▶ check.go (with words.go) ──▶ findings
//	help   *.go ──▶ help.go ─────┘
package prose

package report

// How does a workflow of GitHub show findings beside the changed lines? It prints workflow commands, of which
// GitHub shows few: the worst causes come first, and the last one says how many are missing.

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/internal/brief"
)

// githubLimit is the number of annotations of each kind that GitHub shows for one step. It drops the others silently:
// https://github.com/actions/toolkit/blob/main/docs/problem-matchers.md#limitations
const githubLimit = 10

// appendGitHub writes one workflow command for each cause, worst first. If there are more of a kind than GitHub
// shows, the last one that it shows says how many are missing. The report as text follows, for the log.
// New CRDs and remarks are one annotation each, because they concern no file. They take no room from findings: GitHub
// counts each kind by itself.
func appendGitHub(b *bytes.Buffer, r *Report, o Options) error {
	p := newPage(r, o)
	for _, kind := range []struct {
		class   class
		command string
	}{{failing, "error"}, {warning, "warning"}, {noting, "notice"}} {
		items := annotationsOf(p, kind.class)
		shown := len(items)
		if shown > githubLimit {
			shown = githubLimit - 1
		}
		for _, x := range items[:shown] {
			x.writeCommand(b, kind.command, o)
		}
		if rest := items[shown:]; len(rest) > 0 {
			findings := 0
			for _, x := range rest {
				findings += len(x.group.entries)
			}
			fmt.Fprintf(b, "::%s title=sluice check::… and %s that GitHub has no room for; the log of this step has them\n",
				kind.command, brief.Count(findings, "more finding"))
		}
	}
	if fresh := p.namesOfNew(); len(fresh) > 0 {
		more := ""
		if left := len(fresh) - githubLimit; left > 0 {
			fresh, more = fresh[:githubLimit], " and "+brief.Count(left, "other")
		}
		fmt.Fprintf(b, "::notice title=sluice check::%s\n", githubData(p.newCRDs()+": "+strings.Join(fresh, ", ")+more))
	}
	if len(p.remarks) > 0 {
		fmt.Fprintf(b, "::warning title=sluice check::%s\n", githubData(strings.Join(p.remarks, "\n")))
	}
	o.Color, o.Width = false, 0
	return appendText(b, r, o)
}

// annotation is one cause in one CRD.
type annotation struct {
	sheet *sheet
	group *group
}

// annotationsOf lists the groups of a class over all CRDs, worst first.
// Findings without a level, such as undecided ones, come after those with one.
func annotationsOf(p *page, of class) []annotation {
	var all []annotation
	for i := range p.crds {
		for j := range p.crds[i].groups {
			if g := &p.crds[i].groups[j]; g.leadEntry().class == of {
				all = append(all, annotation{&p.crds[i], g})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b annotation) int {
		x, y := a.group.leadEntry(), b.group.leadEntry()
		return cmp.Or(
			cmp.Compare(outcomeRank(x.Outcome), outcomeRank(y.Outcome)),
			cmp.Compare(x.Level.severityRank(), y.Level.severityRank()),
		)
	})
	return all
}

// writeCommand writes the workflow command, whose file and line are those of the first place.
func (a annotation) writeCommand(b *bytes.Buffer, command string, o Options) {
	e := a.group.leadEntry()
	b.WriteString("::" + command + " ")
	if at, ok := e.Position.inRepository(o.Root); ok {
		fmt.Fprintf(b, "file=%s,", githubProperty(at.File))
		if at.Line > 0 {
			fmt.Fprintf(b, "line=%d,", at.Line)
		}
		if at.Column > 0 {
			fmt.Fprintf(b, "col=%d,", at.Column)
		}
	}
	title, message := e.Rule, e.plainSentence(a.sheet)
	if n := len(a.group.places); n > 1 {
		title += ", " + brief.Count(n, "place")
		message += "\nand " + brief.Count(n-1, "more place")
		if a.group.under != "" {
			message += " under " + a.group.under
		}
	}
	message += "\nsluice explain " + e.Rule + ": what to do"
	fmt.Fprintf(b, "title=%s::%s\n", githubProperty(title), githubData(message))
}

// githubData and githubProperty escape characters that would end the command or the property:
// https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
func githubData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func githubProperty(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}

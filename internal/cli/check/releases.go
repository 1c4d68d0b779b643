package check

// Which release may be upgraded to which, directly? Each release is a side, and each pair of releases a check. CRDs that are the same in several
// releases are compared once. For example, v1.0 to v1.2 is unsafe, while v1.0 to v1.1 and v1.1 to v1.2 are safe: then v1.1 must not be skipped.

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"github.com/Masterminds/semver/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/config"
	"sluice.dev/internal/crdcheck"
	"sluice.dev/internal/input"
	"sluice.dev/report"
)

// mostReleases bounds the releases of one matrix: every two of them are compared.
const mostReleases = 200

// ReleaseMatrix is what -o json prints with --releases.
type ReleaseMatrix struct {
	command.Document `json:",inline"`
	// Releases are in their order, the oldest first.
	Releases []Release `json:"releases"`
	// Upgrades has every two releases, from the older one.
	Upgrades []Upgrade `json:"upgrades"`
	// Ways has the shortest safe way from each release to the newest, or to the last that can be reached safely.
	Ways []Way `json:"ways"`
	// Unskippable are releases between two others that lead to each other safely only over them.
	Unskippable []Unskippable `json:"unskippable,omitempty"`
}

// Release is one release.
type Release struct {
	Name string `json:"name"`
	// CRDs counts those of the release, and Unreadable the files that may have more and cannot be read.
	CRDs       int `json:"crds"`
	Unreadable int `json:"unreadable,omitempty"`
}

// Upgrade is the verdict on a direct upgrade.
type Upgrade struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Verdict is safe, unsafe or undecided, after severities and suppressions.
	Verdict report.Verdict `json:"verdict"`
	// Findings are those that fail.
	Findings []report.Finding `json:"findings,omitempty"`
	// MigrateFirst names CRDs to migrate before this upgrade: To lacks a version that From or an earlier release stored objects in. Until
	// status.storedVersions is trimmed, the API server refuses such a CRD.
	MigrateFirst []string `json:"migrateFirst,omitempty"`
}

// Way is the shortest safe way to the newest release, or to the last that can be reached safely.
type Way struct {
	From string `json:"from"`
	// Over are the releases to upgrade to, one after the other; empty if no upgrade is safe.
	Over []string `json:"over,omitempty"`
	// Stops is the release at which the way ends, if the newest cannot be reached safely. It is the last of Over; if that is empty, it is From.
	Stops string `json:"stops,omitempty"`
}

// Unskippable is a release that a direct upgrade must not leave out.
type Unskippable struct {
	Release string `json:"release"`
	From    string `json:"from"`
	To      string `json:"to"`
}

// runReleases compares releases: tags that match a pattern, or a list of sources with commas between them. It
// returns [command.ErrFindings] if an upgrade to the next release is not safe; longer jumps fail nothing.
func (c *checker) runReleases(ctx context.Context, pattern string, paths []string) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	if c.kube == nil {
		c.kube = newestKube()
	}
	sources, err := c.releaseSources(ctx, pattern, paths)
	if err != nil {
		return err
	}
	sides, m, err := c.readReleases(ctx, sources)
	if err != nil {
		return err
	}
	if err := c.compareReleases(ctx, cfg, sides, m); err != nil {
		return err
	}
	m.findMigrations(sides)
	m.findWays()
	switch c.flags.output {
	case "json":
		err = command.Encode(c.Out, m)
	case "html":
		err = matrixPage.Execute(c.Out, m)
	default:
		m.print(c.Out)
	}
	if err != nil {
		return err
	}
	return command.FindingsIf(m.safeSteps() < len(sides)-1)
}

// namedSource is a source with the name of its release.
type namedSource struct {
	name   string
	source input.Source
	tag    bool // it may lack the paths: CRDs come and go
}

// releaseSources returns the releases in their order. A pattern with a comma is a list of sources, in the order
// that the user gives; any other is one of tags, which are sorted by version. It takes 2 to 200 of them.
func (c *checker) releaseSources(ctx context.Context, pattern string, paths []string) (out []namedSource, err error) {
	if strings.Contains(pattern, ",") {
		for text := range strings.SplitSeq(pattern, ",") {
			text = strings.TrimSpace(text)
			src, err := input.ParseSource(text)
			if err != nil {
				return nil, err
			}
			if src.Kind != input.Path && src.Kind != input.Git {
				return nil, fmt.Errorf("--releases: %q is no release: give files, directories, git:REV:PATH or remote sources", text)
			}
			out = append(out, namedSource{name: text, source: src})
		}
	} else {
		tags, err := c.releaseTags(ctx, pattern)
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 {
			paths = []string{"."}
		}
		for _, tag := range tags {
			src, err := input.ParseSource("git:" + tag)
			if err != nil {
				return nil, err
			}
			src.Paths = paths
			out = append(out, namedSource{tag, src, true})
		}
	}
	switch n := len(out); {
	case n < 2:
		return nil, fmt.Errorf("--releases %q: found %d, and it takes two releases to compare: give a pattern of tags such as 'v*', or directories with commas between them", pattern, n)
	case n > mostReleases:
		return nil, fmt.Errorf("--releases %q: %d releases, and at most %d are compared: give a narrower pattern such as 'v1.*'", pattern, n, mostReleases)
	}
	return out, nil
}

// prefixedVersion is a version after other text, such as that of helm-chart-1.0.0 or controller-v2.
var prefixedVersion = regexp.MustCompile(`^.*?[^0-9.](v?[0-9]+\.[0-9]+(?:\.[0-9]+)?(?:[-+].*)?|v[0-9]+)$`)

// releaseTags lists the tags that match a pattern and are versions, the oldest first. A note says what else matches.
func (c *checker) releaseTags(ctx context.Context, pattern string) ([]string, error) {
	all, err := input.Tags(ctx, pattern)
	if err != nil {
		return nil, err
	}
	tags, previews := versionsAmong(all, pattern)
	if others := len(all) - len(tags) - previews; others > 0 || len(tags) < 2 {
		fmt.Fprintf(c.Err, "note: --releases %q: tags that match: %d; not taken for versions: %d; pre-releases left out: %d\n", pattern, len(all), others, previews)
	}
	return tags, nil
}

// versionsAmong returns those of the tags that are versions, the oldest first, and counts the pre-releases that it leaves out. If no tag is a
// version without a prefix, those with one count.
func versionsAmong(all []string, pattern string) (tags []string, previews int) {
	plain, prefixed := map[string]*semver.Version{}, map[string]*semver.Version{}
	for _, tag := range all {
		// Tags of one part of a repository have its folder before them, as Go modules do: api/v1.2.0.
		text, versions := path.Base(tag), plain
		v, err := semver.NewVersion(text)
		if m := prefixedVersion.FindStringSubmatch(text); err != nil && m != nil {
			text, versions = m[1], prefixed
			v, err = semver.NewVersion(text)
		}
		switch {
		case err != nil:
		case v.Prerelease() != "" && !hasDashFor(pattern, tag, text):
			previews++
		default:
			versions[tag] = v
		}
	}
	if len(plain) == 0 {
		plain = prefixed
	}
	return slices.SortedFunc(maps.Keys(plain), func(a, b string) int { return cmp.Or(plain[a].Compare(plain[b]), strings.Compare(a, b)) }), previews
}

// hasDashFor reports whether the pattern itself has the dash before the pre-release of the tag. A dash that only a wildcard matches does not count.
// The tag ends with the version.
func hasDashFor(pattern, tag, version string) bool {
	at := len(tag) - len(version) + strings.IndexByte(version, '-')
	plain := strings.NewReplacer("/", "|", "[!", "[^") // for git, * includes slashes
	ok, err := path.Match(plain.Replace(pattern), plain.Replace(tag[:at]+"~"+tag[at+1:]))
	return err == nil && !ok
}

// readReleases reads the releases. A definition that several of them have is kept once. Only that keeps memory
// small: 200 releases of a project hold mostly the same definitions. Files that cannot be read are counted.
func (c *checker) readReleases(ctx context.Context, sources []namedSource) ([]side, *ReleaseMatrix, error) {
	exclude, err := c.excludePatterns()
	if err != nil {
		return nil, nil, err
	}
	m := &ReleaseMatrix{Document: command.DocumentOf("ReleaseMatrix")}
	quiet := c.inRange()
	kept := map[[sha256.Size]byte]*apiextensionsv1.CustomResourceDefinition{}
	bar := c.Progress("reading releases", int64(len(sources)))
	defer bar.Done()
	var sides []side
	for i, s := range sources {
		if quiet.flags.git = ""; s.tag {
			quiet.flags.git = "releases"
		}
		read, err := quiet.readSide(ctx, s.source, input.Options{Exclude: exclude, PassTemplates: true, KeepAll: true})
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", s.name, err)
		}
		// It keeps definitions alone: texts and positions of 200 releases would fill the memory.
		lean := side{name: s.name, files: true, crds: map[string][]input.Document{}}
		release := Release{Name: s.name, Unreadable: len(read.Unread)}
		for name, docs := range read.crds {
			for _, d := range docs {
				sum := sumOfCRD(d.CRD)
				if kept[sum] == nil {
					kept[sum] = d.CRD
				}
				lean.crds[name] = append(lean.crds[name], input.Document{File: d.File, Key: d.Key, CRD: kept[sum]})
				release.CRDs++
			}
		}
		sides, m.Releases = append(sides, lean), append(m.Releases, release)
		bar.Set(int64(i + 1))
	}
	if !slices.ContainsFunc(m.Releases, func(r Release) bool { return r.CRDs > 0 }) {
		return nil, nil, fmt.Errorf("no release has a CustomResourceDefinition in %s%s", strings.Join(sources[0].source.Paths, ", "), goTypesHint())
	}
	return sides, m, nil
}

// inRange is a checker that takes sides as those of a range of revisions: they may be empty. It prints no notes.
func (c *checker) inRange() *checker {
	out, env, flags := *c, *c.Env, *c.flags
	env.Err, flags.git = io.Discard, "releases"
	out.Env, out.flags = &env, &flags
	return &out
}

// sumOfCRD is the same for definitions that are the same. It is taken over the JSON of the decoded definition, so
// comments and the order of keys do not matter.
func sumOfCRD(crd *apiextensionsv1.CustomResourceDefinition) [sha256.Size]byte {
	data, err := json.Marshal(crd)
	if err != nil {
		return [sha256.Size]byte{} // JSON is what it was read from
	}
	return sha256.Sum256(data)
}

// compareReleases compares every two releases. Pairs of the same two definitions are compared once, whatever
// releases they stand in. The configuration is applied to each upgrade by itself.
func (c *checker) compareReleases(ctx context.Context, cfg *config.Config, sides []side, m *ReleaseMatrix) error {
	var list []crdcheck.Pair
	at := map[crdcheck.Pair]int{}
	var upgrades [][]pair
	for i := range sides {
		for j := i + 1; j < len(sides); j++ {
			k := c.inRange()
			k.old, k.next = sides[i], sides[j]
			pairs, err := k.pairCRDs()
			if err != nil && len(sides[i].crds)+len(sides[j].crds) > 0 {
				return err
			}
			for _, p := range pairs {
				// Equal definitions are one pointer since they were read, so the pair can be a key.
				key := crdcheck.Pair{Old: crdOf(p.old), New: crdOf(p.next)}
				if _, ok := at[key]; !ok {
					at[key], list = len(list), append(list, key)
				}
			}
			upgrades = append(upgrades, pairs)
			m.Upgrades = append(m.Upgrades, Upgrade{From: sides[i].name, To: sides[j].name})
		}
	}
	bar := c.Progress("checking CRDs", int64(len(list)))
	defer bar.Done()
	out, err := crdcheck.Compare(ctx, list, crdcheck.Options{KubeVersion: c.kube, Budget: c.flags.budget}, bar.Set)
	if err != nil {
		return err
	}
	for n := range m.Upgrades {
		r := &report.Report{Mode: cfg.Mode(), FailMode: cfg.FailMode()}
		for _, p := range upgrades[n] {
			crd := out[at[crdcheck.Pair{Old: crdOf(p.old), New: crdOf(p.next)}]]
			crd.Findings = slices.Clone(crd.Findings) // the configuration changes them
			r.CRDs = append(r.CRDs, crd)
		}
		cfg.Apply(r, c.Now())
		r.Sort()
		m.Upgrades[n].judge(r)
	}
	return nil
}

// judge takes what fails from a report. One violation makes it unsafe; an undecided finding that fails makes it
// undecided.
func (u *Upgrade) judge(r *report.Report) {
	u.Verdict = report.Safe
	for _, crd := range r.CRDs {
		for _, f := range crd.Findings {
			if f.Severity != report.Fail {
				continue
			}
			u.Findings = append(u.Findings, f)
			switch {
			case f.Outcome == report.Violation:
				u.Verdict = report.Unsafe
			case u.Verdict == report.Safe:
				u.Verdict = report.IsUndecided
			}
		}
	}
}

// upgrade returns the upgrade from one release to a later one. The upgrades are in one list, row by row: those
// from release 0 come first, n-1 of them, then those from release 1, and so on. j is greater than i.
func (m *ReleaseMatrix) upgrade(i, j int) *Upgrade {
	n := len(m.Releases)
	return &m.Upgrades[i*(2*n-i-1)/2+j-i-1]
}

// isSafe reports whether the upgrade from release i to release j is safe.
func (m *ReleaseMatrix) isSafe(i, j int) bool { return m.upgrade(i, j).Verdict == report.Safe }

// safeSteps counts the safe upgrades to the next release.
func (m *ReleaseMatrix) safeSteps() (n int) {
	for i := range len(m.Releases) - 1 {
		if m.isSafe(i, i+1) {
			n++
		}
	}
	return n
}

// findMigrations fills in what to migrate before each upgrade. former grows with each release, and loses a version
// as soon as a release no longer has it: that upgrade needs the migration then.
func (m *ReleaseMatrix) findMigrations(sides []side) {
	former := map[string]map[string]bool{} // by CRD, versions that it has, and that objects may be stored in since an earlier release
	for i := range sides {
		for name := range former {
			maps.DeleteFunc(former[name], func(v string, _ bool) bool { return lacksVersion(sides[i].crds[name], v) })
		}
		for j := i + 1; j < len(sides); j++ {
			u := m.upgrade(i, j)
			for _, name := range slices.Sorted(maps.Keys(former)) {
				for v := range former[name] {
					if lacksVersion(sides[j].crds[name], v) && !storesIn(sides[i].crds[name], v) && !slices.Contains(u.MigrateFirst, name) {
						u.MigrateFirst = append(u.MigrateFirst, name)
					}
				}
			}
		}
		for name, docs := range sides[i].crds {
			if former[name] == nil {
				former[name] = map[string]bool{}
			}
			for _, d := range docs {
				for _, v := range d.CRD.Spec.Versions {
					if v.Storage {
						former[name][v.Name] = true
					}
				}
			}
		}
	}
}

// storesIn tells that a definition stores objects in the version.
func storesIn(docs []input.Document, version string) bool {
	return slices.ContainsFunc(docs, func(d input.Document) bool {
		return slices.ContainsFunc(d.CRD.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version && v.Storage })
	})
}

// lacksVersion tells that a definition is there without the version.
func lacksVersion(docs []input.Document, version string) bool {
	return slices.ContainsFunc(docs, func(d input.Document) bool {
		return !slices.ContainsFunc(d.CRD.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	})
}

// todoBetween says what to do before steps of the shortest safe ways, and before upgrades to the next release.
// Each line is one upgrade, in the order of the releases.
func (m *ReleaseMatrix) todoBetween() (out []string) {
	at := map[string]int{}
	for i, r := range m.Releases {
		at[r.Name] = i
	}
	steps := map[*Upgrade]bool{}
	for i, way := range m.Ways {
		steps[m.upgrade(i, i+1)] = true
		for _, to := range way.Over {
			steps[m.upgrade(i, at[to])], i = true, at[to]
		}
	}
	for i := range m.Upgrades {
		if u := &m.Upgrades[i]; steps[u] && len(u.MigrateFirst) > 0 {
			out = append(out, u.migrationHint())
		}
	}
	return out
}

// findWays fills in the shortest safe ways to the last release that can be reached, and the releases that must not
// be skipped. It goes backwards from the newest release, so the best way from each later release is known. A way
// that gets farther is better than a shorter one.
func (m *ReleaseMatrix) findWays() {
	last := len(m.Releases) - 1
	next := make([]int, last+1) // the next stop on the shortest way; 0: there is none
	length := make([]int, last+1)
	farthest := make([]int, last+1)
	for i := last; i >= 0; i-- {
		farthest[i] = i
		for j := last; j > i; j-- {
			// j goes from the farthest to the nearest, so of equally good ways the one with the longest first step
			// stays.
			if m.isSafe(i, j) && (farthest[j] > farthest[i] || farthest[j] == farthest[i] && length[j]+1 < length[i]) {
				farthest[i], next[i], length[i] = farthest[j], j, length[j]+1
			}
		}
	}
	for i := range last {
		way := Way{From: m.Releases[i].Name}
		for j := next[i]; j > 0; j = next[j] {
			way.Over = append(way.Over, m.Releases[j].Name)
		}
		if farthest[i] < last {
			way.Stops = m.Releases[farthest[i]].Name
		}
		m.Ways = append(m.Ways, way)
		if i+2 <= last && !m.isSafe(i, i+2) && m.isSafe(i, i+1) && m.isSafe(i+1, i+2) {
			m.Unskippable = append(m.Unskippable, Unskippable{m.Releases[i+1].Name, m.Releases[i].Name, m.Releases[i+2].Name})
		}
	}
}

// print prints the matrix for people: the next release, the one after it and the newest. All other upgrades are in
// the formats json and html. Below the table stands what not to skip, what to migrate, and the first finding of
// each unsafe step.
//
//	3 releases, v1.0 to v1.2: 2 of 2 upgrades to the next release are safe
//
//	FROM  NEXT  VERDICT  AFTER NEXT  VERDICT  NEWEST  SHORTEST SAFE WAY
//	v1.0  v1.1  safe     v1.2        unsafe   unsafe  v1.1, v1.2
//	v1.1  v1.2  safe     -                    safe    v1.2
//
//	do not skip v1.1: v1.0 to v1.2 is not safe, and over it each step is
func (m *ReleaseMatrix) print(w io.Writer) {
	last := len(m.Releases) - 1
	fmt.Fprintf(w, "%s, %s to %s: %d of %d upgrades to the next release are safe\n\n", brief.Count(last+1, "release"), m.Releases[0].Name, m.Releases[last].Name, m.safeSteps(), last)
	t := command.Columns(w)
	fmt.Fprintln(t, "FROM\tNEXT\tVERDICT\tAFTER NEXT\tVERDICT\tNEWEST\tSHORTEST SAFE WAY")
	for i := range last {
		after, to := "", "-"
		if i+2 <= last {
			to, after = m.Releases[i+2].Name, m.upgrade(i, i+2).verdictLabel()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Releases[i].Name, m.Releases[i+1].Name, m.upgrade(i, i+1).verdictLabel(), to, after, m.upgrade(i, last).verdictLabel(), m.wayText(m.Ways[i]))
	}
	t.Flush()
	for _, u := range m.Unskippable {
		fmt.Fprintf(w, "\ndo not skip %s: %s to %s is not safe, and over it each step is\n", u.Release, u.From, u.To)
	}
	for _, line := range m.todoBetween() {
		fmt.Fprintf(w, "\n%s\n", line)
	}
	for i := range last {
		if u := m.upgrade(i, i+1); u.Verdict != report.Safe {
			f := &u.Findings[0]
			fmt.Fprintf(w, "\n%s to %s is %s (findings: %d)\n  %s %s %s: %s\n", u.From, u.To, u.Verdict, len(u.Findings), f.CRD, f.Version+f.Path, f.Rule, f.Message)
		}
	}
	for _, r := range m.Releases {
		if r.Unreadable > 0 {
			fmt.Fprintf(w, "\nnote: %d files of %s cannot be read, and their CRDs are not compared\n", r.Unreadable, r.Name)
		}
	}
}

// wayText is a way in a table. For example: v1.1, v1.3; none to v2.0.
func (m *ReleaseMatrix) wayText(w Way) string {
	over := strings.Join(w.Over, ", ")
	switch {
	case w.Stops == "":
		return over
	case over != "":
		over += "; "
	}
	return over + "none to " + m.Releases[len(m.Releases)-1].Name
}

// upgradeInCell is one upgrade of a page. It is nil in the lower left of the matrix: nobody upgrades to an older
// release.
func (m *ReleaseMatrix) upgradeInCell(i, j int) *Upgrade {
	if j <= i {
		return nil
	}
	return m.upgrade(i, j)
}

// verdictLabel is the verdict in a table.
func (u *Upgrade) verdictLabel() string {
	if u.Verdict == report.Safe && len(u.MigrateFirst) > 0 {
		return "safe after migrate"
	}
	return string(u.Verdict)
}

// labelTitle explains the label.
func (u *Upgrade) labelTitle() string {
	if len(u.MigrateFirst) == 0 {
		return u.firstFinding()
	}
	return strings.TrimSpace(u.migrationHint() + "\n" + u.firstFinding())
}

// migrationHint says what to do before the upgrade.
func (u *Upgrade) migrationHint() string {
	return fmt.Sprintf("before %s to %s: sluice migrate %s, because %s lacks a version that objects may be stored in", u.From, u.To, strings.Join(u.MigrateFirst, " "), u.To)
}

// firstFinding is the finding that comes first. It is empty if nothing fails.
func (u *Upgrade) firstFinding() string {
	if len(u.Findings) == 0 {
		return ""
	}
	f := &u.Findings[0]
	return fmt.Sprintf("%s to %s: %s %s %s: %s", u.From, u.To, f.CRD, f.Version+f.Path, f.Rule, f.Message)
}

// matrixPage is the page of the format html.
var matrixPage = template.Must(template.New("matrix").Funcs(template.FuncMap{ // methods are functions here: see docs/adr/0004-weight-of-compat.md
	"cell": (*ReleaseMatrix).upgradeInCell, "way": (*ReleaseMatrix).wayText, "todo": (*ReleaseMatrix).todoBetween,
	"label": (*Upgrade).verdictLabel, "title": (*Upgrade).labelTitle, "finding": (*Upgrade).firstFinding,
}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Upgrades between releases</title><style>` + report.HTMLStyle() + `
table.matrix{border-collapse:collapse;font-size:.8rem}.matrix th,.matrix td{border:1px solid #8886;padding:.2rem .4rem;text-align:center}
.matrix .safe{background:#2a95}.matrix .unsafe{background:#d335}.matrix .undecided{background:#d935}</style></head>
<body><main><h1>Upgrades between releases</h1>
<p>A row is the release that is installed, a column the one to upgrade to.</p>
<table class="matrix"><thead><tr><th scope="col">from</th>{{range $j, $r := .Releases}}{{if $j}}<th scope="col">{{$r.Name}}</th>{{end}}{{end}}<th scope="col">shortest safe way</th></tr></thead><tbody>
{{range $i, $way := .Ways}}<tr><th scope="row">{{$way.From}}</th>{{range $j, $r := $.Releases}}{{if $j}}{{with cell $ $i $j}}<td class="{{.Verdict}}" title="{{title .}}">{{label .}}</td>{{else}}<td></td>{{end}}{{end}}{{end}}
<td>{{way $ $way}}</td></tr>
{{end}}</tbody></table>
{{range .Unskippable}}<p>Do not skip {{.Release}}: {{.From}} to {{.To}} is not safe, and over it each step is.</p>{{end}}
{{range todo .}}<p>{{.}}.</p>{{end}}
<h2>What fails from release to release</h2><ul>{{range .Upgrades}}{{with finding .}}<li>{{.}}</li>{{end}}{{end}}</ul>
</main></body></html>
`))

// errReleases says what --releases goes without.
var errReleases = errors.New("--releases reads the releases itself: leave out --git, --ci, --open, --objects, and formats other than text, json and html")

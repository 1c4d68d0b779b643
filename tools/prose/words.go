package prose

import (
	_ "embed"
	"regexp"
	"strings"
)

// phrase is one that readers have to read twice.
type phrase struct {
	is      *regexp.Regexp
	instead string // completes "write"
	example string // a sentence with it, which the test seeds
}

// phrases are looked for in sentences, headings and cells, not in code.
var phrases = []phrase{
	{words(`(?:go|goes|gone|going|went) on with`), `"resume" or "continue"`, "An apply is gone on with by the same command."},
	{words(`(?:is|are|was|were|be|been) told`), `who says it: "Sluice warns", "the error says"`, "A client that uses it is told."},
	{words(`(?:tell|tells|told) of`), `"says", "lists" or "reports"`, "It has told of the event."},
	{words(`minds|minded`), `"honours" or "respects"`, "The annotation is minded."},
	{words(`(?:tell|tells|told) the rest`), `what the reader finds there`, "The condition tells the rest."},
	{words(`nobody tells`), `the name of what is not known`, "It has a name which nobody tells."},
	{words(`(?:take|takes|took) no turns?`), `"does not wait" or "does not count"`, "It takes no turn from others."},
	{words(`(?:tell|tells|told) apart`), `"distinguishes", or what the reader learns`, "The two are then told apart."},
	{words(`(?:put|puts|putting) (?:\w+ )?right`), `"corrects"`, "Drift is put right."},
	{words(`who may(?: not)?`), `"users who can", "if you cannot"`, "All who may not read it see a note."},
	{words(`of what`), `the noun that "what" stands for`, "It names some of what it found."},
	{words(`(?:is|are|was|were|be|been) looked at`), `who looks: "Sluice reads", "the check ignores"`, "The result is looked at."},
	{words(`(?:becomes|became|become) of`), `"happens to"`, "See what becomes of the objects."},
	{words(`lets? (?:less|more) through`), `"accepts less" or "accepts more"`, "The schema lets less through."},
	{words(`anew`), `"again"`, "The page is written anew."},
	{words(`beside what`), `"in addition to", with the noun`, "The account needs it beside what is delivered."},
	{words(`(?:stand|stands|stood) (?:in|there|here)`), `"is in" or "is there"`, "The value stands in the file."},
	{words(`at present`), `"now"`, "The kind is not served at present."},
	{words(`(?:has|have) the say`), `"decides" or "takes precedence"`, "The level has the say."},
	{words(`is to (?:be|stay|go)`), `"must" or "will"`, "The object is to stay."},
	{words(`utili[sz]es?|utili[sz]ed`), `"use"`, "Sluice utilizes the cache."},
	{words(`in order to`), `"to"`, "Run it in order to see."},
	{words(`prior to`), `"before"`, "Do it prior to the upgrade."},
	{words(`please note`), `the note itself`, "Please note the flag."},
	{words(`whilst|thereof|thereby|hereby|whereof|lest`), `a word of our time`, "It waits, whilst others run."},
}

// words makes an expression of whole words.
func words(expr string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + expr + `)\b`) }

// term is one of docs/glossary.md, with wrong variants of it.
type term struct {
	term    string // as its heading in the glossary, unless it is a name of Kubernetes that needs no explanation
	is      *regexp.Regexp
	example string
}

// terms are looked for in sentences and cells, not in headings and code.
var terms = []term{
	{"witness", words(`counter-?examples?`), "It prints a counterexample."},
	{"ratcheting", words(`grandfather(?:ed|ing)?|ratchetting`), "The field is grandfathered."},
	{"API server", regexp.MustCompile(`(?i)(?:^|[\s(])(?:apiservers?|api-servers?)\b`), "Ask the apiserver."},
	{"ConfigMap", regexp.MustCompile(`\b(?:config map|Config Map|configmap|Configmap|config-map)s?\b`), "A config map has it."},
	{"namespace", words(`name spaces?|name-spaces?`), "It has a name space."},
	{"webhook", words(`web hooks?|web-hooks?`), "The web hook refuses it."},
	{"preflight", words(`pre-flights?|pre flights?`), "The pre-flight stops it."},
	{"feature", words(`feature[ -]?(?:flags?|toggles?|switch(?:es)?)`), "Use a feature flag."},
	{"subresource", words(`sub-resources?|sub resources?`), "The status sub-resource is gone."},
	{"stored object", words(`persisted objects?`), "Persisted objects fail."},
	{"ServiceAccount", regexp.MustCompile(`\b[Ss]ervice accounts?\b`), "It runs as a service account."},
	{"finding", words(`violations?`), "It prints a violation."},
	{"CRD", words(`custom resource definitions?`), "A custom resource definition changed."},
	{"witness", words(`breaking examples?`), "It shows a breaking example."},
	{"inventory", words(`app records?|tracking (?:config|objects?)`), "The app record is lost."},
	{"dry run", words(`dryruns?|trial runs?`), "It makes a trial run."},
	{"drift", words(`config(?:uration)? drift|drifting`), "The drifting starts."},
}

// unexplained are the terms without a heading in the glossary.
var unexplained = []string{"ConfigMap", "namespace", "ServiceAccount", "webhook"}

// misspelled has common misspellings. American forms of words that these pages spell the British way are among them: one spelling
// for one word.
var misspelled = func() map[string]string {
	out := map[string]string{}
	for line := range strings.FieldsSeq(misspellings) {
		wrong, right, _ := strings.Cut(line, "=")
		out[wrong] = right
	}
	return out
}()

//go:embed misspelled.txt
var misspellings string

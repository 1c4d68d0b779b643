package compat

// What does a gap between two schemas say to a user? The prover knows places, keywords and witnesses; a finding
// has a message, a level and a position in the file. For example, a gap at maximum of .spec.size with the
// witness size: 7 becomes maximum-lowered, objects-ratcheted, at the line of the new maximum.

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
	"sluice.dev/schema"
	"sluice.dev/schema/contain"
)

// newChange looks up what both schemas say at the path of a gap. The nodes stay nil if one of the schemas could not
// be read; then the gap is about the keyword "schema", and no rule looks at nodes.
func newChange(p pair, g contain.Gap) *change {
	c := &change{Gap: g, pair: p}
	if p.from.buildSchema() != nil || p.to.buildSchema() != nil {
		return c
	}
	_, c.old, c.oldParent = descendSchema(p.from.schemaNode(), g.Path)
	_, c.new, c.newParent = descendSchema(p.to.schemaNode(), g.Path)
	return c
}

// descendSchema follows the path through declared schemas. It returns the steps in the document as far as they go, the node at
// the path and the one before; nodes are nil if none is declared.
// For the path .spec.tasks[*].name the steps are properties, spec, properties, tasks, items, properties, name. A
// field that is declared only as a value of a map continues through additionalProperties.
func descendSchema(root *schema.Node, path contain.Path) (tokens []string, node, parent *schema.Node) {
	node = root
	for _, s := range path {
		if parent = node; parent == nil {
			return tokens, nil, nil
		}
		switch s.Kind {
		case contain.AnyItem:
			if node = parent.Items; node != nil {
				tokens = append(tokens, "items")
			}
			continue
		case contain.Field:
			if node = parent.Property(s.Name); node != nil {
				tokens = append(tokens, "properties", s.Name)
				continue
			}
		case contain.AnyKey:
		}
		if node = parent.Additional; node != nil {
			tokens = append(tokens, "additionalProperties")
		}
	}
	return tokens, node, parent
}

// schemaTokens leads to the schema at a path in the document of a version, and on.
func (p *part) schemaTokens(path contain.Path, more ...string) []string {
	steps, _, _ := descendSchema(p.schemaNode(), path)
	return slices.Concat(p.documentTokens("schema", "openAPIV3Schema"), steps, more)
}

// lastStep returns the last step of the path.
func (c *change) lastStep() contain.Step {
	if len(c.Path) == 0 {
		return contain.Step{}
	}
	return c.Path[len(c.Path)-1]
}

// isRefusedBy reports whether the gap is about a keyword that refuses objects.
func (c *change) isRefusedBy(keyword string) bool {
	return c.Keyword == keyword && c.Harm == contain.Refused
}

// compareSchemas reports the gaps of a version.
// Gaps of a version that is not served any more count only if reading from storage does the harm. Gaps of
// spec.preserveUnknownFields are left to its rule.
func (c *comparison) compareSchemas(ctx context.Context, p pair) {
	gaps := c.decidePair(ctx, p)
	disabled := c.preserveDisabled()
	for i := range gaps {
		g := &gaps[i]
		if !p.to.Served && !c.readFromStorage(p, g) {
			continue
		}
		if disabled && c.onlyByPreserve(ctx, p, g) {
			continue // one finding for all of them: preserve-unknown-fields-disabled
		}
		c.addFinding(c.findingOf(newChange(p, *g)))
	}
}

// readFromStorage reports whether a harm is done to objects of a version that is not served: nobody writes or validates it any
// more, but what is stored in it is pruned, its defaults filled in, and the metadata of embedded resources read, when it is read
// (k8s.io/apiextensions-apiserver/pkg/apiserver, crdConversionRESTOptionsGetter).
func (c *comparison) readFromStorage(p pair, g *contain.Gap) bool {
	return isDataDropped(g) || (g.Harm == contain.Redefaulted || isDefaultOfNull(g)) && c.isStored(p.from.Name)
}

// isDefaultOfNull reports whether the gap is about the default of items, which the old schema fills in for null and the new one does not.
func isDefaultOfNull(g *contain.Gap) bool { return g.Keyword == "default" && g.Detail == "" }

// isDataDropped reports whether the gap is about data that a version drops when it reads or stores an object: unknown fields, those of values of
// another type, or invalid metadata of embedded resources.
func isDataDropped(g *contain.Gap) bool {
	return g.Harm == contain.Pruned || g.Harm == contain.Refused && g.Keyword == "x-kubernetes-embedded-resource" || g.Witness != nil && g.Witness.Lost
}

// findingOf makes a finding of a change: the first rule that claims it says what it is.
// The prover decides the outcome. A gap with a witness is a violation; its level says what happens to the witness. A gap without one is undecided, except where a rule says that it is a note, or where it could only
// have been a warning. The texts of a witness that is stuck say why ratcheting does not help, because a reader who
// knows KEP-4008 would expect it to.
func (c *comparison) findingOf(ch *change) report.Finding {
	rule, message := c.claimingRule(ch)
	if ch.Cause != "" && !strings.HasPrefix(ch.Keyword, "x-kubernetes-list-") { // those say it themselves
		message = ch.keywordSubject() + " is as before, but " + ch.Cause
	}
	if ch.StatusWrites {
		message += "; requests to /status do not check embedded resources, so objects like this one are stored"
	}
	f := report.Finding{
		Rule: rule.ID, Version: ch.pair.to.Name, Path: ch.findingPlace(), Message: message,
		Before: valueText(ch.Before), After: valueText(ch.After),
	}
	f.SchemaPath, f.InOld = ch.schemaPath()
	// What the field could hold says more to a reader than that it is gone.
	if f.Before == "" && ch.Harm == contain.Pruned {
		f.Before = schemaGist(ch.old)
	}
	switch {
	case ch.Verdict == contain.NotContained:
		f.Outcome, f.Level = cmp.Or(rule.outcome, report.Violation), levelOfGap(&ch.Gap)
		f.Witness = witnessOf(&ch.Gap)
		if f.Level == report.ObjectsStuck && f.Witness != nil {
			switch w := ch.Witness; {
			case w.Unappliable != "":
				f.Witness.Effect = withRefusedApply(f.Witness.Effect, w.Unappliable)
			case w.StatusRefused != "":
				f.Witness.Effect += fmt.Sprintf("; an update that leaves it alone passes, but Kubernetes %s does not ratchet writes of the status: "+
					"it refuses every request to /status of the stored object", c.opts.KubeVersion)
			default:
				f.Witness.Effect += lacksListKey(ch.pair.to.schemaNode(), ch.Path, w.Object)
			}
		}
		// The witness shows how one object fares. Another one may fare worse, and then the severity is
		// that of the worse level.
		if worst := levelOf(&ch.Gap, max(ch.Worst, ch.Witness.Fate())); worst != f.Level && f.Outcome == report.Violation {
			f.MayBe = worst
			f.Message += fmt.Sprintf(" (at least %s: %s is not ruled out)", f.Level, worst)
		}
	case rule.outcome != "":
		f.Outcome, f.Reason = rule.outcome, ch.Reason
	case levelOfGap(&ch.Gap) == report.ReadersSurprised:
		f.Outcome, f.Reason = report.Note, ch.Reason // would only be warned of if it were shown
	default:
		f.Outcome, f.Reason = report.Undecided, ch.Reason
		f.Message = Undetermined + ": " + message
	}
	return f
}

// withRefusedApply adds to an effect that no server-side apply passes, and why.
// Server-side apply (KEP-555) reads the stored object by the new schema before it merges. Ratcheting (KEP-4008)
// has no part in that.
func withRefusedApply(effect, why string) string {
	refused := "every server-side apply to the stored object is refused, whatever it applies: " + brief.Clip(why, maxInline)
	if why == effect { // nothing else is wrong
		return refused
	}
	return effect + "; an update that leaves it alone passes, but " + refused
}

// lacksListKey says why ratcheting does not help an object: the API server finds the items of a list of type map by their keys, so an item
// without a key never counts as unchanged (CachedDeepEqual in k8s.io/apiserver/pkg/cel/common/equality.go). It is empty if no list on the path
// is the reason.
// It follows the first item only, because one reason is enough for the text.
func lacksListKey(n *schema.Node, path contain.Path, value any) string {
	for i := 0; n != nil; i++ {
		if list, ok := value.([]any); ok && n.ListType == "map" && n.Items != nil {
			for _, key := range n.ListMapKeys {
				if p := n.Items.Property(key); p != nil && !p.HasDefault && slices.ContainsFunc(list, func(item any) bool { return fieldIn(item, key) == nil }) {
					return fmt.Sprintf("; ratcheting does not help, because an item of a list of type map without its key %q never counts as unchanged", key)
				}
			}
		}
		if i == len(path) {
			return ""
		}
		switch s := path[i]; s.Kind {
		case contain.Field:
			n, value = n.Property(s.Name), fieldIn(value, s.Name)
		case contain.AnyItem:
			list, _ := value.([]any)
			if len(list) == 0 {
				return ""
			}
			n, value = n.Items, list[0]
		case contain.AnyKey:
			return "" // lists of type map are rare below maps
		}
	}
	return ""
}

// fieldIn returns a field of a value; nil if the value is no object or lacks the field.
func fieldIn(value any, name string) any {
	fields, _ := value.(map[string]any)
	return fields[name]
}

// keywordSubject names the keyword that a change is about.
// For required it is the name, for a rule its text, for others the new value.
func (c *change) keywordSubject() string {
	switch c.Keyword {
	case "required":
		return "required " + compactJSON(c.Detail)
	case "x-kubernetes-validations":
		return "rule " + inlineJSON(c.Detail)
	}
	if c.After != nil {
		return c.Keyword + " " + inlineJSON(c.After)
	}
	return c.Keyword
}

// claimingRule returns the first rule that claims the change, and what it says. The last of them claims everything.
func (c *comparison) claimingRule(ch *change) (rule *Rule, message string) {
	for i := range c.rules {
		if r := &c.rules[i]; r.claim != nil {
			if m, ok := r.claim(ch); ok {
				return r, m
			}
		}
	}
	return &Rule{ID: "schema-changed"}, "the schema changed"
}

// levelOfGap says how bad the gap is: how its witness fares, and where there is none, how an object may fare.
// An object of which nobody knows how it fares counts as stuck. If it is refused only as an update, ratcheting or
// another update spares it.
func levelOfGap(g *contain.Gap) report.Level {
	fate := contain.Stuck
	switch {
	case g.Witness != nil:
		fate = g.Witness.Fate()
	case g.Harm == contain.RefusedTransition:
		fate = contain.Spared
	}
	return levelOf(g, fate)
}

// levelOf is the level of an object that the gap refuses and that fares so.
func levelOf(g *contain.Gap, fate contain.Fate) report.Level {
	if isDefaultOfNull(g) && g.Harm == contain.Refused {
		return report.MeaningChanged
	}
	switch g.Harm {
	case contain.Pruned:
		return report.DataLost
	case contain.Redefaulted:
		if g.Keyword == "default" && g.Before == nil {
			return report.ReadersSurprised
		}
		return report.MeaningChanged
	case contain.Refused, contain.RefusedTransition:
	}
	switch fate {
	case contain.Spared:
		return report.WritersRefused
	case contain.Tolerated:
		return report.ObjectsRatcheted
	case contain.Stuck:
		return report.ObjectsStuck
	case contain.Lost:
	}
	return report.DataLost
}

// namesProperty reports whether the detail names a property of the object at the path, which is what the gap is about.
func namesProperty(g *contain.Gap) bool {
	return g.Detail != "" && (g.Keyword == "required" || g.Keyword == "default")
}

// fullPath is the path with the property that the detail names.
// For required at .spec with the detail size it is .spec.size. The path of the gap is not changed.
func fullPath(g *contain.Gap) contain.Path {
	if !namesProperty(g) {
		return g.Path
	}
	return append(slices.Clone(g.Path), contain.Step{Kind: contain.Field, Name: g.Detail})
}

// losesKeys reports whether keys that are not declared are dropped.
// Then the finding is about the map or object, because its keys have no names.
func (c *change) losesKeys() bool {
	return c.Harm == contain.Pruned && c.Keyword != "nullable" && c.lastStep().Kind == contain.AnyKey
}

// findingPlace is where the finding is in the object: the property that became required, not the object that lacks it; the object
// whose unknown fields are dropped, not any of them.
// Suppressions name this path, so it must not depend on which of several objects was found as the witness.
func (c *change) findingPlace() string {
	if c.losesKeys() {
		return c.Path[:len(c.Path)-1].String()
	}
	return fullPath(&c.Gap).String()
}

// schemaPath leads to the keyword, in the old document where it is gone from the new one.
// The path need not be in the document: [report.Finding] takes the deepest part that is there. For a keyword that
// only the old CRD has, inOld is true, so that an editor opens the file with the line that was removed.
func (c *change) schemaPath() (tokens []string, inOld bool) {
	p, path, keyword := c.pair.to, c.Path, c.Keyword
	switch {
	case c.losesKeys():
		path = path[:len(path)-1]
		p, keyword = c.pair.from, "additionalProperties"
		if c.oldParent == nil || c.oldParent.PreserveUnknown {
			keyword = "x-kubernetes-preserve-unknown-fields"
		}
	case c.Harm == contain.Pruned && keyword == "properties" && c.old != nil:
		p, keyword = c.pair.from, ""
	case c.isRefusedBy("default"):
		path = fullPath(&c.Gap)
	case c.Harm == contain.Pruned && keyword == "nullable", keyword == "default" && c.After == nil:
		p = c.pair.from
	case keyword == "schema":
		keyword = ""
	}
	tokens = p.schemaTokens(path)
	if keyword != "" {
		tokens = append(tokens, keyword)
	}
	if keyword == "x-kubernetes-validations" && c.Rule >= 0 {
		tokens = append(tokens, indexToken(c.Rule))
	}
	return tokens, p.isOld
}

// witnessOf copies what the prover found.
func witnessOf(g *contain.Gap) *report.Witness {
	w := g.Witness
	if w == nil {
		return nil
	}
	out := &report.Witness{Object: objectYAML(w.Object), Effect: brief.Clip(effectOnWitness(g), maxEffect)}
	if w.Old != nil {
		out.Old = objectYAML(w.Old)
	}
	return out
}

// notEvaluated ends the effect where the API server does not come to evaluate the rule of the finding.
const notEvaluated = " (the API server does not evaluate the rule while this is wrong)"

// effectOnWitness says what the new CRD does to the witness.
// The API server reports all errors of an object, in no useful order. The one at the path of the gap is the one that
// the finding is about. If other errors keep the API server from evaluating the rule (skipping CEL after structural
// errors), the effect quotes them and says so.
func effectOnWitness(g *contain.Gap) string {
	w := g.Witness
	switch g.Harm {
	case contain.Pruned:
		for _, p := range w.PrunedPaths {
			if isPathOfGap(p, g) {
				return p + " is dropped"
			}
		}
		return strings.TrimPrefix(g.Path.String(), ".") + " is dropped"
	case contain.Redefaulted:
		field := strings.TrimPrefix(g.Path.String(), ".")
		if g.Path[len(g.Path)-1].Kind != contain.Field {
			field = "null at " + field
		}
		switch {
		case w.After == nil:
			return field + " is left out; it was filled in with " + inlineJSON(w.Before)
		case w.Before == nil:
			return field + " is filled in with " + inlineJSON(w.After)
		}
		return field + " is filled in with " + inlineJSON(w.After) + " instead of " + inlineJSON(w.Before)
	case contain.Refused, contain.RefusedTransition:
	}
	if len(w.Masked) > 0 {
		for _, e := range w.Errors {
			if field, _, _ := strings.Cut(e, ": "); field != "<nil>" { // that rules were not checked has no path
				return e + notEvaluated
			}
		}
	}
	for _, e := range w.Errors {
		if field, _, _ := strings.Cut(e, ": "); isPathOfGap(field, g) {
			return e
		}
	}
	for _, e := range w.Errors { // what junctors say has no path
		if strings.Contains(e, "("+g.Keyword+")") {
			return strings.TrimPrefix(e, "<nil>: ")
		}
	}
	if len(w.Errors) > 0 {
		return strings.TrimPrefix(w.Errors[0], "<nil>: ")
	}
	return ""
}

// isPathOfGap reports whether a concrete path such as spec.tasks[0].name is that of the gap.
// A path below that of the gap counts as well: an error about spec.tasks[0].name.x is one about its name.
// The API server writes keys of maps in brackets.
func isPathOfGap(concrete string, g *contain.Gap) bool {
	rest := concrete
	for _, s := range fullPath(g) {
		switch {
		case s.Kind == contain.Field && strings.HasPrefix(strings.TrimPrefix(rest, "."), s.Name):
			rest = strings.TrimPrefix(rest, ".")[len(s.Name):]
		case s.Kind == contain.Field && strings.HasPrefix(rest, "["+s.Name+"]"):
			rest = rest[len(s.Name)+2:]
		case s.Kind == contain.Field:
			return false
		default:
			rest = rest[stepLength(rest):]
		}
	}
	return rest == "" || rest[0] == '[' || rest[0] == '.'
}

// stepLength is the length of the first step of a concrete path: [0], [key] or .key.
func stepLength(s string) int {
	if s == "" {
		return 0
	}
	if s[0] == '[' {
		return strings.IndexByte(s, ']') + 1
	}
	if i := strings.IndexAny(s[1:], ".["); i >= 0 {
		return i + 1
	}
	return len(s)
}

// objectPath turns steps through a schema into a path in the object, as far as they are such.
// For properties, spec, properties, list, items, maxLength it is .spec.list[*]: the walk ends at the first keyword.
func objectPath(tokens []string) string {
	var path contain.Path
	for i := 0; i < len(tokens); i++ {
		switch tokens[i] {
		case "properties":
			if i++; i == len(tokens) {
				return path.String()
			}
			path = append(path, contain.Step{Kind: contain.Field, Name: tokens[i]})
		case "items":
			path = append(path, contain.Step{Kind: contain.AnyItem})
		case "additionalProperties":
			path = append(path, contain.Step{Kind: contain.AnyKey})
		default:
			return path.String()
		}
	}
	return path.String()
}

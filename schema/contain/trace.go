package contain

// Why is a demand no gap? For example, the trace of a comparison says that the same demand stands in the old schema.

import (
	"fmt"
)

// argument names why a demand of the new schema is no gap, in the words of docs/containment.md.
type argument string

const (
	equalSubtree   argument = "both schemas say the same from here on"
	equalKeyword   argument = "the old schema has the same keyword with the same meaning"
	impliedHere    argument = "no value that the old schema accepts here breaks it"
	impliedByWhole argument = "the old schema of the whole object implies it"
	subtreeByWhole argument = "the old schema of the whole object implies all of the new schema from here on"
	ruleByForm     argument = "the texts of old rules imply it"
	ruleOfNoField  argument = "the rule is true of values without the fields that the old schema does not have"
	updateImplied  argument = "the old schema and its rules about updates imply it"
)

// traceStep reports a step that is not part of a proof.
func (o *Options) traceStep(g *Gap, object map[string]any, format string, args ...any) {
	if o.Trace != nil {
		o.Trace(Event{Path: g.Path, Keyword: g.Keyword, Detail: g.Detail, Text: fmt.Sprintf(format, args...), Object: object})
	}
}

// traceProven reports a demand of the new schema that is proven.
func (o *Options) traceProven(path Path, keyword, detail string, why argument) {
	if o.Trace != nil {
		o.Trace(Event{Path: path, Keyword: keyword, Detail: detail, Text: "proven: " + string(why), Below: why == equalSubtree || why == subtreeByWhole})
	}
}

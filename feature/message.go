package feature

// What does a client read when a use is refused or dropped? The place, the stage, the feature and the remedy, in one
// line for each use. The API server cuts long messages, so the last line counts the uses that have no room.

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/internal/brief"
)

// MaxMessage bounds [Decision.Message] in bytes. The API server cuts messages of policies at this length
// (k8s.io/apiserver/pkg/cel/environment and admission/plugin/policy/validating: maxMessageExpressionLength).
const MaxMessage = 5 * 1024

// pathOf writes a place in the form of the API server's errors.
func pathOf(trail []place) string {
	const longest = 500
	var b []byte
	for _, p := range trail {
		if p.kind == Items {
			b = append(strconv.AppendInt(append(b, '['), int64(p.index), 10), ']')
			continue
		}
		b = appendName(b, clipWord(p.name))
	}
	return brief.Clip(string(b), longest)
}

// What describes the problem of the use, and the settings that would allow it, without the place.
func (v *Violation) What() string {
	f := v.State.Feature
	return fmt.Sprintf("%s%s%s; needs feature %q of component %q: %s", v.Target.Subject(strconv.Quote(v.Value)), f.StageName(), v.Target.Becomes(), f.Spec.Gate, f.Spec.Component, v.State.Fix)
}

// Subject names the gated part of a place, with a verb; empty if that is the place itself. value is how the message writes gated values.
func (t *Target) Subject(value string) string {
	switch {
	case t.WholeVersion:
		return schema.GroupVersion{Group: t.Group, Version: t.Version}.String() + " is "
	case t.Values != nil:
		return "value " + value + " is "
	case t.Pattern != nil:
		return "a value that matches " + strconv.Quote(clipWord(t.Pattern.String())) + " is "
	case t.Match != nil:
		return "such an entry is "
	case t.Beyond != nil:
		return "a value beyond " + BoundsText(&t.Beyond.Bounds) + " is "
	}
	return ""
}

// StageName names the stage as messages do: in small letters, or not there yet.
func (f *Feature) StageName() string {
	if f.Entry < 0 {
		return "not there yet"
	}
	return strings.ToLower(string(f.Stage))
}

// String is the place and what is wrong there:
//
//	spec.tasksTimeout: alpha; needs feature "TasksTimeout" of component "tekton-pipelines": set enable-api-fields: alpha or
//	tasks-timeout: "true" in ConfigMap tekton-pipelines/feature-flags
func (v *Violation) String() string { return v.Path + ": " + v.What() }

// Message lists all refused uses, one on each line, in [MaxMessage] bytes at most, and counts the rest. It is empty if none is refused.
func (d *Decision) Message() string {
	var b strings.Builder
	for i := range d.Rejected.List {
		line := d.Rejected.List[i].String()
		left := d.Rejected.Count - i
		if b.Len()+len(line)+len("\nand 1234567890 more") > MaxMessage {
			fmt.Fprintf(&b, "\nand %d more", left)
			return b.String()
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line)
	}
	if more := d.Rejected.Count - len(d.Rejected.List); more > 0 {
		fmt.Fprintf(&b, "\nand %d more", more)
	}
	return b.String()
}

// Warnings are the warnings of the response: one text for each dropped use and each use that passes with a warning. Beyond 100 of a
// kind, the rest is counted. Nil if the request is refused for other uses, or if there are none.
func (d *Decision) Warnings() []string {
	if !d.Allowed() {
		return nil
	}
	var out []string
	for _, kind := range []struct {
		violations *Violations
		prefix     string
	}{{&d.Dropped, "dropped "}, {&d.Warned, ""}} {
		for i := range kind.violations.List {
			out = append(out, kind.prefix+kind.violations.List[i].String())
		}
		if more := kind.violations.Count - len(kind.violations.List); more > 0 {
			out = append(out, fmt.Sprintf("%sand %d more uses of features that are off", kind.prefix, more))
		}
	}
	return out
}

// FieldErrors are the refused uses as errors of API machinery, for validation in Go: Invalid where a value is refused,
// Forbidden otherwise. They are the first 100.
func (d *Decision) FieldErrors() field.ErrorList {
	var out field.ErrorList
	for i := range d.Rejected.List {
		v := &d.Rejected.List[i]
		at := field.NewPath(v.Path)
		if v.Target.Values != nil {
			out = append(out, field.Invalid(at, v.Value, v.What()))
		} else {
			out = append(out, field.Forbidden(at, v.What()))
		}
	}
	return out
}

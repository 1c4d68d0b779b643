// Package kapprules is what Sluice does of the rules in kapp's configuration (carvel-dev/kapp, kind Config): how long an object is
// waited for, what is written after what, and which fields keep the value that the cluster has.
//
// It promises that nothing is passed over in silence: [Rules.Read] names what is not done. It does not read files, and it does not
// talk to a cluster.
package kapprules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Rules are those of one or several configurations, in their order. The zero value has none.
type Rules struct {
	Wait   []WaitRule
	Rebase []RebaseRule
	// Groups put objects into change groups, Orders give them change rules.
	Groups []GroupBinding
	Orders []OrderBinding
}

// WaitRule says by its conditions how an object is.
type WaitRule struct {
	// ObservedGeneration is done for every status that has an observedGeneration.
	ObservedGeneration bool            `json:"supportsObservedGeneration"`
	Conditions         []Condition     `json:"conditionMatchers"`
	YTT                json.RawMessage `json:"ytt"`
	Matchers           Matchers        `json:"resourceMatchers"`
}

// Condition says what a condition of a status means.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Success bool   `json:"success"`
	Failure bool   `json:"failure"`
	// ObservedGeneration is done for every condition that has an observedGeneration. Timeout and UnblockChanges are not done.
	ObservedGeneration bool   `json:"supportsObservedGeneration"`
	Timeout            string `json:"timeout"`
	UnblockChanges     bool   `json:"unblockChanges"`
}

// RebaseRule says which side a field is taken from.
type RebaseRule struct {
	Path     Path            `json:"path"`
	Paths    []Path          `json:"paths"`
	Type     string          `json:"type"`
	Sources  []string        `json:"sources"`
	YTT      json.RawMessage `json:"ytt"`
	Matchers Matchers        `json:"resourceMatchers"`
}

// GroupBinding puts objects into a change group.
type GroupBinding struct {
	Name     string   `json:"name"`
	Matchers Matchers `json:"resourceMatchers"`
}

// OrderBinding gives objects change rules.
type OrderBinding struct {
	Rules            []string `json:"rules"`
	IgnoreIfCyclical bool     `json:"ignoreIfCyclical"`
	Matchers         Matchers `json:"resourceMatchers"`
}

// Keys are those of a configuration that [Rules.Read] takes.
func Keys() []string {
	return []string{"waitRules", "rebaseRules", "changeGroupBindings", "changeRuleBindings"}
}

// Read adds the rules that stand under a key, in JSON. notDone has a sentence for each part that is not done. The error says in one
// line what is wrong; then nothing is added.
func (r *Rules) Read(key string, text []byte) (notDone []string, err error) {
	d := &reading{key: key}
	switch key {
	case "waitRules":
		r.Wait, err = appendRules(d, r.Wait, text, d.checkWaitRule)
	case "rebaseRules":
		r.Rebase, err = appendRules(d, r.Rebase, text, d.checkRebaseRule)
	case "changeGroupBindings":
		r.Groups, err = appendRules(d, r.Groups, text, d.checkGroup)
	case "changeRuleBindings":
		r.Orders, err = appendRules(d, r.Orders, text, d.checkOrder)
	}
	if err != nil {
		return nil, err
	}
	return d.notDone, nil
}

// reading checks the rules under one key.
type reading struct {
	key     string
	notDone []string
}

// appendRules decodes rules and appends those that check keeps. check leaves out a rule of which nothing is done, and may complete
// one.
func appendRules[T any](d *reading, have []T, text []byte, check func(i int, rule *T) (keep bool, err error)) ([]T, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var list []T
	if err := dec.Decode(&list); err != nil {
		return have, fmt.Errorf("%s: %s", d.key, strings.TrimPrefix(err.Error(), "json: "))
	}
	out := have
	for i := range list {
		keep, err := check(i, &list[i])
		if err != nil {
			return have, fmt.Errorf("%s[%d]: %w", d.key, i, err)
		}
		if keep {
			out = append(out, list[i])
		}
	}
	return out, nil
}

func (d *reading) recordNotDone(i int, format string, args ...any) {
	d.notDone = append(d.notDone, fmt.Sprintf("%s[%d]: ", d.key, i)+fmt.Sprintf(format, args...))
}

// checkWaitRule leaves out a rule in ytt, which could say anything. Its other conditions are kept without what kapp alone does with
// them.
func (d *reading) checkWaitRule(i int, w *WaitRule) (bool, error) {
	if len(w.YTT) > 0 {
		d.recordNotDone(i, "ytt is not run; the objects are waited for as if the rule were not there")
		return false, nil
	}
	for _, c := range w.Conditions {
		if c.Type == "" || c.Status == "" || !c.Success && !c.Failure && !c.UnblockChanges {
			return false, errors.New("a condition matcher has type, status, and success or failure")
		}
		if c.Timeout != "" {
			d.recordNotDone(i, "timeout of the condition %s is not done; --timeout is for all", c.Type)
		}
		if c.UnblockChanges {
			d.recordNotDone(i, "unblockChanges of the condition %s is not done; what comes after waits until the object is ready", c.Type)
		}
	}
	return true, nil
}

// checkRebaseRule moves the one path of a rule to its paths, so that readers need look at these only.
func (d *reading) checkRebaseRule(i int, b *RebaseRule) (bool, error) {
	switch {
	case len(b.YTT) > 0:
		d.recordNotDone(i, "ytt is not run; the fields are applied as the source has them")
		return false, nil
	case b.Type != "copy" && b.Type != "remove":
		return false, fmt.Errorf("type is %q: it is copy or remove", b.Type)
	case b.Type == "copy" && len(b.Sources) == 0:
		return false, errors.New("copy needs sources: new, existing")
	}
	if i := slices.IndexFunc(b.Sources, func(s string) bool { return s != "new" && s != "existing" }); i >= 0 {
		return false, fmt.Errorf("source %q: it is new or existing", b.Sources[i])
	}
	if len(b.Path) > 0 {
		b.Paths = append(b.Paths, b.Path)
	}
	if len(b.Paths) == 0 {
		return false, errors.New("has no path")
	}
	return true, nil
}

func (d *reading) checkGroup(_ int, g *GroupBinding) (bool, error) {
	if g.Name == "" {
		return false, errors.New("has no name")
	}
	return true, nil
}

// checkOrder keeps a binding with all its rules: what is not done of them is told here, and left out when an object gets them.
func (d *reading) checkOrder(i int, o *OrderBinding) (bool, error) {
	if o.IgnoreIfCyclical {
		d.recordNotDone(i, "ignoreIfCyclical is not done; a circle is an error")
	}
	for _, text := range o.Rules {
		rule, err := ParseOrder(text)
		if err != nil {
			return false, err
		}
		if why := rule.NotDone(); why != "" {
			d.recordNotDone(i, "%s", why)
		}
	}
	return true, nil
}

// Order is a change rule: the object is written before or after those of a group.
type Order struct {
	// Verb is upsert or delete, of the object; Target upserting or deleting, of the group.
	Verb, Target string
	Before       bool
	Group        string
}

var orderPattern = regexp.MustCompile(`\A(upsert|delete) (after|before) (upserting|deleting) (\S+)\z`)

// ParseOrder reads a change rule as kapp writes it: "upsert after upserting GROUP".
func ParseOrder(text string) (Order, error) {
	m := orderPattern.FindStringSubmatch(strings.Join(strings.Fields(text), " "))
	if m == nil {
		return Order{}, fmt.Errorf(`change rule %q: it is "upsert after upserting GROUP", with delete, before and deleting in their places`, text)
	}
	return Order{Verb: m[1], Before: m[2] == "before", Target: m[3], Group: m[4]}, nil
}

// NotDone says why a rule is not done; nothing where it is.
func (o Order) NotDone() string {
	if o.Verb == "upsert" && o.Target == "upserting" {
		return ""
	}
	where := "after"
	if o.Before {
		where = "before"
	}
	return fmt.Sprintf("the change rule %q is not done: deletions come last, in the opposite order of kinds", o.Verb+" "+where+" "+o.Target+" "+o.Group)
}

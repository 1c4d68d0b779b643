// Package kapprules is what Sluice does of the rules in kapp's configuration (carvel-dev/kapp, kind Config): how long an object is waited
// for, what is written after what, and which fields keep the value that the cluster has.
//
// It promises that nothing is passed over in silence: [Rules.Read] names what is not done. It does not read files, and it does not talk to a
// cluster.
package kapprules

import (
	"bytes"
	"encoding/json"
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

// Read adds the rules that stand under a key, in JSON. notDone has a sentence for each part that is not done. The error says in one line
// what is wrong.
func (r *Rules) Read(key string, text []byte) (notDone []string, err error) {
	into := map[string]any{"waitRules": &[]WaitRule{}, "rebaseRules": &[]RebaseRule{}, "changeGroupBindings": &[]GroupBinding{}, "changeRuleBindings": &[]OrderBinding{}}[key]
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return nil, fmt.Errorf("%s: %s", key, strings.TrimPrefix(err.Error(), "json: "))
	}
	read := &reading{key: key}
	switch list := into.(type) {
	case *[]WaitRule:
		err = read.addWaitRules(r, *list)
	case *[]RebaseRule:
		err = read.addRebaseRules(r, *list)
	case *[]GroupBinding:
		err = read.addGroups(r, *list)
	case *[]OrderBinding:
		err = read.addOrders(r, *list)
	}
	if err != nil {
		return nil, err
	}
	return read.notDone, nil
}

// reading adds the rules under one key.
type reading struct {
	key     string
	notDone []string
}

func (d *reading) recordNotDone(i int, format string, args ...any) {
	d.notDone = append(d.notDone, fmt.Sprintf("%s[%d]: ", d.key, i)+fmt.Sprintf(format, args...))
}

func (d *reading) addWaitRules(r *Rules, list []WaitRule) error {
	for i, w := range list {
		if len(w.YTT) > 0 {
			d.recordNotDone(i, "ytt is not run; the objects are waited for as if the rule were not there")
			continue
		}
		for _, c := range w.Conditions {
			if c.Type == "" || c.Status == "" || !c.Success && !c.Failure && !c.UnblockChanges {
				return fmt.Errorf("%s[%d]: a condition matcher has type, status, and success or failure", d.key, i)
			}
			if c.Timeout != "" {
				d.recordNotDone(i, "timeout of the condition %s is not done; --timeout is for all", c.Type)
			}
			if c.UnblockChanges {
				d.recordNotDone(i, "unblockChanges of the condition %s is not done; what comes after waits until the object is ready", c.Type)
			}
		}
		r.Wait = append(r.Wait, w)
	}
	return nil
}

func (d *reading) addRebaseRules(r *Rules, list []RebaseRule) error {
	for i, b := range list {
		switch {
		case len(b.YTT) > 0:
			d.recordNotDone(i, "ytt is not run; the fields are applied as the source has them")
			continue
		case b.Type != "copy" && b.Type != "remove":
			return fmt.Errorf("%s[%d]: type is %q: it is copy or remove", d.key, i, b.Type)
		case b.Type == "copy" && len(b.Sources) == 0:
			return fmt.Errorf("%s[%d]: copy needs sources: new, existing", d.key, i)
		}
		if i := slices.IndexFunc(b.Sources, func(s string) bool { return s != "new" && s != "existing" }); i >= 0 {
			return fmt.Errorf("%s[%d]: source %q: it is new or existing", d.key, i, b.Sources[i])
		}
		if len(b.Path) > 0 {
			b.Paths = append(b.Paths, b.Path)
		}
		if len(b.Paths) == 0 {
			return fmt.Errorf("%s[%d]: has no path", d.key, i)
		}
		r.Rebase = append(r.Rebase, b)
	}
	return nil
}

func (d *reading) addGroups(r *Rules, list []GroupBinding) error {
	for i, g := range list {
		if g.Name == "" {
			return fmt.Errorf("%s[%d]: has no name", d.key, i)
		}
	}
	r.Groups = append(r.Groups, list...)
	return nil
}

func (d *reading) addOrders(r *Rules, list []OrderBinding) error {
	for i, o := range list {
		if o.IgnoreIfCyclical {
			d.recordNotDone(i, "ignoreIfCyclical is not done; a circle is an error")
		}
		for _, text := range o.Rules {
			rule, err := ParseOrder(text)
			if err != nil {
				return fmt.Errorf("%s[%d]: %w", d.key, i, err)
			}
			if why := rule.NotDone(); why != "" {
				d.recordNotDone(i, "%s", why)
			}
		}
	}
	r.Orders = append(r.Orders, list...)
	return nil
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

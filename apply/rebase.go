package apply

import (
	"slices"

	"sluice.dev/apply/kapprules"
)

// Some fields are for others to set: the replicas of a Deployment with an autoscaler, for instance. Rules say which. An apply of the
// source's value would be in conflict with the owner, or take the field away each time. So this file changes the manifest before it
// is compared: the field takes the value that the cluster has, or leaves the manifest if somebody else owns it.

// rebaseItem takes the values of fields from the live object if rules say so. If others own a field, the item leaves it to them: it is
// neither in conflict nor ours. Otherwise the field keeps its live value.
func (p *Plan) rebaseItem(it *Item, obj map[string]any) error {
	var rules []kapprules.RebaseRule
	if it.ignore != nil {
		rules = append(rules, *it.ignore)
	}
	if len(rules)+len(p.request.Rules.Rebase) == 0 {
		return nil
	}
	content, err := it.decodeContent()
	if err != nil {
		return err
	}
	for _, r := range p.request.Rules.Rebase {
		if r.Matchers.Match(content) {
			rules = append(rules, r)
		}
	}
	if len(rules) == 0 {
		return nil
	}
	entries := managedEntriesOf(obj)
	// Fields that are taken over from other appliers are ours when the apply runs. It would remove a field without a value.
	taken := p.takesOver(&live{formers: formersOf(entries, entryOfOwnApplies(entries))})
	entries = slices.DeleteFunc(entries, func(e managedEntry) bool { return e.subresource == "" && slices.Contains(taken, e.manager) })
	for _, r := range rules {
		for _, path := range r.Paths {
			content = rebaseContent(content, obj, entries, r, path)
		}
	}
	return it.setContent(content)
}

// rebaseContent returns the content of a manifest after one rule has been followed at one path. The first source that has the path
// decides: "new" leaves the manifest's value, and "existing" takes the live one. entries are those of managers whose fields the apply
// does not take over.
func rebaseContent(content, live map[string]any, entries []managedEntry, r kapprules.RebaseRule, path kapprules.Path) map[string]any {
	set := func(at []any, to any, remove bool) {
		if next, ok := kapprules.Set(content, at, to, remove).(map[string]any); ok {
			content = next
		}
	}
	if r.Type == "remove" {
		for _, at := range slices.Backward(path.Places(content)) { // the last item of a list first
			set(at.Steps, nil, true)
		}
		return content
	}
	for _, source := range r.Sources {
		if source == "new" {
			if len(path.Places(content)) > 0 {
				return content
			}
			continue
		}
		found := path.Places(live)
		for _, at := range found {
			if ownedByOthers(entries, at.Steps) {
				set(at.Steps, nil, true)
			} else {
				set(at.Steps, at.Value, false)
			}
		}
		if len(found) > 0 {
			return content
		}
	}
	return content
}

// ownedByOthers reports whether another manager owns a field. Ownership of list items is by key, so a path with an index does not
// show it.
func ownedByOthers(entries []managedEntry, path []any) bool {
	for _, e := range entries {
		if e.manager == Manager && e.operation == "Apply" {
			continue
		}
		fields := e.fields
		ok := true
		for _, step := range path {
			key, isKey := step.(string)
			if !isKey {
				return false
			}
			if fields, ok = fields["f:"+key].(map[string]any); !ok {
				break
			}
		}
		if ok {
			return true
		}
	}
	return false
}

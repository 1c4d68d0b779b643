package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice.dev/internal/brief"
)

// An apply removes from a list only the items that it owns. Items that nobody owns stay for ever, and the user cannot tell why. This
// file finds such items, so that a note can name them.

// maxItemPairs bounds the pairs of items and owned keys that a search for items without owner compares, in one list.
const maxItemPairs = 10_000

// unownedItems returns the paths of list items that nobody owns, in lists of which our entry owns items. An apply does not remove
// them. They are left over if a list had one owner as a whole, and the CRD has changed it to one whose items have separate owners. The
// lists of Kubernetes' own kinds do not change so, and the API server's admission adds items to them, such as volumes of Pods, which
// nobody owns either.
func unownedItems(entries []managedEntry, mine *managedEntry, obj map[string]any) []string {
	if mine == nil || builtInTypes().Recognizes(kindOf(obj)) {
		return nil
	}
	var all []map[string]any
	for i := range entries {
		if entries[i].fields != nil {
			all = append(all, entries[i].fields)
		}
	}
	return unownedBelow(mine.fields, all, obj, "")
}

// unownedBelow is unownedItems below a path. all has what each owner has there.
func unownedBelow(mine map[string]any, all []map[string]any, live any, path string) []string {
	var out []string
	switch x := live.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(mine)) {
			name, ok := strings.CutPrefix(key, "f:")
			inner, _ := mine[key].(map[string]any)
			if ok && len(inner) > 0 {
				out = append(out, unownedBelow(inner, fieldsUnder(all, key), x[name], path+"."+name)...)
			}
		}
	case []any:
		keys := map[string]bool{}
		for _, fields := range all {
			if len(fields) == 0 { // owned as a whole
				return nil
			}
			for key := range fields {
				keys[key] = key != "."
			}
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(mine)), isItemKey) || len(keys)*len(x) > maxItemPairs {
			return nil
		}
		for i, item := range x {
			key := ownerKeyOf(keys, item)
			if key == "" {
				out = append(out, fmt.Sprintf("%s[%s]", path, shortItem(item, i)))
			} else if inner, _ := mine[key].(map[string]any); len(inner) > 0 {
				out = append(out, unownedBelow(inner, fieldsUnder(all, key), item, fmt.Sprintf("%s[%s]", path, strings.TrimLeft(key, "kv:")))...)
			}
		}
	}
	return out
}

func isItemKey(key string) bool { return strings.HasPrefix(key, "k:") || strings.HasPrefix(key, "v:") }

// ownerKeyOf returns the key under which an item is owned; empty if it is not.
func ownerKeyOf(keys map[string]bool, item any) string {
	for key := range keys {
		if isItem(key, item, true) {
			return key
		}
	}
	return ""
}

// fieldsUnder returns what each owner has under a key.
func fieldsUnder(all []map[string]any, key string) []map[string]any {
	var out []map[string]any
	for _, fields := range all {
		if inner, ok := fields[key].(map[string]any); ok {
			out = append(out, inner)
		}
	}
	return out
}

// shortItem names an item by its name, as a value, or by its index.
func shortItem(item any, index int) string {
	if m, ok := item.(map[string]any); ok {
		if name, _ := m["name"].(string); name != "" {
			item = map[string]any{"name": name}
		} else {
			return fmt.Sprint(index)
		}
	}
	b, err := json.Marshal(item)
	if err != nil || len(b) > 100 {
		return fmt.Sprint(index)
	}
	return string(b)
}

// Unowned lists the items of lists that are not in the source and that an apply leaves, each as its object and its path. A dry run may
// find more of them, and the writes more again, if a CRD of the same source changes their lists.
func (p *Plan) Unowned() []string {
	var out []string
	for i := range p.Items {
		for _, path := range p.Items[i].now.unowned {
			out = append(out, p.Items[i].String()+" "+path)
		}
	}
	return out
}

// UnownedNote names what [Plan.Unowned] lists, in one sentence; empty for none.
func (p *Plan) UnownedNote() string {
	all := p.Unowned()
	if len(all) == 0 {
		return ""
	}
	return "list items that are not in the source stay, because nobody owns them: " + brief.FirstNames(all, 5) + "; kubectl edit removes them, unless a webhook adds them again"
}

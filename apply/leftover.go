package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The API server may refuse an apply because of a field that is not in the manifest at all: an apply removes the fields that it owns,
// and those of other owners, or of nobody, stay. The error names such a field and says nothing of its owner. This file finds the
// owner in managedFields and adds it to the refusal, with a command that removes the field. For example: a CRD whose manifest drops
// conversion: Webhook keeps the caBundle that cert-manager has put there, and is not valid with it.

// leftover is a field of another owner in a part of a live object that the manifest leaves out. An apply removes our fields of that
// part, and leaves this one. What remains may be invalid: a CRD without its conversion webhook, but with the CA that an injector has
// put there.
type leftover struct {
	part, field []string
	owner       string
}

// leftoversOf lists the leftovers in an object, in the order of its owners.
func leftoversOf(live, want map[string]any, takesOver []string) []leftover {
	entries := managedEntriesOf(live)
	mine := entryOfOwnApplies(entries)
	if mine == nil {
		return nil
	}
	var out []leftover
	for e := range eachOf(entries) {
		if e == mine || e.subresource != "" || slices.Contains(takesOver, e.manager) {
			continue
		}
		for _, field := range namedLeaves(e.fields, nil) {
			n := 1
			for n < len(field) && hasNames(want, field[:n], "") {
				n++
			}
			if n < len(field) && hasNames(mine.fields, field[:n], "f:") {
				out = append(out, leftover{field[:n], field, e.manager})
			}
		}
	}
	return out
}

// namedLeaves lists the paths of owned fields, as far as they lead through fields with names, sorted.
func namedLeaves(fields map[string]any, path []string) [][]string {
	var out [][]string
	for key, inner := range fields {
		name, ok := strings.CutPrefix(key, "f:")
		if !ok {
			continue
		}
		m, _ := inner.(map[string]any)
		below := namedLeaves(m, append(slices.Clip(path), name))
		if len(below) == 0 {
			below = [][]string{append(slices.Clone(path), name)}
		}
		out = append(out, below...)
	}
	slices.SortFunc(out, slices.Compare)
	return out
}

// hasNames reports whether an object has a field at a path of names, to which a prefix is added.
func hasNames(obj map[string]any, path []string, prefix string) bool {
	var at any = obj
	for _, name := range path {
		m, _ := at.(map[string]any)
		inner, ok := m[prefix+name]
		if !ok {
			return false
		}
		at = inner
	}
	return true
}

// explainLeftover adds to a refusal the owner of a leftover that may be its cause, and how to remove it.
func (a *Applier) explainLeftover(ctx context.Context, it *Item, refusal error) error {
	if it.now.live == nil || !apierrors.IsInvalid(refusal) {
		return refusal
	}
	live, err := a.client.fetchObject(ctx, it.mapping.objectPath(&it.Object))
	if err != nil || live == nil {
		return refusal // it says enough
	}
	want, err := it.decodeContent()
	if err != nil {
		return refusal
	}
	for _, l := range leftoversOf(live, want, it.TakesOver) {
		// The refusal is about the part, or about what is beside it.
		about := strings.Join(l.part[:max(len(l.part)-1, min(len(l.part), 2))], ".")
		for _, cause := range statusCausesOf(refusal) {
			if cause.Field == about || strings.HasPrefix(cause.Field, about+".") {
				return fmt.Errorf("%w; the manifest leaves out .%s, but .%s belongs to %s, and an apply does not remove fields of other owners; remove it with: %s",
					refusal, strings.Join(l.part, "."), strings.Join(l.field, "."), l.owner, it.removalCommand(l.part))
			}
		}
	}
	for _, cause := range statusCausesOf(refusal) {
		if why := it.explainField(cause.Field, live, want); why != "" {
			return fmt.Errorf("%w; %s", refusal, why)
		}
	}
	return refusal
}

// explainField says why an apply does not remove a field that the API server refuses and the manifest does not have: another client
// owns it, or nobody, because the API server has filled it in. It is empty if the field is something else.
func (it *Item) explainField(field string, live, want map[string]any) string {
	path := strings.Split(field, ".")
	entries := managedEntriesOf(live)
	mine := entryOfOwnApplies(entries)
	if len(path) < 2 || mine == nil || hasNames(mine.fields, path, "f:") || !hasNames(live, path, "") || hasNames(want, path, "") {
		return ""
	}
	owns := func(e managedEntry) bool {
		return hasNames(e.fields, path, "f:") && !slices.Contains(it.TakesOver, e.manager)
	}
	if i := slices.IndexFunc(entries, owns); i >= 0 {
		return fmt.Sprintf(".%s is not in the manifest, but belongs to %s, and an apply does not remove fields of other owners; remove it with: %s",
			field, entries[i].manager, it.removalCommand(path))
	}
	const longest = 300 // bytes of a value in a message
	parent := path[:len(path)-1]
	value, _, _ := unstructured.NestedFieldNoCopy(want, parent...)
	if text, err := json.Marshal(value); err != nil || value == nil || len(text) > longest || it.isSecret() {
		return ""
	}
	return fmt.Sprintf(".%s is not in the manifest, but the API server has filled it in, so nobody owns it, and an apply does not remove it; replace what it is in with: %s",
		field, it.patchCommand("replace", parent, value))
}

// removalCommand is a command that removes a part of an object. Of a CRD's conversion it removes all, because a part of it is not
// valid.
func (it *Item) removalCommand(part []string) string {
	if it.isCRD() && len(part) > 2 && part[1] == "conversion" {
		part = part[:2]
	}
	return it.patchCommand("remove", part, nil)
}

// patchCommand is a command that removes what an object has at a path of names, or replaces it by a value.
func (it *Item) patchCommand(op string, names []string, value any) string {
	var path strings.Builder
	for _, name := range names {
		path.WriteString("/" + escapePointer(name))
	}
	step := map[string]any{"op": op, "path": path.String()}
	if value != nil {
		step["value"] = value
	}
	patch, err := json.Marshal([]any{step})
	if err != nil {
		return ""
	}
	quoted := strings.ReplaceAll(string(patch), "'", `'\''`)
	namespace := ""
	if it.Namespace != "" {
		namespace = " -n " + it.Namespace
	}
	return fmt.Sprintf("kubectl patch %s %s%s --type=json -p '%s'", crdOf(it), it.Name, namespace, quoted)
}

package installation

// How does an installed object differ from what this version installs? The API server is asked, by a dry run, what it would make of
// the manifest: with its defaults, and without what others have added. What an operator sets is taken from the installed object first.
// For example a Deployment with hostNetwork: true, which the manifest does not have.

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"sluice.dev/internal/brief"
)

// difference is a field of an installed object that is not as it should be. is and want are nil where there is none.
type difference struct {
	path     []any // names of fields, and indices of lists
	is, want any
}

// differencesOf compares an installed object with its manifest. refused says why the API server has made no dry run; then fields that
// others have added are not found.
//
// Fields outside of the named ones, such as status and metadata, are not compared: others write them.
func differencesOf(ctx context.Context, client dynamic.ResourceInterface, manifest, have *unstructured.Unstructured) (list []difference, refused error) {
	want := manifest.DeepCopy()
	want.Object["metadata"] = have.Object["metadata"]
	keepOperators(want, have)
	expected, _ := overlayWanted(have.Object, want.Object).(map[string]any)
	// The guard is asked about CRDs, and may be what is broken.
	short, cancel := context.WithTimeout(ctx, dryRunTime)
	defer cancel()
	made, refused := client.Update(short, want.DeepCopy(), metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if refused == nil {
		expected = made.Object
	}
	for _, field := range []string{"spec", "webhooks", "rules", "aggregationRule", "roleRef", "subjects"} {
		list = appendDifferences(list, []any{field}, have.Object[field], expected[field])
	}
	return list, refused
}

// dryRunTime bounds a dry run.
const dryRunTime = 5 * time.Second

// comparedKinds are the kinds of which an operator has no reason to change more than [keepOperators] knows.
var comparedKinds = []string{
	"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Role", "RoleBinding", "Service",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
}

// keepOperators takes over what operators and roles set: the values of the chart for Deployments, CA bundles, further subjects of a
// binding, and the accounts that may write the status of requests.
//
// want is changed in place. A field that an operator has removed is removed from want too.
func keepOperators(want, have *unstructured.Unstructured) {
	w, h := want.Object, have.Object
	switch want.GetKind() {
	case "Deployment":
		keepFields(fieldsAt(w, "spec"), fieldsAt(h, "spec"), "replicas")
		keepFields(fieldsAt(w, "spec", "template", "metadata"), fieldsAt(h, "spec", "template", "metadata"), "annotations")
		pod, theirs := fieldsAt(w, "spec", "template", "spec"), fieldsAt(h, "spec", "template", "spec")
		keepFields(pod, theirs, "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "priorityClassName", "imagePullSecrets")
		forSameName(pod["containers"], theirs["containers"], func(w, h map[string]any) {
			keepFields(w, h, "image", "imagePullPolicy", "resources")
			w["args"] = withSettableArguments(w["args"], h["args"])
			w["env"] = withProxies(w["env"], h["env"])
		})
		forSameName(pod["volumes"], theirs["volumes"], func(w, h map[string]any) {
			if w["name"] == "files" || w["name"] == "cache" { // what the resolver dir serves, and where mirrors are
				clear(w)
				maps.Copy(w, h)
			}
		})
	case "ValidatingWebhookConfiguration":
		forSameName(w["webhooks"], h["webhooks"], func(w, h map[string]any) {
			keepFields(fieldsAt(w, "clientConfig"), fieldsAt(h, "clientConfig"), "caBundle")
		})
	case "CustomResourceDefinition":
		keepFields(fieldsAt(w, "spec"), fieldsAt(h, "spec"), "conversion")
	case "RoleBinding", "ClusterRoleBinding":
		subjects, _ := w["subjects"].([]any)
		theirs, ok := h["subjects"].([]any)
		if ok && !slices.ContainsFunc(subjects, func(s any) bool {
			return !slices.ContainsFunc(theirs, func(t any) bool { return len(appendDifferences(nil, nil, t, overlayWanted(t, s))) == 0 })
		}) {
			w["subjects"] = theirs
		}
	case "ValidatingAdmissionPolicy":
		if want.GetName() == "resolutionrequests-status.sluice.dev" {
			keepFields(fieldsAt(w, "spec"), fieldsAt(h, "spec"), "variables")
		}
	}
}

// settable are the arguments that values of the chart give and nothing else tells.
var settable = []string{"--debug", "--flux-source-controller", "--log-format", "--log-level", "--other-resolvers"}

// withProxies returns the environment of a manifest with the proxies that a container has.
func withProxies(want, have any) any {
	w, _ := want.([]any)
	h, _ := have.([]any)
	for _, v := range h {
		if name := strings.ToUpper(fmt.Sprint(asObject(v)["name"])); slices.Contains([]string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}, name) {
			w = append(slices.Clip(w), v)
		}
	}
	if w == nil {
		return want
	}
	return w
}

// withSettableArguments returns the arguments of a manifest in the order of those that a container has, with its settable ones.
//
// The order of arguments means nothing to the programs, so another order is no difference. An argument of the container that is
// neither wanted nor settable is left out, and so found as a difference.
func withSettableArguments(want, have any) any {
	w, _ := want.([]any)
	h, _ := have.([]any)
	var out []any
	for _, arg := range h {
		name, _, _ := strings.Cut(fmt.Sprint(arg), "=")
		if slices.Contains(w, arg) || slices.Contains(settable, name) {
			out = append(out, arg)
		}
	}
	for _, arg := range w {
		if !slices.Contains(out, arg) {
			out = append(out, arg)
		}
	}
	return out
}

// fieldsAt returns a map within an object; an empty one if there is none.
func fieldsAt(object map[string]any, path ...string) map[string]any {
	found, _, _ := unstructured.NestedFieldNoCopy(object, path...) // another type is as good as none
	if m, ok := found.(map[string]any); ok {
		return m
	}
	return map[string]any{}
}

// keepFields takes fields from another map, also that they are missing.
//
// For example, an operator has removed the resources of a container: then the manifest loses them too, and there is no difference.
func keepFields(to, from map[string]any, names ...string) {
	for _, name := range names {
		if value, ok := from[name]; ok {
			to[name] = value
		} else {
			delete(to, name)
		}
	}
}

// forSameName calls a function for each pair of items with the same name.
//
// Items that only one of the lists has are left alone, and so found as differences.
func forSameName(want, have any, do func(w, h map[string]any)) {
	w, _ := want.([]any)
	h, _ := have.([]any)
	for _, x := range w {
		for _, y := range h {
			if x, y := asObject(x), asObject(y); x["name"] == y["name"] {
				do(x, y)
			}
		}
	}
}

func asObject(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// overlayWanted returns what is there with the fields that are wanted, as an apply without knowledge of the schema would make it.
//
// It stands in where the API server makes no dry run. Items of lists are matched by their position.
func overlayWanted(have, want any) any {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return want
		}
		out := maps.Clone(h)
		for k, v := range w {
			out[k] = overlayWanted(h[k], v)
		}
		return out
	case []any:
		h, ok := have.([]any)
		if !ok {
			return want
		}
		out := make([]any, len(w))
		for i := range w {
			out[i] = overlayWanted(itemAt(h, i), w[i])
		}
		return out
	}
	return want
}

// appendDifferences appends the fields in which two values differ, each as near to the leaves as possible.
//
// Lists are compared by position. Lists of different lengths are compared item by item only if they begin alike; otherwise the whole
// list is one difference, because each item would differ. path has the steps from the object to the values.
func appendDifferences(list []difference, path []any, is, want any) []difference {
	switch h := is.(type) {
	case map[string]any:
		w, ok := want.(map[string]any)
		if !ok {
			break
		}
		keys := slices.Collect(maps.Keys(h))
		for k := range w {
			if _, ok := h[k]; !ok {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			list = appendDifferences(list, append(slices.Clip(path), k), h[k], w[k])
		}
		return list
	case []any:
		w, ok := want.([]any)
		if !ok || len(h) != len(w) && !beginAlike(h, w) {
			break
		}
		for i := range max(len(h), len(w)) {
			list = appendDifferences(list, append(slices.Clip(path), i), itemAt(h, i), itemAt(w, i))
		}
		return list
	}
	if empty, ok := want.([]any); is == nil && ok && len(empty) == 0 {
		return list // the API server leaves an empty list out
	}
	if fmt.Sprint(is) == fmt.Sprint(want) { // numbers come as int64 or float64
		return list
	}
	return append(list, difference{path, is, want})
}

// beginAlike reports whether lists of different lengths differ in what stands at the end of the longer one: by the names of items, or
// by the items themselves if they have none.
func beginAlike(h, w []any) bool {
	for i := range min(len(h), len(w)) {
		a, b := asObject(h[i])["name"], asObject(w[i])["name"]
		if a == nil && b == nil {
			a, b = h[i], w[i]
		}
		if fmt.Sprint(a) != fmt.Sprint(b) {
			return false
		}
	}
	return true
}

// itemAt returns an item of a list; nil beyond its end.
func itemAt(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// String says what is wrong with the field.
func (d difference) String() string {
	var field strings.Builder
	for _, step := range d.path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&field, "[%d]", step)
		default:
			fmt.Fprintf(&field, ".%v", step)
		}
	}
	name := strings.TrimPrefix(field.String(), ".")
	switch {
	case d.is == nil:
		return fmt.Sprintf("%s is missing, and should be %s", name, shortJSON(d.want))
	case d.want == nil:
		return fmt.Sprintf("%s is %s, and should not be set", name, shortJSON(d.is))
	}
	return fmt.Sprintf("%s is %s, and should be %s", name, shortJSON(d.is), shortJSON(d.want))
}

func shortJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return brief.Cut(string(text), 80)
}

// patchOf is the JSON patch (RFC 6902) that removes differences. Its last operations remove fields and items, the last item first, so
// that they move no other one.
//
// The path of an operation may have indices. An addition at the end of a list moves nothing, and a removal moves all items behind it.
func patchOf(list []difference) string {
	var removals []difference
	list = slices.DeleteFunc(slices.Clone(list), func(d difference) bool {
		if d.want == nil {
			removals = append([]difference{d}, removals...)
		}
		return d.want == nil
	})
	list = append(list, removals...)
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	out := make([]operation, len(list))
	for i, d := range list {
		var pointer strings.Builder
		for _, step := range d.path {
			pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(fmt.Sprint(step)))
		}
		out[i] = operation{"replace", pointer.String(), d.want}
		switch {
		case d.is == nil:
			out[i].Op = "add"
		case d.want == nil:
			out[i].Op = "remove"
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err.Error() // JSON that was read can be written
	}
	return string(text)
}

// Package refs works with references to remote resources inside a resource. It finds them, resolves their meaning at the place that
// the resource was fetched from, rewrites them, and collects the resources that they refer to.
//
// A resource in git that refers to its neighbours means those of its own commit. A reference without a repository means the
// resource's own. A reference to that repository gets the fetched commit if it has no revision, or the revision that the resource
// was fetched by. Bundles work alike, by digest. A reference that names another revision, repository or resolver stays as it is.
//
// Content may be hostile, so the package promises bounds on depth, on the number of references and on the size of a collection. It
// does not fetch, and does not decide about access: the fetch function does. A signature does not cover a rewritten resource, so
// verify before you rewrite.
package refs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/internal/yamlerr"
	"sluice.dev/requester"
)

const (
	// maxFound bounds the references in a resource.
	maxFound = 1000
	// maxDepth bounds the nesting of objects.
	maxDepth = 200
)

// Found is a reference inside a resource.
type Found struct {
	// Document is the number of the YAML document, from 0. Path is the place of the reference in it, such as spec.tasks[2].taskRef.
	// Line counts from 1.
	Document int
	Path     string
	Line     int
	// Kind is the kind that it refers to, in lower case: task, pipeline, stepaction; empty if it is not given.
	Kind string
	// Name is set for a reference without a resolver, to an object in the same namespace; otherwise it is empty.
	Name string
	// Ref is the reference. Its resolver is empty if Name is set.
	Ref requester.Ref
	// Variable: the reference has variables, $(params.x), so only a run knows its meaning.
	Variable bool

	node *yaml.Node
	// older: its parameters are under resource.
	older bool
}

// Find lists the references in a stream of YAML (or JSON) objects, in their order. Two forms count, at any place. The first is a
// mapping with resolver and params or url, or resolver and resource in the older syntax. The second is a taskRef, a pipelineRef or the ref
// of a step with a bundle or a name. Data that is not YAML is an error.
func Find(data []byte) ([]Found, error) {
	docs, err := yamlerr.Documents(data)
	if err != nil {
		return nil, err
	}
	return findRefs(docs)
}

// findRefs lists the references in all documents, in the order of the text.
func findRefs(docs []*yaml.Node) ([]Found, error) {
	w := walker{aliased: map[*yaml.Node]bool{}}
	for i, doc := range docs {
		w.document = i
		if err := w.walkNode(doc, nil, 0); err != nil {
			return nil, err
		}
	}
	return w.found, nil
}

type walker struct {
	document int
	found    []Found
	// aliased has the anchors that were walked already. Each is walked once, however often it is used.
	aliased map[*yaml.Node]bool
}

// walkNode visits a node and all below it. It does not look inside a reference: what stands there is for the resolver. Each anchor is
// walked once, so that aliases of aliases cannot make the walk grow.
func (w *walker) walkNode(n *yaml.Node, path []string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			if err := w.walkNode(c, path, depth+1); err != nil {
				return err
			}
		}
	case yaml.AliasNode:
		if n.Alias == nil || w.aliased[n.Alias] {
			return nil
		}
		w.aliased[n.Alias] = true
		return w.walkNode(n.Alias, path, depth+1)
	case yaml.SequenceNode:
		for i, c := range n.Content {
			if err := w.walkNode(c, append(slices.Clip(path), fmt.Sprintf("[%d]", i)), depth+1); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		if n.Anchor != "" {
			w.aliased[n] = true
		}
		if f, ok := referenceIn(n, path); ok {
			if len(w.found) == maxFound {
				return fmt.Errorf("it has more than %d references", maxFound)
			}
			f.Document, f.Path, f.Line, f.node = w.document, joinPath(path), n.Line, n
			w.found = append(w.found, f)
			return nil
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if err := w.walkNode(n.Content[i+1], append(slices.Clip(path), n.Content[i].Value), depth+1); err != nil {
				return err
			}
		}
	case yaml.ScalarNode:
	}
	return nil
}

func joinPath(path []string) string {
	return strings.ReplaceAll(strings.Join(path, "."), ".[", "[")
}

// fields are the keys that a reference can have.
type fields struct {
	Name, Kind, Bundle, Resolver, URL string
	APIVersion                        string `yaml:"apiVersion"`
	Params                            []param
	Resource                          yaml.Node
}

type param struct {
	Name  string
	Value yaml.Node
}

// referenceIn reads a mapping that may be a reference.
func referenceIn(n *yaml.Node, path []string) (Found, bool) {
	var last, before string
	if len(path) > 0 {
		last = path[len(path)-1]
	}
	if len(path) > 2 {
		before = path[len(path)-3]
	}
	kinds := map[string]string{"taskRef": "task", "pipelineRef": "pipeline"}
	usual, isRef := kinds[last]
	if last == "ref" && before == "steps" {
		usual, isRef = "stepaction", true
	}
	var f fields
	// A mapping that does not decode is no reference: params may mean anything elsewhere.
	if err := n.Decode(&f); err != nil {
		return Found{}, false
	}
	has := f.Params != nil || f.Resource.Kind != 0
	out := Found{Kind: strings.ToLower(f.Kind)}
	out.Kind = cmp.Or(out.Kind, usual)
	ok := false
	switch {
	case f.Resolver != "" && (has || isRef || f.URL != ""):
		out.Ref, ok = f.toRef()
		out.older = f.Resource.Kind != 0
	case f.Resolver != "" || !isRef:
	case f.Bundle != "":
		out.Ref, ok = requester.Ref{Resolver: "bundles", Params: []v1beta1.Param{
			{Name: "bundle", Value: v1beta1.StringValue(f.Bundle)},
			{Name: "name", Value: v1beta1.StringValue(f.Name)},
			{Name: "kind", Value: v1beta1.StringValue(out.Kind)},
		}}, true
	case f.Name != "" && isTektonKind(f.APIVersion):
		out.Name, ok = f.Name, true
	}
	out.Variable = strings.Contains(f.Name, "$(") || hasVariable(out.Ref)
	return out, ok
}

// isTektonKind reports whether a local reference is to a kind of Tekton's own, not to a custom task.
func isTektonKind(apiVersion string) bool {
	gv, err := schema.ParseGroupVersion(apiVersion)
	return apiVersion == "" || err == nil && gv.Group == "tekton.dev"
}

// toRef reads both syntaxes of parameters.
func (f fields) toRef() (requester.Ref, bool) {
	r := requester.Ref{Resolver: f.Resolver, URL: f.URL}
	if r.URL == "" && strings.Contains(f.Name, "://") {
		r.URL = f.Name // TEP-0154, as Tekton has it
	}
	params := f.Params
	switch f.Resource.Kind {
	case yaml.SequenceNode:
		var older []param
		if f.Resource.Decode(&older) != nil {
			return r, false
		}
		params = append(params, older...)
	case yaml.MappingNode:
		var older map[string]yaml.Node
		if f.Resource.Decode(&older) != nil {
			return r, false
		}
		for _, name := range slices.Sorted(maps.Keys(older)) {
			params = append(params, param{Name: name, Value: older[name]})
		}
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode: // as if it were not there
	}
	for _, p := range params {
		v, ok := paramValue(p.Value)
		if !ok {
			return r, false
		}
		r.Params = append(r.Params, v1beta1.Param{Name: p.Name, Value: v})
	}
	return r, true
}

// paramValue reads the value of a parameter. A number or a boolean counts as the text that stands in the file.
func paramValue(n yaml.Node) (v1beta1.ParamValue, bool) {
	switch n.Kind {
	case yaml.SequenceNode:
		var list []string
		err := n.Decode(&list)
		return v1beta1.ArrayValue(list...), err == nil
	case yaml.MappingNode:
		var object map[string]string
		err := n.Decode(&object)
		return v1beta1.ObjectValue(object), err == nil
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
	var text string
	err := n.Decode(&text)
	return v1beta1.StringValue(text), err == nil
}

// hasVariable reports whether a reference has a variable of Tekton, $(params.x), anywhere.
func hasVariable(r requester.Ref) bool {
	if strings.Contains(r.URL, "$(") {
		return true
	}
	for _, p := range r.Params {
		texts := append([]string{p.Value.StringVal}, p.Value.ArrayVal...)
		for _, v := range p.Value.ObjectVal {
			texts = append(texts, v)
		}
		if strings.Contains(strings.Join(texts, "\n"), "$(") {
			return true
		}
	}
	return strings.Contains(r.Resolver, "$(")
}

package refs

import (
	"bytes"
	"cmp"
	"path"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/equality"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/internal/yamlerr"
	"sluice.dev/requester"
)

// Origin is the place that a resource was fetched from.
type Origin struct {
	// Ref is the reference that it was fetched by.
	Ref requester.Ref
	// Source is the source that the resolver gives; nil if it is not known, and then nothing is pinned.
	Source *v1beta1.RefSource
	// Annotations are those that the resolver gives. By [resolution.AnnotationRevisions], other names of the revision mean the same
	// commit.
	Annotations map[string]string
	// Pins are the commits and digests that the run has seen; nil: only those of this origin.
	Pins *Pins
}

// Remotes returns the default remote of a reference without a resolver; false leaves the reference alone. The kind is in lower
// case.
type Remotes func(kind, name string) (requester.Ref, bool)

// Templates are default remotes: references by kind, or by "" for all other kinds. In their parameters and URLs, {name} and {kind} stand for
// the name and the kind of the reference.
func Templates(by map[string]requester.Ref) Remotes {
	return func(kind, name string) (requester.Ref, bool) {
		t, ok := by[kind]
		if !ok {
			t, ok = by[""]
		}
		if !ok {
			return requester.Ref{}, false
		}
		fill := strings.NewReplacer("{name}", name, "{kind}", kind).Replace
		out := requester.Ref{Resolver: t.Resolver, URL: fill(t.URL)}
		for _, p := range parametersOf(t) {
			p = *p.DeepCopy()
			p.Value.StringVal = fill(p.Value.StringVal)
			for i := range p.Value.ArrayVal {
				p.Value.ArrayVal[i] = fill(p.Value.ArrayVal[i])
			}
			for k := range p.Value.ObjectVal {
				p.Value.ObjectVal[k] = fill(p.Value.ObjectVal[k])
			}
			out.Params = append(out.Params, p)
		}
		return out, true
	}
}

// parametersOf returns the parameters of either syntax. If a reference has both, its resolver will refuse it; then the newer ones
// count.
func parametersOf(r requester.Ref) []v1beta1.Param {
	if out, err := r.Parameters(); err == nil {
		return out
	}
	return slices.Clone(r.Params)
}

// params are parameters of a reference, in their order.
type params []v1beta1.Param

// firstValue returns the first parameter of these names that has a string and is not empty.
func (p params) firstValue(names ...string) string {
	for _, q := range p {
		if slices.Contains(names, q.Name) && q.Value.StringVal != "" {
			return q.Value.StringVal
		}
	}
	return ""
}

// withValue replaces a parameter, whichever of the names it has, by one with the first name.
func (p params) withValue(text string, names ...string) params {
	value := v1beta1.Param{Name: names[0], Value: v1beta1.StringValue(text)}
	at := slices.IndexFunc(p, func(q v1beta1.Param) bool { return slices.Contains(names, q.Name) })
	p = slices.DeleteFunc(slices.Clone(p), func(q v1beta1.Param) bool { return slices.Contains(names, q.Name) })
	if at < 0 {
		return append(p, value)
	}
	return slices.Insert(p, min(at, len(p)), value)
}

// Names of parameters, each with its name in TEP-0060.
var (
	gitURL      = []string{"url", "repository_url"}
	gitRevision = []string{"revision", "branch", "commit"}
	gitPath     = []string{"pathInRepo", "path"}
	image       = []string{"bundle", "image_url"}

	// gitPlace and imagePlace are the parameters for the place of a repository or an image, and for its credentials. A reference
	// without a place gets those of its origin.
	gitPlace   = []string{"url", "repository_url", "org", "repo", "scmType", "serverURL", "configKey", "gitToken", "gitTokenKey", "authSecret", "token", "tokenKey"}
	imagePlace = []string{"bundle", "image_url", "secret", "serviceAccount", "signer"}
)

// Effective returns the meaning of a reference inside a resource of this origin. A reference that names no resolver gets its
// default remote. A reference to the origin's own repository without a revision, or to its own image, gets the commit or digest that
// was fetched; so does one to a revision or a tag that the pins have. False means a local reference, which no resolver fetches.
func (o Origin) Effective(f Found, remotes Remotes) (requester.Ref, bool) {
	ref := f.Ref
	if ref.Resolver == "" {
		if f.Name == "" || remotes == nil {
			return requester.Ref{}, false
		}
		var ok bool
		if ref, ok = remotes(f.Kind, f.Name); !ok {
			return requester.Ref{}, false
		}
	}
	ref = requester.Ref{Resolver: ref.Resolver, URL: ref.URL, Params: parametersOf(ref)}
	if o.Source != nil && resolution.Canonical(ref.Resolver) == resolution.Canonical(o.Ref.Resolver) {
		switch resolution.Canonical(ref.Resolver) {
		case "git":
			ref.Params = o.pinGit(ref.Params)
		case "bundles":
			ref.Params = o.pinImage(ref.Params)
		}
	}
	pins := o.Pins
	if pins == nil {
		pins = &Pins{}
		pins.addRevisions(o)
	}
	if pinned, ok := pins.pinnedRef(ref); ok {
		ref = pinned
	}
	return ref, true
}

// pinGit gives a reference to the origin's own repository the origin's commit if it names no revision, and completes one that names no
// repository by the place of the origin. A path that begins with ./ or ../ is then relative to the origin. It leaves other references
// as they are.
func (o Origin) pinGit(p params) params {
	own := params(parametersOf(o.Ref))
	commit := cmp.Or(o.Source.Digest["sha1"], o.Source.Digest["sha256"])
	repository, ok := strings.CutPrefix(o.Source.URI, "git+")
	if !ok || commit == "" {
		return p
	}
	switch {
	case p.firstValue("url", "repository_url", "repo") != "":
		if !slices.Contains(repositoriesOf(own, o.Source), repositoryOf(p)) {
			return p
		}
	case slices.ContainsFunc([]string{"org", "scmType", "serverURL", "configKey"}, func(n string) bool { return p.firstValue(n) != "" && p.firstValue(n) != own.firstValue(n) }):
		// It names another place, which must not get the credential of the origin.
		return p
	default:
		p = inheritParams(p, own, gitPlace)
		if own.firstValue("url", "repository_url", "repo") == "" {
			// The origin came from the operator's default.
			p = p.withValue(repository, gitURL...)
		}
		if file := p.firstValue(gitPath...); strings.HasPrefix(file, "./") || strings.HasPrefix(file, "../") {
			// The resolver refuses paths that lead out of the repository.
			if joined := path.Join(path.Dir(strings.TrimLeft(o.Source.EntryPoint, "/")), file); joined != ".." && !strings.HasPrefix(joined, "../") {
				p = p.withValue(joined, gitPath...)
			}
		}
	}
	if p.firstValue(gitRevision...) == "" {
		p = p.withValue(commit, gitRevision...)
	}
	return p
}

// pinImage completes a reference without an image by the origin's, with the digest that was fetched. It leaves other references as
// they are.
func (o Origin) pinImage(p params) params {
	own := params(parametersOf(o.Ref))
	digest := o.Source.Digest["sha256"]
	if digest == "" || o.Source.URI == "" {
		return p
	}
	if p.firstValue(image...) != "" {
		return p
	}
	return inheritParams(p, own, imagePlace).withValue(o.Source.URI+"@sha256:"+digest, image...)
}

// inheritParams adds parameters of the origin that the reference does not set.
func inheritParams(p, own params, names []string) params {
	out := slices.Clone(p)
	for _, q := range own {
		if slices.Contains(names, q.Name) && p.firstValue(q.Name) == "" {
			out = append(out, *q.DeepCopy())
		}
	}
	return out
}

// Rewrite returns the resource with its references replaced by [Origin.Effective]. Comments and all else stay; the indentation may
// change. References with variables stay. If there is nothing to replace, the result is data itself.
func Rewrite(data []byte, o Origin, remotes Remotes) ([]byte, error) {
	docs, err := yamlerr.Documents(data)
	if err != nil {
		return nil, err
	}
	found, err := findRefs(docs)
	if err != nil {
		return nil, err
	}
	changed := false
	for _, f := range found {
		ref, ok := o.Effective(f, remotes)
		if !ok || f.Variable || !f.older && equality.Semantic.DeepEqual(ref, f.Ref) {
			continue
		}
		if err := replaceRef(f.node, ref); err != nil {
			return nil, err
		}
		changed = true
	}
	if !changed {
		return data, nil
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	for _, doc := range docs {
		if err := enc.Encode(doc); err != nil {
			return nil, err
		}
	}
	err = enc.Close()
	return out.Bytes(), err
}

// replaceRef puts a reference into a mapping. Other keys of the mapping stay.
func replaceRef(n *yaml.Node, ref requester.Ref) error {
	if hasMerge(n) {
		// Merged keys cannot be removed.
		var all map[string]any
		flat := yaml.Node{}
		if err := n.Decode(&all); err != nil {
			return err
		}
		if err := flat.Encode(all); err != nil {
			return err
		}
		n.Content = flat.Content
	}
	var content []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		isURL := n.Content[i].Value == "name" && ref.URL != "" && n.Content[i+1].Value == ref.URL
		if isURL || !slices.Contains([]string{"name", "bundle", "resource", "resolver", "params"}, n.Content[i].Value) {
			content = append(content, n.Content[i], n.Content[i+1])
		}
	}
	type entry struct {
		Name  string `yaml:"name"`
		Value any    `yaml:"value"`
	}
	list := make([]entry, 0, len(ref.Params))
	for _, p := range ref.Params {
		var v any = p.Value.StringVal
		switch p.Value.Type {
		case v1beta1.ParamTypeArray:
			v = p.Value.ArrayVal
		case v1beta1.ParamTypeObject:
			v = p.Value.ObjectVal
		case v1beta1.ParamTypeString:
		}
		list = append(list, entry{p.Name, v})
	}
	var added yaml.Node
	if err := added.Encode(struct {
		Resolver string  `yaml:"resolver"`
		Params   []entry `yaml:"params"`
	}{ref.Resolver, list}); err != nil {
		return err
	}
	n.Content = append(content, added.Content...)
	return nil
}

func hasMerge(n *yaml.Node) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "<<" {
			return true
		}
	}
	return false
}

// Package featureusage counts which stored objects use the features of components.
//
// It lists each resource in pages, one object in memory at a time; what it keeps is a count for each feature and namespace,
// as many names as it is told to, and where objects have to be read in two versions which of them were counted. It only
// reads. What a use is, package feature decides.
package featureusage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	apiversion "k8s.io/apimachinery/pkg/version"

	"sluice.dev/feature"
	"sluice.dev/internal/cluster"
)

// Resource says how the objects of a resource are stored.
type Resource struct {
	Group, Resource string
	// Storage is the version that they are stored in; empty where it is not known.
	Storage string
	// Namespaced tells whether they stand in namespaces.
	Namespaced bool
}

// Scan says what to count.
type Scan struct {
	Cluster *cluster.Cluster
	// Models are of different components. Every object is read once for all of them.
	Models []*feature.Model
	// Gates are the features to count, of each model; nil stands for all that gate parts.
	Gates []string
	// Resources are those that the features gate. A feature's parts in others are not counted.
	Resources []Resource
	// Namespace restricts the count to one; empty: all, and what stands in none.
	Namespace string
	// Names is how many objects are named of each feature, at most.
	Names int
	// Progress, where not nil, is called after each page.
	Progress func(resource string, objects int64)
	// Between, where not nil, is called between two pages of a listing. An error of it ends the scan and is returned.
	Between func(ctx context.Context) error
}

// Usage is what uses one feature.
type Usage struct {
	Component, Gate string
	// Objects is how many objects use it, Uses how often in all.
	Objects, Uses int64
	// Namespaces are sorted by name; objects that stand in none are under the empty name.
	Namespaces []Namespace
	// Objects that are named, in the order of the listing: [Scan].Names at most.
	Names []Object
}

// Namespace counts the uses in one namespace.
type Namespace struct {
	Name    string `json:"namespace,omitempty"`
	Objects int64  `json:"objects"`
	Uses    int64  `json:"uses"`
}

// Object is one that uses a feature.
type Object struct {
	Group, Resource, Namespace, Name string
	// Uses is how often it does, Path where it does first.
	Uses int
	Path string
}

// Result is what was counted.
type Result struct {
	// Usage has an entry for each feature that was looked for, sorted by component and gate.
	Usage []Usage
	// Scanned is how many objects were looked at.
	Scanned int64
}

// Of returns the usage of a feature; nil if it was not looked for.
func (r *Result) Of(component, gate string) *Usage {
	for i := range r.Usage {
		if u := &r.Usage[i]; u.Component == component && u.Gate == gate {
			return u
		}
	}
	return nil
}

// Run counts. Objects are read in the version that they are stored in; each part that this version does not have is looked
// for in one that has it, the most stable and newest of those. An object counts once for a feature however many parts it
// uses, in however many versions. The error says which listing failed.
func (s *Scan) Run(ctx context.Context) (*Result, error) {
	c := &counter{scan: s, result: &Result{}, counts: map[key]*count{}}
	for _, m := range s.Models {
		for _, f := range m.Features() {
			if len(f.Targets) > 0 && (s.Gates == nil || slices.Contains(s.Gates, f.Spec.Gate)) {
				k := key{m.Component(), f.Spec.Gate}
				c.counts[k] = &count{Usage: Usage{Component: k.component, Gate: k.gate}, feature: f, namespaces: map[string]*Namespace{}}
			}
		}
	}
	for _, l := range c.chooseListings() {
		if err := c.countListing(ctx, &l); err != nil {
			return nil, err
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.counts), func(a, b key) int { return cmp.Or(cmp.Compare(a.component, b.component), cmp.Compare(a.gate, b.gate)) }) {
		n := c.counts[k]
		for _, name := range slices.Sorted(maps.Keys(n.namespaces)) {
			n.Namespaces = append(n.Namespaces, *n.namespaces[name])
		}
		c.result.Usage = append(c.result.Usage, n.Usage)
	}
	return c.result, nil
}

type key struct{ component, gate string }

type count struct {
	Usage

	feature    *feature.Feature
	namespaces map[string]*Namespace
}

type counter struct {
	scan   *Scan
	result *Result
	counts map[key]*count
}

// listing is one pass over the objects of a resource.
type listing struct {
	*Resource

	version    string
	inspectors []*feature.Inspector // of what is looked for in this pass, for each model
	// counted are the objects that were counted for a feature, by UID, shared by the passes of one resource. Features that
	// are looked for in one pass only are not among its keys.
	counted map[key]map[string]bool
}

// chooseListings chooses the versions to list: that of storage first, then others for parts that it does not have.
func (c *counter) chooseListings() (out []listing) {
	for i := range c.scan.Resources {
		r := &c.scan.Resources[i]
		if c.scan.Namespace != "" && !r.Namespaced {
			continue
		}
		passes := map[string]map[*feature.Target]bool{} // what to look for, by version
		counted := map[key]map[string]bool{}
		for k, n := range c.counts {
			in := map[string]bool{}
			for version, targets := range passesOf(n.feature, r) {
				in[version] = true
				if passes[version] == nil {
					passes[version] = map[*feature.Target]bool{}
				}
				for _, t := range targets {
					passes[version][t] = true
				}
			}
			if len(in) > 1 {
				counted[k] = map[string]bool{}
			}
		}
		versions := slices.Sorted(maps.Keys(passes))
		if i := slices.Index(versions, r.Storage); i > 0 {
			versions = slices.Insert(slices.Delete(versions, i, i+1), 0, r.Storage)
		}
		for _, version := range versions {
			var inspectors []*feature.Inspector
			for _, m := range c.scan.Models {
				inspectors = append(inspectors, m.InspectorFor(func(_ *feature.Feature, t *feature.Target) bool { return passes[version][t] }))
			}
			out = append(out, listing{r, version, inspectors, counted})
		}
	}
	slices.SortStableFunc(out, func(a, b listing) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource.Resource, b.Resource.Resource))
	})
	return out
}

// passesOf says in which versions to look for which parts of a feature: in that of storage whatever is there, and whole
// versions, which show in every version; each other part in the most stable and newest of its versions.
func passesOf(f *feature.Feature, r *Resource) map[string][]*feature.Target {
	out := map[string][]*feature.Target{}
	var rest []*feature.Target
	for i := range f.Targets {
		t := &f.Targets[i]
		switch {
		case t.Group != r.Group || t.Resource != r.Resource:
		case r.Storage != "" && (t.WholeVersion || t.Version == "" || t.Version == r.Storage):
			out[r.Storage] = append(out[r.Storage], t)
		default:
			rest = append(rest, t)
		}
	}
	slices.SortStableFunc(rest, func(a, b *feature.Target) int { return apiversion.CompareKubeAwareVersionStrings(b.Version, a.Version) })
	for _, t := range rest {
		if !slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(out))...), func(o *feature.Target) bool { return samePart(f, o, t) }) {
			out[t.Version] = append(out[t.Version], t)
		}
	}
	return out
}

// samePart tells whether two targets are one thing in two versions: of one part, or of two that differ in their versions only.
func samePart(f *feature.Feature, a, b *feature.Target) bool {
	x, y := f.Spec.Parts[a.Part], f.Spec.Parts[b.Part]
	if x.WholeVersion || y.WholeVersion {
		return a == b
	}
	x.Versions, y.Versions = nil, nil
	return equality.Semantic.DeepEqual(x, y)
}

// countListing lists the objects of one resource in one version, page by page, and counts what they use. The
// error says which resource could not be listed.
func (c *counter) countListing(ctx context.Context, l *listing) error {
	path := "/apis/" + l.Group + "/" + l.version
	if l.Group == "" {
		path = "/api/" + l.version
	}
	if c.scan.Namespace != "" {
		path += "/namespaces/" + c.scan.Namespace
	}
	name := strings.TrimSuffix(l.Resource.Resource+"."+l.Group, ".")
	o := cluster.EachOptions{Page: func(remaining int64) error {
		if c.scan.Progress != nil {
			c.scan.Progress(name, c.result.Scanned)
		}
		if c.scan.Between != nil && remaining != 0 {
			return c.scan.Between(ctx)
		}
		return nil
	}}
	err := c.scan.Cluster.Each(ctx, path+"/"+l.Resource.Resource, o, func(raw []byte) error {
		var object map[string]any
		if err := utiljson.Unmarshal(raw, &object); err != nil {
			return fmt.Errorf("an object that the server sent cannot be read: %w", err)
		}
		c.result.Scanned++
		c.countObject(l, object)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// countObject counts the uses of one object. If an earlier pass has counted it for a feature, in another
// version, only its uses are added: the object is the same one.
func (c *counter) countObject(l *listing, object map[string]any) {
	meta, _ := object["metadata"].(map[string]any)
	namespace, _ := meta["namespace"].(string)
	name, _ := meta["name"].(string)
	uid, _ := meta["uid"].(string)
	for i, inspector := range l.inspectors {
		component := c.scan.Models[i].Component()
		for _, use := range inspector.Uses(l.Group, l.version, l.Resource.Resource, object) {
			k := key{component, use.Feature.Spec.Gate}
			n := c.counts[k]
			again := false
			if seen := l.counted[k]; seen != nil {
				again = seen[uid]
				seen[uid] = true
			}
			in := n.namespaces[namespace]
			if in == nil {
				in = &Namespace{Name: namespace}
				n.namespaces[namespace] = in
			}
			n.Uses += int64(use.Count)
			in.Uses += int64(use.Count)
			if again {
				continue
			}
			n.Objects++
			in.Objects++
			if len(n.Names) < c.scan.Names {
				n.Names = append(n.Names, Object{l.Group, l.Resource.Resource, namespace, name, use.Count, use.Path})
			}
		}
	}
}

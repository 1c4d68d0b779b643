// Package featureusage counts which stored objects use the features of components.
//
// It lists each resource in pages, one object in memory at a time; what it keeps is a count for each feature and namespace,
// and as many names as it is told to. It only reads. What a use is, package feature decides.
package featureusage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	Name          string
	Objects, Uses int64
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

// Run counts. Objects are read in the version that they are stored in; parts that this version does not have are looked for
// in one that has them, the most stable and newest of those. The error says which listing failed.
func (s *Scan) Run(ctx context.Context) (*Result, error) {
	c := &counter{scan: s, result: &Result{}, counts: map[key]*count{}}
	for _, m := range s.Models {
		c.inspectors = append(c.inspectors, m.Inspector())
		for _, f := range m.Features() {
			if len(f.Targets) > 0 && (s.Gates == nil || slices.Contains(s.Gates, f.Spec.Gate)) {
				k := key{m.Component(), f.Spec.Gate}
				c.counts[k] = &count{Usage: Usage{Component: k.component, Gate: k.gate}, feature: f, namespaces: map[string]*Namespace{}}
			}
		}
	}
	for _, l := range c.listings() {
		if err := c.list(ctx, &l); err != nil {
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
	scan       *Scan
	inspectors []*feature.Inspector // of each model
	result     *Result
	counts     map[key]*count
}

// listing is one pass over the objects of a resource.
type listing struct {
	*Resource

	version string
	counted map[key]bool // in this pass
}

// listings chooses the versions to list: that of storage first, others for features that have no part in it.
func (c *counter) listings() (out []listing) {
	for i := range c.scan.Resources {
		r := &c.scan.Resources[i]
		if c.scan.Namespace != "" && !r.Namespaced {
			continue
		}
		passes := map[string]map[key]bool{} // features by version
		for k, n := range c.counts {
			versions := versionsOf(n.feature, r)
			if versions == nil {
				continue
			}
			version := slices.MaxFunc(versions, apiversion.CompareKubeAwareVersionStrings)
			if slices.Contains(versions, r.Storage) || slices.Contains(versions, "") && r.Storage != "" {
				version = r.Storage
			}
			if passes[version] == nil {
				passes[version] = map[key]bool{}
			}
			passes[version][k] = true
		}
		for _, version := range slices.Sorted(maps.Keys(passes)) {
			out = append(out, listing{r, version, passes[version]})
		}
	}
	slices.SortStableFunc(out, func(a, b listing) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource.Resource, b.Resource.Resource))
	})
	return out
}

// versionsOf returns the versions in which a feature has parts of a resource.
func versionsOf(f *feature.Feature, r *Resource) (out []string) {
	for i := range f.Targets {
		if t := &f.Targets[i]; t.Group == r.Group && t.Resource == r.Resource && !slices.Contains(out, t.Version) {
			out = append(out, t.Version)
		}
	}
	return out
}

func (c *counter) list(ctx context.Context, l *listing) error {
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
		c.object(l, object)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (c *counter) object(l *listing, object map[string]any) {
	meta, _ := object["metadata"].(map[string]any)
	namespace, _ := meta["namespace"].(string)
	name, _ := meta["name"].(string)
	for i, in := range c.inspectors {
		component := c.scan.Models[i].Component()
		for _, use := range in.Uses(l.Group, l.version, l.Resource.Resource, object) {
			k := key{component, use.Feature.Spec.Gate}
			if !l.counted[k] {
				continue
			}
			n := c.counts[k]
			n.Objects++
			n.Uses += int64(use.Count)
			in := n.namespaces[namespace]
			if in == nil {
				in = &Namespace{Name: namespace}
				n.namespaces[namespace] = in
			}
			in.Objects++
			in.Uses += int64(use.Count)
			if len(n.Names) < c.scan.Names {
				n.Names = append(n.Names, Object{l.Group, l.Resource.Resource, namespace, name, use.Count, use.Path})
			}
		}
	}
}

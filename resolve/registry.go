package resolve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/internal/brief"
)

// Registry knows resolvers by their names and aliases. It does not change and is safe for concurrent use.
type Registry struct {
	names []string
	by    map[string]Resolver
	// canonical maps each name and alias to the name. Resolvers make a new specification on each call, so it is not read from
	// there.
	canonical map[string]string
}

// NewRegistry returns a registry. The error lists specifications that are not valid, and names that occur twice.
func NewRegistry(resolvers ...Resolver) (*Registry, error) {
	r := &Registry{by: map[string]Resolver{}, canonical: map[string]string{}}
	for _, res := range resolvers {
		spec := res.Spec()
		if err := spec.Check(); err != nil {
			return nil, fmt.Errorf("resolver %s: %w", quoteShort(spec.Name), err)
		}
		for _, n := range append([]string{spec.Name}, spec.Aliases...) {
			if _, ok := r.by[n]; ok {
				return nil, fmt.Errorf("two resolvers have the name %s", quoteShort(n))
			}
			r.by[n], r.canonical[n] = res, spec.Name
		}
		r.names = append(r.names, spec.Name)
	}
	slices.Sort(r.names)
	return r, nil
}

// Names lists the names, without aliases, sorted.
func (r *Registry) Names() []string { return slices.Clone(r.names) }

// Get returns a resolver by its name or an alias. The error has the reason [ReasonUnknownResolver].
func (r *Registry) Get(name string) (Resolver, error) {
	if res, ok := r.by[name]; ok {
		return res, nil
	}
	if name == "" {
		return nil, Errorf(ReasonUnknownResolver, "no resolver is named; there are %s", strings.Join(r.names, ", "))
	}
	return nil, Errorf(ReasonUnknownResolver, "there is no resolver %s%s; there are %s",
		quoteShort(name), brief.Hint(name, r.names), strings.Join(r.names, ", "))
}

// CloseAll closes the resolvers that have a method Close, with or without an error, the last one first. No request may be running.
func CloseAll(resolvers []Resolver) error {
	var errs []error
	for _, r := range slices.Backward(resolvers) {
		switch c := r.(type) {
		case interface{ Close() error }:
			errs = append(errs, c.Close())
		case interface{ Close() }:
			c.Close()
		}
	}
	return errors.Join(errs...)
}

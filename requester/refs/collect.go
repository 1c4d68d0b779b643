package refs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/requester"
)

// Defaults of [Limits].
const (
	DefaultMaxResources = 100
	DefaultMaxDepth     = 8
)

// Errors of [Collect].
var (
	// ErrCycle means that a resource refers to itself, directly or through others.
	ErrCycle = errors.New("it refers to itself")
	// ErrTooMany means that there are more resources to fetch than allowed.
	ErrTooMany = errors.New("too much is referred to")
)

// Limits bound a collection. 0 stands for the default.
type Limits struct {
	// Resources bounds the number of resources, Depth the number of references that lead to one.
	Resources, Depth int
}

// Collected is a resource that a reference has led to.
type Collected struct {
	// Ref is the reference that it was fetched by. Found is the reference in its place, in the resource with the index From in the
	// list; the root has the index -1.
	Ref   requester.Ref
	Found Found
	From  int
	*requester.Resource
}

// Collect fetches the resources that the root refers to, directly or through others. It fetches each once, in the order of the
// references. All of them see one commit for a revision of a repository, and one digest for a tag of an image; root.Pins gets them if
// it is not nil. skipped lists references that it cannot follow because they have variables. It leaves out local references. If a
// resource refers to itself, the error wraps [ErrCycle]. If there is more than a limit allows, it wraps [ErrTooMany]. A resource
// that is not YAML refers to nothing.
func Collect(ctx context.Context, root Origin, data []byte, remotes Remotes, limits Limits, fetch func(ctx context.Context, ref requester.Ref) (*requester.Resource, error)) (list []Collected, skipped []Found, err error) {
	root.Pins = cmp.Or(root.Pins, &Pins{})
	root.Pins.addRevisions(root)
	c := collector{
		remotes: remotes, fetch: fetch, seen: map[string]int{}, pins: root.Pins,
		limits: Limits{Resources: cmp.Or(limits.Resources, DefaultMaxResources), Depth: cmp.Or(limits.Depth, DefaultMaxDepth)},
	}
	err = c.followRefs(ctx, -1, root, data, []step{{identityOf(root, data), "the resource"}})
	return c.list, c.skipped, err
}

type collector struct {
	remotes Remotes
	fetch   func(ctx context.Context, ref requester.Ref) (*requester.Resource, error)
	limits  Limits
	seen    map[string]int // by reference: the index in list
	pins    *Pins
	list    []Collected
	skipped []Found
}

// step is a resource on the path from the root.
type step struct{ identity, path string }

// followRefs fetches the resources that one resource refers to; trail is the path to it.
func (c *collector) followRefs(ctx context.Context, from int, o Origin, data []byte, trail []step) error {
	found, err := Find(data)
	if err != nil {
		return nil //nolint:nilerr // what is no YAML refers to nothing
	}
	for _, f := range found {
		if f.Variable {
			c.skipped = append(c.skipped, f)
			continue
		}
		ref, ok := o.Effective(f, c.remotes)
		if !ok {
			continue
		}
		before := len(c.list)
		at, err := c.fetchOnce(ctx, f, from, ref, len(trail))
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		known := at < before
		next := c.list[at].originOfRefs(c.pins)
		id := identityOf(next, c.list[at].Data)
		if i := slices.IndexFunc(trail, func(s step) bool { return s.identity == id }); i >= 0 {
			way := []string{trail[i].path}
			for _, s := range trail[i+1:] {
				way = append(way, s.path)
			}
			return fmt.Errorf("%w: %s", ErrCycle, strings.Join(append(way, f.Path), " -> "))
		}
		if known {
			continue
		}
		if err := c.followRefs(ctx, at, next, c.list[at].Data, append(slices.Clip(trail), step{id, f.Path})); err != nil {
			return err
		}
	}
	return nil
}

// fetchOnce fetches the resource of a reference, unless the run has it, and returns its index in the list.
func (c *collector) fetchOnce(ctx context.Context, f Found, from int, ref requester.Ref, depth int) (int, error) {
	key := keyOf(ref)
	if at, ok := c.seen[key]; ok {
		return at, nil
	}
	if depth > c.limits.Depth {
		return 0, fmt.Errorf("%w: more than %d references deep", ErrTooMany, c.limits.Depth)
	}
	if len(c.list) == c.limits.Resources {
		return 0, fmt.Errorf("%w: more than %d resources", ErrTooMany, c.limits.Resources)
	}
	res, err := c.fetch(ctx, ref)
	if err != nil {
		return 0, err
	}
	one := Collected{Ref: ref, Found: f, From: from, Resource: res}
	moved := c.pins.addRevisions(one.originOfRefs(nil))
	// What the source says may have shown that this is a revision which the run has seen, by another name.
	if pinned, ok := c.pins.pinnedRef(ref); ok {
		pinnedKey := keyOf(pinned)
		if at, ok := c.seen[pinnedKey]; ok {
			c.seen[key] = at
			return at, nil
		}
		if moved {
			one.Ref = pinned
			if one.Resource, err = c.fetch(ctx, pinned); err != nil {
				return 0, err
			}
		}
		c.seen[pinnedKey] = len(c.list)
	}
	c.seen[key] = len(c.list)
	c.list = append(c.list, one)
	return len(c.list) - 1, nil
}

// originOfRefs returns the place of the resource, for the references in it.
func (c Collected) originOfRefs(pins *Pins) Origin {
	return Origin{Ref: c.Ref, Source: c.Source, Annotations: c.Annotations, Pins: pins}
}

// keyOf returns equal keys for references with the same meaning.
func keyOf(r requester.Ref) string {
	list := parametersOf(r)
	slices.SortStableFunc(list, func(a, b v1beta1.Param) int { return cmp.Compare(a.Name, b.Name) })
	return resolution.Canonical(r.Resolver) + fmt.Sprintf("%q %q", r.URL, list)
}

// identityOf is equal for equal resources, by whichever reference they were fetched.
func identityOf(o Origin, data []byte) string {
	s := cmp.Or(o.Source, &v1beta1.RefSource{})
	// Many resources may share a digest, that of a commit or an image.
	text, err := json.Marshal([]any{s.URI, s.Digest, s.EntryPoint, sha256.Sum256(data)})
	if err != nil {
		return string(data)
	}
	return string(text)
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/requester"
	"sluice.dev/requester/refs"
	"sluice.dev/resolve"
)

// parseRemotes reads KIND=RESOLVER,NAME=VALUE,...; the kind * stands for all that are not named.
func parseRemotes(given []string) (refs.Remotes, error) {
	by := map[string]requester.Ref{}
	for _, g := range given {
		kind, rest, ok := strings.Cut(g, "=")
		parts := strings.Split(rest, ",")
		if !ok || kind == "" || parts[0] == "" {
			return nil, fmt.Errorf("--default-remote %q: want KIND=RESOLVER,NAME=VALUE and so on", g)
		}
		ref := requester.Ref{Resolver: parts[0]}
		for _, part := range parts[1:] {
			name, value, ok := strings.Cut(part, "=")
			if !ok || name == "" {
				return nil, fmt.Errorf("--default-remote %q: %q is not NAME=VALUE", g, part)
			}
			ref.Params = append(ref.Params, v1beta1.Param{Name: name, Value: v1beta1.StringValue(value)})
		}
		if kind == "*" {
			kind = ""
		}
		kind = strings.ToLower(kind)
		if _, twice := by[kind]; twice {
			return nil, fmt.Errorf("--default-remote %q: the kind has one already", g)
		}
		by[kind] = ref
	}
	return refs.Templates(by), nil
}

// collect fetches what a resource refers to.
func (l *local) collect(ctx context.Context, root resolved, remotes refs.Remotes) ([]resolved, error) {
	bar := l.progress("resources", 0)
	defer bar.done()
	fetched := map[*requester.Resource]*resolve.Resource{}
	list, skipped, err := refs.Collect(ctx, root.origin(), root.Data, remotes, l.flags.limits,
		func(ctx context.Context, ref requester.Ref) (*requester.Resource, error) {
			spec, err := ref.Spec()
			if err != nil {
				return nil, err
			}
			res, err := l.fetch(ctx, ref.Resolver, given(spec.Params))
			if err != nil {
				return nil, err
			}
			l.warn(ref.Resolver, res)
			out := &requester.Resource{Data: res.Data, Annotations: res.Annotations, Source: refSource(res)}
			fetched[out] = res
			bar.set(int64(len(fetched)))
			return out, nil
		})
	if err != nil {
		return nil, err
	}
	for _, f := range skipped {
		fmt.Fprintf(l.err, "note: %s is not followed: it has variables, which only a run knows\n", f.Path)
	}
	out := make([]resolved, 0, len(list))
	for _, c := range list {
		out = append(out, resolved{From: c.Found.Path, Resolver: c.Ref.Resolver, Params: c.Ref.Params, Resource: fetched[c.Resource]})
	}
	return out, nil
}

// pin rewrites the references inside of resources.
func pin(list []resolved, remotes refs.Remotes) error {
	for i, r := range list {
		data, err := refs.Rewrite(r.Data, r.origin(), remotes)
		if err != nil {
			return fmt.Errorf("references cannot be rewritten: %w", err)
		}
		// What was fetched may be in a cache too.
		res := *r.Resource
		res.Data = data
		list[i].Resource = &res
	}
	return nil
}

func (r resolved) origin() refs.Origin {
	return refs.Origin{Ref: requester.Ref{Resolver: r.Resolver, Params: r.Params}, Source: refSource(r.Resource)}
}

func refSource(res *resolve.Resource) *v1beta1.RefSource {
	return &v1beta1.RefSource{URI: res.Source.URI, Digest: res.Source.Digest, EntryPoint: res.Source.EntryPoint}
}

// given gives the parameters of a request to the framework.
func given(list []v1beta1.Param) []resolve.Given {
	var out []resolve.Given
	for _, p := range list {
		v := resolve.Value{Type: resolve.String, String: p.Value.StringVal}
		switch p.Value.Type {
		case v1beta1.ParamTypeArray:
			v = resolve.Value{Type: resolve.Array, Array: p.Value.ArrayVal}
		case v1beta1.ParamTypeObject:
			v = resolve.Value{Type: resolve.Object, Object: p.Value.ObjectVal}
		case v1beta1.ParamTypeString:
		}
		out = append(out, resolve.Given{Name: p.Name, Value: v})
	}
	return out
}

package resolve

// How do parameters and references get from a command line to a resolver? Parameters are NAME=VALUE, by the type
// that the resolver declares: an array or an object is given as JSON or item by item. With --recursive, the
// references in what was fetched are fetched too. For example, a Pipeline in git brings its Tasks from the same
// commit.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/controller/resolution"
	"sluice.dev/requester"
	"sluice.dev/requester/refs"
	"sluice.dev/resolve"
)

// parseParams reads parameters that were given as NAME=VALUE, by the types that the specification declares. What
// is wrong with a value that can be read is the framework's to say. Undeclared parameters are strings. A string
// that is given twice is there twice, which the framework refuses.
func parseParams(spec resolve.Spec, given []string) ([]resolve.Given, error) {
	types := map[string]resolve.Type{}
	for _, p := range spec.Parameters() {
		for _, name := range append([]string{p.Name}, p.Aliases...) {
			types[name] = p.Type
		}
	}
	var out []resolve.Given
	for _, g := range given {
		name, text, ok := strings.Cut(g, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--param %q: want NAME=VALUE", g)
		}
		at := slices.IndexFunc(out, func(o resolve.Given) bool { return o.Name == name })
		if at < 0 || types[name] != resolve.Array && types[name] != resolve.Object {
			out = append(out, resolve.Given{Name: name})
			at = len(out) - 1
		}
		if err := addValue(&out[at].Value, types[name], text); err != nil {
			return nil, fmt.Errorf("--param %s: %w", name, err)
		}
	}
	return out, nil
}

// addValue adds a text to the value of a parameter: a whole one in JSON, or an item. t is empty for a parameter
// that is not declared.
func addValue(v *resolve.Value, t resolve.Type, text string) error {
	switch t {
	case resolve.Array:
		v.Type = resolve.Array
		if !strings.HasPrefix(strings.TrimSpace(text), "[") {
			v.Array = append(v.Array, text)
			return nil
		}
		var items []string
		if err := json.Unmarshal([]byte(text), &items); err != nil {
			return fmt.Errorf("%q is no array of strings in JSON", text)
		}
		v.Array = append(v.Array, items...)
	case resolve.Object:
		v.Type = resolve.Object
		if v.Object == nil {
			v.Object = map[string]string{}
		}
		if strings.HasPrefix(strings.TrimSpace(text), "{") {
			if err := json.Unmarshal([]byte(text), &v.Object); err != nil {
				return fmt.Errorf("%q is no object of strings in JSON", text)
			}
			return nil
		}
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return fmt.Errorf("%q is neither KEY=VALUE nor an object in JSON", text)
		}
		v.Object[key] = value
	case resolve.String, "":
		*v = resolve.Value{Type: resolve.String, String: text}
	}
	return nil
}

// asParams gives parameters in the form of a request.
func asParams(given []resolve.Given) []v1beta1.Param {
	out := make([]v1beta1.Param, 0, len(given))
	for _, g := range given {
		p := v1beta1.Param{Name: g.Name, Value: v1beta1.StringValue(g.Value.String)}
		switch g.Value.Type {
		case resolve.Array:
			p.Value = v1beta1.ArrayValue(g.Value.Array...)
		case resolve.Object:
			p.Value = v1beta1.ObjectValue(g.Value.Object)
		case resolve.String:
		}
		out = append(out, p)
	}
	return out
}

// parseRemotes reads KIND=RESOLVER,NAME=VALUE,...; the kind * stands for all that are not named. Kinds are in
// lower case in the result. A kind that is given twice is an error.
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

// followFlags say whether references in a fetched resource are fetched too, how the result is printed, and how long the command may take.
type followFlags struct {
	recursive, pin bool
	remotes        []string
	limits         refs.Limits
	output         string
	timeout        time.Duration
}

// addFollow adds the flags, and -o.
func (f *followFlags) addFollow(cmd *cobra.Command) {
	command.AddOutput(cmd, &f.output, "content", "json", "yaml", "name")
	fs := cmd.Flags()
	fs.DurationVar(&f.timeout, "timeout", 2*time.Minute, "time limit for the whole command")
	fs.BoolVarP(&f.recursive, "recursive", "r", false, "also fetch the resources that it refers to; those in the same repository at the same commit")
	fs.BoolVar(&f.pin, "pin", false, "print references to the same repository or image with the commit or digest that was fetched")
	fs.StringArrayVar(&f.remotes, "default-remote", nil, "resolver for references without one, as KIND=RESOLVER,NAME=VALUE,... with {name} in the values (may be repeated); default with -f: the key default-remotes of the ConfigMap config-defaults in tekton-pipelines or sluice-system")
	fs.IntVar(&f.limits.Resources, "max-resources", refs.DefaultMaxResources, "most resources that --recursive fetches")
	fs.IntVar(&f.limits.Depth, "max-depth", refs.DefaultMaxDepth, "longest chain of references to a resource")
}

// follower follows references, by whichever way they are fetched.
type follower struct {
	followFlags

	where refs.Remotes
}

// newFollower judges the flags.
func (f followFlags) newFollower() (follower, error) {
	if f.limits.Resources < 1 || f.limits.Depth < 1 {
		return follower{}, errors.New("--max-resources and --max-depth are 1 at least")
	}
	where, err := parseRemotes(f.remotes)
	return follower{f, where}, err
}

// withReferences returns a resource with what it refers to, if that is wanted. root comes first. With --pin,
// references to what was fetched name its commit or digest.
func (f follower) withReferences(ctx context.Context, e *command.Env, root resolved, fetch func(context.Context, requester.Ref) (resolved, error)) ([]resolved, error) {
	list := []resolved{root}
	var pins *refs.Pins
	if f.recursive {
		pins = &refs.Pins{}
		more, err := f.collectReferences(ctx, e, root, pins, fetch)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	if !f.pin {
		return list, nil
	}
	for i, r := range list {
		data, err := refs.Rewrite(r.Data, r.originOf(pins), f.where)
		if err != nil {
			return nil, fmt.Errorf("references cannot be rewritten: %w", err)
		}
		// What was fetched may be in a cache too.
		res := *r.Resource
		res.Data = data
		list[i].Resource = &res
	}
	return list, nil
}

// collectReferences fetches what a resource refers to. References with variables are skipped with a note. The
// first error stops the rest.
func (f follower) collectReferences(ctx context.Context, e *command.Env, root resolved, pins *refs.Pins, fetch func(context.Context, requester.Ref) (resolved, error)) ([]resolved, error) {
	bar := e.Progress("resources", 0)
	defer bar.Done()
	fetched := map[*requester.Resource]resolved{}
	list, skipped, err := refs.Collect(ctx, root.originOf(pins), root.Data, f.where, f.limits, func(ctx context.Context, ref requester.Ref) (*requester.Resource, error) {
		r, err := fetch(ctx, ref)
		if err != nil {
			return nil, err
		}
		out := &requester.Resource{Data: r.Data, Annotations: r.Annotations, Source: refSource(r.Resource)}
		fetched[out] = r
		bar.Set(int64(len(fetched)))
		return out, nil
	})
	if err != nil {
		return nil, err
	}
	for _, f := range skipped {
		fmt.Fprintf(e.Err, "note: %s is not followed: it has variables, which only a run knows\n", f.Path)
	}
	out := make([]resolved, 0, len(list))
	for _, c := range list {
		r := fetched[c.Resource]
		r.From = c.Found.Path
		out = append(out, r)
	}
	return out, nil
}

// fetchRef fetches what a reference says.
func (l *local) fetchRef(ctx context.Context, ref requester.Ref) (resolved, error) {
	spec, err := ref.Spec()
	if err != nil {
		return resolved{}, err
	}
	res, err := l.fetchByName(ctx, ref.Resolver, spec.URL, GivenParams(spec.Params))
	if err != nil {
		return resolved{}, err
	}
	Warn(l.Env, ref.Resolver, res)
	return resolved{Resolver: ref.Resolver, Params: spec.Params, Resource: res}, nil
}

// originOf is where a resource was found, as package refs wants it: references in it are relative to that.
func (r resolved) originOf(pins *refs.Pins) refs.Origin {
	return refs.Origin{
		Ref: requester.Ref{Resolver: r.Resolver, Params: r.Params}, Source: refSource(r.Resource), Annotations: r.Annotations, Pins: pins,
	}
}

// refSource is where a resource was found, in the form of a request.
func refSource(res *resolve.Resource) *v1beta1.RefSource {
	return &v1beta1.RefSource{URI: res.Source.URI, Digest: res.Source.Digest, EntryPoint: res.Source.EntryPoint}
}

// GivenParams gives the parameters of a request to the framework.
func GivenParams(list []v1beta1.Param) []resolve.Given {
	var out []resolve.Given
	for _, p := range list {
		out = append(out, resolve.Given{Name: p.Name, Value: resolution.ParamValue(p.Value)})
	}
	return out
}

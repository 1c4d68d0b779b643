package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/api/resolution"
	"sluice.dev/resolve"
)

// Tekton's packages are not imported: they would bring its module and Knative. So resolvers are taken by the shape of their methods,
// and values of Tekton's types go through JSON, which both sides agree on.

// TektonResource has the methods of ResolvedResource of Tekton's framework (tektoncd/pipeline,
// pkg/resolution/resolver/framework/interface.go). S is pipeline/v1.RefSource.
type TektonResource[S any] interface {
	Data() []byte
	Annotations() map[string]string
	RefSource() *S
}

// TektonBase has the methods that both interfaces of Tekton's framework share.
type TektonBase interface {
	Initialize(ctx context.Context) error
	GetName(ctx context.Context) string
	GetSelector(ctx context.Context) map[string]string
}

// TektonResolver has the methods of Resolver of Tekton's framework (pkg/remoteresolution/resolver/framework/interface.go). Q is
// resolution/v1beta1.ResolutionRequestSpec, R is ResolvedResource.
type TektonResolver[Q, R any] interface {
	TektonBase
	Validate(ctx context.Context, req *Q) error
	Resolve(ctx context.Context, req *Q) (R, error)
}

// TektonParamsResolver has the methods of Resolver of Tekton's older framework (pkg/resolution/resolver/framework/interface.go). P is
// pipeline/v1.Param, R is ResolvedResource.
type TektonParamsResolver[P, R any] interface {
	TektonBase
	ValidateParams(ctx context.Context, params []P) error
	Resolve(ctx context.Context, params []P) (R, error)
}

// TektonContext adds what a resolver for Tekton reads from its context. Only Tekton's packages can add it, so the program does, if
// its resolver reads it: the namespace by common.InjectRequestNamespace, the name by common.InjectRequestName, the configuration
// by framework.InjectResolverConfigToContext. For Initialize the request is empty.
type TektonContext func(ctx context.Context, r *resolve.Request) context.Context

// FromTekton makes a resolver of one that was written for Tekton's framework. The compiler finds the type arguments, so that
// controller.Main(controller.FromTekton(&resolver{}, nil)) is the whole program.
//
// The label of GetSelector names the resolver, and GetConfigName its ConfigMap. Parameters and keys are not declared, so Validate
// judges them, before Resolve. GetResolutionTimeout can shorten the key fetch-timeout of the ConfigMap, not lengthen it. Content
// without a RefSource gets the URL of the request, or the name of the resolver, as its URI, and its own digest. Requests of one
// namespace with equal parameters share a fetch. Initialize gets a context that ends with the process, without the clients that
// Knative injects.
func FromTekton[Q, S any, R TektonResource[S]](r TektonResolver[Q, R], add TektonContext) resolve.Resolver {
	return newTekton(r, add, fetchBy[S](r.Validate, r.Resolve))
}

// FromTektonParams is [FromTekton] for resolvers of Tekton's older framework, which know no URL.
func FromTektonParams[P, S any, R TektonResource[S]](r TektonParamsResolver[P, R], add TektonContext) resolve.Resolver {
	type request struct {
		Params []P `json:"params"`
	}
	return newTekton(r, add, fetchBy[S](
		func(ctx context.Context, q *request) error { return r.ValidateParams(ctx, q.Params) },
		func(ctx context.Context, q *request) (R, error) { return r.Resolve(ctx, q.Params) },
	))
}

// fetchBy returns the function that fetches for the spec of a request, in JSON. Q is the type that the resolver reads the spec into.
func fetchBy[S, Q any, R TektonResource[S]](validate func(context.Context, *Q) error, find func(context.Context, *Q) (R, error)) func(context.Context, []byte) (*resolve.Resource, error) {
	return func(ctx context.Context, text []byte) (*resolve.Resource, error) {
		var spec Q
		if err := json.Unmarshal(text, &spec); err != nil {
			return nil, resolve.Errorf(resolve.ReasonInvalid, "the request does not fit the resolver: %w", err)
		}
		if err := validate(ctx, &spec); err != nil {
			return nil, resolve.Errorf(resolve.ReasonInvalid, "%w", err)
		}
		found, err := find(ctx, &spec)
		return resourceOf[S](found, err)
	}
}

// tekton is a resolver that was written for Tekton.
type tekton struct {
	TektonBase

	spec resolve.Spec
	add  TektonContext
	// fetch takes the spec of a request, in JSON.
	fetch func(ctx context.Context, spec []byte) (*resolve.Resource, error)

	once    sync.Once
	failure error
}

// newTekton describes a resolver by what Tekton's interfaces say of it. Its name is the label that selects it. Nothing is declared,
// because those interfaces have no list of parameters and keys.
func newTekton(r TektonBase, add TektonContext, fetch func(context.Context, []byte) (*resolve.Resource, error)) *tekton {
	if add == nil {
		add = func(ctx context.Context, _ *resolve.Request) context.Context { return ctx }
	}
	ctx := context.Background()
	labels := r.GetSelector(ctx)
	spec := resolve.Spec{
		Name: cmp.Or(labels[resolution.LabelType], labels[resolution.LabelResolver]),
		Doc:  "Runs the resolver " + r.GetName(ctx) + ", written for Tekton.", Undeclared: true,
	}
	if c, ok := r.(interface {
		GetConfigName(ctx context.Context) string
	}); ok {
		spec.ConfigMap = c.GetConfigName(ctx)
	}
	return &tekton{TektonBase: r, spec: spec, add: add, fetch: fetch}
}

// Spec implements [resolve.Resolver].
func (t *tekton) Spec() resolve.Spec { return t.spec }

// Start implements [Starter].
func (t *tekton) Start(ctx context.Context) error {
	t.once.Do(func() { t.failure = t.Initialize(t.add(ctx, &resolve.Request{})) })
	return t.failure
}

// Resolve implements [resolve.Resolver].
func (t *tekton) Resolve(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	if err := t.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	type param struct {
		Name  string `json:"name"`
		Value any    `json:"value"`
	}
	spec := struct {
		Params []param `json:"params,omitempty"`
		URL    string  `json:"url,omitempty"`
	}{URL: r.URL}
	texts := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		p := param{name, r.Params[name].String}
		switch v := r.Params[name]; v.Type {
		case resolve.Array:
			p.Value = v.Array
		case resolve.Object:
			p.Value = v.Object
		case resolve.String:
			texts[name] = v.String
		}
		spec.Params = append(spec.Params, p)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	ctx = t.add(ctx, r)
	if timed, ok := t.TektonBase.(interface {
		GetResolutionTimeout(ctx context.Context, timeout time.Duration, params map[string]string) (time.Duration, error)
	}); ok {
		limit, err := timed.GetResolutionTimeout(ctx, time.Minute, texts)
		if err != nil {
			return nil, resolve.Errorf(resolve.ReasonInvalid, "%w", err)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	res, err := t.fetch(ctx, text)
	if res != nil {
		res.Source.URI = cmp.Or(res.Source.URI, r.URL, "resolver:"+t.spec.Name)
	}
	return res, err
}

// resourceOf returns what a resolver for Tekton has found.
func resourceOf[S any, R TektonResource[S]](found R, err error) (*resolve.Resource, error) {
	var known *resolve.Error
	switch {
	case errors.As(err, &known):
		return nil, err
	case apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		return nil, resolve.Transientf("%w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, resolve.Errorf(resolve.ReasonTimedOut, "%w", err)
	case err != nil:
		return nil, resolve.Errorf(resolve.ReasonFailed, "%w", err)
	case any(found) == nil:
		return nil, nil // the framework says what is wrong with that
	}
	out := &resolve.Resource{Data: found.Data(), Annotations: found.Annotations()}
	if s := found.RefSource(); s != nil {
		text, err := json.Marshal(s)
		if err == nil {
			err = json.Unmarshal(text, &struct {
				URI        *string            `json:"uri"`
				Digest     *map[string]string `json:"digest"`
				EntryPoint *string            `json:"entryPoint"`
			}{&out.Source.URI, &out.Source.Digest, &out.Source.EntryPoint})
		}
		if err != nil {
			return nil, resolve.Errorf(resolve.ReasonFailed, "the origin of the content cannot be read: %w", err)
		}
	}
	if len(out.Source.Digest) == 0 {
		out.Source.Digest = resolve.SHA256(out.Data)
	}
	return out, nil
}

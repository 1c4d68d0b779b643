package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/resolve"
)

// Types of the shape of Tekton's. module test/tektonresolver has the real ones.
type (
	refSource struct {
		URI        string            `json:"uri,omitempty"`
		Digest     map[string]string `json:"digest,omitempty"`
		EntryPoint string            `json:"entryPoint,omitempty"`
	}
	found        struct{ ref *refSource }
	demoResource interface {
		Data() []byte
		Annotations() map[string]string
		RefSource() *refSource
	}
)

func (found) Data() []byte                   { return []byte("a: 1\n") }
func (found) Annotations() map[string]string { return map[string]string{"example.com/by": "x"} }
func (f found) RefSource() *refSource        { return f.ref }

// base counts how often it is initialized.
type base struct{ initialized *int }

func (b base) Initialize(context.Context) error {
	*b.initialized++
	if *b.initialized > 1 {
		return errors.New("initialized twice")
	}
	return nil
}
func (base) GetName(context.Context) string       { return "Demo" }
func (base) GetConfigName(context.Context) string { return "demo-config" }
func (base) GetSelector(context.Context) map[string]string {
	return map[string]string{"resolution.tekton.dev/type": "demo"}
}

// bySpec takes requests as Tekton's framework gives them, and keeps the last one.
type bySpec struct {
	base

	got     *v1beta1.ResolutionRequestSpec
	answer  demoResource
	failure error
}

func (b *bySpec) Validate(_ context.Context, r *v1beta1.ResolutionRequestSpec) error {
	if r.URL == "" {
		return errors.New("no url")
	}
	return nil
}

func (b *bySpec) Resolve(_ context.Context, r *v1beta1.ResolutionRequestSpec) (demoResource, error) {
	b.got = r
	return b.answer, b.failure
}

// byParams is of the older framework, and waits for its time-out.
type byParams struct {
	base

	wait bool
}

func (byParams) ValidateParams(_ context.Context, params []v1beta1.Param) error {
	if len(params) != 1 {
		return errors.New("one parameter is wanted")
	}
	return nil
}

func (b byParams) Resolve(ctx context.Context, params []v1beta1.Param) (demoResource, error) {
	if b.wait {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return found{&refSource{URI: "demo:" + params[0].Value.StringVal}}, nil
}

func (byParams) GetResolutionTimeout(context.Context, time.Duration, map[string]string) (time.Duration, error) {
	return time.Millisecond, nil
}

// askTektonResolver resolves a request in the framework, with a configuration that no resolver declares.
func askTektonResolver(t *testing.T, r resolve.Resolver, url string, params ...resolve.Given) (*resolve.Resource, resolve.Reason) {
	t.Helper()
	registry, err := resolve.NewRegistry(r)
	if err != nil {
		t.Fatal(err)
	}
	runner, err := resolve.NewRunner(resolve.Options{Resolvers: registry})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Configure("demo", map[string]string{"greeting": "hello", "backoff-steps": "1"}); err != nil {
		t.Errorf("a key of the resolver's own: %v", err)
	}
	res, err := runner.Resolve(t.Context(), &resolve.Query{Resolver: "demo", Namespace: "team", URL: url, Params: params})
	if e, ok := errors.AsType[*resolve.Error](err); ok {
		return nil, e.Reason
	}
	return res, ""
}

func TestTektonResolversGetRequestsAndGiveContent(t *testing.T) {
	list := []resolve.Given{
		{Name: "a", Value: resolve.Value{Type: resolve.String, String: "text"}},
		{Name: "b", Value: resolve.Value{Type: resolve.Array, Array: []string{"x", "y"}}},
		{Name: "c", Value: resolve.Value{Type: resolve.Object, Object: map[string]string{"k": "v"}}},
	}
	var word string
	r := &bySpec{base: base{new(int)}, answer: found{&refSource{URI: "demo:x", Digest: map[string]string{"sha1": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}, EntryPoint: "e"}}}
	adapted := FromTekton(r, func(ctx context.Context, r *resolve.Request) context.Context {
		word = r.Config["greeting"]
		return ctx
	})
	res, reason := askTektonResolver(t, adapted, "demo://x", list...)
	if reason != "" {
		t.Fatal(reason)
	}
	want := &v1beta1.ResolutionRequestSpec{URL: "demo://x", Params: []v1beta1.Param{
		{Name: "a", Value: v1beta1.StringValue("text")},
		{Name: "b", Value: v1beta1.ParamValue{Type: v1beta1.ParamTypeArray, ArrayVal: []string{"x", "y"}}},
		{Name: "c", Value: v1beta1.ParamValue{Type: v1beta1.ParamTypeObject, ObjectVal: map[string]string{"k": "v"}}},
	}}
	if diff := cmp.Diff(want, r.got); diff != "" {
		t.Errorf("the request: %s", diff)
	}
	if diff := cmp.Diff(resolve.Source{URI: "demo:x", Digest: map[string]string{"sha1": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}, EntryPoint: "e"}, res.Source); diff != "" || string(res.Data) != "a: 1\n" || res.Annotations["example.com/by"] != "x" {
		t.Errorf("the content: %+v %s", res, diff)
	}
	if word != "hello" || adapted.Spec().ConfigMap != "demo-config" {
		t.Errorf("the ConfigMap %s has the word %q", adapted.Spec().ConfigMap, word)
	}
	r.answer = found{}
	if res, reason = askTektonResolver(t, adapted, "demo://y"); reason != "" || res.Source.URI != "demo://y" || res.Source.Digest["sha256"] == "" {
		t.Errorf("without an origin: %s %+v", reason, res)
	}
	if *r.initialized != 1 {
		t.Errorf("it was initialized %d times", *r.initialized)
	}
}

func TestFailuresOfTektonResolvers(t *testing.T) {
	for name, test := range map[string]struct {
		url     string
		answer  demoResource
		failure error
		want    resolve.Reason
	}{
		"not valid": {"", found{}, nil, resolve.ReasonInvalid},
		"failed":    {"u", nil, errors.New("no such thing"), resolve.ReasonFailed},
		"busy":      {"u", nil, apierrors.NewTooManyRequests("later", 1), resolve.ReasonUnavailable},
		"nothing":   {"u", nil, nil, resolve.ReasonFailed},
	} {
		if _, got := askTektonResolver(t, FromTekton(&bySpec{base: base{new(int)}, answer: test.answer, failure: test.failure}, nil), test.url); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestTektonsOlderResolvers(t *testing.T) {
	param := resolve.Given{Name: "a", Value: resolve.Value{Type: resolve.String, String: "text"}}
	if res, reason := askTektonResolver(t, FromTektonParams(byParams{base{new(int)}, false}, nil), "", param); reason != "" || res.Source.URI != "demo:text" {
		t.Errorf("%s %+v", reason, res)
	}
	if _, reason := askTektonResolver(t, FromTektonParams(byParams{base{new(int)}, false}, nil), ""); reason != resolve.ReasonInvalid {
		t.Errorf("without parameters: %s", reason)
	}
	if _, reason := askTektonResolver(t, FromTektonParams(byParams{base{new(int)}, true}, nil), "", param); reason != resolve.ReasonTimedOut {
		t.Errorf("after its own time-out: %s", reason)
	}
}

// Command tektonresolver is a resolver that is written for Tekton's framework (docs/how-to-write-a-resolver.md of Tekton Pipelines). It
// imports nothing of Sluice but for the call in main.
package main

import (
	"context"
	"errors"
	"fmt"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"github.com/tektoncd/pipeline/pkg/apis/resolution/v1beta1"
	"github.com/tektoncd/pipeline/pkg/resolution/common"
	"github.com/tektoncd/pipeline/pkg/resolution/resolver/framework"

	"sluice.dev/resolve"
	"sluice.dev/resolve/controller"
)

func main() {
	controller.Main(controller.FromTekton(&resolver{}, func(ctx context.Context, r *resolve.Request) context.Context {
		return framework.InjectResolverConfigToContext(common.InjectRequestNamespace(ctx, r.Namespace), r.Config)
	}))
}

// resolver greets whom the request names, in the tongue of the ConfigMap.
type resolver struct{ ready bool }

func (r *resolver) Initialize(context.Context) error {
	r.ready = true
	return nil
}

func (*resolver) GetName(context.Context) string { return "Greeting" }

func (*resolver) GetConfigName(context.Context) string { return "greeting-config" }

func (*resolver) GetSelector(context.Context) map[string]string {
	return map[string]string{common.LabelKeyResolverType: "greeting"}
}

func (*resolver) Validate(_ context.Context, req *v1beta1.ResolutionRequestSpec) error {
	for _, p := range req.Params {
		if p.Name == "whom" && p.Value.StringVal != "" {
			return nil
		}
	}
	return errors.New("name whom to greet")
}

func (r *resolver) Resolve(ctx context.Context, req *v1beta1.ResolutionRequestSpec) (framework.ResolvedResource, error) {
	if !r.ready {
		return nil, errors.New("it is not initialized")
	}
	word := framework.GetResolverConfigFromContext(ctx)["word"]
	if word == "" {
		word = "hello"
	}
	if req.URL == "greeting:none" {
		return nil, common.NewError("NobodyThere", errors.New("there is nobody to greet"))
	}
	text := fmt.Sprintf("apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: greet}\nspec:\n  description: %s %s in %s\n  steps: [{image: busybox, name: s}]\n",
		word, req.Params[0].Value.StringVal, common.RequestNamespace(ctx))
	return greeting(text), nil
}

type greeting string

func (g greeting) Data() []byte { return []byte(g) }
func (greeting) Annotations() map[string]string {
	return map[string]string{"example.com/by": "greeting"}
}

func (greeting) RefSource() *pipelinev1.RefSource {
	return &pipelinev1.RefSource{URI: "greeting:", Digest: map[string]string{"sha1": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}}
}

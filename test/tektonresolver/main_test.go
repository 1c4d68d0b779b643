package main

import (
	"context"
	"testing"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	remote "github.com/tektoncd/pipeline/pkg/remoteresolution/resolver/framework"
	"github.com/tektoncd/pipeline/pkg/resolution/resolver/framework"

	"sluice.dev/resolve"
	"sluice.dev/resolve/controller"
)

var (
	_ remote.Resolver    = &resolver{}
	_ framework.Resolver = older{}
)

// older is a resolver of the framework without the URL.
type older struct{ *resolver }

func (older) ValidateParams(context.Context, []pipelinev1.Param) error { return nil }

func (older) Resolve(_ context.Context, params []pipelinev1.Param) (framework.ResolvedResource, error) {
	return greeting("whom: " + params[0].Value.StringVal + "\n"), nil
}

// TestResolversOfBothFrameworksAreTaken, also by the types of Tekton's interfaces.
func TestResolversOfBothFrameworksAreTaken(t *testing.T) {
	var current remote.Resolver = &resolver{}
	var params framework.Resolver = older{&resolver{}}
	for name, r := range map[string]resolve.Resolver{"of the newer": controller.FromTekton(current, nil), "of the older": controller.FromTektonParams(params, nil)} {
		res, err := r.Resolve(t.Context(), &resolve.Request{Params: map[string]resolve.Value{"whom": {Type: resolve.String, String: "you"}}})
		if err != nil || len(res.Data) == 0 || res.Source.URI != "greeting:" {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
}

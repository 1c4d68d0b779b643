package features

import (
	"context"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/internal/apiclient"
)

// The way to Components, Features and FeatureReports. The informers hold all of them, because a plan needs the neighbours of a
// component as well.

const (
	componentsResource = "components"
	featuresResource   = "features"
	componentKind      = "Component"
	featureKind        = "Feature"
)

// client reads components and features and writes their status.
type client struct{ rest rest.Interface }

func newClient(config *rest.Config) (*client, error) {
	r, err := apiclient.New(config)
	if err != nil {
		return nil, err
	}
	return &client{r}, nil
}

func (c *client) newInformer(resource string, of runtime.Object, indexers cache.Indexers) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(cache.NewListWatchFromClient(c.rest, resource, "", fields.Everything()), of, 0, indexers)
}

// updateStatus writes the status, unless the object has been written since it was read, and reads what is stored into it.
func (c *client) updateStatus(ctx context.Context, resource, name string, object runtime.Object) error {
	return c.rest.Put().Resource(resource).Name(name).SubResource("status").Body(object).Do(ctx).Into(object)
}

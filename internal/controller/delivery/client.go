package delivery

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/apiclient"
)

// The way to Deliveries. The controller reads a delivery from the API server and not from the cache before it works on it: the status
// is its memory, and an older one would make it do the last round again.

const (
	resource = "deliveries"
	kind     = "Delivery"
)

// client reads deliveries and writes their status.
type client struct{ rest rest.Interface }

func newClient(config *rest.Config) (*client, error) {
	r, err := apiclient.New(config)
	if err != nil {
		return nil, err
	}
	return &client{r}, nil
}

// readDelivery reads a delivery from the API server: the cache may not have what this process has just written.
func (c *client) readDelivery(ctx context.Context, k types.NamespacedName) (*v1alpha1.Delivery, error) {
	d := &v1alpha1.Delivery{}
	err := c.rest.Get().Namespace(k.Namespace).Resource(resource).Name(k.Name).Do(ctx).Into(d)
	d.APIVersion, d.Kind = v1alpha1.SchemeGroupVersion.String(), kind
	return d, err
}

// updateStatus writes the status, unless the delivery has been written since it was read.
func (c *client) updateStatus(ctx context.Context, d *v1alpha1.Delivery) error {
	var now v1alpha1.Delivery
	if err := c.rest.Put().Namespace(d.Namespace).Resource(resource).Name(d.Name).SubResource("status").Body(d).Do(ctx).Into(&now); err != nil {
		return err
	}
	d.ResourceVersion = now.ResourceVersion
	return nil
}

// byDependency indexes deliveries by those that they depend on.
const byDependency = "dependency"

// newInformer returns an informer of all deliveries, which finds those that depend on a given one by the index byDependency.
func (c *client) newInformer() cache.SharedIndexInformer {
	list := cache.NewListWatchFromClient(c.rest, resource, "", fields.Everything())
	return cache.NewSharedIndexInformer(list, &v1alpha1.Delivery{}, 0, cache.Indexers{byDependency: func(o any) ([]string, error) {
		d, ok := o.(*v1alpha1.Delivery)
		if !ok {
			return nil, nil
		}
		var out []string
		for _, ref := range d.Spec.DependsOn {
			out = append(out, referenceKey(d, ref).String())
		}
		return out, nil
	}})
}

// referenceKey is the delivery that another one refers to.
func referenceKey(d *v1alpha1.Delivery, ref v1alpha1.DeliveryReference) types.NamespacedName {
	k := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	k.Namespace = cmp.Or(k.Namespace, d.Namespace)
	return k
}

func keyOf(d *v1alpha1.Delivery) types.NamespacedName {
	return types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
}

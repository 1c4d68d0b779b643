// Package apiclient connects to the kinds of sluice.dev/v1alpha1 that Sluice's own controllers act on.
package apiclient

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"sluice.dev/api/v1alpha1"
)

// New returns a client whose requests are about kinds of sluice.dev/v1alpha1. It contacts nobody; config is not changed.
func New(config *rest.Config) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c := rest.CopyConfig(config)
	c.GroupVersion, c.APIPath = &v1alpha1.SchemeGroupVersion, "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(c)
}

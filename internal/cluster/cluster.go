// Package cluster reads from a live API server what a check needs: its version, its CRDs, and the objects stored under
// them, and asks it whether it would take a CRD. It changes nothing. It decides nothing: what an object's fate is, the API server's own code in package
// schema/upstream says.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ErrNoAccess is wrapped by errors that mean: the cluster cannot be reached, or does not let us in.
var ErrNoAccess = errors.New("no access to the cluster")

// Cluster is a connection to an API server. It is safe for concurrent use.
type Cluster struct {
	rest *rest.RESTClient
	host string
}

// Options say which cluster.
type Options struct {
	// Kubeconfig is a file; empty means KUBECONFIG, then the home directory's, then the service account of the pod.
	Kubeconfig string
	// Context of the kubeconfig; empty means its current one.
	Context string
}

// Connect reads the configuration. It does not contact the cluster. An error wraps [ErrNoAccess] and says what is missing.
func Connect(o Options) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	rules.WarnIfAllMissing = false
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context}).ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) {
			return nil, fmt.Errorf("%w: no kubeconfig found (give --kubeconfig FILE or set KUBECONFIG)", ErrNoAccess)
		}
		return nil, fmt.Errorf("%w: %w", ErrNoAccess, err)
	}
	return For(config)
}

// For connects with a given configuration, which is copied.
func For(config *rest.Config) (*Cluster, error) {
	c := rest.CopyConfig(config)
	c.GroupVersion = &schema.GroupVersion{}
	c.APIPath = "/"
	c.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	c.QPS = -1 // requests are one after the other
	c.UserAgent = "sluice"
	c.DisableCompression = c.DisableCompression || onThisMachine(c.Host)
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAccess, err)
	}
	return &Cluster{rest: client, host: c.Host}, nil
}

// onThisMachine tells whether a URL leads to this machine: packing there costs more than it saves.
func onThisMachine(host string) bool {
	u, err := url.Parse(host)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// Host returns the address of the API server.
func (c *Cluster) Host() string { return c.host }

// Version returns the server's minor version, for example 1.36.
func (c *Cluster) Version(ctx context.Context) (*version.Version, error) {
	var info struct{ Major, Minor string }
	if err := c.get(ctx, "/version", nil, &info); err != nil {
		return nil, err
	}
	v, err := version.ParseGeneric(info.Major + "." + strings.TrimRight(info.Minor, "+"))
	if err != nil {
		return nil, fmt.Errorf("the server's version %q.%q: %w", info.Major, info.Minor, err)
	}
	return v, nil
}

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// CRD returns the live CRD of that name, or nil where there is none.
func (c *Cluster) CRD(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := c.get(ctx, crdPath+"/"+url.PathEscape(name), nil, crd)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return crd, nil
}

// CRDs returns all live CRDs, sorted by name.
func (c *Cluster) CRDs(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var out []*apiextensionsv1.CustomResourceDefinition
	query := url.Values{"limit": {"100"}}
	for {
		var page apiextensionsv1.CustomResourceDefinitionList
		if err := c.get(ctx, crdPath, query, &page); err != nil {
			return nil, err
		}
		for i := range page.Items {
			out = append(out, &page.Items[i])
		}
		if page.Continue == "" {
			break
		}
		query.Set("continue", page.Continue)
	}
	slices.SortFunc(out, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (c *Cluster) raw(ctx context.Context, path string, query url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errSlow)
	defer cancel()
	result := c.request(path, query).Do(ctx)
	// Error tells what the API server says; Raw and DoRaw tell "unknown" of everything that is refused.
	if err := result.Error(); err != nil {
		return nil, orCause(ctx, explain(err))
	}
	b, err := result.Raw()
	return b, orCause(ctx, explain(err))
}

func (c *Cluster) request(path string, query url.Values) *rest.Request {
	r := c.rest.Get().AbsPath(path).SetHeader("Accept", "application/json")
	for k, vs := range query {
		for _, v := range vs {
			r.Param(k, v)
		}
	}
	return r
}

// explain gives errors of access a common mark and a short text.
func explain(err error) error {
	var netErr net.Error
	var urlErr *url.Error
	switch {
	case err == nil:
		return nil
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: the credentials are not accepted", ErrNoAccess)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %w", ErrNoAccess, err)
	case errors.As(err, &urlErr):
		return fmt.Errorf("%w: %w", ErrNoAccess, urlErr.Err)
	case errors.As(err, &netErr):
		return fmt.Errorf("%w: %w", ErrNoAccess, err)
	}
	return err
}

// Package cluster reads from a live API server the parts that a check needs: its version, its CRDs, and the objects stored under
// them. It also asks the API server by a dry run whether it would accept a CRD. It changes nothing, and it judges nothing: the API
// server's own code in package schema/upstream decides about an object.
package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/internal/brief"
)

// ErrNoAccess means that the cluster cannot be reached, or refuses access. Other errors wrap it.
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
	// Namespace takes the place of the context's.
	Namespace string
}

// Config reads the configuration: the connection, and the namespace, which is never empty. It does not contact the cluster. An
// error wraps [ErrNoAccess] and says what is missing.
func Config(o Options) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	rules.WarnIfAllMissing = false
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	overrides.Context.Namespace = o.Namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, "", fmt.Errorf("%w: no kubeconfig found, for %s names no cluster or does not exist (give --kubeconfig FILE or set KUBECONFIG)",
			ErrNoAccess, strings.Join(rules.GetLoadingPrecedence(), " or "))
	case err != nil:
		return nil, "", fmt.Errorf("%w: %w", ErrNoAccess, err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrNoAccess, err)
	}
	return config, namespace, nil
}

// Connect is [For] with the configuration of [Config].
func Connect(o Options) (*Cluster, error) {
	config, _, err := Config(o)
	if err != nil {
		return nil, err
	}
	return For(config)
}

// For connects with a given configuration, which is copied.
func For(config *rest.Config) (*Cluster, error) {
	client, err := Client(config, func(c *rest.Config) { c.DisableCompression = c.DisableCompression || onThisMachine(c.Host) })
	if err != nil {
		return nil, err
	}
	return &Cluster{rest: client, host: config.Host}, nil
}

// Client returns a client for any path of the API, which has no limit for the rate of requests. change adapts the copy of the
// configuration that it has.
func Client(config *rest.Config, change func(*rest.Config)) (*rest.RESTClient, error) {
	c := rest.CopyConfig(config)
	c.GroupVersion = &schema.GroupVersion{}
	c.APIPath = "/"
	c.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	c.QPS = -1 // few requests are under way at once, and the API server says where they are too many
	c.UserAgent = "sluice"
	change(c)
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAccess, err)
	}
	return client, nil
}

// Sleep waits, or returns why ctx has ended.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// onThisMachine reports whether a URL leads to this machine: packing there costs more than it saves.
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
	if err := c.readJSON(ctx, "/version", nil, &info); err != nil {
		return nil, err
	}
	v, err := version.ParseGeneric(info.Major + "." + strings.TrimRight(info.Minor, "+"))
	if err != nil {
		return nil, fmt.Errorf("the server's version %q.%q: %w", info.Major, info.Minor, err)
	}
	return v, nil
}

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// CRD returns the live CRD of that name, or nil if there is none.
func (c *Cluster) CRD(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := c.readJSON(ctx, crdPath+"/"+url.PathEscape(name), nil, crd)
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
	err := c.Each(ctx, crdPath, EachOptions{PageSize: 100}, func(raw []byte) error {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		out = append(out, crd)
		return json.Unmarshal(bytes.Clone(raw), crd) // its schemas may keep the bytes
	})
	slices.SortFunc(out, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// readJSON reads one JSON document into out.
func (c *Cluster) readJSON(ctx context.Context, path string, query url.Values, out any) error {
	return orCause(ctx, explainAccess(c.sendJSON(ctx, c.newRequest(path, query), nil, out)))
}

// newRequest returns a GET of a path, whose answer is JSON whatever the configuration of the client prefers.
func (c *Cluster) newRequest(path string, query url.Values) *rest.Request {
	r := c.rest.Get().AbsPath(path).SetHeader("Accept", asJSON)
	for k, vs := range query {
		for _, v := range vs {
			r.Param(k, v)
		}
	}
	return r
}

// explainAccess marks errors of access and gives them a short text.
func explainAccess(err error) error {
	var netErr net.Error
	var urlErr *url.Error
	switch {
	case err == nil:
		return nil
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: the credentials are not accepted", ErrNoAccess)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %w", ErrNoAccess, err)
	case apierrors.IsBadRequest(err) && serverMessage(err) != "":
		return fmt.Errorf("%w: %s", ErrNoAccess, serverMessage(err))
	case errors.As(err, &urlErr):
		return fmt.Errorf("%w: %w", ErrNoAccess, urlErr.Err)
	case errors.As(err, &netErr):
		return fmt.Errorf("%w: %w", ErrNoAccess, err)
	}
	return err
}

// serverMessage returns the message of a server that does not answer as an API server does, such as one that expects TLS. client-go
// has it only among the causes.
func serverMessage(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return brief.OneLine(cause.Message)
		}
	}
	return ""
}

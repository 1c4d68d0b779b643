package cluster

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"sluice.dev/resolve"
)

// The client finds the resource of a kind by discovery, one group at a time. client-go's own mappers read all groups first.

// mappingAge is the time for which a found kind is not looked up again. After it, a new preferred version takes effect.
const mappingAge = time.Minute

// kubeClient is a [Client] that uses client-go. It asks only for the groups that it needs: a client for all of them reads and keeps
// every kind of the cluster, possibly thousands.
type kubeClient struct {
	dynamic   dynamic.Interface
	discovery *discovery.DiscoveryClient
	reviews   authorizationclient.SubjectAccessReviewInterface
	clock     resolve.Clock

	mu       sync.Mutex
	mappings map[mappingKey]cachedMapping
}

type mappingKey struct{ group, version, kind string }

type cachedMapping struct {
	mapping *meta.RESTMapping
	until   time.Time
}

// NewClient returns a client with the rights and limits of the configuration.
//
// It needs the verb get on the allowed kinds, and create on subjectaccessreviews if access is checked.
func NewClient(config *rest.Config, clock resolve.Clock) (Client, error) {
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dis, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	auth, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &kubeClient{
		dynamic: dyn, discovery: dis, reviews: auth.SubjectAccessReviews(), clock: clock,
		mappings: map[mappingKey]cachedMapping{},
	}, nil
}

// Mapping implements [Client].
func (c *kubeClient) Mapping(ctx context.Context, group, version, kind string) (*meta.RESTMapping, error) {
	key := mappingKey{group, version, strings.ToLower(kind)}
	now := c.clock.Now()
	c.mu.Lock()
	hit, ok := c.mappings[key]
	c.mu.Unlock()
	if ok && now.Before(hit.until) {
		return hit.mapping, nil
	}
	m, err := c.findMapping(ctx, group, version, kind)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The cache holds only kinds that exist, so that requests cannot make it grow.
	c.mappings[key] = cachedMapping{m, now.Add(mappingAge)}
	return m, nil
}

// findMapping looks for a kind in the given version of its group, or in all versions, the preferred one first. Subresources, whose
// names have a slash, count for nothing.
func (c *kubeClient) findMapping(ctx context.Context, group, version, kind string) (*meta.RESTMapping, error) {
	versions := []string{version}
	if version == "" {
		var err error
		if versions, err = c.versionsOf(ctx, group); err != nil {
			return nil, err
		}
	}
	for _, v := range versions {
		gv := schema.GroupVersion{Group: group, Version: v}
		list, err := c.discovery.ServerResourcesForGroupVersionWithContext(ctx, gv.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, res := range list.APIResources {
			if strings.EqualFold(res.Kind, kind) && !strings.Contains(res.Name, "/") {
				return mappingOf(gv, res), nil
			}
		}
	}
	return nil, &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: group, Kind: kind}, SearchedVersions: versions}
}

// mappingOf describes the resource of a kind, as discovery lists it.
func mappingOf(gv schema.GroupVersion, res metav1.APIResource) *meta.RESTMapping {
	m := &meta.RESTMapping{Resource: gv.WithResource(res.Name), GroupVersionKind: gv.WithKind(res.Kind), Scope: meta.RESTScopeRoot}
	if res.Namespaced {
		m.Scope = meta.RESTScopeNamespace
	}
	return m
}

// versionsOf are those of a group, the preferred one first; none if there is no such group.
func (c *kubeClient) versionsOf(ctx context.Context, group string) ([]string, error) {
	if group == "" {
		return []string{"v1"}, nil
	}
	var g metav1.APIGroup
	err := c.discovery.RESTClient().Get().AbsPath("/apis/" + url.PathEscape(group)).Do(ctx).Into(&g)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := []string{}
	if v := g.PreferredVersion.Version; v != "" {
		out = append(out, v)
	}
	for _, v := range g.Versions {
		if !slices.Contains(out, v.Version) {
			out = append(out, v.Version)
		}
	}
	return out, nil
}

// Get implements [Client].
func (c *kubeClient) Get(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	if namespace == "" {
		return c.dynamic.Resource(gvr).Get(ctx, name, metav1.GetOptions{})
	}
	return c.dynamic.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}

// CanGet implements [Client]. An API server that has just started denies everything until it has read its roles. So a denial counts
// only if the server reports that it is ready, or does not report this at all.
func (c *kubeClient) CanGet(ctx context.Context, user string, gvr schema.GroupVersionResource, namespace, name string) (bool, error) {
	ok, err := c.reviewAccess(ctx, user, gvr, namespace, name)
	if ok || err != nil {
		return ok, err
	}
	var status apierrors.APIStatus
	if err := c.discovery.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError {
		return false, err
	}
	// The first answer may be from before the server had read its roles.
	return c.reviewAccess(ctx, user, gvr, namespace, name)
}

// reviewAccess asks the API server whether a user may get an object (authorization.k8s.io/v1, SubjectAccessReview).
func (c *kubeClient) reviewAccess(ctx context.Context, user string, gvr schema.GroupVersionResource, namespace, name string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: groupsOf(user),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "get", Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Namespace: namespace, Name: name,
		},
	}}
	answer, err := c.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed && !answer.Status.Denied, nil
}

// groupsOf returns the groups that the API server gives an authenticated user (serviceaccount.MakeGroupNames in k8s.io/apiserver).
// A review has only the groups that the caller lists.
func groupsOf(user string) []string {
	if namespaceAndName, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(namespaceAndName, ":")
		return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	}
	return []string{"system:authenticated"}
}

// Package kube puts manifests into a cluster for the demo, the benchmarks and the tests. It does not deliver: no
// inventory, no pruning, no preflights.
package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Client applies manifests.
type Client struct{ dynamic dynamic.Interface }

// New returns a client for the configuration.
func New(config *rest.Config) (*Client, error) {
	d, err := dynamic.NewForConfig(config)
	return &Client{d}, err
}

// Read returns the objects of a YAML file.
func Read(file string) ([]*unstructured.Unstructured, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	out, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

// Decode returns the objects of a YAML stream.
// Empty documents are left out. Both YAML and JSON are read.
func Decode(stream []byte) ([]*unstructured.Unstructured, error) {
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(stream), 4096)
	var out []*unstructured.Unstructured
	for {
		var document runtime.RawExtension
		err := dec.Decode(&document)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if document.Raw == nil {
			continue
		}
		u := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(document.Raw, &u.Object); err != nil { // keeps integers that a float64 cannot hold
			return nil, err
		}
		out = append(out, u)
	}
}

// resourceFor guesses the resource of an object as Kubernetes' own plural forms do for the kinds that are used here.
func (c *Client) resourceFor(u *unstructured.Unstructured) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
	r := c.dynamic.Resource(plural)
	if ns := u.GetNamespace(); ns != "" {
		return r.Namespace(ns)
	}
	return r
}

// Apply applies the objects of the file by server-side apply; with dryRun nothing is kept. After a CRD it waits until the
// API server serves it.
// The objects are applied in the order of the file, so a namespace has to come before what is in it.
func (c *Client) Apply(ctx context.Context, file string, dryRun bool) error {
	objs, err := Read(file)
	if err != nil {
		return err
	}
	for _, u := range objs {
		if err := c.ApplyObject(ctx, u, dryRun); err != nil {
			return err
		}
	}
	return nil
}

// ApplyObject is [Client.Apply] for one object.
// Conflicts with other managers are forced.
func (c *Client) ApplyObject(ctx context.Context, u *unstructured.Unstructured, dryRun bool) error {
	o := metav1.ApplyOptions{FieldManager: "sluice-demo", Force: true}
	if dryRun {
		o.DryRun = []string{metav1.DryRunAll}
	}
	if _, err := c.resourceFor(u).Apply(ctx, u.GetName(), u, o); err != nil {
		return err
	}
	if u.GetKind() == "CustomResourceDefinition" && !dryRun {
		return c.WaitServed(ctx, u)
	}
	return nil
}

// WaitServed waits until every served version of the CRD can be listed, for a minute at most.
// Established in the status is not enough: the handler of each version is installed a moment later.
func (c *Client) WaitServed(ctx context.Context, crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		for _, v := range versions {
			m, _ := v.(map[string]any)
			if served, _ := m["served"].(bool); !served {
				continue
			}
			name, _ := m["name"].(string)
			gvr := schema.GroupVersionResource{Group: group, Version: name, Resource: plural}
			if _, err := c.dynamic.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
				return false, nil //nolint:nilerr // not served yet: ask again
			}
		}
		return true, nil
	})
}

// Create creates one object.
func (c *Client) Create(ctx context.Context, u *unstructured.Unstructured) error {
	_, err := c.resourceFor(u).Create(ctx, u, metav1.CreateOptions{})
	return err
}

// DeleteCRD deletes the CRD of that name and waits until it is gone.
// All objects of the CRD are deleted with it. A CRD that is not there is an error.
func (c *Client) DeleteCRD(ctx context.Context, name string) error {
	if err := c.dynamic.Resource(crds).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := c.dynamic.Resource(crds).Get(ctx, name, metav1.GetOptions{})
		return err != nil, nil // an error means that it is gone
	})
}

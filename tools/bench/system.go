package main

// What runs while a controller is measured? Sluice as its manifests install it, with each role as a process of
// its own, on an API server without nodes.

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/nodeless"
	"sluice.dev/tools/kube"
)

const (
	systemNamespace = "sluice-system"
	// patience bounds the wait for a condition.
	patience = 10 * time.Minute
)

// system is Sluice as its manifests install it, on a cluster of its own: each role is a process of the binary under its ServiceAccount.
// The cluster has no nodes. A nodeless.Node runs the processes of the Deployments.
type system struct {
	sluice  string
	cluster *clustertest.Cluster
	node    *nodeless.Node
	config  *rest.Config
	kube    kubernetes.Interface
	objects *kube.Client
	// deployments are those of the roles, until they are applied.
	deployments []*unstructured.Unstructured
}

// install starts a cluster and puts some roles into it, as sluice manifests prints them, and then other objects. No process runs yet.
// Namespaces are applied first, Deployments not at all before [system.run]. If anything fails, all that was started
// is ended.
func install(ctx context.Context, b bench, options []string, more string) (s *system, err error) {
	s = &system{sluice: b.sluice}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.node, err = nodeless.New(ctx); err != nil {
		return s, err
	}
	if s.cluster, err = clustertest.Launch(ctx, s.node.Option()); err != nil {
		return s, err
	}
	s.config = s.cluster.Config()
	s.config.QPS = -1
	if s.kube, err = kubernetes.NewForConfig(s.config); err != nil {
		return s, err
	}
	if s.objects, err = kube.New(s.config); err != nil {
		return s, err
	}
	if err = s.node.Join(s.config, nodeless.Image{Program: s.sluice}); err != nil {
		return s, err
	}
	manifests, err := exec.CommandContext(ctx, s.sluice, append([]string{"manifests", "--image=example.test/sluice"}, options...)...).Output()
	if err != nil {
		return s, fmt.Errorf("%s manifests: %w (make build)", s.sluice, err)
	}
	objects, err := kube.Decode([]byte(string(manifests) + "\n---\n" + more))
	if err != nil {
		return s, err
	}
	rank := map[string]int{"Namespace": -1}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank[a.GetKind()] - rank[b.GetKind()] })
	for _, u := range objects {
		if u.GetKind() == "Deployment" {
			s.deployments = append(s.deployments, u)
		} else if err := s.objects.ApplyObject(ctx, u, false); err != nil {
			return s, fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return s, nil
}

// run applies the Deployments of the roles, and returns their processes when all are ready.
// The order of the processes is that of the roles.
func (s *system) run(ctx context.Context, roles ...string) ([]*nodeless.Process, error) {
	for _, u := range s.deployments {
		if err := s.objects.ApplyObject(ctx, u, false); err != nil {
			return nil, err
		}
	}
	var out []*nodeless.Process
	err := clustertest.Until(ctx, patience, "the roles to be ready", func(context.Context) error {
		out = nil
		processes := s.node.Processes()
		for _, name := range roles {
			p := processes["sluice-"+name]
			if p == nil {
				return errors.New(name + " is not")
			}
			out = append(out, p)
		}
		return nil
	})
	s.node.Rest() // to look at the Deployments again and again would be work for the API server that is measured
	return out, err
}

// create creates an object below a path of the API; with dryRun nothing is kept.
// It goes past the clients with their caches, so that nothing but the request is measured.
func (s *system) create(ctx context.Context, path string, object *unstructured.Unstructured, dryRun bool) error {
	body, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	r := s.kube.CoreV1().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body)
	if dryRun {
		r.Param("dryRun", "All")
	}
	return r.Do(ctx).Error()
}

// requestsServed adds up those requests that the API server has counted whose labels contain all of these.
// Each request counts when it is answered. The metric is apiserver_request_total.
func (s *system) requestsServed(ctx context.Context, labels ...string) (total float64, err error) {
	text, err := s.kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	return sumOfMetric(string(text), "apiserver_request_total", labels...), nil
}

// sumOfMetric adds up the values of a metric whose labels contain all of these.
// It reads Prometheus' text format, a line each; lines of other metrics that begin with the name are left out by the
// brace.
func sumOfMetric(text, name string, labels ...string) (total float64) {
	for line := range strings.Lines(text) {
		matches := strings.HasPrefix(line, name+"{")
		for _, l := range labels {
			matches = matches && strings.Contains(line, l)
		}
		var v float64
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); matches && err == nil {
			total += v
		}
	}
	return total
}

// close ends everything that was started and removes its files.
func (s *system) close() error {
	var errs []error
	if s.node != nil {
		errs = append(errs, s.node.Close())
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Stop())
	}
	return errors.Join(errs...)
}

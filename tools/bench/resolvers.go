package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/google/go-containerregistry/pkg/registry"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/tools/bundletest"
)

const (
	// catalogNamespace has the Tasks that the resolver cluster reads.
	catalogNamespace = "catalog"
	// layersPerBundle is half of what Tekton allows.
	layersPerBundle = 10
)

// taskCRD is about the same as the CRD of Tekton Pipelines, in the parts that matter here.
const taskCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tasks.tekton.dev}
spec:
  group: tekton.dev
  names: {kind: Task, listKind: TaskList, plural: tasks, singular: task}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// resolveOthers measures requests to the resolvers bundles, cluster and http.
func resolveOthers(ctx context.Context, c *config) (err error) {
	images, err := serveOn(ctx, registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	if err != nil {
		return err
	}
	defer images.Close() //nolint:errcheck // nobody uses it any more
	digests, err := pushBundles(ctx, images)
	if err != nil {
		return err
	}
	files, err := serveOn(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var i int
		if _, err := fmt.Sscanf(r.URL.Path, "/task-%d.yaml", &i); err != nil {
			http.NotFound(w, r)
			return
		}
		// The client may have gone.
		_, _ = w.Write(fileText(i))
	}))
	if err != nil {
		return err
	}
	defer files.Close() //nolint:errcheck // nobody uses it any more

	s, err := install(ctx, c.sluice, map[string]map[string]string{
		"bundleresolver-config": {"allowed-addresses": allowLoopback, "plain-http-registries": images.host},
		"http-resolver-config":  {"allowed-addresses": allowLoopback, "allow-plain-http": "true"},
	})
	if err != nil {
		return err
	}
	defer func() { err = c.closeSystem(s, err) }()
	if err := s.storeTasks(ctx); err != nil {
		return err
	}
	roles, err := s.start(ctx, "resolution", "resolver-bundles", "resolver-cluster", "resolver-http")
	if err != nil {
		return err
	}
	bundle := func(reference func(bundle int) string) func(i int) ask {
		return func(i int) ask {
			i %= resolvedFiles
			return ask{"bundles", [][2]string{{"bundle", reference(i / layersPerBundle)}, {"name", taskName(i)}, {"kind", "task"}}}
		}
	}
	pinned := bundle(func(i int) string { return images.host + "/" + bundlePath(i) + "@" + digests[i] })
	return c.waves(ctx, s, roles[0], []wave{
		{title: "bundles, by tag", role: roles[1], what: bundle(func(i int) string { return images.host + "/" + bundlePath(i) + ":v1" })},
		{title: "bundles, by digest, cached", role: roles[1], what: pinned, before: func(ctx context.Context, w *watcher) error {
			_, err := w.run(ctx, "warm", resolvedFiles, creators, false, pinned)
			return err
		}},
		{title: "cluster", role: roles[2], what: func(i int) ask {
			return ask{"cluster", [][2]string{{"kind", "task"}, {"name", taskName(i % resolvedFiles)}, {"namespace", catalogNamespace}}}
		}},
		{title: "http", role: roles[3], what: func(i int) ask {
			return ask{"http", [][2]string{{"url", files.url("/" + taskName(i%resolvedFiles) + ".yaml")}}}
		}},
	}, waveNote)
}

func taskName(i int) string { return fmt.Sprintf("task-%04d", i) }

func bundlePath(i int) string { return fmt.Sprintf("catalog/bundle-%d", i) }

// pushBundles puts the Tasks into a registry, some in each bundle, and returns the digests of the bundles.
func pushBundles(ctx context.Context, images *server) ([]string, error) {
	var digests []string
	for first := 0; first < resolvedFiles; first += layersPerBundle {
		r, err := bundletest.NewRegistry(images.host, bundlePath(len(digests)), http.DefaultTransport)
		if err != nil {
			return nil, err
		}
		var layers []bundletest.Layer
		for i := first; i < first+layersPerBundle; i++ {
			layers = append(layers, bundletest.Task(taskName(i), string(fileText(i))))
		}
		digest, err := r.Push(ctx, "v1", layers...)
		if err != nil {
			return nil, err
		}
		digests = append(digests, digest.String())
	}
	return digests, nil
}

// storeTasks puts the Tasks into the cluster.
func (s *system) storeTasks(ctx context.Context) error {
	if err := s.namespace(ctx, catalogNamespace); err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(taskCRD), &crd.Object); err != nil {
		return err
	}
	if err := s.objects.ApplyObject(ctx, crd, false); err != nil {
		return err
	}
	if err := s.objects.WaitServed(ctx, crd); err != nil {
		return err
	}
	for i := range resolvedFiles {
		task := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(fileText(i), &task.Object); err != nil {
			return err
		}
		task.SetNamespace(catalogNamespace)
		if err := s.objects.Create(ctx, task); err != nil {
			return err
		}
	}
	return nil
}

package resolution

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// A resolver publishes the schema of its parameters, so that clients and people can see what it takes without running it. The
// ConfigMap is the process's own: an edit by somebody else is undone.

const (
	// SchemaKey is the key of a schema in its ConfigMap.
	SchemaKey = "schema.json"
	// annotationSchema is the sha256 of the schema. If it is right, the schema comes from some process, maybe of another version, and
	// stays. If it is wrong, the schema was edited, and the process restores it.
	annotationSchema = "sluice.dev/schema-digest"
	// schemaRetry is the pause after a schema could not be written.
	schemaRetry = 5 * time.Second
)

// SchemaConfigMap is the name of the ConfigMap with the schema of a resolver's parameters.
func SchemaConfigMap(resolver string) string { return "resolver-schema-" + resolver }

// SchemaPublisher keeps the schema of a resolver's parameters, OpenAPI v3 in JSON, in a ConfigMap. It writes at its start,
// and when the ConfigMap was deleted or edited. All fields are required.
type SchemaPublisher struct {
	Kube kubernetes.Interface
	// Namespace is that of the process.
	Namespace, Resolver string
	Schema              []byte
	Log                 *slog.Logger
	Clock               clock.Clock
}

// Run publishes until ctx is done.
func (s *SchemaPublisher) Run(ctx context.Context) {
	name := SchemaConfigMap(s.Resolver)
	list := cache.NewListWatchFromClient(s.Kube.CoreV1().RESTClient(), "configmaps", s.Namespace, fields.OneTermEqualSelector("metadata.name", name))
	informer := cache.NewSharedInformer(list, &corev1.ConfigMap{}, 0)
	due := make(chan struct{}, 1)
	want := func() {
		select {
		case due <- struct{}{}:
		default: // it is due already
		}
	}
	// Registration and handler fail only on an informer that has run.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		s.Log.Warn("cannot watch the schema of a resolver", "namespace", s.Namespace, "name", name, "error", err)
	})
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, o any) {
			if m, ok := o.(*corev1.ConfigMap); ok && m.Annotations[annotationSchema] != schemaDigest([]byte(m.Data[SchemaKey])) {
				want()
			}
		},
		DeleteFunc: func(any) { want() },
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	defer func() { <-ended }()
	if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) && !s.isCurrent(informer.GetStore().List()) {
		want()
	}
	for told := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-due:
		}
		err := s.applySchema(ctx, name)
		switch {
		case err == nil:
			told = false
			continue
		case ctx.Err() != nil:
			return
		case !told:
			told = true
			s.Log.Warn("cannot publish the schema of a resolver", "namespace", s.Namespace, "name", name, "error", err)
		}
		if pauseFor(ctx, s.Clock, schemaRetry) != nil {
			return
		}
		want()
	}
}

// isCurrent reports whether the schema is up to date.
func (s *SchemaPublisher) isCurrent(list []any) bool {
	for _, o := range list {
		m, ok := o.(*corev1.ConfigMap)
		if ok && m.Data[SchemaKey] == string(s.Schema) && m.Annotations[annotationSchema] == schemaDigest(s.Schema) {
			return true
		}
	}
	return false
}

// applySchema applies the ConfigMap, so that one rule with its name is enough to create and to change it.
func (s *SchemaPublisher) applySchema(ctx context.Context, name string) error {
	m := corev1apply.ConfigMap(name, s.Namespace).
		WithLabels(map[string]string{"app.kubernetes.io/part-of": "sluice", labelSchema: s.Resolver}).
		WithAnnotations(map[string]string{annotationSchema: schemaDigest(s.Schema)}).
		WithData(map[string]string{SchemaKey: string(s.Schema)})
	_, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Apply(ctx, m, metav1.ApplyOptions{FieldManager: "sluice", Force: true})
	return err
}

func schemaDigest(schema []byte) string {
	sum := sha256.Sum256(schema)
	return "sha256:" + hex.EncodeToString(sum[:])
}

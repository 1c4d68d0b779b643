package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/controller/features"
)

// changesTime bounds how long settings are changed again and again, after the first two changes.
const changesTime = 30 * time.Second

// gatedKind is a kind with features, all of which are closed.
type gatedKind struct {
	name, what string
	features   int
	mode       string
	hook       bool
	changes    int // how often its settings change
}

var gatedKinds = []gatedKind{
	{name: "ten", what: "10 gates, live", features: 10, mode: "Live", changes: 40},
	{name: "many", what: "200 gates, live", features: 200, mode: "Live", changes: 40},
	{name: "tenbaked", what: "10 gates, baked", features: 10, mode: "Baked", changes: 20},
	{name: "tenhook", what: "10 gates, webhook", features: 10, mode: "Live", hook: true, changes: 40},
}

func (k *gatedKind) apiGroup() string { return k.name + ".bench.dev" }

// crdAndComponent are the manifests: the CRD, and the component with its features.
func (k *gatedKind) crdAndComponent() (crd, component string) {
	pattern := ""
	if k.hook {
		// With strings of any length a pattern of this length could cost more than an expression may.
		pattern = ", pattern: '^[a-z]+-[a-z]+-[a-z]+$|^x$'"
	}
	var fields, list strings.Builder
	for i := range k.features {
		fmt.Fprintf(&fields, "\n              field%d: {type: string}", i)
		fmt.Fprintf(&list, "---\napiVersion: sluice.dev/v1alpha1\nkind: Feature\nmetadata: {name: %[1]s.field%[2]d}\n"+
			"spec: {component: %[1]s, gate: Field%[2]d, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: %[3]s, resource: things, field: spec.field%[2]d%[4]s}]}\n",
			k.name, i, k.apiGroup(), pattern)
	}
	crd = fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:%[2]s
`, k.apiGroup(), fields.String())
	component = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %[1]s, namespace: bench}\ndata: {field2: 'false'}\n"+
		"---\napiVersion: sluice.dev/v1alpha1\nkind: Component\nmetadata: {name: %[1]s}\nspec: {release: v1.5.0, mode: %[2]s, configMap: {namespace: bench, name: %[1]s}}\n%[3]s",
		k.name, k.mode, list.String())
	return crd, component
}

// featuresLatency measures how long after a change settings are in force.
func featuresLatency(ctx context.Context, c *config) (err error) {
	options := []string{"--roles=" + features.Role + "," + features.WebhookRole}
	for i := range gatedKinds {
		options = append(options, "--feature-settings=bench/"+gatedKinds[i].name)
	}
	s, err := installRoles(ctx, c.sluice, []string{"--roles=" + features.Role})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.applyYAML(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: bench}\n"); err != nil {
		return err
	}
	if err := s.applyManifests(ctx, options); err != nil {
		return err
	}
	if _, err := s.start(ctx, features.Role, features.WebhookRole); err != nil {
		return err
	}
	for i := range gatedKinds {
		crd, component := gatedKinds[i].crdAndComponent()
		if err := errors.Join(s.applyYAML(ctx, crd), s.applyYAML(ctx, component)); err != nil {
			return fmt.Errorf("%s: %w", gatedKinds[i].name, err)
		}
	}
	rows := [][]string{{"a change of settings is in force after", "p50", "p99", "worst", "changes"}}
	for i := range gatedKinds {
		k := &gatedKinds[i]
		if err := s.untilGated(ctx, k); err != nil {
			return err
		}
		d, err := s.changeSettings(ctx, k)
		if err != nil {
			return err
		}
		rows = append(rows, []string{k.what, millis(quantile(d, 0.5)), millis(quantile(d, 0.99)), millis(d[len(d)-1]), fmt.Sprint(len(d))})
	}
	c.table(rows...)
	return nil
}

// applyYAML applies the objects of a stream.
func (s *system) applyYAML(ctx context.Context, text string) error {
	for doc := range strings.SplitSeq(text, "---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			return fmt.Errorf("%w in %s", err, doc)
		}
		if u.Object == nil {
			continue
		}
		if err := s.objects.ApplyObject(ctx, u, false); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

// useGate creates an object that uses the gate Field2, without keeping it.
func (s *system) useGate(ctx context.Context, k *gatedKind) (int, string, error) {
	return s.call(ctx, http.MethodPost, s.cluster.Server+"/apis/"+k.apiGroup()+"/v1/namespaces/bench/things?dryRun=All",
		fmt.Appendf(nil, `{"apiVersion":"%s/v1","kind":"Thing","metadata":{"name":"try","namespace":"bench"},"spec":{"field2":"x"}}`, k.apiGroup()))
}

// untilGated waits until a closed gate is enforced.
func (s *system) untilGated(ctx context.Context, k *gatedKind) error {
	return untilAfter(ctx, 5*patience, k.name+" to be enforced", func() error {
		code, text, err := s.useGate(ctx, k)
		if err == nil && code != http.StatusUnprocessableEntity {
			err = fmt.Errorf("%d %.300s", code, text)
		}
		return err
	})
}

// changeSettings opens and closes a gate, for changesTime at most, and returns how long each change took to be in force, sorted.
func (s *system) changeSettings(ctx context.Context, k *gatedKind) ([]time.Duration, error) {
	var out []time.Duration
	began := time.Now()
	for i := range k.changes {
		if i >= 2 && time.Since(began) > changesTime {
			break
		}
		open := i%2 == 0
		patch := fmt.Sprintf(`{"data":{"field2":"%t"}}`, open)
		start := time.Now()
		if _, err := s.kube.CoreV1().ConfigMaps("bench").Patch(ctx, k.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return nil, err
		}
		for {
			code, text, err := s.useGate(ctx, k)
			if err != nil {
				return nil, err
			}
			if open && code == http.StatusCreated || !open && code == http.StatusUnprocessableEntity {
				out = append(out, time.Since(start))
				break
			}
			if time.Since(start) > patience {
				return nil, fmt.Errorf("%s: a change is not in force: %d %.300s", k.name, code, text)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

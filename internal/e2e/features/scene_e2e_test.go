//go:build e2e

package features

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/config"
	"sluice.dev/tools/clustertest"
)

// crdText is a kind with all that can be gated, in two versions.
const crdText = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pipelines.%[1]s}
spec:
  group: %[1]s
  names: {kind: Pipeline, plural: pipelines, singular: pipeline, listKind: PipelineList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: &schema
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              description: {type: string}
              replicas: {type: integer, format: int32}
              tasksTimeout: {type: string}
              onError: {type: string, enum: [stop, continue, retry]}
              tasks:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, timeout: {type: string}, image: {type: string}}
              env:
                type: object
                additionalProperties:
                  type: object
                  properties: {value: {type: string}, secret: {type: string}}
              modes: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              extra: {type: object, additionalProperties: {type: string}}
              script: {type: string}
          status:
            type: object
            properties: {phase: {type: string}, replicas: {type: integer, format: int32}}
  - name: v1alpha1
    served: true
    storage: false
    subresources: {status: {}}
    schema: *schema
`

// featureParts are the features of a scene, by gate.
var featureParts = map[string]string{
	"TasksTimeout": "{field: spec.tasksTimeout, versions: [v1]}",
	"RetryOnError": "{field: spec.onError, values: [retry], versions: [v1]}",
	"TaskTimeout":  `{field: "spec.tasks[*].timeout", versions: [v1]}`,
	"EnvSecret":    `{field: "spec.env[*].secret", versions: [v1]}`,
	"TurboMode":    `{field: "spec.modes[*]", values: [turbo], versions: [v1]}`,
	"Extra":        `{field: "spec.extra[*]", versions: [v1]}`,
	"Preview":      "{wholeVersion: true, versions: [v1alpha1]}",
}

// scene is a component with its features, kind and namespace, for one test.
type scene struct {
	*system

	t     *testing.T
	name  string // of component and namespace
	group string
	// features is how many it has.
	features int
	things   dynamic.ResourceInterface
	quiet    *rest.Config

	warnings *clustertest.Warnings
}

// sceneOptions change what a scene has.
type sceneOptions struct {
	mode         string // of the component
	whenDisabled string
	more         string // of each feature's spec, in flow style
	component    string // of the component's spec, in flow style
	gates        []string
	noSettings   bool // no Role for the settings, and none are made
}

func newScene(t *testing.T, s *system, name string, o sceneOptions) *scene {
	t.Helper()
	ctx := t.Context()
	w := &clustertest.Warnings{}
	c := &scene{system: s, t: t, name: name, group: name + ".e2e.dev", warnings: w, quiet: rest.CopyConfig(s.admin)}
	c.quiet.WarningHandler = w
	c.things = c.of("v1", c.quiet)
	if _, err := s.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !o.noSettings {
		c.allowSettings()
	}
	c.apply(fmt.Sprintf(crdText, c.group))
	mode := o.mode
	if mode == "" {
		mode = "Live"
	}
	text := fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Component\nmetadata: {name: %s}\nspec: {release: v1.5.0, mode: %s, configMap: {namespace: %s, name: flags}%s}\n", name, mode, name, o.component)
	gates := o.gates
	if gates == nil {
		for gate := range featureParts {
			gates = append(gates, gate)
		}
	}
	c.features = len(gates)
	for _, gate := range gates {
		text += "---\n" + c.feature(gate, featureParts[gate], o)
	}
	if !o.noSettings {
		c.set(nil)
	}
	c.apply(text)
	return c
}

// allowSettings lets Sluice watch the settings, as sluice manifests --feature-settings does.
func (c *scene) allowSettings() {
	c.t.Helper()
	manifests, err := config.Manifests(config.Options{Image: "example.test/sluice:v1", Roles: []string{config.FeaturesRole}, FeatureSettings: []string{c.name + "/flags"}})
	if err != nil {
		c.t.Fatal(err)
	}
	_, roles, ok := strings.Cut(string(manifests), "# The settings of a component.")
	if !ok {
		c.t.Fatal("there are no roles for the settings")
	}
	c.apply("#" + roles)
}

// commands are the commands of kubectl in a message.
var commands = regexp.MustCompile(`kubectl ((?:create|-)[^;&]+[^;& ])`)

// follow runs the commands in the message of a condition, as a user who reads it would.
func (c *scene) follow(list []metav1.Condition, condition string) {
	c.t.Helper()
	message := meta.FindStatusCondition(list, condition).Message
	found := commands.FindAllStringSubmatch(message, -1)
	if len(found) != 2 {
		c.t.Fatalf("%d commands in: %s", len(found), message)
	}
	for _, m := range found {
		if _, errs, err := c.cluster.Kubectl(c.t, "", strings.Fields(m[1])...); err != nil {
			c.t.Fatalf("%s: %v\n%s", m[0], err, errs)
		}
	}
}

// feature is the manifest of a feature.
func (c *scene) feature(gate, part string, o sceneOptions) string {
	var kebab strings.Builder
	for i, r := range gate {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				kebab.WriteByte('-')
			}
			r += 'a' - 'A'
		}
		kebab.WriteRune(r)
	}
	when := ""
	if o.whenDisabled != "" && (o.whenDisabled != "Drop" || !strings.Contains(part, "wholeVersion")) {
		when = ", whenDisabled: " + o.whenDisabled
	}
	part = strings.Replace(part, "{", "{group: "+c.group+", resource: pipelines, ", 1)
	return fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Feature\nmetadata: {name: %s.%s}\nspec: {component: %s, gate: %s, stages: [{stage: Alpha, release: v1.0.0}], parts: [%s]%s%s}\n",
		c.name, kebab.String(), c.name, gate, part, when, o.more)
}

func (c *scene) apply(text string) {
	c.t.Helper()
	eventually(c.t, "manifests to be applied", func(ctx context.Context) error { return c.system.apply(ctx, text) })
}

func (c *scene) of(version string, as *rest.Config) dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(as).Resource(schema.GroupVersionResource{Group: c.group, Version: version, Resource: "pipelines"}).Namespace(c.name)
}

// set writes the settings.
func (c *scene) set(data map[string]string) {
	c.t.Helper()
	if err := c.trySet(data); err != nil {
		c.t.Fatal(err)
	}
}

func (c *scene) trySet(data map[string]string) error {
	maps := c.kube.CoreV1().ConfigMaps(c.name)
	m := c.settings(data)
	_, err := maps.Update(c.t.Context(), m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(c.t.Context(), m, metav1.CreateOptions{})
	}
	return err
}

// settings is the ConfigMap of the component.
func (c *scene) settings(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "flags"}, Data: data}
}

// pipeline is an object with a spec in YAML.
func (c *scene) pipeline(name, spec string) *unstructured.Unstructured {
	c.t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("spec: "+spec), &u.Object); err != nil {
		c.t.Fatal(err)
	}
	u.SetAPIVersion(c.group + "/v1")
	u.SetKind("Pipeline")
	u.SetName(name)
	return u
}

// create makes an object.
func (c *scene) create(name, spec string) (*unstructured.Unstructured, error) {
	return c.things.Create(c.t.Context(), c.pipeline(name, spec), metav1.CreateOptions{})
}

// try is create without keeping anything.
func (c *scene) try(spec string) (*unstructured.Unstructured, error) {
	return c.things.Create(c.t.Context(), c.pipeline("try", spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// must makes an object that is to be accepted.
func (c *scene) must(name, spec string) *unstructured.Unstructured {
	c.t.Helper()
	var out *unstructured.Unstructured
	eventually(c.t, name+" to be created", func(context.Context) error {
		u, err := c.create(name, spec)
		if apierrors.IsServiceUnavailable(err) {
			return err // what mutates does not know the kind yet
		}
		if err != nil {
			c.t.Fatal(err)
		}
		out = u
		return nil
	})
	return out
}

// patch merges a patch into an object.
func (c *scene) patch(name, patch string, sub ...string) (*unstructured.Unstructured, error) {
	data, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		c.t.Fatal(err)
	}
	return c.things.Patch(c.t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}, sub...)
}

// refused tells what is wrong with an error, unless it is a refusal that has all the words.
func refused(err error, words ...string) error {
	if err == nil {
		return errors.New("it passes")
	}
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("no refusal: %w", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			return fmt.Errorf("%q is not told: %w", w, err)
		}
	}
	return nil
}

// status reads the status of the component.
func (c *scene) status() v1alpha1.ComponentStatus {
	c.t.Helper()
	u, err := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("components")).Get(c.t.Context(), c.name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var out v1alpha1.Component
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &out); err != nil {
		c.t.Fatal(err)
	}
	return out.Status
}

// featureStatus reads the status of a feature.
func (c *scene) featureStatus(kebab string) (v1alpha1.FeatureStatus, int64) {
	c.t.Helper()
	u, err := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("features")).Get(c.t.Context(), c.name+"."+kebab, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var out v1alpha1.Feature
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &out); err != nil {
		c.t.Fatal(err)
	}
	return out.Status, out.Generation
}

// is tells whether a condition has a status and a reason; an empty reason stands for any.
func is(list []metav1.Condition, conditionType string, status metav1.ConditionStatus, reason string) error {
	c := meta.FindStatusCondition(list, conditionType)
	if c == nil || c.Status != status || reason != "" && c.Reason != reason {
		data, _ := json.Marshal(list)
		return fmt.Errorf("%s is not %s (%s): %s", conditionType, status, reason, data)
	}
	return nil
}

// enforced waits until the component is enforced.
func (c *scene) enforced() {
	c.t.Helper()
	eventually(c.t, "the component to be enforced", func(context.Context) error {
		st := c.status()
		if int(st.Features) != c.features {
			return fmt.Errorf("%d of %d features are seen", st.Features, c.features)
		}
		return errors.Join(is(st.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, ""), is(st.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionTrue, ""))
	})
}

// inForce waits until an object that uses a feature is refused with these words.
func (c *scene) inForce(spec string, words ...string) {
	c.t.Helper()
	eventually(c.t, "a refusal of "+spec, func(context.Context) error {
		_, err := c.try(spec)
		return refused(err, words...)
	})
}

// open waits until an object passes as it is.
func (c *scene) open(spec string) {
	c.t.Helper()
	eventually(c.t, spec+" to pass", func(context.Context) error {
		u, err := c.try(spec)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(c.pipeline("x", spec).Object["spec"], u.Object["spec"]); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

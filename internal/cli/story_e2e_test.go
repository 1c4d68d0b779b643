//go:build e2e

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/compat"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/controller/delivery"
	"sluice.dev/internal/controller/guard"
	"sluice.dev/internal/resolvers"
	"sluice.dev/resolve/controller"
	"sluice.dev/tools/clustertest"
)

// story is a cluster in which one process has all roles.
type storyWorld struct {
	*deliveryWorld

	guard  *guarded
	listen string
}

// process starts sluice serve and returns where it tells how it is. It ends with the test.
func (s *storyWorld) process(id, role, kubeconfig string) string {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	listen, log, done := freeAddress(s.t), &bytes.Buffer{}, make(chan error, 1)
	f := serveFlags{
		Options: controller.Options{Kubeconfig: kubeconfig, Listen: listen, ID: id, LogLevel: "warn"},
		roles:   []string{role}, webhookListen: "127.0.0.1:0", guard: guardFlags{listen: s.guard.address, hosts: []string{"127.0.0.1"}},
	}
	e := &command.Env{Out: io.Discard, Err: log, Now: time.Now, Getenv: func(string) string { return "" }}
	go func() { done <- serveRoles(ctx, e, f, resolvers.Table()) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	s.t.Cleanup(func() {
		if err := stop(); err != nil {
			s.t.Errorf("%s: %v: %s", id, err, log)
		}
	})
	return listen
}

func newStory(t *testing.T) *storyWorld {
	t.Helper()
	c := clustertest.Start(t, clustertest.WithoutControllers())
	w := &world{Cluster: c, t: t, kube: kubernetes.NewForConfigOrDie(c.Config()), dynamic: dynamic.NewForConfigOrDie(c.Config()), dir: t.TempDir(), namespace: "shop"}
	s := &storyWorld{
		deliveryWorld: &deliveryWorld{world: w, origin: newOrigin(t), t: t},
		guard:         &guarded{cluster: c, admin: kubernetes.NewForConfigOrDie(c.Config()), address: freeAddress(t)},
	}
	for _, ns := range []string{w.namespace, "sluice-system"} {
		if _, err := w.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// One account for all roles: that of one of those who may write the status of requests, with all rights.
	const account = "sluice-resolution"
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}
	if _, err := w.kube.CoreV1().ServiceAccounts("sluice-system").Create(t.Context(), sa, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := w.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "all-roles"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "sluice-system", Name: account}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	clustertest.AwaitRights(t, w.kube, w.namespace)
	kubeconfig := kubeconfigFor(t, c.Config(), account)
	s.beginsWhenItsCRDsCome(kubeconfig)
	s.account()
	return s
}

// beginsWhenItsCRDsCome starts all roles before anything is installed, and then installs what they need.
func (s *storyWorld) beginsWhenItsCRDsCome(kubeconfig string) {
	s.t.Helper()
	s.listen = s.process("all", allRoles, kubeconfig)
	named := s.process("named", delivery.Role, kubeconfig)
	state := func(listen string, want int, words ...string) {
		s.t.Helper()
		until(s.t, "the process to say how it is", func() error {
			code, body := get(s.t, "http://"+listen+"/readyz")
			if code != want {
				return fmt.Errorf("%d %s", code, body)
			}
			for _, w := range words {
				if !strings.Contains(body, w) {
					return fmt.Errorf("no %q in %q", w, body)
				}
			}
			return nil
		})
	}
	// The role that was named keeps its process from being ready, those of all do not.
	state(named, http.StatusServiceUnavailable, "delivery waits for the CRD deliveries.sluice.dev")
	state(s.listen, http.StatusOK, "idle: delivery waits for the CRD deliveries.sluice.dev", "idle: lifecycle waits for the CRD resolutionrequests.resolution.tekton.dev",
		"idle: resolvers waits", "idle: webhook waits")
	changedManifests(s.t, s.Cluster, func(u *unstructured.Unstructured) {
		if u.GetKind() == "ValidatingWebhookConfiguration" {
			s.guard.byURL(s.t, u)
		}
	}, "--roles=all")
	state(named, http.StatusOK)
	until(s.t, "all roles to begin", func() error {
		if code, body := get(s.t, "http://"+s.listen+"/readyz"); code != http.StatusOK || body != "" {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
}

// crd is a CRD as the cluster has it.
func (s *storyWorld) crd(group string) *apiextensionsv1.CustomResourceDefinition {
	s.t.Helper()
	return s.guard.live(s.t, "widgets."+group)
}

// The whole of it: one repository, one CRD delivered by hand and one by a Delivery, and the guard over both.
func TestE2EFromARepositoryToTheGuard(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.configure("git-resolver-config", gitConfig)
	byHand, byDelivery := "hand.example.com", "delivery.example.com"
	push := func(enum, size string) string {
		t.Helper()
		text := func(group string) string {
			return strings.Replace(widget(group, enum), "{size: small}", "{size: "+size+"}", 1)
		}
		write(t, s.work, "hand/all.yaml", text(byHand))
		return s.push(text(byDelivery))
	}
	source := strings.Replace(s.source, "//deploy", "//hand", 1)
	apply := func(want int, more ...string) string {
		t.Helper()
		out, errs := s.run(want, "apply", append([]string{"--app", "hand", "-f", source, "--allow-address", "127.0.0.1", "--allow-plain-http"}, more...)...)
		return out + errs
	}

	// v1 is delivered, and objects are stored under both.
	v1 := push("small, large", "small")
	if out := apply(ExitOK); !strings.Contains(out, strings.TrimPrefix(v1, "sha1:")) {
		t.Errorf("no commit in %s", out)
	}
	s.create("shop", func(spec *v1alpha1.DeliverySpec) { spec.ServiceAccountName = "deployer" })
	s.grant("all", rule("", "configmaps"), rule("apiextensions.k8s.io", "customresourcedefinitions"), rule(byDelivery, "widgets"))
	s.applies("shop", v1)
	for _, group := range []string{byHand, byDelivery} {
		for i, size := range []string{"small", "large", "small"} {
			u := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": fmt.Sprintf("w%d", i)}, "spec": map[string]any{"size": size},
			}}
			gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
			if _, err := s.dynamic.Resource(gvr).Namespace(s.namespace).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}

	// v2 is stopped, in the one way and in the other, with a witness and the number of real objects.
	before := map[string]int64{byHand: s.crd(byHand).Generation, byDelivery: s.crd(byDelivery).Generation}
	v2 := push("large", "large")
	out := apply(ExitFindings)
	for _, want := range []string{"enum-value-removed", "size: small", "3 of 4 stored objects", "nothing was changed"} {
		if !strings.Contains(out, want) {
			t.Errorf("apply does not say %q: %s", want, out)
		}
	}
	o := s.reaches("shop", v1alpha1.ReasonBlocked, says(v2, "enum-value-removed", "3 of 4 stored objects"))
	if o.Status.Applied.Revision != v1 || meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionPreflightsPassed) {
		t.Errorf("%+v", o.Status)
	}
	for group, generation := range before {
		if got := s.crd(group).Generation; got != generation {
			t.Errorf("%s was written", group)
		}
	}

	// The guard was there before its configuration, and tells the API server its certificate when it looks next.
	until(t, "the guard to act", func() error {
		crd := s.crd(byHand)
		dropServed(crd)
		_, err := s.guard.as("", nil).ApiextensionsV1().CustomResourceDefinitions().Update(t.Context(), crd, dryRun)
		return denied(err)
	})
	// kubectl and another client send it themselves, and the guard tells both the same.
	next := s.unsafe(byHand)
	refused := s.sendAsController(next)
	for _, want := range []string{"is unsafe", "4 objects are stored", "enum-value-removed", "sluice check NEW.yaml", bypassedKey} {
		if !strings.Contains(refused, want) {
			t.Errorf("the guard does not say %q: %s", want, refused)
		}
	}
	s.sendByKubectl(next, refused)
	if got := s.crd(byHand).Generation; got != before[byHand] {
		t.Error("the CRD was written")
	}

	// Who may, and says why, lets that one change through.
	digest, err := compat.SpecDigest(next)
	if err != nil {
		t.Fatal(err)
	}
	next.Annotations = map[string]string{bypassedKey: digest + ": the survey says that nobody needs it"}
	if told := s.sendAsController(next); told != "" {
		t.Errorf("the way around: %s", told)
	}
	until(t, "the event", func() error {
		list, err := s.kube.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + guard.EventBypassed})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].InvolvedObject.Name != next.Name || !strings.Contains(list.Items[0].Message, "the survey says") {
			return fmt.Errorf("events %v", list.Items)
		}
		return nil
	})
	if _, body := get(t, "http://"+s.listen+"/metrics"); !strings.Contains(body, `sluice_crd_guard_bypasses_total{operation="update"} 1`) {
		t.Error("no metric of it")
	}

	// v3 is safe, and delivered to both.
	v3 := push("small, large, huge", "small")
	if out := apply(ExitFindings); !strings.Contains(out, ".spec.versions is owned by some-controller") {
		t.Errorf("no conflict: %s", out)
	}
	apply(ExitOK, "--force-conflicts")
	s.applies("shop", v3)
	for group := range before {
		text, err := yaml.Marshal(s.crd(group).Spec.Versions)
		if err != nil || !strings.Contains(string(text), "huge") {
			t.Errorf("%s: %s, %v", group, text, err)
		}
	}
	s.columns(v3)
}

// unsafe is the CRD of a group as v2 has it.
func (s *storyWorld) unsafe(group string) *apiextensionsv1.CustomResourceDefinition {
	s.t.Helper()
	docs := strings.Split(widget(group, "large"), "---\n")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(docs[len(docs)-1]), crd); err != nil {
		s.t.Fatal(err)
	}
	return crd
}

// message is what the guard says in an error, empty for none.
func message(text string) string {
	at := strings.Index(text, "admission webhook")
	if at < 0 {
		return text
	}
	return strings.TrimSpace(text[at:])
}

// sendAsController updates the CRD with a typed client, and returns what the guard said.
func (s *storyWorld) sendAsController(next *apiextensionsv1.CustomResourceDefinition) string {
	s.t.Helper()
	crds := s.guard.as("", nil).ApiextensionsV1().CustomResourceDefinitions()
	live := s.guard.live(s.t, next.Name)
	live.Spec.Versions = next.Spec.Versions
	for k, v := range next.Annotations {
		metav1.SetMetaDataAnnotation(&live.ObjectMeta, k, v)
	}
	// The names that the server has filled in are part of the spec, and of its digest.
	next.Spec = *live.Spec.DeepCopy()
	if _, err := crds.Update(s.t.Context(), live, metav1.UpdateOptions{FieldManager: "some-controller"}); err != nil {
		return message(err.Error())
	}
	return ""
}

// sendByKubectl tries by all that kubectl has to change the CRD, and wants each to be refused in the words that another client was
// told, and the deletion because objects are stored.
func (s *storyWorld) sendByKubectl(next *apiextensionsv1.CustomResourceDefinition, refused string) {
	s.t.Helper()
	crd := next.DeepCopy()
	crd.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
	text, err := yaml.Marshal(crd)
	if err != nil {
		s.t.Fatal(err)
	}
	file := s.file("crd.yaml", string(text))
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"versions": crd.Spec.Versions}})
	if err != nil {
		s.t.Fatal(err)
	}
	// try runs kubectl and returns what the guard said.
	try := func(args ...string) string {
		s.t.Helper()
		out, errs, err := s.Kubectl(s.t, "", args...)
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(errs, "Error from server") {
			s.t.Errorf("kubectl %s: %v\n%s%s", args[0], err, out, errs)
		}
		return message(errs)
	}
	for _, args := range [][]string{
		{"apply", "-f", file},
		{"apply", "--server-side", "--force-conflicts", "-f", file},
		{"apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", file},
		{"replace", "-f", file},
		{"patch", "crd", crd.Name, "--type=merge", "-p", string(patch)},
	} {
		if told := try(args...); told != refused {
			s.t.Errorf("kubectl %s is told: %s\nthe other client: %s", strings.Join(args[:2], " "), told, refused)
		}
	}
	removed := s.guard.as("", nil).ApiextensionsV1().CustomResourceDefinitions().Delete(s.t.Context(), crd.Name, metav1.DeleteOptions{})
	if removed == nil {
		s.t.Fatal("another client has deleted the CRD")
	}
	told := try("delete", "crd", crd.Name)
	if told != message(removed.Error()) || !strings.Contains(told, "4 objects are stored") || !strings.Contains(told, bypassedKey) {
		s.t.Errorf("kubectl delete is told: %s\nthe other client: %v", told, removed)
	}
}

// columns wants kubectl get to show what the documents say of each kind.
func (s *storyWorld) columns(revision string) {
	s.t.Helper()
	text := `{apiVersion: sluice.dev/v1alpha1, kind: Component, metadata: {name: story}, spec: {release: v1.5.0, configMap: {namespace: shop, name: story-flags}}}
---
{apiVersion: sluice.dev/v1alpha1, kind: Feature, metadata: {name: story.turbo}, spec: {component: story, gate: Turbo, stages: [{stage: Alpha, release: v1.0.0}]}}
`
	if out, errs, err := s.Kubectl(s.t, text, "apply", "-f", "-"); err != nil {
		s.t.Fatalf("%v: %s%s", err, out, errs)
	}
	want := map[string][]string{ // headings, then a row without its age
		"deliveries": {"NAME READY REASON APPLIED FAIL AGE", "shop True Delivered " + revision + " 0"},
		"components": {"NAME RELEASE LEVEL FEATURES ENABLED IN USE ACCEPTED ENFORCED SKEW AGE", "story v1.5.0 stable 1 0"},
		"features":   {"NAME COMPONENT GATE STAGE DEFAULT ENABLED IN USE AGE", "story.turbo story Turbo Alpha false false"},
	}
	for resource, lines := range want {
		until(s.t, "kubectl get "+resource, func() error {
			out, errs, err := s.Kubectl(s.t, "", "get", resource, "-n", "shop")
			if err != nil {
				return fmt.Errorf("%w: %s", err, errs)
			}
			var got []string
			for line := range strings.Lines(out) {
				got = append(got, strings.Join(strings.Fields(line), " "))
			}
			if len(got) != 2 || got[0] != lines[0] || !strings.HasPrefix(got[1], lines[1]) {
				return fmt.Errorf("%q, want %q", got, lines)
			}
			return nil
		})
	}
}

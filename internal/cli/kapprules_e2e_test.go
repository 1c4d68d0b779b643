//go:build e2e

package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	applycmd "sluice.dev/internal/cli/apply"
)

// lamp is a CRD whose objects have a status that anybody may write, and an object of it.
func lampCRD(group string) string {
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.%[1]s}
spec:
  group: %[1]s
  names: {kind: Lamp, plural: lamps}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, group)
}

func lamp(group, name, annotations, condition string) string {
	text := fmt.Sprintf("---\napiVersion: %s/v1\nkind: Lamp\nmetadata: {name: %s, annotations: {%s}}\n", group, name, annotations)
	if condition != "" {
		kind, value, _ := strings.Cut(condition, "=")
		text += fmt.Sprintf("status: {conditions: [{type: %s, status: %q, message: because}]}\n", kind, value)
	}
	return text
}

const kappHead = "---\napiVersion: kapp.k14s.io/v1alpha1\nkind: Config\n"

// A wait rule of kapp's, which comes with the source, says how an object is, and so do Sluice's annotations; ls goes by them as well.
func TestE2EWaitRules(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	w.apply(ExitOK, "--app", "crd", "-f", w.file("crd.yaml", lampCRD(group)))
	rules := kappHead + `waitRules:
- conditionMatchers:
  - {type: Broken, status: "True", failure: true}
  - {type: Lit, status: "True", success: true}
  resourceMatchers:
  - apiVersionKindMatcher: {apiVersion: ` + group + `/v1, kind: Lamp}
`
	const own = `sluice.dev/ready-when: "Lit=True", sluice.dev/failed-when: "Broken=True"`
	for name, c := range map[string]struct{ rules, annotations, condition, state string }{
		"lit by a rule":              {rules, "", "Lit=True", "Current"},
		"broken by a rule":           {rules, "", "Broken=True", "Failed"},
		"neither by a rule":          {rules, "", "Other=True", "InProgress"},
		"lit by annotations":         {"", own, "Lit=True", "Current"},
		"broken by annotations":      {"", own, "Broken=True", "Failed"},
		"not yet by annotations":     {"", own, "", "InProgress"},
		"annotations before rules":   {rules, `sluice.dev/ready-when: "Other=True"`, "Other=True", "Current"},
		"not waited for":             {rules, "sluice.dev/ready-when: applied", "", "Current"},
		"not waited for by kapp":     {rules, `kapp.k14s.io/disable-wait: ""`, "", "Current"},
		"a failure of another state": {"", `sluice.dev/failed-when: "Broken=True"`, "Lit=True", "Current"},
	} {
		t.Run(name, func(t *testing.T) {
			app := strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")
			code, args := ExitOK, []string{"--app", app, "-f", w.file(app+".yaml", c.rules+lamp(group, app, c.annotations, c.condition))}
			switch c.state {
			case "Failed":
				code = ExitFailed
			case "InProgress":
				args = append(args, "--wait=false") // nobody will ever light it
			}
			r := w.apply(code, args...)
			if c.state == "Failed" && (len(r.NotReady) != 1 || r.NotReady[0].Status != "Failed" || !strings.Contains(r.NotReady[0].Message, "Broken=True: because")) {
				t.Errorf("%+v", r)
			}
			if out, _ := w.run(ExitOK, "ls", app); !strings.Contains(out, c.state) {
				t.Errorf("ls:\n%s", out)
			}
		})
	}
}

// TestE2EStaleConditionsAreWaitedFor: the conditions of cert-manager and others have an observedGeneration, and their status has none.
func TestE2EStaleConditionsAreWaitedFor(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	waiter := func(name, annotations, a string) string {
		return fmt.Sprintf("---\napiVersion: %s/v1\nkind: Lamp\nmetadata: {name: %s, annotations: {%s}}\nspec: {a: %q}\n", group, name, annotations, a)
	}
	crd := strings.Replace(lampCRD(group), "storage: true", "storage: true\n    subresources: {status: {}}", 1)
	w.apply(ExitOK, "--app", "crd", "-f", w.file("crd.yaml", crd))
	rules := w.file("kapp.yaml", kappHead+`waitRules:
- supportsObservedGeneration: true
  conditionMatchers: [{type: Ready, status: "True", success: true, supportsObservedGeneration: true}]
  resourceMatchers: [{kindNamespaceNameMatcher: {kind: Lamp, name: rule, namespace: `+w.namespace+`}}]
`)
	for name, annotations := range map[string]string{"rule": "", "annotation": "sluice.dev/ready-when: Ready=True", "kstatus": ""} {
		args := []string{"--app", name, "-f", rules, "--timeout", "2s", "-f"}
		w.apply(ExitOK, append(args, w.file(name+".yaml", waiter(name, annotations, "1")), "--wait=false")...)
		status := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":1}]}}`)
		lamps := w.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "lamps"}).Namespace(w.namespace)
		if _, err := lamps.Patch(t.Context(), name, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		w.apply(ExitOK, append(args, w.file(name+".yaml", waiter(name, annotations, "1")))...)
		if r := w.apply(ExitFailed, append(args, w.file(name+".yaml", waiter(name, annotations, "2")))...); len(r.NotReady) != 1 || !strings.Contains(r.NotReady[0].Message, "earlier generation") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// What is written after a group waits until the group is ready, by kapp's annotations, its bindings and Sluice's own annotations.
func TestE2EChangeRules(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	w.apply(ExitOK, "--app", "crd", "-f", w.file("crd.yaml", lampCRD(group)))
	after := func(annotations string) string {
		return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: late, annotations: {" + annotations + "}}\n"
	}
	bindings := kappHead + `changeGroupBindings:
- name: lamps/{name}
  resourceMatchers: [{apiGroupKindMatcher: {apiGroup: ` + group + `, kind: Lamp}}]
changeRuleBindings:
- rules: [upsert after upserting lamps/first]
  resourceMatchers: [{kindNamespaceNameMatcher: {kind: ConfigMap, name: late, namespace: ` + w.namespace + `}}]
`
	const ready = `sluice.dev/ready-when: "Lit=True", sluice.dev/failed-when: "Broken=True"`
	for name, source := range map[string]func(condition string) string{
		"kapp's annotations": func(c string) string {
			return lamp(group, "first", ready+`, kapp.k14s.io/change-group.a: lamps`, c) + after(`kapp.k14s.io/change-rule.b: upsert after upserting lamps`)
		},
		"kapp's bindings": func(c string) string { return bindings + lamp(group, "first", ready, c) + after("") },
		"kapp's rule of what is before": func(c string) string {
			return lamp(group, "first", ready+`, kapp.k14s.io/change-rule: upsert before upserting settings`, c) + after("kapp.k14s.io/change-group: settings")
		},
		"own annotations": func(c string) string {
			return lamp(group, "first", ready+", sluice.dev/group: lamps", c) + after(`sluice.dev/after: lamps`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			app := strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "'", "")
			// Settings come before objects otherwise. One that fails keeps what is after it from being written.
			w.apply(ExitFailed, "--app", app, "-f", w.file("a.yaml", source("Broken=True")), "--wait=false")
			if have := w.versions(); have["late"] != "" {
				t.Error("written although what is before it has failed")
			}
			out, _ := w.run(ExitOK, "apply", "--app", app, "-f", w.file("b.yaml", source("Lit=True")), "--wait=false")
			first, late := strings.Index(out, "/first"), strings.Index(out, "created ConfigMap "+w.namespace+"/late")
			if first < 0 || late < first {
				t.Errorf("order:\n%s", out)
			}
			w.run(ExitOK, "delete", app)
		})
	}
	circle := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, annotations: {sluice.dev/group: a, sluice.dev/after: b}}\n" +
		"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: two, annotations: {sluice.dev/group: b, sluice.dev/after: a}}\n"
	if r := w.apply(ExitFailed, "-f", w.file("c.yaml", circle)); !strings.Contains(r.Error, "the order of objects is a circle: ConfigMap "+w.namespace+"/one after ConfigMap "+w.namespace+"/two after") {
		t.Errorf("%+v", r)
	}
}

// Fields that rules leave to the cluster are neither conflicts nor changes; a new object has what the source says.
func TestE2ERebaseRules(t *testing.T) {
	for name, source := range map[string]string{
		"kapp's": kappHead + "rebaseRules:\n- path: [spec, replicas]\n  type: copy\n  sources: [existing, new]\n  resourceMatchers: [{apiVersionKindMatcher: {apiVersion: apps/v1, kind: Deployment}}]\n" + scaled,
		"own":    strings.Replace(scaled, "{name: d}", "{name: d, annotations: {sluice.dev/ignore-fields: /spec/replicas}}", 1),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			args := []string{"--app", "x", "--wait=false", "-f", w.file("a.yaml", source)}
			w.apply(ExitOK, args...)
			replicas := func() int32 {
				t.Helper()
				d, err := w.kube.AppsV1().Deployments(w.namespace).Get(t.Context(), "d", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return *d.Spec.Replicas
			}
			if n := replicas(); n != 0 {
				t.Errorf("%d replicas of a new one", n)
			}
			for _, n := range []int32{3, 5} {
				if _, errs, err := w.Kubectl(t, "", "-n", w.namespace, "scale", "deployment", "d", fmt.Sprintf("--replicas=%d", n)); err != nil {
					t.Fatal(err, errs)
				}
				w.apply(ExitOK, args...)
				if got := replicas(); got != n {
					t.Errorf("%d replicas, want %d", got, n)
				}
				if r := w.apply(ExitOK, args...); r.Outcome != applycmd.OutcomeUnchanged {
					t.Errorf("again: %+v", r)
				}
			}
		})
	}
}

// A versioned object has a name for each content, whoever refers to it refers to the last one, and some earlier ones stay.
func TestE2EVersionedResources(t *testing.T) {
	w := newWorld(t)
	source := func(value string) string {
		return w.file("a.yaml", "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, annotations: {kapp.k14s.io/versioned: \"\", kapp.k14s.io/num-versions: \"2\"}}\ndata: {k: "+value+"}\n"+
			"---\napiVersion: v1\nkind: Secret\nmetadata: {name: key, annotations: {kapp.k14s.io/versioned: \"\", kapp.k14s.io/versioned-keep-original: \"\"}}\nstringData: {k: same}\n"+
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n  annotations:\n    kapp.k14s.io/versioned-explicit-ref: |\n      apiVersion: v1\n      kind: ConfigMap\n      name: settings\n"+`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 0
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      volumes: [{name: v, configMap: {name: settings}}, {name: w, secret: {secretName: key}}]
      containers:
      - name: c
        image: example.com/c
        envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: key}}]
        env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: k}}}, {name: B, valueFrom: {configMapKeyRef: {name: unrelated, key: k}}}]
`)
	}
	refers := func(want string) {
		t.Helper()
		d, err := w.kube.AppsV1().Deployments(w.namespace).Get(t.Context(), "d", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s := d.Spec.Template.Spec
		c := s.Containers[0]
		got := []string{s.Volumes[0].ConfigMap.Name, c.EnvFrom[0].ConfigMapRef.Name, c.Env[0].ValueFrom.ConfigMapKeyRef.Name, s.Volumes[1].Secret.SecretName, c.EnvFrom[1].SecretRef.Name, c.Env[1].ValueFrom.ConfigMapKeyRef.Name}
		if diff := cmp.Diff([]string{want, want, want, "key-ver-1", "key-ver-1", "unrelated"}, got); diff != "" {
			t.Error(diff)
		}
		other, err := w.kube.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "other", metav1.GetOptions{})
		if err != nil || !strings.Contains(other.Annotations["kapp.k14s.io/versioned-explicit-ref"], "name: "+want+"\n") {
			t.Errorf("%v, %v", other.Annotations, err)
		}
	}
	apply := func(value string) applycmd.Result {
		t.Helper()
		return w.apply(ExitOK, "--app", "x", "--wait=false", "--prune", "-f", source(value))
	}
	apply("one")
	refers("settings-ver-1")
	if r := apply("one"); r.Outcome != applycmd.OutcomeUnchanged {
		t.Errorf("the same again: %+v", r.Summary)
	}
	apply("two")
	refers("settings-ver-2")
	apply("three")
	refers("settings-ver-3")
	objects, _ := w.inventory("x")
	if diff := cmp.Diff([]string{"ConfigMap/other", "ConfigMap/settings-ver-2", "ConfigMap/settings-ver-3", "Deployment/d", "Secret/key", "Secret/key-ver-1"}, objects); diff != "" {
		t.Error(diff)
	}
	if have := w.versions(); have["settings-ver-1"] != "" || have["settings-ver-2"] == "" {
		t.Errorf("%v", have)
	}
	_, errs := w.run(ExitOK, "apply", "-f", source("three"), "--force-conflicts", "--wait=false", "--dry-run=server")
	if !strings.Contains(errs, "versions need --app") {
		t.Error(errs)
	}
}

// What of kapp's configuration is not done is said each time, without being asked for.
func TestE2EWhatIsNotDoneIsSaid(t *testing.T) {
	w := newWorld(t)
	source := w.file("a.yaml", kappHead+`minimumRequiredVersion: 0.1.0
templateRules: []
waitRules:
- ytt: {funcContractV1: {resource.star: ""}}
  resourceMatchers: [{allMatcher: {}}]
- conditionMatchers: [{type: A, status: "True", success: true, timeout: 5m}]
  resourceMatchers: [{kindNamespaceNameMatcher: {kind: None}}]
rebaseRules:
- ytt: {overlayContractV1: {overlay.yml: ""}}
changeRuleBindings:
- rules: [delete before upserting x]
`+strings.Replace(configMap("a"), "  name: a\n", "  name: a\n  annotations: {kapp.k14s.io/change-rule: upsert after deleting y}\n", 1))
	want := []string{
		"minimumRequiredVersion is not done", "templateRules is not done", "waitRules[0]: ytt is not run", "timeout of the condition A is not done", "rebaseRules[0]: ytt is not run",
		`changeRuleBindings[0]: the change rule "delete before upserting x" is not done`, `the change rule "upsert after deleting y" is not done`,
	}
	for _, command := range []string{"apply", "diff"} {
		code := ExitOK
		if command == "diff" {
			code = ExitFindings
		}
		args := []string{"--app", "x", "-f", source}
		if command == "apply" {
			args = append(args, "--dry-run=server")
		}
		_, errs := w.run(code, command, args...)
		if i := slices.IndexFunc(want, func(s string) bool { return !strings.Contains(errs, s) }); i >= 0 {
			t.Errorf("%s does not say %q:\n%s", command, want[i], errs)
		}
	}
	for text, says := range map[string]string{
		"waitRules: [{conditionMatchers: [{type: A}]}]":    "a.yaml:2: waitRules[0]: a condition matcher has type, status, and success or failure",
		"waitRules: [{conditionMatcher: []}]":              `unknown field "conditionMatcher"`,
		"rebaseRules: [{path: [a], type: keep}]":           `type is "keep": it is copy or remove`,
		"changeRuleBindings: [{rules: [upsert behind x]}]": `change rule "upsert behind x"`,
		"waitRule: []": "unknown key",
		"rebaseRules: [{path: [a, {regex: x}], type: copy, sources: [existing]}]": "a step of a path is a key, {index: N} or {allIndexes: true}",
	} {
		if _, errs := w.run(ExitFailed, "apply", "-f", w.file("a.yaml", kappHead+text+"\n"+configMap("a"))); !strings.Contains(errs, says) {
			t.Errorf("%s: %s", text, errs)
		}
	}
	for annotation, says := range map[string]string{
		"sluice.dev/ready-when: Ready":       "it has conditions as TYPE=STATUS",
		"sluice.dev/ignore-fields: spec.x":   "it has JSON pointers such as /spec/replicas",
		"kapp.k14s.io/change-rule: whenever": `change rule "whenever"`,
	} {
		text := strings.Replace(configMap("a"), "  name: a\n", "  name: a\n  annotations: {"+annotation+"}\n", 1)
		if _, errs := w.run(ExitFailed, "apply", "-f", w.file("b.yaml", text)); !strings.Contains(errs, says) || !strings.Contains(errs, "b.yaml:2: ConfigMap") {
			t.Errorf("%s: %s", annotation, errs)
		}
	}
}

package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"sluice.dev/config"
)

func objects(t *testing.T, o config.Options) (out []*unstructured.Unstructured) {
	t.Helper()
	o.Image = testImage
	data, err := config.Manifests(o)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, data)
}

func decode(t *testing.T, data []byte) (out []*unstructured.Unstructured) {
	t.Helper()
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := dec.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil || u.GetKind() == "" || u.GetName() == "" {
			t.Fatalf("%v in %v", err, u.Object)
		}
		out = append(out, u)
	}
}

func names(all []*unstructured.Unstructured, kind string) []string {
	var out []string
	for _, u := range all {
		if u.GetKind() == kind {
			out = append(out, u.GetName())
		}
	}
	slices.Sort(out)
	return out
}

func TestNoRoleReadsSecretsOfAllNamespacesUnlessAskedTo(t *testing.T) {
	for _, wide := range []bool{false, true} {
		all := objects(t, config.Options{WideCredentials: wide})
		reads := map[string]bool{}
		for _, u := range all {
			if u.GetKind() != "ClusterRole" {
				continue
			}
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &role); err != nil {
				t.Fatal(err)
			}
			for _, r := range role.Rules {
				if slices.Contains(r.Verbs, "*") || slices.Contains(r.Resources, "*") {
					t.Errorf("%s has a wildcard: %v", role.Name, r)
				}
				if slices.Contains(r.Resources, "secrets") {
					reads[role.Name] = true
				}
			}
		}
		if diff := cmp.Diff([]string{"sluice-resolver-credentials"}, slices.Collect(maps.Keys(reads))); diff != "" {
			t.Error(diff)
		}
		bound := false
		for _, u := range all {
			role, _, _ := unstructured.NestedString(u.Object, "roleRef", "name")
			subjects, _, _ := unstructured.NestedSlice(u.Object, "subjects")
			bound = bound || u.GetKind() == "ClusterRoleBinding" && reads[role] && len(subjects) > 0
		}
		if bound != wide {
			t.Errorf("with WideCredentials=%v the role is bound for the cluster: %v", wide, bound)
		}
	}
}

// What one choice of flags has made, the manifests of another one change or delete.
func TestNarrowManifestsHaveTheBindingsOfWideOnes(t *testing.T) {
	narrow := objects(t, config.Options{BesideTekton: true})
	wide := objects(t, config.Options{BesideTekton: true, WideCredentials: true, WideAddresses: true})
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"} {
		if diff := cmp.Diff(names(wide, kind), names(narrow, kind)); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
}

func TestEveryProcessRunsUnderAnAccountThatMayWriteTheStatus(t *testing.T) {
	all := objects(t, config.Options{})
	accounts := names(all, "ServiceAccount")
	if len(accounts) != 8 {
		t.Fatalf("accounts %v", accounts)
	}
	if diff := cmp.Diff(accounts, names(all, "Deployment")); diff != "" {
		t.Error(diff)
	}
	data, err := config.Manifests(config.Options{Image: testImage})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range accounts {
		if a == "sluice-crd-guard" {
			continue // it has nothing to do with requests
		}
		if !bytes.Contains(data, []byte("'system:serviceaccount:sluice-system:"+a+"'")) {
			t.Errorf("%s is no writer", a)
		}
	}
}

func TestOptionsChangeWhatIsInstalled(t *testing.T) {
	beside := objects(t, config.Options{BesideTekton: true})
	if crds := names(beside, "CustomResourceDefinition"); crds != nil {
		t.Errorf("beside Tekton: %v", crds)
	}
	if slices.Contains(names(beside, "Deployment"), "sluice-resolution") {
		t.Error("beside Tekton there are two lifecycle controllers")
	}
	data, err := config.Manifests(config.Options{BesideTekton: true, Roles: []string{"resolution", "resolver-git"}, Image: "example.test/sluice:v1", Writers: []string{
		"system:serviceaccount:a:b", "system:serviceaccount:a:c=mine", "system:serviceaccount:a:c=bundle",
	}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"'system:serviceaccount:tekton-pipelines:tekton-pipelines-controller': ['*'],\n": true,
		"'system:serviceaccount:a:b': ['+'],\n":                                          true,
		"'system:serviceaccount:a:c': ['mine', 'bundles'],\n":                            true,
		"--config-namespace=tekton-pipelines-resolvers":                                  true,
		"--config-namespace=sluice-system":                                               false,
		"image: \"example.test/sluice:v1\"\n":                                            true,
	} {
		if strings.Contains(string(data), text) != want {
			t.Errorf("%q is there: %v", text, !want)
		}
	}
	one := objects(t, config.Options{Roles: []string{"resolver-git"}})
	if diff := cmp.Diff([]string{"sluice-resolver-git"}, names(one, "Deployment")); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []config.Options{
		{Writers: []string{"admin"}},
		{Writers: []string{"system:serviceaccount:a:b', 'system:admin"}},
		{Writers: []string{"system:serviceaccount:a:"}},
		{Writers: []string{"system:serviceaccount:a:b="}},
		{Writers: []string{"system:serviceaccount:a:b=x', 'git"}},
		{Writers: []string{"system:serviceaccount:sluice-system:sluice-resolver-git=http"}},
		{Image: "x\n          privileged: true"},
	} {
		if bad.Image == "" {
			bad.Image = testImage
		}
		if _, err := config.Manifests(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

func TestResolversAreToldOfTheStore(t *testing.T) {
	all := objects(t, config.Options{Compress: true, Store: "registry.test:5000/large/content", StoreCredentials: "store", StorePlainHTTP: true})
	resolvers := 0
	for _, u := range all {
		if u.GetKind() != "Deployment" {
			continue
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err != nil {
			t.Fatal(err)
		}
		container := d.Spec.Template.Spec.Containers[0]
		told := slices.Contains(container.Args, "--compress") && slices.Contains(container.Args, "--store=registry.test:5000/large/content") && slices.Contains(container.Args, "--store-plain-http")
		mounted := slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "store" }) &&
			slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
				return slices.Contains(container.Args, "--store-credentials="+m.MountPath+"/.dockerconfigjson") && m.Name == "store" && m.ReadOnly
			})
		want := strings.HasPrefix(d.Name, "sluice-resolver-")
		if told != want || mounted != want {
			t.Errorf("%s is told %v, has the credentials %v", d.Name, told, mounted)
		}
		if want {
			resolvers++
		}
	}
	if resolvers != 6 {
		t.Errorf("%d resolvers", resolvers)
	}
	for _, bad := range []config.Options{
		{Store: "r/x\n- evil"}, {Store: "r/x", StoreCredentials: "a}}"}, {StoreCredentials: "a"}, {StorePlainHTTP: true}, {Store: "r/x", BesideTekton: true}, {Compress: true, BesideTekton: true},
	} {
		if bad.Image == "" {
			bad.Image = testImage
		}
		if _, err := config.Manifests(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// testImage is the image that tests install.
const testImage = "example.test/sluice:v1"

func TestSettingsAreTheOperators(t *testing.T) {
	for _, o := range []config.Options{
		{}, {WideAddresses: true}, {BesideTekton: true}, {BesideTekton: true, WideAddresses: true, WideCredentials: true}, {Roles: []string{"all"}, WideAddresses: true},
	} {
		all := objects(t, o)
		// A Secret, too, is filled in by those who run there.
		for _, kind := range []string{"ConfigMap", "Secret"} {
			if found := names(all, kind); len(found) > 0 {
				t.Errorf("%+v: %s %v: to apply it takes away what an operator has set", o, kind, found)
			}
		}
		wide := 0
		for _, u := range all {
			if text, err := u.MarshalJSON(); err != nil {
				t.Fatal(err)
			} else if strings.Contains(string(text), `"--wide-addresses"`) && u.GetKind() == "Deployment" && strings.HasPrefix(u.GetName(), "sluice-resolver-") {
				wide++
			}
		}
		if (wide == 6) != o.WideAddresses || !o.WideAddresses && wide > 0 {
			t.Errorf("%+v: %d resolvers have the wide defaults", o, wide)
		}
	}
}

func TestADevelopmentBuildKnowsNoImage(t *testing.T) {
	for _, roles := range [][]string{nil, {"all"}, {config.GuardRole}, {"resolver-git"}} {
		if data, err := config.Manifests(config.Options{Roles: roles}); !errors.Is(err, config.ErrNoImage) {
			t.Errorf("roles %v: %v, %d bytes", roles, err, len(data))
		}
		for _, u := range objects(t, config.Options{Roles: roles, Image: testImage}) {
			if u.GetKind() != "Deployment" {
				continue
			}
			var d appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err != nil {
				t.Fatal(err)
			}
			for _, c := range d.Spec.Template.Spec.Containers {
				if c.Image != testImage {
					t.Errorf("%s runs the image %q", d.Name, c.Image)
				}
			}
		}
	}
}

func TestTheGuardIsInstalledByDefault(t *testing.T) {
	for name, test := range map[string]struct {
		roles []string
		there bool
	}{"none is named": {nil, true}, "another": {[]string{"resolver-git"}, false}, "it": {[]string{config.GuardRole}, true}, "all": {[]string{"all"}, true}} {
		if got := slices.Contains(names(objects(t, config.Options{Roles: test.roles}), "ValidatingWebhookConfiguration"), "sluice-crd-guard"); got != test.there {
			t.Errorf("%s: %v", name, got)
		}
	}
	alone := objects(t, config.Options{Roles: []string{config.GuardRole}})
	if diff := cmp.Diff([]string{"sluice-crd-guard"}, names(alone, "Deployment")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"sluice-system"}, names(alone, "Namespace")); diff != "" {
		t.Error(diff)
	}
}

func TestTheGuardWaitsOnlyForWhatIsNotItsOwn(t *testing.T) {
	for certManager, groups := range map[bool]int{false: 2, true: 4} {
		for _, u := range objects(t, config.Options{Roles: []string{config.GuardRole}, GuardCertManager: certManager}) {
			if u.GetKind() != "ValidatingWebhookConfiguration" {
				continue
			}
			var c admissionregistrationv1.ValidatingWebhookConfiguration
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &c); err != nil {
				t.Fatal(err)
			}
			if len(c.Webhooks) != 2 || *c.Webhooks[0].FailurePolicy != admissionregistrationv1.Fail || *c.Webhooks[0].TimeoutSeconds != 10 ||
				*c.Webhooks[1].FailurePolicy != admissionregistrationv1.Ignore {
				t.Fatalf("%+v", c.Webhooks)
			}
			// Each CRD is judged by one of them: a label alone takes none away from both.
			other, own := c.Webhooks[0], c.Webhooks[1]
			if other.NamespaceSelector != nil || other.ObjectSelector != nil || own.NamespaceSelector != nil || (own.ObjectSelector == nil) != certManager {
				t.Errorf("selectors, with cert-manager %v: %+v", certManager, c.Webhooks)
			}
			text := own.MatchConditions[0].Expression
			if diff := cmp.Diff("!("+text+")", other.MatchConditions[0].Expression); diff != "" {
				t.Error(diff)
			}
			list, rest, _ := strings.Cut(text, "]")
			if n := strings.Count(list, "'") / 2; n != groups {
				t.Errorf("with cert-manager %v: %d groups", certManager, n)
			}
			for key, value := range selectorLabels(own.ObjectSelector) {
				if !strings.HasSuffix(rest, fmt.Sprintf("'%s' in oldObject.metadata.labels && oldObject.metadata.labels['%[1]s'] == '%s'", key, value)) {
					t.Errorf("the condition does not ask for the label of the selector: %s", text)
				}
			}
			if from := c.Annotations["cert-manager.io/inject-ca-from"]; (from == "sluice-system/sluice-crd-guard") != certManager {
				t.Errorf("injected from %q", from)
			}
		}
	}
}

func selectorLabels(s *metav1.LabelSelector) map[string]string {
	if s == nil {
		return nil
	}
	return s.MatchLabels
}

func TestCertManagerKeepsTheCertificateWhereItIsAskedTo(t *testing.T) {
	own, err := config.Manifests(config.Options{Image: testImage, Roles: []string{config.GuardRole}})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := config.Manifests(config.Options{Image: testImage, Roles: []string{config.GuardRole}, GuardCertManager: true})
	if err != nil {
		t.Fatal(err)
	}
	for text, withCertManager := range map[string]bool{
		"kind: Certificate\n": true, "--guard-cert-dir=/var/run/sluice-crd-guard": true, "secretName: sluice-crd-guard-tls": true,
		"resourceNames: [sluice-crd-guard-tls]": false, "resources: [validatingwebhookconfigurations]": false,
	} {
		if bytes.Contains(own, []byte(text)) == withCertManager || bytes.Contains(theirs, []byte(text)) != withCertManager {
			t.Errorf("%q is there with cert-manager: %v, without: %v", text, bytes.Contains(theirs, []byte(text)), bytes.Contains(own, []byte(text)))
		}
	}
}

func TestTheGuardListsObjectsOfNamedGroupsOnly(t *testing.T) {
	role := func(o config.Options) (groups []string) {
		for _, u := range objects(t, o) {
			if u.GetKind() != "ClusterRole" || u.GetName() != "sluice-crd-guard-objects" {
				continue
			}
			var r rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &r); err != nil {
				t.Fatal(err)
			}
			for _, rule := range r.Rules {
				if diff := cmp.Diff([]string{"list"}, rule.Verbs); diff != "" {
					t.Error(diff)
				}
				groups = append(groups, rule.APIGroups...)
			}
		}
		return groups
	}
	if got := role(config.Options{Roles: []string{config.GuardRole}}); got != nil {
		t.Errorf("unasked: %v", got)
	}
	if diff := cmp.Diff([]string{"example.com", "b.example.com"}, role(config.Options{Roles: []string{config.GuardRole}, GuardReads: []string{"example.com", "b.example.com"}})); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "*", "apps", "a.b], verbs: ['*'", "A.example.com"} {
		if _, err := config.Manifests(config.Options{Roles: []string{config.GuardRole}, GuardReads: []string{bad}, Image: testImage}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// A right to make any Secret of sluice-system is one to have the token of any account there made.
func TestNoRoleMakesSecretsOfAnyName(t *testing.T) {
	for _, u := range objects(t, config.Options{Roles: []string{"all"}}) {
		if u.GetKind() != "Role" && u.GetKind() != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			if slices.Contains(r.Resources, "secrets") && slices.Contains(r.Verbs, "create") && (len(r.ResourceNames) == 0 || !slices.Contains(r.Verbs, "patch")) {
				t.Errorf("%s %s: %v; a Secret is made by apply, which needs create and patch of its name", u.GetKind(), u.GetName(), r)
			}
		}
	}
}

func TestTheLifecycleControllerKnowsOfOtherPeoplesResolvers(t *testing.T) {
	for _, test := range []struct {
		writers []string
		want    string
	}{
		{nil, ""},
		{[]string{"system:serviceaccount:a:b=mine", "system:serviceaccount:c:d=mine", "system:serviceaccount:a:b=ours"}, "mine,ours"},
		{[]string{"system:serviceaccount:a:b"}, "*"},
		{[]string{"system:serviceaccount:a:b=*"}, "*"},
	} {
		got := ""
		for _, u := range objects(t, config.Options{Writers: test.writers}) {
			if u.GetKind() != "Deployment" || u.GetName() != "sluice-resolution" {
				continue
			}
			var d appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err != nil {
				t.Fatal(err)
			}
			for _, a := range d.Spec.Template.Spec.Containers[0].Args {
				if names, ok := strings.CutPrefix(a, "--other-resolvers="); ok {
					got = names
				}
			}
		}
		if got != test.want {
			t.Errorf("writers %v give %q, want %q", test.writers, got, test.want)
		}
	}
}

// A volume without a limit takes the disk of the node; one that is too small has the Pod evicted.
func TestEveryVolumeHasALimit(t *testing.T) {
	volumes := 0
	for _, u := range objects(t, config.Options{Roles: []string{"all"}}) {
		if u.GetKind() != "Deployment" {
			continue
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err != nil {
			t.Fatal(err)
		}
		for _, v := range d.Spec.Template.Spec.Volumes {
			if v.EmptyDir == nil {
				continue
			}
			volumes++
			// The mirrors of the git resolver take 4 GiB, and an eighth more.
			if limit := v.EmptyDir.SizeLimit; limit == nil || limit.Value() < 4<<30*9/8 || limit.Value() > 10<<30 {
				t.Errorf("%s: the volume %s has the limit %s", d.Name, v.Name, limit)
			}
		}
	}
	if volumes == 0 {
		t.Error("there is no volume")
	}
}

func TestNamespacesAreTheOperators(t *testing.T) {
	text, err := config.Manifests(config.Options{
		Image: "i", BesideTekton: true, WideCredentials: true, Roles: []string{"all"}, Namespace: "mine", TektonNamespace: "ci", TektonResolversNamespace: "ci-resolvers",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"sluice-system", "tekton-pipelines:", "tekton-pipelines\n", "tekton-pipelines-resolvers"} {
		if bytes.Contains(text, []byte(gone)) {
			t.Errorf("the manifests still have %q", gone)
		}
	}
	for _, want := range []string{
		"--namespace=mine\n", "--config-namespace=ci-resolvers\n", "--defaults-namespace=ci\n", "'system:serviceaccount:ci:tekton-pipelines-controller': ['*']",
		"'system:serviceaccount:mine:sluice-resolver-git': ['git']", "kubernetes.io/metadata.name: mine", "namespace: ci-resolvers\n", "namespace: ci\n",
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the manifests have no %q", want)
		}
	}
	for _, bad := range []config.Options{{Namespace: "a b"}, {Namespace: "Mine"}, {TektonNamespace: "ci"}, {BesideTekton: true, TektonResolversNamespace: "x'y"}} {
		bad.Image = "i"
		if _, err := config.Manifests(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

func TestValuesOfTheChartAreTaken(t *testing.T) {
	all := objects(t, config.Options{Roles: []string{"resolver-git"}, Values: []byte(`
image: example.test/other:v1
imagePullSecrets: [pull]
tolerations: [{operator: Exists}]
networkPolicies: false
log: {level: debug, format: text}
debug: true
workloads:
  resolver-git: {replicas: 3, resources: {limits: {memory: 2Gi}}, nodeSelector: {a: b}}
`)})
	var d appsv1.Deployment
	for _, u := range all {
		if u.GetKind() == "Deployment" {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &d, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	pod := d.Spec.Template.Spec
	got := []any{*d.Spec.Replicas, pod.ImagePullSecrets[0].Name, string(pod.Tolerations[0].Operator), pod.NodeSelector["a"], pod.Containers[0].Resources.Limits.Memory().String(), pod.Containers[0].Resources.Requests.Memory().String(), pod.Containers[0].Image}
	// The values of the command come before those of the file.
	if diff := cmp.Diff([]any{int32(3), "pull", "Exists", "b", "2Gi", "64Mi", testImage}, got); diff != "" {
		t.Error(diff)
	}
	for _, arg := range []string{"--log-level=debug", "--log-format=text", "--debug"} {
		if !slices.Contains(pod.Containers[0].Args, arg) {
			t.Errorf("%s is not among %v", arg, pod.Containers[0].Args)
		}
	}
	if names(all, "NetworkPolicy") != nil || len(names(all, "PodDisruptionBudget")) != 1 {
		t.Errorf("%v, %v", names(all, "NetworkPolicy"), names(all, "PodDisruptionBudget"))
	}
	for values, want := range map[string]string{
		"image: [":  "the values: ",
		"images: x": "images",
		"workloads: {resolver-git: {replica: 2}}":     "replica",
		"workloads: {resolver-gti: {replicas: 2}}":    `there is no role "resolver-gti"`,
		"workloads: {resolver-git: {replicas: many}}": "replicas",
		"networkPolicies: 'yes'":                      "networkPolicies",
		"log: {level: loud}":                          "log.level",
		"image: 'a\n  b'":                             "is no name of an image",
		"imagePullSecrets: ['a}']":                    "is no name of a Secret",
	} {
		o := config.Options{Values: []byte(values)}
		if !strings.HasPrefix(values, "image: ") {
			o.Image = testImage
		}
		if _, err := config.Manifests(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", values, err)
		}
	}
}

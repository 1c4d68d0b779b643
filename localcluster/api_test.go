package main_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func clientset(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func newNamespace(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	created, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.Name
}

func newConfigMap(t *testing.T, client kubernetes.Interface, namespace, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners},
		Data:       map[string]string{"key": "value"},
	}
	created, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// gone turns the outcome of a get into a condition for eventually.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		return errors.New("it is still there")
	}
	return err
}

func TestReadyMeansThatTheDefaultServiceAccountIsThere(t *testing.T) {
	client := clientset(t, sharedCluster(t).config(t))
	if _, err := client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestTheServerReportsItsVersion(t *testing.T) {
	cluster := sharedCluster(t)
	info, err := clientset(t, cluster.config(t)).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"v1.36.3", "1", "36", "v1.36.3"}, []string{info.GitVersion, info.Major, info.Minor, cluster.KubernetesVersion}); diff != "" {
		t.Error(diff)
	}
}

func TestCustomResourcesAreServed(t *testing.T) {
	config := sharedCluster(t).config(t)
	crds, err := apiextensions.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.test.example"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "test.example", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {
						Type:       "object",
						Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer", Maximum: new(10.0)}},
					}},
				}},
			}},
		},
	}
	if _, err := crds.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the CRD to be established", func(ctx context.Context) error {
		live, err := crds.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, crd.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range live.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", live.Status.Conditions)
	})

	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	widgets := objects.Resource(schema.GroupVersionResource{Group: "test.example", Version: "v1", Resource: "widgets"}).Namespace("default")
	widget := func(name string, size int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "test.example/v1", "kind": "Widget",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"size": size},
		}}
	}
	eventually(t, "a widget to be created", func(ctx context.Context) error {
		_, err := widgets.Create(ctx, widget("small", 3), metav1.CreateOptions{})
		return err
	})
	got, err := widgets.Get(t.Context(), "small", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"size": int64(3)}, got.Object["spec"]); diff != "" {
		t.Error(diff)
	}
	if _, err := widgets.Create(t.Context(), widget("large", 11), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an object over the maximum: %v", err)
	}
}

func TestADeletedNamespaceIsEmptiedAndFinalised(t *testing.T) {
	client := clientset(t, sharedCluster(t).config(t))
	namespace := newNamespace(t, client)
	newConfigMap(t, client, namespace, "content")
	if err := client.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to be gone", func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return gone(err)
	})
}

func TestWhatADeletedObjectOwnedIsCollected(t *testing.T) {
	client := clientset(t, sharedCluster(t).config(t))
	namespace := newNamespace(t, client)
	owner := newConfigMap(t, client, namespace, "owner")
	newConfigMap(t, client, namespace, "owned", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID})
	newConfigMap(t, client, namespace, "bystander")
	if err := client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the owned object to be gone", func(ctx context.Context) error {
		_, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, "owned", metav1.GetOptions{})
		return gone(err)
	})
	if _, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "bystander", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// tokenFor returns a configuration that authenticates as a service account.
func tokenFor(t *testing.T, config *rest.Config, namespace, name string) *rest.Config {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	answer, err := clientset(t, config).CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := rest.AnonymousClientConfig(config)
	out.BearerToken = answer.Status.Token
	return out
}

func whoAmI(t *testing.T, config *rest.Config) (string, error) {
	t.Helper()
	review, err := clientset(t, config).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

func TestAServiceAccountAuthenticatesAndRBACDeniesIt(t *testing.T) {
	config := sharedCluster(t).config(t)
	account := tokenFor(t, config, "default", "default")
	user, err := whoAmI(t, account)
	if err != nil {
		t.Fatal(err)
	}
	if want := "system:serviceaccount:default:default"; user != want {
		t.Errorf("user %q, want %q", user, want)
	}
	if _, err := clientset(t, account).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing secrets without a right to: %v", err)
	}
	account.BearerToken += "x"
	if _, err := whoAmI(t, account); !apierrors.IsUnauthorized(err) {
		t.Errorf("a forged token: %v", err)
	}
}

func TestAdmissionPoliciesAreEnforced(t *testing.T) {
	client := clientset(t, sharedCluster(t).config(t))
	namespace := newNamespace(t, client)
	policies := client.AdmissionregistrationV1()
	create := metav1.CreateOptions{}
	rules := []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}}
	match := &admissionregistrationv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		ResourceRules:     rules,
	}
	fail := admissionregistrationv1.Fail

	_, err := policies.ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "no-forbidden"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail, MatchConstraints: match,
			Validations: []admissionregistrationv1.Validation{{Expression: "object.metadata.name != 'forbidden'"}},
		},
	}, create)
	if err != nil {
		t.Fatal(err)
	}
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "no-forbidden"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "no-forbidden", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, create)
	if err != nil {
		t.Fatal(err)
	}
	_, err = policies.MutatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "stamp"},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy: &fail, MatchConstraints: match, ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: "Object{metadata: Object.metadata{labels: {'stamped': 'yes'}}}"},
			}},
		},
	}, create)
	if err != nil {
		t.Fatal(err)
	}
	_, err = policies.MutatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "stamp"},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "stamp"},
	}, create)
	if err != nil {
		t.Fatal(err)
	}

	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	try := func(ctx context.Context, name string) (*corev1.ConfigMap, error) {
		return client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, dryRun)
	}
	eventually(t, "the validating policy to refuse", func(ctx context.Context) error {
		if _, err := try(ctx, "forbidden"); !apierrors.IsInvalid(err) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	eventually(t, "the mutating policy to change", func(ctx context.Context) error {
		got, err := try(ctx, "allowed")
		if err != nil {
			return err
		}
		if got.Labels["stamped"] != "yes" {
			return fmt.Errorf("labels %v", got.Labels)
		}
		return nil
	})
}

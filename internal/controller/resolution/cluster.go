package resolution

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/resolve"
)

// secrets reads Secrets with the rights of the process.
type secrets struct {
	kube kubernetes.Interface
	// account is the process's ServiceAccount, for the message that tells which RoleBinding is missing.
	namespace, account string
}

// Secret implements resolve.Secrets. Where RBAC refuses, the error gives the command that lets it pass.
func (s secrets) Secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	secret, err := s.kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return secret.Data, nil
	case apierrors.IsNotFound(err):
		return nil, resolve.Errorf(resolve.ReasonNotFound, "there is no Secret %q in namespace %q", name, namespace)
	case apierrors.IsForbidden(err):
		return nil, resolve.Errorf(resolve.ReasonDenied,
			"the resolver may not read Secrets in namespace %q; whoever owns it can allow that with: kubectl create rolebinding %s-credentials --namespace=%s --clusterrole=sluice-resolver-credentials --serviceaccount=%s:%s",
			namespace, s.account, namespace, s.namespace, s.account)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	e := resolve.Transientf("the Secret %q in namespace %q cannot be read now", name, namespace)
	e.Err = err
	return nil, e
}

// serviceAccount is the user name of a ServiceAccount.
func serviceAccount(namespace, name string) string {
	return fmt.Sprintf("system:serviceaccount:%s:%s", namespace, name)
}

// event reasons.
const (
	eventInvalidConfig = "InvalidConfiguration"
)

// configMapRef names a ConfigMap for events.
func configMapRef(namespace, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name}
}

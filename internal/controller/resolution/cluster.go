package resolution

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/resolve"
)

// Resolvers read Secrets in the requester's namespace, with the rights of their own ServiceAccount. By default it has none there: the
// owner of the namespace gives them by a RoleBinding. So the error for a missing right has the command that gives it.

// Credentials reads Secrets and ServiceAccounts with the rights of the process. It implements [resolve.Secrets].
type Credentials struct {
	Kube kubernetes.Interface
	// Namespace and Account are those of the process's ServiceAccount, for the message about a missing RoleBinding.
	Namespace, Account string
}

// Secret returns the data of a Secret, and its annotation [resolve.SecretHosts]. If RBAC refuses, the error has the command that
// grants the right.
func (c Credentials) Secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	secret, err := c.Kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, c.explainError(ctx, err, "Secret", namespace, name)
	}
	if hosts, ok := secret.Annotations[resolve.SecretHosts]; ok {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[resolve.SecretHosts] = []byte(hosts)
	}
	return secret.Data, nil
}

// ImagePullSecrets returns the names of the Secrets that a ServiceAccount has for pulling images.
func (c Credentials) ImagePullSecrets(ctx context.Context, namespace, name string) ([]string, error) {
	account, err := c.Kube.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, c.explainError(ctx, err, "ServiceAccount", namespace, name)
	}
	out := make([]string, 0, len(account.ImagePullSecrets))
	for _, s := range account.ImagePullSecrets {
		out = append(out, s.Name)
	}
	return out, nil
}

// explainError says in terms of package resolve why an object could not be read. A missing object or right is permanent, and anything
// else may pass, so that the framework tries it again.
func (c Credentials) explainError(ctx context.Context, err error, kind, namespace, name string) error {
	switch {
	case apierrors.IsNotFound(err):
		return resolve.Errorf(resolve.ReasonNotFound, "there is no %s %q in namespace %q", kind, name, namespace)
	case apierrors.IsForbidden(err):
		return resolve.Errorf(resolve.ReasonDenied,
			"the resolver may not read %ss in namespace %q; whoever owns it can allow that with: kubectl create rolebinding %s-credentials --namespace=%s --clusterrole=sluice-resolver-credentials --serviceaccount=%s:%s",
			kind, namespace, c.Account, namespace, c.Namespace, c.Account)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	e := resolve.Transientf("the %s %q in namespace %q cannot be read now", kind, name, namespace)
	e.Err = err
	return e
}

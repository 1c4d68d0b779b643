package resolution

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"sluice.dev/resolve"
)

func TestTheHostsOfASecretAreThoseOfItsAnnotation(t *testing.T) {
	secret := func(name string, annotations map[string]string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: annotations}, Data: data}
	}
	hosts := map[string]string{resolve.SecretHosts: "git.test"}
	c := Credentials{Kube: fake.NewClientset(
		secret("plain", map[string]string{"other": "x"}, map[string][]byte{"token": []byte("t")}),
		secret("bound", hosts, map[string][]byte{"token": []byte("t")}), secret("empty", hosts, nil),
	)}
	for name, want := range map[string]map[string][]byte{
		"plain": {"token": []byte("t")}, "bound": {"token": []byte("t"), resolve.SecretHosts: []byte("git.test")}, "empty": {resolve.SecretHosts: []byte("git.test")},
	} {
		got, err := c.Secret(t.Context(), "ns", name)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

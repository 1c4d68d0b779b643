package resolution

import (
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestTheCertificateIsSharedRenewedAndTrustedBesideTheOneBefore(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crdName}}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{
			Service: &apiextensionsv1.ServiceReference{Name: WebhookService, Namespace: "ns"},
		}},
	}
	kube, crds := fake.NewClientset(), crdfake.NewClientset(crd)
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	replica := func() *Certificate {
		return &Certificate{Kube: kube, CRDs: crds, Namespace: "ns", Clock: clock, Log: slog.New(slog.DiscardHandler)}
	}
	trusted := func(c *Certificate) error {
		t.Helper()
		live, err := crds.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), crdName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(live.Spec.Conversion.Webhook.ClientConfig.CABundle)
		pair, err := c.Get(nil)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		_, err = cert.Verify(x509.VerifyOptions{DNSName: "sluice-resolution.ns.svc", Roots: roots, CurrentTime: clock.Now()})
		return err
	}
	serial := func(c *Certificate) string {
		pair, err := c.Get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(pair.Certificate[0])
	}

	one, two := replica(), replica()
	if _, err := one.Get(nil); err == nil {
		t.Error("a certificate before there is one")
	}
	for _, c := range []*Certificate{one, two} {
		if err := c.ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := trusted(c); err != nil {
			t.Error(err)
		}
	}
	if serial(one) != serial(two) {
		t.Error("two replicas have different certificates")
	}

	old := serial(two)
	clock.Step(certificateLife - renewBefore + time.Hour)
	if err := one.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if serial(one) == old || trusted(one) != nil || trusted(two) != nil {
		t.Errorf("renewed: %v, trusted: %v, the old one: %v", serial(one) != old, trusted(one), trusted(two))
	}

	// A Secret that somebody has spoilt is made anew.
	secret, err := kube.CoreV1().Secrets("ns").Get(t.Context(), TLSSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Data = map[string][]byte{corev1.TLSCertKey: pem.EncodeToMemory(&pem.Block{Type: "OTHER"})}
	if _, err := kube.CoreV1().Secrets("ns").Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := two.ensure(t.Context()); err != nil || trusted(two) != nil {
		t.Errorf("%v, %v", err, trusted(two))
	}
}

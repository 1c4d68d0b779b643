package resolution

import (
	"context"
	"encoding/pem"
	"log/slog"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestTheCertificateIsToldToTheCRDThatConvertsThroughUs(t *testing.T) {
	for name, test := range map[string]struct {
		service string
		want    bool
	}{
		"ours":     {WebhookService, true},
		"Tekton's": {"tekton-pipelines-webhook", false},
	} {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crdName}}
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{
				Service: &apiextensionsv1.ServiceReference{Name: test.service, Namespace: "ns"},
			}},
		}
		crds := crdfake.NewClientset(crd)
		clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		c := NewCertificate(fake.NewClientset(), crds, "ns", clock, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		c.Run(ctx, cancel)
		live, err := crds.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), crdName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(live.Spec.Conversion.Webhook.ClientConfig.CABundle)
		if (block != nil) != test.want {
			t.Errorf("%s: a certificate stands there: %v", name, !test.want)
		}
	}
}

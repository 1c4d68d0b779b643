package resolution

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"sluice.dev/internal/servingcert"
)

// The API server calls the conversion webhook only with a certificate that the CRD trusts. Package servingcert makes and renews it,
// and this file writes its CA into the CRD.

const (
	crdName = "resolutionrequests.resolution.tekton.dev"
	// TLSSecret is the Secret that the replicas share.
	TLSSecret = "sluice-resolution-tls" //nolint:gosec // the name of a Secret
	// WebhookService is the Service that the API server calls.
	WebhookService = "sluice-resolution"
)

// NewCertificate returns the certificate of the conversion webhook. It writes its CA into the CRD, for the API server. namespace is
// that of the Secret and of the Service.
func NewCertificate(kube kubernetes.Interface, crds apiextensions.Interface, namespace string, clock clock.Clock, log *slog.Logger) *servingcert.Certificate {
	return &servingcert.Certificate{
		Kube: kube, Namespace: namespace, Secret: TLSSecret, Hosts: []string{fmt.Sprintf("%s.%s.svc", WebhookService, namespace)},
		Clock: clock, Log: log,
		Tell: func(ctx context.Context, bundle []byte) error { return tellCRD(ctx, crds, namespace, bundle, log) },
	}
}

// tellCRD writes the certificate into the CRD unless it is there already. It ignores a CRD that converts in another way, because it
// is not ours.
func tellCRD(ctx context.Context, clients apiextensions.Interface, namespace string, bundle []byte, log *slog.Logger) error {
	crds := clients.ApiextensionsV1().CustomResourceDefinitions()
	crd, err := crds.Get(ctx, crdName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil || conversion.Webhook.ClientConfig.Service == nil ||
		conversion.Webhook.ClientConfig.Service.Name != WebhookService || conversion.Webhook.ClientConfig.Service.Namespace != namespace {
		log.Warn("the CRD does not convert through this webhook; it is left alone", "crd", crdName)
		return nil
	}
	if bytes.Equal(conversion.Webhook.ClientConfig.CABundle, bundle) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": crd.ResourceVersion}, "spec": map[string]any{
		"conversion": map[string]any{"webhook": map[string]any{"clientConfig": map[string]any{"caBundle": bundle}}},
	}})
	if err != nil {
		return err
	}
	_, err = crds.Patch(ctx, crdName, mergePatch, patch, metav1.PatchOptions{FieldManager: "sluice"})
	return err
}

package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// The API server trusts the guard by the CA bundle in its configuration. The guard writes it there itself, so that no manifest has a
// certificate.

const (
	// Configuration is the ValidatingWebhookConfiguration.
	Configuration = "sluice-crd-guard"
	// Service is the Service that the API server calls.
	Service = "sluice-crd-guard"
	// TLSSecret has the certificate that the replicas share.
	TLSSecret = "sluice-crd-guard-tls" //nolint:gosec // the name of a Secret
)

// TellConfiguration writes the CA bundle into all webhooks of the [Configuration], unless it is there already. If there is no
// configuration, the API server does not call the guard, and it does nothing.
func TellConfiguration(ctx context.Context, kube kubernetes.Interface, bundle []byte) error {
	configurations := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	live, err := configurations.Get(ctx, Configuration, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	patch := []map[string]any{{"op": "test", "path": "/metadata/resourceVersion", "value": live.ResourceVersion}}
	for i := range live.Webhooks {
		if !bytes.Equal(live.Webhooks[i].ClientConfig.CABundle, bundle) {
			patch = append(patch, map[string]any{"op": "add", "path": fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), "value": bundle})
		}
	}
	if len(patch) == 1 {
		return nil
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = configurations.Patch(ctx, Configuration, types.JSONPatchType, data, metav1.PatchOptions{FieldManager: "sluice"})
	return err
}

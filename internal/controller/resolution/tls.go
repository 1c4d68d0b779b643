package resolution

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

const (
	crdName = "resolutionrequests.resolution.tekton.dev"
	// TLSSecret is the Secret that the replicas share.
	TLSSecret = "sluice-resolution-tls" //nolint:gosec // the name of a Secret
	// WebhookService is the Service that the API server calls.
	WebhookService = "sluice-resolution"

	certificateLife = 365 * 24 * time.Hour
	renewBefore     = 60 * 24 * time.Hour
	lookAgain       = 10 * time.Minute
	previousKey     = "previous.crt"
)

// Certificate keeps the certificate of the conversion webhook: self-signed, in a Secret that all replicas share, renewed
// before it ends, and told to the API server in the CRD. A renewed one is trusted beside the one before it, so that
// replicas which still have the old one are not refused.
type Certificate struct {
	Kube kubernetes.Interface
	CRDs apiextensions.Interface
	// Namespace is that of the Secret and of the Service.
	Namespace string
	Clock     clock.Clock
	Log       *slog.Logger

	current atomic.Pointer[tls.Certificate]
}

// Get is for tls.Config.GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := c.current.Load(); cert != nil {
		return cert, nil
	}
	return nil, errors.New("no certificate yet")
}

// Run keeps the certificate until ctx is done. ready is called when there is one and the API server knows it.
func (c *Certificate) Run(ctx context.Context, ready func()) {
	for first := true; ; {
		wait := lookAgain
		if err := c.ensure(ctx); err != nil {
			wait = 2 * time.Second
			if ctx.Err() == nil {
				c.Log.Error("the certificate of the conversion webhook is not in order", "error", err)
			}
		} else if first {
			first = false
			ready()
		}
		select {
		case <-ctx.Done():
			return
		case <-c.Clock.After(wait):
		}
	}
}

func (c *Certificate) ensure(ctx context.Context) error {
	secrets := c.Kube.CoreV1().Secrets(c.Namespace)
	secret, err := secrets.Get(ctx, TLSSecret, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	if missing || !c.good(secret) {
		previous := []byte(nil)
		if !missing {
			previous = secret.Data[corev1.TLSCertKey]
		} else {
			secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: TLSSecret}, Type: corev1.SecretTypeTLS}
		}
		if secret.Data, err = c.generate(previous); err != nil {
			return err
		}
		// Where another replica was faster, the next round finds what it has made.
		if missing {
			secret, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
		} else {
			secret, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
		}
		if err != nil {
			return err
		}
		c.Log.Info("made a certificate for the conversion webhook")
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return err
	}
	if err := c.tell(ctx, slices.Concat(secret.Data[corev1.TLSCertKey], secret.Data[previousKey])); err != nil {
		return err
	}
	c.current.Store(&pair)
	return nil
}

// good tells whether the certificate will do for some time.
func (c *Certificate) good(secret *corev1.Secret) bool {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return false
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	return err == nil && c.Clock.Now().Add(renewBefore).Before(cert.NotAfter) && cert.VerifyHostname(c.host()) == nil
}

func (c *Certificate) host() string { return fmt.Sprintf("%s.%s.svc", WebhookService, c.Namespace) }

func (c *Certificate) generate(previous []byte) (map[string][]byte, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := c.Clock.Now()
	template := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: c.host()}, DNSNames: []string{c.host()},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}
	if block, _ := pem.Decode(previous); block != nil && block.Type == "CERTIFICATE" {
		out[previousKey] = pem.EncodeToMemory(block)
	}
	return out, nil
}

// tell writes the certificate into the CRD unless it stands there. A CRD that converts in another way is not ours.
func (c *Certificate) tell(ctx context.Context, bundle []byte) error {
	crds := c.CRDs.ApiextensionsV1().CustomResourceDefinitions()
	crd, err := crds.Get(ctx, crdName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil || conversion.Webhook.ClientConfig.Service == nil ||
		conversion.Webhook.ClientConfig.Service.Name != WebhookService || conversion.Webhook.ClientConfig.Service.Namespace != c.Namespace {
		c.Log.Warn("the CRD does not convert through this webhook; it is left alone", "crd", crdName)
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

// Package servingcert keeps the certificate of a webhook that the API server calls: one that is made here, shared by all
// replicas in a Secret, renewed before it ends and told to the API server; or one that somebody else puts into a folder.
//
// It promises that while certificates change, one is served that the API server has been told to trust for some seconds
// already. It does not know where the API server looks for the bundle: the caller's function writes it there.
package servingcert

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

const (
	// Life is how long a certificate is valid.
	Life = 365 * 24 * time.Hour
	// RenewBefore is how long before its end a certificate is replaced.
	RenewBefore = 60 * 24 * time.Hour

	lookAgain = 10 * time.Minute
	// settle is how long the API server has known a new certificate before it is served.
	settle      = 5 * time.Second
	previousKey = "previous.crt"
)

// Certificate is a self-signed certificate in a Secret that all replicas share. A renewed one is trusted beside the one
// before it, so that replicas which still have that are not refused.
type Certificate struct {
	Kube kubernetes.Interface
	// Namespace and Secret say where it is kept.
	Namespace, Secret string
	// Hosts are the DNS names and IP addresses that it is for; at least one.
	Hosts []string
	// Tell writes the bundle, in PEM, to where the API server reads it, unless it stands there.
	Tell func(ctx context.Context, bundle []byte) error
	// Every is how often the Secret and the bundle are looked at; 0 stands for ten minutes.
	Every time.Duration
	Clock clock.Clock
	Log   *slog.Logger

	current atomic.Pointer[tls.Certificate]
	// next is the certificate, in PEM, that will be served from the next look on.
	next []byte
}

// Get is for tls.Config.GetCertificate. The error says that there is none yet.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := c.current.Load(); cert != nil {
		return cert, nil
	}
	return nil, errors.New("no certificate yet")
}

// Run keeps the certificate until ctx is done. ready is called when there is one and the API server knows it.
func (c *Certificate) Run(ctx context.Context, ready func()) {
	for first := true; ; {
		wait := cmp.Or(c.Every, lookAgain)
		settled, err := c.ensureServed(ctx)
		switch {
		case err != nil:
			wait = 2 * time.Second
			if ctx.Err() == nil {
				c.Log.Error("the certificate of the webhook is not in order", "secret", c.Secret, "error", err)
			}
		case !settled:
			wait = settle
		case first:
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

// ensureServed sees to it that there is a certificate, that the API server knows it, and that it is served; the last is left to the
// next call, and settled is false, where another one is served that is still trusted.
func (c *Certificate) ensureServed(ctx context.Context) (settled bool, err error) {
	secret, err := c.ensureSecret(ctx)
	if err != nil {
		return false, err
	}
	text := secret.Data[corev1.TLSCertKey]
	pair, err := tls.X509KeyPair(text, secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return false, err
	}
	bundle := slices.Concat(text, secret.Data[previousKey])
	if err := c.Tell(ctx, bundle); err != nil {
		return false, err
	}
	served := c.current.Load()
	if served != nil && !bytes.Equal(served.Certificate[0], pair.Certificate[0]) && c.isTrusted(served, bundle) && !bytes.Equal(c.next, text) {
		c.next = text
		return false, nil
	}
	c.current.Store(&pair)
	return true, nil
}

// isTrusted tells whether the API server takes the certificate now, if it has the bundle.
func (c *Certificate) isTrusted(pair *tls.Certificate, bundle []byte) bool {
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	if err != nil {
		return false
	}
	_, err = cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: c.Clock.Now()})
	return err == nil
}

// ensureSecret returns the Secret with a certificate that will do for some time, making it where there is none. Where another
// replica was faster that is an error, and the next call finds what it has made.
func (c *Certificate) ensureSecret(ctx context.Context) (*corev1.Secret, error) {
	secrets := c.Kube.CoreV1().Secrets(c.Namespace)
	secret, err := secrets.Get(ctx, c.Secret, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return nil, err
	}
	if !missing && c.isUsable(secret) {
		return secret, nil
	}
	var before []byte
	if !missing {
		before = secret.Data[corev1.TLSCertKey]
	}
	data, err := c.generatePair(before)
	if err != nil {
		return nil, err
	}
	if missing {
		// By apply, so that a role can confine what is made to this name. Each try is a manager of its own: another
		// replica's Secret is a conflict and not overwritten.
		made := corev1apply.Secret(c.Secret, c.Namespace).WithType(corev1.SecretTypeTLS).WithData(data)
		secret, err = secrets.Apply(ctx, made, metav1.ApplyOptions{FieldManager: "sluice-" + rand.Text()})
	} else {
		secret.Data = data
		secret, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err == nil {
		c.Log.Info("made a certificate for the webhook", "secret", c.Secret)
	}
	return secret, err
}

// isUsable tells whether the certificate will do for some time.
func (c *Certificate) isUsable(secret *corev1.Secret) bool {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return false
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil || !c.Clock.Now().Add(RenewBefore).Before(cert.NotAfter) {
		return false
	}
	return !slices.ContainsFunc(c.Hosts, func(host string) bool { return cert.VerifyHostname(host) != nil })
}

// generatePair makes a key and a self-signed certificate for the hosts, in PEM, under the keys of a TLS Secret. previous is the
// certificate that is still served by other replicas; the API server trusts both until the next renewal.
func (c *Certificate) generatePair(previous []byte) (map[string][]byte, error) {
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
		SerialNumber: number, Subject: pkix.Name{CommonName: c.Hosts[0]},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(Life),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	for _, host := range c.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
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

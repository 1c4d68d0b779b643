package servingcert

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

// world is a cluster with replicas that share a certificate, and what the API server has been told.
type world struct {
	t      *testing.T
	kube   *fake.Clientset
	clock  *clocktesting.FakeClock
	bundle []byte
}

func newWorld(t *testing.T) *world {
	return &world{t: t, kube: fake.NewClientset(), clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
}

func (w *world) replica() *Certificate {
	return &Certificate{
		Kube: w.kube, Namespace: "ns", Secret: "tls", Hosts: []string{"hook.ns.svc", "127.0.0.1"}, Clock: w.clock, Log: slog.New(slog.DiscardHandler),
		Tell: func(_ context.Context, bundle []byte) error { w.bundle = bundle; return nil },
	}
}

func (w *world) ensure(c *Certificate, want bool) {
	w.t.Helper()
	if settled, err := c.ensureServed(w.t.Context()); err != nil || settled != want {
		w.t.Fatalf("settled: %v, %v", settled, err)
	}
}

// serves returns what the replica serves, after a look at whether the API server takes it.
func (w *world) serves(c *Certificate) string {
	w.t.Helper()
	pair, err := c.Get(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		w.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.bundle)
	for _, host := range []string{"hook.ns.svc", "127.0.0.1"} {
		if _, err = cert.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: w.clock.Now()}); err != nil {
			w.t.Error(err)
		}
	}
	return string(pair.Certificate[0])
}

func TestTheCertificateIsSharedRenewedAndTrustedBesideTheOneBefore(t *testing.T) {
	w := newWorld(t)
	one, two := w.replica(), w.replica()
	if _, err := one.Get(nil); err == nil {
		t.Error("a certificate before there is one")
	}
	w.ensure(one, true)
	w.ensure(two, true)
	old := w.serves(one)
	if w.serves(two) != old {
		t.Error("two replicas have different certificates")
	}

	// Renewed: first the API server is told, then it is served.
	w.clock.Step(Life - RenewBefore + time.Hour)
	w.ensure(one, false)
	if w.serves(one) != old || w.serves(two) != old {
		t.Error("the new certificate is served before the API server can know it")
	}
	w.ensure(one, true)
	renewed := w.serves(one)
	if renewed == old || w.serves(two) != old {
		t.Error("the certificate is not renewed")
	}
	w.ensure(two, false)
	w.ensure(two, true)
	if w.serves(two) != renewed {
		t.Error("the other replica does not follow")
	}
}

// TestAnEndedCertificateIsReplacedAtOnce: nothing renewed it for longer than it lived, in a replica that stood still and in a new one.
func TestAnEndedCertificateIsReplacedAtOnce(t *testing.T) {
	w := newWorld(t)
	stood := w.replica()
	w.ensure(stood, true)
	before := w.serves(stood)
	w.clock.Step(Life + time.Minute)
	fresh := w.replica()
	w.ensure(fresh, true)
	w.ensure(stood, true)
	if after := w.serves(stood); after == before || after != w.serves(fresh) {
		t.Error("the ended certificate is served")
	}
}

func TestASpoiltSecretIsMadeAnewAndServedAtOnce(t *testing.T) {
	w := newWorld(t)
	c := w.replica()
	w.ensure(c, true)
	old := w.serves(c)
	secret, err := w.kube.CoreV1().Secrets("ns").Get(t.Context(), "tls", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Data = map[string][]byte{corev1.TLSCertKey: pem.EncodeToMemory(&pem.Block{Type: "OTHER"})}
	if _, err := w.kube.CoreV1().Secrets("ns").Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.ensure(c, true)
	if w.serves(c) == old {
		t.Error("the old certificate is trusted without the Secret")
	}
}

func TestACertificateForOtherHostsIsReplaced(t *testing.T) {
	w := newWorld(t)
	other := w.replica()
	other.Hosts = []string{"hook.ns.svc"}
	w.ensure(other, true)
	c := w.replica()
	w.ensure(c, true)
	w.serves(c)
}

func TestFilesAreReadAnewWhenTheyChange(t *testing.T) {
	dir := t.TempDir()
	f := &Files{Dir: dir, Log: slog.New(slog.DiscardHandler)}
	if _, err := f.Get(nil); err == nil {
		t.Error("a certificate without files")
	}
	put := func(at time.Time) {
		t.Helper()
		data, err := newWorld(t).replica().generatePair(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{corev1.TLSPrivateKeyKey, corev1.TLSCertKey} {
			if err := os.WriteFile(filepath.Join(dir, name), data[name], 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	get := func() string {
		t.Helper()
		pair, err := f.Get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(pair.Certificate[0])
	}
	put(time.Unix(1, 0))
	first := get()
	if get() != first {
		t.Error("it changes by itself")
	}
	put(time.Unix(2, 0))
	second := get()
	if second == first {
		t.Error("the change is not seen")
	}
	if err := os.Remove(filepath.Join(dir, corev1.TLSCertKey)); err != nil {
		t.Fatal(err)
	}
	if get() != second {
		t.Error("the last certificate is gone with its file")
	}
}

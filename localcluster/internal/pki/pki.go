// Package pki makes and keeps the keys and certificates of one local cluster.
//
// It promises to use keys and certificates again. An authority, a key for ServiceAccount tokens or a client's certificate that is
// in the folder stays as it is, so that kubeconfigs and tokens remain valid after a restart. A leaf that is missing, damaged, near
// its end or signed by another authority is created again. The package does not decide about rights: the caller gives the names and
// groups for certificates, and RBAC judges them.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"sluice.dev/localcluster/internal/atomicfile"
)

const (
	lifetime = 10 * 365 * 24 * time.Hour
	// backdate keeps a certificate valid on a machine whose clock was just set back a little.
	backdate = time.Hour
	// renewal is the time before its end at which a certificate is created again.
	renewal = 30 * 24 * time.Hour
)

// Leaf describes one certificate that the authority signs.
type Leaf struct {
	// Name is the file name without its ending: NAME.crt and NAME.key.
	Name string
	// CommonName is the user name in a client's certificate.
	CommonName string
	// Groups are the user's groups in a client's certificate; nil for none.
	Groups []string
	// DNSNames and IPs make it a serving certificate for these names; both empty make it a client's certificate.
	DNSNames []string
	IPs      []net.IP
}

func (l Leaf) serving() bool { return len(l.DNSNames)+len(l.IPs) > 0 }

// Pair is a certificate and its key, as PEM, with the files that hold them.
type Pair struct {
	CertFile, KeyFile string
	CertPEM, KeyPEM   []byte
}

// Authority signs certificates and keeps everything in one folder.
type Authority struct {
	dir  string
	now  time.Time
	cert *x509.Certificate
	key  crypto.Signer
	pair Pair
}

// Open loads the authority kept in dir, or makes a new one, and the folder (mode 0700) too. now is the time for making and checking
// certificates. If an authority is there and cannot be read, that is an error: a new one would invalidate every kubeconfig in use.
func Open(dir string, now time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	a := &Authority{dir: dir, now: now}
	if _, err := os.Stat(a.path("ca", ".crt")); errors.Is(err, fs.ErrNotExist) {
		return a, a.create()
	}
	pair, err := a.read("ca")
	if err == nil {
		a.cert, a.key, err = parsePair(pair)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the certificate authority in %s cannot be used (remove that folder to have a new one made): %w", dir, err)
	case now.Add(renewal).After(a.cert.NotAfter):
		return a, a.create()
	}
	a.pair = pair
	return a, nil
}

// CA returns the authority's own certificate and key.
func (a *Authority) CA() Pair { return a.pair }

// Leaf returns the certificate that l describes: the kept one if it still fits, otherwise a new one.
func (a *Authority) Leaf(l Leaf) (Pair, error) {
	if pair, err := a.read(l.Name); err == nil && a.fits(pair, l) {
		return pair, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	template, err := a.template(l.CommonName)
	if err != nil {
		return Pair{}, err
	}
	template.Subject.Organization = l.Groups
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if l.serving() {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		template.DNSNames, template.IPAddresses = l.DNSNames, l.IPs
	}
	return a.writePair(l.Name, template, a.cert, key, a.key)
}

// SigningKey returns the files of the key pair NAME.key and NAME.pub, which signs ServiceAccount tokens. It makes a missing pair,
// and never replaces an existing one.
func (a *Authority) SigningKey(name string) (private, public string, err error) {
	private, public = a.path(name, ".key"), a.path(name, ".pub")
	encoded, err := os.ReadFile(private) //nolint:gosec // a file in the authority's folder
	if errors.Is(err, fs.ErrNotExist) {
		if encoded, err = keyutil.MakeEllipticPrivateKeyPEM(); err == nil {
			err = atomicfile.Write(private, encoded, 0o600)
		}
	}
	if err != nil {
		return "", "", err
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(encoded)
	key, ok := parsed.(crypto.Signer)
	if err != nil || !ok {
		return "", "", errors.Join(fmt.Errorf("%s: no private key in it", private), err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", err
	}
	return private, public, atomicfile.Write(public, pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der}), 0o644)
}

// create makes a new authority, in place of one that is there. All certificates of the old one stop being
// valid.
func (a *Authority) create() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := a.template("localcluster-ca")
	if err != nil {
		return err
	}
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	pair, err := a.writePair("ca", template, template, key, key)
	if err != nil {
		return err
	}
	a.pair = pair
	a.cert, a.key, err = parsePair(pair)
	return err
}

// fits reports whether a kept pair can serve for l: it is readable, of this authority, not near its end, and has the same names.
func (a *Authority) fits(pair Pair, l Leaf) bool {
	kept, _, err := parsePair(pair)
	if err != nil || kept.CheckSignatureFrom(a.cert) != nil || a.now.Add(renewal).After(kept.NotAfter) {
		return false
	}
	for _, ip := range l.IPs {
		if kept.VerifyHostname(ip.String()) != nil {
			return false
		}
	}
	for _, name := range l.DNSNames {
		if kept.VerifyHostname(name) != nil {
			return false
		}
	}
	return kept.Subject.String() == (pkix.Name{CommonName: l.CommonName, Organization: l.Groups}).String()
}

// template is what all certificates have in common: a random serial number, the name, and when they are
// valid.
func (a *Authority) template(commonName string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             a.now.Add(-backdate),
		NotAfter:              a.now.Add(lifetime),
		BasicConstraintsValid: true,
	}, nil
}

// writePair signs a certificate and keeps it with its key. The key is written first, so that a crash leaves no
// certificate without its key.
func (a *Authority) writePair(name string, template, parent *x509.Certificate, key, signer crypto.Signer) (Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return Pair{}, err
	}
	pair := a.files(name)
	pair.CertPEM, pair.KeyPEM = pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), keyPEM
	if err := atomicfile.Write(pair.KeyFile, pair.KeyPEM, 0o600); err != nil {
		return Pair{}, err
	}
	return pair, atomicfile.Write(pair.CertFile, pair.CertPEM, 0o644)
}

// read returns the kept pair as it is, without a look at what is in it.
func (a *Authority) read(name string) (Pair, error) {
	pair := a.files(name)
	var err error
	if pair.CertPEM, err = os.ReadFile(pair.CertFile); err != nil {
		return Pair{}, err
	}
	pair.KeyPEM, err = os.ReadFile(pair.KeyFile)
	return pair, err
}

func (a *Authority) files(name string) Pair {
	return Pair{CertFile: a.path(name, ".crt"), KeyFile: a.path(name, ".key")}
}

func (a *Authority) path(name, ending string) string { return filepath.Join(a.dir, name+ending) }

// parsePair reads a pair, whose key has to be that of the certificate.
func parsePair(pair Pair) (*x509.Certificate, crypto.Signer, error) {
	read, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("%s and %s: %w", pair.CertFile, pair.KeyFile, err)
	}
	key, ok := read.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("%s: a key that cannot sign", pair.KeyFile)
	}
	return read.Leaf, key, nil
}

package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha256" // SHA-256, which crypto.Hash.New needs linked in
	_ "crypto/sha512" // SHA-384 and SHA-512
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/sigstore/sigstore/pkg/signature"
)

// ErrSignature means that the key has not made this signature over the message.
var ErrSignature = errors.New("the signature is not by this key")

// Verifier checks signatures with one key.
type Verifier interface {
	// Verify returns nil if the key has made signature over message, and an error that wraps [ErrSignature] if it has not. Another
	// error means that it could not decide.
	Verify(ctx context.Context, message, signature []byte) error
}

// KMS provides keys that are kept elsewhere.
type KMS interface {
	// Verifier returns the key of that URI. It must not block, because it is called when policies are read. The returned verifier
	// may use the network.
	Verifier(uri string) (Verifier, error)
}

// PublicKey is a key of a policy.
type PublicKey struct {
	// Name is for messages: the name of the policy's key, or else its ID.
	Name string
	// ID identifies the key: sha256: and the hexadecimal SHA-256 of its PKIX form, or the URI in a KMS.
	ID string
	Verifier
}

const minRSABits = 2048

func newPublicKey(k Key, kms KMS) (PublicKey, error) {
	switch {
	case k.PEM != "" && k.KMS != "":
		return PublicKey{}, errors.New("it has both pem and kms; one of them is wanted")
	case k.KMS != "":
		return newKMSKey(k, kms)
	case k.PEM == "":
		return PublicKey{}, errors.New("it has neither pem nor kms")
	}
	hash, err := hashByName(k.Hash)
	if err != nil {
		return PublicKey{}, err
	}
	block, rest := pem.Decode([]byte(k.PEM))
	if block == nil {
		return PublicKey{}, errors.New("it is not in PEM form")
	}
	if strings.TrimSpace(string(rest)) != "" {
		return PublicKey{}, errors.New("something follows the first PEM block; give one key for each entry")
	}
	if strings.Contains(block.Type, "PRIVATE KEY") {
		return PublicKey{}, errors.New("it is a private key; the public one is wanted")
	}
	pub, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return PublicKey{}, fmt.Errorf("it is not a public key in PKIX form: %w", err)
	}
	if err := checkKeyStrength(pub); err != nil {
		return PublicKey{}, err
	}
	// The ID depends on the key, not on its encoding.
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return PublicKey{}, err
	}
	id := keyID(der)
	name := cmp.Or(k.Name, id)
	verifier, err := signature.LoadVerifier(pub, hash)
	if err != nil {
		return PublicKey{}, err
	}
	return PublicKey{Name: name, ID: id, Verifier: staticKey{pub: pub, verifier: verifier}}, nil
}

// commitKeys are the keys of one authority for commits.
type commitKeys struct {
	name, id string
	keys     CommitKeys
}

func newCommitKeys(k Key) (commitKeys, error) {
	if k.KMS != "" || k.Hash != "" {
		return commitKeys{}, errors.New("commits are signed by keys of SSH and OpenPGP, which have neither kms nor hashAlgorithm; use data or secretRef")
	}
	keys, err := ParseCommitKeys(k.PEM)
	if err != nil {
		return commitKeys{}, err
	}
	id := keyID([]byte(k.PEM))
	return commitKeys{name: cmp.Or(k.Name, id), id: "commit:" + id, keys: keys}, nil
}

func newKMSKey(k Key, kms KMS) (PublicKey, error) {
	u, err := url.Parse(k.KMS)
	if err != nil || u.Scheme == "" {
		return PublicKey{}, errors.New("kms is not a URI with a scheme")
	}
	if kms == nil {
		return PublicKey{}, fmt.Errorf("there is no support for keys of the scheme %q in this build", u.Scheme)
	}
	v, err := kms.Verifier(k.KMS)
	if err != nil {
		return PublicKey{}, err
	}
	name := cmp.Or(k.Name, k.KMS)
	return PublicKey{Name: name, ID: k.KMS, Verifier: v}, nil
}

func keyID(der []byte) string {
	h := crypto.SHA256.New()
	h.Write(der)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func hashByName(name string) (crypto.Hash, error) {
	switch strings.ToLower(name) {
	case "", "sha256":
		return crypto.SHA256, nil
	case "sha384":
		return crypto.SHA384, nil
	case "sha512":
		return crypto.SHA512, nil
	}
	return 0, fmt.Errorf("hash %q: use sha256, sha384 or sha512", name)
}

func checkKeyStrength(pub any) error {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256(), elliptic.P384(), elliptic.P521():
			return nil
		}
		return fmt.Errorf("the curve %s is too weak; use P-256, P-384 or P-521", k.Curve.Params().Name)
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSABits {
			return fmt.Errorf("RSA keys need %d bits, this one has %d", minRSABits, k.N.BitLen())
		}
		return nil
	case ed25519.PublicKey:
		return nil
	}
	return fmt.Errorf("keys of the type %T are not supported", pub)
}

// staticKey verifies as sigstore does by default: ECDSA with ASN.1, RSA with PKCS #1 v1.5, Ed25519 over the message.
type staticKey struct {
	pub      crypto.PublicKey
	verifier signature.Verifier
}

// Verify implements [Verifier].
func (k staticKey) Verify(_ context.Context, message, sig []byte) error {
	if k.verifier.VerifySignature(bytes.NewReader(sig), bytes.NewReader(message)) != nil {
		return ErrSignature
	}
	return nil
}

package verify

import (
	"bytes"
	"cmp"
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

// Keys come from policies in PEM. An ID is made from the key and not from its name, so that a key that stands in two policies under
// two names is one signer.

// PublicKey is a key of a policy.
type PublicKey struct {
	// Name is for messages: the name of the policy's key, or else its ID.
	Name string
	// ID identifies the key: sha256: and the hexadecimal SHA-256 of its PKIX form.
	ID string

	verifier signature.Verifier
}

// hasSigned reports whether the key has made a signature over the message, as sigstore does by default: ECDSA with ASN.1, RSA with
// PKCS #1 v1.5, Ed25519 over the message.
func (k PublicKey) hasSigned(message, sig []byte) bool {
	return k.verifier.VerifySignature(bytes.NewReader(sig), bytes.NewReader(message)) == nil
}

const minRSABits = 2048

// newPublicKey checks a key of a policy, so that a mistake shows when the policy is read and not when a signature is judged.
func newPublicKey(k Key) (PublicKey, error) {
	switch {
	case k.PEM != "" && k.KMS != "":
		return PublicKey{}, errors.New("it has both pem and kms; one of them is wanted")
	case k.KMS != "":
		u, err := url.Parse(k.KMS)
		if err != nil || u.Scheme == "" {
			return PublicKey{}, errors.New("kms is not a URI with a scheme")
		}
		return PublicKey{}, fmt.Errorf("there is no support for keys of the scheme %q in this build", u.Scheme)
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
	verifier, err := signature.LoadVerifier(pub, hash)
	return PublicKey{Name: cmp.Or(k.Name, id), ID: id, verifier: verifier}, err
}

// commitKeys are the keys of one authority for commits.
type commitKeys struct {
	name, id string
	keys     CommitKeys
}

// newCommitKeys reads the keys of one authority of a policy of [FormCommit]. They have one ID together, since a signature by any of
// them is one by the authority.
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

// keyID identifies a key by its SHA-256.
func keyID(der []byte) string {
	h := crypto.SHA256.New()
	h.Write(der)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// hashByName returns a hash by its name in policies, in any case; SHA-256 for none, as in Tekton.
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

// checkKeyStrength refuses keys that are too weak to rely on, and keys of other types than ECDSA, RSA and Ed25519.
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

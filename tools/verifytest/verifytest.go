// Package verifytest is a Sigstore for tests: an authority that certifies identities, a transparency log and a timestamping
// authority, all in memory, and signatures of these. It promises nothing about real services.
package verifytest

import (
	"cmp"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/digitorus/pkcs7"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	sigverify "github.com/sigstore/sigstore-go/pkg/verify"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Names in Sigstore's bundles and in cosign's statements.
const (
	BundleType      = "application/vnd.dev.sigstore.bundle.v0.3+json"
	CosignPredicate = "https://sigstore.dev/cosign/sign/v1"
	statementType   = "application/vnd.in-toto+json"
)

// The default signer.
const (
	Subject = "ci@example.com"
	Issuer  = "https://tokens.example.com"
)

// Sigstore is one such service.
type Sigstore struct{ *ca.VirtualSigstore }

// New returns a Sigstore that nobody trusts yet.
// Each call makes new keys, so that one service does not trust what another one has signed.
func New(t testing.TB) Sigstore {
	t.Helper()
	s, err := ca.NewVirtualSigstore()
	must(t, err)
	return Sigstore{s}
}

// Parts of a trusted root that [Sigstore.TrustedRoot] can leave out or add.
type Parts struct{ NoLog, NoTimestamps, CertificateLog bool }

// TrustedRoot returns the trusted_root.json of the service. It has a log of certificates only if an option asks for it, because its
// certificates are in none.
// The library's logs lack their IDs in binary form, which the file needs.
func (s Sigstore) TrustedRoot(t testing.TB, p Parts) string {
	t.Helper()
	logs := func(in map[string]*root.TransparencyLog, on bool) map[string]*root.TransparencyLog {
		out := map[string]*root.TransparencyLog{}
		for id, l := range in {
			raw, err := hex.DecodeString(id)
			must(t, err)
			l.ID = raw
			if on {
				out[id] = l
			}
		}
		return out
	}
	tsas := s.TimestampingAuthorities()
	if p.NoTimestamps {
		tsas = nil
	}
	r, err := root.NewTrustedRoot(root.TrustedRootMediaType01, s.FulcioCertificateAuthorities(), logs(s.CTLogs(), p.CertificateLog), tsas, logs(s.RekorLogs(), !p.NoLog))
	must(t, err)
	text, err := r.MarshalJSON()
	must(t, err)
	return string(text)
}

// Signing describes a signature. The zero value is cosign's, by [Subject] of [Issuer], now.
type Signing struct {
	Subject, Issuer, Predicate string
	// Late is the time between the end of the certificate and the entry in the log.
	Late time.Duration
	// Edit changes the bundle before it is written.
	Edit func(*protobundle.Bundle)
}

func (o Signing) withDefaults() Signing {
	o.Subject = cmp.Or(o.Subject, Subject)
	o.Issuer = cmp.Or(o.Issuer, Issuer)
	o.Predicate = cmp.Or(o.Predicate, CosignPredicate)
	return o
}

// Bundle signs, with a certificate, a statement that an image has that hexadecimal SHA-256.
// With Late the certificate had ended when the log took the entry, which a verifier has to refuse.
func (s Sigstore) Bundle(t testing.TB, digest string, o Signing) []byte {
	t.Helper()
	o = o.withDefaults()
	// The certificate of the library is valid for ten minutes from now.
	at := currentTime().Add(time.Minute)
	if o.Late > 0 {
		at = currentTime().Add(10*time.Minute + o.Late)
	}
	e, err := s.AttestAtTime(o.Subject, o.Issuer, Statement(t, digest, o.Predicate), at, true)
	must(t, err)
	b := s.bundleOf(t, e)
	if o.Edit != nil {
		o.Edit(b)
	}
	text, err := protojson.Marshal(b)
	must(t, err)
	return text
}

// bundleOf writes what the library has signed in the form of a bundle: the certificate, the entries of
// the log, the timestamps and the envelope.
func (s Sigstore) bundleOf(t testing.TB, e *ca.TestEntity) *protobundle.Bundle {
	t.Helper()
	content, err := e.VerificationContent()
	must(t, err)
	b := &protobundle.Bundle{MediaType: BundleType, VerificationMaterial: &protobundle.VerificationMaterial{
		Content: &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: content.Certificate().Raw}},
	}}
	entries, err := e.TlogEntries()
	must(t, err)
	for _, entry := range entries {
		b.VerificationMaterial.TlogEntries = append(b.VerificationMaterial.TlogEntries, s.promisedEntry(t, entry))
	}
	stamps, err := e.Timestamps()
	must(t, err)
	b.VerificationMaterial.TimestampVerificationData = Stamps(stamps...)
	signed, err := e.SignatureContent()
	must(t, err)
	if env := signed.EnvelopeContent(); env != nil {
		b.Content = envelopeOf(t, env)
	}
	return b
}

// promisedEntry is an entry with the log's signature, which makes its time reliable.
// The promise is the signature of Rekor over the entry (SignedEntryTimestamp), which cosign accepts in
// place of a proof of inclusion.
func (s Sigstore) promisedEntry(t testing.TB, entry *tlog.Entry) *protorekor.TransparencyLogEntry {
	t.Helper()
	e := entry.TransparencyLogEntry()
	var body map[string]any
	must(t, json.Unmarshal(e.GetCanonicalizedBody(), &body))
	if e.GetInclusionProof() == nil {
		// Logs sort the keys, and the library does not.
		var err error
		e.CanonicalizedBody, err = json.Marshal(body)
		must(t, err)
	}
	kind, _ := body["kind"].(string)
	version, _ := body["apiVersion"].(string)
	e.KindVersion = &protorekor.KindVersion{Kind: kind, Version: version}
	set, err := s.RekorSignPayload(tlog.RekorPayload{
		Body: base64.StdEncoding.EncodeToString(e.GetCanonicalizedBody()), IntegratedTime: e.GetIntegratedTime(), LogIndex: e.GetLogIndex(),
		LogID: hex.EncodeToString(e.GetLogId().GetKeyId()),
	})
	must(t, err)
	e.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: set}
	return e
}

// envelopeOf writes a signed envelope in the form of a bundle. The library keeps payload and signature in
// base64, and the bundle has bytes.
func envelopeOf(t testing.TB, env sigverify.EnvelopeContent) *protobundle.Bundle_DsseEnvelope {
	t.Helper()
	raw := env.RawEnvelope()
	payload, err := raw.DecodeB64Payload()
	must(t, err)
	sig, err := base64.StdEncoding.DecodeString(raw.Signatures[0].Sig)
	must(t, err)
	return &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{Payload: payload, PayloadType: raw.PayloadType, Signatures: []*protodsse.Signature{{Sig: sig}}}}
}

// Stamps are timestamps in the form of a bundle.
func Stamps(stamps ...[]byte) *protobundle.TimestampVerificationData {
	out := &protobundle.TimestampVerificationData{}
	for _, s := range stamps {
		out.Rfc3161Timestamps = append(out.Rfc3161Timestamps, &protocommon.RFC3161SignedTimestamp{SignedTimestamp: s})
	}
	return out
}

// Statement is cosign's statement about an image, or one with another predicate.
// The digest is hexadecimal, without the name of the algorithm.
func Statement(t testing.TB, digest, predicate string) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": predicate, "predicate": map[string]any{},
		"subject": []any{map[string]any{"digest": map[string]string{"sha256": digest}}},
	})
	must(t, err)
	return text
}

// KeyBundle signs the same with a key of ECDSA, RSA or Ed25519, without a log.
// The certificate is replaced by a hint at the key; the verifier has to know the key itself.
func KeyBundle(t testing.TB, digest string, key crypto.Signer, o Signing) []byte {
	t.Helper()
	payload := Statement(t, digest, o.withDefaults().Predicate)
	b := &protobundle.Bundle{
		MediaType:            BundleType,
		VerificationMaterial: &protobundle.VerificationMaterial{Content: &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{Hint: "h"}}},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			Payload: payload, PayloadType: statementType, Signatures: []*protodsse.Signature{{Sig: signMessage(t, dsse.PAE(statementType, payload), key)}},
		}},
	}
	if o.Edit != nil {
		o.Edit(b)
	}
	text, err := protojson.Marshal(b)
	must(t, err)
	return text
}

// signMessage signs as cosign does: SHA-256 for ECDSA and RSA, the message itself for Ed25519.
func signMessage(t testing.TB, message []byte, key crypto.Signer) []byte {
	t.Helper()
	if _, ok := key.Public().(ed25519.PublicKey); ok {
		sig, err := key.Sign(rand.Reader, message, crypto.Hash(0))
		must(t, err)
		return sig
	}
	sum := sha256.Sum256(message)
	sig, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	must(t, err)
	return sig
}

// Message signs a message with a certificate and returns the signature, the certificate, the entry of the log and a
// timestamp.
// The certificate is DER, the timestamp a response of RFC 3161.
func (s Sigstore) Message(t testing.TB, message []byte, o Signing) (sig []byte, cert []byte, entry *protorekor.TransparencyLogEntry, stamp []byte) {
	t.Helper()
	o = o.withDefaults()
	e, err := s.SignAtTime(o.Subject, o.Issuer, message, currentTime().Add(time.Minute+o.Late))
	must(t, err)
	content, err := e.VerificationContent()
	must(t, err)
	signed, err := e.SignatureContent()
	must(t, err)
	entries, err := e.TlogEntries()
	must(t, err)
	stamps, err := e.Timestamps()
	must(t, err)
	return signed.Signature(), content.Certificate().Raw, s.promisedEntry(t, entries[0]), stamps[0]
}

// Simple signs a payload as cosign did before version 3 and returns the annotations of the signature.
// These annotations are those of a layer in an image with the tag sha256-DIGEST.sig.
func (s Sigstore) Simple(t testing.TB, payload []byte, o Signing) map[string]string {
	t.Helper()
	sig, cert, entry, _ := s.Message(t, payload, o)
	log, err := json.Marshal(map[string]any{
		"SignedEntryTimestamp": entry.GetInclusionPromise().GetSignedEntryTimestamp(),
		"Payload": map[string]any{
			"body": entry.GetCanonicalizedBody(), "integratedTime": entry.GetIntegratedTime(), "logIndex": entry.GetLogIndex(),
			"logID": hex.EncodeToString(entry.GetLogId().GetKeyId()),
		},
	})
	must(t, err)
	return map[string]string{
		"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(sig),
		"dev.sigstore.cosign/certificate":    string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})),
		"dev.sigstore.cosign/bundle":         string(log),
	}
}

// CMS describes a signature with a certificate. The zero value is gitsign's, with the entry of the log in the signature.
type CMS struct {
	Signing
	// NoLog omits the entry of the log. Stamp adds a timestamp.
	NoLog, Stamp bool
	// Signed is the content that the signature claims to be of; nil stands for the true content.
	Signed []byte
	// Twice has two signers.
	Twice bool
}

// attribute is an attribute of a signer in CMS (RFC 5652, section 5.3): a type with a set of values, of which
// there is one here.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// attributeOf makes an attribute with one value. A raw value is taken as it is, any other one is encoded.
func attributeOf(t testing.TB, oid asn1.ObjectIdentifier, value any) attribute {
	t.Helper()
	raw, ok := value.(asn1.RawValue)
	if !ok {
		text, err := asn1.Marshal(value)
		must(t, err)
		raw.FullBytes = text
	}
	return attribute{oid, asn1.RawValue{Tag: asn1.TagSet, IsCompound: true, Bytes: raw.FullBytes}}
}

// CMS signs a payload of git, detached and in PEM.
// It is written by hand, because no library makes signatures with a wrong content or with two signers.
// The attributes that are signed are those that gitsign signs.
func (s Sigstore) CMS(t testing.TB, payload []byte, o CMS) []byte {
	t.Helper()
	if o.Signed == nil {
		o.Signed = payload
	}
	sum := sha256.Sum256(o.Signed)
	signed := []attribute{
		attributeOf(t, pkcs7.OIDAttributeContentType, pkcs7.OIDData),
		attributeOf(t, pkcs7.OIDAttributeMessageDigest, sum[:]),
		attributeOf(t, pkcs7.OIDAttributeSigningTime, currentTime().UTC()),
	}
	message, err := asn1.MarshalWithParams(signed, "set")
	must(t, err)
	sig, raw, entry, stamp := s.Message(t, message, o.Signing)
	cert, err := x509.ParseCertificate(raw)
	must(t, err)
	var unsigned []attribute
	if !o.NoLog {
		// gitsign leaves out what can be made of the rest of the signature (its internal/rekor/oid).
		entry.CanonicalizedBody = nil
		text, err := proto.Marshal(entry)
		must(t, err)
		unsigned = append(unsigned, attributeOf(t, asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 3, 1}, text))
	}
	if o.Stamp {
		var answer struct{ Status, Token asn1.RawValue }
		_, err := asn1.Unmarshal(stamp, &answer)
		must(t, err)
		unsigned = append(unsigned, attributeOf(t, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 2, 14}, answer.Token))
	}
	// The types are those of RFC 5652, in its order.
	type issuerAndSerial struct {
		Issuer asn1.RawValue
		Serial *big.Int
	}
	type signerInfo struct {
		Version            int
		ID                 issuerAndSerial
		Digest             pkix.AlgorithmIdentifier
		Signed             []attribute `asn1:"set,tag:0"`
		SignatureAlgorithm pkix.AlgorithmIdentifier
		Signature          []byte
		Unsigned           []attribute `asn1:"set,optional,omitempty,tag:1"`
	}
	sha := pkix.AlgorithmIdentifier{Algorithm: pkcs7.OIDDigestAlgorithmSHA256}
	signer := signerInfo{
		Version: 1, ID: issuerAndSerial{asn1.RawValue{FullBytes: cert.RawIssuer}, cert.SerialNumber}, Digest: sha, Signed: signed,
		SignatureAlgorithm: pkix.AlgorithmIdentifier{Algorithm: pkcs7.OIDDigestAlgorithmECDSASHA256}, Signature: sig, Unsigned: unsigned,
	}
	signers := []signerInfo{signer}
	if o.Twice {
		signers = append(signers, signer)
	}
	type content struct{ Type asn1.ObjectIdentifier }
	data, err := asn1.Marshal(struct {
		Version int
		Digests []pkix.AlgorithmIdentifier `asn1:"set"`
		Content content
		Certs   asn1.RawValue
		Signers []signerInfo `asn1:"set"`
	}{1, []pkix.AlgorithmIdentifier{sha}, content{pkcs7.OIDData}, asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: raw}, signers})
	must(t, err)
	out, err := asn1.Marshal(struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue
	}{pkcs7.OIDSignedData, asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: data}})
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "SIGNED MESSAGE", Bytes: out})
}

// currentTime is the time for the library's checks.
func currentTime() time.Time { return time.Now() } //nolint:forbidigo // certificates, logs and timestamps have to agree with the library's

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fmt.Errorf("verifytest: %w", err))
	}
}

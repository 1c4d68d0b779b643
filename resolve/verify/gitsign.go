package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"

	"github.com/digitorus/pkcs7"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"google.golang.org/protobuf/proto"
)

// gitsign signs commits with a certificate of Fulcio, as cosign signs images, in a CMS signature. This file takes it apart and makes a
// bundle of Sigstore's format of it, which the library then verifies as any other.

// Unsigned attributes of a signature, as gitsign writes them (github.com/sigstore/gitsign, docs/verification.md): the entry of the
// log, and a timestamp by RFC 3161, appendix A.
var (
	attributeLog   = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 3, 1}
	attributeStamp = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 2, 14}
)

// maxCMS bounds a signature with a certificate, in bytes. gitsign's have about 6 KiB.
const maxCMS = 128 << 10

// byCertificate returns the IDs of the identities that have signed the payload of a commit or tag: a detached CMS signature in PEM
// (git's gpg.format x509), with the attributes of gitsign. CMS signs attributes, and one of them is the digest of the payload. The
// log has the signature over these.
func (s Signatories) byCertificate(payload, armored []byte) ([]string, error) {
	if !bytes.HasPrefix(armored, []byte(cmsSigBegin)) {
		return nil, errors.New("it has no signature by a certificate")
	}
	if len(armored) > maxCMS {
		return nil, errors.New("its signature is too large")
	}
	bad := errors.New("its signature by a certificate cannot be read")
	block, _ := pem.Decode(armored)
	if block == nil || block.Type != "SIGNED MESSAGE" {
		return nil, bad
	}
	p, err := pkcs7.Parse(block.Bytes)
	if err != nil {
		return nil, bad
	}
	cert := p.GetOnlySigner()
	if cert == nil {
		return nil, errors.New("its signature has not exactly one signer with a certificate")
	}
	signer := p.Signers[0]
	var digest []byte
	if p.UnmarshalSignedAttribute(pkcs7.OIDAttributeMessageDigest, &digest) != nil || !signer.DigestAlgorithm.Algorithm.Equal(pkcs7.OIDDigestAlgorithmSHA256) {
		return nil, bad
	}
	// The signature is over attributes. It is one of this payload only if the digest among them is.
	if sum := sha256.Sum256(payload); !bytes.Equal(sum[:], digest) {
		return nil, errors.New("its signature by a certificate is not of this content")
	}
	// CMS signs the encoding as a set (RFC 5652, section 5.4).
	message, err := asn1.MarshalWithParams(signer.AuthenticatedAttributes, "set")
	if err != nil {
		return nil, bad
	}
	material := &protobundle.VerificationMaterial{Content: &protobundle.VerificationMaterial_X509CertificateChain{
		X509CertificateChain: &protocommon.X509CertificateChain{Certificates: []*protocommon.X509Certificate{{RawBytes: cert.Raw}}},
	}}
	for _, a := range signer.UnauthenticatedAttributes {
		switch {
		case a.Type.Equal(attributeLog):
			entry, err := rekorEntry(a.Value.Bytes, message, signer.EncryptedDigest, cert.Raw)
			if err != nil {
				return nil, err
			}
			material.TlogEntries = append(material.TlogEntries, entry)
		case a.Type.Equal(attributeStamp):
			// The library expects a whole answer of the authority: a status, which is 0 for granted, and the timestamp.
			stamp, err := asn1.Marshal(struct {
				Status struct{ Status int }
				Token  asn1.RawValue
			}{Token: asn1.RawValue{FullBytes: a.Value.Bytes}})
			if err != nil {
				return nil, bad
			}
			material.TimestampVerificationData = &protobundle.TimestampVerificationData{
				Rfc3161Timestamps: append(material.GetTimestampVerificationData().GetRfc3161Timestamps(), &protocommon.RFC3161SignedTimestamp{SignedTimestamp: stamp}),
			}
		}
	}
	if len(material.GetTlogEntries()) == 0 && material.GetTimestampVerificationData() == nil {
		return nil, errors.New("its signature holds neither an entry of a log nor a timestamp; sign with gitsign's rekorMode offline, because Sluice asks no log")
	}
	b, err := messageBundle(material, message, signer.EncryptedDigest)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(message)
	return Signatories{identities: s.identities}.judgeBundle(b, sum[:])
}

// rekorEntry reads the entry of the log in an attribute. An entry without a body is the one about this signature of the message.
func rekorEntry(attribute, message, signature, certificate []byte) (*protorekor.TransparencyLogEntry, error) {
	var raw []byte
	entry := &protorekor.TransparencyLogEntry{}
	if _, err := asn1.Unmarshal(attribute, &raw); err != nil || proto.Unmarshal(raw, entry) != nil {
		return nil, errors.New("its entry of the log cannot be read")
	}
	if len(entry.GetCanonicalizedBody()) > 0 {
		return entry, nil
	}
	body, err := logEntryBody(message, signature, certificate)
	entry.CanonicalizedBody = body
	return entry, err
}

// logEntryBody is what the log has about a signature: an entry hashedrekord 0.0.1 in canonical JSON (github.com/sigstore/rekor,
// pkg/types/hashedrekord). gitsign leaves it out of its entries (ToAttributes in its internal/rekor/oid). The log's promise and its proof of
// inclusion are over these bytes, so that they hold for no other signature.
func logEntryBody(message, signature, cert []byte) ([]byte, error) {
	sum := sha256.Sum256(message)
	type object map[string]any // written by sorted keys, as canonical JSON has them
	return json.Marshal(object{
		"apiVersion": "0.0.1", "kind": "hashedrekord",
		"spec": object{
			"data": object{"hash": object{"algorithm": "sha256", "value": hex.EncodeToString(sum[:])}},
			"signature": object{
				"content":   signature,
				"publicKey": object{"content": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})},
			},
		},
	})
}

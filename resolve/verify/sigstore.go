package verify

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	sigbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigverify "github.com/sigstore/sigstore-go/pkg/verify"

	"sluice.dev/internal/brief"
)

// This file verifies signatures of cosign: by keys, and by certificates of Fulcio that live for minutes. Of a certificate it must be
// known that it was valid when it signed, and that it was published. The trusted root says whom to believe about that: transparency
// logs and timestamping authorities. All proofs come with the signature, so that nothing is asked over the network.

// Identity is the identity that a certificate of Fulcio must have: a subject that an issuer of tokens has confirmed. Signers need no
// key of their own (keyless).
type Identity struct {
	// Name is for messages; empty if the identity has none.
	Name string `json:"name,omitempty"`
	// Exactly one of Issuer and IssuerRegExp must be set, for example https://token.actions.githubusercontent.com. A regular
	// expression must match the whole text.
	Issuer       string `json:"issuer,omitempty"`
	IssuerRegExp string `json:"issuerRegExp,omitempty"`
	// Exactly one of Subject and SubjectRegExp must be set: the address or URI in the certificate's subject alternative name.
	Subject       string `json:"subject,omitempty"`
	SubjectRegExp string `json:"subjectRegExp,omitempty"`
	// TrustedRoot is Sigstore's trusted_root.json as text; empty stands for [Options.TrustedRoot].
	TrustedRoot string `json:"trustedRoot,omitempty"`
}

// errNoTrustedRoot: the package fetches nothing on its own, not even the root of Sigstore's public instance.
var errNoTrustedRoot = errors.New("certificates are verified from a trusted root, and there is none: give the content of Sigstore's trusted_root.json as keyless.trustedRoot of the authority, as the key trusted-root of the ConfigMap with the policies, or to sluice resolve with --trusted-root; Sluice fetches none")

// keyless is an identity that is ready for use.
type keyless struct {
	name, id string
	identity sigverify.CertificateIdentity
	verifier *sigverify.Verifier
}

// newKeyless checks an identity of a policy and makes it ready, with all that is wrong in one error. Its ID covers what it demands,
// not its name, so that an identity in two policies counts once.
func newKeyless(in Identity, trustedRoot string) (*keyless, error) {
	in.TrustedRoot = cmp.Or(in.TrustedRoot, trustedRoot)
	var errs []error
	one := func(what, text, pattern string) string {
		if (text == "") == (pattern == "") {
			errs = append(errs, fmt.Errorf("exactly one of %s and %sRegExp is wanted", what, what))
			return ""
		}
		if pattern == "" {
			return ""
		}
		re, err := compileAnchored(pattern)
		if err != nil {
			errs = append(errs, fmt.Errorf("%sRegExp %q: %w", what, pattern, err))
			return ""
		}
		return re.String()
	}
	issuer, subject := one("issuer", in.Issuer, in.IssuerRegExp), one("subject", in.Subject, in.SubjectRegExp)
	verifier, err := newVerifier(in.TrustedRoot)
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	identity, err := sigverify.NewShortCertificateIdentity(in.Issuer, issuer, in.Subject, subject)
	if err != nil {
		return nil, err
	}
	k := &keyless{name: in.Name, identity: identity, verifier: verifier}
	k.name = cmp.Or(k.name, fmt.Sprintf("%s of %s", cmp.Or(in.Subject, in.SubjectRegExp), cmp.Or(in.Issuer, in.IssuerRegExp)))
	in.Name = ""
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	k.id = "identity:sha256:" + hex.EncodeToString(sum[:])
	return k, nil
}

// newVerifier demands everything that a trusted root supports: an entry in one of its transparency logs, and proof that the
// certificate is in one of its certificate logs. It always demands a time from a log or a timestamping authority.
func newVerifier(trustedRoot string) (*sigverify.Verifier, error) {
	if strings.TrimSpace(trustedRoot) == "" {
		return nil, errNoTrustedRoot
	}
	if len(trustedRoot) > maxPolicyBytes {
		return nil, fmt.Errorf("the trusted root is over %d bytes", maxPolicyBytes)
	}
	trusted, err := root.NewTrustedRootFromJSON([]byte(trustedRoot))
	if err != nil {
		return nil, fmt.Errorf("the trusted root is not one in the form of Sigstore's trusted_root.json: %s", brief.OneLine(err.Error()))
	}
	if len(trusted.FulcioCertificateAuthorities()) == 0 {
		return nil, errors.New("the trusted root has no certificateAuthorities")
	}
	opts := []sigverify.VerifierOption{sigverify.WithObserverTimestamps(1), sigverify.WithoutStatementPredicate()}
	if len(trusted.RekorLogs()) > 0 {
		opts = append(opts, sigverify.WithTransparencyLog(1))
	} else if len(trusted.TimestampingAuthorities()) == 0 {
		return nil, errors.New("the trusted root has neither tlogs nor timestampAuthorities, so that nothing tells when a signature was made")
	}
	if len(trusted.CTLogs()) > 0 {
		opts = append(opts, sigverify.WithSignedCertificateTimestamps(1))
	}
	return sigverify.NewVerifier(trusted, opts...)
}

// cosignPredicate is the predicate of cosign's statements that are signatures and no attestations (github.com/sigstore/cosign,
// pkg/types/predicate.go).
const cosignPredicate = "https://sigstore.dev/cosign/sign/v1"

// Bundle returns the IDs of the keys and identities that have signed the artifact with that hexadecimal SHA-256, by a bundle in
// Sigstore's format (sigstore_bundle.proto). cosign writes these since version 3. If it returns no IDs, the error says why. A
// statement about the artifact that is no signature does not count.
func (c Signatories) Bundle(data []byte, digest string) ([]string, error) {
	b := &sigbundle.Bundle{}
	if err := b.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("it is not a bundle of Sigstore: %s", brief.OneLine(err.Error()))
	}
	sum, err := hex.DecodeString(digest)
	if err != nil {
		return nil, err
	}
	return c.judgeBundle(b, sum)
}

// judgeBundle returns the IDs of those who have signed the artifact with that SHA-256. A bundle is either by a certificate, which
// identities can match, or by a key. A key of a policy has no period of validity, so that no time is demanded for it.
func (c Signatories) judgeBundle(b *sigbundle.Bundle, sum []byte) (ids []string, err error) {
	artifact := sigverify.WithArtifactDigest("sha256", sum)
	var other error // more useful than the message that others have not signed
	note := func(name, id string, v *sigverify.Verifier, who sigverify.PolicyOption) {
		res, e := v.Verify(b, sigverify.NewPolicy(artifact, who))
		switch {
		case e != nil:
			// The library writes this if it has nothing to add.
			err = fmt.Errorf("it is not one by %s: %s", name, brief.OneLine(strings.ReplaceAll(e.Error(), "; error: %!w(<nil>)", "")))
		case b.GetDsseEnvelope() != nil && res.Statement.GetPredicateType() != cosignPredicate:
			other = fmt.Errorf("it is a statement of the type %q by %s and no signature", res.Statement.GetPredicateType(), name)
		default:
			ids = append(ids, id)
		}
	}
	if b.GetVerificationMaterial().GetPublicKey() == nil {
		for _, k := range c.identities {
			note(k.name, k.id, k.verifier, sigverify.WithCertificateIdentity(k.identity))
		}
		if len(c.identities) == 0 {
			err = errors.New("it is by a certificate, and the policies name keys only")
		}
	} else {
		for _, k := range c.Keys {
			trusted := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
				return root.NewExpiringKey(k.verifier, time.Time{}, time.Time{}), nil
			})
			v, e := sigverify.NewVerifier(trusted, sigverify.WithNoObserverTimestamps(), sigverify.WithoutStatementPredicate())
			if e != nil {
				return nil, e
			}
			note(k.Name, k.ID, v, sigverify.WithKey())
		}
		if len(c.Keys) == 0 {
			err = errors.New("it is by a key, and the policies name identities only")
		}
	}
	if len(ids) > 0 {
		return ids, nil
	}
	return nil, cmp.Or(other, err)
}

// Simple is one signature in cosign's format before version 3: a layer of the image sha256-….sig with its annotations
// (github.com/sigstore/cosign, specs/SIGNATURE_SPEC.md).
type Simple struct {
	Payload, Signature []byte
	// Certificate is PEM. Log and Timestamp are the JSON of the annotations bundle and rfc3161timestamp. Each is empty if the
	// signature has none.
	Certificate, Log, Timestamp string
}

// Simple returns the IDs of the keys and identities that have signed the payload. If it returns no IDs, the error says why. The
// caller must check the payload.
func (c Signatories) Simple(s Simple) ([]string, error) {
	if s.Certificate != "" && len(c.identities) > 0 {
		b, err := s.toBundle()
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(s.Payload)
		ids, err := c.judgeBundle(b, sum[:])
		if len(ids) > 0 || len(c.Keys) == 0 {
			return ids, err
		}
	}
	var ids []string
	err := errors.New("it has no certificate, and the policies name identities only")
	for _, k := range c.Keys {
		err = errors.New("it is by another key")
		if k.hasSigned(s.Payload, s.Signature) {
			ids = append(ids, k.ID)
		}
	}
	if len(ids) > 0 {
		return ids, nil
	}
	return nil, err
}

// toBundle converts the signature to the format of Sigstore's bundles, so that the library verifies it.
func (s Simple) toBundle() (*sigbundle.Bundle, error) {
	block, _ := pem.Decode([]byte(s.Certificate))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("its certificate is not in PEM form")
	}
	material := &protobundle.VerificationMaterial{Content: &protobundle.VerificationMaterial_X509CertificateChain{
		X509CertificateChain: &protocommon.X509CertificateChain{Certificates: []*protocommon.X509Certificate{{RawBytes: block.Bytes}}},
	}}
	if s.Log != "" {
		entry, err := logEntry(s.Log)
		if err != nil {
			return nil, err
		}
		material.TlogEntries = []*protorekor.TransparencyLogEntry{entry}
	}
	if s.Timestamp != "" {
		var t struct{ SignedRFC3161Timestamp []byte }
		if json.Unmarshal([]byte(s.Timestamp), &t) != nil {
			return nil, errors.New("its timestamp is not in the form that cosign writes")
		}
		material.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: t.SignedRFC3161Timestamp}},
		}
	}
	return messageBundle(material, s.Payload, s.Signature)
}

// messageBundle returns a bundle of a version that fits the material: 0.1 needs entries with the log's promise, 0.2 entries with a
// proof of inclusion.
func messageBundle(material *protobundle.VerificationMaterial, message, sig []byte) (*sigbundle.Bundle, error) {
	sum := sha256.Sum256(message)
	version := "0.1"
	for _, e := range material.GetTlogEntries() {
		if e.GetInclusionPromise() == nil {
			version = "0.2"
		}
	}
	b, err := sigbundle.NewBundle(&protobundle.Bundle{
		MediaType:            "application/vnd.dev.sigstore.bundle+json;version=" + version,
		VerificationMaterial: material,
		Content: &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sum[:]},
			Signature:     sig,
		}},
	})
	if err != nil {
		return nil, errors.New(brief.OneLine(err.Error()))
	}
	return b, nil
}

// logEntry reads the annotation dev.sigstore.cosign/bundle.
func logEntry(text string) (*protorekor.TransparencyLogEntry, error) {
	bad := errors.New("its entry of the log is not in the form that cosign writes")
	var e struct {
		SignedEntryTimestamp []byte
		Payload              struct {
			Body           string `json:"body"`
			IntegratedTime int64  `json:"integratedTime"`
			LogIndex       int64  `json:"logIndex"`
			LogID          string `json:"logID"`
		}
	}
	if json.Unmarshal([]byte(text), &e) != nil {
		return nil, bad
	}
	body, err := base64.StdEncoding.DecodeString(e.Payload.Body)
	if err != nil {
		return nil, bad
	}
	id, err := hex.DecodeString(e.Payload.LogID)
	if err != nil {
		return nil, bad
	}
	var kind struct {
		Kind    string `json:"kind"`
		Version string `json:"apiVersion"`
	}
	if json.Unmarshal(body, &kind) != nil {
		return nil, bad
	}
	return &protorekor.TransparencyLogEntry{
		LogIndex: e.Payload.LogIndex, LogId: &protocommon.LogId{KeyId: id}, IntegratedTime: e.Payload.IntegratedTime,
		KindVersion:       &protorekor.KindVersion{Kind: kind.Kind, Version: kind.Version},
		InclusionPromise:  &protorekor.InclusionPromise{SignedEntryTimestamp: e.SignedEntryTimestamp},
		CanonicalizedBody: body,
	}, nil
}

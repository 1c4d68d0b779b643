package bundle

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"

	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
	"sluice.dev/tools/bundletest"
	"sluice.dev/tools/verifytest"
)

// keylessPolicy trusts one identity of one Sigstore.
func keylessPolicy(t testing.TB, trustedRoot string, edit func(*verify.Policy)) func() *verify.Policies {
	t.Helper()
	in := verify.Policy{
		Name: "p", Form: verify.FormCosign, Patterns: []string{"reg.example.com/team/.*"},
		Identities: []verify.Identity{{Issuer: verifytest.Issuer, Subject: verifytest.Subject}},
	}
	if edit != nil {
		edit(&in)
	}
	p, err := verify.New([]verify.Policy{in}, verify.Options{TrustedRoot: trustedRoot})
	check(t, err)
	return func() *verify.Policies { return p }
}

// refer puts a bundle into the registry as cosign does since version 3.
func (f *fixture) refer(subject v1.Hash, bundles ...[]byte) {
	f.t.Helper()
	for _, b := range bundles {
		_, err := f.Refer(f.t.Context(), subject, verifytest.BundleType, verifytest.CosignPredicate, b)
		check(f.t, err)
	}
}

func TestSignaturesByCertificates(t *testing.T) {
	mine, theirs := verifytest.New(t), verifytest.New(t)
	keys := newKeys(t)
	trusted := mine.TrustedRoot(t, verifytest.Parts{})
	other := bundletest.HashOf([]byte("another image")).Hex
	edited := func(f func(m *protobundle.VerificationMaterial)) verifytest.Signing {
		return verifytest.Signing{Edit: func(b *protobundle.Bundle) { f(b.GetVerificationMaterial()) }}
	}
	noStamp := func(m *protobundle.VerificationMaterial) { m.TimestampVerificationData = nil }
	noLog := func(m *protobundle.VerificationMaterial) { m.TlogEntries = nil }
	bundle := func(s verifytest.Sigstore, o verifytest.Signing) func(*fixture, v1.Hash) {
		return func(f *fixture, d v1.Hash) { f.refer(d, s.Bundle(t, d.Hex, o)) }
	}
	simple := func(s verifytest.Sigstore, o verifytest.Signing, edit func(map[string]string)) func(*fixture, v1.Hash) {
		return func(f *fixture, d v1.Hash) {
			payload := []byte(`{"critical":{"image":{"docker-manifest-digest":"` + d.String() + `"},"type":"` + signatureType + `"}}`)
			a := s.Simple(t, payload, o)
			if edit != nil {
				edit(a)
			}
			_, err := f.Push(t.Context(), "sha256-"+d.Hex+".sig", bundletest.Layer{Blob: payload, MediaType: signatureMediaType, Annotations: a})
			check(t, err)
		}
	}
	policy := keylessPolicy(t, trusted, nil)
	for _, tt := range []struct {
		name   string
		sign   func(*fixture, v1.Hash)
		policy func() *verify.Policies
		flaw   string // empty: it is good
	}{
		{"as cosign 3 does it", bundle(mine, verifytest.Signing{}), policy, ""},
		{"as cosign 2 does it", simple(mine, verifytest.Signing{}, nil), policy, ""},
		{"by an identity that a pattern names", bundle(mine, verifytest.Signing{}), keylessPolicy(t, trusted, func(p *verify.Policy) {
			p.Identities = []verify.Identity{{IssuerRegExp: `https://.*\.example\.com`, SubjectRegExp: `.*@example\.com`}}
		}), ""},
		{"with a root of the authority's own", bundle(theirs, verifytest.Signing{}), keylessPolicy(t, trusted, func(p *verify.Policy) {
			p.Identities[0].TrustedRoot = theirs.TrustedRoot(t, verifytest.Parts{})
		}), ""},
		{"with a timestamp and no log, as the root has it", bundle(mine, edited(noLog)), keylessPolicy(t, mine.TrustedRoot(t, verifytest.Parts{NoLog: true}), nil), ""},
		{"with a log and no timestamp", bundle(mine, edited(noStamp)), policy, ""},
		{"another subject", bundle(mine, verifytest.Signing{Subject: "ci@example.com.evil.example"}), policy, "ci@example.com.evil.example"},
		{"another issuer", bundle(mine, verifytest.Signing{Issuer: "https://evil.example"}), policy, "https://evil.example"},
		{"another issuer, as cosign 2 does it", simple(mine, verifytest.Signing{Issuer: "https://evil.example"}, nil), policy, "https://evil.example"},
		{"a subject that holds what the pattern says", bundle(mine, verifytest.Signing{Subject: "ci@example.com.evil.example"}), keylessPolicy(t, trusted, func(p *verify.Policy) {
			p.Identities = []verify.Identity{{Issuer: verifytest.Issuer, SubjectRegExp: `ci@example\.com`}}
		}), "ci@example.com.evil.example"},
		{"another Sigstore", bundle(theirs, verifytest.Signing{}), policy, "log"},
		{"another Sigstore, without its log", bundle(theirs, edited(noLog)), keylessPolicy(t, mine.TrustedRoot(t, verifytest.Parts{NoLog: true}), nil), "timestamp"},
		{"another image", func(f *fixture, d v1.Hash) { f.refer(d, mine.Bundle(t, other, verifytest.Signing{})) }, policy, "digest"},
		{"logged after the certificate had expired", bundle(mine, verifytest.Signing{Late: time.Minute}), policy, "certificate validity"},
		{"expired, and nobody tells when it was made", bundle(mine, edited(noStamp)), keylessPolicy(t, mine.TrustedRoot(t, verifytest.Parts{NoLog: true}), nil), "timestamp"},
		{"not in the log that the root has", bundle(mine, edited(noLog)), policy, "log"},
		{"not in the log of certificates that the root has", bundle(mine, verifytest.Signing{}), keylessPolicy(t, mine.TrustedRoot(t, verifytest.Parts{CertificateLog: true}), nil), "signed certificate timestamp"},
		{"an attestation", bundle(mine, verifytest.Signing{Predicate: "https://slsa.dev/provenance/v1"}), policy, "no signature"},
		{"as cosign 2 does it, without the entry of the log", simple(mine, verifytest.Signing{}, func(a map[string]string) { delete(a, logAnnotation) }), policy, "log"},
		{"as cosign 2 does it, with an entry that is no JSON", simple(mine, verifytest.Signing{}, func(a map[string]string) { a[logAnnotation] = "{" }), policy, "not in the form"},
		{"as cosign 2 does it, with a certificate that is none", simple(mine, verifytest.Signing{}, func(a map[string]string) { a[certificateAnnotation] = "x" }), policy, "PEM"},
		{"as cosign 2 does it, with a timestamp that is no JSON", simple(mine, verifytest.Signing{}, func(a map[string]string) { a[timestampAnnotation] = "x" }), policy, "not in the form"},
		{"by a key", func(f *fixture, d v1.Hash) {
			f.refer(d, verifytest.KeyBundle(t, d.Hex, keys.ecdsa, verifytest.Signing{}))
		}, policy, "identities only"},
		{"no bundle", func(f *fixture, d v1.Hash) { f.refer(d, []byte("{}")) }, policy, "not a bundle"},
		{"too large", func(f *fixture, d v1.Hash) { f.refer(d, make([]byte, maxBundle+1)) }, policy, "at most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			digest, err := f.Push(t.Context(), "v1", bundletest.Task("a", yamlA))
			check(t, err)
			tt.sign(f, digest)
			res, err := f.resolve(request(), Options{Policies: tt.policy})
			if tt.flaw == "" {
				check(t, err)
				_, err = verify.Verify(t.Context(), tt.policy(), res)
				check(t, err)
				return
			}
			if e := failure(t, err); e.Reason != resolve.ReasonVerification || e.Transient || !strings.Contains(e.Msg, tt.flaw) {
				t.Errorf("reason %q: %v; want %q", e.Reason, e, tt.flaw)
			}
		})
	}
}

func TestBundlesByKeys(t *testing.T) {
	keys, strangers := newKeys(t), newKeys(t)
	for _, tt := range []struct {
		name    string
		bundles func(digest string) [][]byte
		signers int
		flaw    string
	}{
		{"by ECDSA", func(d string) [][]byte { return [][]byte{verifytest.KeyBundle(t, d, keys.ecdsa, verifytest.Signing{})} }, 1, ""},
		{"by RSA and Ed25519", func(d string) [][]byte {
			return [][]byte{verifytest.KeyBundle(t, d, keys.rsa, verifytest.Signing{}), verifytest.KeyBundle(t, d, keys.ed25519, verifytest.Signing{})}
		}, 2, ""},
		{"among others that are bad", func(d string) [][]byte {
			return [][]byte{
				[]byte("{}"), verifytest.KeyBundle(t, d, strangers.ecdsa, verifytest.Signing{}), make([]byte, maxBundle+1),
				verifytest.KeyBundle(t, d, keys.ecdsa, verifytest.Signing{}), verifytest.KeyBundle(t, d, strangers.rsa, verifytest.Signing{}),
			}
		}, 1, ""},
		{"by another key", func(d string) [][]byte {
			return [][]byte{verifytest.KeyBundle(t, d, strangers.ecdsa, verifytest.Signing{})}
		}, 0, "it is not one by"},
		{"an attestation", func(d string) [][]byte {
			return [][]byte{verifytest.KeyBundle(t, d, keys.ecdsa, verifytest.Signing{Predicate: "https://slsa.dev/provenance/v1"})}
		}, 0, "no signature"},
		{"by a certificate", func(d string) [][]byte { return [][]byte{verifytest.New(t).Bundle(t, d, verifytest.Signing{})} }, 0, "keys only"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			digest, err := f.Push(t.Context(), "v1", bundletest.Task("a", yamlA))
			check(t, err)
			f.refer(digest, tt.bundles(digest.Hex)...)
			res, err := f.resolve(request(), Options{Policies: policies(t, verify.Enforce, keys.ecdsa, keys.ed25519, keys.rsa)})
			if tt.flaw == "" {
				if err != nil || len(res.Signers) != tt.signers {
					t.Errorf("%v, %v; want %d signers", res, err, tt.signers)
				}
				return
			}
			if e := failure(t, err); e.Reason != resolve.ReasonVerification || !strings.Contains(e.Msg, tt.flaw) {
				t.Errorf("reason %q: %v; want %q", e.Reason, e, tt.flaw)
			}
		})
	}
}

// A registry that does not list referrers has them under a tag.
func TestReferrersUnderATag(t *testing.T) {
	keys := newKeys(t)
	f := newFixture(t)
	digest, err := f.Push(t.Context(), "v1", bundletest.Task("a", yamlA))
	check(t, err)
	signature, err := f.Refer(t.Context(), digest, verifytest.BundleType, verifytest.CosignPredicate, verifytest.KeyBundle(t, digest.Hex, keys.ecdsa, verifytest.Signing{}))
	check(t, err)
	f.front = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/referrers/") {
			http.NotFound(w, r)
			return true
		}
		return false
	}
	resolved := func() error {
		_, err := f.resolve(request(), Options{Policies: policies(t, verify.Enforce, keys.ecdsa)})
		return err
	}
	if e := failure(t, resolved()); !strings.Contains(e.Msg, "it is not signed") {
		t.Errorf("without a list: %v", e)
	}
	_, err = f.PushIndex(t.Context(), "sha256-"+digest.Hex, signature)
	check(t, err)
	check(t, resolved())
}

// Attestations and other things that refer to an image do not hide its signature, whatever their number.
func TestManyReferrers(t *testing.T) {
	keys, strangers := newKeys(t), newKeys(t)
	f := newFixture(t)
	digest, err := f.Push(t.Context(), "v1", bundletest.Task("a", yamlA))
	check(t, err)
	good, err := f.Refer(t.Context(), digest, verifytest.BundleType, verifytest.CosignPredicate, verifytest.KeyBundle(t, digest.Hex, keys.ecdsa, verifytest.Signing{}))
	check(t, err)
	bad, err := f.Refer(t.Context(), digest, verifytest.BundleType, verifytest.CosignPredicate, verifytest.KeyBundle(t, digest.Hex, strangers.ecdsa, verifytest.Signing{}))
	check(t, err)
	list := func(n int, d v1.Descriptor, artifact, predicate string, created func(int) string) []v1.Descriptor {
		var out []v1.Descriptor
		for i := range n {
			d.ArtifactType = artifact
			d.Annotations = map[string]string{predicateAnnotation: predicate, createdAnnotation: created(i)}
			out = append(out, d)
		}
		return out
	}
	at := func(day int) func(int) string {
		return func(i int) string { return fmt.Sprintf("2026-01-%02dT%02d:%02d:00Z", day, i/60%24, i%60) }
	}
	gone := good
	gone.Digest = bundletest.HashOf([]byte("gone"))
	others := append(list(2000, gone, "application/spdx+json", "", at(9)), list(2000, gone, verifytest.BundleType, "https://slsa.dev/provenance/v1", at(9))...)
	mine := list(1, good, verifytest.BundleType, verifytest.CosignPredicate, at(5))
	for _, tt := range []struct {
		name string
		list []v1.Descriptor
		flaw string
	}{
		{"attestations and lists of parts", append(others, mine...), ""},
		{"older signatures by others", append(list(500, bad, verifytest.BundleType, verifytest.CosignPredicate, at(2)), mine...), ""},
		{"a few that are gone", append(list(3, gone, verifytest.BundleType, verifytest.CosignPredicate, at(8)), mine...), ""},
		{"newer signatures by others", append(list(500, bad, verifytest.BundleType, verifytest.CosignPredicate, at(8)), mine...), "only 15 of the 501"},
		{"more than a list may hold", list(20000, gone, "application/spdx+json", "", at(9)), "more than is allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: tt.list})
			check(t, err)
			f.front = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/referrers/") {
					return false
				}
				w.Header().Set("Content-Type", string(types.OCIImageIndex))
				_, _ = w.Write(text)
				return true
			}
			f.forget()
			_, err = f.resolve(request(), Options{Policies: policies(t, verify.Enforce, keys.ecdsa)})
			if n := len(f.requests()); n > maxExchanges {
				t.Errorf("%d requests", n)
			}
			if tt.flaw == "" {
				check(t, err)
				return
			}
			if e := failure(t, err); e.Transient || !strings.Contains(e.Msg, tt.flaw) {
				t.Errorf("%q: %v", e.Reason, e)
			}
		})
	}
}

// Registries tell in pages what refers to an image. All pages are read, up to a bound, and only from where the first one is.
func TestPagesOfReferrers(t *testing.T) {
	keys := newKeys(t)
	f := newFixture(t)
	digest, err := f.Push(t.Context(), "v1", bundletest.Task("a", yamlA))
	check(t, err)
	good, err := f.Refer(t.Context(), digest, verifytest.BundleType, verifytest.CosignPredicate, verifytest.KeyBundle(t, digest.Hex, keys.ecdsa, verifytest.Signing{}))
	check(t, err)
	other := good
	other.Digest, other.ArtifactType = bundletest.HashOf([]byte("gone")), "application/spdx+json"
	good.ArtifactType = verifytest.BundleType
	for _, tt := range []struct {
		name string
		// signed is the page with the signature, of so many with so many entries.
		signed, pages, entries int
		link                   string
		flaw                   string
		reason                 resolve.Reason
	}{
		{"the last of three", 3, 3, 10, "?page=%d", "", ""},
		{"the last that is read", maxPages, maxPages + 5, 1, "?page=%d", "", ""},
		{"by the whole address", 2, 2, 1, "https://reg.example.com/v2/team/bundle/referrers/DIGEST?page=%d", "", ""},
		{"one more than is read", maxPages + 1, maxPages + 1, 1, "?page=%d", "20 pages", resolve.ReasonVerification},
		{"more bytes than are read", 4, 4, 8000, "?page=%d", "bytes at most", resolve.ReasonVerification},
		{"without end", -1, 1 << 30, 1, "?page=%d", "20 pages", resolve.ReasonVerification},
		{"on another host", 2, 2, 1, "https://evil.example/v2/team/bundle/referrers/DIGEST?page=%d", "to another address", resolve.ReasonForbidden},
		{"at another path", 2, 2, 1, "/v2/other/tasks/referrers/DIGEST?page=%d", "to another address", resolve.ReasonForbidden},
		{"without TLS", 2, 2, 1, "ftp://reg.example.com/v2/team/bundle/referrers/DIGEST?page=%d", "to another address", resolve.ReasonForbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.front = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/referrers/") {
					return false
				}
				page, _ := strconv.Atoi(r.URL.Query().Get("page"))
				page = max(page, 1)
				list := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: slices.Repeat([]v1.Descriptor{other}, tt.entries)}
				if page == tt.signed {
					list.Manifests = append(list.Manifests, good)
				}
				if page < tt.pages {
					link := strings.ReplaceAll(fmt.Sprintf(tt.link, page+1), "DIGEST", digest.String())
					w.Header().Set("Link", "<"+link+`>; rel="next"`)
				}
				w.Header().Set("Content-Type", string(types.OCIImageIndex))
				_ = json.NewEncoder(w).Encode(list) // who has read enough hangs up
				return true
			}
			f.forget()
			_, err = f.resolve(request(), Options{Policies: policies(t, verify.Enforce, keys.ecdsa)})
			if n := len(f.requests()); n > maxExchanges {
				t.Errorf("%d requests", n)
			}
			if tt.flaw == "" {
				check(t, err)
				return
			}
			if e := failure(t, err); e.Transient || e.Reason != tt.reason || !strings.Contains(e.Msg, tt.flaw) {
				t.Errorf("%q: %v", e.Reason, e)
			}
		})
	}
}

// A registry that is down while referrers are asked for makes neither an unsigned bundle pass nor a signed one fail.
func TestReferrersThatCannotBeHad(t *testing.T) {
	keys := newKeys(t)
	f := newFixture(t)
	digest, err := f.Push(t.Context(), "v1", bundletest.Task("a", yamlA))
	check(t, err)
	f.front = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/referrers/") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	both := Options{Policies: policies(t, verify.Enforce, keys.ecdsa, keys.rsa)}
	_, err = f.resolve(request(), both)
	if e := failure(t, err); e.Reason != resolve.ReasonUnavailable || !e.Transient {
		t.Errorf("reason %q, transient %v: %v", e.Reason, e.Transient, e)
	}
	check(t, f.Sign(t.Context(), digest, digest, keys.rsa))
	res, err := f.resolve(request(), both)
	if err != nil || len(res.Signers) != 1 {
		t.Errorf("%v, %v", res, err)
	}
}

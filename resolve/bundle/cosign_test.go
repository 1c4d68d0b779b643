package bundle

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
	"sluice.dev/tools/bundletest"
)

type testKeys struct{ ecdsa, ed25519, rsa crypto.Signer }

func newKeys(t testing.TB) testKeys {
	t.Helper()
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, d, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return testKeys{e, d, r}
}

func policies(t testing.TB, mode verify.Mode, keys ...crypto.Signer) func() *verify.Policies {
	t.Helper()
	in := verify.Policy{Name: "p", Mode: mode, Form: verify.FormCosign, Patterns: []string{"reg.example.com/team/.*"}}
	for _, k := range keys {
		der, err := x509.MarshalPKIXPublicKey(k.Public())
		if err != nil {
			t.Fatal(err)
		}
		in.Keys = append(in.Keys, verify.Key{PEM: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))})
	}
	p, err := verify.New([]verify.Policy{in}, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return func() *verify.Policies { return p }
}

func TestCosignSignatures(t *testing.T) {
	keys, strangers := newKeys(t), newKeys(t)
	payload := func(digest v1.Hash, kind string) []byte {
		return []byte(`{"critical":{"image":{"docker-manifest-digest":"` + digest.String() + `"},"type":"` + kind + `"}}`)
	}
	// raw puts one signature of the payload, changed by edit.
	raw := func(t *testing.T, f *fixture, digest v1.Hash, body []byte, edit func(*bundletest.Layer)) {
		t.Helper()
		sig, err := bundletest.SignMessage(body, keys.ecdsa)
		if err != nil {
			t.Fatal(err)
		}
		l := bundletest.Layer{Blob: body, MediaType: signatureMediaType, Annotations: map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(sig)}}
		if edit != nil {
			edit(&l)
		}
		if _, err := f.Push(t.Context(), "sha256-"+digest.Hex+".sig", l); err != nil {
			t.Fatal(err)
		}
	}
	other := bundletest.HashOf([]byte("another image"))
	for _, tt := range []struct {
		name    string
		sign    func(t *testing.T, f *fixture, digest v1.Hash)
		trusted []crypto.Signer
		signers int
		text    string
	}{
		{"by ECDSA", func(t *testing.T, f *fixture, d v1.Hash) { check(t, f.Sign(t.Context(), d, d, keys.ecdsa)) }, []crypto.Signer{keys.ecdsa}, 1, ""},
		{"by Ed25519", func(t *testing.T, f *fixture, d v1.Hash) { check(t, f.Sign(t.Context(), d, d, keys.ed25519)) }, []crypto.Signer{keys.ed25519}, 1, ""},
		{"by RSA", func(t *testing.T, f *fixture, d v1.Hash) { check(t, f.Sign(t.Context(), d, d, keys.rsa)) }, []crypto.Signer{keys.rsa}, 1, ""},
		{"by several, two of them trusted", func(t *testing.T, f *fixture, d v1.Hash) {
			check(t, f.Sign(t.Context(), d, d, strangers.ecdsa, keys.rsa, strangers.ed25519, keys.ecdsa))
		}, []crypto.Signer{keys.ecdsa, keys.ed25519, keys.rsa}, 2, ""},
		{"none", func(*testing.T, *fixture, v1.Hash) {}, []crypto.Signer{keys.ecdsa}, 0, "not signed"},
		{"by a stranger", func(t *testing.T, f *fixture, d v1.Hash) { check(t, f.Sign(t.Context(), d, d, strangers.ecdsa)) }, []crypto.Signer{keys.ecdsa}, 0, "another key"},
		// A good signature of another image, put where that of this one is looked for.
		{"for another image", func(t *testing.T, f *fixture, d v1.Hash) { check(t, f.Sign(t.Context(), d, other, keys.ecdsa)) }, []crypto.Signer{keys.ecdsa}, 0, "another digest"},
		{"with a payload of another type", func(t *testing.T, f *fixture, d v1.Hash) { raw(t, f, d, payload(d, "release notes"), nil) }, []crypto.Signer{keys.ecdsa}, 0, "not one of cosign's"},
		{"with a payload that is no JSON", func(t *testing.T, f *fixture, d v1.Hash) { raw(t, f, d, []byte(d.String()), nil) }, []crypto.Signer{keys.ecdsa}, 0, "no JSON"},
		{"without a signature", func(t *testing.T, f *fixture, d v1.Hash) {
			raw(t, f, d, payload(d, signatureType), func(l *bundletest.Layer) { l.Annotations = map[string]string{"a": "b"} })
		}, []crypto.Signer{keys.ecdsa}, 0, "not in the form"},
		{"with an empty signature", func(t *testing.T, f *fixture, d v1.Hash) {
			raw(t, f, d, payload(d, signatureType), func(l *bundletest.Layer) { l.Annotations[signatureAnnotation] = "AA==" })
		}, []crypto.Signer{keys.ecdsa}, 0, "another key"},
		{"that is no base64", func(t *testing.T, f *fixture, d v1.Hash) {
			raw(t, f, d, payload(d, signatureType), func(l *bundletest.Layer) { l.Annotations[signatureAnnotation] = "%%%" })
		}, []crypto.Signer{keys.ecdsa}, 0, "base64"},
		{"of another media type", func(t *testing.T, f *fixture, d v1.Hash) {
			raw(t, f, d, payload(d, signatureType), func(l *bundletest.Layer) { l.MediaType = types.OCILayer })
		}, []crypto.Signer{keys.ecdsa}, 0, "not in the form"},
		{"with a huge payload", func(t *testing.T, f *fixture, d v1.Hash) {
			raw(t, f, d, payload(d, signatureType), func(l *bundletest.Layer) { l.Size = 1 << 50 })
		}, []crypto.Signer{keys.ecdsa}, 0, "not in the form"},
		{"in an index", func(t *testing.T, f *fixture, d v1.Hash) {
			_, err := f.PushIndex(t.Context(), "sha256-"+d.Hex+".sig")
			check(t, err)
		}, []crypto.Signer{keys.ecdsa}, 0, "not in the form"},
		{"too many", func(t *testing.T, f *fixture, d v1.Hash) {
			many := make([]crypto.Signer, maxSignatures+1)
			for i := range many {
				many[i] = strangers.ed25519
			}
			many[maxSignatures] = keys.ecdsa
			check(t, f.Sign(t.Context(), d, d, many...))
		}, []crypto.Signer{keys.ecdsa}, 0, "first 50"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			digest, err := f.Push(t.Context(), "v1", bundletest.Task("a", yamlA))
			check(t, err)
			tt.sign(t, f, digest)
			enforce, warn := Options{Policies: policies(t, verify.Enforce, tt.trusted...)}, Options{Policies: policies(t, verify.Warn, tt.trusted...)}
			for _, opts := range []Options{enforce, warn} {
				for _, signer := range []string{"", SignerCosign} {
					demanded := signer != "" || isEnforcing(opts)
					res, err := f.resolve(request(ParamSigner, signer), opts)
					if tt.signers > 0 || !demanded {
						if err != nil || len(res.Signers) != tt.signers {
							t.Errorf("demanded %v: %v, %v; want %d signers", demanded, res, err, tt.signers)
						}
						continue
					}
					if e := failure(t, err); e.Reason != resolve.ReasonVerification || e.Transient || !strings.Contains(e.Msg, tt.text) {
						t.Errorf("reason %q: %v; want %q", e.Reason, e, tt.text)
					}
				}
			}
		})
	}
}

func isEnforcing(o Options) bool {
	return o.Policies().Cosign("reg.example.com/team/bundle").Enforced
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestVerifyAgreesWithTheSigners(t *testing.T) {
	keys := newKeys(t)
	f := newFixture(t)
	digest, err := f.Push(t.Context(), "v1", bundletest.Task("a", yamlA))
	check(t, err)
	check(t, f.Sign(t.Context(), digest, digest, keys.ecdsa))
	get := policies(t, verify.Enforce, keys.ecdsa)
	res, err := f.resolve(request(), Options{Policies: get})
	check(t, err)
	if _, err := verify.Verify(t.Context(), get(), res); err != nil {
		t.Error(err)
	}
	if _, err := verify.Verify(t.Context(), policies(t, verify.Enforce, keys.rsa)(), res); err == nil {
		t.Error("the key is another, and the result passes")
	}
	// A result from before there was a policy does not pass.
	res, err = f.resolve(request())
	check(t, err)
	if _, err := verify.Verify(t.Context(), get(), res); err == nil {
		t.Error("nobody has looked at the signature, and the result passes")
	}
}

// cosign signs what the name leads to, which may be an index.
func TestSignaturesOfIndexes(t *testing.T) {
	keys := newKeys(t)
	f := newFixture(t)
	child, err := f.Push(t.Context(), "child", bundletest.Task("a", yamlA))
	check(t, err)
	index, err := f.PushIndex(t.Context(), "v1", v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: child, Size: 1})
	check(t, err)
	if _, err := f.resolve(request(), Options{Policies: policies(t, verify.Enforce, keys.ecdsa)}); err == nil {
		t.Error("it is not signed, and resolves")
	}
	for _, digest := range []v1.Hash{index, child} {
		check(t, f.Sign(t.Context(), digest, digest, keys.ecdsa))
		if _, err := f.resolve(request(), Options{Policies: policies(t, verify.Enforce, keys.ecdsa)}); err != nil {
			t.Error(err)
		}
		check(t, f.Sign(t.Context(), digest, bundletest.HashOf(nil), keys.ecdsa))
	}
}

func TestSignerWithoutPoliciesFails(t *testing.T) {
	f := newFixture(t)
	f.push(bundletest.Task("a", yamlA))
	_, err := f.resolve(request(ParamSigner, SignerCosign))
	if e := failure(t, err); e.Reason != resolve.ReasonVerification {
		t.Errorf("%q: %v", e.Reason, e)
	}
}

// A registry that is down while signatures are looked for must not make an unsigned bundle pass.
func TestSignaturesThatCannotBeHad(t *testing.T) {
	keys := newKeys(t)
	f := newFixture(t)
	f.push(bundletest.Task("a", yamlA))
	f.front = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, ".sig") {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	_, err := f.resolve(request(), Options{Policies: policies(t, verify.Enforce, keys.ecdsa)})
	if e := failure(t, err); e.Reason != resolve.ReasonUnavailable || !e.Transient {
		t.Errorf("reason %q, transient %v: %v", e.Reason, e.Transient, e)
	}
	res, err := f.resolve(request(), Options{Policies: policies(t, verify.Warn, keys.ecdsa)})
	if err != nil || res.Signers != nil {
		t.Errorf("%v, %v", res, err)
	}
}

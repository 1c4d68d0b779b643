package verify

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/resolve"
	"sluice.dev/tools/verifytest"
)

func newECDSA(t testing.TB, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newRSA(t testing.TB, bits int) crypto.Signer {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newEd25519(t testing.TB) crypto.Signer {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func pemOf(t testing.TB, k crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

const task = `apiVersion: tekton.dev/v1
kind: Task
metadata:
  name: build
  annotations:
    note: "50%% <done>"
%sspec:
  steps:
  - image: busybox
    script: echo 1
    timeout: 1.50
`

const signatureLine = "    " + AnnotationSignature + ": "

func unsigned() string { return fmt.Sprintf(task, "") }

func signedTask(t testing.TB, k crypto.Signer) string {
	t.Helper()
	sig, err := Sign([]byte(unsigned()), k)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(task, signatureLine+sig+"\n")
}

func mustNew(t testing.TB, noMatch NoMatch, ps ...Policy) *Policies {
	t.Helper()
	p, err := New(ps, Options{NoMatch: noMatch})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func resource(uri, data string, signers ...string) *resolve.Resource {
	return &resolve.Resource{Data: []byte(data), Source: resolve.Source{URI: uri}, Signers: signers}
}

// reason is the reason of a resolve.Error, empty for nil.
func reason(t testing.TB, err error) resolve.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *resolve.Error
	if !errors.As(err, &e) {
		t.Fatalf("%T is no *resolve.Error: %v", err, err)
	}
	return e.Reason
}

func TestVerifyTakesWhatAKeyOfThePolicyHasSigned(t *testing.T) {
	for _, tt := range []struct {
		name string
		key  crypto.Signer
	}{
		{"ECDSA P-256", newECDSA(t, elliptic.P256())},
		{"ECDSA P-384", newECDSA(t, elliptic.P384())},
		{"RSA", newRSA(t, 2048)},
		{"Ed25519", newEd25519(t)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			other := newEd25519(t)
			p := mustNew(t, "", Policy{Name: "p", Patterns: []string{".*"}, Keys: []Key{{PEM: pemOf(t, other)}, {PEM: pemOf(t, tt.key)}}})
			text := signedTask(t, tt.key)
			if _, err := Verify(t.Context(), p, resource("git+https://example.com/r", text)); err != nil {
				t.Errorf("signed: %v", err)
			}
			// What a cluster adds is not covered; all else is.
			stored := strings.Replace(text, "  name: build\n", "  name: build\n  uid: abc\n  resourceVersion: \"7\"\n  managedFields: []\n", 1)
			if _, err := Verify(t.Context(), p, resource("git+https://example.com/r", stored)); err != nil {
				t.Errorf("with the fields of an API server: %v", err)
			}
			for _, change := range [][2]string{
				{"echo 1", "echo 2"},
				{"name: build", "name: built"},
				{"50%", "51%"},
				{"kind: Task", "kind: Pipeline"},
				{"  name: build\n", "  name: build\n  finalizers: [a]\n"},
				{"spec:\n", "extra: 1\nspec:\n"},
			} {
				changed := strings.Replace(text, change[0], change[1], 1)
				if changed == text {
					t.Fatalf("%q is not in the task", change[0])
				}
				_, err := Verify(t.Context(), p, resource("git+https://example.com/r", changed))
				if got := reason(t, err); got != resolve.ReasonVerification {
					t.Errorf("%q for %q: reason %q", change[1], change[0], got)
				}
			}
			_, err := Verify(t.Context(), mustNew(t, "", Policy{Name: "p", Patterns: []string{".*"}, Keys: []Key{{PEM: pemOf(t, other)}}}), resource("x", text))
			if got := reason(t, err); got != resolve.ReasonVerification {
				t.Errorf("signed by another key: reason %q", got)
			}
		})
	}
}

func TestVerifyRefusesContentThatIsNotSignedAsAWhole(t *testing.T) {
	key := newECDSA(t, elliptic.P256())
	p := mustNew(t, "", Policy{Name: "p", Patterns: []string{".*"}, Keys: []Key{{PEM: pemOf(t, key)}}})
	good := signedTask(t, key)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'i'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	for _, tt := range []struct{ name, data string }{
		{"unsigned", unsigned()},
		{"empty", ""},
		{"a Secret hides behind it", good + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"},
		{"a Secret hides behind an empty document", good + "---\n---\napiVersion: v1\nkind: Secret\n"},
		{"a Secret stands before it", "kind: Secret\n---\n" + good},
		{"many empty documents", good + strings.Repeat("---\n", 10000)},
		{"a key twice", good + "spec: {}\n"},
		{"an alias bomb", bomb},
		{"deep nesting", strings.Repeat("[", 100000)},
		{"a list", "- a\n"},
		{"metadata is no object", "metadata: 1\n"},
		{"annotations are no object", "metadata: {annotations: 1}\n"},
		{"the signature is a number", fmt.Sprintf(task, signatureLine+"1\n")},
		{"the signature is no base64", fmt.Sprintf(task, signatureLine+"'%%%'\n")},
		{"the signature is empty", fmt.Sprintf(task, signatureLine+"''\n")},
		{"the signature is garbage", fmt.Sprintf(task, signatureLine+"AAAA\n")},
		{"too large", "a: " + strings.Repeat("x", maxSigned)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Verify(t.Context(), p, resource("https://example.com", tt.data))
			if got := reason(t, err); got != resolve.ReasonVerification {
				t.Fatalf("reason %q, error %v", got, err)
			}
			if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "%!") {
				t.Errorf("the text is not one plain line: %q", err)
			}
		})
	}
	if _, err := Verify(t.Context(), p, resource("https://example.com", good+"---\n")); err != nil {
		t.Errorf("an end marker behind it: %v", err)
	}
}

// A pattern that is not anchored matched sources that only contained it (CVE-2026-25542).
func TestPatternsMatchWholeSources(t *testing.T) {
	const trusted = "https://github.com/tektoncd/catalog"
	for _, tt := range []struct {
		name, pattern, uri string
		want               bool
	}{
		{"the same", trusted, trusted, true},
		{"the prefix git+ is optional", trusted, "git+" + trusted, true},
		{"the pattern has git+", `git\+` + trusted, "git+" + trusted, true},
		{"anchors do no harm", "^" + trusted + "$", "git+" + trusted, true},
		{"the suffix .git is optional", trusted, "git+" + trusted + ".git", true},
		{"the pattern has .git", trusted + `\.git`, "git+" + trusted, true},
		{"user information", trusted, "git+https://user@github.com/tektoncd/catalog", true},
		{"default port", trusted, "https://github.com:443/tektoncd/catalog", true},
		{"zeros before the port", trusted, "https://github.com:0443/tektoncd/catalog", true},
		{"letters that IDNA maps", trusted, "https://\uff47ithub\u3002com\u3002/tektoncd/catalog", true},
		{"letters that IDNA does not map", trusted, "https://g\u0131thub.com/tektoncd/catalog", false},
		{"capitals in the host", trusted, "https://GitHub.com./tektoncd/catalog/", true},
		{"dots in the path", trusted, "https://github.com/x/../tektoncd//catalog", true},
		{"in a query", trusted, "https://evil.example/?" + trusted, false},
		{"in a path", trusted, "https://evil.example/" + trusted, false},
		{"a longer name", trusted, trusted + "-evil", false},
		{"a longer host", "https://github.com", "https://github.com.evil.example", false},
		{"user information that looks like a host", "https://github.com/.*", "https://github.com@evil.example/x", false},
		{"behind a line break", trusted, "x\n" + trusted, false},
		{"before a line break", trusted, trusted + "\n", false},
		{"multi-line anchors", "(?m)^" + trusted + "$", "x\n" + trusted + "\ny", false},
		{"a choice", "a|" + trusted, trusted + "x", false},
		{"an anchored choice", "^a|" + trusted + "$", "x" + trusted, false},
		{"an image", "registry.example.com/.*", "registry.example.com/team/bundle", true},
		{"no source", "x.*", "", false},
		{"git+ as messages have it", "git+" + trusted, "git+" + trusted + ".git", true},
		{"git+ of ssh", "git+ssh://git@github.com/tektoncd/catalog", "git+ssh://git@github.com/tektoncd/catalog", true},
		{"a host and a path", "github.com/tektoncd/.*", "git+" + trusted, true},
		{"a host with a port", "127.0.0.1:80/b.git", "git+http://127.0.0.1:80/b.git", true},
		{"a host with another port", "127.0.0.1:8080/b.git", "git+http://127.0.0.1:8080/b.git", true},
		{"a host and a path of a file", "github.com/tektoncd/.*", "https://github.com/tektoncd/x", false},
		{"a choice of hosts", "example.com/a|example.com/b", "git+https://example.com/b", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := mustNew(t, NoMatchFail, Policy{Name: "p", Mode: Warn, Patterns: []string{tt.pattern}, Keys: []Key{{PEM: pemOf(t, newEd25519(t))}}})
			_, err := Verify(t.Context(), p, resource(tt.uri, unsigned()))
			if got := err == nil; got != tt.want {
				t.Errorf("matched: %v, want %v (%v)", got, tt.want, err)
			}
		})
	}
}

func TestVerifyByModes(t *testing.T) {
	a, b := newECDSA(t, elliptic.P256()), newEd25519(t)
	policy := func(name string, mode Mode, key crypto.Signer) Policy {
		return Policy{Name: name, Mode: mode, Patterns: []string{"https://.*"}, Keys: []Key{{Name: name + "-key", PEM: pemOf(t, key)}}}
	}
	signed := signedTask(t, a)
	for _, tt := range []struct {
		name     string
		noMatch  NoMatch
		policies []Policy
		uri      string
		warnings int
		want     resolve.Reason
	}{
		{"no policy matches, which is ignored", "", []Policy{policy("a", "", b)}, "other", 0, ""},
		{"no policy matches, with a warning", NoMatchWarn, []Policy{policy("a", "", b)}, "other", 1, ""},
		{"no policy matches, which fails", NoMatchFail, []Policy{policy("a", "", b)}, "other", 0, resolve.ReasonVerification},
		{"no policies at all", NoMatchFail, nil, "https://x", 0, resolve.ReasonVerification},
		{"one is satisfied", NoMatchFail, []Policy{policy("a", Enforce, a)}, "https://x", 0, ""},
		{"the default mode enforces", "", []Policy{policy("a", "", b)}, "https://x", 0, resolve.ReasonVerification},
		{"all that enforce have to be satisfied", "", []Policy{policy("a", "", a), policy("b", "", b)}, "https://x", 0, resolve.ReasonVerification},
		{"one that warns does not fail", "", []Policy{policy("a", "", a), policy("b", Warn, b)}, "https://x", 1, ""},
		{"one that warns is satisfied", "", []Policy{policy("a", Warn, a)}, "https://x", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			warnings, err := Verify(t.Context(), mustNew(t, tt.noMatch, tt.policies...), resource(tt.uri, signed))
			if got := reason(t, err); got != tt.want || len(warnings) != tt.warnings {
				t.Errorf("reason %q, warnings %q; want %q and %d", got, warnings, tt.want, tt.warnings)
			}
		})
	}
	if w, err := Verify(t.Context(), nil, resource("https://x", "")); w != nil || err != nil {
		t.Errorf("nil policies: %v, %v", w, err)
	}
}

func TestCosignPoliciesLookAtTheSigners(t *testing.T) {
	a, b := newECDSA(t, elliptic.P256()), newEd25519(t)
	p := mustNew(t, "", Policy{Name: "a", Form: FormCosign, Patterns: []string{"reg.example.com/.*"}, Keys: []Key{{Name: "a", PEM: pemOf(t, a)}, {PEM: pemOf(t, b)}, {PEM: pemOf(t, b)}}},
		Policy{Name: "files", Patterns: []string{"https://.*"}, Keys: []Key{{PEM: pemOf(t, b)}}})
	c := p.Cosign("reg.example.com/x")
	if len(c.Keys) != 2 || !c.Enforced {
		t.Fatalf("%d keys, enforced %v; want 2, true", len(c.Keys), c.Enforced)
	}
	if got := p.Cosign("https://reg.example.com/x"); got.Keys != nil || got.Enforced {
		t.Errorf("another source: %+v", got)
	}
	if got := (*Policies)(nil).Cosign("reg.example.com/x"); got.Keys != nil {
		t.Errorf("nil policies: %+v", got)
	}
	for _, tt := range []struct {
		name    string
		uri     string
		signers []string
		want    resolve.Reason
	}{
		{"signed", "reg.example.com/x", []string{"sha256:other", c.Keys[1].ID}, ""},
		{"not signed", "reg.example.com/x", nil, resolve.ReasonVerification},
		{"signed by another", "reg.example.com/x", []string{"sha256:other"}, resolve.ReasonVerification},
		// A resource that claims to be signed in its annotation does not satisfy a policy for images.
		{"another form", "https://x", []string{c.Keys[1].ID}, resolve.ReasonVerification},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Verify(t.Context(), p, resource(tt.uri, unsigned(), tt.signers...))
			if got := reason(t, err); got != tt.want {
				t.Errorf("reason %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNewTellsAllErrors(t *testing.T) {
	sigstore := verifytest.New(t)
	root := sigstore.TrustedRoot(t, verifytest.Parts{})
	keyless := func(id Identity) Policy {
		return Policy{Name: "p", Form: FormCosign, Patterns: []string{"a"}, Identities: []Identity{id}}
	}
	anybody := Identity{Issuer: "i", Subject: "s"}
	good := Key{PEM: pemOf(t, newEd25519(t))}
	der, err := x509.MarshalPKCS8PrivateKey(newEd25519(t))
	if err != nil {
		t.Fatal(err)
	}
	private := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	for _, tt := range []struct {
		name string
		in   Policy
		opts Options
		want string
	}{
		{"no name", Policy{Patterns: []string{"a"}, Keys: []Key{good}}, Options{}, "no name"},
		{"no pattern", Policy{Name: "p", Keys: []Key{good}}, Options{}, "no patterns"},
		{"an empty pattern", Policy{Name: "p", Patterns: []string{""}, Keys: []Key{good}}, Options{}, "empty"},
		{"a broken pattern", Policy{Name: "p", Patterns: []string{"("}, Keys: []Key{good}}, Options{}, "missing closing"},
		{"a pattern that would leave the anchors", Policy{Name: "p", Patterns: []string{"a)|(?:.*"}, Keys: []Key{good}}, Options{}, "unexpected )"},
		{"a long pattern", Policy{Name: "p", Patterns: []string{strings.Repeat("a", 5000)}, Keys: []Key{good}}, Options{}, "longer"},
		{"no key", Policy{Name: "p", Patterns: []string{"a"}}, Options{}, "no keys"},
		{"an empty key", Policy{Name: "p", Patterns: []string{"a"}, Keys: []Key{{}}}, Options{}, "neither"},
		{"no PEM", Policy{Name: "p", Patterns: []string{"a"}, Keys: []Key{{PEM: "x"}}}, Options{}, "PEM"},
		{"a private key", Policy{Name: "p", Patterns: []string{"a"}, Keys: []Key{{PEM: private}}}, Options{}, "private"},
		{"two keys in one", Policy{Name: "p", Patterns: []string{"a"}, Keys: []Key{{PEM: good.PEM + good.PEM}}}, Options{}, "follows"},
		{"a weak RSA key", Policy{Name: "p", Patterns: []string{"a"}, Keys: []Key{{PEM: pemOf(t, newRSA(t, 1024))}}}, Options{}, "2048"},
		{"a weak curve", Policy{Name: "p", Patterns: []string{"a"}, Keys: []Key{{PEM: pemOf(t, newECDSA(t, elliptic.P224()))}}}, Options{}, "P-224"},
		{"an unknown hash", Policy{Name: "p", Patterns: []string{"a"}, Keys: []Key{{PEM: good.PEM, Hash: "md5"}}}, Options{}, "md5"},
		{"both key sources", Policy{Name: "p", Patterns: []string{"a"}, Keys: []Key{{PEM: good.PEM, KMS: "k://x"}}}, Options{}, "both"},
		{"no KMS", Policy{Name: "p", Patterns: []string{"a"}, Keys: []Key{{KMS: "gcpkms://x"}}}, Options{}, "gcpkms"},
		{"a KMS without a scheme", Policy{Name: "p", Patterns: []string{"a"}, Keys: []Key{{KMS: "x"}}}, Options{}, "scheme"},
		{"an unknown mode", Policy{Name: "p", Mode: "maybe", Patterns: []string{"a"}, Keys: []Key{good}}, Options{}, "maybe"},
		{"an unknown form", Policy{Name: "p", Form: "pgp", Patterns: []string{"a"}, Keys: []Key{good}}, Options{}, "pgp"},
		{"no trusted root", keyless(anybody), Options{}, "trusted_root.json as keyless.trustedRoot"},
		{"a trusted root that is no JSON", keyless(anybody), Options{TrustedRoot: "x"}, "not one in the form"},
		{"a trusted root of another kind", keyless(anybody), Options{TrustedRoot: "{}"}, "media type"},
		{"a trusted root that trusts nobody", keyless(anybody), Options{TrustedRoot: `{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`}, "certificateAuthorities"},
		{"a trusted root without time", keyless(anybody), Options{TrustedRoot: sigstore.TrustedRoot(t, verifytest.Parts{NoLog: true, NoTimestamps: true})}, "when a signature was made"},
		{"a huge trusted root", keyless(anybody), Options{TrustedRoot: root + strings.Repeat(" ", maxPolicyBytes)}, "over"},
		{"no issuer", keyless(Identity{Subject: "s"}), Options{TrustedRoot: root}, "exactly one of issuer"},
		{"no subject", keyless(Identity{Issuer: "i"}), Options{TrustedRoot: root}, "exactly one of subject"},
		{"two subjects", keyless(Identity{Issuer: "i", Subject: "s", SubjectRegExp: "s"}), Options{TrustedRoot: root}, "exactly one of subject"},
		{"a broken pattern of an issuer", keyless(Identity{IssuerRegExp: "(", Subject: "s"}), Options{TrustedRoot: root}, "missing closing"},
		{"an identity for a resource", Policy{Name: "p", Patterns: []string{"a"}, Identities: []Identity{anybody}}, Options{TrustedRoot: root}, "keys only"},
		{"an unknown no-match policy", Policy{Name: "p", Patterns: []string{"a"}, Keys: []Key{good}}, Options{NoMatch: "x"}, "ignore, warn or fail"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := New([]Policy{{Name: "good", Patterns: []string{"a"}, Keys: []Key{good}}, tt.in}, tt.opts)
			if err == nil || p != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	_, err = New([]Policy{{Name: "p", Mode: "x"}, {Name: "p", Form: "y"}}, Options{})
	for _, want := range []string{`mode "x"`, `form "y"`, "no keys", "no patterns", "two of that name"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestVerifyEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := mustNew(t, "", Policy{Name: "p", Mode: Warn, Patterns: []string{".*"}, Keys: []Key{{PEM: pemOf(t, newEd25519(t))}}})
	_, err := Verify(ctx, p, resource("a", unsigned()))
	if got := reason(t, err); got != resolve.ReasonCanceled || !errors.Is(err, context.Canceled) {
		t.Errorf("reason %q, error %v", got, err)
	}
}

func TestDigestChangesWithThePolicies(t *testing.T) {
	k := Key{PEM: pemOf(t, newEd25519(t))}
	a := Policy{Name: "p", Patterns: []string{"a"}, Keys: []Key{k}}
	b := Policy{Name: "p", Patterns: []string{"b"}, Keys: []Key{k}}
	digests := []string{mustNew(t, "", a).Digest(), mustNew(t, NoMatchIgnore, a).Digest(), mustNew(t, NoMatchFail, a).Digest(), mustNew(t, "", b).Digest(), (*Policies)(nil).Digest()}
	same := make([]bool, len(digests))
	for i, d := range digests {
		same[i] = d == digests[0]
	}
	if diff := cmp.Diff([]bool{true, true, false, false, false}, same); diff != "" {
		t.Error(diff)
	}
}

func FuzzPayload(f *testing.F) {
	f.Add([]byte(unsigned()))
	f.Add([]byte("metadata: {annotations: {tekton.dev/signature: AAAA}}"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("metadata: ~\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		payload, _, err := Payload(data)
		if err != nil {
			return
		}
		again, _, err := Payload(payload)
		if err != nil {
			t.Fatalf("the payload is not readable: %v\n%s", err, payload)
		}
		if diff := cmp.Diff(string(payload), string(again)); diff != "" {
			t.Errorf("the payload of the payload differs: %s", diff)
		}
	})
}

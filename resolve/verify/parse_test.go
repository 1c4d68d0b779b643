package verify

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/resolve"
)

type secrets map[string]map[string][]byte

func (s secrets) Secret(_ context.Context, namespace, name string) (map[string][]byte, error) {
	if data, ok := s[namespace+"/"+name]; ok {
		return data, nil
	}
	return nil, resolve.Errorf(resolve.ReasonNotFound, "no secret %s/%s", namespace, name)
}

const policyHead = "apiVersion: tekton.dev/v1alpha1\nkind: VerificationPolicy\nmetadata: {name: p, namespace: ns}\n"

func TestParseReadsTektonsPolicies(t *testing.T) {
	stream := policyHead + `spec:
  resources:
  - pattern: "https://github.com/tektoncd/catalog.git"
  authorities:
  - name: key1
    key:
      secretRef: {name: verification, namespace: keys}
      hashAlgorithm: sha256
  - name: key2
    key: {data: "PEM", hashAlgorithm: SHA512}
  - name: key3
    key: {kms: "gcpkms://x"}
  mode: warn
---
apiVersion: tekton.dev/v1alpha1
kind: VerificationPolicy
metadata: {name: q}
spec:
  form: cosign
  resources: [{pattern: a}, {pattern: b}]
  authorities: [{name: k, key: {data: PEM}}]
---
apiVersion: tekton.dev/v1alpha1
kind: VerificationPolicy
metadata: {name: r}
spec:
  form: cosign
  resources: [{pattern: a}]
  authorities:
  - name: ci
    keyless:
      identities: [{issuer: 'https://i', subjectRegExp: 'https://s/.*'}, {name: me, issuerRegExp: i, subject: s, trustedRoot: MINE}]
      trustedRoot: ROOT
`
	got, err := Parse(t.Context(), []byte(stream), secrets{"keys/verification": {"cosign.pub": []byte("SECRET")}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Policy{
		{
			Name: "ns/p", Mode: Warn, Patterns: []string{"https://github.com/tektoncd/catalog.git"},
			Keys: []Key{{Name: "key1", PEM: "SECRET", Hash: "sha256"}, {Name: "key2", PEM: "PEM", Hash: "SHA512"}, {Name: "key3", KMS: "gcpkms://x"}},
		},
		{Name: "q", Form: FormCosign, Patterns: []string{"a", "b"}, Keys: []Key{{Name: "k", PEM: "PEM"}}},
		{Name: "r", Form: FormCosign, Patterns: []string{"a"}, Identities: []Identity{
			{Name: "ci", Issuer: "https://i", SubjectRegExp: "https://s/.*", TrustedRoot: "ROOT"},
			{Name: "me", IssuerRegExp: "i", Subject: "s", TrustedRoot: "MINE"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseRefusesWhatItWouldHaveToPassOver(t *testing.T) {
	spec := func(key string) string {
		return policyHead + "spec: {resources: [{pattern: a}], authorities: [{name: k, " + key + "}]}\n"
	}
	for _, tt := range []struct{ name, stream, want string }{
		{"nothing", "", "no policy"},
		{"empty documents", "---\n---\n", "no policy"},
		{"not YAML", "a: [", "document 1"},
		{"another kind", "apiVersion: v1\nkind: Secret\n", "not VerificationPolicy"},
		{"an unknown field", policyHead + "spec: {resource: []}\n", "resource"},
		{"a key twice", policyHead + "spec: {}\nspec: {}\n", "already set"},
		{"neither key nor keyless", policyHead + "spec: {resources: [{pattern: a}], authorities: [{name: k}]}\n", "keyless"},
		{"key and keyless", spec("key: {data: a}, keyless: {identities: [{issuer: a, subject: b}]}"), "exactly one"},
		{"anybody of an issuer", spec("keyless: {url: 'https://fulcio.sigstore.dev'}"), "url"},
		{"nobody", spec("keyless: {identities: []}"), "names no identities"},
		{"several keys", spec("key: {data: a, secretRef: {name: one}}"), "several"},
		{"no such secret", spec("key: {secretRef: {name: none}}"), "no secret ns/none"},
		{"a secret with two entries", spec("key: {secretRef: {name: two}}"), "2 entries"},
		{"too long", strings.Repeat("#", maxPolicyBytes+1), "over"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := secrets{"ns/one": {"a": nil}, "ns/two": {"a": nil, "b": nil}}
			if _, err := Parse(t.Context(), []byte(tt.stream), s); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	if _, err := Parse(t.Context(), []byte(spec("key: {secretRef: {name: one}}")), nil); err == nil {
		t.Error("a secretRef without secrets passes")
	}
}

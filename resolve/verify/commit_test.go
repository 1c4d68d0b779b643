package verify

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/tools/verifytest"
)

func TestKeysForCommits(t *testing.T) {
	const good = "joe@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJvT0v8lKvXn0e1fJrUeV5E1t0Sl8mZ1i5v6n1k0m9wQ"
	for _, tt := range []struct {
		name, want string
		key        Key
	}{
		{"a key of SSH", "", Key{PEM: good}},
		{"nothing", "no key", Key{PEM: "# nobody\n"}},
		{"a key for images", "cannot be read", Key{PEM: pemOf(t, newEd25519(t))}},
		{"a key in a KMS", "neither kms", Key{KMS: "gcpkms://x"}},
		{"a hash", "neither kms", Key{PEM: good, Hash: "sha256"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := New([]Policy{{Name: "p", Form: FormCommit, Patterns: []string{".*"}, Keys: []Key{tt.key}}}, Options{})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v; want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if ids := p.Commit("git+https://h/r").IDs(); len(ids) != 1 || p.Cosign("git+https://h/r").IDs() != nil {
				t.Errorf("%q", ids)
			}
		})
	}
}

// An identity that has signed a commit has not signed an image.
func TestASignatureCountsForItsFormOnly(t *testing.T) {
	id := []Identity{{Issuer: "https://i.example", Subject: "s"}}
	p, err := New([]Policy{
		{Name: "commits", Form: FormCommit, Patterns: []string{".*"}, Identities: id},
		{Name: "images", Form: FormCosign, Patterns: []string{".*"}, Identities: id},
	}, Options{TrustedRoot: verifytest.New(t).TrustedRoot(t, verifytest.Parts{})})
	if err != nil {
		t.Fatal(err)
	}
	commit, image := p.Commit("x").IDs(), p.Cosign("x").IDs()
	for _, tt := range []struct {
		name    string
		signers []string
		want    resolve.Reason
	}{
		{"the commit", commit, resolve.ReasonVerification},
		{"the image", image, resolve.ReasonVerification},
		{"both", append(commit, image...), ""},
	} {
		if _, err := Verify(t.Context(), p, resource("x", unsigned(), tt.signers...)); reason(t, err) != tt.want {
			t.Errorf("%s is signed: %v", tt.name, err)
		}
	}
}

// Signatures are anybody's bytes.
func FuzzSignatures(f *testing.F) {
	s := verifytest.New(f)
	p, err := New([]Policy{
		{Name: "p", Form: FormCommit, Patterns: []string{".*"}, Identities: []Identity{{Issuer: "https://nobody.example", Subject: "nobody"}}},
		{Name: "q", Form: FormCosign, Patterns: []string{".*"}, Identities: []Identity{{Issuer: "https://nobody.example", Subject: "nobody"}}},
	}, Options{TrustedRoot: s.TrustedRoot(f, verifytest.Parts{})})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.CMS(f, []byte("x"), verifytest.CMS{}))
	f.Add(s.CMS(f, []byte("x"), verifytest.CMS{Stamp: true}))
	f.Add(s.Bundle(f, strings.Repeat("a", 64), verifytest.Signing{}))
	f.Add([]byte(s.Simple(f, []byte("x"), verifytest.Signing{})["dev.sigstore.cosign/bundle"]))
	certificate := s.Simple(f, []byte("x"), verifytest.Signing{})["dev.sigstore.cosign/certificate"]
	commit, image := p.Commit("x"), p.Cosign("x")
	f.Fuzz(func(t *testing.T, data []byte) {
		sig := bytes.ReplaceAll(bytes.TrimSpace(data), []byte("\n"), []byte("\n "))
		object := append(append([]byte("tree x\ngpgsig "), sig...), "\n\nx"...)
		for what, of := range map[string]func() ([]string, error){
			"commit": func() ([]string, error) { return commit.Commit(object, data, time.Now) },
			"bundle": func() ([]string, error) { return image.Bundle(data, strings.Repeat("a", 64)) },
			"simple": func() ([]string, error) {
				return image.Simple(Simple{Payload: []byte("x"), Signature: data, Certificate: certificate, Log: string(data), Timestamp: string(data)})
			},
		} {
			if ids, err := of(); len(ids) > 0 || err == nil {
				t.Errorf("%s: nobody's signature is taken: %q, %v", what, ids, err)
			}
		}
	})
}

package verify

import (
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/testing/data"
	sigverify "github.com/sigstore/sigstore-go/pkg/verify"

	"sluice.dev/tools/verifytest"
)

// What Sigstore's public instance has certified and logged passes with its root: its certificate log, its transparency log
// and the time of it. The library brings the bundle, which is about a package of npm.
func TestABundleOfSigstoresPublicInstance(t *testing.T) {
	text, err := data.TrustedRoot(t, "public-good.json").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, root, issuer, subject, want string }{
		{"the workflow", string(text), "https://token.actions.githubusercontent.com", `https://github\.com/sigstore/sigstore-js/\.github/workflows/.*`, ""},
		{"a fork's workflow", string(text), "https://token.actions.githubusercontent.com", `https://github\.com/fork/.*`, "identity"},
		{"another issuer", string(text), "https://accounts.google.com", `https://github\.com/sigstore/sigstore-js/.*`, "identity"},
		{"another root", verifytest.New(t).TrustedRoot(t, verifytest.Parts{}), "https://token.actions.githubusercontent.com", ".*", "log"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, err := newKeyless(Identity{Issuer: tt.issuer, SubjectRegExp: tt.subject}, tt.root)
			if err != nil {
				t.Fatal(err)
			}
			b := data.Bundle(t, "sigstore.js@2.0.0-provenance.sigstore.json")
			_, err = k.verifier.Verify(b, sigverify.NewPolicy(sigverify.WithoutArtifactUnsafe(), sigverify.WithCertificateIdentity(k.identity)))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v; want %q", err, tt.want)
			}
		})
	}
}

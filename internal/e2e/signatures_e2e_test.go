//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/tools/bundletest"
	"sluice.dev/tools/gittest"
	"sluice.dev/tools/verifytest"
)

// signedPolicies wants bundles and commits signed by an identity, and one repository by a key of SSH.
const signedPolicies = `
apiVersion: tekton.dev/v1alpha1
kind: VerificationPolicy
metadata: {name: bundles}
spec:
  form: cosign
  resources: [{pattern: '.*/signed/.*'}]
  authorities: [{name: ci, keyless: {identities: [IDENTITY]}}]
---
apiVersion: tekton.dev/v1alpha1
kind: VerificationPolicy
metadata: {name: commits}
spec:
  form: commit
  resources: [{pattern: '.*/gitsign'}]
  authorities: [{name: ci, keyless: {identities: [IDENTITY]}}]
`

// Signatures by identities and keys, from the ConfigMap of the operator to the content: the trusted root is given, and is replaced
// while the resolvers run.
func TestE2ESignatures(t *testing.T) {
	s := standsAlone(t)
	ns := s.namespace(t)
	mine, theirs := verifytest.New(t), verifytest.New(t)
	reg := httptest.NewServer(registry.New(registry.WithReferrersSupport(true)))
	defer reg.Close()
	host := strings.TrimPrefix(reg.URL, "http://")
	for path, by := range map[string]*verifytest.Sigstore{"signed/good": &mine, "signed/theirs": &theirs, "signed/nobody": nil, "other/nobody": nil} {
		r, err := bundletest.NewRegistry(host, path, http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := r.Push(t.Context(), "v1", bundletest.Task("build", taskText))
		if err != nil {
			t.Fatal(err)
		}
		if by == nil {
			continue
		}
		if _, err := r.Refer(t.Context(), digest, verifytest.BundleType, verifytest.CosignPredicate, by.Bundle(t, digest.Hex, verifytest.Signing{})); err != nil {
			t.Fatal(err)
		}
	}

	repos := gittest.NewServer(t, false)
	gitsign := gittest.NewOrigin(t, repos.Root, "gitsign.git", map[string]string{"task.yaml": taskText})
	gittest.NewOrigin(t, repos.Root, "free.git", map[string]string{"task.yaml": taskText})
	unsigned := []byte(gittest.Run(t, gitsign.Dir, nil, "cat-file", "commit", "main") + "\n")
	for branch, by := range map[string]verifytest.Sigstore{"good": mine, "theirs": theirs} {
		sig := strings.ReplaceAll(strings.TrimSpace(string(by.CMS(t, unsigned, verifytest.CMS{}))), "\n", "\n ")
		commit := bytes.Replace(unsigned, []byte("\n\n"), []byte("\ngpgsig "+sig+"\n\n"), 1)
		id := gittest.Run(t, gitsign.Dir, bytes.NewReader(commit), "hash-object", "-t", "commit", "-w", "--stdin")
		gittest.Run(t, gitsign.Dir, nil, "update-ref", "refs/heads/"+branch, id)
	}
	identity, err := json.Marshal(map[string]string{"issuer": verifytest.Issuer, "subject": verifytest.Subject})
	if err != nil {
		t.Fatal(err)
	}
	policies := strings.ReplaceAll(signedPolicies, "IDENTITY", string(identity))
	trust := func(by verifytest.Sigstore) {
		s.configure(t, "resolver-verification-config", map[string]string{"policies": policies, "trusted-root": by.TrustedRoot(t, verifytest.Parts{})})
	}
	s.configure(t, "git-resolver-config", map[string]string{"allowed-addresses": "127.0.0.1"})
	s.configure(t, "bundleresolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "plain-http-registries": host})
	trust(mine)
	s.startAll(t, "resolution", "resolver-git", "resolver-bundles")

	n := 0
	resolve := func(resolver, what string) *v1beta1.ResolutionRequest {
		t.Helper()
		n++
		params := []string{"bundle", host + "/" + what + ":v1", "name", "build", "kind", "task", "cache", "never"}
		if resolver == "git" {
			repo, branch, _ := strings.Cut(what, " ")
			params = []string{"url", repos.URL + "/" + repo, "revision", branch, "pathInRepo", "task.yaml", "cache", "never"}
		}
		return s.resolve(t, ns, newRequest(fmt.Sprintf("r-%d", n), resolver, params...))
	}
	for _, tt := range []struct {
		resolver, what string
		flaw           string // empty: it resolves
	}{
		{"bundles", "signed/good", ""},
		{"bundles", "signed/theirs", "log"},
		{"bundles", "signed/nobody", "not signed"},
		{"bundles", "other/nobody", ""},
		{"git", "gitsign good", ""},
		{"git", "gitsign theirs", "log"},
		{"git", "gitsign.git main", "no signature"},
		{"git", "free main", ""},
	} {
		r := resolve(tt.resolver, tt.what)
		if tt.flaw == "" {
			wantContent(t, r, taskText)
			continue
		}
		wantFailure(t, r, "VerificationFailed", tt.flaw)
	}

	// The operator replaces the root: resolvers that run take the new one, and nothing by the old one any more.
	trust(theirs)
	for resolver, what := range map[string][2]string{"bundles": {"signed/theirs", "signed/good"}, "git": {"gitsign theirs", "gitsign good"}} {
		eventually(t, "the new root for "+resolver, func(context.Context) error {
			if c := resolve(resolver, what[0]).Status.Succeeded(); c.Status != metav1.ConditionTrue {
				return errors.New(c.Message)
			}
			return nil
		})
		wantFailure(t, resolve(resolver, what[1]), "VerificationFailed", "log")
	}
}

package git

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
	"sluice.dev/tools/gittest"
	"sluice.dev/tools/verifytest"
)

// Policies of the form commit hold for commits and annotated tags, by identities (gitsign) and by keys.
func TestCommitsThatPoliciesWantSigned(t *testing.T) {
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	mine, theirs := verifytest.New(t), verifytest.New(t)
	unsigned := []byte(gittest.Run(t, o.Dir, nil, "cat-file", "commit", "main") + "\n")
	write := func(name, kind string, object []byte) {
		ref := map[string]string{"commit": "refs/heads/", "tag": "refs/tags/"}[kind] + name
		gittest.Run(t, o.Dir, nil, "update-ref", ref, gittest.Run(t, o.Dir, bytes.NewReader(object), "hash-object", "-t", kind, "-w", "--stdin"))
	}
	sign := func(name string, s verifytest.Sigstore, c verifytest.CMS) {
		sig := strings.ReplaceAll(strings.TrimSpace(string(s.CMS(t, unsigned, c))), "\n", "\n ")
		write(name, "commit", bytes.Replace(unsigned, []byte("\n\n"), []byte("\ngpgsig "+sig+"\n\n"), 1))
	}
	sign("signed", mine, verifytest.CMS{})
	sign("stamped", mine, verifytest.CMS{NoLog: true, Stamp: true})
	sign("log-asked-later", mine, verifytest.CMS{NoLog: true})
	sign("other-subject", mine, verifytest.CMS{Signing: verifytest.Signing{Subject: "eve@example.com"}})
	sign("other-issuer", mine, verifytest.CMS{Signing: verifytest.Signing{Issuer: "https://evil.example"}})
	sign("other-sigstore", theirs, verifytest.CMS{})
	sign("other-content", mine, verifytest.CMS{Signed: []byte("another commit")})
	sign("late", mine, verifytest.CMS{Signing: verifytest.Signing{Late: 20 * time.Minute}})
	sign("twice", mine, verifytest.CMS{Twice: true})
	write("garbage", "commit", bytes.Replace(unsigned, []byte("\n\n"), []byte("\ngpgsig -----BEGIN SIGNED MESSAGE-----\n AAAA\n -----END SIGNED MESSAGE-----\n\n"), 1))
	tag := []byte("object " + gittest.Run(t, o.Dir, nil, "rev-parse", "main") + "\ntype commit\ntag signed-tag\ntagger joe <joe@example.com> 1700000000 +0000\n\nx\n")
	write("signed-tag", "tag", append(bytes.Clone(tag), mine.CMS(t, tag, verifytest.CMS{})...))

	policy := func(edit func(*verify.Policy)) *verify.Policies {
		in := verify.Policy{
			Name: "p", Form: verify.FormCommit, Patterns: []string{"http://.*/r"},
			Identities: []verify.Identity{{Issuer: verifytest.Issuer, Subject: verifytest.Subject}},
		}
		if edit != nil {
			edit(&in)
		}
		p, err := verify.New([]verify.Policy{in}, verify.Options{TrustedRoot: mine.TrustedRoot(t, verifytest.Parts{})})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	keyless := policy(nil)
	noLog := policy(func(p *verify.Policy) {
		p.Identities[0].TrustedRoot = mine.TrustedRoot(t, verifytest.Parts{NoLog: true})
	})
	keys := policy(func(p *verify.Policy) {
		p.Identities, p.Keys = nil, []verify.Key{{Name: "joe", PEM: "joe@example.com " + gittest.NewSSHKey(t).Public}}
	})
	warn := policy(func(p *verify.Policy) { p.Mode = verify.Warn })
	elsewhere := policy(func(p *verify.Policy) { p.Patterns = []string{"https://elsewhere.example/.*"} })
	for _, tt := range []struct {
		revision string
		policies *verify.Policies
		flaw     string // empty: it resolves
		signers  int
	}{
		{"signed", keyless, "", 1},
		{"signed-tag", keyless, "", 1},
		{"stamped", noLog, "", 1},
		{"stamped", keyless, "log", 0},
		{"main", keyless, "no signature", 0},
		{"main", elsewhere, "", 0},
		{"main", nil, "", 0},
		{"other-subject", keyless, "eve@example.com", 0},
		{"other-subject", warn, "", 0},
		{"signed", warn, "", 1},
		{"other-issuer", keyless, "https://evil.example", 0},
		{"other-sigstore", keyless, "log", 0},
		{"other-content", keyless, "not of this content", 0},
		{"late", keyless, "certificate validity", 0},
		{"twice", keyless, "exactly one signer", 0},
		{"log-asked-later", keyless, "rekorMode offline", 0},
		{"garbage", keyless, "cannot be read", 0},
		{"signed", keys, "by a certificate", 0},
	} {
		t.Run(tt.revision, func(t *testing.T) {
			g := newResolver(t, func(o *Options) { o.Policies = func() *verify.Policies { return tt.policies } })
			res, err := g.Resolve(t.Context(), ask(nil, "url", s.URL+"/r.git", "revision", tt.revision, "pathInRepo", "task.yaml"))
			if tt.flaw == "" {
				if err != nil || len(res.Signers) != tt.signers {
					t.Fatalf("%+v, %v; want %d signers", res, err, tt.signers)
				}
				if _, err := verify.Verify(t.Context(), tt.policies, res); err != nil {
					t.Error(err)
				}
				return
			}
			if e, ok := errors.AsType[*resolve.Error](err); !ok || e.Reason != resolve.ReasonVerification || !strings.Contains(err.Error(), tt.flaw) {
				t.Errorf("%v; want %q", err, tt.flaw)
			}
		})
	}
}

// The API of a provider does not prove that a file is part of a commit, so that a policy refuses it and says what to do.
func TestAPolicyForCommitsRefusesTheAPIByName(t *testing.T) {
	var asked atomic.Bool
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Store(true)
		_, _ = io.WriteString(w, "kind: Task\n")
	}))
	defer s.Close()
	for mode, refused := range map[verify.Mode]bool{verify.Enforce: true, verify.Warn: false} {
		p, err := verify.New([]verify.Policy{{
			Name: "p", Form: verify.FormCommit, Mode: mode, Patterns: []string{"https://127\\.0\\.0\\.1/o/r"},
			Keys: []verify.Key{{Name: "joe", PEM: "joe@example.com " + gittest.NewSSHKey(t).Public}},
		}}, verify.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for repo, refused := range map[string]bool{"r": refused, "other": false} {
			asked.Store(false)
			g := newResolver(t, func(o *Options) { o.Policies = func() *verify.Policies { return p } })
			_, err = g.Resolve(t.Context(), ask(nil, ":server-url", s.URL, ":ca-bundle", gittest.PEM(s.Certificate().Raw), ":scm-type", "gitea",
				"org", "o", "repo", repo, "pathInRepo", "x", "revision", commitID))
			e, _ := errors.AsType[*resolve.Error](err)
			if refused != (e != nil && e.Reason == resolve.ReasonVerification && strings.Contains(e.Msg, s.URL+"/o/r") && !asked.Load()) {
				t.Errorf("%s, %s: asked %t, %v", mode, repo, asked.Load(), err)
			}
			if !refused && err != nil {
				t.Errorf("%s, %s: %v", mode, repo, err)
			}
		}
	}
}

// What git itself signs by a key of SSH counts by policies too.
func TestCommitsThatGitSigns(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("git signs with ssh-keygen, which is not there")
	}
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	key, dir := gittest.NewSSHKey(t), t.TempDir()
	for name, text := range map[string][]byte{"key": key.PEM, "key.pub": []byte(key.Public + "\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree := gittest.Run(t, o.Dir, nil, "rev-parse", "main^{tree}")
	gittest.Run(t, o.Dir, nil, "update-ref", "refs/heads/signed",
		gittest.Run(t, o.Dir, nil, "-c", "gpg.format=ssh", "-c", "user.signingkey="+filepath.Join(dir, "key"), "commit-tree", "-S", "-m", "x", tree))
	for _, tt := range []struct {
		public string
		ok     bool
	}{{key.Public, true}, {gittest.NewSSHKey(t).Public, false}} {
		p, err := verify.New([]verify.Policy{{Name: "p", Form: verify.FormCommit, Patterns: []string{".*"}, Keys: []verify.Key{{PEM: "joe@example.com " + tt.public}}}}, verify.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g := newResolver(t, func(o *Options) { o.Policies = func() *verify.Policies { return p } })
		res, err := g.Resolve(t.Context(), ask(nil, "url", s.URL+"/r.git", "revision", "signed", "pathInRepo", "task.yaml"))
		if tt.ok {
			if err == nil {
				_, err = verify.Verify(t.Context(), p, res)
			}
			if err != nil {
				t.Error(err)
			}
		} else if e, ok := errors.AsType[*resolve.Error](err); !ok || e.Reason != resolve.ReasonVerification {
			t.Errorf("by another key: %v", err)
		}
	}
}

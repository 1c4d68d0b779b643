package git

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

func TestSignatures(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("git signs with ssh-keygen, which is not there")
	}
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	good, bad := gittest.NewSSHKey(t), gittest.NewSSHKey(t)
	keys := t.TempDir()
	for name, k := range map[string]gittest.SSHKey{"good": good, "bad": bad} {
		if err := os.WriteFile(filepath.Join(keys, name), k.PEM, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(keys, name+".pub"), []byte(k.Public+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sign := func(key string, args ...string) string {
		return gittest.Run(t, o.Dir, nil, append([]string{"-c", "gpg.format=ssh", "-c", "user.signingkey=" + filepath.Join(keys, key)}, args...)...)
	}
	tree := gittest.Run(t, o.Dir, nil, "rev-parse", "main^{tree}")
	branch := func(name, commit string) { gittest.Run(t, o.Dir, nil, "update-ref", "refs/heads/"+name, commit) }
	signed := sign("good", "commit-tree", "-S", "-m", "signed", tree)
	branch("signed", signed)
	branch("stranger", sign("bad", "commit-tree", "-S", "-m", "signed", tree))
	sign("good", "tag", "-s", "-m", "x", "signed-tag", "main")
	sign("bad", "tag", "-s", "-m", "x", "strangers-tag", "main")
	write := func(name string, object []byte) {
		branch(name, gittest.Run(t, o.Dir, bytes.NewReader(object), "hash-object", "-t", "commit", "-w", "--stdin"))
	}
	raw := []byte(gittest.Run(t, o.Dir, nil, "cat-file", "commit", signed) + "\n")
	write("changed", bytes.Replace(raw, []byte("\n\nsigned"), []byte("\n\nforged"), 1))
	twice := bytes.Replace(raw, []byte("gpgsig "), []byte("gpgsig -----BEGIN SSH SIGNATURE-----\n x\ngpgsig "), 1)
	write("twice", twice)
	write("in-the-message", append([]byte(gittest.Run(t, o.Dir, nil, "cat-file", "commit", "main")+"\n\n"), raw...))

	entity, err := openpgp.NewEntity("joe", "", "joe@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	unsigned := gittest.Run(t, o.Dir, nil, "cat-file", "commit", "main") + "\n"
	var sig, public bytes.Buffer
	if err := openpgp.ArmoredDetachSign(&sig, entity, strings.NewReader(unsigned), nil); err != nil {
		t.Fatal(err)
	}
	w, err := armor.Encode(&public, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := entity.Serialize(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(unsigned, "\n\n")
	withPGP := func(body string) []byte {
		return []byte(head + "\ngpgsig " + strings.ReplaceAll(strings.TrimSpace(sig.String()), "\n", "\n ") + "\n\n" + body)
	}
	write("pgp", withPGP(body))
	write("pgp-changed", withPGP(body+"more\n"))

	allowed := "# who may\njoe@example.com " + good.Public + "\n"
	pgp := public.String()
	for _, c := range []struct {
		revision, signers string
		ok                bool
	}{
		{"signed", allowed, true},
		{signed, allowed, true},
		{"signed", "* namespaces=\"git\" " + good.Public, true},
		{"signed", "* namespaces=\"file\" " + good.Public, false},
		{"signed", "* cert-authority " + good.Public, false},
		{"signed", pgp + allowed, true},
		{"signed", pgp, false},
		{"signed", "what is this", false},
		{"main", allowed, false},
		{"main", "", true},
		{"stranger", allowed, false},
		{"signed-tag", allowed, true},
		{"strangers-tag", allowed, false},
		{"changed", allowed, false},
		{"twice", allowed, false},
		{"in-the-message", allowed, false},
		{"pgp", allowed + pgp + "\n", true},
		{"pgp", allowed, false},
		{"pgp-changed", pgp, false},
	} {
		t.Run(c.revision, func(t *testing.T) {
			r := ask(nil, "url", s.URL+"/r.git", "revision", c.revision, "pathInRepo", "task.yaml", ":allowed-signers", c.signers)
			if c.ok {
				wantData(t, newResolver(t, nil), r, "kind: Task\n")
				return
			}
			wantReason(t, newResolver(t, nil), r, resolve.ReasonVerification)
		})
	}
	wantReason(t, newResolver(t, nil), ask(nil, "repo", "r", "org", "o", "pathInRepo", "x", ":allowed-signers", allowed), resolve.ReasonVerification)
}

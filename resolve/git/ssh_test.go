package git

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

func TestSSH(t *testing.T) {
	for _, takesEnv := range []bool{true, false} {
		s := gittest.NewSSHServer(t, takesEnv)
		o := gittest.NewOrigin(t, s.Root, "r.git", someFiles)
		first := gittest.Run(t, o.Dir, nil, "rev-parse", "main")
		g := newResolver(t, nil)
		sec := secrets{"ns/key": s.Secret()}
		url := "ssh://git@" + s.Address + "/r.git"
		r := ask(sec, "url", url, "pathInRepo", "task.yaml", "authSecret", "key", ":ref-ttl", "0s")
		got := wantData(t, g, r, "kind: Task\n")
		if got.Source.URI != "git+"+url || got.Source.Digest["sha1"] != first {
			t.Errorf("source %+v", got.Source)
		}
		wantData(t, g, ask(sec, "url", url, "pathInRepo", "dir/b.yaml", "authSecret", "key"), "b: 1")
		o.Commit("main", map[string]string{"task.yaml": "moved\n"})
		wantData(t, g, r, "moved\n")
		wantData(t, g, ask(sec, "url", url, "pathInRepo", "task.yaml", "authSecret", "key", "revision", first[:10]), "kind: Task\n")
		if n := s.Connections.Load(); n != 1 {
			t.Errorf("%d connections, want 1 for all", n)
		}
		wantReason(t, g, ask(sec, "url", "ssh://git@"+s.Address+"/none.git", "pathInRepo", "x", "authSecret", "key"), resolve.ReasonNotFound)
	}
}

// A server takes only so many requests through one connection; those that it refuses must not end those that it serves.
func TestSSHServersThatTakeFewSessionsServeAll(t *testing.T) {
	const branches = 12
	s := gittest.NewSSHServer(t, true)
	s.MaxSessions = 2
	var hold atomic.Bool
	served := make(chan struct{})
	s.Hold = func() {
		if hold.Load() {
			<-served
		}
	}
	o := gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	for i := range branches {
		o.Commit(fmt.Sprint("b", i), map[string]string{"task.yaml": fmt.Sprint("of ", i)})
	}
	g := newResolver(t, nil)
	branch := func(name string) *resolve.Request {
		return ask(secrets{"ns/key": s.Secret()}, "url", "ssh://git@"+s.Address+"/r.git", "pathInRepo", "task.yaml", "authSecret", "key", "revision", name)
	}
	wantData(t, g, branch("main"), "kind: Task\n")
	hold.Store(true)
	var asked sync.WaitGroup
	for i := range branches {
		asked.Go(func() {
			got, err := g.Resolve(deadline(t), branch(fmt.Sprint("b", i)))
			if err != nil {
				t.Errorf("b%d: %v", i, err)
			} else if string(got.Data) != fmt.Sprint("of ", i) {
				t.Errorf("b%d: %s", i, got.Data)
			}
		})
	}
	// Two are served by the first connection, which stays; the others come by their own.
	until(t, func() bool { return s.Connections.Load() >= 3 })
	close(served)
	asked.Wait()
	if n := s.Connections.Load(); n > 1+4*branches {
		t.Errorf("%d connections", n)
	}
}

func TestSSHTrustsNobodyUnknown(t *testing.T) {
	s := gittest.NewSSHServer(t, true)
	gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	g := newResolver(t, nil)
	stranger := gittest.NewSSHKey(t)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	encrypted := pem.EncodeToMemory(block)
	host, port, _ := net.SplitHostPort(s.Address)
	name := "[" + host + "]:" + port + " "
	for _, c := range []struct {
		name   string
		change func(map[string][]byte)
		text   string
	}{
		{"another host key", func(m map[string][]byte) { m["known_hosts"] = []byte(name + stranger.Public) }, "not the one"},
		{"no known_hosts", func(m map[string][]byte) { delete(m, "known_hosts") }, "has no key"},
		{"another host", func(m map[string][]byte) { m["known_hosts"] = []byte("example.com " + s.Host.Public) }, "has no key"},
		{"revoked", func(m map[string][]byte) {
			m["known_hosts"] = []byte(name + s.Host.Public + "\n@revoked * " + s.Host.Public)
		}, "revoked"},
		{"negated", func(m map[string][]byte) {
			m["known_hosts"] = []byte("*,![" + host + "]:" + port + " " + s.Host.Public)
		}, "has no key"},
		{"garbage", func(m map[string][]byte) { m["known_hosts"] = []byte("what is this") }, "cannot be read"},
		{"another user key", func(m map[string][]byte) { m["ssh-privatekey"] = stranger.PEM }, "refuses"},
		{"no key", func(m map[string][]byte) { delete(m, "ssh-privatekey") }, "no key ssh-privatekey"},
		{"an encrypted key", func(m map[string][]byte) { m["ssh-privatekey"] = encrypted }, "put its passphrase into the key passphrase"},
		{"an encrypted key with another passphrase", func(m map[string][]byte) { m["ssh-privatekey"], m["passphrase"] = encrypted, []byte("other") }, "cannot be decrypted"},
		{"a public key", func(m map[string][]byte) { m["ssh-privatekey"] = []byte(stranger.Public) }, "is a public key"},
		{"a bad key", func(m map[string][]byte) { m["ssh-privatekey"] = []byte("x") }, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := s.Secret()
			c.change(m)
			e := failure(t, g, ask(secrets{"ns/key": m}, "url", "ssh://git@"+s.Address+"/r.git", "pathInRepo", "task.yaml", "authSecret", "key"), resolve.ReasonDenied)
			if !strings.Contains(e.Msg, c.text) {
				t.Errorf("text %q does not say %q", e.Msg, c.text)
			}
		})
	}
	if n := s.Sessions.Load(); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

func TestAFaultOfAnSSHKeyIsNamed(t *testing.T) {
	plain := gittest.NewSSHKey(t).PEM
	block, _ := pem.Decode(plain)
	as := func(kind string, data []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}) }
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	// Another cipher of the same length.
	odd := as(sealed.Type, bytes.Replace(sealed.Bytes, []byte("aes256-ctr"), []byte("aes256-gcm"), 1))
	for _, c := range []struct {
		name            string
		key, passphrase []byte
		want            string
	}{
		{"PKCS#8", as("ENCRYPTED PRIVATE KEY", []byte{0x30, 0}), nil, "is encrypted as PKCS#8, which is not supported; ssh-keygen -p -f FILE"},
		{"PKCS#8, with the passphrase", as("ENCRYPTED PRIVATE KEY", []byte{0x30, 0}), []byte("x"), "is encrypted as PKCS#8"},
		{"another cipher", odd, []byte("secret"), "ssh-keygen -p -Z aes256-ctr"},
		{"another passphrase", pem.EncodeToMemory(sealed), []byte("x"), "cannot be decrypted with the passphrase"},
		{"a certificate", as("CERTIFICATE", []byte("x")), nil, `is no private key but a "CERTIFICATE"`},
		{"PuTTY", []byte("PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n"), nil, "puttygen"},
		{"twice encoded", []byte(base64.StdEncoding.EncodeToString(plain)), nil, "encoded by base64 twice"},
		{"line breaks as text", bytes.ReplaceAll(plain, []byte("\n"), []byte(`\n`)), nil, "line breaks"},
		{"one line", bytes.ReplaceAll(plain, []byte("\n"), []byte(" ")), nil, "line breaks"},
		{"cut", plain[:len(plain)-10], nil, "is not whole"},
		{"other bytes", as(block.Type, []byte("x")), nil, "cannot be read; a private key"},
	} {
		_, err := signerOf(sshCredential{key: c.key, passphrase: c.passphrase})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A connection that is there proves nothing: who was let in once may have lost the right since.
func TestARevokedSSHKeyReadsNothingMore(t *testing.T) {
	for _, takesEnv := range []bool{true, false} {
		t.Run(fmt.Sprintf("version 2: %t", takesEnv), func(t *testing.T) {
			s := gittest.NewSSHServer(t, takesEnv)
			o := gittest.NewOrigin(t, s.Root, "r.git", map[string]string{"task.yaml": "kind: Task\n"})
			commit := gittest.Run(t, o.Dir, nil, "rev-parse", "main")
			clock := &handClock{now: time.Now()}
			g := newResolver(t, func(o *Options) { o.Clock = clock })
			sec := secrets{"ns/key": s.Secret()}
			request := func(revision string) *resolve.Request {
				return ask(sec, "url", "ssh://git@"+s.Address+"/r.git", "revision", revision, "pathInRepo", "task.yaml", "authSecret", "key")
			}
			for _, revision := range []string{"main", commit} {
				wantData(t, g, request(revision), "kind: Task\n")
			}
			s.Revoked.Store(true)
			for range 8 {
				// The connection does not come to rest.
				clock.add(10 * time.Second)
				for _, revision := range []string{"main", commit} {
					_, _ = g.Resolve(deadline(t), request(revision))
				}
			}
			for _, revision := range []string{"main", commit} {
				wantReason(t, g, request(revision), resolve.ReasonDenied)
				r := request(revision)
				r.NotBefore = clock.Now()
				wantReason(t, g, r, resolve.ReasonDenied)
			}
		})
	}
}

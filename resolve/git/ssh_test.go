package git

import (
	"crypto/ed25519"
	"crypto/rand"
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
		{"a public key", func(m map[string][]byte) { m["ssh-privatekey"] = []byte(stranger.Public) }, "holds a public key"},
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

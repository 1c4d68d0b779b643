package git

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/pem"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"sluice.dev/resolve"
)

// sshKey is a key pair, as a private key's file and as a line of known_hosts without the host.
type sshKey struct {
	signer ssh.Signer
	pem    []byte
	public string
}

func newSSHKey(t testing.TB) sshKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return sshKey{signer, pem.EncodeToMemory(block), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))}
}

// sshServer serves the repositories below a folder by SSH.
type sshServer struct {
	root, address string
	host, user    sshKey
	// takesEnv: it takes the variable that asks for version 2.
	takesEnv              bool
	connections, sessions atomic.Int64
}

func newSSHServer(t testing.TB, takesEnv bool) *sshServer {
	t.Helper()
	s := &sshServer{root: t.TempDir(), host: newSSHKey(t), user: newSSHKey(t), takesEnv: takesEnv}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s.address = l.Addr().String()
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(s.user.signer.PublicKey().Marshal()) {
			return nil, os.ErrPermission
		}
		return nil, nil
	}}
	config.AddHostKey(s.host.signer)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.connections.Add(1)
			go s.serve(conn, config)
		}
	}()
	return s
}

func (s *sshServer) serve(conn net.Conn, config *ssh.ServerConfig) {
	defer func() { _ = conn.Close() }()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		s.sessions.Add(1)
		go s.session(channel, requests)
	}
}

func (s *sshServer) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	var env []string
	for r := range requests {
		switch {
		case r.Type == "env" && s.takesEnv:
			env = append(env, "GIT_PROTOCOL=version=2")
			_ = r.Reply(true, nil)
		case r.Type == "exec":
			_ = r.Reply(true, nil)
			line := string(r.Payload[4:])
			go func() {
				defer func() { _ = channel.Close() }()
				cmd := exec.Command("git-upload-pack", filepath.Join(s.root, strings.Trim(strings.TrimPrefix(line, "git-upload-pack "), "'")))
				cmd.Env = append(env, "PATH="+os.Getenv("PATH"))
				cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
				code := 0
				stdin, err := cmd.StdinPipe()
				if err == nil {
					go func() {
						_, _ = io.Copy(stdin, channel)
						_ = stdin.Close()
					}()
					err = cmd.Run()
				}
				if err != nil {
					code = 1
				}
				_, _ = channel.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, uint32(code)))
			}()
		default:
			_ = r.Reply(false, nil)
		}
	}
}

func (s *sshServer) secret() map[string][]byte {
	host, port, _ := net.SplitHostPort(s.address)
	return map[string][]byte{"ssh-privatekey": s.user.pem, "known_hosts": []byte("# hosts\n[" + host + "]:" + port + " " + s.host.public + "\n")}
}

func TestSSH(t *testing.T) {
	for _, takesEnv := range []bool{true, false} {
		s := newSSHServer(t, takesEnv)
		o := newOrigin(t, s.root, "r.git", someFiles)
		first := runGit(t, o.dir, nil, "rev-parse", "main")
		g := newResolver(t, nil)
		sec := secrets{"ns/key": s.secret()}
		url := "ssh://git@" + s.address + "/r.git"
		r := ask(sec, "url", url, "pathInRepo", "task.yaml", "authSecret", "key", ":ref-ttl", "0s")
		got := wantData(t, g, r, "kind: Task\n")
		if got.Source.URI != "git+"+url || got.Source.Digest["sha1"] != first {
			t.Errorf("source %+v", got.Source)
		}
		wantData(t, g, ask(sec, "url", url, "pathInRepo", "dir/b.yaml", "authSecret", "key"), "b: 1")
		o.commit("main", map[string]string{"task.yaml": "moved\n"})
		wantData(t, g, r, "moved\n")
		wantData(t, g, ask(sec, "url", url, "pathInRepo", "task.yaml", "authSecret", "key", "revision", first[:10]), "kind: Task\n")
		if n := s.connections.Load(); n != 1 {
			t.Errorf("%d connections, want 1 for all", n)
		}
		wantReason(t, g, ask(sec, "url", "ssh://git@"+s.address+"/none.git", "pathInRepo", "x", "authSecret", "key"), resolve.ReasonNotFound)
	}
}

func TestSSHTrustsNobodyUnknown(t *testing.T) {
	s := newSSHServer(t, true)
	newOrigin(t, s.root, "r.git", someFiles)
	g := newResolver(t, nil)
	stranger := newSSHKey(t)
	host, port, _ := net.SplitHostPort(s.address)
	name := "[" + host + "]:" + port + " "
	for _, c := range []struct {
		name   string
		change func(map[string][]byte)
		text   string
	}{
		{"another host key", func(m map[string][]byte) { m["known_hosts"] = []byte(name + stranger.public) }, "not the one"},
		{"no known_hosts", func(m map[string][]byte) { delete(m, "known_hosts") }, "has no key"},
		{"another host", func(m map[string][]byte) { m["known_hosts"] = []byte("example.com " + s.host.public) }, "has no key"},
		{"revoked", func(m map[string][]byte) {
			m["known_hosts"] = []byte(name + s.host.public + "\n@revoked * " + s.host.public)
		}, "revoked"},
		{"negated", func(m map[string][]byte) {
			m["known_hosts"] = []byte("*,![" + host + "]:" + port + " " + s.host.public)
		}, "has no key"},
		{"garbage", func(m map[string][]byte) { m["known_hosts"] = []byte("what is this") }, "cannot be read"},
		{"another user key", func(m map[string][]byte) { m["ssh-privatekey"] = stranger.pem }, "refuses"},
		{"no key", func(m map[string][]byte) { delete(m, "ssh-privatekey") }, "no key ssh-privatekey"},
		{"a bad key", func(m map[string][]byte) { m["ssh-privatekey"] = []byte("x") }, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := s.secret()
			c.change(m)
			e := failure(t, g, ask(secrets{"ns/key": m}, "url", "ssh://git@"+s.address+"/r.git", "pathInRepo", "task.yaml", "authSecret", "key"), resolve.ReasonDenied)
			if !strings.Contains(e.Msg, c.text) {
				t.Errorf("text %q does not say %q", e.Msg, c.text)
			}
		})
	}
	if n := s.sessions.Load(); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

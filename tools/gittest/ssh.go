package gittest

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
)

// SSHKey is a key pair.
type SSHKey struct {
	Signer ssh.Signer
	// PEM is the private key in the format of a file. Public is the key in the format of known_hosts or authorized_keys, without
	// the other fields of the line.
	PEM    []byte
	Public string
}

// NewSSHKey makes a key.
func NewSSHKey(t testing.TB) SSHKey {
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
	return SSHKey{signer, pem.EncodeToMemory(block), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))}
}

// SSHServer serves the repositories below a folder by SSH.
type SSHServer struct {
	// Root is the folder, Address host:port.
	Root, Address string
	// Host is the key of the server, User the key that it accepts.
	Host, User SSHKey
	// Connections counts accepted connections, Sessions accepted sessions.
	Connections, Sessions atomic.Int64
	// MaxSessions bounds the sessions of a connection at once; 0 sets no bound. Set it before the first connection.
	MaxSessions int
	// Hold, if set, is called before each answer, which begins when it returns. Set it before the first connection.
	Hold func()

	// Revoked: the server lets nobody in any more; connections that are there stay.
	Revoked atomic.Bool

	takesEnv bool
}

// NewSSHServer starts a server that ends with the test. Without takesEnv it refuses the variable that asks for version 2 of the
// protocol.
// Servers such as OpenSSH refuse variables unless they are told to take them, so both cases are real.
func NewSSHServer(t testing.TB, takesEnv bool) *SSHServer {
	t.Helper()
	s := &SSHServer{Root: t.TempDir(), Host: NewSSHKey(t), User: NewSSHKey(t), takesEnv: takesEnv}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it ends with the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s.Address = l.Addr().String()
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if s.Revoked.Load() || string(key.Marshal()) != string(s.User.Signer.PublicKey().Marshal()) {
			return nil, os.ErrPermission
		}
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(s.Host.Signer)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.Connections.Add(1)
			go s.serveConn(conn, config)
		}
	}()
	return s
}

// serveConn serves one connection, with sessions beside each other. A session beyond the bound is refused
// as OpenSSH refuses it (MaxSessions).
func (s *SSHServer) serveConn(conn net.Conn, config *ssh.ServerConfig) {
	defer func() { _ = conn.Close() }()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	var open atomic.Int64
	for c := range channels {
		if s.MaxSessions > 0 && open.Load() >= int64(s.MaxSessions) {
			_ = c.Reject(ssh.ResourceShortage, "too many sessions")
			continue
		}
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		s.Sessions.Add(1)
		open.Add(1)
		go func() {
			defer open.Add(-1)
			s.serveSession(channel, requests)
		}()
	}
}

// serveSession waits for the command of a session. Requests of other types, such as for a terminal, are
// refused.
func (s *SSHServer) serveSession(channel ssh.Channel, requests <-chan *ssh.Request) {
	var env []string
	for r := range requests {
		switch {
		case r.Type == "env" && s.takesEnv:
			env = append(env, "GIT_PROTOCOL=version=2")
			_ = r.Reply(true, nil)
		case r.Type == "exec":
			_ = r.Reply(true, nil)
			go s.runUploadPack(channel, string(r.Payload[4:]), env)
		default:
			_ = r.Reply(false, nil)
		}
	}
}

// runUploadPack runs git-upload-pack as the command line asks.
// Only this command is run, on a repository below the root. The exit code goes to the client.
func (s *SSHServer) runUploadPack(channel ssh.Channel, line string, env []string) {
	defer func() { _ = channel.Close() }()
	if s.Hold != nil {
		s.Hold()
	}
	repository := strings.Trim(strings.TrimPrefix(line, "git-upload-pack "), "'")
	cmd := exec.Command("git-upload-pack", filepath.Join(s.Root, repository)) //nolint:gosec,noctx // a test's own folder
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	stdin, err := cmd.StdinPipe()
	if err == nil {
		go func() {
			_, _ = io.Copy(stdin, channel)
			_ = stdin.Close()
		}()
		err = cmd.Run()
	}
	code := uint32(0)
	if err != nil {
		code = 1
	}
	_, _ = channel.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, code))
}

// Secret is the data of a Secret that opens the server.
// The keys are those that Kubernetes' type kubernetes.io/ssh-auth has, and known_hosts besides.
func (s *SSHServer) Secret() map[string][]byte {
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil
	}
	return map[string][]byte{"ssh-privatekey": s.User.PEM, "known_hosts": []byte("# hosts\n[" + host + "]:" + port + " " + s.Host.Public + "\n")}
}

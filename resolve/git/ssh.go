package git

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // known_hosts hides names by HMAC with SHA-1, which needs no collision resistance
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"sluice.dev/internal/brief"
	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
)

// sshCredential is a login by SSH.
type sshCredential struct {
	key, passphrase []byte
	password        string
	knownHosts      []byte
}

// sshRemote runs git-upload-pack through SSH. One connection serves many requests, and is closed when it is idle.
type sshRemote struct {
	repo  repository
	guard *netguard.Guard
	cred  sshCredential
	now   func() time.Time
	// slots bounds the requests that run at once.
	slots chan struct{}

	mu   sync.Mutex
	conn *sshConn
}

// sshConn is a connection that is up. Its fields are its remote's, under its lock.
type sshConn struct {
	*ssh.Client

	// since is the time of the login.
	since time.Time
	users int
	idle  *time.Timer
}

const (
	sshIdle = 30 * time.Second
	// sshSessions bounds the requests that run at once through one connection. OpenSSH's own limit is 10 (sshd_config,
	// MaxSessions).
	sshSessions = 8
)

func newSSHRemote(repo repository, guard *netguard.Guard, cred sshCredential, now func() time.Time) *sshRemote {
	return &sshRemote{repo: repo, guard: guard, cred: cred, now: now, slots: make(chan struct{}, sshSessions)}
}

// forgetRedirects implements [remote]; SSH has no redirects.
func (s *sshRemote) forgetRedirects() {}

func (s *sshRemote) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropConnection()
}

// dropConnection closes the connection, if there is one. The caller holds the lock.
func (s *sshRemote) dropConnection() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// credentialCheckedAt is the time of the last login, which serves many requests; zero if there is none.
func (s *sshRemote) credentialCheckedAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return time.Time{}
	}
	return s.conn.since
}

// recheckCredential makes the server check the credential again with the next request. A connection that is in use ends with its last
// user.
func (s *sshRemote) recheckCredential() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && s.conn.users > 0 {
		s.conn = nil
	}
	s.dropConnection()
}

// acquireConnection returns a connection that is up, and must be given back. apart: it is a new one, which nobody else uses.
func (s *sshRemote) acquireConnection(ctx context.Context, apart bool) (*sshConn, error) {
	s.mu.Lock()
	if s.conn != nil && !apart {
		defer s.mu.Unlock()
		return s.useConnection(), nil
	}
	s.mu.Unlock()
	since := s.now()
	c, err := s.handshake(ctx)
	if err != nil {
		return nil, err
	}
	fresh := &sshConn{Client: c, since: since}
	if apart {
		fresh.users = 1
		return fresh, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_ = c.Close()
	} else {
		s.conn = fresh
	}
	return s.useConnection(), nil
}

// useConnection counts one more user of the connection. The caller holds the lock.
func (s *sshRemote) useConnection() *sshConn {
	s.conn.users++
	if s.conn.idle != nil {
		s.conn.idle.Stop()
	}
	return s.conn
}

// releaseConnection gives a connection back. One that is broken closes at once, and one that is not the remote's any more with its
// last user. The other stays for a while.
func (s *sshRemote) releaseConnection(c *sshConn, broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.users--
	switch {
	case broken && s.conn == c:
		s.dropConnection()
	case broken, c.users == 0 && s.conn != c:
		_ = c.Close()
	case c.users == 0:
		c.idle = time.AfterFunc(sshIdle, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.conn == c && c.users == 0 {
				s.dropConnection()
			}
		})
	}
}

// signerOf returns the private key of a Secret.
func signerOf(c sshCredential) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(c.key)
	_, encrypted := errors.AsType[*ssh.PassphraseMissingError](err)
	switch {
	case err == nil:
		return signer, nil
	case encrypted && len(c.passphrase) == 0:
		return nil, errors.New("the SSH private key in the Secret is encrypted; put its passphrase into the key passphrase of the Secret")
	case encrypted:
		signer, err = ssh.ParsePrivateKeyWithPassphrase(c.key, c.passphrase)
		switch {
		case errors.Is(err, x509.IncorrectPasswordError):
			return nil, errors.New("the SSH private key in the Secret cannot be decrypted with the passphrase in the Secret")
		case err != nil:
			return nil, errors.New("the SSH private key in the Secret is encrypted in a way that is not supported; ssh-keygen -p -Z aes256-ctr -f FILE encrypts it in another one")
		}
		return signer, nil
	}
	return nil, fmt.Errorf("the SSH private key in the Secret %s", faultOfKey(c.key))
}

// faultOfKey says what is wrong with a text that is no private key for SSH, and what to do.
func faultOfKey(key []byte) string {
	block, _ := pem.Decode(key)
	_, _, _, _, notPublic := ssh.ParseAuthorizedKey(key)
	decoded, notEncoded := base64.StdEncoding.DecodeString(string(key))
	switch {
	case block != nil && block.Type == "ENCRYPTED PRIVATE KEY":
		return "is encrypted as PKCS#8, which is not supported; ssh-keygen -p -f FILE writes it in OpenSSH's form, with the passphrase then in the key passphrase of the Secret, and openssl pkey -in FILE prints it without encryption"
	case block != nil && !strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return fmt.Sprintf("is no private key but a %q", brief.Clip(block.Type, 40))
	case notPublic == nil:
		return "is a public key; ssh-privatekey has to hold the private one"
	case bytes.HasPrefix(key, []byte("PuTTY-User-Key-File")):
		return "has PuTTY's form; puttygen FILE -O private-openssh -o NEW writes it in OpenSSH's form"
	case notEncoded == nil && bytes.Contains(decoded, []byte("-----BEGIN ")):
		return "is encoded by base64 twice; put it into stringData, or encode it once for data"
	case bytes.Contains(key, []byte("-----BEGIN ")) && block == nil:
		return "is not whole; it needs each of its lines, up to the one with END, with line breaks between them"
	}
	return "cannot be read; a private key in OpenSSH's form or in PEM is wanted"
}

// handshake connects and logs in. It asks for the algorithms of known keys only: a server that prefers another key of its own would
// look like an impostor.
func (s *sshRemote) handshake(ctx context.Context) (*ssh.Client, error) {
	where := s.repo.canonicalName()
	config := &ssh.ClientConfig{User: s.repo.user, ClientVersion: "SSH-2.0-sluice"}
	config.User = cmp.Or(config.User, "git")
	if len(s.cred.key) > 0 {
		signer, err := signerOf(s.cred)
		if err != nil {
			return nil, resolve.Errorf(resolve.ReasonDenied, "%s: %w", where, err)
		}
		config.Auth = append(config.Auth, ssh.PublicKeys(signer))
	}
	if s.cred.password != "" {
		config.Auth = append(config.Auth, ssh.Password(s.cred.password))
	}
	hosts, err := parseKnownHosts(s.cred.knownHosts)
	if err != nil {
		return nil, err
	}
	name := knownHostName(s.repo.host, s.repo.port)
	config.HostKeyAlgorithms = hosts.algorithmsFor(name)
	if len(config.HostKeyAlgorithms) == 0 {
		return nil, resolve.Errorf(resolve.ReasonDenied, "%s: known_hosts has no key for %s; add the line that ssh-keyscan prints, after checking it", where, name)
	}
	config.HostKeyCallback = func(_ string, _ net.Addr, key ssh.PublicKey) error { return hosts.checkHostKey(where, name, key) }

	conn, err := s.guard.DialContext(ctx, "tcp", net.JoinHostPort(s.repo.host, s.repo.port))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, chans, reqs, err := ssh.NewClientConn(conn, s.repo.host, config)
	if !stop() && ctx.Err() != nil {
		_ = conn.Close()
		return nil, ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		if wrongKey, ok := errors.AsType[*resolve.Error](err); ok {
			return nil, wrongKey
		}
		if strings.Contains(err.Error(), "unable to authenticate") {
			return nil, resolve.Errorf(resolve.ReasonDenied, "%s: the server refuses the SSH key or password, or none was given", where)
		}
		return nil, err
	}
	return ssh.NewClient(c, chans, reqs), nil
}

// sshUpload is an upload with the rest of its session.
type sshUpload struct {
	upload
	session *ssh.Session
	stderr  *boundedBuffer
}

func (s *sshRemote) exchange(ctx context.Context, body []byte, _ bool) (io.ReadCloser, error) {
	return exchangeUpload(ctx, body, s.startUpload)
}

// startUpload runs git-upload-pack, and waits for the first byte.
func (s *sshRemote) startUpload(ctx context.Context) (*upload, error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	u, err := s.beginUpload(ctx)
	if err != nil {
		<-s.slots
		return nil, err
	}
	end := u.finish
	u.finish = sync.OnceFunc(func() {
		end()
		<-s.slots
	})
	return u.awaitFirstByte()
}

// beginUpload runs git-upload-pack through the existing connection, a new one, or one of its own.
func (s *sshRemote) beginUpload(ctx context.Context) (*sshUpload, error) {
	apart := false
	for attempt := 0; ; attempt++ {
		client, err := s.acquireConnection(ctx, apart)
		if err != nil {
			return nil, err
		}
		// A request to a hanging server ends only with its connection.
		stop := context.AfterFunc(ctx, func() { _ = client.Close() })
		u, err := s.openUpload(client.Client)
		if err == nil {
			u.finish = func() {
				_ = u.session.Close()
				canceled := !stop()
				s.releaseConnection(client, canceled)
			}
			return u, nil
		}
		stop()
		_, full := errors.AsType[*ssh.OpenChannelError](err)
		s.releaseConnection(client, !full)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case full && !apart:
			// The connection works and others may be using it. The server accepts no more sessions on it.
			apart = true
		case apart || attempt > 0:
			return nil, err
		default: // the connection may have been closed while it was idle
		}
	}
}

// openUpload starts git-upload-pack in a session of a connection. It does not wait for the answer.
func (s *sshRemote) openUpload(client *ssh.Client) (*sshUpload, error) {
	session, err := client.NewSession()
	if err != nil {
		return nil, err
	}
	u := &sshUpload{session: session, stderr: &boundedBuffer{left: 4096}}
	session.Stderr = u.stderr
	// A server that refuses the variable answers in version 0, which works as well.
	_ = session.Setenv("GIT_PROTOCOL", "version=2")
	if u.stdin, err = session.StdinPipe(); err == nil {
		if u.Reader, err = session.StdoutPipe(); err == nil {
			// Addresses with quotes in their path were refused earlier.
			err = session.Start("git-upload-pack '" + s.repo.path + "'")
		}
	}
	if err != nil {
		_ = session.Close()
		return nil, err
	}
	return u, nil
}

// awaitFirstByte waits for the first byte. If none comes, it returns the server's standard error.
func (u *sshUpload) awaitFirstByte() (*upload, error) {
	var first [1]byte
	if _, err := io.ReadFull(u.Reader, first[:]); err != nil {
		// Standard error is complete when the command has ended.
		_ = u.session.Wait()
		_ = u.Close()
		if text := u.stderr.Bytes(); len(text) > 0 {
			if bytes.Contains(bytes.ToLower(text), []byte("not")) && bytes.Contains(bytes.ToLower(text), []byte("repository")) {
				return nil, &statusError{code: 404}
			}
			return nil, newRemoteError(text)
		}
		return nil, noEOF(err)
	}
	u.Reader = io.MultiReader(bytes.NewReader(first[:]), u.Reader)
	return &u.upload, nil
}

// boundedBuffer keeps the beginning of the data that is written to it.
type boundedBuffer struct {
	mu   sync.Mutex
	buf  []byte
	left int
}

// Write takes all that is written, also what it does not keep: a command must not fail because it says too much.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(p), b.left)
	b.buf, b.left = append(b.buf, p[:n]...), b.left-n
	return len(p), nil
}

func (b *boundedBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.buf)
}

// knownHosts are the lines of a known_hosts file, see sshd(8).
type knownHosts []knownHost

type knownHost struct {
	revoked  bool
	patterns []string
	key      ssh.PublicKey
}

// parseKnownHosts reads the lines of a file. A line that cannot be read is an error, since it may be the one that revokes a key. Lines
// about certificate authorities count for nothing: host certificates are not supported.
func parseKnownHosts(file []byte) (knownHosts, error) {
	var hosts knownHosts
	if len(file) > 1<<20 {
		return nil, resolve.Errorf(resolve.ReasonDenied, "known_hosts is larger than 1 MiB")
	}
	for rest := file; ; {
		marker, patterns, key, _, next, err := ssh.ParseKnownHosts(rest)
		if errors.Is(err, io.EOF) {
			return hosts, nil
		}
		if err != nil {
			return nil, resolve.Errorf(resolve.ReasonDenied, "known_hosts cannot be read: a line is not host, type and key")
		}
		rest = next
		if marker == "cert-authority" {
			continue
		}
		hosts = append(hosts, knownHost{marker == "revoked", patterns, key})
	}
}

// knownHostName is the name of a host in known_hosts, which has the port only if it is not that of SSH (sshd(8)).
func knownHostName(host, port string) string {
	if port == "22" {
		return host
	}
	return "[" + host + "]:" + port
}

// matchesName compares a name with the patterns of a line, as sshd(8) says: hashed, with wildcards, or negated. A negated pattern that
// matches decides.
func (h knownHost) matchesName(name string) bool {
	matched := false
	for _, p := range h.patterns {
		if hash, ok := strings.CutPrefix(p, "|1|"); ok {
			salt64, sum64, _ := strings.Cut(hash, "|")
			salt, err1 := base64.StdEncoding.DecodeString(salt64)
			sum, err2 := base64.StdEncoding.DecodeString(sum64)
			mac := hmac.New(sha1.New, salt)
			mac.Write([]byte(name))
			matched = matched || (err1 == nil && err2 == nil && hmac.Equal(mac.Sum(nil), sum))
			continue
		}
		negated := strings.HasPrefix(p, "!")
		p = strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(p, "!"), "[", "\\["), "]", "\\]")
		if ok, err := path.Match(strings.ToLower(p), name); ok && err == nil {
			if negated {
				return false
			}
			matched = true
		}
	}
	return matched
}

// algorithmsFor lists the algorithms of the known keys of a host. Asking for others would be useless.
func (hosts knownHosts) algorithmsFor(name string) []string {
	var out []string
	for _, h := range hosts {
		if h.revoked || !h.matchesName(name) {
			continue
		}
		types := []string{h.key.Type()}
		if h.key.Type() == ssh.KeyAlgoRSA {
			types = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, t := range types {
			if !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// checkHostKey refuses a key that is not one of the host's, or that is revoked. where names the repository in the error.
func (hosts knownHosts) checkHostKey(where, name string, key ssh.PublicKey) error {
	known := false
	for _, h := range hosts {
		if !bytes.Equal(h.key.Marshal(), key.Marshal()) {
			continue
		}
		if h.revoked {
			return resolve.Errorf(resolve.ReasonDenied, "%s: known_hosts says that the key of %s is revoked", where, name)
		}
		known = known || h.matchesName(name)
	}
	if !known {
		return resolve.Errorf(resolve.ReasonDenied, "%s: the server's key is not the one that known_hosts has for %s", where, name)
	}
	return nil
}

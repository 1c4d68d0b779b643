package git

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"strings"

	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
)

// A credential comes from a Secret that the request names, in its namespace, or from the operator's Secret, which only goes to the
// hosts that the configuration lists. If the request names none and the host is not listed, the request is anonymous, which SSH does
// not allow.

// credential is the login of a request; the zero value is an anonymous one.
type credential struct {
	authorization string
	ssh           sshCredential
}

// identityParts distinguishes credentials. It is a secret itself.
func (c credential) identityParts() []string {
	return []string{c.authorization, string(c.ssh.key), c.ssh.password, string(c.ssh.knownHosts)}
}

// isSet reports whether the credential is not anonymous.
func (c credential) isSet() bool {
	return c.authorization != "" || len(c.ssh.key) > 0 || c.ssh.password != ""
}

// secretValue reads one key of a Secret.
func secretValue(ctx context.Context, r *resolve.Request, namespace, name, key, host string) (string, error) {
	data, err := readSecretFor(ctx, r, namespace, name, host)
	if err != nil {
		return "", err
	}
	v, ok := data[key]
	token := strings.TrimSpace(string(v))
	if !ok || token == "" {
		return "", resolve.Errorf(resolve.ReasonDenied, "the Secret %s in namespace %s has no key %q", name, namespace, key)
	}
	if hasControl(token) {
		return "", resolve.Errorf(resolve.ReasonDenied, "the key %q of the Secret %s in namespace %s holds more than one line", key, name, namespace)
	}
	return token, nil
}

// readSecretFor reads a Secret to send it to a host. For a Secret that the operator has chosen, host is empty: its hosts are known.
func readSecretFor(ctx context.Context, r *resolve.Request, namespace, name, host string) (map[string][]byte, error) {
	if r.Secrets == nil {
		return nil, resolve.Errorf(resolve.ReasonDenied, "the Secret %s is needed, and there are no Secrets to be had here", name)
	}
	if host == "" {
		return r.Secrets.Secret(ctx, namespace, name)
	}
	return r.SecretFor(ctx, namespace, name, host)
}

func basicAuthHeader(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// cloneCredential returns the login for a repository: the credential that the request names, or else the operator's for this very
// host.
func cloneCredential(ctx context.Context, r *resolve.Request, s settings, repo repository) (credential, error) {
	var cred credential
	namespace, name, host := r.Namespace, r.Get("authSecret"), hostAndPort(repo)
	switch {
	case repo.scheme == "git" && r.Get("gitToken")+name != "":
		return cred, resolve.Errorf(resolve.ReasonInvalid, "url: the protocol of git:// knows no credentials; use https or ssh")
	case r.Get("gitToken") != "":
		if repo.scheme == "ssh" {
			return cred, resolve.Errorf(resolve.ReasonInvalid, "gitToken: it is for https; for ssh name a Secret with ssh-privatekey and known_hosts in authSecret")
		}
		token, err := secretValue(ctx, r, r.Namespace, r.Get("gitToken"), cmp.Or(r.Get("gitTokenKey"), "token"), host)
		if err != nil {
			return cred, err
		}
		cred.authorization = basicAuthHeader(cmp.Or(repo.user, "git"), token)
		return cred, checkPlain(s, repo)
	case name == "" && repo.scheme != "git" && s.Config[keyAuthSecret] != "" && hostIn(s.Config[keyHosts], repo.hostNames()...):
		namespace, name, host = cmp.Or(s.Config[keyAuthSecretNS], "default"), s.Config[keyAuthSecret], ""
	}
	if name == "" {
		cred.ssh.knownHosts = []byte(s.Config[keyKnownHosts])
		if repo.scheme == "ssh" {
			return cred, resolve.Errorf(resolve.ReasonDenied, "%s: SSH needs a key; name a Secret with ssh-privatekey and known_hosts in authSecret", repo.canonicalName())
		}
		return credential{}, nil
	}
	data, err := readSecretFor(ctx, r, namespace, name, host)
	if err != nil {
		return cred, err
	}
	if repo.scheme == "ssh" {
		cred.ssh = sshCredential{
			key: data["ssh-privatekey"], passphrase: bytes.TrimRight(data["passphrase"], "\r\n"), password: string(data["password"]), knownHosts: data["known_hosts"],
		}
		if len(cred.ssh.key) == 0 {
			cred.ssh.key = data["identity"]
		}
		if len(cred.ssh.knownHosts) == 0 {
			cred.ssh.knownHosts = []byte(s.Config[keyKnownHosts])
		}
		if len(cred.ssh.key) == 0 && cred.ssh.password == "" {
			return cred, resolve.Errorf(resolve.ReasonDenied, "the Secret %s in namespace %s has no key ssh-privatekey", name, namespace)
		}
		return cred, nil
	}
	trimmed := func(key string) string { return strings.TrimSpace(string(data[key])) }
	user, password := trimmed("username"), cmp.Or(trimmed("password"), trimmed("token"))
	if password == "" {
		return cred, resolve.Errorf(resolve.ReasonDenied, "the Secret %s in namespace %s has neither the key password nor token", name, namespace)
	}
	cred.authorization = basicAuthHeader(cmp.Or(user, repo.user, "git"), password)
	return cred, checkPlain(s, repo)
}

// checkPlain refuses to send credentials over connections without encryption.
func checkPlain(s settings, repo repository) error {
	if repo.scheme == "http" && s.Config[KeyPlain] != "true" {
		return resolve.Errorf(resolve.ReasonForbidden, "url: a credential is not sent over http without TLS; use https")
	}
	return nil
}

// hostNames returns the names by which the configuration may list the host, among them the one by which policies know it.
func (r repository) hostNames() []string {
	return []string{hostAndPort(r), r.host + ":" + r.port, verify.ServerOf(r.host)}
}

// hostAndPort returns the host as in the configuration: with a port only if it is not the scheme's own.
func hostAndPort(repo repository) string {
	if repo.port == defaultPorts[repo.scheme] {
		return repo.host
	}
	return repo.host + ":" + repo.port
}

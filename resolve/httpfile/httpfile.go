// Package httpfile fetches a file from a web server. Package netguard limits addresses, redirects and sizes. Plain http is only for
// content with a digest, unless the operator allows it. The package does not look into the file.
package httpfile

import (
	"context"
	"crypto"
	_ "crypto/sha256" // crypto.Hash.New needs both linked in
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
)

// Names of parameters and of a key.
const (
	ParamURL         = "url"
	ParamUsername    = "http-username"
	ParamPassword    = "http-password-secret"
	ParamPasswordKey = "http-password-secret-key"
	ParamToken       = "http-token-secret"     //nolint:gosec // the name of a parameter
	ParamTokenKey    = "http-token-secret-key" //nolint:gosec // the name of a parameter
	ParamDigest      = "digest"
	KeyPlain         = "allow-plain-http"
)

// Resolver is the resolver http.
type Resolver struct{ guards *netguard.Pool }

// New returns the resolver. The options are what the process allows in addition to the ConfigMap.
func New(o netguard.Options) *Resolver { return &Resolver{guards: netguard.NewPool(o)} }

// Close closes idle connections.
func (h *Resolver) Close() { h.guards.Close() }

// Spec implements [resolve.Resolver].
func (*Resolver) Spec() resolve.Spec {
	return resolve.Spec{
		Name: "http", Doc: "Fetches a file from a web server.", ConfigMap: "http-resolver-config",
		Config: append(netguard.Keys(false, false), resolve.Key{
			Name: KeyPlain, Default: "false", Check: resolve.CheckBool, Doc: "Whether http is allowed in addition to https, without a digest.",
		}, resolve.SecretHostsKey()),
		Params: []resolve.Param{
			{Name: ParamURL, Required: true, MaxLength: 2048, Check: checkURL, Doc: "The address of the file."},
			{Name: ParamUsername, MaxLength: 256, Check: checkUser, Doc: "The user name for basic authentication."},
			{Name: ParamPassword, MaxLength: 253, Doc: "The Secret in the namespace of the request that has the password."},
			{Name: ParamPasswordKey, Default: "password", MaxLength: 253, Doc: "The key in that Secret."},
			{Name: ParamToken, MaxLength: 253, Doc: "The Secret in the namespace of the request that has a bearer token."},
			{Name: ParamTokenKey, Default: "token", MaxLength: 253, Doc: "The key in that Secret."},
			{Name: ParamDigest, MaxLength: 256, Check: checkDigest, Doc: "Digest that the content must have: sha256: or sha512: and hexadecimal digits."},
		},
		Validate: validateRequest,
		Scope: func(r *resolve.Request) string {
			if r.Get(ParamPassword) != "" || r.Get(ParamToken) != "" {
				return resolve.NamespaceScope(r)
			}
			return resolve.PublicScope
		},
		Host: func(r *resolve.Request) string {
			u, err := url.Parse(r.Get(ParamURL))
			if err != nil {
				return ""
			}
			return strings.ToLower(u.Host)
		},
	}
}

// checkURL accepts http as well, because only the whole request tells whether it is allowed; see validateRequest.
func checkURL(v string) error {
	u, err := url.Parse(v)
	switch {
	case err != nil:
		return errors.New("it cannot be read as a URL")
	case u.User != nil:
		return errors.New("it has a user name or password in it; use " + ParamUsername + " and " + ParamPassword)
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Opaque != "":
		return errors.New("it is no https URL with a host")
	}
	return nil
}

func checkUser(v string) error {
	if strings.ContainsAny(v, ":\r\n") {
		return errors.New("it has a colon or a line break, which a user name cannot have")
	}
	return nil
}

// digests are the algorithms by their names.
var digests = map[string]crypto.Hash{"sha256": crypto.SHA256, "sha512": crypto.SHA512}

// checkDigest accepts ALGORITHM:DIGITS of SHA-256 and SHA-512, the digits in any case.
func checkDigest(v string) error {
	alg, digits, _ := strings.Cut(v, ":")
	raw, err := hex.DecodeString(digits)
	if hash, ok := digests[alg]; !ok || err != nil || len(raw) != hash.Size() {
		return errors.New("it is neither sha256: with 64 hexadecimal digits nor sha512: with 128")
	}
	return nil
}

// validateRequest judges parameters together. Plain http is for content whose digest is known: nobody on the way can change that
// unseen. A credential never goes over it, unless the operator allows plain http.
func validateRequest(r *resolve.Request) []error {
	var out []error
	user, password, token := r.Get(ParamUsername) != "", r.Get(ParamPassword) != "", r.Get(ParamToken) != ""
	if user != password {
		out = append(out, errors.New("parameters "+ParamUsername+" and "+ParamPassword+" need each other"))
	}
	if token && (user || password) {
		out = append(out, errors.New("parameters "+ParamToken+" and "+ParamPassword+" exclude each other"))
	}
	plain := strings.HasPrefix(strings.ToLower(r.Get(ParamURL)), "http:")
	if plain && (password || token) && r.Config[KeyPlain] != "true" {
		out = append(out, errors.New("parameter "+ParamURL+" is plain http, by which no credential is sent; use https"))
	} else if plain && r.Get(ParamDigest) == "" && r.Config[KeyPlain] != "true" {
		out = append(out, errors.New("parameter "+ParamURL+" is plain http, which anybody on the way can change; use https, or give "+ParamDigest))
	}
	return out
}

// Resolve implements [resolve.Resolver].
func (h *Resolver) Resolve(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	guard, err := h.guards.Get(r.Config, false)
	if err != nil {
		return nil, err
	}
	header, err := authHeader(ctx, r)
	if err != nil {
		return nil, err
	}
	want := strings.ToLower(r.Get(ParamDigest))
	answer, failure := guard.Get(ctx, netguard.Fetch{
		URL: r.Get(ParamURL), Header: header, MaxBytes: r.Limit(), Plain: want != "" || r.Config[KeyPlain] == "true",
	})
	if failure != nil {
		return nil, failure
	}
	if err := verifyDigest(want, answer.Body); err != nil {
		return nil, err
	}
	return &resolve.Resource{
		Data:        answer.Body,
		Annotations: map[string]string{resolve.AnnotationContentType: resolve.ContentTypeYAML},
		Source:      resolve.Source{URI: r.Get(ParamURL), Digest: resolve.SHA256(answer.Body)},
		Immutable:   want != "",
	}, nil
}

// verifyDigest compares the content with a digest in lower case, ALGORITHM:DIGITS; the empty one accepts all.
func verifyDigest(want string, data []byte) error {
	alg, digits, ok := strings.Cut(want, ":")
	if !ok {
		return nil
	}
	sum := digests[alg].New()
	_, _ = sum.Write(data) // it never fails
	if got := hex.EncodeToString(sum.Sum(nil)); got != digits {
		return resolve.Errorf(resolve.ReasonVerification, "the content has the digest %s:%s, want %s", alg, got, want)
	}
	return nil
}

// authHeader makes the header that authenticates.
func authHeader(ctx context.Context, r *resolve.Request) (http.Header, error) {
	switch {
	case r.Get(ParamToken) != "":
		token, err := secretValue(ctx, r, r.Get(ParamToken), r.Get(ParamTokenKey))
		if err != nil {
			return nil, err
		}
		return http.Header{"Authorization": {"Bearer " + token}}, nil
	case r.Get(ParamPassword) != "":
		password, err := secretValue(ctx, r, r.Get(ParamPassword), r.Get(ParamPasswordKey))
		if err != nil {
			return nil, err
		}
		pair := base64.StdEncoding.EncodeToString([]byte(r.Get(ParamUsername) + ":" + password))
		return http.Header{"Authorization": {"Basic " + pair}}, nil
	}
	return http.Header{}, nil
}

// hostOf returns the host of an address in lower case, with a port that is not the scheme's own.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	name, port := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	if port == "" || port == "443" && u.Scheme == "https" || port == "80" && u.Scheme == "http" {
		return name
	}
	return net.JoinHostPort(name, port)
}

// secretValue returns one key of a Secret that may be sent to the host of the request. It cuts line breaks at the end, which editors
// add, and refuses others: they would begin another header.
func secretValue(ctx context.Context, r *resolve.Request, name, key string) (string, error) {
	if r.Secrets == nil {
		return "", resolve.Errorf(resolve.ReasonDenied, "the secret %q is needed, and there are no secrets here", name)
	}
	data, err := r.SecretFor(ctx, r.Namespace, name, hostOf(r.Get(ParamURL)))
	if err != nil {
		return "", err
	}
	v := strings.TrimRight(string(data[key]), "\r\n")
	if v == "" {
		return "", resolve.Errorf(resolve.ReasonDenied, "the secret %q in namespace %q has no key %q, or nothing in it", name, r.Namespace, key)
	}
	if strings.ContainsAny(v, "\r\n\x00") {
		return "", resolve.Errorf(resolve.ReasonDenied, "key %q of the secret %q in namespace %q has several lines", key, name, r.Namespace)
	}
	return v, nil
}

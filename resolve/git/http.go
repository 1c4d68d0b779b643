package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
)

// This file speaks git's smart HTTP protocol (gitprotocol-http of git's documentation). It follows redirects for the first request of
// a repository only, and remembers where they lead. A credential never leaves the host that it is for.

// portOf returns the port of a URL, or that of its scheme.
func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return defaultPorts[u.Scheme]
}

func canonicalHost(u *url.URL) string { return net.JoinHostPort(u.Hostname(), portOf(u)) }

// httpRemote uses git's smart HTTP protocol.
type httpRemote struct {
	client *http.Client
	clock  resolve.Clock
	// origin is the requested address, credential the login for it.
	origin     *url.URL
	credential string

	mu sync.Mutex
	// base is the address of the repository after redirects.
	base *url.URL
	// authorization is sent to the first host only; empty for none.
	authorization string
}

func newHTTPRemote(client *http.Client, address *url.URL, authorization string, clock resolve.Clock) *httpRemote {
	return &httpRemote{client: client, clock: clock, origin: address, credential: authorization, base: address, authorization: authorization}
}

func (h *httpRemote) close() {}

// forgetRedirects implements [remote]. The credential may go to the first host again.
func (h *httpRemote) forgetRedirects() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.base, h.authorization = h.origin, h.credential
}

// mayBeOutdated reports whether outdated knowledge about a server may be the cause of an error.
func mayBeOutdated(err error) bool {
	var status *statusError
	var redirect *errRedirect
	switch {
	case errors.As(err, &status):
		return status.code < http.StatusInternalServerError && status.code != http.StatusTooManyRequests && status.code != http.StatusRequestTimeout
	case errors.As(err, &redirect), errors.Is(err, errGarbage):
		return true
	}
	return false
}

const (
	pathRefs   = "/info/refs"
	pathUpload = "/git-upload-pack"
)

// errRedirect says why a redirect is refused.
type errRedirect struct {
	why    string
	reason resolve.Reason
}

func (e *errRedirect) Error() string { return e.why }

// followSafely follows a few redirects of the first request. It never follows from https to http, and drops credentials as soon as
// the host changes.
func followSafely(req *http.Request, via []*http.Request) error {
	first, last := via[0], via[len(via)-1]
	switch {
	case req.Method != http.MethodGet || first.Method != http.MethodGet:
		return &errRedirect{"the server redirects a request that is not followed", resolve.ReasonForbidden}
	case len(via) > 4:
		return &errRedirect{"the server redirects more than 4 times", resolve.ReasonFailed}
	case req.URL.Scheme != "https" && req.URL.Scheme != "http":
		return &errRedirect{fmt.Sprintf("the server redirects to the scheme %q", req.URL.Scheme), resolve.ReasonForbidden}
	case last.URL.Scheme == "https" && req.URL.Scheme != "https":
		return &errRedirect{"the server redirects from https to http", resolve.ReasonForbidden}
	case req.URL.User != nil:
		return &errRedirect{"the server redirects to an address with credentials", resolve.ReasonForbidden}
	}
	if canonicalHost(req.URL) != canonicalHost(first.URL) {
		for _, name := range credentialHeaders {
			req.Header.Del(name)
		}
	}
	return nil
}

var credentialHeaders = []string{"Authorization", "Private-Token", "Cookie", "Proxy-Authorization"}

// newRequest returns a request for a path below the repository, at the address after redirects, with the credential if that is still
// at its host.
func (h *httpRemote) newRequest(ctx context.Context, method, path, query string, body []byte, version2 bool) (*http.Request, error) {
	h.mu.Lock()
	u, authorization := *h.base, h.authorization
	h.mu.Unlock()
	u.Path, u.RawQuery = u.Path+path, query
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", agent)
	if version2 {
		req.Header.Set("Git-Protocol", "version=2")
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return req, nil
}

// exchange implements [remote].
func (h *httpRemote) exchange(ctx context.Context, body []byte, version2 bool) (io.ReadCloser, error) {
	if body == nil {
		return h.openAdvertisement(ctx)
	}
	req, err := h.newRequest(ctx, http.MethodPost, pathUpload, "", body, version2)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-git-upload-pack-request")
	req.Header.Set("Accept", "application/x-git-upload-pack-result")
	resp, err := h.sendHTTP(req, "application/x-git-upload-pack-result")
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// openAdvertisement asks for the capabilities. It follows redirects, for later requests as well.
func (h *httpRemote) openAdvertisement(ctx context.Context) (io.ReadCloser, error) {
	req, err := h.newRequest(ctx, http.MethodGet, pathRefs, "service=git-upload-pack", nil, true)
	if err != nil {
		return nil, err
	}
	resp, err := h.sendHTTP(req, "application/x-git-upload-pack-advertisement")
	if err != nil && !errors.Is(err, errDumb) {
		return nil, err
	}
	// Later requests go to the address after the redirects, without credentials if its host differs.
	if end := resp.Request.URL; end.String() != req.URL.String() {
		p, ok := strings.CutSuffix(end.Path, pathRefs)
		if !ok {
			_ = resp.Body.Close()
			return nil, &errRedirect{"the server redirects to what is no repository", resolve.ReasonForbidden}
		}
		h.mu.Lock()
		if canonicalHost(end) != canonicalHost(h.base) {
			h.authorization = ""
		}
		h.base = &url.URL{Scheme: end.Scheme, Host: end.Host, Path: p}
		h.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	return skipService(resp.Body)
}

// skipService reads the line with the name of the service, and the flush after it, if they are there.
func skipService(body io.ReadCloser) (io.ReadCloser, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(body, head); err != nil {
		_ = body.Close()
		return nil, noEOF(err)
	}
	n, err := strconv.ParseUint(string(head), 16, 16)
	if err != nil || n > 1000 || (n > 0 && n < 5) {
		_ = body.Close()
		return nil, errGarbage
	}
	line := []byte{}
	if n > 4 {
		line = make([]byte, n-4)
		if _, err := io.ReadFull(body, line); err != nil {
			_ = body.Close()
			return nil, noEOF(err)
		}
	}
	rest := io.MultiReader(bytes.NewReader(head), bytes.NewReader(line), body)
	if bytes.HasPrefix(line, []byte("# service=")) {
		flush := make([]byte, 4)
		if _, err := io.ReadFull(body, flush); err != nil || string(flush) != "0000" {
			_ = body.Close()
			return nil, errGarbage
		}
		rest = body
	}
	return struct {
		io.Reader
		io.Closer
	}{rest, body}, nil
}

// statusError is an answer without success.
type statusError struct {
	code       int
	retryAfter time.Duration
	// signIn: the answer is a page for signing in.
	signIn bool
}

func (e *statusError) Error() string {
	if e.isSignIn() {
		return fmt.Sprintf("the server answers with a page for signing in (%d)", e.code)
	}
	return fmt.Sprintf("the server answers %d %s", e.code, http.StatusText(e.code))
}

// isSignIn reports whether the server wants a login. Azure DevOps answers 203 where it does not accept a token.
func (e *statusError) isSignIn() bool { return e.signIn || e.code == http.StatusNonAuthoritativeInfo }

// sendHTTP sends a request. With errDumb it returns the answer as well, closed.
func (h *httpRemote) sendHTTP(req *http.Request, contentType string) (*http.Response, error) {
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, &statusError{code: resp.StatusCode, retryAfter: retryAfter(resp.Header, h.clock)}
	}
	got, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if contentType != "" && strings.TrimSpace(got) != contentType {
		size := 65 // the longest object ID and a tab
		if isHTML(resp) {
			size = maxSignInPage
		}
		// Not a server of git. The beginning of the answer tells what it is.
		head := make([]byte, size)
		n, _ := io.ReadFull(resp.Body, head)
		_ = resp.Body.Close()
		if id, _, ok := bytes.Cut(head[:n], []byte("\t")); ok && isObjectID(string(id)) {
			return resp, errDumb
		}
		if isSignInPage(req, resp, head[:n]) {
			return nil, &statusError{code: resp.StatusCode, signIn: true}
		}
		return nil, errGarbage
	}
	return resp, nil
}

// errDumb: the answer is the file info/refs of a repository. So a web server provides files, and does not run git.
var errDumb = fmt.Errorf("only files are served: %w", errGarbage)

// retryAfter reads the wait that a server asks for, at most an hour. The SCM providers have a header of their own for the time at which
// their limit is reset.
func retryAfter(h http.Header, clock resolve.Clock) time.Duration {
	wait, asked := netguard.RetryAfter(h, clock)
	if !asked && h.Get("X-RateLimit-Remaining") == "0" {
		if n, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil {
			wait = time.Unix(n, 0).Sub(clock.Now())
		}
	}
	return min(max(wait, 0), time.Hour)
}

// toUserError turns a status into an error for the user.
func (e *statusError) toUserError(where string) *resolve.Error {
	switch c := e.code; {
	case e.isSignIn() || c == http.StatusUnauthorized || c == http.StatusForbidden && e.retryAfter == 0:
		return resolve.Errorf(resolve.ReasonDenied, "%s: %s; the credential is missing or not good for this", where, e.Error())
	case c == http.StatusNotFound || c == http.StatusGone:
		return resolve.Errorf(resolve.ReasonNotFound, "%s: no such repository, or the credential may not read it (%d)", where, c)
	case c == http.StatusTooManyRequests || c == http.StatusForbidden || c == http.StatusRequestTimeout || c >= 500:
		later := resolve.Transientf("%s: %s", where, e.Error())
		later.RetryAfter = e.retryAfter
		return later
	}
	return resolve.Errorf(resolve.ReasonFailed, "%s: %s", where, e.Error())
}

// explainRemoteError turns an error of the network or the protocol into one for the user. where names the repository.
func explainRemoteError(err error, where string) error {
	var (
		known  *resolve.Error
		status *statusError
		redir  *errRedirect
		peer   *remoteError
	)
	wrap := func(reason resolve.Reason, format string, args ...any) error {
		return resolve.Errorf(reason, "%s: "+format, append([]any{where}, args...)...).Because(err)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &known):
		return known
	case errors.As(err, &status):
		return status.toUserError(where).Because(err)
	case errors.As(err, &redir):
		return wrap(redir.reason, "%s", redir.why)
	case errors.Is(err, errTooMuch):
		return wrap(resolve.ReasonTooLarge, "the server sends more than the limit allows")
	case errors.As(err, &peer):
		if strings.Contains(peer.text, "repository not exported") {
			return wrap(resolve.ReasonNotFound, "no such repository, or it is not open to everybody (%s)", peer.text)
		}
		if strings.Contains(peer.text, "not our ref") || strings.Contains(peer.text, "unadvertised object") || strings.Contains(peer.text, "bad object") {
			return wrap(resolve.ReasonNotFound, "the server does not have the commit (%s)", peer.text)
		}
		return wrap(resolve.ReasonFailed, "the server says: %s", peer.text)
	case errors.Is(err, errGarbage):
		return wrap(resolve.ReasonFailed, "what answers there is no git server")
	}
	return netguard.Broken(err, where)
}

package git

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
)

// A server that wants a login often redirects to a page with a form, and answers 200. Without this file, that page would be the
// content, or an error about the protocol.

// maxSignInPage bounds the part of a page that is searched for a form, in bytes.
const maxSignInPage = 64 << 10

var (
	// signInPath matches the paths to which GitHub, GitLab, Gitea, Bitbucket, Azure DevOps and proxies lead those who are not signed in.
	signInPath = regexp.MustCompile(`(?i)(\A|[/_.])(sign[-_]?in|log[-_]?in|logon|session/new|sso|saml2?|oauth2?|authorize)(\z|[/_.])`)
	// signInForm matches a field for a password, or the title of a page for signing in.
	signInForm = regexp.MustCompile(`(?i)type=["']?password|<title>[^<]*\b(sign|log)[ -]?in\b`)
)

// isHTML reports whether an answer says that it is a page.
func isHTML(resp *http.Response) bool {
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(mediaType), "text/html")
}

// ledToSignIn reports whether an answer is a page for signing in, to which the server has redirected the request.
func ledToSignIn(req *http.Request, resp *http.Response) bool {
	end := resp.Request
	return isHTML(resp) && end != nil && end.URL.String() != req.URL.String() && signInPath.MatchString(end.URL.Path)
}

// isSignInPage reports whether a page in place of another answer is one for signing in; head is its begin.
func isSignInPage(req *http.Request, resp *http.Response, head []byte) bool {
	return ledToSignIn(req, resp) || isHTML(resp) && signInForm.Match(head[:min(len(head), maxSignInPage)]) && bytes.Contains(head, []byte("<"))
}

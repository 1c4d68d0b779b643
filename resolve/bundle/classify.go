package bundle

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"sluice.dev/internal/limit"
	"sluice.dev/resolve"
)

// classify turns an error into one for the user who made the request. What a registry says is quoted in part and
// without control characters; URLs are left out, because those of blobs carry signatures.
func classify(ctx context.Context, what string, err error) *resolve.Error {
	out := judge(ctx, err)
	out.Msg = what + ": " + out.Msg
	var n *noted
	if out.Reason == resolve.ReasonDenied && errors.As(err, &n) {
		out.Msg += "; " + n.note
	}
	return out
}

func judge(ctx context.Context, err error) *resolve.Error {
	if cause := ctx.Err(); cause != nil {
		out := &resolve.Error{Reason: resolve.ReasonCanceled, Msg: "it was given up, because nobody waits for it any more", Err: cause}
		if errors.Is(cause, context.DeadlineExceeded) {
			out.Reason, out.Msg = resolve.ReasonTimedOut, "the registry has not answered in time"
		}
		return out
	}
	if own, ok := errors.AsType[*resolve.Error](err); ok {
		e := *own
		return &e
	}
	if busy, ok := errors.AsType[*busyError](err); ok {
		out := resolve.Transientf("%w", busy)
		out.RetryAfter = busy.retryAfter
		return out
	}
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return judgeAnswer(answer)
	}
	if errors.Is(err, limit.ErrTooLarge) {
		return &resolve.Error{Reason: resolve.ReasonTooLarge, Msg: "the registry sends more than is allowed", Err: err}
	}
	if out := judgeTLS(err); out != nil {
		return out
	}
	if conn, ok := errors.AsType[*connError](err); ok {
		return judgeConn(conn)
	}
	return &resolve.Error{Reason: resolve.ReasonFailed, Msg: "the registry does not answer as registries do: " + cause(err), Err: err}
}

// judgeAnswer judges an answer with a 4xx status.
func judgeAnswer(a *transport.Error) *resolve.Error {
	said := make([]string, 0, len(a.Errors))
	for _, d := range a.Errors[:min(len(a.Errors), 3)] {
		said = append(said, clean(strings.TrimSuffix(string(d.Code)+" "+d.Message, " ")))
	}
	detail := ""
	if len(said) > 0 {
		detail = " (" + strings.Join(said, ", ") + ")"
	}
	host := ""
	if a.Request != nil && a.Request.URL != nil {
		host = " at " + clean(a.Request.URL.Host)
	}
	switch a.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &resolve.Error{Reason: resolve.ReasonDenied, Err: a, Msg: "the registry" + host +
			" refuses access: the credentials are missing or not good for it, or there is no such image" + detail}
	case http.StatusNotFound:
		return &resolve.Error{Reason: resolve.ReasonNotFound, Err: a, Msg: "the registry" + host + " does not have it" + detail}
	}
	return resolve.Errorf(resolve.ReasonFailed, "the registry%s answers %d%s", host, a.StatusCode, detail)
}

// judgeTLS judges what will not change by trying again; nil if err is nothing of the sort.
func judgeTLS(err error) *resolve.Error {
	var msg string
	var authority x509.UnknownAuthorityError
	var verification *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var hostname x509.HostnameError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &authority):
		msg = "the registry's certificate is signed by an authority that is not trusted; the operator can add it"
	case errors.As(err, &hostname):
		msg = "the registry's certificate is not for its name"
	case errors.As(err, &invalid), errors.As(err, &verification):
		msg = "the registry's certificate is not valid: " + cause(err)
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		msg = "the registry does not speak TLS; the operator can allow plain HTTP for it"
	case errors.As(err, &alert):
		msg = "the registry refuses the TLS handshake: " + cause(err)
	default:
		return nil
	}
	return &resolve.Error{Reason: resolve.ReasonFailed, Msg: msg, Err: err}
}

func judgeConn(conn *connError) *resolve.Error {
	var dns *net.DNSError
	if errors.As(conn, &dns) && dns.IsNotFound {
		return &resolve.Error{Reason: resolve.ReasonNotFound, Msg: "there is no host " + clean(dns.Name), Err: conn}
	}
	out := resolve.Transientf("the connection to the registry failed: %s", cause(conn))
	out.Err = conn
	return out
}

// cause is the text of an error without the URL that net/http puts before it.
func cause(err error) string {
	var u *url.Error
	for errors.As(err, &u) {
		err = u.Err
	}
	return clean(err.Error())
}

// clean makes a remote's words fit for one line of text.
func clean(s string) string {
	const most = 200
	var b strings.Builder
	for _, r := range s {
		if b.Len() >= most {
			b.WriteString("…")
			break
		}
		if !unicode.IsPrint(r) {
			r = ' '
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

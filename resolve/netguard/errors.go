package netguard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice.dev/internal/limit"
	"sluice.dev/resolve"
)

// An error of net/http says where the internal network failed, with addresses and ports. Requesters choose what is fetched, so they
// must not learn more than they need: this file maps errors to a few sentences about the place that the requester knows.

// maxRetryAfter bounds the wait that a server can ask for.
const maxRetryAfter = time.Hour

// Error turns an error of the network into one for users. place is a name that users know, for example a redacted URL. It returns a
// [*resolve.Error] inside unchanged. If ctx, the caller's context, has ended, the reason is [resolve.ReasonCanceled] or
// [resolve.ReasonTimedOut]. A time-out of the connection itself is transient.
func Error(ctx context.Context, err error, place string) *resolve.Error {
	if e, ok := errors.AsType[*resolve.Error](err); ok {
		return e
	}
	if e := classifyEnd(ctx, place); e != nil {
		return e.Because(err)
	}
	return Broken(err, place)
}

// Broken is [Error] for callers that have checked the context.
func Broken(err error, place string) *resolve.Error {
	return classifyError(err, place).Because(err)
}

// classifyEnd returns the error for a context that has ended; nil for one that has not.
func classifyEnd(ctx context.Context, place string) *resolve.Error {
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return resolve.Errorf(resolve.ReasonTimedOut, "the time was up while %s had not answered", place)
	default:
		return resolve.Errorf(resolve.ReasonCanceled, "the fetch from %s was cancelled", place)
	}
}

// classifyError finds out what has happened from the inside of an error, because its text can hold addresses of the internal network.
// What cannot be classified is permanent.
func classifyError(err error, place string) *resolve.Error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return resolve.Errorf(resolve.ReasonNotFound, "the name of the host of %s does not exist in DNS", place)
		}
		return resolve.Transientf("looking up the host of %s failed", place)
	}
	if errors.Is(err, limit.ErrTooLarge) {
		return resolve.Errorf(resolve.ReasonTooLarge, "the answer of %s is too large", place)
	}
	if e := classifyTLS(err, place); e != nil {
		return e
	}
	for _, c := range []struct {
		err  error
		text string
	}{
		{syscall.ECONNREFUSED, "%s refuses connections"},
		{syscall.ECONNRESET, "%s closed the connection"},
		{syscall.EPIPE, "%s closed the connection"},
		{io.EOF, "%s closed the connection before it answered"},
		{io.ErrUnexpectedEOF, "%s closed the connection in the middle of its answer"},
		{syscall.EHOSTUNREACH, "%s cannot be reached"},
		{syscall.ENETUNREACH, "%s cannot be reached"},
		{syscall.ETIMEDOUT, "%s does not answer"},
		{syscall.EADDRNOTAVAIL, "no connection to %s can be made now"},
		{net.ErrClosed, "%s closed the connection"},
	} {
		if errors.Is(err, c.err) {
			return resolve.Transientf(c.text, place)
		}
	}
	if strings.Contains(err.Error(), closedIdle) {
		return resolve.Transientf("%s closed the connection before it answered", place)
	}
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		return resolve.Transientf("%s does not answer", place)
	}
	if _, ok := errors.AsType[streamError](err); ok {
		return resolve.Transientf("%s broke off its answer", place)
	}
	if p, ok := errors.AsType[textproto.ProtocolError](err); ok {
		return resolve.Errorf(resolve.ReasonFailed, "%s does not speak HTTP: %.100q", place, string(p))
	}
	return resolve.Errorf(resolve.ReasonFailed, "the fetch from %s failed: its answer cannot be understood", place)
}

// closedIdle is the text of the error of net/http for a server that closes the connection while a request begins. The error is not exported
// (errServerClosedIdle in net/http/transport.go).
const closedIdle = "http: server closed idle connection"

// streamError has the shape of the HTTP/2 stream error inside net/http. The As method of that error fills structs of this shape.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error implements error.
func (e streamError) Error() string { return fmt.Sprintf("HTTP/2 stream error %d", e.Code) }

// classifyTLS returns an error that says what is wrong with a certificate or a handshake; nil for all other errors. The operator can
// mend most of them, so they are permanent.
func classifyTLS(err error, place string) *resolve.Error {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return resolve.Errorf(resolve.ReasonFailed, "the certificate of %s is not signed by a known CA; an operator can add its CA in %s", place, KeyCAs)
	}
	if h, ok := errors.AsType[x509.HostnameError](err); ok && h.Certificate != nil && h.Certificate.Subject.CommonName != "" && len(h.Certificate.DNSNames)+len(h.Certificate.IPAddresses) == 0 {
		return resolve.Errorf(resolve.ReasonFailed, "the certificate of %s names its host as common name alone, which does not count; it has to name it as a subject alternative name", place)
	} else if ok {
		return resolve.Errorf(resolve.ReasonFailed, "the certificate of %s is for another host than %.100q", place, h.Host)
	}
	if c, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if c.Reason == x509.Expired {
			return resolve.Errorf(resolve.ReasonFailed, "by the clock of the resolver the certificate of %s has expired or is not valid yet", place)
		}
		return resolve.Errorf(resolve.ReasonFailed, "the certificate of %s is not valid", place)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return resolve.Errorf(resolve.ReasonFailed, "the certificate of %s cannot be verified", place)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return resolve.Errorf(resolve.ReasonFailed, "%s does not speak TLS", place)
	}
	// Alerts of crypto/tls, which exports no type for them.
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil && (op.Op == "remote error" || op.Op == "local error") {
		return resolve.Errorf(resolve.ReasonFailed, "the TLS handshake with %s failed: %.100q", place, op.Err.Error())
	}
	return nil
}

// StatusError turns a status without success into an error; nil for 2xx. 404 and 410 are "not found", and 401, 403 and 407
// "denied". 408, 425, 429 and 5xx are transient, with the wait of Retry-After. A 403 is transient too if it reports a rate limit,
// as GitHub and others do. StatusError does not read the body. clock may be nil.
func StatusError(resp *http.Response, place string, clock resolve.Clock) *resolve.Error {
	code := resp.StatusCode
	wait, asked := RetryAfter(resp.Header, clock)
	switch {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusNotFound, code == http.StatusGone:
		return resolve.Errorf(resolve.ReasonNotFound, "%s does not exist, or may not be seen (status %d)", place, code)
	case code == http.StatusForbidden && (asked || resp.Header.Get("X-Ratelimit-Remaining") == "0"),
		code == http.StatusTooManyRequests:
		e := resolve.Transientf("%s is asked too often (status %d)", place, code)
		e.RetryAfter = wait
		return e
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return resolve.Errorf(resolve.ReasonDenied, "%s refuses access (status %d); a credential is missing or not good for it", place, code)
	case code == http.StatusProxyAuthRequired:
		return resolve.Errorf(resolve.ReasonDenied, "the proxy before %s refuses access (status %d)", place, code)
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly,
		code >= 500 && code != http.StatusNotImplemented && code != http.StatusHTTPVersionNotSupported:
		e := resolve.Transientf("%s has a failure of its own (status %d)", place, code)
		e.RetryAfter = wait
		return e
	default:
		return resolve.Errorf(resolve.ReasonFailed, "%s answers with status %d", place, code)
	}
}

// RetryAfter reads the header Retry-After, which has seconds or a date (RFC 9110, 10.2.3). asked is false if there is none that can be
// read. The wait is at most an hour, and 0 for a date if clock is nil.
func RetryAfter(h http.Header, clock resolve.Clock) (wait time.Duration, asked bool) {
	text := h.Get("Retry-After")
	if text == "" {
		return 0, false
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return time.Duration(min(n, uint64(maxRetryAfter/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(text)
	if err != nil || clock == nil {
		return 0, err == nil
	}
	return min(max(at.Sub(clock.Now()), 0), maxRetryAfter), true
}

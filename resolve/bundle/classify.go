package bundle

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/limit"
	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
)

// The errors of this package pass through the library, which wraps them. This file finds out what has happened, from the most certain
// source to the least: the end of the request, an error of our own, an answer of the registry, the network.

// judgeError turns an error into one for the user who made the request. It quotes a part of the registry's message, without control
// characters. It omits URLs, because those of blobs carry signatures.
func judgeError(ctx context.Context, err error) *resolve.Error {
	if ctx.Err() != nil {
		return netguard.Error(ctx, ctx.Err(), "the registry")
	}
	if own, ok := errors.AsType[*resolve.Error](err); ok {
		e := *own
		return &e
	}
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return judgeAnswer(answer)
	}
	if errors.Is(err, limit.ErrTooLarge) {
		return &resolve.Error{Reason: resolve.ReasonTooLarge, Msg: "the registry sends more than is allowed", Err: err}
	}
	plain, refused := errors.AsType[*plainError](err)
	if conn, ok := errors.AsType[*connError](err); ok && (!refused || !conn.noTLS()) {
		return netguard.Error(ctx, conn.err, "the registry "+conn.host)
	}
	if refused {
		return resolve.Errorf(resolve.ReasonForbidden, "%s would be spoken to over plain HTTP, which the operator has not allowed", plain.host)
	}
	return &resolve.Error{Reason: resolve.ReasonFailed, Msg: "the registry does not answer as registries do: " + causeText(err), Err: err}
}

// judgeAnswer judges an answer with a 4xx status.
func judgeAnswer(a *transport.Error) *resolve.Error {
	said := make([]string, 0, len(a.Errors))
	for _, d := range a.Errors[:min(len(a.Errors), 3)] {
		said = append(said, cleanText(strings.TrimSuffix(string(d.Code)+" "+d.Message, " ")))
	}
	detail := ""
	if len(said) > 0 {
		detail = " (" + strings.Join(said, ", ") + ")"
	}
	host := ""
	if a.Request != nil && a.Request.URL != nil {
		host = " at " + cleanText(a.Request.URL.Host)
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

// causeText returns the text of an error without the URL that net/http puts in front.
func causeText(err error) string {
	var u *url.Error
	for errors.As(err, &u) {
		err = u.Err
	}
	return cleanText(err.Error())
}

// cleanText makes the message of a remote fit for one line of text.
func cleanText(s string) string { return brief.Clip(brief.OneLine(s), 200) }

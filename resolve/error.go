package resolve

import (
	"errors"
	"fmt"
	"time"
)

// Reason says in one word what went wrong, for machines. It is the reason of the condition Succeeded.
type Reason string

// Exact reasons of a failed request, in its annotation sluice.dev/reason, in messages and in metrics. Clients of Tekton know only the
// first two, so by default the condition has one of these.
const (
	// ReasonFailed: the resolver failed permanently.
	ReasonFailed Reason = "ResolutionFailed"
	// ReasonTimedOut: the time is over.
	ReasonTimedOut Reason = "ResolutionTimedOut"
	// ReasonInvalid: the parameters are wrong.
	ReasonInvalid Reason = "InvalidParams"
	// ReasonNotFound: the place exists and the resource does not, or the requester must not learn which of them is missing.
	ReasonNotFound Reason = "NotFound"
	// ReasonDenied: the credential is missing or not sufficient.
	ReasonDenied Reason = "AccessDenied"
	// ReasonForbidden: the operator's policy forbids the address, the repository or the namespace.
	ReasonForbidden Reason = "ForbiddenByPolicy"
	// ReasonTooLarge: the content exceeds a limit.
	ReasonTooLarge Reason = "ContentTooLarge"
	// ReasonUnavailable: the remote is down, slow or temporarily refuses.
	ReasonUnavailable Reason = "RemoteUnavailable"
	// ReasonLocal: the resolver temporarily lacks a resource of its own, such as disk space. The remote is not the cause.
	ReasonLocal Reason = "ResolverUnavailable"
	// ReasonVerification: the content lacks a signature that the operator requires.
	ReasonVerification Reason = "VerificationFailed"
	// ReasonUnknownResolver: no resolver of that name runs.
	ReasonUnknownResolver Reason = "UnknownResolver"
	// ReasonCanceled: the request was deleted, or the process ended.
	ReasonCanceled Reason = "Canceled"
)

// Error says why something could not be resolved. Its text is for the user who made the request: one line with the problem, the
// place and the remedy. It has no secrets and no names of temporary files.
type Error struct {
	Reason Reason
	// Transient: another attempt may succeed.
	Transient bool
	// RetryAfter is the wait that the remote asks for; 0 if it asks for none.
	RetryAfter time.Duration
	// Msg is the text.
	Msg string
	// Err is the cause, nil if there is none. It is not part of the text.
	Err error
}

// Error implements error.
func (e *Error) Error() string { return e.Msg }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Because records the cause, and returns the error.
func (e *Error) Because(err error) *Error {
	e.Err = err
	return e
}

// Errorf makes a permanent error. A cause is kept if the format has a %w.
func Errorf(reason Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Reason: reason, Msg: err.Error(), Err: errors.Unwrap(err)}
}

// Transientf makes a transient error with the reason [ReasonUnavailable].
func Transientf(format string, args ...any) *Error {
	e := Errorf(ReasonUnavailable, format, args...)
	e.Transient = true
	return e
}

// TooLarge is the error for content that exceeds a limit; what names it, for example "the file". A size of 0 or less means that the
// size is unknown and exceeds the limit.
func TooLarge(what string, size, limit int64) *Error {
	if size <= limit {
		return Errorf(ReasonTooLarge, "%s has more than %d bytes, which is the limit", what, limit)
	}
	return Errorf(ReasonTooLarge, "%s has %d bytes, over the limit of %d bytes", what, size, limit)
}

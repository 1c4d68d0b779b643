package resolve

import (
	"errors"
	"fmt"
	"time"
)

// Reason says in one word what went wrong, for machines; it is the reason of the condition Succeeded.
type Reason string

// Reasons. Clients of Tekton know the first two; the others are told in their message and in metrics by default, because
// those clients wait for these.
const (
	// ReasonFailed: the resolver could not do it, for good.
	ReasonFailed Reason = "ResolutionFailed"
	// ReasonTimedOut: the time was up.
	ReasonTimedOut Reason = "ResolutionTimedOut"
	// ReasonInvalid: the parameters are wrong.
	ReasonInvalid Reason = "InvalidParams"
	// ReasonNotFound: the place exists, the thing does not; or nobody may tell which.
	ReasonNotFound Reason = "NotFound"
	// ReasonDenied: the credential is missing or not good for this.
	ReasonDenied Reason = "AccessDenied"
	// ReasonForbidden: the operator's policy forbids it: an address, a repository, a namespace.
	ReasonForbidden Reason = "ForbiddenByPolicy"
	// ReasonTooLarge: the content is over a limit.
	ReasonTooLarge Reason = "ContentTooLarge"
	// ReasonUnavailable: the remote is down, slow or refuses for now.
	ReasonUnavailable Reason = "RemoteUnavailable"
	// ReasonLocal: the resolver lacks what it needs for now, room on its disk for example; the remote is not at fault.
	ReasonLocal Reason = "ResolverUnavailable"
	// ReasonVerification: the content is not signed as the operator wants it.
	ReasonVerification Reason = "VerificationFailed"
	// ReasonUnknownResolver: no resolver of that name runs.
	ReasonUnknownResolver Reason = "UnknownResolver"
	// ReasonCanceled: the request was deleted, or the process ended.
	ReasonCanceled Reason = "Canceled"
)

// Error is why something could not be resolved. Its text is for the user who made the request: one line that says what is
// wrong, where, and what to do, without secrets and without names of temporary files.
type Error struct {
	Reason Reason
	// Transient: trying again may help.
	Transient bool
	// RetryAfter is how long the remote asks to wait; 0 if it says nothing.
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

// TooLarge is the error for content over a limit; what names it, for example "the file". A size of 0 or less says that
// only so much is known: it is more than the limit.
func TooLarge(what string, size, limit int64) *Error {
	if size <= limit {
		return Errorf(ReasonTooLarge, "%s has more than %d bytes, which is the limit", what, limit)
	}
	return Errorf(ReasonTooLarge, "%s has %d bytes, over the limit of %d bytes", what, size, limit)
}

package resolve

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sluice.dev/internal/brief"
)

// Texts of errors reach users, conditions and logs, and parts of them come from requesters and servers. So each becomes one line of
// bounded length, without the credentials that a URL may hold.

// maxMessage bounds the text of an error in bytes; a condition's message has at most 32 KiB in Kubernetes.
const maxMessage = 4096

// userInfo is the part of a URL that can hold a password.
var userInfo = regexp.MustCompile(`://[^/?#\s"'@]*@`)

// sshUser matches addresses of SSH with the name of a user, which is no secret without a key.
var sshUser = regexp.MustCompile(`^(git\+)?ssh://[A-Za-z0-9._-]+@[^@]*$`)

// oneLine makes a text fit for a message: one line of printable characters, of bounded length, without the user information of
// URLs.
func oneLine(s string) string {
	return brief.Clip(redactUserInfo(brief.OneLine(brief.Cut(s, 4*maxMessage))), maxMessage)
}

// redactUserInfo removes the user information from URLs.
func redactUserInfo(s string) string { return userInfo.ReplaceAllString(s, "://***@") }

// quoteShort returns a short text in quotes, for a message.
func quoteShort(s string) string { return strconv.Quote(brief.Clip(redactUserInfo(s), 80)) }

// cleanError returns an error in the form that users see: an [*Error] with a text of one line. Other errors are permanent.
func cleanError(err error) *Error {
	out, ok := errors.AsType[*Error](err)
	if !ok || out == nil {
		out = &Error{Reason: ReasonFailed, Msg: err.Error(), Err: err}
	}
	c := *out
	c.Reason = cmp.Or(c.Reason, ReasonFailed)
	if c.Msg = oneLine(c.Msg); c.Msg == "" {
		c.Msg = "it failed without telling why"
	}
	return &c
}

// problems collects errors, to report them together.
type problems []error

// mistake is a problem of a configuration, with what holds because of it.
type mistake struct {
	err   error
	holds string
}

// Error implements error.
func (m *mistake) Error() string { return m.err.Error() + "; " + m.holds }

// Unwrap returns the problem alone.
func (m *mistake) Unwrap() error { return m.err }

func (p *problems) addMistake(holds, format string, args ...any) {
	*p = append(*p, &mistake{fmt.Errorf(format, args...), holds})
}

func (p *problems) addProblem(format string, args ...any) {
	*p = append(*p, fmt.Errorf(format, args...))
}

// asError returns nil if there are no problems, and otherwise one error with the reason [ReasonInvalid] that lists all of them.
func (p problems) asError() error {
	if len(p) == 0 {
		return nil
	}
	lines := make([]string, len(p))
	for i, e := range p {
		lines[i] = oneLine(e.Error())
	}
	msg := strings.Join(lines, "; ")
	if len(p) > 1 {
		msg = fmt.Sprintf("%d errors: %s", len(p), msg)
	}
	return &Error{Reason: ReasonInvalid, Msg: brief.Clip(msg, maxMessage), Err: errors.Join(p...)}
}

// Problems lists the parts of an error that joins several, such as the errors for parameters and configurations, one line for each.
// For another error the list has just that one. Nil gives nil.
func Problems(err error) []string { return eachProblem(err, error.Error) }

// Mistakes is [Problems] without what holds in spite of a mistake in a configuration, for programs that end because of one.
func Mistakes(err error) []string {
	return eachProblem(err, func(p error) string {
		if m, ok := errors.AsType[*mistake](p); ok {
			return m.err.Error()
		}
		return p.Error()
	})
}

// eachProblem returns one text for each part of an error that [problems.asError] has joined, and one for any other error; nil for nil.
func eachProblem(err error, text func(error) string) []string {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Err != nil {
		if joined, ok := e.Err.(interface{ Unwrap() []error }); ok {
			var out []string
			for _, p := range joined.Unwrap() {
				out = append(out, oneLine(text(p)))
			}
			return out
		}
	}
	return []string{oneLine(text(err))}
}

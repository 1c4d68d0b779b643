package cluster

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/resolve"
)

// classifyError turns an error of the API server, or of the way to it, into one for the user who made the request.
func classifyError(ctx context.Context, what string, err error) *resolve.Error {
	if cause := ctx.Err(); cause != nil {
		out := &resolve.Error{Reason: resolve.ReasonCanceled, Msg: what + ": it was given up, because nobody waits for it any more", Err: cause}
		if errors.Is(cause, context.DeadlineExceeded) {
			out.Reason, out.Msg = resolve.ReasonTimedOut, what+": the API server has not answered in time"
		}
		return out
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		// Without an answer, the network failed or the API server is starting.
		return resolve.Transientf("%s: the API server cannot be reached", what).Because(err)
	}
	s := status.Status()
	out := &resolve.Error{Reason: resolve.ReasonFailed, Err: err}
	switch {
	case apierrors.IsNotFound(err):
		out.Reason, out.Msg = resolve.ReasonNotFound, what+" does not exist"
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		out.Reason, out.Msg = resolve.ReasonDenied, what+": the resolver's ServiceAccount has not the rights; its ClusterRole needs them"
	case s.Code == http.StatusTooManyRequests || s.Code == http.StatusRequestTimeout || s.Code >= 500 || s.Code == 0:
		out.Reason, out.Transient, out.Msg = resolve.ReasonUnavailable, true, what+": the API server is overloaded or starting"
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
			out.RetryAfter = min(time.Duration(seconds)*time.Second, time.Hour)
		}
	default:
		out.Msg = what + ": the API server refuses: " + string(s.Reason)
	}
	return out
}

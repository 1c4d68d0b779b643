package resolution

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/resolve"
)

// A trace shows where the time of one request went. It begins at the creation of the request, which the API server records, and not
// when the process sees it: waiting in the queue is often the largest part.

// traced is the trace of one request: a span from its creation to its end, with one span for each phase below it.
type traced struct {
	tracer trace.Tracer
	span   trace.Span
}

// startTrace begins the trace of a request that waited from its creation until now. A nil tracer records nothing.
func startTrace(ctx context.Context, tracer trace.Tracer, r *v1beta1.ResolutionRequest, resolver string, now time.Time) (context.Context, traced) {
	if tracer == nil {
		tracer = noop.Tracer{}
	}
	created := r.CreationTimestamp.Time
	ctx, span := tracer.Start(ctx, "ResolutionRequest", trace.WithNewRoot(), trace.WithTimestamp(created), trace.WithAttributes(
		attribute.String("k8s.namespace.name", r.Namespace), attribute.String("sluice.request.name", r.Name),
		attribute.String("sluice.request.uid", string(r.UID)), attribute.String("sluice.resolver", resolver),
	))
	_, queue := tracer.Start(ctx, phaseQueue, trace.WithTimestamp(created))
	queue.End(trace.WithTimestamp(now))
	return ctx, traced{tracer: tracer, span: span}
}

// runPhase runs a phase in a span of its own.
func (t traced) runPhase(ctx context.Context, name string, f func(ctx context.Context)) {
	ctx, span := t.tracer.Start(trace.ContextWithSpan(ctx, t.span), name)
	defer span.End()
	f(ctx)
}

// endTrace ends the trace.
func (t traced) endTrace(res *resolve.Resource, err error) {
	switch {
	case err != nil:
		e := asError(err)
		t.span.SetStatus(codes.Error, e.Msg)
		t.span.SetAttributes(attribute.String("sluice.reason", string(e.Reason)))
	case res != nil:
		t.span.SetAttributes(
			attribute.Int("sluice.bytes", len(res.Data)), attribute.String("sluice.source", res.Source.URI),
			attribute.Bool("sluice.cached", res.Annotations[resolve.AnnotationCached] == "true"),
		)
	}
	t.span.End()
}

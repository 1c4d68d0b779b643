package resolution

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/resolve"
)

func TestTraceOfARequestHasItsPhases(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &v1beta1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", CreationTimestamp: metav1.NewTime(created)}}
	for _, err := range []error{nil, resolve.Errorf(resolve.ReasonNotFound, "nothing there")} {
		spans.Reset()
		ctx, tr := startTrace(t.Context(), provider.Tracer("test"), r, "git", created.Add(time.Second))
		tr.runPhase(ctx, phaseResolve, func(context.Context) {})
		tr.endTrace(&resolve.Resource{Data: []byte("x")}, err)
		var names []string
		got := spans.GetSpans()
		for _, s := range got {
			names = append(names, s.Name)
			if s.SpanContext.TraceID() != got[0].SpanContext.TraceID() {
				t.Errorf("%s belongs to another trace", s.Name)
			}
		}
		if want := []string{"queue", "resolve", "ResolutionRequest"}; !slices.Equal(names, want) {
			t.Fatalf("spans %v, want %v", names, want)
		}
		root := got[2]
		if got[1].Parent.SpanID() != root.SpanContext.SpanID() || !root.StartTime.Equal(created) || got[0].EndTime.Sub(got[0].StartTime) != time.Second {
			t.Errorf("spans %+v", got)
		}
		if (root.Status.Code == codes.Error) != (err != nil) {
			t.Errorf("status %v for %v", root.Status, err)
		}
	}
	// Without a tracer nothing happens, and nothing breaks.
	ctx, tr := startTrace(t.Context(), nil, r, "git", created)
	ran := false
	tr.runPhase(ctx, phaseWrite, func(context.Context) { ran = true })
	tr.endTrace(nil, nil)
	if !ran {
		t.Error("the phase did not run")
	}
}

package controller

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"sluice.dev/internal/controller/resolution"
	"sluice.dev/internal/process"
)

// collecting is a collector of traces.
type collecting struct {
	collector.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans []string
}

func (c *collecting) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, s.GetName())
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestTracesAreSentToTheCollector(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := &collecting{}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, got)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()

	p := &process.Process{Members: &resolution.Members{ID: "me"}, Log: slog.New(slog.DiscardHandler)}
	o := Options{TraceEndpoint: l.Addr().String(), TraceRatio: 1}
	end, err := startTracing(t.Context(), o, p)
	if err != nil {
		t.Fatal(err)
	}
	_, span := p.Tracer.Start(t.Context(), "a request")
	span.End()
	end()
	got.mu.Lock()
	defer got.mu.Unlock()
	if len(got.spans) != 1 || got.spans[0] != "a request" {
		t.Errorf("the collector got %v", got.spans)
	}
	o.TraceRatio = 2
	if _, err := startTracing(t.Context(), o, p); err == nil {
		t.Error("a ratio of 2 is taken")
	}
}

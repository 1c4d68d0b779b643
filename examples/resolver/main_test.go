package main

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
	"sluice.dev/resolve/resolvetest"
)

// pooled closes the connections of the resolver between checks.
type pooled struct{ wellKnown }

// Close implements what resolvetest looks for.
func (p pooled) Close() { p.guards.Close() }

func TestConformance(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/tekton/build.yaml":
			_, _ = io.WriteString(w, "kind: Task\n")
		case "/.well-known/tekton/hang.yaml":
			<-r.Context().Done()
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	host := s.Listener.Addr().String()
	params := func(name string) resolvetest.Request {
		return resolvetest.Request{Name: name, Params: map[string]string{"host": host, "name": name}}
	}
	hang := params("hang")
	good := params("build")
	good.Data = []byte("kind: Task\n")
	resolvetest.Run(t, resolvetest.Case{
		Resolver: pooled{wellKnown{netguard.NewPool(netguard.Options{Allow: []string{host}})}},
		Config:   map[string]string{"ca-bundle": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))},
		Works:    []resolvetest.Request{good},
		Fails: []resolvetest.Failure{
			{Request: params("missing"), Reason: resolve.ReasonNotFound},
			{Request: params("../../etc"), Reason: resolve.ReasonInvalid},
			{Request: resolvetest.Request{Name: "metadata", Params: map[string]string{"host": "169.254.169.254", "name": "x"}}, Reason: resolve.ReasonForbidden},
		},
		Hangs: &hang,
	})
}

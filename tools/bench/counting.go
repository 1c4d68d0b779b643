package main

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

type tally struct{ reads, writes atomic.Int64 }

// counting makes a proxy to an API server that counts the requests, those for Leases only if leases is set.
func counting(config *rest.Config, leases bool) (http.Handler, *tally, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, nil, err
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport, forward.FlushInterval = transport, -1
	counted := &tally{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !leases && strings.Contains(r.URL.Path, "/leases"):
		case r.Method == http.MethodGet:
			counted.reads.Add(1)
		default:
			counted.writes.Add(1)
		}
		forward.ServeHTTP(w, r)
	}), counted, nil
}

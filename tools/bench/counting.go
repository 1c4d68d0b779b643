package main

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

type tally struct{ reads, writes atomic.Int64 }

// countingProxy makes a proxy to an API server that counts the requests.
func countingProxy(config *rest.Config) (http.Handler, *tally, error) {
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
		if r.Method == http.MethodGet {
			counted.reads.Add(1)
		} else {
			counted.writes.Add(1)
		}
		forward.ServeHTTP(w, r)
	}), counted, nil
}

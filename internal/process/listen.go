package process

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

// A rollout ends a Pod while the API server still sends to it. A webhook that closed its connections at once would make writes fail
// in the cluster. So a server that is to end answers for some seconds more, and asks its clients to connect anew.

// How long a webhook is still served after its process was told to end, and how long calls that run then may take. Pods have 30 s.
const (
	// settleTime is the least: clients still come until the cluster has told them that the process is going.
	settleTime = 2 * time.Second
	drainTime  = 5 * time.Second
	graceTime  = 10 * time.Second // the longest time-out of our webhooks
)

// ListenUntilDone serves until ctx is done, and then lets calls that run end. A webhook first drains its connections: net/http does
// not repeat a POST whose connection the server has closed, so that the API server would refuse the write. From then on each answer
// tells the client to close the connection, for settleTime at least, and until none is open or drainTime is over.
func ListenUntilDone(ctx context.Context, address string, handler http.Handler, secure *tls.Config, errs *log.Logger, ready func()) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("another process listens on %s already: %w", address, err)
	}
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: errs}
	drain := func(context.Context) {}
	if secure != nil {
		l = tls.NewListener(l, secure)
		drain = drainAfterDone(ctx, server)
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime+graceTime)
		defer cancel()
		drain(grace)
		// What is still running then is cut off.
		_ = server.Shutdown(grace)
	})
	ready()
	err = server.Serve(l)
	if !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	<-stopped
	return nil
}

// drainAfterDone makes a server close each connection after its next answer once ctx is done. The function waits for settleTime, and
// then until none is open, at most drainTime in all.
func drainAfterDone(ctx context.Context, server *http.Server) func(context.Context) {
	var open atomic.Int64
	server.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		case http.StateActive, http.StateIdle:
		}
	}
	handler := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
	return func(grace context.Context) {
		limit, cancel := context.WithTimeout(grace, drainTime)
		defer cancel()
		settled := time.After(settleTime)
		look := time.NewTicker(20 * time.Millisecond)
		defer look.Stop()
		for open.Load() > 0 || settled != nil {
			select {
			case <-limit.Done():
				return
			case <-settled:
				settled = nil
			case <-look.C:
			}
		}
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// hangingServers is the number of servers of one tenant that never answer.
	hangingServers = 200
	// tenantRequests is the number of requests of the other tenant in each phase, tenantCallers of them at a time.
	tenantRequests = 400
	tenantCallers  = 8
)

// hanging are servers that take connections and say nothing.
type hanging struct {
	hosts     []string
	listeners []net.Listener
	wg        sync.WaitGroup
	// accepted counts all connections so far, open those that are open.
	accepted, open atomic.Int64
}

func hang(ctx context.Context, n int) (*hanging, error) {
	h := &hanging{}
	for range n {
		var config net.ListenConfig
		l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			h.close()
			return nil, err
		}
		h.hosts, h.listeners = append(h.hosts, l.Addr().String()), append(h.listeners, l)
		h.wg.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				h.accepted.Add(1)
				h.open.Add(1)
				go func() {
					defer h.open.Add(-1)
					// It ends when the other side hangs up.
					_, _ = io.Copy(io.Discard, conn)
					_ = conn.Close()
				}()
			}
		})
	}
	return h, nil
}

func (h *hanging) close() {
	for _, l := range h.listeners {
		_ = l.Close()
	}
	h.wg.Wait()
}

// isolation measures what one tenant notices of another whose servers hang.
func isolation(ctx context.Context, c *config) (err error) {
	s, err := install(ctx, c.sluice, map[string]map[string]string{"git-resolver-config": {"allowed-addresses": allowLoopback}})
	if err != nil {
		return err
	}
	defer func() { err = c.closeSystem(s, err) }()
	_, origin, err := s.catalog(ctx)
	if err != nil {
		return err
	}
	defer origin.Close() //nolint:errcheck // nobody uses it any more
	servers, err := hang(ctx, hangingServers)
	if err != nil {
		return err
	}
	defer servers.close()
	if _, err := s.start(ctx, "resolution", "resolver-git"); err != nil {
		return err
	}
	watchers := map[string]*watcher{}
	for _, namespace := range []string{"tenant-a", "tenant-b"} {
		if err := s.namespace(ctx, namespace); err != nil {
			return err
		}
		w, err := s.watch(ctx, namespace)
		if err != nil {
			return err
		}
		defer w.stop()
		watchers[namespace] = w
	}
	a, b := watchers["tenant-a"], watchers["tenant-b"]
	rows := [][]string{{fmt.Sprintf("tenant B, %d requests, %d at a time", tenantRequests, tenantCallers), "succeeded", "requests per second", "p50", "p99", "worst", "connections that hang", "load"}}
	phase := func(prefix, title string) error {
		ctx, cancel := context.WithTimeout(ctx, loadTimeout)
		defer cancel()
		out, err := b.run(ctx, prefix, tenantRequests, tenantCallers, true, func(i int) ask {
			return ask{"git", [][2]string{{"url", origin.url("/catalog.git")}, {"revision", "main"}, {"pathInRepo", filePath(i % resolvedFiles)}, {"cache", "never"}}}
		})
		if err != nil {
			return fmt.Errorf("%s: %w", title, err)
		}
		rows = append(rows, []string{
			title, fmt.Sprint(out.succeeded), fmt.Sprintf("%.0f", float64(out.asked)/out.wall.Seconds()), millis(quantile(out.latencies, 0.5)),
			millis(quantile(out.latencies, 0.99)), millis(quantile(out.latencies, 1)), fmt.Sprint(servers.open.Load()), loadAverage(),
		})
		return nil
	}
	if err := phase("first", "first, to warm up"); err != nil {
		return err
	}
	if err := phase("alone", "alone"); err != nil {
		return err
	}
	for i, host := range servers.hosts {
		name := fmt.Sprintf("hang-%03d", i)
		what := ask{"git", [][2]string{{"url", "http://" + host + "/r.git"}, {"revision", "main"}, {"pathInRepo", "task.yaml"}}}
		if code, text, err := s.create(ctx, a.namespace, what.body(name), false); err != nil || code >= 300 {
			return fmt.Errorf("create %s: %d %s (%w)", name, code, text, err)
		}
	}
	if err := until(ctx, "a connection that hangs", func() error {
		if servers.open.Load() == 0 {
			return errNotYet
		}
		return nil
	}); err != nil {
		return err
	}
	if err := phase("beside", fmt.Sprintf("beside %d requests of tenant A that hang", hangingServers)); err != nil {
		return err
	}
	start := time.Now()
	if err := a.clear(ctx); err != nil {
		return err
	}
	if err := until(ctx, "connections to be closed", func() error {
		if servers.open.Load() > 0 {
			return errNotYet
		}
		return nil
	}); err != nil {
		return err
	}
	closed := time.Since(start)
	if err := phase("after", "alone again"); err != nil {
		return err
	}
	c.table(rows...)
	fmt.Fprintf(c.out, "tenant A's requests were deleted then: its %d connections were closed %s later\n", servers.accepted.Load(), millis(closed))
	return nil
}

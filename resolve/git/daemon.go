package git

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"

	"sluice.dev/resolve/netguard"
)

// daemonRemote uses git daemon, by git://. As with plain http, nothing proves the identity of the server.
type daemonRemote struct {
	repo  repository
	guard *netguard.Guard
}

func (*daemonRemote) close()           {}
func (*daemonRemote) forgetRedirects() {}

func (d *daemonRemote) exchange(ctx context.Context, body []byte, _ bool) (io.ReadCloser, error) {
	return exchangeUpload(ctx, body, d.dialDaemon)
}

// unclosed is a connection that stays open for the answer.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// dialDaemon opens a connection that ends with its context.
func (d *daemonRemote) dialDaemon(ctx context.Context) (*upload, error) {
	conn, err := d.guard.DialContext(ctx, "tcp", net.JoinHostPort(d.repo.host, d.repo.port))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	out := &upload{Reader: conn, stdin: unclosed{conn}, finish: func() {
		stop()
		_ = conn.Close()
	}}
	// See "Git Transport" in gitprotocol-pack of git's documentation. The part after two NULs is for version 2.
	line := fmt.Sprintf("git-upload-pack %s\x00host=%s\x00\x00version=2\x00", d.repo.baseURL().Path, hostAndPort(d.repo))
	if _, err := fmt.Fprintf(conn, "%04x%s", len(line)+4, line); err != nil {
		_ = out.Close()
		return nil, cmp.Or(ctx.Err(), err)
	}
	return out, nil
}

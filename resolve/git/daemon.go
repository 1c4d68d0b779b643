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

// dialled is a connection that ends with its context.
type dialled struct {
	io.Reader
	net.Conn

	stop func() bool
}

func (d *dialled) Read(p []byte) (int, error) { return d.Reader.Read(p) }

func (d *dialled) Close() error {
	d.stop()
	return d.Conn.Close()
}

func (d *daemonRemote) dialDaemon(ctx context.Context) (*dialled, error) {
	conn, err := d.guard.DialContext(ctx, "tcp", net.JoinHostPort(d.repo.host, d.repo.port))
	if err != nil {
		return nil, err
	}
	out := &dialled{Reader: conn, Conn: conn, stop: context.AfterFunc(ctx, func() { _ = conn.Close() })}
	// See "Git Transport" in gitprotocol-pack of git's documentation. The part after two NULs is for version 2.
	line := fmt.Sprintf("git-upload-pack %s\x00host=%s\x00\x00version=2\x00", d.repo.baseURL().Path, hostAndPort(d.repo))
	if _, err := fmt.Fprintf(conn, "%04x%s", len(line)+4, line); err != nil {
		_ = out.Close()
		return nil, cmp.Or(ctx.Err(), err)
	}
	return out, nil
}

func (d *daemonRemote) openAdvertisement(ctx context.Context) (io.ReadCloser, error) {
	conn, err := d.dialDaemon(ctx)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func (d *daemonRemote) sendRequest(ctx context.Context, body []byte, _ bool) (io.ReadCloser, error) {
	conn, err := d.dialDaemon(ctx)
	if err != nil {
		return nil, err
	}
	if conn.Reader, err = pastAdvertisement(conn.Conn); err == nil {
		_, err = conn.Write(body)
	}
	if err != nil {
		_ = conn.Close()
		return nil, cmp.Or(ctx.Err(), err)
	}
	return conn, nil
}

// pastAdvertisement skips the first message of git-upload-pack, which is known already, and returns the rest.
func pastAdvertisement(r io.Reader) (io.Reader, error) {
	p := newPackets(r, maxAdvertisement)
	for {
		kind, _, err := p.nextPacket()
		if err != nil {
			return nil, noEOF(err)
		}
		if kind == packetFlush {
			return p.r, nil
		}
	}
}

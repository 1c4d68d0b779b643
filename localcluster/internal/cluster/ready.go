package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"sluice.dev/localcluster/internal/pki"
)

const (
	pollInterval = 25 * time.Millisecond
	// oneTry bounds a request to an API server that accepts connections but does not answer yet.
	oneTry = 2 * time.Second
)

// prober asks the API server, as the administrator, whether something is there.
type prober struct {
	server string
	client *http.Client
}

// newProber makes a client that trusts the authority of this cluster alone.
func newProber(server string, ca, admin pki.Pair) (*prober, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca.CertPEM) {
		return nil, errors.New("the authority's certificate cannot be read")
	}
	cert, err := tls.X509KeyPair(admin.CertPEM, admin.KeyPEM)
	if err != nil {
		return nil, err
	}
	return &prober{server: server, client: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	}}}, nil
}

// await returns when each path in turn answers with 200. Otherwise the error is the cause for which ctx ended, with the last answer
// if it says more.
func (p *prober) await(ctx context.Context, paths ...string) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for _, path := range paths {
		for {
			err := p.get(ctx, path)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				if errors.Is(ctx.Err(), context.DeadlineExceeded) {
					return fmt.Errorf("%w: %s: %w", context.Cause(ctx), path, err)
				}
				return context.Cause(ctx)
			case <-ticker.C:
			}
		}
	}
	return nil
}

// get asks for a path once. Any status but 200 is an error.
func (p *prober) get(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server+path, nil)
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it is only read
	// Read to its end, so that the connection is used again.
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

func (p *prober) close() { p.client.CloseIdleConnections() }

package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/controller/delivery"
	"sluice.dev/internal/resolvers"
	"sluice.dev/requester"
	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
)

// fluxController is where Flux serves its artifacts, and maxArchive bounds one, in bytes.
const (
	fluxController = "source-controller.flux-system.svc.cluster.local"
	maxArchive     = 16 << 20
)

// serveDelivery runs the controller of deliveries.
func (s *server) serveDelivery(ctx context.Context, ready func()) error {
	archive, err := archiveFetcherFor(s.flags.flux)
	if err != nil {
		return err
	}
	c := &delivery.Controller{
		Config: s.Config, Kube: s.Kube, Client: s.Client, Namespace: s.Namespace, Members: s.Members, Metrics: delivery.NewMetrics(s.Registry),
		Recorder: s.Recorder, Log: s.Log, Clock: s.Clock, Archive: archive,
	}
	if s.flags.StoreFlags.Store != "" {
		store, err := s.flags.Open()
		if err != nil {
			return err
		}
		c.Store = store
	}
	return c.Run(ctx, ready)
}

// archiveFetcherFor returns a function that fetches archives from one host only. Without that bound, a user who can write the status of a source
// could make this process call any address in the cluster.
func archiveFetcherFor(host string) (func(ctx context.Context, address, digest, folder string) ([]byte, error), error) {
	if host == "" {
		return func(context.Context, string, string, string) ([]byte, error) {
			return nil, errors.New("sources of Flux are off: --flux-source-controller is empty")
		}, nil
	}
	guard, err := netguard.New(netguard.Options{Allow: []string{host}})
	if err != nil {
		return nil, fmt.Errorf("--flux-source-controller: %w", err)
	}
	fail := func(err *resolve.Error) ([]byte, error) {
		return nil, &requester.FailedError{Reason: v1alpha1.ReasonResolutionFailed, Exact: string(err.Reason), Message: err.Error()}
	}
	return func(ctx context.Context, address, digest, folder string) ([]byte, error) {
		u, err := url.Parse(address)
		if err != nil {
			return nil, errors.New("the address of the artifact cannot be read")
		}
		name := strings.TrimSuffix(u.Hostname(), ".") // Flux writes the dot of the root
		if port := u.Port(); port != "" {
			name = net.JoinHostPort(name, port)
		}
		u.Host = name
		if u.Host != host {
			return fail(resolve.Errorf(resolve.ReasonForbidden, "the artifact is at %s; only %s is allowed (--flux-source-controller)", u.Host, host))
		}
		answer, failure := guard.Get(ctx, netguard.Fetch{URL: u.String(), MaxBytes: maxArchive, Plain: true})
		if failure != nil && failure.Reason != resolve.ReasonTooLarge {
			return nil, failure // Flux may just have replaced the artifact by a newer one
		}
		if failure != nil {
			return fail(failure)
		}
		sum := sha256.Sum256(answer.Body)
		if got := "sha256:" + hex.EncodeToString(sum[:]); got != digest {
			return nil, fmt.Errorf("the artifact has the digest %s, want %s", got, digest)
		}
		data, err := resolvers.Folder(answer.Body, folder, maxArchive)
		if refused, ok := errors.AsType[*resolve.Error](err); ok {
			return fail(refused)
		}
		return data, err
	}, nil
}

package netguard

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"

	"sluice.dev/internal/limit"
	"sluice.dev/resolve"
)

// Get is for resolvers that want one bounded file: hub and http. Those that speak a protocol of their own use [Guard.Client] or
// [Guard.RoundTripper].

// Fetch is a GET request.
type Fetch struct {
	// URL is the address; see [Guard.CheckURL].
	URL string
	// Header is sent with the request, until a redirect leaves the first host.
	Header http.Header
	// MaxBytes bounds the body after decompression; 0 stands for [resolve.DefaultMaxBytes].
	MaxBytes int64
	// Plain allows http in addition to https.
	Plain bool
}

// Answer is the answer of a server.
type Answer struct {
	// URL is the address after redirects.
	URL    *url.URL
	Header http.Header
	Body   []byte
}

// Get fetches a whole body. An answer without success is an error; see [StatusError] and [Error].
func (g *Guard) Get(ctx context.Context, f Fetch) (*Answer, *resolve.Error) {
	u, err := url.Parse(f.URL)
	if err != nil {
		return nil, resolve.Errorf(resolve.ReasonInvalid, "the URL cannot be read")
	}
	if u.User != nil {
		return nil, resolve.Errorf(resolve.ReasonInvalid, "the URL %s has a user name or password in it; they belong into a secret", Redact(u))
	}
	place := Redact(u)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, http.NoBody)
	if err != nil {
		return nil, resolve.Errorf(resolve.ReasonInvalid, "the URL %s cannot be fetched", place)
	}
	maps.Copy(req.Header, f.Header)
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "sluice")
	}
	resp, err := g.Client(f.Plain).Do(req)
	if err != nil {
		return nil, Error(ctx, err, place)
	}
	defer func() { _ = resp.Body.Close() }()
	if e := StatusError(resp, place, g.opts.Clock); e != nil {
		return nil, e
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNonAuthoritativeInfo {
		return nil, resolve.Errorf(resolve.ReasonFailed, "%s answers with status %d and no content", place, resp.StatusCode)
	}
	most := f.MaxBytes
	if most <= 0 {
		most = resolve.DefaultMaxBytes
	}
	if resp.ContentLength > most {
		return nil, resolve.TooLarge("the answer of "+place, resp.ContentLength, most)
	}
	data, err := limit.ReadSized(resp.Body, resp.ContentLength, most)
	if errors.Is(err, limit.ErrTooLarge) {
		return nil, resolve.TooLarge("the answer of "+place, 0, most)
	}
	if err != nil {
		return nil, Error(ctx, err, place)
	}
	return &Answer{URL: resp.Request.URL, Header: resp.Header, Body: data}, nil
}

package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"

	"sluice.dev/internal/limit"
	"sluice.dev/resolve"
)

// A registry may list referrers in pages (distribution specification, "Listing Referrers"; RFC 8288 for the header Link). The
// registry library reads only the first one, so the guard joins them to one list.

const (
	maxPages = 20
	// maxReferrers bounds the list in bytes; the library takes 4 MiB.
	maxReferrers = 4<<20 - 4<<10
	// cutAnnotation marks a list that is longer in the registry.
	cutAnnotation = "sluice.dev/cut"
)

var nextPage = regexp.MustCompile(`<([^<>]*)>\s*;[^<>]*\brel="?next\b`)

// referrersList is the part of an index that lists referrers of an image.
type referrersList struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType,omitempty"`
	Manifests     []json.RawMessage `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// followPages reads the pages that follow the first one of a list of referrers.
func (g *guard) followPages(req *http.Request, resp *http.Response) (*http.Response, error) {
	parts := strings.Split(req.URL.Path, "/")
	next := nextPage.FindStringSubmatch(resp.Header.Get("Link"))
	if resp.StatusCode != http.StatusOK || len(parts) < 2 || parts[len(parts)-2] != "referrers" || next == nil {
		return resp, nil
	}
	header := resp.Header
	var all referrersList
	size := 0
	for page := 1; ; page++ {
		raw, err := limit.ReadAll(resp.Body, int64(maxReferrers-size))
		_ = resp.Body.Close()
		// If a later page is too long, the pages before it still count.
		cut := errors.Is(err, limit.ErrTooLarge) && page > 1
		if err != nil && !cut {
			return nil, err
		}
		if !cut {
			var one referrersList
			if json.Unmarshal(raw, &one) != nil {
				return nil, failf("the registry's list of referrers cannot be read")
			}
			size += len(raw)
			all.SchemaVersion, all.MediaType, all.Manifests = one.SchemaVersion, one.MediaType, append(all.Manifests, one.Manifests...)
			if next = nextPage.FindStringSubmatch(resp.Header.Get("Link")); next == nil {
				break
			}
		}
		if cut || page == maxPages {
			all.Annotations = map[string]string{cutAnnotation: "true"}
			break
		}
		if resp, err = g.fetchPage(req, next[1], page+1); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	header.Del("Link")
	header.Del("Content-Length")
	resp.Header, resp.ContentLength, resp.Body = header, int64(len(text)), io.NopCloser(bytes.NewReader(text))
	return resp, nil
}

// fetchPage asks for the page of a number, at the address that the page before gives.
func (g *guard) fetchPage(req *http.Request, at string, number int) (*http.Response, error) {
	to, err := req.URL.Parse(at)
	if err != nil || to.Scheme != req.URL.Scheme || to.Host != req.URL.Host || to.Path != req.URL.Path {
		return nil, resolve.Errorf(resolve.ReasonForbidden, "the registry sends the next page of its list of referrers to another address")
	}
	again := req.Clone(req.Context())
	again.URL = to
	resp, err := g.sendRequest(again)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, failf("the registry answers %d for page %d of its list of referrers", resp.StatusCode, number)
	}
	return resp, nil
}

package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// answering is a transport that gives one answer to all requests, without a network. With silent, the server falls silent after it.
type answering struct {
	text   string
	silent bool
}

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	parts := []io.Reader{strings.NewReader(a.text)}
	if a.silent {
		parts = append(parts, silence{r.Context()})
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(untilDone{r.Context(), io.MultiReader(parts...)}), Request: r,
	}, nil
}

// untilDone is a body that ends with the context of its request, as those of package net/http do. It gives a few bytes at a time.
type untilDone struct {
	ctx  context.Context //nolint:containedctx // as net/http has it
	body io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.body.Read(b[:min(len(b), 8)])
}

type silence struct {
	ctx context.Context //nolint:containedctx // it ends the silence
}

func (s silence) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// The minute that a request has is for the server. What the objects cost here does not count, however slow the machine is.
func TestAServerThatAnswersIsNotSlow(t *testing.T) {
	for name, c := range map[string]struct {
		from answering
		slow bool
	}{
		"objects take long here":       {answering{text: `{"kind":"List","items":[{"a":1},{"a":2},{"a":3}],"metadata":{}}`}, false},
		"the server says nothing":      {answering{silent: true}, true},
		"the server stops in a list":   {answering{text: `{"kind":"List","items":[{"a":1},{"a":2},{"a":3}`, silent: true}, true},
		"the server stops behind them": {answering{text: `{"kind":"List","items":[{"a":1},{"a":2},{"a":3}],"meta`, silent: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, err := For(&rest.Config{Host: "http://api.test", Transport: c.from})
				if err != nil {
					t.Fatal(err)
				}
				began, objects := time.Now(), 0
				err = cluster.Each(t.Context(), "/apis/a/v1/things", EachOptions{}, func([]byte) error {
					objects++
					time.Sleep(40 * time.Second)
					return nil
				})
				if errors.Is(err, ErrSlow) != c.slow || !c.slow && err != nil {
					t.Errorf("after %d objects: %v", objects, err)
				}
				if waited := time.Since(began) - time.Duration(objects)*40*time.Second; c.slow && waited != RequestTimeout || !c.slow && objects != 3 {
					t.Errorf("%d objects, %s of waiting", objects, waited)
				}
			})
		})
	}
}

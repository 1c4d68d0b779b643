package check

// Who converts? The webhook that the CRD names, one at a URL, or a program.

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/conversion"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/limit"
)

const (
	// ownWebhook is the converter that the CRD names.
	ownWebhook = "webhook"
	// programPrefix begins the name of a converter that is a program.
	programPrefix = "exec:"
	// askTimeout is the time that the API server gives a conversion webhook.
	askTimeout = 30 * time.Second
	// maxAnswer bounds the answer of a converter.
	maxAnswer = 256 << 20
)

// reviewer is a converter as a function.
type reviewer func(ctx context.Context, review *apiextensionsv1.ConversionReview) (*apiextensionsv1.ConversionReview, error)

// Review implements [conversion.Converter].
func (f reviewer) Review(ctx context.Context, review *apiextensionsv1.ConversionReview) (*apiextensionsv1.ConversionReview, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, errNoAnswer)
	defer cancel()
	answer, err := f(ctx, review)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return answer, err
}

// errNoAnswer is the error of a converter that takes longer than the API server would wait.
var errNoAnswer = fmt.Errorf("no answer within %s", askTimeout)

// converterFor returns the converter of a CRD that spec names, and what releases it. The error wraps errNoWebhook
// if the CRD names nobody who could be asked.
func (c *checker) converterFor(spec string, ca []byte, crd *apiextensionsv1.CustomResourceDefinition) (conversion.Converter, func(), error) {
	nothing := func() {}
	switch {
	case strings.HasPrefix(spec, programPrefix):
		args := strings.Fields(strings.TrimPrefix(spec, programPrefix))
		if len(args) == 0 {
			return nil, nil, fmt.Errorf("--converter %s: name a program after %s", spec, programPrefix)
		}
		p := &program{args: args, stderr: c.Err}
		return p, p.stop, nil
	case spec != ownWebhook:
		r, err := atURL(spec, ca)
		return r, nothing, err
	}
	if crd.Spec.Conversion == nil || crd.Spec.Conversion.Webhook == nil || crd.Spec.Conversion.Webhook.ClientConfig == nil {
		return nil, nil, errNoWebhook
	}
	hook := crd.Spec.Conversion.Webhook
	var ask reviewer
	switch client := hook.ClientConfig; {
	case client.URL != nil:
		r, err := atURL(*client.URL, slices.Concat(client.CABundle, ca))
		if err != nil {
			return nil, nil, fmt.Errorf("spec.conversion.webhook.clientConfig.url: %w", err)
		}
		ask = r
	case client.Service != nil:
		if c.cluster == nil {
			return nil, nil, errors.New("the CRD names a service, which only a cluster has: check the CRDs of the cluster, or name a --converter")
		}
		ask = func(ctx context.Context, review *apiextensionsv1.ConversionReview) (*apiextensionsv1.ConversionReview, error) {
			return c.cluster.AskService(ctx, client.Service, review)
		}
	default:
		return nil, nil, errNoWebhook
	}
	return inReviewVersion(ask, hook.ConversionReviewVersions), nothing, nil
}

// errNoWebhook means that the CRD has no webhook that could be asked.
var errNoWebhook = errors.New("the CRD names no conversion webhook; give one with --converter")

// inReviewVersion asks in the first version of the protocol that the API server knows
// (createConversionReviewObjects). A webhook that knows v1beta1 alone gets reviews of that version, and its
// answers are read as those of v1.
func inReviewVersion(ask reviewer, versions []string) reviewer {
	i := slices.IndexFunc(versions, func(v string) bool { return v == "v1" || v == "v1beta1" })
	if i < 0 || versions[i] == "v1" {
		return ask
	}
	return func(ctx context.Context, review *apiextensionsv1.ConversionReview) (*apiextensionsv1.ConversionReview, error) {
		// The caller keeps its review, which it compares the answer with.
		older := *review
		older.APIVersion = "apiextensions.k8s.io/v1beta1"
		answer, err := ask(ctx, &older)
		if err == nil && answer.Response != nil { // of v1beta1 the API server looks at neither
			answer.TypeMeta, answer.Response.UID = review.TypeMeta, review.Request.UID
		}
		return answer, err
	}
}

// atURL returns the converter at a URL, whose certificate the CA has signed; without one the system's do. A status
// other than 200 is an error with the beginning of the body. User info of the URL is not in errors.
func atURL(text string, ca []byte) (reviewer, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("--converter %q: it is %s (what the CRD names), a URL such as https://localhost:9443/convert, or exec:PROGRAM", brief.Clip(text, 80), ownWebhook)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if len(bytes.TrimSpace(ca)) > 0 {
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("the CA has no certificate in PEM")
		}
	}
	client := &http.Client{Transport: transport}
	return func(ctx context.Context, review *apiextensionsv1.ConversionReview) (*apiextensionsv1.ConversionReview, error) {
		body, err := json.Marshal(review)
		if err != nil {
			return nil, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, text, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		// Its text has the whole URL, with a password if there is one.
		if e, ok := errors.AsType[*url.Error](err); ok {
			return nil, fmt.Errorf("%s: %w", u.Redacted(), e.Err)
		}
		if err != nil {
			return nil, err
		}
		defer response.Body.Close() //nolint:errcheck // it was only read
		text, err := limit.ReadAll(response.Body, maxAnswer)
		if err != nil {
			return nil, err
		}
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s answers with status %s: %s", u.Redacted(), response.Status, brief.Clip(brief.OneLine(string(text)), 200))
		}
		answer := &apiextensionsv1.ConversionReview{}
		return answer, json.Unmarshal(text, answer)
	}, nil
}

// program is a converter that reads reviews from its standard input, one a line, and writes an answer to each to
// its standard output. If it ends, it is started again for the next review. It is not safe for concurrent use: a
// program gets one review at a time.
type program struct {
	args    []string
	stderr  io.Writer
	cancel  context.CancelFunc // nil if the program does not run
	started bool               // for the last review
	in      io.WriteCloser
	out     *json.Decoder
	waitFor func() error
}

// Review implements [conversion.Converter].
func (p *program) Review(ctx context.Context, review *apiextensionsv1.ConversionReview) (*apiextensionsv1.ConversionReview, error) {
	p.started = false
	answer, err := reviewer(p.review).Review(ctx, review)
	if errors.Is(err, errNoAnswer) {
		err = fmt.Errorf("%s: %w: a review is one line and standard input stays open; answer each line, and do not wait for the end of the input", p.args[0], err)
	}
	return answer, err
}

// Started reports whether the program had to be started for the last review.
func (p *program) Started() bool { return p.started }

// review asks the program. One that was running and fails is started again, and asked once more: it may have ended
// after its last answer, as a program that reads a single review does.
func (p *program) review(ctx context.Context, review *apiextensionsv1.ConversionReview) (*apiextensionsv1.ConversionReview, error) {
	fresh := p.cancel == nil
	answer, err := p.tryReview(ctx, review)
	if err != nil && !fresh && ctx.Err() == nil { // it may have ended after the answer before
		answer, err = p.tryReview(ctx, review)
	}
	return answer, err
}

// tryReview asks the program once, and starts it if it does not run. After any error the program is stopped: what
// it may still write would be taken for the answer to the next review.
func (p *program) tryReview(ctx context.Context, review *apiextensionsv1.ConversionReview) (*apiextensionsv1.ConversionReview, error) {
	if p.cancel == nil {
		if err := p.start(); err != nil {
			return nil, err
		}
	}
	answer := &apiextensionsv1.ConversionReview{}
	// The write and the read are beside this goroutine, since either may block as long as the program likes.
	done := make(chan error, 1)
	go func() {
		_ = json.NewEncoder(p.in).Encode(review) // a program that does not read gives no answer either
		done <- p.out.Decode(answer)
	}()
	select {
	case err := <-done:
		if err == nil {
			return answer, nil
		}
		p.stop()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("%s ended without an answer", p.args[0])
		}
		return nil, fmt.Errorf("the answer of %s cannot be read: %w", p.args[0], err)
	case <-ctx.Done():
		p.stop()
		<-done //nolint:errcheck // that it was killed
		return nil, context.Cause(ctx)
	}
}

// start starts the program with pipes to its standard input and output. What it writes to standard error goes to
// that of the command. The program lives longer than the review, so its context is its own.
func (p *program) start() error {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, p.args[0], p.args[1:]...) //nolint:gosec // running the program that the user names is what this is for
	cmd.Stderr, cmd.WaitDelay = p.stderr, time.Second
	in, err := cmd.StdinPipe()
	var out io.ReadCloser
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return err
	}
	p.cancel, p.in, p.out, p.waitFor, p.started = cancel, in, json.NewDecoder(out), cmd.Wait, true
	return nil
}

// stop ends the program. It does nothing if the program does not run.
func (p *program) stop() {
	if p.cancel != nil {
		p.cancel()
		_ = p.waitFor() // it was killed
		p.cancel = nil
	}
}

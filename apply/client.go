package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cluster"
)

// This file sends requests to the API server and says what an answer means: whether the same request may be sent again, whether the
// server has certainly done nothing, and whether an error is about one kind alone. All other files send through it. So one place
// bounds the requests under way, counts the writes, and refuses a write once the lock of the app may be lost. For example, a 429 with
// Retry-After: 2 is waited out, while a 409 goes back to the caller, who knows what changed.

// Manager is the field manager of all that is applied.
const Manager = "sluice"

// client sends requests to the API server, with objects as JSON.
type client struct {
	config *rest.Config
	rest   *rest.RESTClient
	reads  *cluster.Cluster
	// slots bounds the number of requests under way.
	slots chan struct{}
	// writes counts requests that change something. Dry runs do not count.
	writes *atomic.Int64
	// busy bounds the time for which a request is repeated if the server asks to come back later.
	busy time.Duration
	// held is the lock without which the client refuses to write; nil for a client that needs none.
	held *lock
}

// newClient connects with a copy of the configuration. The client limits the number of requests under way, not their rate. A rate
// limit would slow down large applies, and the server has its own priority and fairness.
func newClient(config *rest.Config, slots int) (*client, error) {
	reads, err := cluster.For(config)
	if err != nil {
		return nil, err
	}
	r, err := cluster.Client(config, func(c *rest.Config) { c.DisableCompression, c.WarningHandlerWithContext = true, warningHandler{} })
	if err != nil {
		return nil, err
	}
	return &client{config: config, rest: r, reads: reads, slots: make(chan struct{}, slots), writes: &atomic.Int64{}, busy: maxBusy}, nil
}

// hurried returns a client for callers that can go on without an answer about one kind. It gives up soon if the server asks to come
// back later: the server may ask so for as long as the webhook that converts the objects of the kind is down.
func (c *client) hurried() *client {
	h := *c
	h.busy = shortBusy
	return &h
}

// request is one request.
type request struct {
	verb, path string
	query      url.Values
	body       []byte
	// contentType is the type of body, accept the type of the answer. Empty means JSON.
	contentType, accept string
	// apart: the request changes no object of the app, for instance because it is about the lock. It does not need the lock.
	apart bool
	// status, if not nil, receives the status code of the answer.
	status *int
}

// sendWithRetries sends a request and returns the body of the answer. If the connection breaks, it sends the request again a few
// times. If the server asks to come back later, it does so for as long as c.busy. Repeating is safe: every request that this package
// sends is idempotent.
func (c *client) sendWithRetries(ctx context.Context, r request) ([]byte, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	wait := 100 * time.Millisecond
	for try, begun := 1, leaseClock(); ; try++ {
		b, err := c.sendOnce(ctx, r)
		if err == nil || !isTransientError(err) || ctx.Err() != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return b, err
		}
		seconds, later := apierrors.SuggestsClientDelay(err)
		later = later && seconds > 0 || apierrors.IsTooManyRequests(err)
		if !later && try >= maxTries || later && time.Since(begun) >= c.busy {
			return nil, err
		}
		// A server says when to come back. If it does not, the pauses grow.
		if err := cluster.Sleep(ctx, max(wait, min(time.Duration(seconds)*time.Second, c.busy))); err != nil {
			return nil, err
		}
		wait = min(2*wait, lastPause)
	}
}

const (
	// maxTries bounds the attempts if the connection breaks, or if the answer is 503 without a time to come back: an API service
	// may be down for long. maxBusy bounds the time if the server asks to come back later, and shortBusy the same time of a hurried
	// client.
	maxTries  = 5
	maxBusy   = 2 * time.Minute
	shortBusy = 5 * time.Second
)

// sendOnce sends a request once, within [cluster.RequestTimeout]. A write counts unless the server has certainly refused it: the
// answer may have been lost after the server did the work. Without the lock that the client needs, it sends no write and returns
// errLost.
func (c *client) sendOnce(ctx context.Context, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cluster.RequestTimeout, cluster.ErrSlow)
	defer cancel()
	req := c.rest.Verb(r.verb).AbsPath(r.path).SetHeader("Accept", cmp.Or(r.accept, "application/json")).MaxRetries(0)
	for k, vs := range r.query {
		for _, v := range vs {
			req.Param(k, v)
		}
	}
	if r.body != nil {
		contentType := cmp.Or(r.contentType, "application/json")
		req.SetHeader("Content-Type", contentType).Body(r.body)
	}
	changes := r.verb != http.MethodGet && r.query.Get("dryRun") == "" && !r.apart
	if changes && c.held != nil && !c.held.isCertainlyHeld() {
		return nil, fmt.Errorf("app %s: %w", c.held.app, errLost)
	}
	res := req.Do(ctx)
	if r.status != nil {
		res.StatusCode(r.status)
	}
	err := shortenValues(res.Error()) // unlike the error of Raw, it has the server's message
	if changes && !isRefusal(err) {
		c.writes.Add(1)
	}
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), cluster.ErrSlow) {
		return nil, cluster.ErrSlow
	}
	if err != nil {
		return nil, noAccess(err)
	}
	return res.Raw()
}

// maxCause is the length up to which the server's words about one field stay whole.
const maxCause = 300

// shortenValues shortens the values in an error about invalid fields: the server writes whole templates of Pods into it. The words
// after a value, which say what is wrong, stay.
func shortenValues(err error) error {
	invalid, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsInvalid(invalid) || invalid.ErrStatus.Details == nil {
		return err
	}
	for i, c := range invalid.ErrStatus.Details.Causes {
		short := c.Message
		if strings.HasPrefix(short, "Forbidden: ") {
			short, _, _ = strings.Cut(short, "\n") // of a Pod, the lines below have its values before and after
		}
		if len(short) > maxCause {
			short = brief.Cut(short, maxCause/3) + " … " + tailOf(short, maxCause*2/3)
		}
		const object = "Invalid value: {"
		if end := strings.LastIndex(c.Message, "}: "); len(c.Message) > maxCause && strings.HasPrefix(c.Message, object) && end >= len(c.Message)-maxCause {
			short = object + "…" + c.Message[end:]
		}
		invalid.ErrStatus.Message = strings.ReplaceAll(invalid.ErrStatus.Message, c.Message, short)
		invalid.ErrStatus.Details.Causes[i].Message = short
	}
	return invalid
}

// tailOf returns the end of a text, from the beginning of a character.
func tailOf(s string, n int) string {
	at := len(s) - n
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return s[at:]
}

// isOfOneKind reports whether an error of a request is about its kind alone: the server answers for other kinds, or may.
func isOfOneKind(ctx context.Context, err error) bool {
	var status apierrors.APIStatus
	if err == nil || ctx.Err() != nil {
		return false
	}
	return !errors.Is(err, cluster.ErrNoAccess) || errors.Is(err, cluster.ErrSlow) || errors.As(err, &status)
}

// isRefusal reports whether the server has certainly not done what the request asked for.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError
}

// noAccess marks errors that mean: the cluster cannot be reached, or refuses access.
func noAccess(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%w: %w", cluster.ErrNoAccess, e.Err)
	}
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%w: the credentials are not accepted", cluster.ErrNoAccess)
	}
	return err
}

// isTransientError reports whether the same request may succeed in a moment.
func isTransientError(err error) bool {
	if apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) {
		return true
	}
	var netErr net.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EPIPE):
		return true
	}
	return errors.As(err, &netErr) && netErr.Timeout()
}

// sendJSON sends a request by send, with the JSON of in as its body, and reads the JSON of the answer into out. A nil in has no body,
// and a nil out drops the answer.
func sendJSON(ctx context.Context, send func(context.Context, request) ([]byte, error), r request, in, out any) error {
	if in != nil {
		var err error
		if r.body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	b, err := send(ctx, r)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(b, out)
}

// getJSON reads what stands at a path into out.
func (c *client) getJSON(ctx context.Context, path string, query url.Values, out any) error {
	return sendJSON(ctx, c.sendWithRetries, request{verb: http.MethodGet, path: path, query: query}, nil, out)
}

// createObject creates an object of the resource at a path.
func (c *client) createObject(ctx context.Context, path string, obj any) error {
	return sendJSON(ctx, c.sendWithRetries, request{verb: http.MethodPost, path: path, query: url.Values{"fieldManager": {Manager}}}, obj, nil)
}

// fetchObject reads one object; nil if there is none.
func (c *client) fetchObject(ctx context.Context, path string) (map[string]any, error) {
	b, err := c.sendWithRetries(ctx, request{verb: http.MethodGet, path: path})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeObject(b)
}

// applyPatch applies an object by server-side apply and returns the result.
func (c *client) applyPatch(ctx context.Context, path string, body []byte, dryRun, force bool) (map[string]any, error) {
	obj, _, err := c.patchOr(ctx, path, body, dryRun, force)
	return obj, err
}

// patchOr is applyPatch, and reports whether the object was created; false if the answer to that was lost.
func (c *client) patchOr(ctx context.Context, path string, body []byte, dryRun, force bool) (obj map[string]any, created bool, err error) {
	q := url.Values{"fieldManager": {Manager}, "fieldValidation": {"Strict"}}
	if force {
		q.Set("force", "true")
	}
	if dryRun {
		q.Set("dryRun", "All")
	}
	status := 0
	b, err := c.sendWithRetries(ctx, request{verb: http.MethodPatch, path: path, query: q, body: body, contentType: "application/apply-patch+yaml", status: &status})
	if err != nil {
		return nil, false, err
	}
	obj, err = decodeObject(b)
	return obj, status == http.StatusCreated, err
}

// jsonPatch changes an object by a JSON patch and returns the result.
func (c *client) jsonPatch(ctx context.Context, path string, body []byte, dryRun bool) (map[string]any, error) {
	q := url.Values{"fieldManager": {Manager}}
	if dryRun {
		q.Set("dryRun", "All")
	}
	b, err := c.sendWithRetries(ctx, request{verb: http.MethodPatch, path: path, query: q, body: body, contentType: "application/json-patch+json"})
	if err != nil {
		return nil, err
	}
	return decodeObject(b)
}

// deleteObject deletes an object if it still has that UID and resourceVersion; empty values are not compared. An object that is gone
// already is no error. A conflict means that the object was changed, or that another object has its name.
func (c *client) deleteObject(ctx context.Context, path, uid, version string, dryRun bool) error {
	o := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground), Preconditions: &metav1.Preconditions{}}
	o.Kind, o.APIVersion = "DeleteOptions", "v1"
	if uid != "" {
		o.Preconditions.UID = new(types.UID(uid))
	}
	if version != "" {
		o.Preconditions.ResourceVersion = &version
	}
	q := url.Values{}
	if dryRun {
		o.DryRun = []string{metav1.DryRunAll}
		q.Set("dryRun", "All")
	}
	err := sendJSON(ctx, c.sendWithRetries, request{verb: http.MethodDelete, path: path, query: q}, o, nil)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// listPath is the path of all objects of a resource. With an empty namespace it covers all namespaces.
func listPath(group, version, resource, namespace string) string {
	root := "/api/"
	if group != "" {
		root = "/apis/" + group + "/"
	}
	if namespace != "" {
		namespace = "/namespaces/" + namespace
	}
	return root + version + namespace + "/" + resource
}

// listSize is the number of objects in a page of a list.
const listSize = 500

// listMetadata lists the metadata of the objects at a path. A label selector may restrict them; empty selects all.
func (c *client) listMetadata(ctx context.Context, path, selector string, item func(m *metav1.PartialObjectMetadata)) error {
	for token := ""; ; {
		q := url.Values{"limit": {fmt.Sprint(listSize)}}
		if token != "" {
			q.Set("continue", token)
		}
		if selector != "" {
			q.Set("labelSelector", selector)
		}
		r := request{verb: http.MethodGet, path: path, query: q, accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
		var list metav1.PartialObjectMetadataList
		if err := sendJSON(ctx, c.sendWithRetries, r, nil, &list); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for i := range list.Items {
			item(&list.Items[i])
		}
		if token = list.Continue; token == "" {
			return nil
		}
	}
}

// statusCausesOf returns the causes that the server names for its answer, such as the fields that are not valid; none for other errors.
func statusCausesOf(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// noNamespace reports whether the server refuses an object because its namespace is missing.
func noNamespace(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// isKindDown reports whether the server cannot read or delete the objects of a kind now, because its conversion webhook fails or
// because its CRD changes (k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go, pkg/registry of
// k8s.io/apiserver: "storage is (re)initializing").
func isKindDown(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "conversion webhook for ") ||
		apierrors.IsTooManyRequests(err) && strings.Contains(err.Error(), "initializing")
}

// isAlwaysRefused reports whether the server will always refuse the object. Invalid and BadRequest do not count: an updated CRD may
// change that answer.
func isAlwaysRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err)
}

// Pauses between two polls.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
)

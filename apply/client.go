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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"sluice.dev/internal/cluster"
)

// client makes requests. Objects go through it as JSON.
type client struct {
	config *rest.Config
	rest   *rest.RESTClient
	reads  *cluster.Cluster
	// slots bounds how many requests are under way.
	slots chan struct{}
	// writes counts requests that change something, dry runs not included.
	writes *atomic.Int64
}

// requestTimeout bounds one request.
const requestTimeout = time.Minute

// newClient connects with a copy of the configuration. The client throttles by its number of slots, not by time: a rate
// would make an apply as slow as it is long, and the server has its own priority and fairness.
func newClient(config *rest.Config, slots int) (*client, error) {
	reads, err := cluster.For(config)
	if err != nil {
		return nil, err
	}
	c := rest.CopyConfig(config)
	c.GroupVersion = &schema.GroupVersion{}
	c.APIPath = "/"
	c.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	c.QPS = -1
	c.UserAgent = "sluice"
	c.DisableCompression = true
	c.WarningHandlerWithContext = warningHandler{}
	r, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", cluster.ErrNoAccess, err)
	}
	return &client{config: config, rest: r, reads: reads, slots: make(chan struct{}, slots), writes: &atomic.Int64{}}, nil
}

// request is one request.
type request struct {
	verb, path string
	query      url.Values
	body       []byte
	// contentType is that of body, accept what the answer is to be; JSON if empty.
	contentType, accept string
	// apart: it changes nothing of the app, such as one about its lock, and needs no lock.
	apart bool
	// status, where not nil, gets the code of the answer.
	status *int
}

// do makes a request and gives the answer's body. Where the connection breaks it is made again a few times, and where the server asks
// to come again later, for as long as that server is patient with itself: all that is sent here can be sent twice.
func (c *client) do(ctx context.Context, r request) ([]byte, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	wait := 100 * time.Millisecond
	for try, begun := 1, clock(); ; try++ {
		b, err := c.once(ctx, r)
		if err == nil || !transient(err) || ctx.Err() != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return b, err
		}
		seconds, later := apierrors.SuggestsClientDelay(err)
		later = later && seconds > 0 || apierrors.IsTooManyRequests(err)
		if !later && try >= maxTries || later && time.Since(begun) >= maxBusy {
			return nil, err
		}
		// A server says when it has room again; without a word of it the pauses grow.
		if err := sleep(ctx, max(wait, min(time.Duration(seconds)*time.Second, maxBusy))); err != nil {
			return nil, err
		}
		wait = min(2*wait, lastPause)
	}
}

const (
	// maxTries is how often a request is made whose connection breaks, or that is answered by 503 without a word of when to come again: an
	// API service may be down for long. maxBusy is how long one is made that the server puts off.
	maxTries = 5
	maxBusy  = 2 * time.Minute
)

func (c *client) once(ctx context.Context, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req := c.rest.Verb(r.verb).AbsPath(r.path).SetHeader("Accept", cmp.Or(r.accept, "application/json")).MaxRetries(0)
	for k, vs := range r.query {
		for _, v := range vs {
			req.Param(k, v)
		}
	}
	if r.body != nil {
		contentType := r.contentType
		if contentType == "" {
			contentType = "application/json"
		}
		req.SetHeader("Content-Type", contentType).Body(r.body)
	}
	changes := r.verb != http.MethodGet && r.query.Get("dryRun") == "" && !r.apart
	if changes {
		if err := fenced(ctx); err != nil {
			return nil, err
		}
	}
	res := req.Do(ctx)
	if r.status != nil {
		res.StatusCode(r.status)
	}
	err := res.Error() // unlike that of Raw it has what the server says
	if changes && !isRefusal(err) {
		c.writes.Add(1)
	}
	if err != nil {
		return nil, noAccess(err)
	}
	return res.Raw()
}

// isRefusal tells whether the server has surely not done what it was asked to.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError
}

// noAccess marks errors that mean: the cluster cannot be reached, or does not let us in.
func noAccess(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%w: %w", cluster.ErrNoAccess, e.Err)
	}
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%w: the credentials are not accepted", cluster.ErrNoAccess)
	}
	return err
}

// transient tells whether the same request may succeed in a moment.
func transient(err error) bool {
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

// get reads one object; nil where there is none.
func (c *client) get(ctx context.Context, path string) (map[string]any, error) {
	b, err := c.do(ctx, request{verb: http.MethodGet, path: path})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decode(b)
}

// patch applies an object by server-side apply and gives it as it is then.
func (c *client) patch(ctx context.Context, path string, body []byte, dryRun, force bool) (map[string]any, error) {
	obj, _, err := c.patchOr(ctx, path, body, dryRun, force)
	return obj, err
}

// patchOr is patch that tells whether the object was created; false where the answer to that was lost.
func (c *client) patchOr(ctx context.Context, path string, body []byte, dryRun, force bool) (obj map[string]any, created bool, err error) {
	q := url.Values{"fieldManager": {Manager}, "fieldValidation": {"Strict"}}
	if force {
		q.Set("force", "true")
	}
	if dryRun {
		q.Set("dryRun", "All")
	}
	status := 0
	b, err := c.do(ctx, request{verb: http.MethodPatch, path: path, query: q, body: body, contentType: "application/apply-patch+yaml", status: &status})
	if err != nil {
		return nil, false, err
	}
	obj, err = decode(b)
	return obj, status == http.StatusCreated, err
}

// jsonPatch changes an object by a JSON patch and gives it as it is then.
func (c *client) jsonPatch(ctx context.Context, path string, body []byte, dryRun bool) (map[string]any, error) {
	q := url.Values{"fieldManager": {Manager}}
	if dryRun {
		q.Set("dryRun", "All")
	}
	b, err := c.do(ctx, request{verb: http.MethodPatch, path: path, query: q, body: body, contentType: "application/json-patch+json"})
	if err != nil {
		return nil, err
	}
	return decode(b)
}

// remove deletes an object, if it is still the one with that UID and resourceVersion; what is empty is not looked at. That it is
// gone already is no error; a conflict says that there is another one, or that it was changed.
func (c *client) remove(ctx context.Context, path, uid, version string, dryRun bool) error {
	policy := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{PropagationPolicy: &policy}
	o.Kind, o.APIVersion = "DeleteOptions", "v1"
	if uid != "" || version != "" {
		o.Preconditions = &metav1.Preconditions{}
	}
	if id := types.UID(uid); id != "" {
		o.Preconditions.UID = &id
	}
	if version != "" {
		o.Preconditions.ResourceVersion = &version
	}
	q := url.Values{}
	if dryRun {
		o.DryRun = []string{metav1.DryRunAll}
		q.Set("dryRun", "All")
	}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, request{verb: http.MethodDelete, path: path, query: q, body: body})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// sleep waits, no longer than ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listPath is the path of all objects of a resource, in all namespaces where namespace is empty.
func listPath(group, version, resource, namespace string) string {
	var b strings.Builder
	if group == "" {
		b.WriteString("/api/" + version)
	} else {
		b.WriteString("/apis/" + group + "/" + version)
	}
	if namespace != "" {
		b.WriteString("/namespaces/" + namespace)
	}
	b.WriteString("/" + resource)
	return b.String()
}

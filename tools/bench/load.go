package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"sluice.dev/internal/limit"
)

const (
	requestVersion = "resolution.tekton.dev/v1beta1"
	requestsPath   = "/apis/" + requestVersion + "/namespaces/%s/resolutionrequests"
	// creators is the number of concurrent calls that create requests.
	creators = 32
)

// ask is the content of one request.
type ask struct {
	resolver string
	params   [][2]string
}

// body is the object to create.
func (a ask) body(name string) []byte {
	type param struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	params := make([]param, 0, len(a.params))
	for _, p := range a.params {
		params = append(params, param{p[0], p[1]})
	}
	// Maps of strings always marshal.
	b, _ := json.Marshal(map[string]any{
		"apiVersion": requestVersion, "kind": "ResolutionRequest",
		"metadata": map[string]any{"name": name, "labels": map[string]string{"resolution.tekton.dev/type": a.resolver}},
		"spec":     map[string]any{"params": params},
	})
	return b
}

// clientFor returns a plain client of the API server.
func clientFor(config *rest.Config) (*http.Client, error) { return rest.HTTPClientFor(config) }

// create creates a request; with dryRun nothing is kept.
func (s *system) create(ctx context.Context, namespace string, body []byte, dryRun bool) (int, string, error) {
	url := s.cluster.Server + fmt.Sprintf(requestsPath, namespace) + "?fieldManager=bench"
	if dryRun {
		url += "&dryRun=All"
	}
	return s.call(ctx, http.MethodPost, url, body)
}

func (s *system) call(ctx context.Context, method, url string, body []byte) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := s.admin.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err := limit.ReadAll(response.Body, 64<<20)
	return response.StatusCode, string(text), err
}

// seen is the end of a request, as the watch reports it.
type seen struct {
	at      time.Time
	ok      bool
	message string
}

// watcher watches the requests of a namespace as the controller of their owner does.
type watcher struct {
	system    *system
	namespace string
	cancel    context.CancelFunc
	done      chan struct{}
	err       error // how the watch ended; to be read when done is closed

	mu      sync.Mutex
	waiting map[string]chan seen
}

// object has the parts of a request that the bench reads.
type object struct {
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Status struct {
		Data       string `json:"data"`
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// errExpired says that a watch cannot be taken up where it ended.
var errExpired = errors.New("the watch has expired")

func (s *system) watch(ctx context.Context, namespace string) (*watcher, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{system: s, namespace: namespace, cancel: cancel, done: make(chan struct{}), waiting: map[string]chan seen{}}
	var version string
	// After a change of the CRD the API server says for a moment that it is not ready.
	err := until(ctx, "requests to be listed", func() (err error) {
		version, err = w.list(ctx)
		return err
	})
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		defer close(w.done)
		w.err = w.follow(ctx, version)
	}()
	return w, nil
}

// follow watches for as long as ctx lives. The API server ends watches when it likes, after a change of the CRD for example.
func (w *watcher) follow(ctx context.Context, version string) error {
	for {
		var err error
		if version, err = w.stream(ctx, version); errors.Is(err, errExpired) {
			version, err = w.list(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (w *watcher) url() string {
	return w.system.cluster.Server + fmt.Sprintf(requestsPath, w.namespace)
}

// list reads all requests and returns the version to watch from.
func (w *watcher) list(ctx context.Context) (string, error) {
	code, body, err := fetch(ctx, w.system.admin, w.url())
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("list requests: %d %s", code, body)
	}
	if err != nil {
		return "", err
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []object `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return "", err
	}
	now := time.Now()
	for _, o := range list.Items {
		w.see(o, now)
	}
	return list.Metadata.ResourceVersion, nil
}

// stream follows one watch to its end and returns the last version that it brought.
func (w *watcher) stream(ctx context.Context, version string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url()+"?watch=1&timeoutSeconds=3600&resourceVersion="+version, nil)
	if err != nil {
		return version, err
	}
	response, err := w.system.admin.Do(r)
	if err != nil {
		return version, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	dec := json.NewDecoder(response.Body)
	for {
		var e struct {
			Type   string `json:"type"`
			Object object `json:"object"`
		}
		if err := dec.Decode(&e); err != nil {
			return version, ctx.Err()
		}
		if e.Type == "ERROR" {
			return version, errExpired
		}
		version = e.Object.Metadata.ResourceVersion
		w.see(e.Object, time.Now())
	}
}

func (w *watcher) see(o object, now time.Time) {
	for _, c := range o.Status.Conditions {
		if c.Type != "Succeeded" || c.Status == "Unknown" {
			continue
		}
		w.mu.Lock()
		if ch := w.waiting[o.Metadata.Name]; ch != nil {
			delete(w.waiting, o.Metadata.Name)
			ch <- seen{at: now, ok: c.Status == "True" && o.Status.Data != "", message: c.Message}
		}
		w.mu.Unlock()
	}
}

// expect tells when a request that is about to be created has ended.
func (w *watcher) expect(name string) <-chan seen {
	ch := make(chan seen, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[name] = ch
	return ch
}

// wait waits for the end of a request.
func (w *watcher) wait(ctx context.Context, ch <-chan seen) (seen, error) {
	select {
	case s := <-ch:
		return s, nil
	case <-w.done:
		return seen{}, w.err
	case <-ctx.Done():
		return seen{}, context.Cause(ctx)
	}
}

func (w *watcher) stop() {
	w.cancel()
	<-w.done
}

// outcome is the result of many requests.
type outcome struct {
	asked, succeeded int
	failures         map[string]int
	wall             time.Duration
	// latencies are sorted; each is the time from before the call that creates a request to when the watch has it as
	// succeeded.
	latencies []time.Duration
}

// run creates n requests with so many calls at once and waits for the end of all.
func (w *watcher) run(ctx context.Context, prefix string, n, callers int, what func(i int) ask) (outcome, error) {
	type one struct {
		start time.Time
		ch    <-chan seen
		end   seen
	}
	all := make([]one, n)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	go func() {
		defer close(next)
		for i := range n {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	var wg sync.WaitGroup
	begin := time.Now()
	for range callers {
		wg.Go(func() {
			for i := range next {
				o := &all[i]
				name := fmt.Sprintf("%s-%05d", prefix, i)
				o.ch = w.expect(name)
				o.start = time.Now()
				code, text, err := w.system.create(ctx, w.namespace, what(i).body(name), false)
				if err == nil && code != http.StatusCreated {
					err = fmt.Errorf("create %s: %d %s", name, code, text)
				}
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	out := outcome{asked: n, failures: map[string]int{}}
	var last time.Time
	for i := range all {
		o := &all[i]
		var err error
		if o.end.at.IsZero() && ctx.Err() == nil {
			o.end, err = w.wait(ctx, o.ch)
		}
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return out, fmt.Errorf("after %d of %d requests: %w", i, n, err)
		}
		if o.end.at.After(last) {
			last = o.end.at
		}
		if !o.end.ok {
			out.failures[o.end.message]++
			continue
		}
		out.succeeded++
		out.latencies = append(out.latencies, o.end.at.Sub(o.start))
	}
	out.wall = last.Sub(begin)
	slices.Sort(out.latencies)
	return out, nil
}

// clear deletes the requests of a namespace.
func (w *watcher) clear(ctx context.Context) error {
	code, text, err := w.system.call(ctx, http.MethodDelete, w.system.cluster.Server+fmt.Sprintf(requestsPath, w.namespace), nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("delete the requests: %d %s", code, text)
	}
	return err
}

// counters are the metrics of a process, by their names and labels in its output.
type counters map[string]float64

// metrics reads the counters whose names begin with one of the prefixes.
func metrics(ctx context.Context, client *http.Client, url string, prefixes ...string) (counters, error) {
	code, body, err := fetch(ctx, client, url)
	if err != nil || code != http.StatusOK {
		return nil, fmt.Errorf("%s: %d (%w)", url, code, err)
	}
	out := counters{}
	for line := range strings.Lines(string(body)) {
		if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) }) {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		var v float64
		if _, err := fmt.Sscan(line[i+1:], &v); err == nil {
			out[line[:i]] = v
		}
	}
	return out, nil
}

// since adds up by how much those counters have grown that have all of these labels.
func (c counters) since(before counters, name string, labels ...string) float64 {
	total := 0.0
	for key, v := range c {
		if !strings.HasPrefix(key, name+"{") {
			continue
		}
		if !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(key, l) }) {
			total += v - before[key]
		}
	}
	return total
}

package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/limit"
)

const (
	// pendingCount is how many requests wait at once for a server that says nothing.
	pendingCount = 10_000
	// scaleTimeout bounds each measurement.
	scaleTimeout = 10 * time.Minute
	// replicaCount requests are divided by replicas, each of which runs replicaFetches at once, of remoteTime each.
	replicaCount   = 300
	replicaFetches = 8
	remoteTime     = 250 * time.Millisecond
)

// besideHooks are the webhooks by which Tekton Pipelines sees every request: one that changes and one that judges.
const besideHooks = `
apiVersion: admissionregistration.k8s.io/v1
kind: %[1]sWebhookConfiguration
metadata: {name: stand-in-%[2]s.example.com}
webhooks:
- name: stand-in-%[2]s.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {url: %[3]q, caBundle: %[4]q}
  rules:
  - {apiGroups: [resolution.tekton.dev], apiVersions: [v1alpha1, v1beta1], operations: [CREATE, UPDATE], resources: ["*", "*/status"]}
`

// standIn lets everything pass, as Tekton's webhook does with what is right, after it has read it.
func standIn(w http.ResponseWriter, r *http.Request) {
	body, err := limit.ReadAll(r.Body, 16<<20)
	var review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Request    struct {
			UID    string         `json:"uid"`
			Object map[string]any `json:"object"`
		} `json:"request"`
	}
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": review.APIVersion, "kind": review.Kind, "response": map[string]any{"uid": review.Request.UID, "allowed": true},
	})
}

// hook puts the stand-ins between the API server and its clients; the function ends them.
func (s *system) hook(ctx context.Context) (end func(), err error) {
	server := httptest.NewTLSServer(http.HandlerFunc(standIn))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	text, err := json.Marshal(ca)
	if err != nil {
		return server.Close, err
	}
	for _, kind := range []string{"Mutating", "Validating"} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(fmt.Appendf(nil, besideHooks, kind, strings.ToLower(kind), server.URL, strings.Trim(string(text), `"`)), &u.Object); err != nil {
			return server.Close, err
		}
		if err := s.objects.ApplyObject(ctx, u, false); err != nil {
			return server.Close, err
		}
	}
	return server.Close, nil
}

// scale measures very many requests that wait, and what a second replica is worth.
func scale(ctx context.Context, c *config) (err error) {
	open := make(chan struct{})
	var once sync.Once
	release := func() { once.Do(func() { close(open) }) }
	defer release()
	files, err := serveOn(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := remoteTime
		if strings.HasPrefix(r.URL.Path, "/held/") {
			held = 0
			select {
			case <-open:
			case <-r.Context().Done():
				return
			}
		}
		select {
		case <-time.After(held):
		case <-r.Context().Done():
			return
		}
		// The client may have gone.
		_, _ = w.Write(fileText(0))
	}))
	if err != nil {
		return err
	}
	defer files.Close() //nolint:errcheck // nobody uses it any more
	s, err := install(ctx, c.sluice, map[string]map[string]string{
		"config-defaults": {"default-maximum-resolution-timeout": "1h"},
		"http-resolver-config": {
			"allowed-addresses": allowLoopback, "allow-plain-http": "true", "fetch-timeout": "1h", "slow-after": "0s", "spare-fetches": "0",
			"max-fetches": fmt.Sprint(replicaFetches), "max-fetches-per-namespace": fmt.Sprint(replicaFetches),
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = c.closeSystem(s, err) }()
	ctx, cancel := context.WithTimeout(ctx, scaleTimeout)
	defer cancel()
	roles, err := s.start(ctx, "resolution", "resolver-http")
	if err != nil {
		return err
	}
	if err := c.replicas(ctx, s, files); err != nil {
		return err
	}
	return c.pending(ctx, s, roles, files.url("/held/%d.yaml"), release)
}

// replicas has the same work done by one replica and then by two. What bounds it is the time of the remote.
func (c *config) replicas(ctx context.Context, s *system, files *server) error {
	rows := [][]string{{"replicas", "wall", "requests per second", "of one", "load"}}
	var one float64
	for n := 1; n <= 2; n++ {
		if n == 2 {
			if _, err := s.start(ctx, "resolver-http"); err != nil {
				return err
			}
		}
		namespace := fmt.Sprintf("replicas-%d", n)
		if err := s.namespace(ctx, namespace); err != nil {
			return err
		}
		w, err := s.watch(ctx, namespace)
		if err != nil {
			return err
		}
		out, err := w.run(ctx, "r", replicaCount, creators, false, func(i int) ask {
			return ask{"http", [][2]string{{"url", files.url(fmt.Sprintf("/%s/%d.yaml", namespace, i))}}}
		})
		if err == nil && out.succeeded != replicaCount {
			err = fmt.Errorf("%d of %d succeeded: %v", out.succeeded, replicaCount, out.failures)
		}
		w.stop()
		if err != nil {
			return err
		}
		rate := replicaCount / out.wall.Seconds()
		if n == 1 {
			one = rate
		}
		rows = append(rows, []string{fmt.Sprint(n), fmt.Sprintf("%.2f s", out.wall.Seconds()), fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.2f times", rate/one), loadAverage()})
	}
	rows = append(rows, []string{"aim", "", "", "1.6 times", ""})
	fmt.Fprintf(c.out, "%d requests for files of a server that takes %s for each; a replica runs %d fetches at once\n", replicaCount, remoteTime, replicaFetches)
	c.table(rows...)
	return nil
}

// pending has very many requests wait for a server that says nothing, and then answers all at once.
func (c *config) pending(ctx context.Context, s *system, roles []*role, url string, release func()) error {
	const namespace = "pending"
	if err := s.namespace(ctx, namespace); err != nil {
		return err
	}
	w, err := s.watch(ctx, namespace)
	if err != nil {
		return err
	}
	defer w.stop()
	memory := func() []string {
		out := make([]string, 0, len(roles))
		for _, r := range roles {
			out = append(out, mebibytes(memoryOf(r.PID(), "VmRSS")))
		}
		return out
	}
	before := memory()
	type result struct {
		outcome

		err error
	}
	done := make(chan result, 1)
	begin := time.Now()
	go func() {
		out, err := w.run(ctx, "r", pendingCount, creators, false, func(i int) ask {
			return ask{"http", [][2]string{{"url", fmt.Sprintf(url, i)}}}
		})
		done <- result{out, err}
	}()
	if err := untilAfter(ctx, scaleTimeout, "all to wait", func() error {
		select {
		case r := <-done:
			return errors.Join(errors.New("they have ended"), r.err)
		default:
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.waiting); n < pendingCount {
			return fmt.Errorf("%w: %d wait", errNotYet, n)
		}
		return nil
	}); err != nil {
		return err
	}
	created := time.Since(begin)
	waiting := memory()
	release()
	answered := time.Now()
	r := <-done
	if r.err != nil {
		return r.err
	}
	fmt.Fprintf(c.out, "\n%d requests, each for a file of its own, of a server that holds them up until all are there; two replicas\n", pendingCount)
	c.table(
		[]string{"", "before", "while all wait", "peak"},
		[]string{"memory of the lifecycle controller", before[0], waiting[0], mebibytes(memoryOf(roles[0].PID(), "VmHWM"))},
		[]string{"memory of one resolver", before[1], waiting[1], mebibytes(memoryOf(roles[1].PID(), "VmHWM"))},
	)
	c.table(
		[]string{"created in", "answered in", "succeeded", "load"},
		[]string{fmt.Sprintf("%.1f s", created.Seconds()), fmt.Sprintf("%.1f s", time.Since(answered).Seconds()), fmt.Sprintf("%d of %d", r.succeeded, r.asked), loadAverage()},
	)
	return nil
}

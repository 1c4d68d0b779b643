package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/controller/guard"
	"sluice.dev/internal/limit"
)

const (
	// guardCalls is the number of calls of each request, one after the other.
	guardCalls = 100
	// guardWarmUp is the number of calls before that.
	guardWarmUp = 5

	// guardYAML is the number of bytes of YAML that become about a megabyte in JSON.
	guardYAML = 27 << 16

	benchCRD = "engines.bench.example.com"
)

// guardCall is a request that is measured, and the code that its answer has to have.
type guardCall struct {
	name string
	code int
	send exchange
}

// guardLatency measures the time that the guard adds to changes of a CRD, on two sides: for the client, with the guard and without,
// and for the API server, which posts reviews to it. The guard is a process under its own ServiceAccount. Updates are dry runs, so
// all of them find the same CRD.
func guardLatency(ctx context.Context, c *config) (err error) {
	s, err := installRoles(ctx, c.sluice, []string{"--roles=" + guard.Role, "--guard-reads=bench.example.com"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	running, err := s.start(ctx, guard.Role)
	if err != nil {
		return err
	}
	crds := s.cluster.Server + "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	first, err := json.Marshal(mustCRD(bigCRD(guardYAML, "")))
	if err != nil {
		return err
	}
	if code, body, err := (exchange{s.admin, http.MethodPost, crds, "application/json", first}).do(ctx); err != nil || code != http.StatusCreated {
		return fmt.Errorf("the CRD was answered by %d %.300s (%w)", code, body, err)
	}
	var live []byte
	if err := until(ctx, "the CRD to be served", func() error {
		code, body, err := fetch(ctx, s.admin, crds+"/"+benchCRD)
		var crd apiextensionsv1.CustomResourceDefinition
		if err := cmp.Or(err, json.Unmarshal(body, &crd)); err != nil {
			return err
		}
		live = body
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%w (%d)", errNotYet, code)
	}); err != nil {
		return err
	}
	put := func(next []byte) exchange {
		return exchange{s.admin, http.MethodPut, crds + "/" + benchCRD + "?dryRun=All", "application/json", next}
	}
	label := exchange{s.admin, http.MethodPatch, crds + "/" + benchCRD + "?dryRun=All", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":"a"}}}`)}
	direct := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // measured on loopback
	posted := func(next []byte) (exchange, error) {
		review, err := json.Marshal(admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
			Request: &admissionv1.AdmissionRequest{
				UID: "bench", Name: benchCRD, Operation: admissionv1.Update, OldObject: runtime.RawExtension{Raw: live}, Object: runtime.RawExtension{Raw: next},
				Resource: metav1.GroupVersionResource{Group: apiextensionsv1.GroupName, Version: "v1", Resource: "customresourcedefinitions"},
			},
		})
		return exchange{direct, http.MethodPost, "https://" + s.guard + guard.Path + "?timeout=30s", "application/json", review}, err
	}
	var with, without, alone []guardCall
	for _, change := range []string{"safe change", "unsafe change"} {
		next, err := changedCRD(live, change)
		if err != nil {
			return err
		}
		code := http.StatusOK
		if change == "unsafe change" {
			code = http.StatusForbidden
		}
		review, err := posted(next)
		if err != nil {
			return err
		}
		with = append(with, guardCall{change + ", with the guard", code, put(next)})
		without = append(without, guardCall{change + ", without", http.StatusOK, put(next)})
		alone = append(alone, guardCall{change + ", the guard alone", http.StatusOK, review})
	}
	with = append(with, guardCall{"label, with the guard", http.StatusOK, label})
	without = append(without, guardCall{"label, without", http.StatusOK, label})

	rows := [][]string{{fmt.Sprintf("CRD of %.2f MB, %d times", float64(len(live))/1e6, guardCalls), "p50", "p99", "worst", "load"}}
	measure := func(calls []guardCall) error {
		for _, call := range calls {
			took, err := measureCalls(ctx, call)
			if err != nil {
				return err
			}
			rows = append(rows, []string{call.name, millis(quantile(took, 0.5)), millis(quantile(took, 0.99)), millis(took[len(took)-1]), loadAverage()})
		}
		return nil
	}
	if err := until(ctx, "the guard to act", func() error { return with[1].once(ctx) }); err != nil {
		return err
	}
	if err := errors.Join(measure(alone), measure(with)); err != nil {
		return err
	}
	memory := memoryOf(running[0].PID(), "VmHWM")
	if err := s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, guard.Configuration, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := until(ctx, "the guard to be off", func() error { return without[1].once(ctx) }); err != nil {
		return err
	}
	if err := measure(without); err != nil {
		return err
	}
	c.table(rows...)
	fmt.Fprintf(c.out, "peak memory of the guard: %.1f MiB\n", float64(memory)/1024)
	return nil
}

// mustCRD is a CRD that this program has written.
func mustCRD(text []byte) map[string]any {
	var out map[string]any
	if err := yaml.Unmarshal(text, &out); err != nil {
		return map[string]any{"error": err.Error()}
	}
	return out
}

// changedCRD gives the live CRD the spec of a changed one.
func changedCRD(live []byte, change string) ([]byte, error) {
	var crd map[string]any
	if err := json.Unmarshal(live, &crd); err != nil {
		return nil, err
	}
	crd["spec"] = mustCRD(bigCRD(guardYAML, change))["spec"]
	return json.Marshal(crd)
}

// exchange is a request that can be sent many times.
type exchange struct {
	client                   *http.Client
	method, url, contentType string
	body                     []byte
}

// do sends the request and returns code and body of the answer.
func (e exchange) do(ctx context.Context) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, e.method, e.url, bytes.NewReader(e.body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", e.contentType)
	resp, err := e.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	text, err := limit.ReadAll(resp.Body, 64<<20)
	return resp.StatusCode, text, err
}

// once sends the request and looks at the code of its answer.
func (c guardCall) once(ctx context.Context) error {
	code, body, err := c.send.do(ctx)
	if err == nil && code != c.code {
		err = fmt.Errorf("%s: %d %.300s", c.name, code, body)
	}
	return err
}

// measureCalls returns the durations of the calls, sorted.
func measureCalls(ctx context.Context, call guardCall) ([]time.Duration, error) {
	var took []time.Duration
	for i := range guardWarmUp + guardCalls {
		start := time.Now()
		if err := call.once(ctx); err != nil {
			return nil, err
		}
		if i >= guardWarmUp {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	return took, nil
}

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/internal/limit"
)

// floor measures the minimal work of the API server for a request: the same creations, and one write of each status as the resolver
// writes it, while no process of Sluice runs. Policies and the CRD exist, and nobody watches. The namespace is created for this.
func (c *config) floor(ctx context.Context, s *system, namespace string, what ask) error {
	if err := s.namespace(ctx, namespace); err != nil {
		return err
	}
	file, err := s.kubeconfig(ctx, "sluice-resolver-"+what.resolver)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return err
	}
	writer, err := clientFor(config)
	if err != nil {
		return err
	}
	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"data": base64.StdEncoding.EncodeToString(fileText(1)), "observedGeneration": 1,
		"annotations": map[string]string{"commit": "0123456789012345678901234567890123456789", "content-type": "application/x-yaml"},
		"refSource":   map[string]any{"uri": "git+http://127.0.0.1/catalog.git", "digest": map[string]string{"sha1": "0123456789012345678901234567890123456789"}, "entryPoint": filePath(1)},
		"source":      map[string]any{"uri": "git+http://127.0.0.1/catalog.git", "digest": map[string]string{"sha1": "0123456789012345678901234567890123456789"}, "entryPoint": filePath(1)},
		"conditions":  []map[string]string{{"type": "Succeeded", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}},
	}})
	if err != nil {
		return err
	}
	one := func(i int) error {
		name := fmt.Sprintf("r-%05d", i)
		code, text, err := s.create(ctx, namespace, what.body(name), false)
		if err != nil || code != http.StatusCreated {
			return errors.Join(err, fmt.Errorf("create %s: %d %s", name, code, text))
		}
		url := s.cluster.Server + fmt.Sprintf(requestsPath, namespace) + "/" + name + "/status?fieldManager=sluice"
		r, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, bytes.NewReader(status))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/merge-patch+json")
		r.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json")
		response, err := writer.Do(r)
		if err != nil {
			return err
		}
		defer response.Body.Close() //nolint:errcheck // it was only read
		answer, err := limit.ReadAll(response.Body, 1<<20)
		if err != nil || response.StatusCode != http.StatusOK {
			return errors.Join(err, fmt.Errorf("status of %s: %d %s", name, response.StatusCode, answer))
		}
		return nil
	}
	server, own := cpuOfTree(s.cluster.PID()), readStat(os.Getpid()).own
	var next atomic.Int64
	errs := make([]error, creators)
	var wg sync.WaitGroup
	for i := range creators {
		wg.Go(func() {
			for n := next.Add(1); n <= requestCount && errs[i] == nil; n = next.Add(1) {
				errs[i] = one(int(n))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	server, own = cpuOfTree(s.cluster.PID())-server, readStat(os.Getpid()).own-own
	fmt.Fprintf(c.out, "floor, %d creations with one write of the status each and nothing else: API server, etcd, controllers %s a request, %.0f requests per second by their CPU alone (client %s)\n",
		requestCount, millis(server/requestCount), float64(requestCount*runtime.NumCPU())/server.Seconds(), millis(own/requestCount))
	code, text, err := s.call(ctx, http.MethodDelete, s.cluster.Server+fmt.Sprintf(requestsPath, namespace), nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("delete the requests: %d %s", code, text)
	}
	return err
}

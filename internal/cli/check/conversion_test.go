package check

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/cluster"
	"sluice.dev/report"
	"sluice.dev/tools/convertfaults"
)

// clock is a clock that slow conversions set forward.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// serveWidgets starts a conversion webhook with a fault, and returns its address and its CA in PEM.
func serveWidgets(t *testing.T, fault string, c *clock) (address string, ca []byte) {
	t.Helper()
	server := httptest.NewUnstartedServer(convertfaults.Webhook(convertfaults.Widgets(fault, c.sleep)))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // panics are expected
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// runConversion runs check conversion, and returns the report.
func runConversion(t *testing.T, c *clock, args ...string) (report.CRD, error) {
	t.Helper()
	var out, errs bytes.Buffer
	e := &command.Env{In: strings.NewReader(""), Out: &out, Err: &errs, Now: c.now, Getenv: func(string) string { return "" }}
	cmd := newConversion(e)
	cmd.SetArgs(append(args, "-o", "json"))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	var doc struct{ CRDs []report.CRD }
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
	}
	if len(doc.CRDs) == 0 {
		return report.CRD{}, err
	}
	return doc.CRDs[0], err
}

// manifestFor writes the CRD of widgets with the address of a webhook.
func manifestFor(t *testing.T, address string, ca []byte) string {
	t.Helper()
	text := strings.Replace(string(convertfaults.Manifest), "url: https://127.0.0.1:9443/convert", "url: "+address+"/convert\n        caBundle: "+base64.StdEncoding.EncodeToString(ca), 1)
	file := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFaultsOfAWebhookAreFound(t *testing.T) {
	for _, x := range append([]convertfaults.Fault{{}}, convertfaults.Faults...) {
		t.Run(x.Name, func(t *testing.T) {
			c := &clock{at: time.Unix(0, 0)}
			address, ca := serveWidgets(t, x.Name, c)
			got, err := runConversion(t, c, manifestFor(t, address, ca), "--random", "60")
			if x.Name == "" {
				if err != nil || got.Verdict != report.Safe || len(got.Findings) != 2 {
					t.Fatalf("%v: %+v", err, got)
				}
				return
			}
			at := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == x.Rule && f.Path == x.Path && f.Version == "v1beta1" })
			if at < 0 {
				t.Fatalf("%v: no finding of %s at %q: %+v", err, x.Rule, x.Path, got.Findings)
			}
			if f := got.Findings[at]; !strings.Contains(f.Witness.Object, x.Witness) || errors.Is(err, command.ErrFindings) != (f.Severity == report.Fail) {
				t.Errorf("%v, severity %s, witness\n%s\nwant %q", err, f.Severity, f.Witness.Object, x.Witness)
			}
		})
	}
}

func TestAConverterAtAURLNeedsItsCA(t *testing.T) {
	c := &clock{at: time.Unix(0, 0)}
	address, ca := serveWidgets(t, "", c)
	file, caFile := manifestFor(t, "https://127.0.0.1:1", nil), filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(caFile, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := runConversion(t, c, file, "--converter", address, "--ca", caFile, "--random", "0"); err != nil || got.Verdict != report.Safe {
		t.Errorf("%v: %+v", err, got)
	}
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{file, "--converter", address}, "certificate"},
		{[]string{file, "--converter", address, "--ca", file}, "no certificate in PEM"},
		{[]string{file, "--converter", "ftp://x"}, "exec:PROGRAM"},
		{[]string{file, "--converter", "exec: "}, "name a program"},
		{[]string{file, "--crd", "gadgets.example.com"}, "no CRD gadgets.example.com"},
		{[]string{upgrade + "v1.yaml", "--converter", address, "--ca", caFile}, "nothing to convert"},
	} {
		if _, err := runConversion(t, c, x.args...); err == nil || errors.Is(err, command.ErrFindings) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v, want %q", x.args, err, x.want)
		}
	}
}

// TestAWebhookThatIsAServiceIsAskedThroughTheAPIServer: the local cluster has no nodes, so nothing can serve behind a service there.
func TestAWebhookThatIsAServiceIsAskedThroughTheAPIServer(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("POST /api/v1/namespaces/ns/services/https:hook:8443/proxy/convert", convertfaults.Webhook(convertfaults.Widgets("", nil)))
	server := httptest.NewServer(mux)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: '" + server.URL + "'}}], contexts: [{name: c, context: {cluster: c}}]}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Connect(cluster.Options{Kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	crd, err := convertfaults.CRD()
	if err != nil {
		t.Fatal(err)
	}
	crd.Spec.Conversion.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "ns", Name: "hook", Port: new(int32(8443)), Path: new("/convert")}}
	ck := &checker{Env: &command.Env{Err: io.Discard}, cluster: c}
	converter, stop, err := ck.converterFor(ownWebhook, nil, crd)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	review := &apiextensionsv1.ConversionReview{Request: &apiextensionsv1.ConversionRequest{UID: "1", DesiredAPIVersion: "example.com/v1"}}
	if answer, err := converter.Review(t.Context(), review); err != nil || answer.Response == nil || answer.Response.Result.Status != "Success" {
		t.Errorf("%v: %+v", err, answer)
	}
}

func TestAProgramThatWaitsForTheEndOfItsInputIsToldWhatToDo(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errNoAnswer)
	defer cancel()
	p := &program{args: []string{"sleep", "60"}, stderr: io.Discard}
	if _, err := p.Review(ctx, &apiextensionsv1.ConversionReview{}); err == nil || !strings.Contains(err.Error(), "standard input stays open") {
		t.Error(err)
	}
}

//go:build e2e

package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/report"
	"sluice.dev/tools/convertfaults"
	"sluice.dev/tools/kube"
)

// TestE2ECheckConversionOfALiveWebhook checks the webhook of a live CRD, which the API server uses as well, with the stored objects.
func TestE2ECheckConversionOfALiveWebhook(t *testing.T) {
	c := shared.Get(t)
	k, err := kube.New(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, dir := t.Context(), t.TempDir()
	var hook atomic.Pointer[http.Handler]
	serve := func(fault string) {
		h := convertfaults.Webhook(convertfaults.Widgets(fault, time.Sleep))
		hook.Store(&h)
	}
	serve("")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*hook.Load()).ServeHTTP(w, r) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // panics are expected
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	crd := strings.Replace(string(convertfaults.Manifest), "url: https://127.0.0.1:9443/convert", "url: "+server.URL+"/convert\n        caBundle: "+ca, 1)
	if err := k.Apply(ctx, write("crd.yaml", crd), false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.DeleteCRD(context.WithoutCancel(ctx), "widgets.example.com"); err != nil {
			t.Error(err)
		}
	})
	var objects strings.Builder
	for i := range 120 { // more than the first page
		fmt.Fprintf(&objects, "---\napiVersion: example.com/v1beta1\nkind: Widget\nmetadata: {name: w%d, namespace: default}\nspec: {color: c%d, size: %s, source: {image: i}}\n", i, i, []string{"S", "M", "L"}[i%3])
	}
	if _, errs, err := c.Kubectl(t, "", "create", "-f", write("objects.yaml", objects.String())); err != nil {
		t.Fatal(err, errs)
	}
	check := func() (int, report.CRD) {
		t.Helper()
		code, out, errs := sluice(t, "check", "conversion", "--kubeconfig", c.Kubeconfig, "--crd", "widgets.example.com", "-o", "json", "--max-time", "10s", "--random", "60")
		var doc struct{ CRDs []report.CRD }
		if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.CRDs) != 1 {
			t.Fatalf("exit code %d: %v %s%s", code, err, out, errs)
		}
		return code, doc.CRDs[0]
	}
	if code, got := check(); code != 0 || got.Verdict != report.Safe || !strings.Contains(fmt.Sprint(got.Findings), "120 stored objects") {
		t.Fatalf("exit code %d: %+v", code, got)
	}
	for _, x := range convertfaults.Faults {
		if x.Name == "slow answer" {
			continue // the fault takes seconds for each object, and a test with a clock of its own finds it
		}
		t.Run(x.Name, func(t *testing.T) {
			serve(x.Name)
			code, got := check()
			at := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == x.Rule && f.Version == "v1beta1" && f.Path == x.Path })
			if at < 0 {
				t.Fatalf("exit code %d, no finding of %s at %q: %+v", code, x.Rule, x.Path, got.Findings)
			}
			if f := got.Findings[at]; (code == 1) != (f.Severity == report.Fail) || !strings.Contains(f.Witness.Object, x.Witness) {
				t.Errorf("exit code %d: %+v\n%s", code, f, f.Witness.Object)
			}
		})
	}
	// The API server reads the objects with the same webhook, and shows what the check says.
	serve("enum mapped wrongly")
	_, got := check()
	at := slices.IndexFunc(got.Findings, func(f report.Finding) bool {
		return f.Rule == "conversion-loses-value" && f.Version == "v1" && f.Path == ".spec.size"
	})
	if at < 0 || got.Findings[at].Objects == nil || got.Findings[at].Objects.Checked != 120 || got.Findings[at].Objects.Affected != 40 {
		t.Errorf("stored objects: %+v", got.Findings)
	}
	file := write("v1.yaml", "apiVersion: example.com/v1beta1\nkind: Widget\nmetadata: {name: new, namespace: default}\nspec: {size: M}\n")
	out, errs, err := c.Kubectl(t, "", "create", "-f", file, "-o", "jsonpath={.spec.size}")
	if err != nil || out != "L" {
		t.Errorf("the API server returns %q for M: %v %s", out, err, errs)
	}
}

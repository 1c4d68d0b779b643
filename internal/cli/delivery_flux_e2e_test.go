//go:build e2e

package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/tools/bundletest"
)

// fluxCRD is the definition of a kind of sources, as far as a delivery reads it.
func fluxCRD(kind, plural string) string {
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.source.toolkit.fluxcd.io}
spec:
  group: source.toolkit.fluxcd.io
  scope: Namespaced
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]s, singular: %[3]s}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, kind, plural, strings.ToLower(kind))
}

// sourceController stands in for Flux's: it serves archives.
type sourceController struct {
	d      *deliveryWorld
	host   string
	mu     sync.Mutex
	served map[string][]byte
}

func newSourceController(d *deliveryWorld) *sourceController {
	s := &sourceController{d: d, served: map[string][]byte{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		data, ok := s.served[r.URL.Path]
		s.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		if _, err := w.Write(data); err != nil {
			d.t.Error(err)
		}
	}))
	d.t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	return s
}

// publish serves an archive of files, and gives the status of the source that has it.
func (s *sourceController) publish(revision string, files ...string) string {
	var list []bundletest.File
	for i := 0; i+1 < len(files); i += 2 {
		list = append(list, bundletest.File{Name: files[i], Data: []byte(files[i+1])})
	}
	data := bundletest.Gzip(bundletest.Tar(list...))
	sum := sha256.Sum256(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served["/"+revision+".tar.gz"] = data
	return s.status("http://"+s.host+"/"+revision+".tar.gz", "sha256:"+hex.EncodeToString(sum[:]), revision)
}

func (*sourceController) status(url, digest, revision string) string {
	return fmt.Sprintf(`{"status": {"artifact": {"url": %q, "digest": %q, "revision": %q, "size": 1, "path": "p", "lastUpdateTime": "2026-01-01T00:00:00Z"}}}`, url, digest, revision)
}

func (s *sourceController) create(kind, name string) {
	s.d.t.Helper()
	text := fmt.Sprintf("apiVersion: source.toolkit.fluxcd.io/v1\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec: {}\n", kind, name, s.d.namespace)
	until(s.d.t, kind+" to be served", func() error {
		_, errs, err := s.d.Kubectl(s.d.t, text, "apply", "-f", "-")
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		return nil
	})
}

func (s *sourceController) says(plural, name, status string) {
	s.d.t.Helper()
	of := schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: plural}
	if _, err := s.d.dynamic.Resource(of).Namespace(s.d.namespace).Patch(s.d.t.Context(), name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		s.d.t.Fatal(err)
	}
}

// A delivery takes what Flux has fetched, and says what is missing until it has.
func TestE2EDeliveryTakesSourcesOfFlux(t *testing.T) {
	d := newDeliveries(t)
	d.impersonate()
	d.grant("all", rule("", "configmaps"))
	flux := newSourceController(d)
	p := begin(t, d.Cluster, "delivery", nil, func(f *serveFlags) { f.flux = flux.host })
	defer stopped(t, p)
	from := func(kind, name, path string) func(*v1alpha1.DeliverySpec) {
		return func(s *v1alpha1.DeliverySpec) {
			s.Source, s.Prune = v1alpha1.DeliverySource{Flux: &v1alpha1.FluxSource{Kind: kind, Name: name, Path: path}}, true
			s.Interval = &metav1.Duration{Duration: 24 * time.Hour} // the source says when to deliver
		}
	}
	says := func(reason, words string, health status.Status) {
		t.Helper()
		d.patch("shop", fmt.Sprintf(`{"metadata": {"annotations": {"sluice.dev/reconcile-at": %q}}}`, words))
		d.reaches("shop", reason, func(o *v1alpha1.Delivery) error {
			for _, c := range o.Status.Conditions {
				if c.Type == v1alpha1.ConditionResolved && c.Reason == reason && strings.Contains(c.Message, words) {
					return nil
				}
			}
			return fmt.Errorf("%+v", o.Status.Conditions)
		})
		d.becomes("shop", health)
	}
	d.create("shop", from("GitRepository", "shop", "deploy"))
	says(v1alpha1.ReasonForbidden, "refused to the ServiceAccount deployer: gitrepositories.source.toolkit.fluxcd.io", status.FailedStatus)
	d.grant("flux", rule("source.toolkit.fluxcd.io", "gitrepositories", "ocirepositories", "buckets"))
	says(v1alpha1.ReasonResolutionFailed, "the cluster does not serve the kind GitRepository of source.toolkit.fluxcd.io/v1", status.FailedStatus)
	if _, errs, err := d.Kubectl(t, fluxCRD("GitRepository", "gitrepositories")+fluxCRD("OCIRepository", "ocirepositories")+fluxCRD("Bucket", "buckets"), "apply", "-f", "-"); err != nil {
		t.Fatal(err, errs)
	}
	says(v1alpha1.ReasonResolutionFailed, "there is no GitRepository shop in the namespace "+d.namespace, status.FailedStatus)
	flux.create("GitRepository", "shop")
	flux.says("gitrepositories", "shop", `{"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "GitOperationFailed", "message": "authentication required"}]}}`)
	says(v1alpha1.ReasonResolutionFailed, "the GitRepository shop has no artifact yet: authentication required", status.InProgressStatus)
	flux.says("gitrepositories", "shop", `{"status": {"conditions": [{"type": "Stalled", "status": "True"}, {"type": "Ready", "status": "False", "message": "no such URL"}]}}`)
	says(v1alpha1.ReasonResolutionFailed, "has no artifact yet: no such URL", status.FailedStatus)
	flux.says("gitrepositories", "shop", flux.status("http://"+flux.host+"/missing.tar.gz", "sha256:00", "r0"))
	says(v1alpha1.ReasonResolutionFailed, "404", status.InProgressStatus)
	flux.says("gitrepositories", "shop", flux.status("http://127.0.0.1:1/x.tar.gz", "sha256:00", "r0"))
	says(v1alpha1.ReasonResolutionFailed, "the artifact is at 127.0.0.1:1; only "+flux.host+" is allowed", status.FailedStatus)
	flux.publish("forged", "deploy/a.yaml", configMap("a", "k", "forged"))
	flux.says("gitrepositories", "shop", flux.status("http://"+flux.host+"/forged.tar.gz", "sha256:00", "r0"))
	says(v1alpha1.ReasonResolutionFailed, "want sha256:00", status.InProgressStatus)
	flux.says("gitrepositories", "shop", flux.publish("empty", "README.md", "words", "other/a.yaml", configMap("a")))
	says(v1alpha1.ReasonResolutionFailed, "the archive has no .yaml, .yml or .json file below /deploy/", status.FailedStatus)
	if _, err := d.data("a"); err == nil {
		t.Error("something was delivered")
	}

	flux.says("gitrepositories", "shop", flux.publish("main@sha1:1", "deploy/b.yaml", configMap("b"), "deploy/sub/a.yaml", configMap("a", "k", "1"), "other/c.yaml", configMap("c"), "LICENSE", "words"))
	o := d.applies("shop", "main@sha1:1")
	d.holds("a", "k", "1")
	if o.Status.Inventory.Objects != 2 || o.Status.Applied.EntryPoint != "deploy" || !strings.Contains(o.Status.Applied.URI, flux.host) {
		t.Errorf("%+v", o.Status)
	}
	// Flux has fetched another revision: it is delivered long before the interval, and what it lacks is pruned.
	flux.says("gitrepositories", "shop", flux.publish("main@sha1:2", "deploy/a.yaml", configMap("a", "k", "2")))
	d.applies("shop", "main@sha1:2")
	d.holds("a", "k", "2")
	if _, err := d.data("b"); err == nil {
		t.Error("b is left")
	}

	for kind, plural := range map[string]string{"OCIRepository": "ocirepositories", "Bucket": "buckets"} {
		flux.create(kind, "shop")
		flux.says(plural, "shop", flux.publish(plural+"@sha256:1", "x.json", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "from-`+plural+`"}, "data": {"k": "1"}}`))
		d.create(plural, from(kind, "shop", ""))
		d.applies(plural, plural+"@sha256:1")
		d.holds("from-"+plural, "k", "1")
	}
}

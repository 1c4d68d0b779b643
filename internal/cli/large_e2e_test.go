//go:build e2e

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	resolutionapi "sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
	resolvecmd "sluice.dev/internal/cli/resolve"
	"sluice.dev/internal/resolvers"
	"sluice.dev/requester"
	"sluice.dev/requester/contentstore"
	"sluice.dev/resolve"
	"sluice.dev/tools/clustertest"
)

// sized gives content of the size that it is asked for.
type sized struct{}

func (sized) Spec() resolve.Spec {
	return resolve.Spec{Name: "git", Doc: "Gives content.", Params: []resolve.Param{
		{Name: "size", Required: true, Doc: "Bytes."}, {Name: "form", Default: "text", Allowed: []string{"text", "noise"}, Doc: "What it is like."},
	}}
}

func (sized) Resolve(_ context.Context, r *resolve.Request) (*resolve.Resource, error) {
	n, err := strconv.Atoi(r.Get("size"))
	if err != nil {
		return nil, err
	}
	data := content(n, r.Get("form"))
	return &resolve.Resource{Data: data, Source: resolve.Source{URI: "sized:", Digest: resolve.SHA256(data)}}, nil
}

func content(n int, form string) []byte {
	if form == "text" {
		return bytes.Repeat([]byte("# text\n"), n/7+1)[:n]
	}
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(out) // it never fails
	return out
}

func sizes() []resolvers.Entry {
	return []resolvers.Entry{{Name: "git", Spec: sized{}.Spec, New: func(context.Context, resolvers.Env) (resolve.Resolver, error) {
		return sized{}, nil
	}}}
}

func registryOnLoopback(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://") + "/contents"
}

func ask(t *testing.T, client versioned.Interface, name string, size int, form string) *v1beta1.ResolutionRequest {
	t.Helper()
	requests := client.ResolutionV1beta1().ResolutionRequests("default")
	_, err := requests.Create(t.Context(), &v1beta1.ResolutionRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{resolutionapi.LabelType: "git"}},
		Spec: v1beta1.ResolutionRequestSpec{Params: []v1beta1.Param{
			{Name: "size", Value: v1beta1.StringValue(strconv.Itoa(size))}, {Name: "form", Value: v1beta1.StringValue(form)},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got *v1beta1.ResolutionRequest
	until(t, name+" to end", func() error {
		var err error
		if got, err = requests.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !got.Status.Finished() {
			return fmt.Errorf("status %+v", got.Status.Conditions)
		}
		return nil
	})
	return got
}

func TestE2EContentThatIsTooLargeForARequest(t *testing.T) {
	c := shared.Get(t)
	manifests(t, c)
	repository := registryOnLoopback(t)
	store, err := contentstore.New(repository, contentstore.Options{PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	client := versioned.NewForConfigOrDie(c.Config())
	processes := []running{begin(t, c, "resolution", sizes(), nil), begin(t, c, "resolver-git", sizes(), func(f *serveFlags) {
		f.Compress, f.StoreFlags.Store, f.StorePlainHTTP, f.MaxContent = true, repository, true, 4<<20
	})}
	for name, test := range map[string]struct {
		size  int
		form  string
		where string
		want  string // what the failure says
	}{
		"large-inline":     {1 << 20, "noise", "inline", ""},
		"large-compressed": {4 << 20, "text", "gzip", ""},
		"large-stored":     {4 << 20, "noise", "store", ""},
		"large-refused":    {4<<20 + 1, "text", "", "4194305 bytes, over the limit of 4194304 bytes"},
	} {
		r := ask(t, client, name, test.size, test.form)
		s := r.Status
		where := ""
		switch {
		case s.DataRef != "" && s.Data == "":
			where = "store"
		case s.DataEncoding != "":
			where = s.DataEncoding
		case s.Data != "":
			where = "inline"
		}
		if condition := s.Succeeded(); where != test.where || (condition.Status == metav1.ConditionTrue) != (test.want == "") || !strings.Contains(condition.Message, test.want) {
			t.Errorf("%s: it is %q, %+v", name, where, condition)
		}
		if test.want != "" {
			continue
		}
		q := requester.Requester{Store: store}
		got, err := q.Outcome(t.Context(), r)
		if err != nil || !bytes.Equal(got.Data, content(test.size, test.form)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	file := write(t, t.TempDir(), "request.yaml", fmt.Sprintf(`{apiVersion: resolution.tekton.dev/v1beta1, kind: ResolutionRequest,
  metadata: {name: large-cli, namespace: default, labels: {resolution.tekton.dev/type: git}},
  spec: {params: [{name: size, value: "%d"}, {name: form, value: noise}]}}`, 2<<20))
	if code, out, errs := sluice(t, "resolve", "--kubeconfig", c.Kubeconfig, "-f", file, "--store", repository, "--store-plain-http"); code != ExitOK || out != string(content(2<<20, "noise")) {
		t.Errorf("exit code %d, %d bytes, %s", code, len(out), errs)
	}
	for want, more := range map[string][]string{
		"is not set up to read it":     nil,
		"the store is reg.test/c":      {"--store", "reg.test/c"},
		"no repository of the form":    {"--store", "nothing"},
		"--store-credentials: open no": {"--store", "reg.test/c", "--store-credentials", "no"},
	} {
		if code, out, errs := sluice(t, append([]string{"resolve", "--kubeconfig", c.Kubeconfig, "-f", file}, more...)...); code != ExitFailed || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %d bytes, %s", more, code, len(out), errs)
		}
	}
	code, out, errs := sluice(t, "resolve", "ls", "--kubeconfig", c.Kubeconfig, "-n", "default", "-o", "json")
	var list struct{ Items []resolvecmd.Summary }
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != ExitOK {
		t.Fatalf("exit code %d, %v, %s", code, err, errs)
	}
	got := map[string]int{}
	for _, i := range list.Items {
		got[i.Name] = i.Bytes
	}
	if diff := cmp.Diff(map[string]int{"large-inline": 1 << 20, "large-compressed": 4 << 20, "large-stored": 4 << 20, "large-refused": 0}, got); diff != "" {
		t.Error(diff)
	}
	if err := client.ResolutionV1beta1().ResolutionRequests("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	for _, p := range processes {
		if err := p.stop(); err != nil || p.loggedComplaints() != "" {
			t.Errorf("%v %s", err, p.log)
		}
	}
}

// Beside Tekton the CRD is Tekton's, which has no field for large content and would drop it.
func TestE2ELargeContentIsRefusedWhereTheAPIHasNoPlaceForIt(t *testing.T) {
	c := clustertest.Start(t)
	manifests(t, c)
	crds := apiextensions.NewForConfigOrDie(c.Config()).ApiextensionsV1().CustomResourceDefinitions()
	crd, err := crds.Get(t.Context(), "resolutionrequests.resolution.tekton.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		for name := range v.Schema.OpenAPIV3Schema.Properties["status"].Properties {
			if strings.HasPrefix(name, "data") && name != "data" {
				delete(v.Schema.OpenAPIV3Schema.Properties["status"].Properties, name)
			}
		}
	}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	if _, err := crds.Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the API to forget the fields", func() error {
		for _, path := range []string{"/openapi/v3/apis/resolution.tekton.dev/v1beta1"} {
			text, err := kubernetes.NewForConfigOrDie(c.Config()).RESTClient().Get().AbsPath(path).Do(t.Context()).Raw()
			if err != nil || bytes.Contains(text, []byte("dataRef")) || !bytes.Contains(text, []byte("entryPoint")) {
				return fmt.Errorf("%w in %d bytes", err, len(text))
			}
		}
		return nil
	})
	repository := registryOnLoopback(t)
	p := begin(t, c, "resolver-git", sizes(), func(f *serveFlags) {
		f.Compress, f.StoreFlags.Store, f.StorePlainHTTP, f.MaxContent = true, repository, true, 4<<20
	})
	client := versioned.NewForConfigOrDie(c.Config())
	for _, form := range []string{"text", "noise"} {
		r := ask(t, client, form, 2<<20, form)
		if s := r.Status.Succeeded(); s.Status != metav1.ConditionFalse || !strings.Contains(s.Message, "ContentTooLarge: the content has 2097152 bytes, over the limit of 1048576 bytes") || !strings.Contains(s.Message, "have no field") {
			t.Errorf("%s: %+v", form, s)
		}
	}
	if err := p.stop(); err != nil || p.loggedComplaints() != "" {
		t.Errorf("%v %s", err, p.log)
	}
}

//go:build e2e

package e2e

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// settingsStay installs Sluice by kubectl, twice, over ConfigMaps that an operator has filled in by each of the ways that
// there are.
func settingsStay(t *testing.T, s *system) {
	kubectl := func(t *testing.T, stdin string, args ...string) {
		t.Helper()
		if _, errs, err := s.cluster.Kubectl(t, stdin, args...); err != nil {
			t.Fatalf("kubectl %v: %v: %s", args, err, errs)
		}
	}
	text := func(namespace, name string, data map[string]string) string {
		lines := []string{"apiVersion: v1", "kind: ConfigMap", "metadata: {name: " + name + ", namespace: " + namespace + "}", "data:"}
		for _, k := range slices.Sorted(maps.Keys(data)) {
			lines = append(lines, "  "+k+": "+`"`+data[k]+`"`)
		}
		return strings.Join(lines, "\n") + "\n"
	}
	ways := map[string][]string{
		"kubectl apply":               {"apply"},
		"kubectl apply --server-side": {"apply", "--server-side"},
		"kubectl create":              {"create"},
	}
	// One key is of those that the installation is about, the other is not.
	settings := map[string]map[string]string{
		"git-resolver-config":     {"allow-private-requested-addresses": "false", "default-revision": "trunk"},
		"http-resolver-config":    {"allow-plain-http": "false", "fetch-timeout": "7s"},
		"hubresolver-config":      {"allow-plain-http": "false", "default-kind": "pipeline"},
		"bundleresolver-config":   {"default-kind": "pipeline"},
		"cluster-resolver-config": {"allowed-namespaces": "team-a"},
		"resolver-cache-config":   {"max-size": "7"},
		"resolvers-feature-flags": {"enable-hub-resolver": "false"},
		"config-defaults":         {"default-maximum-resolution-timeout": "2m"},
	}
	all := ""
	for name, data := range settings {
		all += "---\n" + text(s.configNamespace, name, data)
	}
	configs := s.kube.CoreV1().ConfigMaps(s.configNamespace)
	for way, set := range ways {
		t.Run(way, func(t *testing.T) {
			kubectl(t, all, append(slices.Clone(set), "-f", "-")...)
			for range 2 {
				// Other tests have installed the same objects by another name.
				kubectl(t, sluice(t, "manifests", "--image=example.test/sluice:v1", "--roles="+strings.Join(resolving, ","), "--beside-tekton", "--wide-addresses", "--wide-credentials"), "apply", "--server-side", "--force-conflicts", "-f", "-")
			}
			for name, data := range settings {
				now, err := configs.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					t.Error(err)
				} else if diff := cmp.Diff(data, now.Data); diff != "" {
					t.Errorf("%s is not what the operator has set: %s", name, diff)
				}
			}
			kubectl(t, all, "delete", "-f", "-")
		})
	}
}

// sluice runs a command that needs no cluster and returns what it prints.
func sluice(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = []string{asSluice + "=1", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sluice %v: %v: %s", args, err, errs.String())
	}
	return string(out)
}

// wideDefaults shows that the wide defaults open what no key closes, and close nothing that a key opens.
func wideDefaults(t *testing.T, s *system) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write([]byte(taskText)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	for key, want := range map[string]bool{"": true, "true": true, "false": false} {
		t.Run("allow-plain-http: "+key, func(t *testing.T) {
			data := map[string]string{"allowed-addresses": "127.0.0.1"}
			if key != "" {
				data["allow-plain-http"] = key
			}
			s.configure(t, "http-resolver-config", data)
			s.start(t, "resolver-http", flagged("--wide-addresses"))
			r := s.resolve(t, s.namespace(t), newRequest("wide", "http", "url", server.URL+"/task.yaml"))
			if got := r.Status.Succeeded().Status == metav1.ConditionTrue; got != want {
				t.Errorf("fetched by plain http: %v: %s", got, r.Status.Succeeded().Message)
			}
		})
	}
}

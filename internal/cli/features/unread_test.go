package features

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// closedSettings serves two components to somebody who may read the settings of the second only, and counts writes.
func closedSettings(t *testing.T) (kubeconfig string, writes *int) {
	t.Helper()
	writes = new(int)
	const (
		item  = `{"apiVersion": "sluice.dev/v1alpha1", "kind": %q, "metadata": {"name": %q}, "spec": %s, "status": %s}`
		stage = `"stages": [{"stage": "Alpha", "release": "v1.0.0"}]`
	)
	answers := map[string]string{
		"/apis/sluice.dev/v1alpha1/components": `{"kind": "List", "metadata": {}, "items": [` +
			fmt.Sprintf(item, "Component", "closed", `{"release": "v1.5.0", "configMap": {"namespace": "ns", "name": "secret"}}`, "{}") + "," +
			fmt.Sprintf(item, "Component", "free", `{"release": "v1.5.0", "configMap": {"namespace": "ns", "name": "public"}}`, "{}") + `]}`,
		"/apis/sluice.dev/v1alpha1/features": `{"kind": "List", "metadata": {}, "items": [` +
			fmt.Sprintf(item, "Feature", "closed.one", `{"component": "closed", "gate": "One", `+stage+`}`,
				`{"enabled": true, "why": "the settings say on", "conditions": [{"type": "Skew", "status": "True", "message": "webhook disagrees"}]}`) + "," +
			fmt.Sprintf(item, "Feature", "free.two", `{"component": "free", "gate": "Two", `+stage+`}`, "{}") + `]}`,
		"/apis/sluice.dev/v1alpha1/featurereports": `{"kind": "List", "metadata": {}, "items": []}`,
		"/api/v1/namespaces/ns/configmaps/public":  `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "public"}, "data": {"two": "true"}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			*writes++
		}
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusForbidden)
			answer = `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "you may not"}`
		}
		if _, err := w.Write([]byte(answer)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, writes
}

func TestSettingsThatCannotBeReadHideNothingElse(t *testing.T) {
	kubeconfig, writes := closedSettings(t)
	for _, tt := range []struct {
		name, args string
		code       int
		out, err   []string
	}{
		{
			"list", "list", 0,
			[]string{"closed     One   Alpha  false    true     -       the settings say on", "free       Two   Alpha  false    true     -       the settings say on"},
			[]string{"note: what is on is what the status of the features says: the settings of closed: you may not"},
		},
		{
			"get", "get one", 0,
			[]string{"Enabled:  true: the settings say on", "Skew:     webhook disagrees"},
			[]string{"note: what is on is what the status of the features says: the settings of closed"},
		},
		{"get another", "get two -o json", 0, []string{`"enabled": true`}, nil},
		{"skew of a readable component", "skew free", 0, []string{"free: "}, nil},
		{"skew", "skew", 2, []string{"free: "}, []string{"the settings of closed: you may not"}},
		{"disable", "disable one", 2, nil, []string{"the settings of closed: you may not"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := runFeatures(t, append(strings.Fields(tt.args), "--kubeconfig", kubeconfig), &out, &errs)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, want := range tt.out {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q lacks %q", out.String(), want)
				}
			}
			for _, want := range tt.err {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("%q lacks %q", errs.String(), want)
				}
			}
			if tt.err == nil && errs.Len() > 0 {
				t.Errorf("says %q", errs.String())
			}
		})
	}
	if *writes > 0 {
		t.Errorf("%d writes", *writes)
	}
}

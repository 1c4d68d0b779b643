package check

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"sluice.dev/internal/cli/command"
)

const upgrade = "../../../examples/upgrade/"

// fakeCluster is an API server with the example's CRD. It answers a list of its objects by list.
func fakeCluster(t *testing.T, list http.HandlerFunc) (kubeconfig string) {
	t.Helper()
	crd, err := os.ReadFile(upgrade + "v1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if crd, err = yaml.YAMLToJSON(crd); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	reply := func(path string, body []byte) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body)
		})
	}
	reply("/version", []byte(`{"major":"1","minor":"36"}`))
	reply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/databases.example.sluice.dev", crd)
	reply("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", []byte(`{"status":{"allowed":true}}`))
	mux.HandleFunc("/apis/example.sluice.dev/v1/databases", list)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
"clusters":[{"name":"x","cluster":{"server":%q}}],"users":[{"name":"x","user":{}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// databases answers with n objects of which every second one has an engine that the unsafe version drops.
func databases(n int, meta string) string {
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`{"apiVersion":"example.sluice.dev/v1","kind":"Database","metadata":{"name":"db-%d","namespace":"default"},"spec":{"engine":%q,"replicas":1,"storage":{"size":"1Gi"}}}`,
			i, []string{"mariadb", "mysql"}[i%2]))
	}
	return `{"apiVersion":"example.sluice.dev/v1","kind":"DatabaseList","metadata":{` + meta + `},"items":[` + strings.Join(items, ",") + `]}`
}

func runCheck(t *testing.T, terminal bool, now func() time.Time, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	e := &command.Env{In: strings.NewReader(""), Out: &out, Err: &errs, Now: now, Getenv: func(string) string { return "" }, ErrTTY: terminal}
	code = command.Run(t.Context(), e, args, New)
	return code, out.String(), errs.String()
}

func TestStoredObjectsThatCannotAllBeReadGiveNoVerdict(t *testing.T) {
	answer := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}
	failure := func(code int, reason string) http.HandlerFunc {
		return answer(code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server says %s","reason":%q,"code":%d}`, reason, reason, code))
	}
	second := func(first, then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("continue") == "" {
				first(w, r)
				return
			}
			then(w, r)
		}
	}
	page := answer(http.StatusOK, databases(10, `"continue":"t"`))
	for name, c := range map[string]struct {
		list http.HandlerFunc
		want string
	}{
		"forbidden":            {failure(http.StatusForbidden, "Forbidden"), "no access to the cluster"},
		"expired":              {second(page, failure(http.StatusGone, "Expired")), "no longer has the state"},
		"junk":                 {answer(http.StatusOK, "<html>"), "not a list"},
		"junk in the end":      {second(page, answer(http.StatusOK, databases(10, "")+"x")), "not a list"},
		"cut within an object": {second(page, answer(http.StatusOK, databases(10, "")[:1500])), "broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := runCheck(t, false, time.Now, "--kubeconfig", fakeCluster(t, c.list), upgrade+"v2-unsafe.yaml")
			if code != command.ExitFailed || out != "" {
				t.Errorf("exit code %d, stdout %q", code, out)
			}
			if strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) || !strings.Contains(errs, "objects of databases.example.sluice.dev") {
				t.Errorf("stderr %q, want one line with %q", errs, c.want)
			}
		})
	}
}

func TestAListingThatGoesOnWithANewerStateIsTold(t *testing.T) {
	kubeconfig := fakeCluster(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Query().Get("continue") {
		case "":
			_, _ = w.Write([]byte(databases(10, `"continue":"old"`)))
		case "old":
			w.WriteHeader(http.StatusGone)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","metadata":{"continue":"new"},"status":"Failure","reason":"Expired","code":410}`))
		default:
			_, _ = w.Write([]byte(databases(4, "")))
		}
	})
	code, out, errs := runCheck(t, false, time.Now, "--kubeconfig", kubeconfig, upgrade+"v2-unsafe.yaml")
	if code != command.ExitFindings || !strings.Contains(out, "14 stored objects read in v1: 7 would be refused") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "warning: objects of databases.example.sluice.dev: ") {
		t.Errorf("stderr %q", errs)
	}
}

func TestObjectsAreShownInABarOnATerminalOnly(t *testing.T) {
	clock := time.Unix(0, 0)
	tick := func() time.Time { clock = clock.Add(time.Second); return clock }
	kubeconfig := fakeCluster(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("continue") == "" {
			_, _ = w.Write([]byte(databases(10, `"continue":"t","remainingItemCount":10`)))
			return
		}
		_, _ = w.Write([]byte(databases(10, "")))
	})
	_, _, errs := runCheck(t, true, tick, "--kubeconfig", kubeconfig, upgrade+"v3-safe.yaml")
	for _, want := range []string{"reading databases.example.sluice.dev [###############...............] 10 of 20\x1b[K", "[##############################] 20 of 20\x1b[K", "\r\x1b[K"} {
		if !strings.Contains(errs, want) {
			t.Errorf("stderr %q does not have %q", errs, want)
		}
	}
	if !strings.HasSuffix(errs, "\r\x1b[K") {
		t.Errorf("the bar is left: %q", errs)
	}
	if _, _, errs = runCheck(t, false, tick, "--kubeconfig", kubeconfig, upgrade+"v3-safe.yaml"); errs != "" {
		t.Errorf("without a terminal: %q", errs)
	}
}

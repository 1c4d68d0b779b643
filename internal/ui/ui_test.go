package ui

import (
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/cli/command"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func widget(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !is() {
		select {
		case <-deadline:
			t.Fatal("waited in vain for " + what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestAFollowerKnowsWhatTheUserMaySee follows a resource whose list in all namespaces is forbidden.
func TestAFollowerKnowsWhatTheUserMaySee(t *testing.T) {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{widgets: "WidgetList"},
		widget("mine", "a"), widget("theirs", "b"))
	client.PrependReactor("list", "widgets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetNamespace() == "" {
			return true, nil, apierrors.NewForbidden(widgets.GroupResource(), "", nil)
		}
		return false, nil, nil
	})
	w := &world{ctx: t.Context(), client: client}
	f := follow(w, widgets, "mine", metav1.ListOptions{}, func(o *metav1.PartialObjectMetadata) (string, bool) { return o.Name, true })
	if s := f.all(t.Context()); len(s.Items) != 1 || s.Items[0] != "a" || s.Scope != "mine" || !s.Complete || s.Err != nil {
		t.Fatalf("%+v", s)
	}
	before := f.version()
	to := client.Resource(widgets).Namespace("mine")
	until(t, "the watch", func() bool {
		for _, a := range client.Actions() {
			if a.GetVerb() == "watch" {
				return true
			}
		}
		return false
	})
	if _, err := to.Create(t.Context(), widget("mine", "c"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "what is new", func() bool { return len(f.all(t.Context()).Items) == 2 && f.version() > before })
	if err := to.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "what is gone", func() bool { s := f.all(t.Context()); return len(s.Items) == 1 && s.Items[0] == "c" })
}

func TestAFollowerSaysWhyItKnowsNothing(t *testing.T) {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{widgets: "WidgetList"})
	client.PrependReactor("list", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(widgets.GroupResource(), "")
	})
	w := &world{ctx: t.Context(), client: client}
	f := follow(w, widgets, "mine", metav1.ListOptions{}, func(o *metav1.PartialObjectMetadata) (string, bool) { return o.Name, true })
	s := f.all(t.Context())
	if got := explain(s.Err, "delivery"); s.Complete || !strings.Contains(got, "sluice manifests --roles=delivery") {
		t.Errorf("%+v: %s", s, got)
	}
	if got := follow(&world{lacks: fmt.Errorf("no kubeconfig")}, widgets, "", metav1.ListOptions{}, func(*metav1.PartialObjectMetadata) (int, bool) { return 0, true }).all(t.Context()); got.Err == nil {
		t.Error("nothing is said of a cluster that is not there")
	}
}

func TestOnlyLoopbackIsServed(t *testing.T) {
	for address, ok := range map[string]bool{"127.0.0.1:0": true, "0.0.0.0:0": false} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		t.Setenv("KUBECONFIG", "/nonexistent")
		e := &command.Env{Now: time.Now, Getenv: func(string) string { return "" }, Out: io.Discard, Err: io.Discard}
		if _, err := New(l, Options{Env: e, Flags: &command.ClusterFlags{}}); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestATableIsShownInPages(t *testing.T) {
	rows := make([]int, 2*rowsOfPage+3)
	for number, want := range map[int][3]int{1: {1, rowsOfPage, rowsOfPage}, 2: {rowsOfPage + 1, 2 * rowsOfPage, rowsOfPage}, 3: {2*rowsOfPage + 1, len(rows), 3}, 99: {2*rowsOfPage + 1, len(rows), 3}} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("/requests?phase=Failed&page=%d", number), nil)
		f := readFilter(r, "phase")
		shown, p := pageOf(rows, r, f.Page)
		if got := [3]int{p.First, p.Last, len(shown)}; got != want || p.All != len(rows) || f.Of["phase"] != "Failed" {
			t.Errorf("page %d: %v of %d, want %v", number, got, p.All, want)
		}
		if (p.After == "") != (p.Last == len(rows)) || (p.Before == "") != (p.First == 1) || p.After != "" && !strings.Contains(p.After, "phase=Failed") {
			t.Errorf("page %d: links %q and %q", number, p.Before, p.After)
		}
	}
	if shown, p := pageOf([]int(nil), httptest.NewRequestWithContext(t.Context(), "GET", "/", nil), 7); len(shown) != 0 || p.Before+p.After != "" {
		t.Errorf("no rows: %+v", p)
	}
}

func TestADeliverySaysWhyItIsStopped(t *testing.T) {
	for name, tt := range map[string]struct {
		status, reason, severity, want string
	}{
		"by a finding":                     {"False", v1alpha1.ReasonBlocked, "fail", "r: m"},
		"by something else":                {"False", v1alpha1.ReasonForbidden, "fail", ""},
		"delivered, in spite of a finding": {"True", "Delivered", "fail", "r: m"},
		"delivered, with a warning":        {"True", "Delivered", "warn", ""},
	} {
		d := &v1alpha1.Delivery{}
		d.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionStatus(tt.status), Reason: tt.reason}}
		d.Status.Report = &v1alpha1.DeliveryReport{Worst: []v1alpha1.DeliveryFinding{{Rule: "r", Message: "m", Severity: tt.severity}}}
		if got := rowOf(d).Stopped; got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestTextsAreShownAsTheyAre(t *testing.T) {
	for want, v := range map[string]v1beta1.ParamValue{
		`"a" & <b>`:   v1beta1.StringValue(`"a" & <b>`),
		`["a & b"]`:   v1beta1.ArrayValue("a & b"),
		`{"k":"<v>"}`: v1beta1.ObjectValue(map[string]string{"k": "<v>"}),
	} {
		if got := paramText(&v); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	now := time.Now()
	ago, _ := functions(&command.Env{Now: func() time.Time { return now }})["ago"].(func(time.Time) string)
	for after, want := range map[time.Duration]string{time.Minute: "now", 0: "now", -3 * time.Second: "3s ago"} {
		if got := ago(now.Add(after)); got != want {
			t.Errorf("%s: %q, want %q", after, got, want)
		}
	}
}

// TestWhatIsNotKnownIsNotDenied has a list that is still being read, and one that could not be read again.
func TestWhatIsNotKnownIsNotDenied(t *testing.T) {
	if got := (&snapshot[int]{}).statusText(""); got != "Reading, 0 so far …" {
		t.Error(got)
	}
	if got := (&snapshot[int]{Items: []int{1}, Complete: true, Err: io.ErrUnexpectedEOF}).statusText(""); !strings.HasSuffix(got, "(what is shown was read before)") {
		t.Error(got)
	}
	if got := (&snapshot[int]{Complete: true}).statusText(""); got != "" {
		t.Error(got)
	}
	w, now := newWorld(Options{Flags: &command.ClusterFlags{}}), time.Now()
	if w.topicVersion("features", now) == w.topicVersion("features", now.Add(staleTime)) {
		t.Error("settings, which are not watched, are not read again")
	}
}

// TestEachFeatureIsReachable opens the features of a file page by page.
func TestEachFeatureIsReachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	t.Setenv("KUBECONFIG", "/nonexistent")
	file := filepath.Join(t.TempDir(), "features.yaml")
	text := "apiVersion: sluice.dev/v1alpha1\nkind: Component\nmetadata: {name: many}\nspec: {release: v1.2.0}\n"
	write := func() {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const many = 2*rowsOfPage + 3
	for i := range many {
		text += fmt.Sprintf("---\napiVersion: sluice.dev/v1alpha1\nkind: Feature\nmetadata: {name: many.part%03d}\nspec: {component: many, gate: Part%03d, description: \"a\\u202Eb\", stages: [{stage: Alpha, release: v1.1.0}]}\n", i, i)
	}
	write()
	now := time.Now()
	e := &command.Env{Now: func() time.Time { return now }, Getenv: func(string) string { return "" }, Out: io.Discard, Err: io.Discard}
	s, err := New(l, Options{Env: e, Flags: &command.ClusterFlags{}, Features: []string{file}})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) string {
		r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		r.Host = s.host
		r.Header.Set("Cookie", "sluice-ui-"+s.host[strings.LastIndex(s.host, ":")+1:]+"="+s.token)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w.Body.String()
	}
	seen := 0
	for page := 1; page <= 3; page++ {
		seen += strings.Count(get(fmt.Sprintf("/features?page=%d", page)), `<a href="/features/many.part`)
	}
	if seen != many {
		t.Errorf("%d features, want %d", seen, many)
	}
	if got := get("/features/many.part001"); !strings.Contains(got, `a\u202eb`) || strings.Contains(got, "\u202e") {
		t.Errorf("a character that turns text around is not shown:\n%s", got)
	}
	text = strings.ReplaceAll(text, "Part001", "Part001New")
	write()
	now = now.Add(restTime)
	if got := get("/features?words=new"); !strings.Contains(got, "Part001New") {
		t.Errorf("the file is not read again:\n%s", got)
	}
}

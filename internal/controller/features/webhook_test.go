package features

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/admission"
)

// asked is an API server that knows what a webhook asks for, and counts the questions.
type asked struct {
	mu     sync.Mutex
	counts map[string]int
	broken bool
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")
	a.counts[at]++
	w.Header().Set("Content-Type", "application/json")
	var answer any = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: 500, Reason: "InternalError"}
	code := http.StatusInternalServerError
	switch {
	case a.broken:
	case strings.HasSuffix(at, "/subjectaccessreviews"):
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err == nil {
			review.Status.Allowed = review.Spec.User == "early" && review.Spec.ResourceAttributes.Name == "demo.refused"
			answer, code = review, http.StatusCreated
		}
	case strings.HasSuffix(at, "/components/there"):
		answer, code = v1alpha1.Component{TypeMeta: metav1.TypeMeta{APIVersion: "sluice.dev/v1alpha1", Kind: "Component"}, ObjectMeta: metav1.ObjectMeta{Name: "there"}}, http.StatusOK
	case strings.HasSuffix(at, "/components/going"):
		answer, code = v1alpha1.Component{
			TypeMeta: metav1.TypeMeta{APIVersion: "sluice.dev/v1alpha1", Kind: "Component"}, ObjectMeta: metav1.ObjectMeta{Name: "going", DeletionTimestamp: new(metav1.NewTime(usageStart))},
		}, http.StatusOK
	case strings.Contains(at, "/components/"):
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: 404, Reason: "NotFound"}
		code = http.StatusNotFound
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // who does not listen any more has given up
}

// RoundTrip answers a client without a network.
func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

func (a *asked) count(at string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[at]
}

// newTestWebhook is one that has what movesPlan says in force for the component demo.
func newTestWebhook(t *testing.T) (*Webhook, *asked, *clocktesting.FakeClock) {
	t.Helper()
	a := &asked{counts: map[string]int{}}
	config := &rest.Config{Host: "http://api.test", Transport: a, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}
	c := clocktesting.NewFakeClock(usageStart)
	api, err := newClient(config)
	if err != nil {
		t.Fatal(err)
	}
	h := &Webhook{
		Cluster: Cluster{Config: config, Kube: kubernetes.NewForConfigOrDie(config), Clock: c, Log: slog.New(slog.DiscardHandler)},
		Metrics: NewMetrics(prometheus.NewRegistry()), Requests: admission.NewIntake(1), api: api,
	}
	p := movesPlan(t, oldServer)
	h.judges = map[string]*judge{"demo": judgeOf(p)}
	return h, a, c
}

// post asks about a widget, and returns the status of the answer, and whether the widget passes.
func (h *Webhook) post(t *testing.T, component, user, object string) (code int, passes bool) {
	t.Helper()
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u", Operation: admissionv1.Create, Resource: metav1.GroupVersionResource{Group: "demo.dev", Version: "v1", Resource: "widgets"},
			UserInfo: authenticationv1.UserInfo{Username: user, Groups: []string{"a", "b"}},
		},
	}
	review.Request.Object.Raw = []byte(object)
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(HookPattern, h)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, hookPath(component, askReject), bytes.NewReader(body)))
	var answer admissionv1.AdmissionReview
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Response == nil || answer.Response.UID != "u" {
			t.Fatalf("%v: %s", err, w.Body)
		}
		passes = answer.Response.Allowed
	}
	return w.Code, passes
}

const usesRefused = `{"spec":{"refused":"x"}}`

func TestOptingInIsAskedOnceInAWhile(t *testing.T) {
	h, a, c := newTestWebhook(t)
	h.judges["demo"].model.Spec().OptIn = &v1alpha1.OptIn{RBAC: true}
	const reviews = "authorization.k8s.io/v1/subjectaccessreviews"
	for _, step := range []struct {
		what, user, object string
		after              time.Duration
		broken             bool
		passes             bool
		asked              int // in all
	}{
		{what: "an object that uses nothing", user: "early", object: `{"spec":{}}`, passes: true},
		{what: "the first", user: "early", object: usesRefused, passes: true, asked: 1},
		{what: "again", user: "early", object: usesRefused, passes: true, asked: 1},
		{what: "another user", user: "late", object: usesRefused, asked: 2},
		{what: "the other user again", user: "late", object: usesRefused, asked: 2},
		{what: "later", after: answersFor + time.Nanosecond, user: "early", object: usesRefused, passes: true, asked: 3},
		{what: "nobody answers", after: answersFor + time.Nanosecond, broken: true, user: "early", object: usesRefused, asked: 4},
		{what: "and does again: that was not remembered", user: "early", object: usesRefused, passes: true, asked: 5},
	} {
		c.Step(step.after)
		a.mu.Lock()
		a.broken = step.broken
		a.mu.Unlock()
		code, passes := h.post(t, "demo", step.user, step.object)
		if code != http.StatusOK || passes != step.passes || a.count(reviews) != step.asked {
			t.Errorf("%s: %d, passes %t; asked %d times, want %d", step.what, code, passes, a.count(reviews), step.asked)
		}
	}
}

func TestAComponentThatIsNotThereGatesNothing(t *testing.T) {
	h, a, c := newTestWebhook(t)
	type answer struct {
		Code   int
		Passes bool
	}
	for component, want := range map[string]answer{
		"demo": {http.StatusOK, false}, "gone": {http.StatusOK, true}, "going": {http.StatusOK, true}, "there": {http.StatusServiceUnavailable, false},
	} {
		code, passes := h.post(t, component, "u", usesRefused)
		if diff := cmp.Diff(want, answer{code, passes}); diff != "" {
			t.Errorf("%s: %s", component, diff)
		}
	}
	const at = "sluice.dev/v1alpha1/components/gone"
	h.post(t, "gone", "u", usesRefused)
	if n := a.count(at); n != 1 {
		t.Errorf("asked %d times", n)
	}
	c.Step(goneFor + time.Nanosecond)
	a.mu.Lock()
	a.broken = true
	a.mu.Unlock()
	if code, _ := h.post(t, "gone", "u", usesRefused); code != http.StatusServiceUnavailable || a.count(at) != 2 {
		t.Errorf("that nobody can be asked is answered with %d; asked %d times", code, a.count(at))
	}
}

// TestWritesOfWhatIsNotKnownYetLeaveQuestionsForOthers: a component may be there for long before its settings can be read.
func TestWritesOfWhatIsNotKnownYetLeaveQuestionsForOthers(t *testing.T) {
	h, a, c := newTestWebhook(t)
	const at = "sluice.dev/v1alpha1/components/there"
	for range 2 * goneMost {
		if code, _ := h.post(t, "there", "u", usesRefused); code != http.StatusServiceUnavailable {
			t.Fatalf("it is answered with %d", code)
		}
	}
	if n := a.count(at); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if code, passes := h.post(t, "gone", "u", usesRefused); code != http.StatusOK || !passes {
		t.Errorf("a component that was deleted: %d, passes %t", code, passes)
	}
	c.Step(goneFor + time.Nanosecond)
	if h.post(t, "there", "u", usesRefused); a.count(at) != 2 {
		t.Errorf("asked %d times after a while", a.count(at))
	}
}

// TestNamesThatAreMadeUpAreNoFloodOfQuestions: whoever reaches the port may ask about any name.
func TestNamesThatAreMadeUpAreNoFloodOfQuestions(t *testing.T) {
	synctest.Test(t, namesThatAreMadeUpAreNoFlood)
}

func namesThatAreMadeUpAreNoFlood(t *testing.T) {
	h, a, c := newTestWebhook(t)
	h.Requests = admission.NewIntake(4)
	all := func() (n int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for at, times := range a.counts {
			if strings.Contains(at, "/components/") {
				n += times
			}
		}
		return n
	}
	mux := http.NewServeMux()
	mux.Handle(HookPattern, h)
	for _, at := range []string{hookPath("a", askReject), hookPath("b", askDrop)} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader("no review")))
		if w.Code != http.StatusBadRequest {
			t.Errorf("what is no review is answered with %d", w.Code)
		}
	}
	for _, name := range []string{"Not-a-name", strings.Repeat("x", 300), "a..b"} {
		if code, _ := h.post(t, name, "u", usesRefused); code != http.StatusServiceUnavailable {
			t.Errorf("%s is answered with %d", name, code)
		}
	}
	if n := all(); n != 0 {
		t.Fatalf("asked %d times about what can be no component", n)
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if code, passes := h.post(t, "one", "u", usesRefused); code != http.StatusOK || !passes {
				t.Errorf("%d, passes %t", code, passes)
			}
		})
	}
	wg.Wait()
	if n := all(); n != 1 {
		t.Errorf("asked %d times about one name", n)
	}
	var refused atomic.Int32
	for i := range 20 * goneMost {
		wg.Go(func() {
			if code, _ := h.post(t, fmt.Sprintf("made-up-%d", i), "u", usesRefused); code == http.StatusServiceUnavailable {
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if n := all(); n != goneMost || refused.Load() != 20*goneMost-(goneMost-1) {
		t.Errorf("asked %d times, %d were told to try again", n, refused.Load())
	}
	if code, passes := h.post(t, "demo", "u", usesRefused); code != http.StatusOK || passes {
		t.Errorf("a component that is there: %d, passes %t", code, passes)
	}
	c.Step(time.Second)
	if code, passes := h.post(t, "later", "u", usesRefused); code != http.StatusOK || !passes || all() != goneMost+1 {
		t.Errorf("a while later: %d, passes %t; asked %d times", code, passes, all())
	}
}

func TestADefectThatAComponentShowsIsAnError(t *testing.T) {
	h, _, _ := newTestWebhook(t)
	_, err := h.workSafely(t.Context(), "shop", func(ctx context.Context, name string) (time.Duration, error) {
		_, again, err := h.updateJudge(ctx, nil, name)
		return again, err
	})
	if err == nil || strings.Contains(err.Error(), "runtime error") {
		t.Errorf("error %v", err)
	}
}

func TestTheComponentOfAWebhook(t *testing.T) {
	for name, want := range map[string]bool{
		"shop.reject" + hookSuffix:        true,
		"shop.reject.v1-v2" + hookSuffix:  true, // asked about these versions
		"shop.drop-version" + hookSuffix:  true,
		claimsName("shop", 1):             true,
		"shop2.reject" + hookSuffix:       false,
		"a-shop.reject" + hookSuffix:      false,
		"shop" + hookSuffix:               false,
		"shop.reject.webhook.example.com": false,
	} {
		if got := isHookOf(name, "shop"); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

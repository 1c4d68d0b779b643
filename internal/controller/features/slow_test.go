package features

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/api/v1alpha1"
)

// slowServer answers every write with a timeout, and counts them.
func slowServer(t *testing.T) (config *rest.Config, writes *int) {
	t.Helper()
	writes = new(int)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		*writes++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGatewayTimeout)
		status := apierrors.NewTimeoutError("the request took too long", 0).Status()
		_ = json.NewEncoder(w).Encode(&status)
	}))
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}, writes
}

func TestAfterATimeoutTheStatusComesBeforeFurtherWrites(t *testing.T) {
	config, writes := slowServer(t)
	s := standingSession(t)
	s.objects = &objects{kubernetes.NewForConfigOrDie(config).AdmissionregistrationV1().RESTClient()}
	s.Metrics = NewMetrics(prometheus.NewRegistry())
	m := movesModel(t, standingComponent, standingFeatures)
	settings, _ := m.ParseSettings(nil)
	p := planOf(t, m, settings, newServer)
	var wanted []object
	for _, o := range p.set.Objects() {
		wanted = append(wanted, withManagerLabel(o))
	}
	done := &outcome{failed: map[string]error{}, waiting: map[string]bool{}, fresh: map[string]bool{}}
	s.writeObjects(t.Context(), wanted, done)
	if *writes != 1 || len(wanted) < 2 || len(done.waiting) == 0 {
		t.Fatalf("%d writes of %d objects, %v wait", *writes, len(wanted), done.waiting)
	}
	_, reason, message := p.notAllEnforced([]string{"A", "B"}, []string{"A", "B"}, done)
	if cause, names, _ := strings.Cut(message, "; 2 of 2 features"); reason != v1alpha1.ReasonNotEnforced || !strings.Contains(cause, "in the time allotted") || names != ": A, B" {
		t.Errorf("%s: %s", reason, message)
	}
	if done.retryErrors() == nil {
		t.Error("the write is not tried again")
	}
}

func TestManyFeaturesAreCounted(t *testing.T) {
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprint("Gate", i))
	}
	p := &plan{features: make([]v1alpha1.Feature, 50)}
	_, _, message := p.notAllEnforced(names, names, &outcome{failed: map[string]error{"x": errors.New("not allowed")}})
	if !strings.HasPrefix(message, "not allowed; 50 of 50 features: Gate0, ") || !strings.HasSuffix(message, "Gate9, and 40 more") {
		t.Error(message)
	}
}

func TestANewComponentSaysThatItsPoliciesAreMade(t *testing.T) {
	var stored v1alpha1.Component
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&stored); err != nil || !strings.HasSuffix(r.URL.Path, "/components/demo/status") {
			t.Error(r.URL.Path, err)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&stored)
	}))
	t.Cleanup(api.Close)
	c, err := newClient(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	s := standingSession(t)
	s.api = c
	component := &v1alpha1.Component{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	component.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Group: "sluice.dev", Version: "v1alpha1", Kind: "Component"})
	if !s.announceWork(t.Context(), component) {
		t.Error("nothing was written")
	}
	is := meta.FindStatusCondition(stored.Status.Conditions, v1alpha1.ConditionEnforced)
	if is == nil || is.Status != metav1.ConditionUnknown || is.Reason != v1alpha1.ReasonNotObserved {
		t.Errorf("%+v", is)
	}
	config, _ := slowServer(t)
	if s.api, err = newClient(config); err != nil {
		t.Fatal(err)
	}
	if s.announceWork(t.Context(), &v1alpha1.Component{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}) {
		t.Error("a failed write counts as one")
	}
}

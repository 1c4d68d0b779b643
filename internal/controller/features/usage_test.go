package features

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/featureusage"
)

var usageStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const widgets = "widgets.demo.dev"

var errForbidden = fmt.Errorf("widgets.demo.dev: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "", errors.New("no")))

// usageOf counts for the component of movesPlan.
func usageOfPlan(t *testing.T) (*usage, *plan, *clocktesting.FakeClock) {
	t.Helper()
	c := clocktesting.NewFakeClock(usageStart)
	u := newUsage(c, 10*time.Minute, "own", slog.New(slog.DiscardHandler))
	p := movesPlan(t, newServer)
	u.setGated("demo", gatedWidgets(p.model))
	return u, p, c
}

func gatedWidgets(m *feature.Model) *gatedBy {
	return &gatedBy{model: m, resources: map[string]featureusage.Resource{widgets: {Group: "demo.dev", Resource: "widgets", Storage: "v1"}}}
}

// scanned has the next scan give numbers, as GATE=OBJECTS, or an error.
func scanned(t *testing.T, u *usage, err error, numbers map[string]int64) {
	t.Helper()
	name, _ := u.nextDue()
	components, scan := u.beginScan(name)
	if components == nil {
		t.Fatalf("nothing is to be scanned of %q", name)
	}
	r := &featureusage.Result{}
	for gate, n := range numbers {
		r.Usage = append(r.Usage, featureusage.Usage{Component: "demo", Gate: gate, Objects: n})
	}
	u.endScan(name, scan.Models, r, err)
}

func TestScansAreFarApart(t *testing.T) {
	u, p, c := usageOfPlan(t)
	in := func(what string, want time.Duration) {
		t.Helper()
		if name, wait := u.nextDue(); name != widgets || wait != want {
			t.Errorf("%s: %q in %s, want in %s", what, name, wait, want)
		}
	}
	in("the first", usageSettle)
	u.setGated("demo", gatedWidgets(p.model))
	c.Step(3 * time.Second)
	u.setGated("demo", gatedWidgets(movesPlan(t, newServer).model))
	in("a change before the first", 2*time.Second)
	c.Step(2 * time.Second)
	scanned(t, u, nil, nil)
	in("the next", 10*time.Minute)
	u.setGated("demo", gatedWidgets(p.model))
	in("a change at once", usageGap)
	c.Step(usageGap)
	scanned(t, u, nil, nil)
	c.Step(time.Minute)
	u.setGated("demo", gatedWidgets(movesPlan(t, newServer).model))
	in("a change later", usageSettle)

	// What is defined anew while it is scanned is scanned again.
	c.Step(usageSettle)
	_, scan := u.beginScan(widgets)
	u.setGated("demo", gatedWidgets(p.model))
	u.endScan(widgets, scan.Models, &featureusage.Result{}, nil)
	in("a change meanwhile", usageGap)
	c.Step(usageGap)
	scanned(t, u, errForbidden, nil)
	in("what could not be read", usageRetry)

	u.setGated("demo", nil)
	if name, _ := u.nextDue(); name != "" {
		t.Errorf("%q is counted for nobody", name)
	}
	u.endScan(widgets, scan.Models, &featureusage.Result{}, nil) // a scan that was under way
	if len(u.counts) > 0 {
		t.Errorf("%v is kept of what nobody gates", u.counts)
	}
}

// TestAFailureThatStaysIsLoggedOnce: what cannot be counted is tried every half minute, and an operator may want it so.
func TestAFailureThatStaysIsLoggedOnce(t *testing.T) {
	u, _, c := usageOfPlan(t)
	var log strings.Builder
	u.log = slog.New(slog.NewTextHandler(&log, nil))
	for _, err := range []error{errForbidden, errForbidden, errors.New("no answer"), nil, errForbidden, errForbidden} {
		scanned(t, u, err, nil)
		c.Step(10 * time.Minute)
	}
	if got := strings.Count(log.String(), "cannot be counted"); got != 3 {
		t.Errorf("%d lines, want 3, one for each new failure:\n%s", got, log.String())
	}
}

func TestOneScanIsForAllComponents(t *testing.T) {
	u, p, _ := usageOfPlan(t)
	u.setGated("other", gatedWidgets(p.model))
	components, scan := u.beginScan(widgets)
	if diff := cmp.Diff([]string{"demo", "other"}, components); diff != "" || len(scan.Models) != 2 || len(scan.Resources) != 1 {
		t.Errorf("%s; %d models, %d resources", diff, len(scan.Models), len(scan.Resources))
	}
	u.setGated("demo", nil)
	if components, _ := u.beginScan(widgets); len(components) != 1 {
		t.Errorf("%v", components)
	}
}

func TestScansRestBetweenPages(t *testing.T) {
	c := clocktesting.NewFakeClock(usageStart)
	u := newUsage(c, time.Minute, "own", slog.New(slog.DiscardHandler))
	rest := u.restBetweenPages()
	for page, want := range map[time.Duration]time.Duration{time.Second: 4 * time.Second, time.Minute: maxRest} {
		c.Step(page)
		done := make(chan error)
		go func() { done <- rest(t.Context()) }()
		for !c.HasWaiters() {
			select {
			case err := <-done:
				t.Fatalf("no rest after %s: %v", page, err)
			default:
			}
		}
		c.Step(want - time.Nanosecond)
		if !c.HasWaiters() {
			t.Errorf("the rest after %s is shorter than %s", page, want)
		}
		c.Step(time.Nanosecond)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestCountsInTheStatus goes through what becomes of the status of one feature, scan by scan.
func TestCountsInTheStatus(t *testing.T) {
	u, p, c := usageOfPlan(t)
	s := &session{Controller: &Controller{Cluster: Cluster{Clock: c}}, usage: u}
	m := p.model.Feature("Refused")
	f := &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	look := func() (changed bool) {
		before := f.Status.DeepCopy()
		s.countedStatus(p, f, m)
		return cmp.Diff(before, &f.Status) != ""
	}
	type state struct {
		InUse     int64 // -1: none
		Time      time.Duration
		Condition string
		Changed   bool
	}
	is := func(what string, want state) {
		t.Helper()
		got := state{InUse: -1, Changed: look()}
		if f.Status.InUse != nil {
			got.InUse = *f.Status.InUse
		}
		if f.Status.InUseTime != nil {
			got.Time = f.Status.InUseTime.Sub(usageStart)
		}
		if x := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionCounted); x != nil {
			got.Condition = string(x.Status) + " " + x.Reason
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		if look() {
			t.Errorf("%s: it is written again", what)
		}
	}
	const min = time.Minute
	is("before the first count", state{-1, 0, "Unknown NotCounted", true})
	scanned(t, u, errForbidden, nil)
	is("it may not be read", state{-1, 0, "Unknown CountForbidden", true})
	if text := f.Status.Conditions[0].Message; !strings.Contains(text, "--resource=widgets.demo.dev && kubectl create clusterrolebinding") || !strings.HasSuffix(text, "--serviceaccount=own:sluice-features") {
		t.Errorf("it does not say what to do: %s", text)
	}
	f.Status.InUse, f.Status.InUseTime = new(int64(7)), new(metav1.NewTime(usageStart))
	is("somebody else has recorded a count", state{7, 0, "Unknown CountForbidden", false})
	c.Step(min)
	scanned(t, u, nil, map[string]int64{"Refused": 3, "Warned": 5})
	is("counted", state{3, min, "True Counted", true})
	c.Step(10 * min)
	scanned(t, u, nil, map[string]int64{"Refused": 3})
	is("as many as before", state{3, min, "True Counted", false})
	c.Step(10 * min)
	scanned(t, u, nil, nil)
	is("none any more", state{0, 21 * min, "True Counted", true})
	c.Step(60 * min)
	scanned(t, u, nil, nil)
	is("an hour later", state{0, 81 * min, "True Counted", true})
	c.Step(10 * min)
	f.Status.InUse, f.Status.InUseTime = new(int64(9)), new(metav1.NewTime(c.Now()))
	is("somebody else has recorded a newer count", state{9, 91 * min, "True Counted", false})
	c.Step(10 * min)
	scanned(t, u, errors.New("the connection was lost"), nil)
	is("a count that fails once", state{9, 91 * min, "True Counted", false})
	c.Step(10 * min)
	scanned(t, u, errors.New("the connection was lost"), nil)
	is("counts that go on failing", state{-1, 0, "Unknown CountFailed", true})
	scanned(t, u, nil, map[string]int64{"Refused": 1})
	is("counted again", state{1, 111 * min, "True Counted", true})
	p.model = movesPlan(t, newServer).model
	u.setGated("demo", gatedWidgets(p.model))
	is("defined anew", state{1, 111 * min, "True Counted", false})
	scanned(t, u, errForbidden, nil)
	is("the right is taken away", state{-1, 0, "Unknown CountForbidden", true})
	u.interval = -1
	is("it is not to be counted", state{-1, 0, "", true})
}

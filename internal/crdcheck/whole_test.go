package crdcheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"sigs.k8s.io/yaml"

	"sluice.dev/compat"
	"sluice.dev/internal/cluster"
	"sluice.dev/report"
	"sluice.dev/tools/memapi"
)

// crd is a CRD whose field size has a type.
func crd(t *testing.T, name, fieldType string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.test.dev}
spec:
  group: test.dev
  scope: Namespaced
  names: {plural: %[1]ss, singular: %[1]s, kind: %[1]s, listKind: %[1]sList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {size: {type: %[2]s}}}}
`, name, fieldType), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestResultsAreInTheOrderOfThePairs(t *testing.T) {
	t.Parallel()
	var pairs []Pair
	var names []string
	for i := range 40 {
		name := fmt.Sprintf("k%02d", 39-i)
		old, next := crd(t, name, "integer"), crd(t, name, "integer")
		if i%2 == 1 {
			next = crd(t, name, "string")
		}
		pairs = append(pairs, Pair{old, next})
		names = append(names, name+"s.test.dev")
	}
	var calls, most atomic.Int64
	got, err := Compare(t.Context(), pairs, Options{}, func(n int64) {
		calls.Add(1)
		for {
			was := most.Load()
			if n <= was || most.CompareAndSwap(was, n) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for i, c := range got {
		order = append(order, c.Name)
		if want := []report.Verdict{report.IsUnchanged, report.Unsafe}[i%2]; c.Verdict != want {
			t.Errorf("%s is %s, want %s", c.Name, c.Verdict, want)
		}
	}
	if diff := cmp.Diff(names, order); diff != "" {
		t.Error(diff)
	}
	if calls.Load() != 40 || most.Load() != 40 {
		t.Errorf("%d calls of done, up to %d; want 40", calls.Load(), most.Load())
	}
}

func TestErrorsOfAllPairsAreTold(t *testing.T) {
	t.Parallel()
	good := Pair{crd(t, "good", "integer"), crd(t, "good", "integer")}
	bad := Pair{crd(t, "one", "integer"), crd(t, "two", "integer")} // no two CRDs of one name
	_, err := Compare(t.Context(), []Pair{good, bad, good, {}}, Options{}, nil)
	if err == nil {
		t.Fatal("no error")
	}
	if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 2 {
		t.Errorf("error %v, want one for each of the two pairs", err)
	}
}

func TestAPanicIsAnErrorOfThatPair(t *testing.T) {
	t.Parallel()
	pairs := []Pair{{crd(t, "one", "integer"), crd(t, "one", "string")}}
	server := func(context.Context, *apiextensionsv1.CustomResourceDefinition, *apiextensionsv1.CustomResourceDefinition) (field.ErrorList, error) {
		panic("a defect")
	}
	if _, err := Compare(t.Context(), pairs, Options{Server: server}, nil); err == nil || !strings.Contains(err.Error(), "a defect") {
		t.Errorf("%v", err)
	}
}

func TestACancellationEndsTheComparison(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var pairs []Pair
	for range 200 {
		pairs = append(pairs, Pair{crd(t, "one", "integer"), crd(t, "one", "integer")})
	}
	var done atomic.Int64
	got, err := Compare(ctx, pairs, Options{}, func(int64) { done.Add(1); cancel() })
	if !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("%d results, error %v", len(got), err)
	}
	if n := done.Load(); n == 200 {
		t.Error("all pairs were compared")
	}
}

func TestAnInterruptEndsABusyComparison(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	o := Options{Server: func(context.Context, *apiextensionsv1.CustomResourceDefinition, *apiextensionsv1.CustomResourceDefinition) (field.ErrorList, error) {
		cancel()
		<-forever
		return nil, nil
	}}
	if got, err := Compare(ctx, []Pair{{New: crd(t, "thing", "string")}}, o, nil); !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("%d results, error %v", len(got), err)
	}
}

func TestNothingToCompareIsNoError(t *testing.T) {
	t.Parallel()
	if got, err := Compare(t.Context(), nil, Options{}, nil); err != nil || len(got) != 0 {
		t.Errorf("%v %v", got, err)
	}
}

func TestWhatAScanFoundIsTold(t *testing.T) {
	t.Parallel()
	fates := []cluster.Fate{
		{Name: "n/a", Refused: []string{"size: must be a string"}, Strict: []string{"size: must be a string"}},
		{Name: "n/b", Strict: []string{"size: too long"}},
		{Name: "n/c", Dropped: []string{".spec.x", ".spec.y"}},
	}
	for range 20 {
		fates = append(fates, cluster.Fate{Name: "n/d", Dropped: []string{".spec.x"}})
	}
	out := report.CRD{Name: "things.test.dev", Verdict: report.Safe}
	Tell(&out, cluster.Scan{Version: "v1", Target: "v2", Checked: 30, Refused: 1, Strict: 2, Tolerated: 1, Dropped: 21, Fates: fates})
	if out.Verdict != report.Unsafe {
		t.Errorf("the verdict is %s", out.Verdict)
	}
	var got []string
	for _, f := range out.Findings {
		got = append(got, fmt.Sprintf("%s %s %s: %s (%d of %d, %d named)", f.Rule, f.Version, f.After, f.Message, f.Objects.Affected, f.Objects.Checked, len(f.Objects.Examples)))
	}
	want := []string{
		"stored-objects-refused v2 size: must be a string: 1 of 30 stored objects would be refused by any update (1 of 30, 1 named)",
		"stored-objects-ratcheted v2 size: too long: 1 of 30 stored objects would be refused by an update that touches the field (1 of 30, 1 named)",
		"stored-objects-pruned v2 loses .spec.x, .spec.y: 21 of 30 stored objects would lose data (21 of 30, 10 named)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&report.ObjectScan{Version: "v1", Checked: 30, Refused: 2, Pruned: 21}, out.Objects); diff != "" {
		t.Error(diff)
	}
}

func TestAScanThatCouldNotReadIsUndecided(t *testing.T) {
	t.Parallel()
	out := report.CRD{Name: "things.test.dev"}
	Tell(&out, cluster.Scan{Version: "v1", Note: "a conversion webhook"})
	if out.Verdict != report.IsUndecided {
		t.Errorf("the verdict is %s", out.Verdict)
	}
	if len(out.Findings) != 1 || out.Findings[0].Rule != ruleObjectsUnread || out.Findings[0].Outcome != report.Undecided || out.Findings[0].Reason != "a conversion webhook" || out.Objects != nil {
		t.Errorf("%+v", out)
	}
}

func TestObjectsThatCouldNotBeJudgedAreUndecided(t *testing.T) {
	t.Parallel()
	out := report.CRD{Name: "things.test.dev"}
	Tell(&out, cluster.Scan{Version: "v1", Target: "v2", Checked: 7, Unjudged: 2, Strict: 1, Tolerated: 1, Fates: []cluster.Fate{
		{Name: "n/a", Unjudged: "quantity() would take too long"}, {Name: "n/b", Strict: []string{"size: too long"}}, {Name: "n/c", Unjudged: "the same"},
	}})
	if len(out.Findings) != 2 {
		t.Fatalf("%+v", out.Findings)
	}
	f := out.Findings[0]
	if out.Objects.Unjudged != 2 {
		t.Errorf("the scan does not count them: %+v", out.Objects)
	}
	if f.Rule != ruleObjectsUnread || f.Outcome != report.Undecided || f.Reason != "quantity() would take too long" || f.Message != "2 of 7 stored objects could not be judged" ||
		f.Objects.Affected != 2 || len(f.Objects.Examples) != 2 || f.Objects.Examples[1] != "n/c" {
		t.Errorf("%+v %+v", f, f.Objects)
	}
}

func TestEveryRuleIsFoundByItsID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range Rules() {
		if got, ok := Lookup(r.ID); !ok || got.Title != r.Title || seen[r.ID] {
			t.Errorf("%s: %v, twice: %v", r.ID, ok, seen[r.ID])
		}
		seen[r.ID] = true
	}
	for _, id := range []string{ruleObjectsRefused, ruleObjectsRatcheted, ruleObjectsPruned, ruleObjectsUnread, RuleNew, RuleDeleted, RulePermission, RuleFeature} {
		if !seen[id] {
			t.Errorf("%s has no documentation", id)
		}
	}
	if _, ok := Lookup("nope"); ok {
		t.Error("there is a rule nope")
	}
}

func TestARefusalByAdmissionIsNoObjectionOfTheServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want bool // admission
	}{
		"a webhook":      {webhookerrors.ToStatusErr("guard.test", &metav1.Status{Message: "not today"}), true},
		"a plugin":       {apierrors.NewForbidden(schema.GroupResource{Resource: "customresourcedefinitions"}, "ones.test.dev", errors.New("not today")), true},
		"another error":  {apierrors.NewUnauthorized("who are you?"), false},
		"it is accepted": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := memapi.New(t)
			api.Hook(func(c *memapi.Call) error {
				if test.err == nil || c.Verb != "create" {
					return nil
				}
				if !c.DryRun {
					t.Errorf("%s is no dry run", c)
				}
				return test.err
			})
			c, err := cluster.For(api.Config())
			if err != nil {
				t.Fatal(err)
			}
			var objections field.ErrorList
			objections, err = Ask(c)(t.Context(), nil, crd(t, "one", "integer"))
			denied, ok := errors.AsType[*compat.AdmissionError](err)
			if ok != test.want || (err != nil) != (test.err != nil) || len(objections) != 0 {
				t.Errorf("%v %v", objections, err)
			}
			if ok && !strings.Contains(denied.Says, "not today") {
				t.Errorf("it says %q", denied.Says)
			}
			if names := api.Names("customresourcedefinitions"); len(names) != 0 {
				t.Errorf("the cluster has %q now", names)
			}
		})
	}
}

package features

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"sluice.dev/feature"
	"sluice.dev/feature/policy"
)

// claimsOf are the webhooks about claims for a component that closes a version of each of so many resources.
func claimsOf(t *testing.T, from, to int, conditions bool) *hookSet {
	t.Helper()
	closed := map[hookedResource][]*feature.Target{}
	for i := from; i < to; i++ {
		r := hookedResource{"demo.dev", fmt.Sprintf("widgets%d", i)}
		closed[r] = []*feature.Target{{Group: r.group, Resource: r.resource, Version: "v1", WholeVersion: true}}
	}
	out := &hookSet{}
	for i, w := range claimHooks(closed, conditions) {
		w.Name = claimsName("demo", i)
		out.validating = append(out.validating, w)
	}
	return out
}

// waits tells of a webhook whether a write of the status of an object that claims nothing can wait for it for long or be refused.
func waits(w *hook) bool {
	return len(w.MatchConditions) == 0 && (*w.FailurePolicy != admissionregistrationv1.Ignore || *w.TimeoutSeconds > askedAnyway)
}

func ways(h *hookSet) (out []string) {
	for i := range h.validating {
		out = append(out, claimWays(&h.validating[i])...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestNoStatusWaitsWhileClaimsMove: what policies are to take over stays with the webhook for a while, with its conditions.
func TestNoStatusWaitsWhileClaimsMove(t *testing.T) {
	for _, tt := range []struct {
		name       string
		have, want *hookSet
		kept       *hookSet // with the conditions of which; nil: none
	}{
		{name: "nothing moves", have: claimsOf(t, 0, 2, true), want: claimsOf(t, 0, 2, true), kept: claimsOf(t, 0, 2, true)},
		{name: "policies take one", have: claimsOf(t, 0, 2, true), want: claimsOf(t, 1, 2, true), kept: claimsOf(t, 0, 2, true)},
		{name: "the webhook takes one", have: claimsOf(t, 0, 1, true), want: claimsOf(t, 0, 2, true), kept: claimsOf(t, 0, 2, true)},
		{name: "one for another", have: claimsOf(t, 0, 1, true), want: claimsOf(t, 1, 2, true), kept: claimsOf(t, 0, 2, true)},
		{name: "all go", have: claimsOf(t, 0, 2, true), want: &hookSet{}, kept: claimsOf(t, 0, 2, true)},
		{name: "of many", have: claimsOf(t, 0, 100, true), want: claimsOf(t, 50, 150, true), kept: claimsOf(t, 0, 150, true)},
		{name: "the API server did not know conditions", have: claimsOf(t, 0, 2, false), want: claimsOf(t, 0, 2, true)},
		{name: "nor does it", have: claimsOf(t, 0, 2, false), want: claimsOf(t, 1, 3, false)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.keepStored(tt.have)
			for range 3 { // what was kept is what stands when it is looked at next
				again := &hookSet{validating: slices.Clone(tt.want.validating)}
				again.keepStored(tt.want)
				if diff := cmp.Diff(tt.want.validating, again.validating); diff != "" {
					t.Error(diff)
				}
			}
			for i := range tt.want.validating {
				if w := &tt.want.validating[i]; waits(w) {
					t.Errorf("%s: %s, %d s, %v", w.Name, *w.FailurePolicy, *w.TimeoutSeconds, w.MatchConditions)
				}
			}
			var want []string
			if tt.kept != nil {
				want = ways(tt.kept)
			}
			if diff := cmp.Diff(want, ways(tt.want)); diff != "" {
				t.Error(diff)
			}
			for _, have := range tt.have.validating {
				for _, r := range have.Rules {
					if !slices.ContainsFunc(tt.want.validating, func(w hook) bool {
						return slices.ContainsFunc(w.Rules, func(o admissionregistrationv1.RuleWithOperations) bool { return slices.Equal(r.Resources, o.Resources) })
					}) {
						t.Errorf("nobody is asked about %v", r.Resources)
					}
				}
			}
		})
	}
}

// TestWhatIsKeptOfClaimsIsBounded: however often something else is wanted while something moves.
func TestWhatIsKeptOfClaimsIsBounded(t *testing.T) {
	have := claimsOf(t, 0, 10, true)
	for i := range 200 {
		want := claimsOf(t, i, i+10, true)
		want.keepStored(have)
		have = want
		for j := range have.validating {
			w := &have.validating[j]
			if waits(w) || len(w.MatchConditions) > 0 && len(w.MatchConditions[0].Expression) > maxKeptClaims {
				t.Fatalf("after %d: %s %v", i, *w.FailurePolicy, w.MatchConditions)
			}
		}
	}
}

// TestManyClosedVersionsAreAskedAboutByConditions, however many there are.
func TestManyClosedVersionsAreAskedAboutByConditions(t *testing.T) {
	h := claimsOf(t, 0, 100, true)
	if len(h.validating) < 2 || len(ways(h)) != 100 {
		t.Fatalf("%d webhooks, %d ways", len(h.validating), len(ways(h)))
	}
	names := map[string]bool{}
	for i := range h.validating {
		w := &h.validating[i]
		n := len(w.MatchConditions[0].Expression)
		if names[w.Name] || !isHookOf(w.Name, "demo") || !aboutClaims(w.Name) || n > maxCondition || *w.FailurePolicy != admissionregistrationv1.Fail {
			t.Errorf("%s: %d bytes, %s", w.Name, n, *w.FailurePolicy)
		}
		names[w.Name] = true
		for _, way := range claimWays(w) {
			if !slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
				return strings.Contains(way, "request.resource.resource == '"+r.Resources[0]+"' && "+policy.ClaimFilter(&feature.Target{Group: "demo.dev", Version: "v1"}))
			}) {
				t.Errorf("%s is not asked about what %s is about", w.Name, way)
			}
		}
	}
	if h := claimsOf(t, 0, 100, false); len(h.validating) != 1 || waits(&h.validating[0]) || len(h.validating[0].Rules) != 100 {
		t.Error("without conditions one is enough")
	}
	if claimHooks(nil, true) != nil {
		t.Error("there is something to claim")
	}
}

package features

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/feature"
	"sluice.dev/feature/policy"
)

// A feature can gate a whole version of a kind. Its ratchet lets objects pass that are in this version already, and managed fields
// tell that. A client can send managed fields of its own, and in any version or by the status, so that an object seems to be in the
// closed version. This file makes the webhooks that see such writes. The API server calls them only for writes with that claim,
// because they would slow down every status otherwise.

const (
	// claimsHook is in the names of webhooks with the path of askReject. The API server calls them for writes in other versions than
	// those that are closed as a whole, and for writes of the status.
	claimsHook = "claim"
	// claimsCondition is the name of their only match condition. orElse joins the alternatives in it.
	claimsCondition, orElse = "claims-a-version", "\n|| "
	// maxKeptClaims bounds such a condition, in bytes, while it also has the earlier alternatives.
	maxKeptClaims = 4 * maxCondition
	// askedAnyway is the timeout in seconds if the API server calls them for every write, including writes of the status.
	askedAnyway = 1
)

// claimsName is the name of one of them.
func claimsName(component string, i int) string {
	name := component + "." + claimsHook
	if i > 0 {
		name += "-" + strconv.Itoa(i+1)
	}
	return name + hookSuffix
}

// aboutClaims reports whether a webhook is one of them.
func aboutClaims(name string) bool {
	rest := strings.TrimSuffix(name, hookSuffix)
	last := rest[strings.LastIndex(rest, ".")+1:]
	return last == claimsHook || strings.HasPrefix(last, claimsHook+"-")
}

// claimHooks returns webhooks for writes in other versions than those that are closed as a whole, and for writes of the status, if the
// write claims to be in such a version. The reason: the ratchet of a closed version relies on managed fields, and a client can send
// any managed fields. Policies check the same. Only writes with such a claim wait for the webhook. If conditions cannot select them,
// no write is refused because the webhook is down, and a write waits for a second at most, so that writes of the status do not wait
// for a gate. The number of webhooks follows from the bound of a condition's length; it is 0 if no version is closed as a whole. Name,
// address and namespaces are not set.
func claimHooks(closed map[hookedResource][]*feature.Target, conditions bool) (out []hook) {
	ways := map[string]hookedResource{}
	for r, list := range closed {
		for _, t := range list {
			way := fmt.Sprintf("request.resource.group == '%s' && request.resource.resource == '%s' && %s", r.group, r.resource, policy.ClaimFilter(t))
			ways[way] = r
		}
	}
	var together []string
	size := 0
	flush := func() {
		if together == nil {
			return
		}
		w := hook{
			FailurePolicy: new(admissionregistrationv1.Fail), MatchPolicy: new(admissionregistrationv1.Exact), ObjectSelector: &metav1.LabelSelector{},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: new(int32(10)), AdmissionReviewVersions: []string{"v1"},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: claimsCondition, Expression: strings.Join(together, orElse)}},
		}
		if !conditions {
			askAnyway(&w)
		}
		var resources []hookedResource
		for _, way := range together {
			if r := ways[way]; !slices.Contains(resources, r) {
				resources = append(resources, r)
			}
		}
		for _, r := range resources {
			w.Rules = append(w.Rules, ruleFor(r.group, []string{"*"}, []string{r.resource, r.resource + "/" + statusSubresource}, admissionregistrationv1.AllScopes))
		}
		sortRules(w.Rules)
		out, together, size = append(out, w), nil, 0
	}
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		if conditions && size+len(way) > maxCondition {
			flush()
		}
		together, size = append(together, way), size+len(way)+len(orElse)
	}
	flush()
	return out
}

// askAnyway makes the API server call a webhook for every write. If it does not answer, no write is refused or waits long.
func askAnyway(w *hook) {
	w.MatchConditions, w.FailurePolicy, w.TimeoutSeconds = nil, new(admissionregistrationv1.Ignore), new(int32(askedAnyway))
}

// keepClaims adds the alternatives of the stored webhook about claims to the wanted ones. During a transition, this webhook cannot be
// called for every write as others are, because its rules include the status.
//
// If the conditions of both would be too long together, the API server asks for every write, and does not wait for the answer longer
// than a second.
func keepClaims(w, have *hook) {
	ways := slices.Concat(claimWays(w), claimWays(have))
	slices.Sort(ways)
	expression := strings.Join(slices.Compact(ways), orElse)
	if claimWays(w) == nil || claimWays(have) == nil || len(expression) > maxKeptClaims {
		askAnyway(w)
		return
	}
	w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: claimsCondition, Expression: expression}}
}

// claimWays are the alternatives in the condition of a webhook about claims; nil if it has no such condition.
func claimWays(w *hook) []string {
	if len(w.MatchConditions) != 1 || w.MatchConditions[0].Name != claimsCondition {
		return nil
	}
	return strings.Split(w.MatchConditions[0].Expression, orElse)
}

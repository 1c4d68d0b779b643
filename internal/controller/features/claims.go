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

const (
	// claimsHook is in the name of the webhooks that are asked, as askReject has it, about writes of other versions than those that are
	// closed as a whole, and of the status.
	claimsHook = "claim"
	// claimsCondition is the name of their only match condition, and orElse stands between the ways in which it holds.
	claimsCondition, orElse = "claims-a-version", "\n|| "
	// maxKeptClaims is how long such a condition may be, in bytes, while it has the ways of before as well.
	maxKeptClaims = 4 * maxCondition
	// askedAnyway is how many seconds the API server waits where they are asked about every write: those of the status are among them.
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

// claims has the webhook asked about writes in other versions than those that are closed as a whole, and of the status, that claim to
// have been made in one: what is refused in a closed version trusts managed fields, and those a client may send as it likes. Policies
// look at the same. Only what makes such a claim waits for the webhook. Where conditions cannot say so nothing is refused for want of
// it, and it is waited for a second: writes of the status do not wait for a gate. There are as many as conditions of bounded length
// take, none if no version is closed so; name, address and namespaces are left out.
func claims(closed map[hookedResource][]*feature.Target, conditions bool) (out []admissionregistrationv1.ValidatingWebhook) {
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
		w := admissionregistrationv1.ValidatingWebhook{
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
			w.Rules = append(w.Rules, admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{r.group}, APIVersions: []string{"*"}, Resources: []string{r.resource, r.resource + "/" + statusSubresource}, Scope: new(admissionregistrationv1.AllScopes),
				},
			})
		}
		slices.SortFunc(w.Rules, func(a, b admissionregistrationv1.RuleWithOperations) int {
			return strings.Compare(a.Resources[0]+"."+a.APIGroups[0], b.Resources[0]+"."+b.APIGroups[0])
		})
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

// askAnyway has a webhook asked about every write, and nothing refused or kept for long for want of it.
func askAnyway(w *admissionregistrationv1.ValidatingWebhook) {
	w.MatchConditions, w.FailurePolicy, w.TimeoutSeconds = nil, new(admissionregistrationv1.Ignore), new(int32(askedAnyway))
}

// keepClaims adds the ways that a webhook about claims has as it stands to those that are wanted. Unlike other webhooks it cannot be
// asked about everything for as long as something moves: its rules have the status.
func keepClaims(w, have *admissionregistrationv1.ValidatingWebhook) {
	ways := slices.Concat(claimWays(w), claimWays(have))
	slices.Sort(ways)
	expression := strings.Join(slices.Compact(ways), orElse)
	if claimWays(w) == nil || claimWays(have) == nil || len(expression) > maxKeptClaims {
		askAnyway(w)
		return
	}
	w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: claimsCondition, Expression: expression}}
}

// claimWays are the ways in which the condition of a webhook about claims holds; nil if it has none, or others.
func claimWays(w *admissionregistrationv1.ValidatingWebhook) []string {
	if len(w.MatchConditions) != 1 || w.MatchConditions[0].Name != claimsCondition {
		return nil
	}
	return strings.Split(w.MatchConditions[0].Expression, orElse)
}

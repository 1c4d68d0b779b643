// Package resolution holds what both versions of the API group resolution.tekton.dev share: names of labels and
// annotations, condition reasons, and which resolver a request is for.
//
// Kinds, labels and reasons are those that Tekton Pipelines' controllers speak (tektoncd/pipeline, pkg/apis/resolution),
// so that its clients and ours may be mixed. The package imports nothing of Kubernetes.
package resolution

import "fmt"

// GroupName is the API group.
const GroupName = "resolution.tekton.dev"

// Labels that select the resolver of a request. The first is Tekton's, the second is that of TEP-0060. Other labels
// under the group's name are reserved.
const (
	LabelType     = GroupName + "/type"
	LabelResolver = GroupName + "/resolver"
)

const (
	// AnnotationTimeout shortens the time-out of one request: a Go duration such as 30s, measured from its creation. One
	// that is longer than the operator's limit, or cannot be read, has no effect.
	AnnotationTimeout = "sluice.dev/resolution-timeout"
	// AnnotationLookAfter makes the resolver ask the remote again where a branch or tag is: "now", or a time in RFC 3339, such as
	// that of the push that a webhook reported. An answer from that time or later counts.
	AnnotationLookAfter = "sluice.dev/look-after"
	// AnnotationReason is the exact reason in the status of a failed request, in one word, for machines. The condition's own reason is
	// one of the two that Tekton's clients know.
	AnnotationReason = "sluice.dev/reason"
	// AnnotationRevisions is in the status of a request to the resolver git. It has the names of the revision, separated by spaces, as
	// the server knew them at that time: HEAD main refs/heads/main. A name that also means something else is not there.
	AnnotationRevisions = "sluice.dev/revisions"
	// AnnotationV1beta1 carries, in the v1alpha1 form of a request, what that form has no place for.
	AnnotationV1beta1 = GroupName + "/v1beta1-spec"
)

// ConditionSucceeded is True when the data is there, False when the request has failed permanently, and Unknown or missing before. A
// request has no other condition.
const ConditionSucceeded = "Succeeded"

// Reasons of the condition [ConditionSucceeded]. If it is True, reason and message are empty.
const (
	// ReasonInProgress: the request has not ended yet.
	ReasonInProgress = "ResolutionInProgress"
	// ReasonFailed: the resolver failed. The annotation sluice.dev/reason in the status has the exact reason.
	ReasonFailed = "ResolutionFailed"
	// ReasonTimedOut: the request did not end within its time-out.
	ReasonTimedOut = "ResolutionTimedOut"
	// MessageInProgress is the message that goes with [ReasonInProgress].
	MessageInProgress = "waiting for resolver"
)

// canonical names resolvers by the other names that TEP-0060 gives them.
var canonical = map[string]string{"bundle": "bundles", "in-cluster": "cluster"}

// Canonical returns the name of a resolver for one of its names in TEP-0060 (bundle, in-cluster), and any other name as
// it is.
func Canonical(name string) string {
	if c, ok := canonical[name]; ok {
		return c
	}
	return name
}

// Names returns all names that select the resolver, the canonical one first.
func Names(name string) []string {
	name = Canonical(name)
	out := []string{name}
	for alias, c := range canonical {
		if c == name {
			out = append(out, alias)
		}
	}
	return out
}

// Resolver returns the canonical name of the resolver that the labels of a request select. It is an error if none does,
// or if the two labels name different ones.
func Resolver(labels map[string]string) (string, error) {
	byType, older := Canonical(labels[LabelType]), Canonical(labels[LabelResolver])
	switch {
	case byType == "" && older == "":
		return "", fmt.Errorf("no resolver is named: set the label %s, for example to git", LabelType)
	case byType != "" && older != "" && byType != older:
		return "", fmt.Errorf("the labels %s=%s and %s=%s name different resolvers: remove one",
			LabelType, labels[LabelType], LabelResolver, labels[LabelResolver])
	case byType == "":
		return older, nil
	}
	return byType, nil
}

package apply

import (
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	"sluice.dev/apply/kapprules"
)

// Is an object ready? kstatus knows the built-in kinds and the usual conditions. For other kinds, annotations on the object name the
// conditions that decide, for example sluice.dev/ready-when: Synced=True. The wait rules of a kapp configuration become such
// annotations when the object is applied, so that later runs, and other users, wait in the same way.

// healthByAnnotations returns the status of an object by its annotations; ok is false if they do not decide.
func healthByAnnotations(obj map[string]any) (h health, ok bool) {
	annotations := annotationsOf(obj)
	ready, _ := annotations[AnnotationReadyWhen].(string)
	failed, _ := annotations[AnnotationFailedWhen].(string)
	if _, there := annotations[kappNoWait]; there || ready == readyApplied {
		return health{status.CurrentStatus, "it is not waited for, as its annotation says"}, true
	}
	if ready == "" && failed == "" {
		return health{}, false
	}
	if _, going := metadataOf(obj)["deletionTimestamp"]; going {
		return health{}, false
	}
	if st, _ := obj["status"].(map[string]any); isOfEarlierGeneration(obj, st) {
		return health{status.InProgressStatus, "its status is of an earlier generation"}, true
	}
	if c, message := firstMatchingCondition(obj, AnnotationFailedWhen, failed); c != "" {
		return health{status.FailedStatus, c + message}, true
	}
	if ready == "" {
		return health{}, false
	}
	if c, message := firstMatchingCondition(obj, AnnotationReadyWhen, ready); c != "" {
		return health{status.CurrentStatus, c + message}, true
	}
	named := func(kind string) bool {
		return slices.ContainsFunc(strings.Split(ready, ","), func(c string) bool { return strings.HasPrefix(strings.TrimSpace(c), kind+"=") })
	}
	if stale := staleCondition(obj, named); stale != "" {
		return health{status.InProgressStatus, staleMessage(stale)}, true
	}
	return health{status.InProgressStatus, "none of its conditions is " + ready}, true
}

// isOfEarlierGeneration reports whether a status or a condition says that it is about an earlier generation of the object.
func isOfEarlierGeneration(obj, part map[string]any) bool {
	generation, ok := asFloat(metadataOf(obj)["generation"])
	observed, has := asFloat(part["observedGeneration"])
	return ok && has && observed < generation
}

// staleCondition returns the type of the first selected condition that is about an earlier generation; empty for none.
func staleCondition(obj map[string]any, selected func(kind string) bool) string {
	for _, c := range conditionsOf(obj) {
		if kind, _ := c["type"].(string); isOfEarlierGeneration(obj, c) && selected(kind) {
			return kind
		}
	}
	return ""
}

func staleMessage(kind string) string {
	return "its condition " + kind + " is of an earlier generation"
}

// isDecidingCondition reports whether kstatus decides by conditions of a type, whatever the kind of the object is.
func isDecidingCondition(kind string) bool {
	return kind == "Ready" || kind == string(status.ConditionStalled) || kind == string(status.ConditionReconciling)
}

// firstMatchingCondition returns the first condition of an annotation that an object has in its present generation, with its message.
func firstMatchingCondition(obj map[string]any, name, text string) (found, message string) {
	if text == "" {
		return "", ""
	}
	wanted, err := parseConditions(name, text)
	if err != nil {
		return "", "" // the object comes from the cluster, so nobody has checked its annotation
	}
	for _, w := range wanted {
		for _, c := range conditionsOf(obj) {
			if c["type"] == w.kind && c["status"] == w.status && !isOfEarlierGeneration(obj, c) {
				if m, _ := c["message"].(string); m != "" {
					message = ": " + m
				}
				return w.String(), message
			}
		}
	}
	return "", ""
}

// waitAnnotations returns the annotations for the first of kapp's wait rules that selects the object. Annotations that the object
// already has take precedence.
func waitAnnotations(rules []kapprules.WaitRule, content map[string]any) map[string]string {
	have := annotationsOf(content)
	if have[AnnotationReadyWhen] != nil || have[AnnotationFailedWhen] != nil {
		return nil
	}
	i := slices.IndexFunc(rules, func(r kapprules.WaitRule) bool { return r.Matchers.Match(content) })
	if i < 0 {
		return nil
	}
	var ready, failed []string
	for _, c := range rules[i].Conditions {
		text := condition{c.Type, c.Status}.String()
		if c.Failure {
			failed = append(failed, text)
		} else if c.Success {
			ready = append(ready, text)
		}
	}
	out := map[string]string{}
	if len(ready) > 0 {
		out[AnnotationReadyWhen] = strings.Join(ready, ",")
	}
	if len(failed) > 0 {
		out[AnnotationFailedWhen] = strings.Join(failed, ",")
	}
	return out
}

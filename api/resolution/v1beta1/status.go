package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution"
)

// Succeeded returns the condition Succeeded, nil if there is none.
func (s *ResolutionRequestStatus) Succeeded() *Condition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == resolution.ConditionSucceeded {
			return &s.Conditions[i]
		}
	}
	return nil
}

// Finished tells that the request has succeeded or failed, for good.
func (s *ResolutionRequestStatus) Finished() bool {
	c := s.Succeeded()
	return c != nil && (c.Status == metav1.ConditionTrue || c.Status == metav1.ConditionFalse)
}

// Origin returns RefSource, or Source where older resolvers have written only that; nil if neither is there.
func (s *ResolutionRequestStatus) Origin() *RefSource {
	if s.RefSource != nil {
		return s.RefSource
	}
	return s.Source
}

// HasContent tells that content is there, in the request or in a store.
func (s *ResolutionRequestStatus) HasContent() bool { return s.Data != "" || s.DataRef != "" }

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Feature is a part of a component's API or behaviour that may be turned on and off while it ripens. Its name is
// COMPONENT.GATE with the gate in kebab-case, for example tekton-pipelines.tasks-timeout.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
//
//nolint:modernize // omitempty is what every tool expects here; omitzero would change what is written
type Feature struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FeatureSpec   `json:"spec,omitempty"`
	Status FeatureStatus `json:"status,omitempty"`
}

// FeatureList is a list of features.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
//
//nolint:modernize // omitempty is what every tool expects here; omitzero would change what is written
type FeatureList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Feature `json:"items"`
}

// FeatureSpec defines a feature.
type FeatureSpec struct {
	// Component is the name of the Component.
	Component string `json:"component"`
	// Gate is the name of the feature in CamelCase, unique in its component for all time.
	Gate string `json:"gate"`
	// Description says in a sentence what the feature does.
	Description string `json:"description,omitempty"`
	// Stages is the history, oldest first, with what is planned.
	Stages []FeatureStage `json:"stages"`
	// Parts are what the feature gates; none: behaviour only.
	Parts []Part `json:"parts,omitempty"`
	// Requires names gates of the same component without which this one is closed.
	Requires []string `json:"requires,omitempty"`
	// WhenDisabled says what happens to a request that uses a part while the feature is closed; empty stands for Reject.
	WhenDisabled WhenDisabled `json:"whenDisabled,omitempty"`
	// Ratchet says what stored objects may go on with while the feature is closed; empty stands for InUse.
	Ratchet Ratchet `json:"ratchet,omitempty"`

	// Key is the key of the settings that opens and closes this feature; empty stands for the gate in kebab-case.
	Key string `json:"key,omitempty"`
	// Inverted means that the key's value true closes the feature, as in disable-affinity-assistant.
	Inverted bool `json:"inverted,omitempty"`
	// ImpliedByLevel means that a level which opens the feature wins over the key.
	ImpliedByLevel bool `json:"impliedByLevel,omitempty"`
	// FollowsLevel says whether the level opens the feature. Nil: it does if the feature gates fields or values, and does
	// not if it gates behaviour or whole versions only.
	FollowsLevel *bool `json:"followsLevel,omitempty"`

	// RequiredProcesses are those that must report the feature as on before it is.
	RequiredProcesses []string `json:"requiredProcesses,omitempty"`
	// NeedsRestart means that processes take a change of the setting in when they start, not while they run.
	NeedsRestart bool `json:"needsRestart,omitempty"`
}

// Stage is how far a feature has come.
type Stage string

// The stages in the order in which a feature may pass them. Every stage but the first may be left out.
const (
	Alpha      Stage = "Alpha"
	Beta       Stage = "Beta"
	Stable     Stage = "Stable"
	Deprecated Stage = "Deprecated"
	Removed    Stage = "Removed"
)

// FeatureStage is one entry of a feature's history. A stage may have several entries, when its default changes.
type FeatureStage struct {
	Stage Stage `json:"stage"`
	// Release is the release of the component that begins the stage, a semantic version with or without a leading v.
	Release string `json:"release,omitempty"`
	// Date is the day that begins the stage, in the form 2026-01-31. Release or date must be there.
	Date string `json:"date,omitempty"`
	// Default says whether the feature is open unless somebody says otherwise. Nil stands for false at stages Alpha and
	// Beta, true at Stable, and what it was before at Deprecated and Removed.
	Default *bool `json:"default,omitempty"`
	// LockToDefault means that the default cannot be changed by settings. A Removed feature is always locked.
	LockToDefault bool `json:"lockToDefault,omitempty"`
}

// WhenDisabled says what happens to a use of a closed feature that the ratchet does not allow.
type WhenDisabled string

// What can happen.
const (
	// Reject refuses the request with an error that says what to set.
	Reject WhenDisabled = "Reject"
	// Drop takes the part out, or puts the stored value back, and warns.
	Drop WhenDisabled = "Drop"
	// Warn lets the request pass and warns.
	Warn WhenDisabled = "Warn"
)

// Ratchet says what an object that is stored already may go on with while a feature is closed. Two are in use among
// Kubernetes' own types (kubernetes/community issue 8907).
type Ratchet string

// The ratchets.
const (
	// InUse: what is used may also change its value.
	InUse Ratchet = "InUse"
	// Unchanged: it may stay as it is, or go.
	Unchanged Ratchet = "Unchanged"
)

// Part is something in an API that a feature gates: a field, some of its values, items of an array, or whole versions.
//
// With Field alone, the presence of the field is what is gated (null is as good as absent, an empty value is present).
// Values, Pattern and Match narrow that down to values of the field; those that are given must all hold. A field that ends
// in [*] gates items of an array or values of a map.
type Part struct {
	// Group is the API group; empty stands for the core group.
	Group string `json:"group,omitempty"`
	// Resource is the plural name of the resource.
	Resource string `json:"resource"`
	// Versions are those in which the part exists; empty stands for all in which the schema has the field.
	Versions []string `json:"versions,omitempty"`
	// WholeVersion gates all writes in the versions; nothing of what follows may be set.
	WholeVersion bool `json:"wholeVersion,omitempty"`
	// Field is a path from the root of the object, for example spec.tasks[*].timeout or spec.env[*].secretRef: names
	// separated by dots, [*] for every item of an array and every value of a map, ["a.b"] for a name or key that is not
	// made of letters, digits, - and _.
	Field string `json:"field,omitempty"`
	// Values are strings, or the JSON text of numbers and booleans.
	Values []string `json:"values,omitempty"`
	// Pattern is a regular expression (RE2) that is looked for in a string.
	Pattern string `json:"pattern,omitempty"`
	// Match looks into an object: all must hold.
	Match []Match `json:"match,omitempty"`
}

// Match is a condition on an object. With Field alone, the field is present.
type Match struct {
	// Field is a path from the object, without [*].
	Field string `json:"field"`
	// Values are strings, or the JSON text of numbers and booleans.
	Values []string `json:"values,omitempty"`
	// Pattern is a regular expression (RE2) that is looked for in a string.
	Pattern string `json:"pattern,omitempty"`
}

// FeatureStatus is what has become of a feature.
type FeatureStatus struct {
	// ObservedGeneration is the generation of the object that the status speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Stage is the one that the installed release has reached; empty before the first.
	Stage Stage `json:"stage,omitempty"`
	// Default is what the stage says; nil before the first stage.
	Default *bool `json:"default,omitempty"`
	// Enabled tells whether the feature is open by the settings; nil while that is not known.
	Enabled *bool `json:"enabled,omitempty"`
	// Why says in a sentence what decided Enabled.
	Why string `json:"why,omitempty"`
	// InUse is how many stored objects used the feature when they were last counted; nil before that, and where they cannot be
	// counted, which the condition Counted tells.
	InUse *int64 `json:"inUse,omitempty"`
	// InUseTime is when they were counted. While the number stays the same, it is moved on once an hour.
	InUseTime *metav1.Time `json:"inUseTime,omitempty"`
	// EnforcedBy lists the policies and webhooks that enforce the feature.
	EnforcedBy []Enforcer `json:"enforcedBy,omitempty"`
	// Conditions are of the types Accepted, Enforced, Skew and Counted.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Enforcer names what enforces a feature for one resource.
type Enforcer struct {
	// Kind is ValidatingAdmissionPolicy, MutatingAdmissionPolicy, ValidatingWebhookConfiguration or
	// MutatingWebhookConfiguration.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Group and Resource say for what.
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource"`
	// Reason says why it is not a policy, where it is not.
	Reason string `json:"reason,omitempty"`
}

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Feature is a part of a component's API or behaviour that may be turned on and off while it ripens. Its name is
// COMPONENT.GATE with the gate in kebab-case, for example tekton-pipelines.tasks-timeout.
//
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=sluice"
// +kubebuilder:resource:categories=sluice,scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Component",type=string,JSONPath=`.spec.component`
// +kubebuilder:printcolumn:name="Gate",type=string,JSONPath=`.spec.gate`
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.stage`
// +kubebuilder:printcolumn:name="Default",type=boolean,JSONPath=`.status.default`
// +kubebuilder:printcolumn:name="Enabled",type=boolean,JSONPath=`.status.enabled`
// +kubebuilder:printcolumn:name="In use",type=integer,JSONPath=`.status.inUse`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`,priority=1
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`,priority=1
// +kubebuilder:printcolumn:name="Skew",type=string,JSONPath=`.status.conditions[?(@.type=="Skew")].status`,priority=1
// +kubebuilder:printcolumn:name="Why",type=string,JSONPath=`.status.why`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.startsWith(self.spec.component + '.')",message="the name is to be COMPONENT.GATE, with the gate in kebab-case"
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Feature struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec   FeatureSpec   `json:"spec,omitempty"`
	Status FeatureStatus `json:"status,omitempty"`
}

// FeatureList is a list of features.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type FeatureList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Feature `json:"items"`
}

// FeatureSpec defines a feature.
//
// +kubebuilder:validation:XValidation:rule="self.component == oldSelf.component && self.gate == oldSelf.gate",message="component and gate never change; a gate's name is not used again either",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="self.component.size() + self.gate.size() <= 62",message="component and gate are part of labels and may have 62 characters together"
// +kubebuilder:validation:XValidation:rule="!has(self.whenDisabled) || self.whenDisabled != 'Drop' || !has(self.parts) || self.parts.all(p, !has(p.wholeVersion) || !p.wholeVersion)",message="a whole version cannot be dropped"
// +kubebuilder:validation:XValidation:rule="!has(self.requires) || !(self.gate in self.requires)",message="a feature does not require itself"
type FeatureSpec struct {
	// Component is the name of the Component.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=61
	Component string `json:"component"`
	// Gate is the name of the feature in CamelCase, unique in its component for all time.
	// +kubebuilder:validation:MaxLength=61
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Gate string `json:"gate"`
	// Description says in a sentence what the feature does.
	// +kubebuilder:validation:MaxLength=5000
	Description string `json:"description,omitempty"`
	// Stages is the history, oldest first, with what is planned.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Stages []FeatureStage `json:"stages"`
	// Parts are what the feature gates; none: behaviour only.
	// +kubebuilder:validation:MaxItems=200
	Parts []Part `json:"parts,omitempty"`
	// Requires names gates of the same component without which this one is closed.
	// +kubebuilder:validation:MaxItems=100
	// +listType=set
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=61
	Requires []string `json:"requires,omitempty"`
	// WhenDisabled says what happens to a request that uses a part while the feature is closed; empty stands for Reject.
	// +kubebuilder:validation:Enum=Reject;Drop;Warn
	WhenDisabled WhenDisabled `json:"whenDisabled,omitempty"`
	// Ratchet says what stored objects may go on with while the feature is closed; empty stands for InUse.
	// +kubebuilder:validation:Enum=InUse;Unchanged
	Ratchet Ratchet `json:"ratchet,omitempty"`

	// Key is the key of the settings that opens and closes this feature; empty stands for the gate in kebab-case.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
	// Inverted means that the key's value true closes the feature, as in disable-affinity-assistant.
	Inverted bool `json:"inverted,omitempty"`
	// ImpliedByLevel means that a level which opens the feature wins over the key.
	ImpliedByLevel bool `json:"impliedByLevel,omitempty"`
	// FollowsLevel says whether the level opens the feature. If left out, it does if the feature gates fields or values, and does
	// not if it gates behaviour or whole versions only.
	FollowsLevel *bool `json:"followsLevel,omitempty"`

	// RequiredProcesses are those that must report the feature as on before it is.
	// +kubebuilder:validation:MaxItems=50
	// +listType=set
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
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
//
// +kubebuilder:validation:XValidation:rule="has(self.release) || has(self.date)",message="release or date is missing"
// +kubebuilder:validation:XValidation:rule="!has(self.default) || !self.default || self.stage != 'Alpha'",message="an alpha feature is off by default",fieldPath=".default"
// +kubebuilder:validation:XValidation:rule="!has(self.default) || self.default || self.stage != 'Stable'",message="a stable feature is on by default",fieldPath=".default"
type FeatureStage struct {
	// Stage is how far the feature has come.
	// +kubebuilder:validation:Enum=Alpha;Beta;Stable;Deprecated;Removed
	Stage Stage `json:"stage"`
	// Release is the release of the component that begins the stage, a semantic version with or without a leading v.
	// +kubebuilder:validation:MaxLength=100
	Release string `json:"release,omitempty"`
	// Date is the day that begins the stage, in the form 2026-01-31. Release or date must be there.
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`
	Date string `json:"date,omitempty"`
	// Default says whether the feature is open unless somebody says otherwise. If left out, it is false at stages Alpha and
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
//
// +kubebuilder:validation:XValidation:rule="has(self.field) != (has(self.wholeVersion) && self.wholeVersion)",message="either field or wholeVersion is to be there"
// +kubebuilder:validation:XValidation:rule="has(self.field) || !(has(self.values) || has(self.pattern) || has(self.match) || has(self.maxItems))",message="a whole version has no values, pattern, match or maxItems"
// +kubebuilder:validation:XValidation:rule="!(has(self.wholeVersion) && self.wholeVersion) || has(self.versions) && self.versions.size() > 0",message="which version, is missing"
// +kubebuilder:validation:XValidation:rule="(has(self.values) ? 1 : 0) + (has(self.pattern) ? 1 : 0) + (has(self.match) ? 1 : 0) <= 1",message="only one of values, pattern and match can be given"
// +kubebuilder:validation:XValidation:rule="!has(self.field) || !self.field.matches('^[.]?(metadata|status|apiVersion|kind)($|[^A-Za-z0-9_-])')",message="metadata and status cannot be gated",fieldPath=".field"
type Part struct {
	// Group is the API group; empty stands for the core group.
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// Resource is the plural name of the resource.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Resource string `json:"resource"`
	// Versions are those in which the part exists; empty stands for all in which the schema has the field.
	// +kubebuilder:validation:MaxItems=20
	// +listType=set
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Versions []string `json:"versions,omitempty"`
	// WholeVersion gates all writes in the versions; nothing of what follows may be set.
	WholeVersion bool `json:"wholeVersion,omitempty"`
	// Field is a path from the root of the object, for example spec.tasks[*].timeout or spec.env[*].secretRef: names
	// separated by dots, [*] for every item of an array and every value of a map, ["a.b"] for a name or key that is not
	// made of letters, digits, - and _.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2000
	Field string `json:"field,omitempty"`
	// Values are strings, or the JSON text of numbers and booleans.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=200
	// +listType=set
	// +kubebuilder:validation:items:MaxLength=1000
	Values []string `json:"values,omitempty"`
	// Pattern is a regular expression (RE2) that is looked for in a string.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	Pattern string `json:"pattern,omitempty"`
	// Match looks into an object: all must hold.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	Match []Match `json:"match,omitempty"`
	// MaxItems is how many items and entries the lists and maps on the way to the field have at most, if the schema does not say so; 5000
	// if neither does. Policies go through that many. A new object with more that uses the part is refused with the number in place of
	// the places.
	// +kubebuilder:validation:Minimum=1
	MaxItems int32 `json:"maxItems,omitempty"`
}

// Match is a condition on an object. With Field alone, the field is present.
//
// +kubebuilder:validation:XValidation:rule="!has(self.values) || !has(self.pattern)",message="only one of values and pattern can be given"
type Match struct {
	// Field is a path from the object, without [*].
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2000
	Field string `json:"field"`
	// Values are strings, or the JSON text of numbers and booleans.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=200
	// +listType=set
	// +kubebuilder:validation:items:MaxLength=1000
	Values []string `json:"values,omitempty"`
	// Pattern is a regular expression (RE2) that is looked for in a string.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	Pattern string `json:"pattern,omitempty"`
}

// FeatureStatus is what has become of a feature.
type FeatureStatus struct {
	// ObservedGeneration is the generation of the object that the status speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Stage is the one that the installed release has reached; empty before the first.
	Stage Stage `json:"stage,omitempty"`
	// Default is what the stage says; left out before the first stage.
	Default *bool `json:"default,omitempty"`
	// Enabled tells whether the feature is open by the settings; left out while that is not known.
	Enabled *bool `json:"enabled,omitempty"`
	// Why says in a sentence what decided Enabled.
	Why string `json:"why,omitempty"`
	// InUse is how many stored objects used the feature when they were last counted; left out before that, and where they cannot be
	// counted, which the condition Counted tells.
	InUse *int64 `json:"inUse,omitempty"`
	// InUseTime is when they were counted. While the number stays the same, it is moved on once an hour.
	InUseTime *metav1.Time `json:"inUseTime,omitempty"`
	// EnforcedBy lists the policies and webhooks that enforce the feature.
	EnforcedBy []Enforcer `json:"enforcedBy,omitempty"`
	// Conditions are of the types Accepted, Enforced, Skew and Counted.
	// +sluice:loosen=pattern;minLength;maxLength;minimum
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Enforcer names what enforces a feature for one resource.
type Enforcer struct {
	// Kind is ValidatingAdmissionPolicy, MutatingAdmissionPolicy, ValidatingWebhookConfiguration or
	// MutatingWebhookConfiguration.
	Kind string `json:"kind"`
	// Name is that of the object of that kind.
	Name string `json:"name"`
	// Group is the API group of the resource.
	Group string `json:"group,omitempty"`
	// Resource is the plural name of the resource.
	Resource string `json:"resource"`
	// Reason says why it is not a policy, where it is not.
	Reason string `json:"reason,omitempty"`
}

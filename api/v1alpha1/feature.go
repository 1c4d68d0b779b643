package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Feature is a part of a component's API or behaviour that users can turn on and off until it is stable. Its name is
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
// +kubebuilder:validation:XValidation:rule="self.metadata.name.startsWith(self.spec.component + '.')",message="the name has to be COMPONENT.GATE, with the gate in kebab-case"
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
// +kubebuilder:validation:XValidation:rule="self.component == oldSelf.component && self.gate == oldSelf.gate",message="component and gate cannot change; a gate's name cannot be used again either",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="self.component.size() + self.gate.size() <= 62",message="component and gate are part of labels and may have 62 characters together"
// +kubebuilder:validation:XValidation:rule="!has(self.whenDisabled) || self.whenDisabled != 'Drop' || !has(self.parts) || self.parts.all(p, !has(p.wholeVersion) || !p.wholeVersion)",message="a whole version cannot be dropped"
// +kubebuilder:validation:XValidation:rule="has(self.whenDisabled) && self.whenDisabled == 'Drop' || !has(self.parts) || self.parts.all(p, !has(p.resetTo))",message="resetTo needs whenDisabled: Drop"
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
	// Stages is the history, oldest first, and the plan.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Stages []FeatureStage `json:"stages"`
	// Parts are the parts of the API that the feature gates. Without parts it gates behaviour only.
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
	// Ratchet says which uses stored objects can keep while the feature is closed; empty stands for InUse.
	// +kubebuilder:validation:Enum=InUse;InObject;Unchanged
	Ratchet Ratchet `json:"ratchet,omitempty"`

	// Key is the key of the settings that opens and closes this feature; empty stands for the gate in kebab-case.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
	// Inverted means that the key's value true closes the feature, as in disable-affinity-assistant.
	Inverted bool `json:"inverted,omitempty"`
	// ImpliedByLevel means that a level which opens the feature wins over the key.
	ImpliedByLevel bool `json:"impliedByLevel,omitempty"`
	// ImpliedBy names gates of the same component. While any of them is open this one is open too, whatever its key says.
	// +kubebuilder:validation:MaxItems=100
	// +listType=set
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=61
	ImpliedBy []string `json:"impliedBy,omitempty"`
	// FollowsLevel says whether the level opens the feature. If left out, it does if the feature gates fields or values, and does
	// not if it gates behaviour or whole versions only.
	FollowsLevel *bool `json:"followsLevel,omitempty"`

	// RequiredProcesses are the processes that must report the feature as on before it is on.
	// +kubebuilder:validation:MaxItems=50
	// +listType=set
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	RequiredProcesses []string `json:"requiredProcesses,omitempty"`
	// NeedsRestart means that processes adopt a change of the setting when they start, not while they run.
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
	// Default says if the feature is open without a setting. If left out, it is false at stages Alpha and
	// Beta, true at Stable, and what it was before at Deprecated and Removed.
	Default *bool `json:"default,omitempty"`
	// LockToDefault means that the default cannot be changed by settings. A Removed feature is always locked.
	LockToDefault bool `json:"lockToDefault,omitempty"`
}

// WhenDisabled says what happens to a use of a closed feature that the ratchet does not allow.
type WhenDisabled string

// The effects on a request.
const (
	// Reject refuses the request with an error that says what to set.
	Reject WhenDisabled = "Reject"
	// Drop takes the part out, or puts the stored value back, and warns.
	Drop WhenDisabled = "Drop"
	// Warn lets the request pass and warns.
	Warn WhenDisabled = "Warn"
)

// Ratchet says which uses a stored object can keep while a feature is closed. Kubernetes' own types use both kinds
// (kubernetes/community issue 8907).
type Ratchet string

// The ratchets.
const (
	// InUse: a part that is in use can also change its value.
	InUse Ratchet = "InUse"
	// InObject: an object that uses the feature anywhere can use it everywhere, as with Kubernetes' own fields.
	InObject Ratchet = "InObject"
	// Unchanged: a part that is in use can stay as it is, or be removed.
	Unchanged Ratchet = "Unchanged"
)

// Part is something in an API that a feature gates: a field, some of its values, items of an array, or whole versions.
//
// With Field alone, the part gates the presence of the field (null counts as absent, an empty value as present).
// Values, Pattern, Match and Beyond narrow that down to values of the field; give at most one of them. A field that ends
// in [*] gates items of an array or values of a map.
//
// +kubebuilder:validation:XValidation:rule="has(self.field) != (has(self.wholeVersion) && self.wholeVersion)",message="set either field or wholeVersion"
// +kubebuilder:validation:XValidation:rule="has(self.field) || !(has(self.values) || has(self.pattern) || has(self.match) || has(self.beyond) || has(self.maxItems))",message="a whole version has no values, pattern, match, beyond or maxItems"
// +kubebuilder:validation:XValidation:rule="!(has(self.wholeVersion) && self.wholeVersion) || has(self.versions) && self.versions.size() > 0",message="versions is missing"
// +kubebuilder:validation:XValidation:rule="(has(self.values) ? 1 : 0) + (has(self.pattern) ? 1 : 0) + (has(self.match) ? 1 : 0) + (has(self.beyond) ? 1 : 0) <= 1",message="only one of values, pattern, match and beyond can be given"
// +kubebuilder:validation:XValidation:rule="!has(self.resetTo) || has(self.values) || has(self.pattern) || has(self.beyond)",message="resetTo needs values, pattern or beyond: without them the value would be gated itself",fieldPath=".resetTo"
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
	// WholeVersion gates all writes in the versions. The fields below cannot be set with it.
	WholeVersion bool `json:"wholeVersion,omitempty"`
	// Field is a path from the root of the object, for example spec.tasks[*].timeout or spec.env[*].secretRef. Names are separated
	// by dots. [*] stands for every item of an array and every value of a map. Write ["a.b"] for a name or key with other characters
	// than letters, digits, - and _.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2000
	Field string `json:"field,omitempty"`
	// Values are strings, or the JSON text of numbers and booleans.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=200
	// +listType=set
	// +kubebuilder:validation:items:MaxLength=1000
	Values []string `json:"values,omitempty"`
	// Pattern is a regular expression (RE2) that has to match anywhere in a string.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	Pattern string `json:"pattern,omitempty"`
	// Match are conditions on an object; all of them must hold.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	Match []Match `json:"match,omitempty"`
	// Beyond gates the values outside of bounds, which a schema with these bounds would refuse.
	Beyond *Bounds `json:"beyond,omitempty"`
	// ResetTo is what a gated value becomes where it would be dropped, in place of its removal: a string, or the JSON text of a number or
	// boolean. It needs whenDisabled Drop, and values, pattern or beyond.
	// +kubebuilder:validation:MaxLength=1000
	ResetTo *string `json:"resetTo,omitempty"`
	// MaxItems is how many items and entries the lists and maps on the way to the field have at most, if the schema does not say so; 5000
	// if neither does. Policies read that many. If a new object has more and uses the part, the refusal names the number instead of the
	// places.
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
	// Pattern is a regular expression (RE2) that has to match anywhere in a string.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	Pattern string `json:"pattern,omitempty"`
}

// Bounds are those of values that a part does not gate. A value that is outside of any of them is gated.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.minimum) || !has(self.maximum) || self.minimum <= self.maximum",message="minimum is greater than maximum"
type Bounds struct {
	// Minimum: a smaller number is gated.
	Minimum *int64 `json:"minimum,omitempty"`
	// Maximum: a greater number is gated.
	Maximum *int64 `json:"maximum,omitempty"`
	// MaxLength: a string of more characters is gated.
	// +kubebuilder:validation:Minimum=0
	MaxLength *int64 `json:"maxLength,omitempty"`
	// MaxItems: an array with more items is gated, and a map or object with more entries.
	// +kubebuilder:validation:Minimum=0
	MaxItems *int64 `json:"maxItems,omitempty"`
	// Values: every other value is gated. They are strings, or the JSON text of numbers and booleans.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=200
	// +listType=set
	// +kubebuilder:validation:items:MaxLength=1000
	Values []string `json:"values,omitempty"`
	// Pattern is a regular expression (RE2): every value is gated except strings in which it matches.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	Pattern string `json:"pattern,omitempty"`
}

// FeatureStatus is the state of a feature.
type FeatureStatus struct {
	// ObservedGeneration is the generation of the object that the status describes.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Stage is the one that the installed release has reached; empty before the first.
	Stage Stage `json:"stage,omitempty"`
	// Default is what the stage says; left out before the first stage.
	Default *bool `json:"default,omitempty"`
	// Enabled says if the settings open the feature; left out while that is not known.
	Enabled *bool `json:"enabled,omitempty"`
	// Why says in a sentence what decided Enabled.
	Why string `json:"why,omitempty"`
	// InUse is how many stored objects used the feature at the last count. It is left out before the first count, and if they cannot be
	// counted; see the condition Counted.
	InUse *int64 `json:"inUse,omitempty"`
	// InUseTime is the time of that count. While the number stays the same, Sluice updates the time once an hour.
	InUseTime *metav1.Time `json:"inUseTime,omitempty"`
	// EnforcedBy lists the policies and webhooks that enforce the feature.
	EnforcedBy []Enforcer `json:"enforcedBy,omitempty"`
	// Conditions have the types Accepted, Enforced, Skew and Counted.
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

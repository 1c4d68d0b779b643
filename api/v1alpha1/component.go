package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Component is a program, or several that are released together, with features that its users can turn on and off. Its
// name is that of the component; it is part of labels, so that name and gate have 62 characters together at most.
//
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=sluice"
// +kubebuilder:resource:categories=sluice,scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Release",type=string,JSONPath=`.spec.release`
// +kubebuilder:printcolumn:name="Level",type=string,JSONPath=`.status.level`
// +kubebuilder:printcolumn:name="Features",type=integer,JSONPath=`.status.features`
// +kubebuilder:printcolumn:name="Enabled",type=integer,JSONPath=`.status.enabled`
// +kubebuilder:printcolumn:name="In use",type=integer,JSONPath=`.status.inUse`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Skew",type=string,JSONPath=`.status.conditions[?(@.type=="Skew")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 61 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name is part of labels; lower case letters, digits and - are allowed, 61 characters at most"
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Component struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ComponentSpec   `json:"spec,omitempty"`
	Status ComponentStatus `json:"status,omitempty"`
}

// ComponentList is a list of components.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ComponentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Component `json:"items"`
}

// ComponentSpec says where the settings of a component stand and what they may say.
//
// +kubebuilder:validation:XValidation:rule="(has(self.levelKey) ? self.levelKey : 'enable-api-fields') != (has(self.gatesKey) ? self.gatesKey : 'feature-gates')",message="levelKey and gatesKey are to be different"
// +kubebuilder:validation:XValidation:rule="(has(self.maxLevel) ? self.maxLevel : 'alpha') == 'alpha' || (has(self.defaultLevel) ? self.defaultLevel : 'stable') == 'stable' || self.maxLevel == 'beta' && self.defaultLevel == 'beta'",message="defaultLevel is beyond maxLevel"
type ComponentSpec struct {
	// Release is the release that is installed, a semantic version with or without a leading v. It chooses among the
	// stages of each feature. Empty: stages are chosen by date.
	// +kubebuilder:validation:MaxLength=100
	Release string `json:"release,omitempty"`
	// ConfigMap holds the settings. If left out, the component has none in the cluster, only flags.
	ConfigMap *ConfigMapReference `json:"configMap,omitempty"`
	// Namespaces are those in which processes of the component run: reports of features count only from there. Empty stands for
	// that of the ConfigMap; without a ConfigMap no report counts then.
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
	// Mode is how settings reach the API server; empty stands for Live.
	// +kubebuilder:validation:Enum=Live;Baked
	Mode Mode `json:"mode,omitempty"`
	// DefaultLevel is the level where the settings give none; empty stands for stable.
	// +kubebuilder:validation:Enum=stable;beta;alpha
	DefaultLevel Level `json:"defaultLevel,omitempty"`
	// MaxLevel closes what is less stable, whatever anybody sets; empty stands for alpha, which closes nothing.
	// +kubebuilder:validation:Enum=stable;beta;alpha
	MaxLevel Level `json:"maxLevel,omitempty"`
	// LevelKey is the key of the settings that gives the level; empty stands for enable-api-fields.
	// +kubebuilder:validation:MaxLength=253
	LevelKey string `json:"levelKey,omitempty"`
	// GatesKey is the key of the settings that lists gates in the form A=true,B=false; empty stands for feature-gates.
	// +kubebuilder:validation:MaxLength=253
	GatesKey string `json:"gatesKey,omitempty"`
	// Settings are keys that are no gates and pass. So do keys that begin with an underscore.
	// +kubebuilder:validation:MaxItems=500
	// +listType=map
	// +listMapKey=name
	Settings []Setting `json:"settings,omitempty"`
	// Resources says of resources how stable their most stable version is; one that is left out is Stable.
	// +kubebuilder:validation:MaxItems=500
	Resources []ResourceStage `json:"resources,omitempty"`
	// OptIn lets users who cannot change the settings use closed features. If it is left out, nobody can.
	OptIn *OptIn `json:"optIn,omitempty"`
	// TellUse lists stages, Alpha, Beta or Deprecated: whoever begins to use a part of a feature at one of them is told by a warning,
	// and the audit log by an annotation, though the feature is open. Empty: nobody is told.
	// +sluice:feature=TellUse
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=Alpha;Beta;Deprecated
	TellUse []Stage `json:"tellUse,omitempty"`
}

// ConfigMapReference names a ConfigMap.
type ConfigMapReference struct {
	// Namespace is that of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name is that of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Mode is how settings reach the API server.
type Mode string

// The modes.
const (
	// Live has the policies read the ConfigMap: in force within milliseconds.
	Live Mode = "Live"
	// Baked has a controller write the settings into the policies: in force after about a second, and nothing to go missing.
	Baked Mode = "Baked"
)

// Level is the value of the key enable-api-fields: how unstable a part may be that is open without its own key.
type Level string

// The levels, the narrowest first.
const (
	LevelStable Level = "stable"
	LevelBeta   Level = "beta"
	LevelAlpha  Level = "alpha"
)

// Setting is a key of the settings that is no gate.
type Setting struct {
	// Name is the key.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Pattern is a regular expression (RE2) that the whole value must match; empty lets every value pass.
	// +kubebuilder:validation:MaxLength=1000
	Pattern string `json:"pattern,omitempty"`
}

// ResourceStage says how stable the most stable version of a resource is.
type ResourceStage struct {
	// Group is the API group; empty stands for the core group.
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// Resource is the plural name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Resource string `json:"resource"`
	// HighestStage is Beta or Stable. Where it is Beta, level stable opens the beta parts of the resource.
	// +kubebuilder:validation:Enum=Beta;Stable
	HighestStage Stage `json:"highestStage"`
}

// OptIn says who else may use a closed feature, within maxLevel.
type OptIn struct {
	// NamespaceLabel: in namespaces with the label feature.sluice.dev/COMPONENT.GATE: enabled.
	NamespaceLabel bool `json:"namespaceLabel,omitempty"`
	// RBAC: users who have the verb use on features.sluice.dev by the name of the Feature.
	RBAC bool `json:"rbac,omitempty"`
	// OnlyAllowed: only features of which the settings say allowed can be opened so. Others are off for everybody while they are off.
	OnlyAllowed bool `json:"onlyAllowed,omitempty"`
}

// ComponentStatus is what has become of a component.
type ComponentStatus struct {
	// ObservedGeneration is the generation of the object that the status speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Level is the level in force.
	Level Level `json:"level,omitempty"`
	// Features is how many features the component has.
	// +optional
	Features int32 `json:"features"`
	// Enabled is how many of them are open.
	// +optional
	Enabled int32 `json:"enabled"`
	// InUse is how many of them a stored object uses.
	// +optional
	InUse int32 `json:"inUse"`
	// SettingsVersion is the resourceVersion of the ConfigMap whose settings are in force; empty stands for defaults.
	SettingsVersion string `json:"settingsVersion,omitempty"`
	// Settings are the last good ones as they stood in the ConfigMap. They are in force while those in it are bad (baked mode),
	// and put back when it is gone (live mode). Settings of more than 256 KiB are not kept.
	Settings map[string]string `json:"settings,omitempty"`
	// Conditions are of the types Accepted, Enforced and Skew.
	// +sluice:loosen=pattern;minLength;maxLength;minimum
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Types of conditions, of components and of features.
const (
	// ConditionAccepted is True when definition and settings hold no error.
	ConditionAccepted = "Accepted"
	// ConditionEnforced is True when the API server enforces what the settings say.
	ConditionEnforced = "Enforced"
	// ConditionSkew is True when processes disagree with each other, with the settings, or with what is enforced.
	ConditionSkew = "Skew"
	// ConditionCounted, of features only, is True when the stored objects that use the feature have been counted.
	ConditionCounted = "Counted"
)

// Reasons of the condition [ConditionCounted].
const (
	ReasonCounted = "Counted"
	// ReasonNotCounted: the first count has not ended yet.
	ReasonNotCounted = "NotCounted"
	// ReasonCountForbidden: the controller may not list the objects.
	ReasonCountForbidden = "CountForbidden"
	// ReasonCountFailed: they could not be listed for another reason.
	ReasonCountFailed = "CountFailed"
)

// Reasons of the condition [ConditionAccepted].
const (
	ReasonAccepted          = "Accepted"
	ReasonInvalidDefinition = "InvalidDefinition"
	ReasonInvalidSettings   = "InvalidSettings"
	ReasonComponentNotFound = "ComponentNotFound"
	ReasonResourceNotFound  = "ResourceNotFound"
)

// Reasons of the condition [ConditionEnforced].
const (
	ReasonEnforcedByPolicy  = "ByPolicy"
	ReasonEnforcedByWebhook = "ByWebhook"
	ReasonBehaviourOnly     = "BehaviourOnly"
	ReasonOpenForAll        = "OpenForAll"
	ReasonNotEnforced       = "NotEnforced"
	// ReasonNotObserved: the API server has not looked at the policies yet, or has not been seen to enforce what is written.
	ReasonNotObserved = "NotObserved"
	// ReasonWebhookUnreachable: the API server called the webhook and got no answer.
	ReasonWebhookUnreachable = "WebhookUnreachable"
	// ReasonNoFeatures: the component has no features, so that there is nothing to enforce yet.
	ReasonNoFeatures = "NoFeatures"
	// ReasonSettingsUnknown: the settings could not be read yet.
	ReasonSettingsUnknown = "SettingsUnknown"
	// ReasonSettingsMissing: the ConfigMap is gone and could not be put back.
	ReasonSettingsMissing = "SettingsMissing"
)

// Reasons of events about components and features, besides those of conditions.
const (
	// EventRestored: somebody else had changed or deleted a policy or a binding.
	EventRestored = "Restored"
	// EventSettingsPutBack: the ConfigMap of a live component was gone.
	EventSettingsPutBack = "SettingsPutBack"
	// EventOpened and EventClosed: the settings open or close a feature that they did not before.
	EventOpened = "Opened"
	EventClosed = "Closed"
)

// Reasons of the condition [ConditionSkew].
const (
	ReasonProcessesAgree    = "ProcessesAgree"
	ReasonProcessesDisagree = "ProcessesDisagree"
	ReasonRollingUpdate     = "RollingUpdate"
	ReasonNoReports         = "NoReports"
	// ReasonEnforcementDiffers is given where the processes agree, but the API server enforces something else.
	ReasonEnforcementDiffers = "EnforcementDiffers"
)

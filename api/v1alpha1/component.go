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

// ComponentSpec says where the settings of a component are, and which settings are valid.
//
// +kubebuilder:validation:XValidation:rule="(has(self.levelKey) ? self.levelKey : 'enable-api-fields') != (has(self.gatesKey) ? self.gatesKey : 'feature-gates')",message="levelKey and gatesKey have to be different"
// +kubebuilder:validation:XValidation:rule="(has(self.maxLevel) ? self.maxLevel : 'alpha') == 'alpha' || (has(self.defaultLevel) ? self.defaultLevel : 'stable') == 'stable' || self.maxLevel == 'beta' && self.defaultLevel == 'beta'",message="defaultLevel is beyond maxLevel"
type ComponentSpec struct {
	// Release is the release that is installed, a semantic version with or without a leading v. It chooses among the
	// stages of each feature. Empty: stages are chosen by date.
	// +kubebuilder:validation:MaxLength=100
	Release string `json:"release,omitempty"`
	// ConfigMap holds the settings. If left out, the component has none in the cluster, only flags.
	ConfigMap *ConfigMapReference `json:"configMap,omitempty"`
	// Namespaces are those in which processes of the component run. Reports of features count only from there. Empty stands for
	// the namespace of the ConfigMap; without a ConfigMap no report counts.
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
	// Mode is how settings reach the API server; empty stands for Live.
	// +kubebuilder:validation:Enum=Live;Baked
	Mode Mode `json:"mode,omitempty"`
	// Convention says whose features these behave like. Kubernetes and CertManager: the default of a stage opens fields and values too, AllAlpha and
	// AllBeta set them, and there is no level. Tekton: fields and values follow the level, and neither a default nor AllAlpha or AllBeta opens them.
	// Empty: fields and values follow the level, unless their stage has default: true, and AllAlpha=true and AllBeta=true open them too.
	// +kubebuilder:validation:Enum=Kubernetes;Tekton;CertManager
	Convention Convention `json:"convention,omitempty"`
	// DefaultLevel is the level if the settings give none; empty stands for stable.
	// +kubebuilder:validation:Enum=stable;beta;alpha
	DefaultLevel Level `json:"defaultLevel,omitempty"`
	// MaxLevel closes less stable features, whatever the settings say; empty stands for alpha, which closes nothing.
	// +kubebuilder:validation:Enum=stable;beta;alpha
	MaxLevel Level `json:"maxLevel,omitempty"`
	// LevelKey is the key of the settings that gives the level; empty stands for enable-api-fields.
	// +kubebuilder:validation:MaxLength=253
	LevelKey string `json:"levelKey,omitempty"`
	// GatesKey is the key of the settings that lists gates in the form A=true,B=false; empty stands for feature-gates.
	// +kubebuilder:validation:MaxLength=253
	GatesKey string `json:"gatesKey,omitempty"`
	// Settings are valid keys that are no gates. Keys that begin with an underscore are valid too.
	// +kubebuilder:validation:MaxItems=500
	// +listType=map
	// +listMapKey=name
	Settings []Setting `json:"settings,omitempty"`
	// Resources says how stable the most stable version of a resource is; a resource that is left out is Stable.
	// +kubebuilder:validation:MaxItems=500
	Resources []ResourceStage `json:"resources,omitempty"`
	// OptIn lets users who cannot change the settings use closed features. If it is left out, nobody can.
	OptIn *OptIn `json:"optIn,omitempty"`
	// TellUse lists stages: Alpha, Beta or Deprecated. If a client starts to use a part of an open feature at one of these stages, the API
	// server warns the client and annotates the audit log. Empty: no warnings.
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
	// Live: the policies read the ConfigMap. A change is in force within milliseconds.
	Live Mode = "Live"
	// Baked: a controller writes the settings into the policies. A change is in force after about a second, and the policies need no
	// ConfigMap.
	Baked Mode = "Baked"
)

// Convention is the way in which a project sets features.
type Convention string

// The conventions.
const (
	// ConventionKubernetes is that of k8s.io/component-base/featuregate.
	ConventionKubernetes Convention = "Kubernetes"
	// ConventionTekton is that of Tekton's TEP-0033 (https://github.com/tektoncd/community/blob/main/teps/0033-tekton-feature-gates.md).
	ConventionTekton Convention = "Tekton"
	// ConventionCertManager is that of cert-manager, which uses the gates of component-base: the same as ConventionKubernetes.
	ConventionCertManager Convention = "CertManager"
)

// HasLevel reports whether a level opens fields and values.
func (c Convention) HasLevel() bool { return c != ConventionKubernetes && c != ConventionCertManager }

// Level is the value of the key enable-api-fields: the least stable stage that is open without a key of its own.
type Level string

// The levels, the narrowest first.
const (
	LevelStable Level = "stable"
	LevelBeta   Level = "beta"
	LevelAlpha  Level = "alpha"
)

// Setting is a key of the settings that is no gate.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minimum) || !has(self.maximum) || self.minimum <= self.maximum",message="minimum is greater than maximum"
type Setting struct {
	// Name is the key.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Pattern is a regular expression (RE2) that the whole value must match; empty accepts every value.
	// +kubebuilder:validation:MaxLength=1000
	Pattern string `json:"pattern,omitempty"`
	// Minimum is the least whole number that the value can be. With minimum or maximum the value must be a whole number.
	Minimum *int64 `json:"minimum,omitempty"`
	// Maximum is the greatest whole number that the value can be.
	Maximum *int64 `json:"maximum,omitempty"`
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
	// HighestStage is Beta or Stable. If it is Beta, level stable opens the beta parts of the resource. A beta feature that
	// follows the level may not gate parts of resources that differ in it.
	// +kubebuilder:validation:Enum=Beta;Stable
	HighestStage Stage `json:"highestStage"`
}

// OptIn says who else can use a closed feature, within maxLevel.
type OptIn struct {
	// NamespaceLabel opens the feature in namespaces with the label feature.sluice.dev/COMPONENT.GATE: enabled.
	NamespaceLabel bool `json:"namespaceLabel,omitempty"`
	// RBAC opens the feature for users who have the verb use on features.sluice.dev, for the name of the Feature.
	RBAC bool `json:"rbac,omitempty"`
	// OnlyAllowed limits the opt-in to features that the settings set to allowed. Other features that are off are off for everybody.
	OnlyAllowed bool `json:"onlyAllowed,omitempty"`
}

// ComponentStatus is the state of a component.
type ComponentStatus struct {
	// ObservedGeneration is the generation of the object that the status describes.
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
	// Settings are the last good settings of the ConfigMap. They are in force while the ConfigMap has errors (baked mode), and Sluice
	// restores them if the ConfigMap is deleted (live mode). Sluice does not keep settings of more than 256 KiB.
	Settings map[string]string `json:"settings,omitempty"`
	// Conditions have the types Accepted, Enforced and Skew.
	// +sluice:loosen=pattern;minLength;maxLength;minimum
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Types of conditions, of components and of features.
const (
	// ConditionAccepted is True when definition and settings hold no error.
	ConditionAccepted = "Accepted"
	// ConditionEnforced is True when the API server enforces the settings.
	ConditionEnforced = "Enforced"
	// ConditionSkew is True when processes disagree with each other, with the settings, or with the policies and webhooks.
	ConditionSkew = "Skew"
	// ConditionCounted is True when the stored objects that use the feature have been counted. Only features have it.
	ConditionCounted = "Counted"
)

// Reasons of the condition [ConditionCounted].
const (
	// ReasonCounted: the stored objects have been counted.
	ReasonCounted = "Counted"
	// ReasonNotCounted: the first count has not ended yet.
	ReasonNotCounted = "NotCounted"
	// ReasonCountForbidden: the controller has no right to list the objects.
	ReasonCountForbidden = "CountForbidden"
	// ReasonCountFailed: the objects could not be listed for another reason.
	ReasonCountFailed = "CountFailed"
)

// Reasons of the condition [ConditionAccepted].
const (
	// ReasonAccepted: definition and settings have no error.
	ReasonAccepted = "Accepted"
	// ReasonInvalidDefinition: the definition of the component or the feature has an error.
	ReasonInvalidDefinition = "InvalidDefinition"
	// ReasonInvalidSettings: the ConfigMap has an error. The last good settings stay in force.
	ReasonInvalidSettings = "InvalidSettings"
	// ReasonComponentNotFound: the component of the feature does not exist.
	ReasonComponentNotFound = "ComponentNotFound"
	// ReasonResourceNotFound: the feature gates a resource or a field that the cluster does not have.
	ReasonResourceNotFound = "ResourceNotFound"
	// ReasonPartsWaiting: the definition has no error, but the cluster lacks a resource, a version, a field or a value that a part gates.
	// That part waits. The others are enforced.
	ReasonPartsWaiting = "PartsWaiting"
)

// Reasons of the condition [ConditionEnforced].
const (
	// ReasonEnforcedByPolicy: admission policies enforce the feature.
	ReasonEnforcedByPolicy = "ByPolicy"
	// ReasonEnforcedByWebhook: the webhook enforces at least a part of it.
	ReasonEnforcedByWebhook = "ByWebhook"
	// ReasonBehaviourOnly: the feature gates only behaviour, so the API server has nothing to enforce.
	ReasonBehaviourOnly = "BehaviourOnly"
	// ReasonOpenForAll: the feature is open for everybody, so there is nothing to enforce.
	ReasonOpenForAll = "OpenForAll"
	// ReasonNotEnforced: the API server does not enforce the settings; the message says why.
	ReasonNotEnforced = "NotEnforced"
	// ReasonNotObserved: the API server has not read the policies yet, or nobody has seen it enforce them.
	ReasonNotObserved = "NotObserved"
	// ReasonWebhookUnreachable: the API server called the webhook and got no answer.
	ReasonWebhookUnreachable = "WebhookUnreachable"
	// ReasonNoFeatures: the component has no features, so there is nothing to enforce yet.
	ReasonNoFeatures = "NoFeatures"
	// ReasonSettingsUnknown: the settings could not be read yet.
	ReasonSettingsUnknown = "SettingsUnknown"
	// ReasonSettingsMissing: the ConfigMap is gone and could not be restored. The condition is Accepted.
	ReasonSettingsMissing = "SettingsMissing"
)

// Reasons of events about components and features, in addition to those of conditions.
const (
	// EventRestored: somebody else had changed or deleted a policy or a binding.
	EventRestored = "Restored"
	// EventSettingsPutBack: the ConfigMap of a live component was gone.
	EventSettingsPutBack = "SettingsPutBack"
	// EventOpened: the settings open a feature that was closed before.
	EventOpened = "Opened"
	// EventClosed: the settings close a feature that was open before.
	EventClosed = "Closed"
)

// Reasons of the condition [ConditionSkew].
const (
	// ReasonProcessesAgree: the processes agree with each other, with the settings and with the API server.
	ReasonProcessesAgree = "ProcessesAgree"
	// ReasonProcessesDisagree: processes disagree with each other or with the settings.
	ReasonProcessesDisagree = "ProcessesDisagree"
	// ReasonRollingUpdate: processes disagree because an update is in progress.
	ReasonRollingUpdate = "RollingUpdate"
	// ReasonNoReports: no process reports its features.
	ReasonNoReports = "NoReports"
	// ReasonEnforcementDiffers: the processes agree, but the API server enforces something else.
	ReasonEnforcementDiffers = "EnforcementDiffers"
)

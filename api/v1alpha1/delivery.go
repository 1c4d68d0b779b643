package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/api/resolution/v1beta1"
)

// Delivery keeps in the cluster what stands in a source: it fetches it, has the preflights look at it, applies it, and puts
// right what others have changed. Everything is done as a ServiceAccount of its namespace. What is applied is recorded as
// the app of the same name, as sluice apply --app does.
//
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=sluice"
// +kubebuilder:resource:categories=sluice
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.applied.revision`
// +kubebuilder:printcolumn:name="Fail",type=integer,JSONPath=`.status.report.fail`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`,priority=1
// +kubebuilder:printcolumn:name="Observed",type=string,JSONPath=`.status.observed.revision`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 200",message="a name has 200 characters at most"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.dependsOn) || self.spec.dependsOn.all(d, d.name != self.metadata.name || has(d.__namespace__))",message="a delivery cannot depend on itself",fieldPath=".spec.dependsOn"
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Delivery struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec DeliverySpec `json:"spec,omitempty"`
	// Status is what has become of it. It has a default, because tools that wait take an object without a status for ready.
	// +default={"observedGeneration": -1, "conditions": [{"type": "Ready", "status": "Unknown", "reason": "Pending", "message": "no controller has looked at it yet", "lastTransitionTime": "1970-01-01T00:00:00Z"}]}
	Status DeliveryStatus `json:"status,omitempty"`
}

// DeliveryList is a list of deliveries.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type DeliveryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Delivery `json:"items"`
}

// DeliverySpec says what is delivered, and how.
type DeliverySpec struct {
	// Source is where the objects are.
	Source DeliverySource `json:"source"`
	// Interval is how often Sluice fetches the source again and corrects drift. The default is ten minutes.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('168h')",message="an interval has 1s at least and 168h at most"
	Interval *metav1.Duration `json:"interval,omitempty"`
	// Suspend stops all that; what was delivered stays.
	Suspend bool `json:"suspend,omitempty"`
	// Preflights are those that run, as in preflightRules of kapp's configuration: one that is not named does not run.
	// If left out, CRDUpgradeSafety runs with its defaults.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Preflights []Preflight `json:"preflights,omitempty"`
	// ServiceAccountName is the ServiceAccount of the namespace that everything is done as; empty stands for default.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:default="default"
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// TargetNamespace is where objects go that have no namespace; empty stands for that of the delivery.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	TargetNamespace string `json:"targetNamespace,omitempty"`
	// Prune deletes what the source no longer has. CRDs with stored objects stay in any case.
	Prune bool `json:"prune,omitempty"`
	// MaxDeletes is how many objects Prune may delete at once: a number, or a share of the objects of the delivery such as "30%". If it
	// would delete more, the delivery stops. If left out, half of the objects may go, or 10 if that is more.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : string(self).matches('^([0-9]{1,6}|[0-9]{1,2}%|100%)$')",message="a number, or a share from 0% to 100%"
	MaxDeletes *intstr.IntOrString `json:"maxDeletes,omitempty"`
	// DeletionPolicy says what becomes of the objects when the Delivery is deleted. Orphan leaves them. Delete deletes them, as sluice delete
	// does, and keeps what others have objects in.
	// +kubebuilder:validation:Enum=Orphan;Delete
	// +kubebuilder:default=Orphan
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// DriftPolicy says what becomes of changes that others make to what is delivered. Correct puts them right. Warn only shows them.
	// +kubebuilder:validation:Enum=Correct;Warn
	// +kubebuilder:default=Correct
	DriftPolicy DriftPolicy `json:"driftPolicy,omitempty"`
	// TakeOver are deliveries, or apps of sluice apply, whose objects this one takes where its source has them, such as those of a
	// delivery that had another name. The namespace is that of their inventory.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	TakeOver []DeliveryReference `json:"takeOver,omitempty"`
	// Force takes fields that other appliers own, and objects of other apps. Without it such a conflict stops the delivery.
	Force bool `json:"force,omitempty"`
	// DependsOn are deliveries that must be ready before.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	DependsOn []DeliveryReference `json:"dependsOn,omitempty"`
	// Wait makes the delivery ready only when all its objects are, as kstatus tells; true if left out.
	// +kubebuilder:default=true
	Wait *bool `json:"wait,omitempty"`
	// Timeout is how long an apply may take, and after it the objects to become ready; five minutes if left out.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="a timeout has 1s at least and 1h at most"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// DeletionPolicy says what becomes of the objects of a delivery that is deleted.
type DeletionPolicy string

// The policies for deletions.
const (
	DeletionOrphan DeletionPolicy = "Orphan"
	DeletionDelete DeletionPolicy = "Delete"
)

// DriftPolicy says what becomes of changes that others make.
type DriftPolicy string

// The policies for drift.
const (
	DriftCorrect DriftPolicy = "Correct"
	DriftWarn    DriftPolicy = "Warn"
)

// FinalizerDelivery is on deliveries whose objects are deleted with them.
const FinalizerDelivery = "sluice.dev/delivery"

// DeliverySource is where objects are: either a resolver with its parameters, or a URL.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.resolver)",message="either url or resolver is needed"
// +kubebuilder:validation:XValidation:rule="!has(self.params) || has(self.resolver)",message="params are those of a resolver",fieldPath=".params"
type DeliverySource struct {
	// Resolver is the name of a resolver, as of a ResolutionRequest.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Resolver string `json:"resolver,omitempty"`
	// Params are the parameters of the resolver, each name once.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Params []v1beta1.Param `json:"params,omitempty"`
	// URL is the short form: git+https://HOST/REPO//PATH?ref=REV (also git+http and git+ssh), oci://REGISTRY/REPO:TAG,
	// https://... or http://...
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^(git[+]https|git[+]http|git[+]ssh|oci|https|http)://[^/]')",message="a source is git+https://, git+http://, git+ssh://, oci://, https:// or http:// and a host; for others name a resolver"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[a-z+]+://[^/]*:[^/]*@')",message="a password does not belong here; name the resolver and a Secret in its params"
	URL string `json:"url,omitempty"`
}

// Preflight is a preflight that runs.
type Preflight struct {
	// Name is CRDUpgradeSafety, PermissionValidation or FeatureGates.
	// +kubebuilder:validation:Enum=CRDUpgradeSafety;PermissionValidation;FeatureGates
	Name string `json:"name"`
	// Config is that of the rule in kapp's configuration: mode, failMode, levels, rules, suppressions; of FeatureGates mode.
	// +kubebuilder:pruning:PreserveUnknownFields
	Config *runtime.RawExtension `json:"config,omitempty"`
}

// DeliveryReference names a delivery.
type DeliveryReference struct {
	// Name is that of the delivery.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	Name string `json:"name"`
	// Namespace is empty for that of the one that refers.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// DeliveryStatus is what has become of a delivery.
type DeliveryStatus struct {
	// ObservedGeneration is the generation of the object that the status speaks of; -1 before a controller has looked at it.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are of the types Ready, Resolved, PreflightsPassed and Applied, and Stalled, Suspended and Drifted while it is.
	// +sluice:loosen=pattern
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Observed is what the source held when it was fetched last.
	Observed *Revision `json:"observed,omitempty"`
	// Applied is what was applied last in full.
	Applied *Revision `json:"applied,omitempty"`
	// AppliedTime is when Applied was applied first, or drift was put right last.
	AppliedTime *metav1.Time `json:"appliedTime,omitempty"`
	// Decided is what the preflights looked at last: while nothing of it changes, a blocked delivery stays blocked.
	Decided *Decided `json:"decided,omitempty"`
	// Asked is the value of the annotation sluice.dev/reconcile-at that was answered last.
	Asked string `json:"asked,omitempty"`
	// Inventory is the record of what was applied.
	Inventory *InventoryReference `json:"inventory,omitempty"`
	// Report is what the preflights found in what they looked at last, and what the API server warned of; left out where that is nothing.
	Report *DeliveryReport `json:"report,omitempty"`
	// Drift lists what others have changed in the delivered objects, as of the last comparison that found a difference.
	Drift *DeliveryDrift `json:"drift,omitempty"`
	// KeptTime is when what runs was last looked at, and drift of it put right, although the source brought nothing to apply: it is
	// blocked, or cannot be had.
	KeptTime *metav1.Time `json:"keptTime,omitempty"`
	// CheckedTime is when the source was fetched last.
	CheckedTime *metav1.Time `json:"checkedTime,omitempty"`
	// Request is the ResolutionRequest that brought it.
	Request *RequestReference `json:"request,omitempty"`
}

// DeliveryDrift is what others have changed.
type DeliveryDrift struct {
	// Objects is how many objects differ.
	Objects int32 `json:"objects"`
	// Examples are some of them, five at most.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Examples []string `json:"examples,omitempty"`
	// SeenTime is when the difference was seen first.
	SeenTime *metav1.Time `json:"seenTime,omitempty"`
	// CorrectedTime is when the drift was corrected; empty until then.
	CorrectedTime *metav1.Time `json:"correctedTime,omitempty"`
}

// Revision is a state of a source.
type Revision struct {
	// Revision is the state in short: ALGORITHM:DIGEST of the commit or image, or of the content.
	Revision string `json:"revision"`
	// Digest is that of the content that was fetched, sha256:...
	Digest string `json:"digest"`
	// URI says where it came from, as far as the resolver tells.
	URI string `json:"uri,omitempty"`
	// EntryPoint is the file there, as far as the resolver tells.
	EntryPoint string `json:"entryPoint,omitempty"`
}

// Decided identifies what a decision was about.
type Decided struct {
	// Digest is that of the content.
	Digest string `json:"digest"`
	// Generation is that of the delivery.
	Generation int64 `json:"generation"`
	// Asked is the value that the annotation sluice.dev/reconcile-at had.
	Asked string `json:"asked,omitempty"`
	// Features identifies what the preflight FeatureGates found; empty where that was nothing, or it did not run.
	Features string `json:"features,omitempty"`
}

// InventoryReference names the ConfigMap, in the delivery's namespace, that records what was applied.
type InventoryReference struct {
	// Name is that of the ConfigMap.
	Name string `json:"name"`
	// Objects is how many it has.
	Objects int32 `json:"objects"`
}

// RequestReference names a ResolutionRequest in the delivery's namespace.
type RequestReference struct {
	// Name is that of the ResolutionRequest.
	Name string `json:"name"`
	// UID is that of the ResolutionRequest.
	UID types.UID `json:"uid"`
}

// DeliveryReport is what preflights found, in short, and what the API server warned of.
type DeliveryReport struct {
	// Fail is how many findings fail.
	Fail int32 `json:"fail"`
	// Warn is how many findings warn.
	Warn int32 `json:"warn"`
	// Undecided is how many findings could not be decided.
	Undecided int32 `json:"undecided"`
	// Notes is how many findings are notes.
	Notes int32 `json:"notes"`
	// Worst has the worst findings, five at most, the most severe first.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Worst []DeliveryFinding `json:"worst,omitempty"`
	// ConfigMap, in the delivery's namespace, has the whole report: report.json, and report.txt for people. It is empty
	// where that could not be written.
	ConfigMap string `json:"configMap,omitempty"`
	// Warnings are what the API server warned of when objects of this revision were written last, five at most.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Warnings []DeliveryWarning `json:"warnings,omitempty"`
}

// DeliveryWarning is what the API server warned of.
type DeliveryWarning struct {
	// Message is the server's.
	Message string `json:"message"`
	// Objects is how many objects it was told of.
	Objects int32 `json:"objects"`
	// Examples are some of the objects.
	// +listType=atomic
	Examples []string `json:"examples,omitempty"`
}

// DeliveryFinding is a finding; the fields are those of the report.
type DeliveryFinding struct {
	// Rule is the rule that found it.
	Rule string `json:"rule"`
	// Level is the level of harm; left out where nothing was decided.
	Level string `json:"level,omitempty"`
	// Severity is fail or warn.
	Severity string `json:"severity"`
	// CRD is the name of the definition that it is about.
	CRD string `json:"crd"`
	// Version is the version that it is about, where it is one.
	Version string `json:"version,omitempty"`
	// Path is the field that it is about, where it is one.
	Path string `json:"path,omitempty"`
	// Message says what changed, and who is hurt.
	Message string `json:"message"`
	// Witness is an object, as YAML, that shows it. A long one is cut.
	Witness string `json:"witness,omitempty"`
	// Effect is what becomes of that object.
	Effect string `json:"effect,omitempty"`
	// Checked is how many stored objects were read.
	Checked int64 `json:"checked,omitempty"`
	// Affected is how many of them it holds for.
	Affected int64 `json:"affected,omitempty"`
	// Examples are the names of some of them.
	// +listType=atomic
	Examples []string `json:"examples,omitempty"`
}

// AnnotationReconcile on a delivery asks, by any new value, to fetch and to try at once, what is blocked as well.
const AnnotationReconcile = "sluice.dev/reconcile-at"

// Types of conditions of a delivery.
const (
	// ConditionReady is True when what the source holds is in the cluster, and ready if that is waited for.
	ConditionReady = "Ready"
	// ConditionResolved is True when the source could be fetched.
	ConditionResolved = "Resolved"
	// ConditionPreflightsPassed is True when nothing that the preflights found stops what was fetched.
	ConditionPreflightsPassed = "PreflightsPassed"
	// ConditionApplied is True when what was fetched is applied.
	ConditionApplied = "Applied"
	// ConditionStalled is True while nothing changes before somebody does something, and absent otherwise; reason and message are
	// those of Ready. kstatus takes such an object for failed.
	ConditionStalled = "Stalled"
	// ConditionDrifted is True while others have changed what is delivered, and absent otherwise.
	ConditionDrifted = "Drifted"
	// ConditionSuspended is True while the delivery is suspended, and absent otherwise.
	ConditionSuspended = "Suspended"
)

// Reasons of the conditions of a delivery, and of its events.
const (
	// ReasonPending: no controller has looked at it yet. The CRD sets it by default.
	ReasonPending = "Pending"
	// ReasonDelivered: all is as it is to be.
	ReasonDelivered = "Delivered"
	// ReasonResolving: the source is being fetched.
	ReasonResolving = "Resolving"
	// ReasonResolved: it was fetched.
	ReasonResolved = "Resolved"
	// ReasonResolutionFailed: it could not be fetched; it is tried again.
	ReasonResolutionFailed = "ResolutionFailed"
	// ReasonInvalidSource: the source cannot be asked for, or what came is not a list of objects.
	ReasonInvalidSource = "InvalidSource"
	// ReasonInvalidConfiguration: the spec cannot be followed.
	ReasonInvalidConfiguration = "InvalidConfiguration"
	// ReasonDependencyNotReady: another delivery comes first. ReasonDependencyCycle: and that one waits for this one.
	ReasonDependencyNotReady = "DependencyNotReady"
	ReasonDependencyCycle    = "DependencyCycle"
	// ReasonPassed: the preflights found nothing that stops it.
	ReasonPassed = "Passed"
	// ReasonBlocked: the preflights stop it, until the source or the spec changes.
	ReasonBlocked = "Blocked"
	// ReasonPreflightFailed: a preflight could not be run; it is tried again.
	ReasonPreflightFailed = "PreflightFailed"
	// ReasonImpersonationRefused: the controller may not act as the ServiceAccount.
	ReasonImpersonationRefused = "ImpersonationRefused"
	// ReasonForbidden: the ServiceAccount may not do it, or a webhook refuses it.
	ReasonForbidden = "Forbidden"
	// ReasonFieldConflict: other appliers own fields that would change.
	ReasonFieldConflict = "FieldConflict"
	// ReasonOtherApp: an object belongs to another app.
	ReasonOtherApp = "OtherApp"
	// ReasonNamespaceTerminating: a namespace is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonUnknownKind: the cluster does not serve a kind, and the source has no CRD for it.
	ReasonUnknownKind = "UnknownKind"
	// ReasonApplying: an apply has begun and waits for what others have to do, such as a finalizer; it goes on by itself.
	ReasonApplying = "Applying"
	// ReasonTimedOut: it took longer than the timeout.
	ReasonTimedOut = "TimedOut"
	// ReasonApplyFailed: it could not be applied; the message says why.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonApplied: it is applied. ReasonDriftCorrected, of events only: what others had changed is put right.
	ReasonApplied        = "Applied"
	ReasonDriftCorrected = "DriftCorrected"
	// ReasonTooManyDeletions: pruning would delete more objects than spec.maxDeletes allows.
	ReasonTooManyDeletions = "TooManyDeletions"
	// ReasonDrift: others have changed what is delivered.
	ReasonDrift = "Drift"
	// ReasonDeleting: the delivery is being deleted, and its objects with it. ReasonDeletionIncomplete, of events only: some of them stay.
	ReasonDeleting           = "Deleting"
	ReasonDeletionIncomplete = "DeletionIncomplete"
	// ReasonInventoryLost, of events only: objects carry the mark of the delivery, and there is no inventory.
	ReasonInventoryLost = "InventoryLost"
	// ReasonWaiting: objects are not ready yet. ReasonNotReady: nor within the timeout.
	ReasonWaiting  = "Waiting"
	ReasonNotReady = "NotReady"
	// ReasonSuspended: spec.suspend is true.
	ReasonSuspended = "Suspended"
)

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/api/resolution/v1beta1"
)

// Delivery keeps the objects of a source in the cluster. Sluice fetches the source, runs the preflights, applies the objects, and
// corrects changes of others. It acts as a ServiceAccount of the Delivery's namespace. It records the objects as the app of the same
// name, as sluice apply --app does.
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
	// Status is the state of the delivery. It has a default, because tools that wait treat an object without a status as ready.
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
	// Migrate rewrites the stored objects of a CRD in its storage version, as sluice migrate does, before a source is applied whose CRD
	// lacks a version that the cluster has. The ServiceAccount needs the verbs list and patch for these objects, and patch for
	// customresourcedefinitions/status.
	Migrate bool `json:"migrate,omitempty"`
	// MaxDeletes is how many objects Prune may delete at once: a number, or a share of the objects of the delivery such as "30%". If it
	// would delete more, the delivery stops. If left out, the limit is half of the objects, or 10 if that is more.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : string(self).matches('^([0-9]{1,6}|[0-9]{1,2}%|100%)$')",message="a number, or a share from 0% to 100%"
	MaxDeletes *intstr.IntOrString `json:"maxDeletes,omitempty"`
	// DeletionPolicy says what happens to the objects when the Delivery is deleted. Orphan leaves them. Delete deletes them, as sluice
	// delete does, and keeps CRDs and namespaces in which others have objects.
	// +kubebuilder:validation:Enum=Orphan;Delete
	// +kubebuilder:default=Orphan
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// DriftPolicy says what happens if others change delivered objects. Correct corrects the changes. Warn only shows them.
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
	// Wait makes the delivery ready only when kstatus says that all its objects are ready; true if left out.
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

// DeletionPolicy says what happens to the objects of a deleted delivery.
type DeletionPolicy string

// The policies for deletions.
const (
	DeletionOrphan DeletionPolicy = "Orphan"
	DeletionDelete DeletionPolicy = "Delete"
)

// DriftPolicy says what happens to changes of others.
type DriftPolicy string

// The policies for drift.
const (
	DriftCorrect DriftPolicy = "Correct"
	DriftWarn    DriftPolicy = "Warn"
)

// FinalizerDelivery is on deliveries whose objects are deleted with them.
const FinalizerDelivery = "sluice.dev/delivery"

// DeliverySource is where objects are: a resolver with its parameters, a URL, or a source of Flux.
//
// +kubebuilder:validation:XValidation:rule="[has(self.url), has(self.resolver), has(self.flux)].filter(x, x).size() == 1",message="one of url, resolver and flux is needed"
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
	// Flux is a source of Flux in the namespace of the delivery.
	Flux *FluxSource `json:"flux,omitempty"`
}

// FluxSource names an object of source.toolkit.fluxcd.io/v1, whose artifact is delivered.
type FluxSource struct {
	// Kind is GitRepository, OCIRepository or Bucket.
	// +kubebuilder:validation:Enum=GitRepository;OCIRepository;Bucket
	Kind string `json:"kind"`
	// Name is that of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Path is the folder of the artifact whose YAML and JSON files are delivered. If left out, all of them are.
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path,omitempty"`
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

// DeliveryStatus is the state of a delivery.
type DeliveryStatus struct {
	// ObservedGeneration is the generation of the object that the status describes; -1 before a controller has read it.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions have the types Ready, Resolved, PreflightsPassed and Applied; Migrated if spec.migrate had objects rewritten; and Stalled, Suspended and Drifted while they are True.
	// +sluice:loosen=pattern
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Observed is the revision of the source at the last fetch.
	Observed *Revision `json:"observed,omitempty"`
	// Applied is the revision that was last applied in full.
	Applied *Revision `json:"applied,omitempty"`
	// AppliedTime is when Applied was first applied, or when drift was last corrected.
	AppliedTime *metav1.Time `json:"appliedTime,omitempty"`
	// Decided identifies the input of the last preflights. While it does not change, a blocked delivery stays blocked.
	Decided *Decided `json:"decided,omitempty"`
	// Asked is the last value of the annotation sluice.dev/reconcile-at that the controller has answered.
	Asked string `json:"asked,omitempty"`
	// Inventory names the record of the applied objects.
	Inventory *InventoryReference `json:"inventory,omitempty"`
	// Report has the findings of the last preflights, and the warnings of the API server. It is left out if there are none.
	Report *DeliveryReport `json:"report,omitempty"`
	// Drift lists what others have changed in the delivered objects, as of the last comparison that found a difference.
	Drift *DeliveryDrift `json:"drift,omitempty"`
	// KeptTime is when Sluice last checked the delivered objects, and corrected their drift, while the source is blocked or cannot be
	// fetched.
	KeptTime *metav1.Time `json:"keptTime,omitempty"`
	// CheckedTime is when the source was last fetched.
	CheckedTime *metav1.Time `json:"checkedTime,omitempty"`
	// Request is the ResolutionRequest that fetches the source.
	Request *RequestReference `json:"request,omitempty"`
}

// DeliveryDrift describes the changes of others.
type DeliveryDrift struct {
	// Objects is how many objects differ.
	Objects int32 `json:"objects"`
	// Examples are some of them, five at most.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Examples []string `json:"examples,omitempty"`
	// SeenTime is when the difference was first seen.
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
	// URI is the address that it came from, if the resolver reports it.
	URI string `json:"uri,omitempty"`
	// EntryPoint is the file there, if the resolver reports it.
	EntryPoint string `json:"entryPoint,omitempty"`
}

// Decided identifies the input of a decision.
type Decided struct {
	// Digest is that of the content.
	Digest string `json:"digest"`
	// Generation is that of the delivery.
	Generation int64 `json:"generation"`
	// Asked is the value that the annotation sluice.dev/reconcile-at had.
	Asked string `json:"asked,omitempty"`
	// Features identifies the findings of the preflight FeatureGates; empty if there were none, or if it did not run.
	Features string `json:"features,omitempty"`
}

// InventoryReference names the ConfigMap, in the delivery's namespace, that records the applied objects.
type InventoryReference struct {
	// Name is that of the ConfigMap.
	Name string `json:"name"`
	// Objects is how many objects it records.
	Objects int32 `json:"objects"`
}

// RequestReference names a ResolutionRequest in the delivery's namespace.
type RequestReference struct {
	// Name is that of the ResolutionRequest.
	Name string `json:"name"`
	// UID is that of the ResolutionRequest.
	UID types.UID `json:"uid"`
}

// DeliveryReport summarizes the findings of the preflights, and the warnings of the API server.
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
	// if Sluice could not write the ConfigMap.
	ConfigMap string `json:"configMap,omitempty"`
	// Warnings are the warnings of the API server at the last write of objects of this revision, five at most.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Warnings []DeliveryWarning `json:"warnings,omitempty"`
}

// DeliveryWarning is a warning of the API server.
type DeliveryWarning struct {
	// Message is the server's.
	Message string `json:"message"`
	// Objects is how many objects got the warning.
	Objects int32 `json:"objects"`
	// Examples are some of the objects.
	// +listType=atomic
	Examples []string `json:"examples,omitempty"`
}

// DeliveryFinding is a finding; the fields are those of the report.
type DeliveryFinding struct {
	// Rule is the rule that found it.
	Rule string `json:"rule"`
	// Level is the level of harm; left out if the change is undecided.
	Level string `json:"level,omitempty"`
	// Severity is fail or warn.
	Severity string `json:"severity"`
	// CRD is the name of the definition that it is about.
	CRD string `json:"crd"`
	// Version is the version that it is about, if it is about one.
	Version string `json:"version,omitempty"`
	// Path is the field that it is about, if it is about one.
	Path string `json:"path,omitempty"`
	// Message says what changed, and whom it hurts.
	Message string `json:"message"`
	// Witness is an object, as YAML, that shows it. A long one is cut.
	Witness string `json:"witness,omitempty"`
	// Effect is what happens to that object.
	Effect string `json:"effect,omitempty"`
	// Checked is how many stored objects were read.
	Checked int64 `json:"checked,omitempty"`
	// Affected is how many of them the change harms.
	Affected int64 `json:"affected,omitempty"`
	// Examples are the names of some of them.
	// +listType=atomic
	Examples []string `json:"examples,omitempty"`
}

// AnnotationReconcile on a delivery, with any new value, asks the controller to fetch the source and to try again at once, even if the
// delivery is blocked.
const AnnotationReconcile = "sluice.dev/reconcile-at"

// Types of conditions of a delivery.
const (
	// ConditionReady is True when the objects of the source are in the cluster, and, if spec.wait is set, ready.
	ConditionReady = "Ready"
	// ConditionResolved is True when the source could be fetched.
	ConditionResolved = "Resolved"
	// ConditionPreflightsPassed is True when no finding of the preflights blocks the fetched objects.
	ConditionPreflightsPassed = "PreflightsPassed"
	// ConditionApplied is True when the fetched objects are applied.
	ConditionApplied = "Applied"
	// ConditionMigrated is True when the objects of a CRD that loses a version are rewritten, and False until then. It is absent if none was.
	ConditionMigrated = "Migrated"
	// ConditionStalled is True while the delivery waits for somebody to act, and absent otherwise. Reason and message are those of
	// Ready. kstatus treats such an object as failed.
	ConditionStalled = "Stalled"
	// ConditionDrifted is True while delivered objects have changes of others, and absent otherwise.
	ConditionDrifted = "Drifted"
	// ConditionSuspended is True while the delivery is suspended, and absent otherwise.
	ConditionSuspended = "Suspended"
)

// Reasons of the conditions of a delivery, and of its events.
const (
	// ReasonPending: no controller has read it yet. The CRD sets it by default.
	ReasonPending = "Pending"
	// ReasonDelivered: all objects are delivered.
	ReasonDelivered = "Delivered"
	// ReasonResolving: the source is being fetched.
	ReasonResolving = "Resolving"
	// ReasonResolved: the source was fetched.
	ReasonResolved = "Resolved"
	// ReasonResolutionFailed: the source could not be fetched. The controller tries again.
	ReasonResolutionFailed = "ResolutionFailed"
	// ReasonInvalidSource: the source cannot be requested, or its content is not a list of objects.
	ReasonInvalidSource = "InvalidSource"
	// ReasonInvalidConfiguration: the spec cannot be followed.
	ReasonInvalidConfiguration = "InvalidConfiguration"
	// ReasonDependencyNotReady: the delivery waits for another one.
	ReasonDependencyNotReady = "DependencyNotReady"
	// ReasonDependencyCycle: the delivery waits for another one, which waits for this one.
	ReasonDependencyCycle = "DependencyCycle"
	// ReasonPassed: the preflights found nothing that stops the delivery.
	ReasonPassed = "Passed"
	// ReasonBlocked: the preflights stop the delivery until the source or the spec changes.
	ReasonBlocked = "Blocked"
	// ReasonPreflightFailed: a preflight could not run. The controller tries again.
	ReasonPreflightFailed = "PreflightFailed"
	// ReasonImpersonationRefused: the controller has no right to act as the ServiceAccount.
	ReasonImpersonationRefused = "ImpersonationRefused"
	// ReasonForbidden: the ServiceAccount lacks a right, or a webhook refuses the request.
	ReasonForbidden = "Forbidden"
	// ReasonFieldConflict: other appliers own fields that would change.
	ReasonFieldConflict = "FieldConflict"
	// ReasonOtherApp: an object belongs to another app.
	ReasonOtherApp = "OtherApp"
	// ReasonNamespaceTerminating: a namespace is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonUnknownKind: the cluster does not serve a kind, and the source has no CRD for it.
	ReasonUnknownKind = "UnknownKind"
	// ReasonApplying: an apply has begun and waits for others, such as a finalizer. It resumes by itself.
	ReasonApplying = "Applying"
	// ReasonTimedOut: the delivery took longer than the timeout.
	ReasonTimedOut = "TimedOut"
	// ReasonApplyFailed: the objects could not be applied; the message says why.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonApplied: the objects are applied.
	ReasonApplied = "Applied"
	// ReasonDriftCorrected: the controller has corrected changes of others. Only events have this reason.
	ReasonDriftCorrected = "DriftCorrected"
	// ReasonTooManyDeletions: pruning would delete more objects than spec.maxDeletes allows.
	ReasonTooManyDeletions = "TooManyDeletions"
	// ReasonMigrating: the objects of a CRD are being rewritten in its storage version.
	ReasonMigrating = "Migrating"
	// ReasonMigrated: the objects of a CRD are in its storage version.
	ReasonMigrated = "Migrated"
	// ReasonObjectsRefused: objects of a CRD cannot be rewritten in its storage version, so the source is not applied.
	ReasonObjectsRefused = "ObjectsRefused"
	// ReasonDrift: others have changed delivered objects.
	ReasonDrift = "Drift"
	// ReasonDeleting: the delivery is being deleted, and its objects with it.
	ReasonDeleting = "Deleting"
	// ReasonDeletionIncomplete: the delivery is deleted, and some of its objects stay. Only events have this reason.
	ReasonDeletionIncomplete = "DeletionIncomplete"
	// ReasonInventoryLost: objects carry the mark of the delivery, and there is no inventory. Only events have this reason.
	ReasonInventoryLost = "InventoryLost"
	// ReasonWaiting: objects are not ready yet.
	ReasonWaiting = "Waiting"
	// ReasonNotReady: objects were not ready within the timeout.
	ReasonNotReady = "NotReady"
	// ReasonSuspended: spec.suspend is true.
	ReasonSuspended = "Suspended"
)

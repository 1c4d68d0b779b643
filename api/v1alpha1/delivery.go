package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/resolution/v1beta1"
)

// Delivery keeps in the cluster what stands in a source: it fetches it, has the preflights look at it, applies it, and puts
// right what others have changed. Everything is done as a ServiceAccount of its namespace. What is applied is recorded as
// the app of the same name, as sluice apply --app does.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
//
//nolint:modernize // omitempty is what every tool expects here; omitzero would change what is written
type Delivery struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DeliverySpec   `json:"spec,omitempty"`
	Status DeliveryStatus `json:"status,omitempty"`
}

// DeliveryList is a list of deliveries.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
//
//nolint:modernize // omitempty is what every tool expects here; omitzero would change what is written
type DeliveryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Delivery `json:"items"`
}

// DeliverySpec says what is delivered, and how.
type DeliverySpec struct {
	// Source is where the objects are.
	Source DeliverySource `json:"source"`
	// Interval is how often the source is fetched again and drift is put right; nil stands for ten minutes.
	Interval *metav1.Duration `json:"interval,omitempty"`
	// Suspend stops all that; what was delivered stays.
	Suspend bool `json:"suspend,omitempty"`
	// Preflights are those that run, as in preflightRules of kapp's configuration: one that is not named does not run. Nil
	// stands for CRDUpgradeSafety with its defaults.
	Preflights []Preflight `json:"preflights,omitempty"`
	// ServiceAccountName is the ServiceAccount of the namespace that everything is done as; empty stands for default.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// TargetNamespace is where objects go that have no namespace; empty stands for that of the delivery.
	TargetNamespace string `json:"targetNamespace,omitempty"`
	// Prune deletes what the source no longer has. CRDs with stored objects stay in any case.
	Prune bool `json:"prune,omitempty"`
	// Force takes fields that other appliers own, and objects of other apps. Without it such a conflict stops the delivery.
	Force bool `json:"force,omitempty"`
	// DependsOn are deliveries that must be ready before.
	// +listType=atomic
	DependsOn []DeliveryReference `json:"dependsOn,omitempty"`
	// Wait makes the delivery ready only when all its objects are, as kstatus tells; nil stands for true.
	Wait *bool `json:"wait,omitempty"`
	// Timeout is how long an apply may take, and after it the objects to become ready; nil stands for five minutes.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// DeliverySource is where objects are: either a resolver with its parameters, or a URL.
type DeliverySource struct {
	// Resolver and Params are those of a ResolutionRequest.
	Resolver string `json:"resolver,omitempty"`
	// +listType=map
	// +listMapKey=name
	Params []v1beta1.Param `json:"params,omitempty"`
	// URL is the short form: git+https://HOST/REPO//PATH?ref=REV (also git+http and git+ssh), oci://REGISTRY/REPO:TAG,
	// https://... or http://...
	URL string `json:"url,omitempty"`
}

// Preflight is a preflight that runs.
type Preflight struct {
	// Name is CRDUpgradeSafety, PermissionValidation or FeatureGates.
	Name string `json:"name"`
	// Config is that of the rule in kapp's configuration: mode, failMode, levels, rules, suppressions; of FeatureGates mode.
	Config *runtime.RawExtension `json:"config,omitempty"`
}

// DeliveryReference names a delivery.
type DeliveryReference struct {
	Name string `json:"name"`
	// Namespace is empty for that of the one that refers.
	Namespace string `json:"namespace,omitempty"`
}

// DeliveryStatus is what has become of a delivery.
type DeliveryStatus struct {
	// ObservedGeneration is the generation of the object that the status speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are of the types Ready, Resolved, PreflightsPassed and Applied, and Suspended while it is.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Observed is what the source held when it was fetched last; Applied what was applied last in full.
	Observed *Revision `json:"observed,omitempty"`
	Applied  *Revision `json:"applied,omitempty"`
	// AppliedTime is when Applied was applied first, or drift was put right last.
	AppliedTime *metav1.Time `json:"appliedTime,omitempty"`
	// Decided is what the preflights looked at last: while nothing of it changes, a blocked delivery stays blocked.
	Decided *Decided `json:"decided,omitempty"`
	// Asked is the value of [AnnotationReconcile] that was answered last.
	Asked string `json:"asked,omitempty"`
	// Inventory is the record of what was applied.
	Inventory *InventoryReference `json:"inventory,omitempty"`
	// Report is what the preflights found in what they looked at last; nil where they found nothing.
	Report *DeliveryReport `json:"report,omitempty"`
	// KeptTime is when what runs was last looked at, and drift of it put right, although the source brought nothing to apply: it is
	// blocked, or cannot be had.
	KeptTime *metav1.Time `json:"keptTime,omitempty"`
	// CheckedTime is when the source was fetched last, and Request the ResolutionRequest that brought it.
	CheckedTime *metav1.Time      `json:"checkedTime,omitempty"`
	Request     *RequestReference `json:"request,omitempty"`
}

// Revision is a state of a source.
type Revision struct {
	// Revision is the state in short: ALGORITHM:DIGEST of the commit or image, or of the content.
	Revision string `json:"revision"`
	// Digest is that of the content that was fetched, sha256:...
	Digest string `json:"digest"`
	// URI and EntryPoint say where it came from, as far as the resolver tells.
	URI        string `json:"uri,omitempty"`
	EntryPoint string `json:"entryPoint,omitempty"`
}

// Decided identifies what a decision was about.
type Decided struct {
	Digest     string `json:"digest"`
	Generation int64  `json:"generation"`
	// Asked is the value that the annotation [AnnotationReconcile] had.
	Asked string `json:"asked,omitempty"`
	// Features identifies what the preflight FeatureGates found; empty where that was nothing, or it did not run.
	Features string `json:"features,omitempty"`
}

// InventoryReference names the ConfigMap, in the delivery's namespace, that records what was applied.
type InventoryReference struct {
	Name string `json:"name"`
	// Objects is how many it has.
	Objects int32 `json:"objects"`
}

// RequestReference names a ResolutionRequest in the delivery's namespace.
type RequestReference struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// DeliveryReport is what preflights found, in short.
type DeliveryReport struct {
	Fail      int32 `json:"fail"`
	Warn      int32 `json:"warn"`
	Undecided int32 `json:"undecided"`
	Notes     int32 `json:"notes"`
	// Worst has the worst findings, five at most, the most severe first.
	// +listType=atomic
	Worst []DeliveryFinding `json:"worst,omitempty"`
	// ConfigMap, in the delivery's namespace, has the whole report: report.json, and report.txt for people. It is empty
	// where that could not be written.
	ConfigMap string `json:"configMap,omitempty"`
}

// DeliveryFinding is a finding; the fields are those of the report.
type DeliveryFinding struct {
	Rule     string `json:"rule"`
	Level    string `json:"level,omitempty"`
	Severity string `json:"severity"`
	CRD      string `json:"crd"`
	Version  string `json:"version,omitempty"`
	Path     string `json:"path,omitempty"`
	Message  string `json:"message"`
	// Witness is an object, as YAML, that shows it, and Effect what becomes of that object. Long ones are cut.
	Witness string `json:"witness,omitempty"`
	Effect  string `json:"effect,omitempty"`
	// Checked is how many stored objects were read, Affected how many of them it holds for, and Examples names of some.
	Checked  int64 `json:"checked,omitempty"`
	Affected int64 `json:"affected,omitempty"`
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
	// ConditionSuspended is True while the delivery is suspended, and absent otherwise.
	ConditionSuspended = "Suspended"
)

// Reasons of the conditions of a delivery, and of its events.
const (
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
	// ReasonWaiting: objects are not ready yet. ReasonNotReady: nor within the timeout.
	ReasonWaiting  = "Waiting"
	ReasonNotReady = "NotReady"
	// ReasonSuspended: spec.suspend is true.
	ReasonSuspended = "Suspended"
)

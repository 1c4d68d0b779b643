package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FeatureReport says with which gates one process of a component runs. The process writes it itself, in its own namespace,
// and renews it as long as it runs; its pod or lease owns it, so that it goes with the process. One that was not renewed in
// time counts for nothing, and so does one outside of the component's namespaces (spec.namespaces, or else that of its ConfigMap).
//
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=sluice"
// +kubebuilder:resource:categories=sluice
// +kubebuilder:printcolumn:name="Component",type=string,JSONPath=`.spec.component`
// +kubebuilder:printcolumn:name="Process",type=string,JSONPath=`.spec.process`
// +kubebuilder:printcolumn:name="Instance",type=string,JSONPath=`.spec.instance`
// +kubebuilder:printcolumn:name="Release",type=string,JSONPath=`.spec.release`
// +kubebuilder:printcolumn:name="Renewed",type=date,JSONPath=`.spec.renewTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type FeatureReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec FeatureReportSpec `json:"spec,omitempty"`
}

// FeatureReportList is a list of reports.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type FeatureReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FeatureReport `json:"items"`
}

// FeatureReportSpec is what a process says of itself.
type FeatureReportSpec struct {
	// Component is the name of the Component.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=61
	Component string `json:"component"`
	// Process says what kind of process it is, for example webhook. It is the name that requiredProcesses uses.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Process string `json:"process"`
	// Instance tells processes of a kind apart: the name of the pod, for example.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Instance string `json:"instance"`
	// Release is the release of the component that the process was built from.
	// +kubebuilder:validation:MaxLength=100
	Release string `json:"release,omitempty"`
	// Revision tells roll-outs of the process apart, for example the pod's label pod-template-hash. Two revisions, or two
	// releases, of one process at a time mean that a rolling update is under way.
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision,omitempty"`
	// StartTime is when the process started.
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// RenewTime is when the report was written last.
	RenewTime metav1.Time `json:"renewTime"`
	// LeaseDurationSeconds is for how long after RenewTime the report counts.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds"`
	// SettingsVersion is the resourceVersion of the ConfigMap that the process has read last; empty where it reads none.
	// +kubebuilder:validation:MaxLength=253
	SettingsVersion string `json:"settingsVersion,omitempty"`
	// SettingsErrors say why the process stays with earlier settings; none: it does not.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=2000
	SettingsErrors []string `json:"settingsErrors,omitempty"`
	// Features are the gates that the process knows, sorted by gate.
	// +listType=map
	// +listMapKey=gate
	// +kubebuilder:validation:MaxItems=5000
	Features []ReportedFeature `json:"features,omitempty"`
}

// ReportedFeature is a gate as a process has it.
type ReportedFeature struct {
	// Gate is the name of the feature.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=61
	Gate string `json:"gate"`
	// Enabled tells whether the process has the feature on, as far as that is the process's own business: what other
	// processes report does not count here.
	Enabled bool `json:"enabled"`
	// Pending is the value that the feature will have when the process starts the next time; left out where that is no other.
	Pending *bool `json:"pending,omitempty"`
	// Why says in a sentence what decided Enabled.
	// +kubebuilder:validation:MaxLength=1000
	Why string `json:"why,omitempty"`
}

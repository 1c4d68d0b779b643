package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FeatureReport says with which gates one process of a component runs. The process writes it itself, in its own namespace,
// and renews it as long as it runs; its pod or lease owns it, so that it goes with the process. One that was not renewed in
// time counts for nothing, and so does one outside of the component's namespaces (spec.namespaces, or else that of its ConfigMap).
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
//
//nolint:modernize // omitempty is what every tool expects here; omitzero would change what is written
type FeatureReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec FeatureReportSpec `json:"spec,omitempty"`
}

// FeatureReportList is a list of reports.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
//
//nolint:modernize // omitempty is what every tool expects here; omitzero would change what is written
type FeatureReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FeatureReport `json:"items"`
}

// FeatureReportSpec is what a process says of itself.
type FeatureReportSpec struct {
	// Component is the name of the Component.
	Component string `json:"component"`
	// Process says what kind of process it is, for example webhook. It is the name that requiredProcesses uses.
	Process string `json:"process"`
	// Instance tells processes of a kind apart: the name of the pod, for example.
	Instance string `json:"instance"`
	// Release is the release of the component that the process was built from.
	Release string `json:"release,omitempty"`
	// Revision tells roll-outs of the process apart, for example the pod's label pod-template-hash. Two revisions, or two
	// releases, of one process at a time mean that a rolling update is under way.
	Revision string `json:"revision,omitempty"`
	// StartTime is when the process started.
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// RenewTime is when the report was written last.
	RenewTime metav1.Time `json:"renewTime"`
	// LeaseDurationSeconds is for how long after RenewTime the report counts.
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds"`
	// SettingsVersion is the resourceVersion of the ConfigMap that the process has read last; empty where it reads none.
	SettingsVersion string `json:"settingsVersion,omitempty"`
	// SettingsErrors say why the process stays with earlier settings; none: it does not.
	SettingsErrors []string `json:"settingsErrors,omitempty"`
	// Features are the gates that the process knows, sorted by gate.
	// +listType=map
	// +listMapKey=gate
	Features []ReportedFeature `json:"features,omitempty"`
}

// ReportedFeature is a gate as a process has it.
type ReportedFeature struct {
	// Gate is the name of the feature.
	Gate string `json:"gate"`
	// Enabled tells whether the process has the feature on, as far as that is the process's own business: what other
	// processes report does not count here.
	Enabled bool `json:"enabled"`
	// Pending is the value that the feature will have when the process starts the next time; nil where that is no other.
	Pending *bool `json:"pending,omitempty"`
	// Why says in a sentence what decided Enabled.
	Why string `json:"why,omitempty"`
}

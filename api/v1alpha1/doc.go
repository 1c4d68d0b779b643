// Package v1alpha1 holds Sluice's own kinds of the API group sluice.dev: Component, whose users choose which unstable
// parts of its API they want, Feature, one such part with its history of stages, FeatureReport, what a process says of the
// features that it runs with, and Delivery, which keeps in the cluster what stands in a source.
//
// The types say what may be written. Whether a definition of a feature makes sense, and what it means, is decided by package
// feature; what a delivery does, by its controller.
//
// +k8s:deepcopy-gen=package
// +groupName=sluice.dev
package v1alpha1

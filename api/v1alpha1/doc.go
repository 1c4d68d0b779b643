// Package v1alpha1 holds Sluice's own kinds of the API group sluice.dev: Component, whose users choose which unstable
// parts of its API they want, and Feature, one such part with its history of stages.
//
// The types say what may be written. Whether a definition makes sense, and what it means, is decided by package feature.
//
// +k8s:deepcopy-gen=package
// +groupName=sluice.dev
package v1alpha1

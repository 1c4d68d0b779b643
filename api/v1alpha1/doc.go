// Package v1alpha1 holds Sluice's own kinds of the API group sluice.dev:
//
//   - Component: a program whose users choose which unstable parts of its API they want.
//   - Feature: one such part, with its history of stages.
//   - FeatureReport: the features that a process runs with.
//   - Delivery: keeps the objects of a source in the cluster.
//
// The types define the valid fields. Package feature decides if the definition of a feature makes sense, and what it means. The
// controller of deliveries decides what a delivery does.
//
// +k8s:deepcopy-gen=package
// +groupName=sluice.dev
package v1alpha1

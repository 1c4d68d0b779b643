// Package v1 holds the kind Page of the example operator.
//
// +k8s:deepcopy-gen=package
// +groupName=pages.example.dev
package v1

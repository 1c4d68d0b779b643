// Package v1beta1 is the stored version of the API group resolution.tekton.dev: the kind ResolutionRequest, wire
// compatible with that of Tekton Pipelines.
//
// +k8s:deepcopy-gen=package
// +groupName=resolution.tekton.dev
package v1beta1

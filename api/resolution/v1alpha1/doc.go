// Package v1alpha1 is the older, served version of the API group resolution.tekton.dev, in which parameters are a map of
// strings (TEP-0060), and the conversion from and to v1beta1.
//
// +k8s:deepcopy-gen=package
// +groupName=resolution.tekton.dev
package v1alpha1

package apply

import "slices"

// In which order are objects written? This file orders kinds, as far as Kubernetes itself needs an order: a Pod needs its namespace
// and its Secret, and a webhook should not judge the apply that brings it. The order that users ask for, by annotations, is in
// waves.go and works within it.

// Stage says when an object is applied. Stages run one after the other. Objects of one stage are applied concurrently.
type Stage int

// The stages.
const (
	// StageDefinitions has namespaces and CRDs. It ends when the CRDs are established and served.
	StageDefinitions Stage = iota
	// StageSettings has the objects that workloads need at their start: accounts, rights, configuration, storage, services.
	StageSettings
	// StageObjects has all other objects.
	StageObjects
	// StageAdmission has the objects that judge requests, also the later requests of the apply itself.
	StageAdmission
	stages
)

// String names the stage in words that suit "applying ...".
func (s Stage) String() string {
	return [...]string{"namespaces and definitions", "settings", "objects", "admission configuration"}[s]
}

// stageKinds lists the kinds of each stage by group. Kinds that it does not list belong to StageObjects.
var stageKinds = map[Stage]map[string][]string{
	StageDefinitions: {
		"":                     {"Namespace"},
		"apiextensions.k8s.io": {"CustomResourceDefinition"},
	},
	StageSettings: {
		"": {
			"ConfigMap", "Secret", "ServiceAccount", "Service", "LimitRange", "ResourceQuota", "PersistentVolume", "PersistentVolumeClaim",
			"Endpoints",
		},
		"rbac.authorization.k8s.io":    {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"},
		"scheduling.k8s.io":            {"PriorityClass"},
		"storage.k8s.io":               {"StorageClass", "CSIDriver", "VolumeAttributesClass"},
		"node.k8s.io":                  {"RuntimeClass"},
		"networking.k8s.io":            {"NetworkPolicy", "IngressClass"},
		"policy":                       {"PodDisruptionBudget"},
		"apiregistration.k8s.io":       {"APIService"},
		"flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
	},
	StageAdmission: {
		"admissionregistration.k8s.io": {
			"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
			"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
		},
	},
}

// stageOf returns the stage of a kind.
func stageOf(id ID) Stage {
	for s, groups := range stageKinds {
		if slices.Contains(groups[id.Group], id.Kind) {
			return s
		}
	}
	return StageObjects
}

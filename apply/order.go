package apply

import "slices"

// Stage is when an object is applied. Stages follow each other; objects of one stage are applied concurrently.
type Stage int

// The stages.
const (
	// StageDefinitions has namespaces and CRDs. It ends when the CRDs are established and served.
	StageDefinitions Stage = iota
	// StageSettings has what workloads start from: accounts, rights, configuration, storage, services.
	StageSettings
	// StageObjects has all the rest.
	StageObjects
	// StageAdmission has what judges requests from then on, its own delivery included.
	StageAdmission
	stages
)

// String names the stage in words that suit "applying ...".
func (s Stage) String() string {
	return [...]string{"namespaces and definitions", "settings", "objects", "admission configuration"}[s]
}

// stageKinds lists the kinds of each stage by group; what is not in it is of StageObjects.
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

// stageOf says when objects of a kind are applied.
func stageOf(id ID) Stage {
	for s, groups := range stageKinds {
		if slices.Contains(groups[id.Group], id.Kind) {
			return s
		}
	}
	return StageObjects
}

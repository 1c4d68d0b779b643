package config

import (
	"fmt"
	"strings"
)

// Roles of sluice serve for features.
const (
	// FeaturesRole keeps policies in step with features.
	FeaturesRole = "features"
	// FeatureWebhookRole enforces what policies cannot say.
	FeatureWebhookRole = "feature-webhook"
)

// features returns the manifests of the roles for features that are asked for; empty if none is.
func features(o Options) (string, error) {
	var paths []string
	for _, r := range []struct{ role, file string }{{FeaturesRole, "features/40-features.yaml"}, {FeatureWebhookRole, "features/50-webhook.yaml"}} {
		if contains(o.Roles, r.role) {
			paths = append(paths, r.file)
		}
	}
	if paths == nil {
		if len(o.FeatureSettings) > 0 {
			return "", fmt.Errorf("settings of features are for the roles %s and %s, which are not asked for", FeaturesRole, FeatureWebhookRole)
		}
		if len(o.FeatureUsage) > 0 {
			return "", fmt.Errorf("the use of features is counted by the role %s, which is not asked for", FeaturesRole)
		}
		return "", nil
	}
	var parts []string
	for _, p := range append([]string{"features/10-crds.yaml", "features/30-opting-in.yaml"}, paths...) {
		data, err := files.ReadFile(p)
		if err != nil {
			return "", err
		}
		parts = append(parts, string(data))
	}
	for _, s := range o.FeatureSettings {
		namespace, name, ok := strings.Cut(s, "/")
		if !ok || !validName(namespace) || !validName(name) {
			return "", fmt.Errorf("%q is no ConfigMap of the form NAMESPACE/NAME", s)
		}
		parts = append(parts, settingsRole(namespace, name))
	}
	for _, r := range o.FeatureUsage {
		resource, group, _ := strings.Cut(r, ".")
		if !validName(resource) || group != "" && !validName(group) || strings.HasSuffix(r, ".") {
			return "", fmt.Errorf("%q is no resource of the form PLURAL.GROUP", r)
		}
		parts = append(parts, usageRole(resource, group))
	}
	return strings.Join(parts, "---\n"), nil
}

// usageRole lets the controller count the objects of a resource that use features.
func usageRole(resource, group string) string {
	return fmt.Sprintf(`# The controller lists these objects, page by page, to count those that use features.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: sluice-features-usage-%[3]s
  labels: {app.kubernetes.io/part-of: sluice}
rules:
  - {apiGroups: [%[2]q], resources: [%[1]s], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: sluice-features-usage-%[3]s
  labels: {app.kubernetes.io/part-of: sluice}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sluice-features-usage-%[3]s}
subjects:
  - {kind: ServiceAccount, name: sluice-features, namespace: sluice-system}
`, resource, group, strings.TrimSuffix(resource+"."+group, "."))
}

func validName(s string) bool {
	return s != "" && len(s) <= 253 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// settingsRole lets both roles watch the settings of a component, and the controller make them again when they are gone.
func settingsRole(namespace, name string) string {
	return fmt.Sprintf(`# The settings of a component. Both roles watch them; the controller makes them again when they are gone, and may change none.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: sluice-features-settings-%[2]s
  namespace: %[1]s
  labels: {app.kubernetes.io/part-of: sluice}
rules:
  - {apiGroups: [""], resources: [configmaps], resourceNames: [%[2]s], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: sluice-features-settings-%[2]s
  namespace: %[1]s
  labels: {app.kubernetes.io/part-of: sluice}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sluice-features-settings-%[2]s}
subjects:
  - {kind: ServiceAccount, name: sluice-features, namespace: sluice-system}
  - {kind: ServiceAccount, name: sluice-feature-webhook, namespace: sluice-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: sluice-features-settings-%[2]s-missing
  namespace: %[1]s
  labels: {app.kubernetes.io/part-of: sluice}
rules:
  - {apiGroups: [""], resources: [configmaps], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: sluice-features-settings-%[2]s-missing
  namespace: %[1]s
  labels: {app.kubernetes.io/part-of: sluice}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sluice-features-settings-%[2]s-missing}
subjects:
  - {kind: ServiceAccount, name: sluice-features, namespace: sluice-system}
`, namespace, name)
}

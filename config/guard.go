package config

import (
	"errors"
	"fmt"
	"strings"
)

// GuardRole is the role of sluice serve that judges changes of CRDs at admission.
const GuardRole = "crd-guard"

// Places in the manifests of the guard where cert-manager's certificate comes in.
const (
	endOfGuardArgs    = "            - --roles=crd-guard\n"
	endOfGuardPod     = "          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}\n"
	nameOfGuardHook   = "kind: ValidatingWebhookConfiguration\nmetadata:\n  name: sluice-crd-guard\n"
	ownSecretRules    = "  # It is made by server-side apply, whose create has a name that RBAC can look at.\n  - {apiGroups: [\"\"], resources: [secrets], resourceNames: [sluice-crd-guard-tls], verbs: [get, create, patch, update]}\n" //nolint:gosec // RBAC about a Secret, no credential
	ownWebhookRules   = "  # Its certificate, told to the API server.\n  - apiGroups: [admissionregistration.k8s.io]\n    resources: [validatingwebhookconfigurations]\n    resourceNames: [sluice-crd-guard]\n    verbs: [get, patch]\n"
	guardMount        = "          volumeMounts:\n            - {name: certificate, mountPath: /var/run/sluice-crd-guard, readOnly: true}\n      volumes:\n        - {name: certificate, secret: {secretName: sluice-crd-guard-tls}}\n"
	guardCertDir      = "            - --guard-cert-dir=/var/run/sluice-crd-guard\n"
	ownGroups         = "['sluice.dev', 'resolution.tekton.dev']"
	guardInjectedFrom = "  annotations: {cert-manager.io/inject-ca-from: sluice-system/sluice-crd-guard}\n"
)

// guard returns the manifests of the guard.
func guard(o Options) (string, error) {
	paths := []string{"guard/10-rbac.yaml", "guard/20-deployment.yaml", "guard/30-webhook.yaml"}
	if o.GuardCertManager {
		paths = append([]string{"guard/cert-manager.yaml"}, paths...)
	}
	var parts []string
	for _, p := range paths {
		data, err := files.ReadFile(p)
		if err != nil {
			return "", err
		}
		parts = append(parts, string(data))
	}
	text := strings.Join(parts, "---\n")
	if o.GuardCertManager {
		for _, change := range []struct{ at, to string }{
			{endOfGuardArgs, endOfGuardArgs + guardCertDir},
			{endOfGuardPod, endOfGuardPod + guardMount},
			{nameOfGuardHook, nameOfGuardHook + guardInjectedFrom},
			{ownSecretRules, ""},
			{ownWebhookRules, ""},
		} {
			if strings.Count(text, change.at) != 1 {
				return "", errors.New("the manifests of the guard have no place for cert-manager's certificate")
			}
			text = strings.Replace(text, change.at, change.to, 1)
		}
		// The guard would wait for a certificate that waits for a change of them.
		if strings.Count(text, ownGroups) != 2 {
			return "", errors.New("the manifests of the guard have no place for cert-manager's CRDs")
		}
		text = strings.ReplaceAll(text, ownGroups, "['sluice.dev', 'resolution.tekton.dev', 'cert-manager.io', 'acme.cert-manager.io']")
	}
	if len(o.GuardReads) == 0 {
		return text, nil
	}
	for _, group := range o.GuardReads {
		if strings.Trim(group, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || !strings.Contains(group, ".") {
			return "", fmt.Errorf("%q is no API group of CRDs, such as example.com", group)
		}
	}
	return text + fmt.Sprintf(`---
# Are there objects that a deleted CRD would take along?
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: sluice-crd-guard-objects
  labels: {app.kubernetes.io/part-of: sluice}
rules:
  - {apiGroups: [%s], resources: ['*'], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: sluice-crd-guard-objects
  labels: {app.kubernetes.io/part-of: sluice}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sluice-crd-guard-objects}
subjects:
  - {kind: ServiceAccount, name: sluice-crd-guard, namespace: sluice-system}
`, strings.Join(o.GuardReads, ", ")), nil
}

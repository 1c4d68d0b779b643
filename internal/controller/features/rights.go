package features

import (
	"cmp"
	"fmt"
	"strings"
)

// The texts below give commands that are right for every installation: they name its namespace, change no Deployment, and their
// objects have names that neither sluice manifests nor the Helm chart uses.

// serviceAccountFlag is a ServiceAccount of Sluice, as kubectl takes it.
func serviceAccountFlag(namespace, name string) string {
	return " --serviceaccount=" + cmp.Or(namespace, "sluice-system") + ":" + name
}

// letRead says what lets both roles for features watch the settings of a component.
func (s *session) letRead(p *plan) string {
	ref := p.model.Spec().ConfigMap
	role := "sluice-features-reads-" + ref.Name
	return fmt.Sprintf("allow it with: kubectl create role %[1]s -n %[2]s --verb=get,list,watch --resource=configmaps --resource-name=%[3]s && "+
		"kubectl create rolebinding %[1]s -n %[2]s --role=%[1]s", role, ref.Namespace, ref.Name) + serviceAccountFlag(s.Namespace, "sluice-features") + serviceAccountFlag(s.Namespace, "sluice-feature-webhook")
}

// letMake says what lets the controller make the settings of a component.
func (s *session) letMake(p *plan) string {
	ref := p.model.Spec().ConfigMap
	role := "sluice-features-makes-" + ref.Name
	return fmt.Sprintf("let Sluice make it with: kubectl create role %[1]s -n %[2]s --verb=create --resource=configmaps && "+
		"kubectl create rolebinding %[1]s -n %[2]s --role=%[1]s", role, ref.Namespace) + serviceAccountFlag(s.Namespace, "sluice-features")
}

// letCount says what lets the controller of a namespace count the objects of a resource, in the form of crdName.
func letCount(namespace, resource string) string {
	resource = strings.TrimSuffix(resource, ".")
	return fmt.Sprintf("allow it with: kubectl create clusterrole %[1]s --verb=list --resource=%[2]s && kubectl create clusterrolebinding %[1]s --clusterrole=%[1]s",
		"sluice-features-counts-"+resource, resource) + serviceAccountFlag(namespace, "sluice-features")
}

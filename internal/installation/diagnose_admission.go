package installation

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"sluice.dev/config"
	"sluice.dev/internal/brief"
)

// This file looks at what stands between users and the API server: webhooks, admission policies, and the manifests that bring them. A
// defect here is the worst, because it refuses writes in the whole cluster, or lets through what should be refused. For example, a
// webhook whose Service has no ready Pod makes every write fail that it is asked about, if its failurePolicy is Fail.

// soon is how long before its end a certificate that was not renewed is told of. Sluice renews earlier.
const soon = 7 * 24 * time.Hour

// hook is a webhook of Sluice that the API server calls.
type hook struct {
	owner    string // who has it, as KIND NAME
	name     string
	service  string // namespace/name; empty for a URL
	caBundle []byte
}

// checkWebhooks looks at who answers the webhooks, and by which certificate.
//
// One check is made for each webhook. The Service comes first: without a program that answers, the certificate does not matter.
func (d *doctor) checkWebhooks(ctx context.Context) error {
	hooks, err := d.listHooks(ctx)
	if err != nil {
		return err
	}
	for _, h := range hooks {
		problem, fix, err := d.unansweredReason(ctx, h)
		if err != nil {
			return err
		}
		if problem == "" {
			problem, fix = h.certificateProblem(d.now())
		}
		if problem != "" {
			d.addCheck(Fail, h.owner, fix, "webhook %s: %s", h.name, problem)
		} else {
			d.addCheck(OK, h.owner, "", "webhook %s is served", h.name)
		}
	}
	return nil
}

// listHooks lists the webhooks of Sluice's configurations and of the conversion of its kinds.
//
// The order is that of the kinds, and within one that of the API server. If one kind may not be read, a check says so, and the list
// is empty.
func (d *doctor) listHooks(ctx context.Context) ([]hook, error) {
	var out []hook
	add := func(owner, name string, c admissionregistrationv1.WebhookClientConfig) {
		h := hook{owner: owner, name: name, caBundle: c.CABundle}
		if c.Service != nil {
			h.service = c.Service.Namespace + "/" + c.Service.Name
		}
		out = append(out, h)
	}
	ours := metav1.ListOptions{LabelSelector: partOf}
	validating, err := d.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, ours)
	if err != nil {
		return nil, d.noteUnread("ValidatingWebhookConfigurations", err)
	}
	for i := range validating.Items {
		for _, w := range validating.Items[i].Webhooks {
			add("ValidatingWebhookConfiguration "+validating.Items[i].Name, w.Name, w.ClientConfig)
		}
	}
	mutating, err := d.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, ours)
	if err != nil {
		return nil, d.noteUnread("MutatingWebhookConfigurations", err)
	}
	for i := range mutating.Items {
		for _, w := range mutating.Items[i].Webhooks {
			add("MutatingWebhookConfiguration "+mutating.Items[i].Name, w.Name, w.ClientConfig)
		}
	}
	list, err := d.dynamic.Resource(schema.GroupVersionResource{Group: apiextensionsv1.GroupName, Version: "v1", Resource: "customresourcedefinitions"}).List(ctx, ours)
	if err != nil {
		return nil, d.noteUnread("CustomResourceDefinitions", err)
	}
	for i := range list.Items {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &crd); err != nil {
			return nil, err
		}
		if c := crd.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil {
			var to admissionregistrationv1.WebhookClientConfig
			to.CABundle = c.Webhook.ClientConfig.CABundle
			if s := c.Webhook.ClientConfig.Service; s != nil {
				to.Service = &admissionregistrationv1.ServiceReference{Namespace: s.Namespace, Name: s.Name}
			}
			add("CustomResourceDefinition "+crd.Name, "conversion", to)
		}
	}
	return out, nil
}

// unansweredReason says why nobody answers a webhook; empty where somebody does, or where that is not for the cluster to say.
//
// A Service without an EndpointSlice of a ready Pod counts as unanswered. What the user may not read counts as answered, because
// other checks tell of missing rights.
func (d *doctor) unansweredReason(ctx context.Context, h hook) (problem, fix string, err error) {
	if h.service == "" {
		return "", "", nil
	}
	namespace, name, _ := strings.Cut(h.service, "/")
	role := strings.TrimPrefix(name, "sluice-")
	install := d.applyCommand(role) + ", or sluice uninstall"
	if _, err := d.kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return "its Service " + h.service + " does not exist, so that every call fails", install, nil
	} else if err != nil && !apierrors.IsForbidden(err) {
		return "", "", err
	}
	list, err := d.kube.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
	switch {
	case apierrors.IsForbidden(err):
		return "", "", nil
	case err != nil:
		return "", "", err
	}
	for i := range list.Items {
		for _, e := range list.Items[i].Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				return "", "", nil
			}
		}
	}
	if d.deployments[role] == nil {
		return "no program serves it: there is no Deployment " + name, install, nil
	}
	return "no Pod behind its Service " + h.service + " is ready", "see Deployment " + h.service, nil
}

// certificateProblem says what is wrong with the authority that the API server trusts for the webhook.
//
// A bundle may hold an old and a new certificate. The one that ends last counts, because the API server accepts any of them.
func (h hook) certificateProblem(now time.Time) (problem, fix string) {
	if len(h.caBundle) == 0 {
		return "the API server does not know its certificate: caBundle is empty", "start the role; it writes the caBundle"
	}
	restart := "delete the Secret of its certificate and restart the role, which makes a new one; if another program makes the certificate, renew it there"
	var last time.Time
	for rest := h.caBundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "caBundle: " + err.Error(), restart
		}
		if c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	switch {
	case last.IsZero():
		return "caBundle: it holds no certificate", restart
	case last.Before(now):
		return "its certificate ended at " + last.UTC().Format(time.RFC3339), restart
	case last.Before(now.Add(soon)):
		return "its certificate ends at " + last.UTC().Format(time.RFC3339) + " and was not renewed", restart
	}
	return "", ""
}

// checkManifests compares what is installed with what this build installs for the same roles: objects that are missing, and rights,
// kinds and policies that differ.
//
// Only the kinds in [comparedKinds] are compared field by field, and only after what operators may set was taken over. Of other kinds
// it is enough that the object is there.
func (d *doctor) checkManifests(ctx context.Context) error {
	if len(d.deployments) == 0 {
		return nil
	}
	o := d.installedOptions()
	if len(o.Roles) == 0 {
		return nil
	}
	data, err := config.Manifests(o)
	if err != nil {
		return err
	}
	networks := 0
	if list, err := d.kube.NetworkingV1().NetworkPolicies(d.namespace).List(ctx, metav1.ListOptions{LabelSelector: partOf}); err == nil {
		networks = len(list.Items)
	}
	apply := d.applyCommand(o.Roles...) + ", with the other flags of the installation"
	same, unasked, why := 0, 0, ""
	for dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		want := &unstructured.Unstructured{}
		if err := dec.Decode(&want.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		subject := Object{Kind: want.GetKind(), Namespace: want.GetNamespace(), Name: want.GetName()}.String()
		mapping, err := d.mapper.RESTMapping(want.GroupVersionKind().GroupKind())
		if meta.IsNoMatchError(err) {
			continue // an optional kind, such as cert-manager's
		} else if err != nil {
			return err
		}
		client := d.dynamic.Resource(mapping.Resource).Namespace(want.GetNamespace())
		have, err := client.Get(ctx, want.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			if !d.mayBeLeftOut(want, networks) {
				d.addCheck(Fail, subject, apply, "it is missing")
			}
			continue
		}
		if err != nil {
			if err := d.noteUnread(subject, err); err != nil {
				return err
			}
			continue
		}
		if !slices.Contains(comparedKinds, want.GetKind()) {
			same++
			continue
		}
		list, refused := differencesOf(ctx, client, want, have)
		if refused != nil {
			if unasked++; unasked == 1 {
				why = fmt.Sprintf("%s: %s", subject, brief.OneLine(refused.Error()))
			}
		}
		if len(list) == 0 {
			same++
			continue
		}
		d.addDifferences(subject, have, list, apply)
	}
	added := ""
	if unasked > 0 {
		added = fmt.Sprintf("; what others added to %s is not known, because a dry run of an update failed: %s", brief.Count(unasked, "object"), why)
	}
	d.addCheck(OK, "manifests", "", "%s are as this version of sluice installs them%s", brief.Count(same, "object"), added)
	return nil
}

// addDifferences adds the check of an object with its first differences, and the command that removes all. apply is the one that
// installs the object.
//
// A role binding with another role cannot be patched: the API server lets nobody change roleRef. It has to be deleted and applied
// again.
func (d *doctor) addDifferences(subject string, have *unstructured.Unstructured, list []difference, apply string) {
	const most = 3
	var fields []string
	for _, f := range list[:min(len(list), most)] {
		fields = append(fields, f.String())
	}
	if more := len(list) - most; more > 0 {
		fields = append(fields, brief.Count(more, "more field"))
	}
	fix := patchCommand(have, list)
	if list[0].path[0] == "roleRef" { // nobody can change it
		fix = fmt.Sprintf("kubectl%s delete %s %s; %s", inNamespace(have), strings.ToLower(have.GetKind()), have.GetName(), apply)
	}
	d.addCheck(Warn, subject, fix, "it is not as this version of sluice installs it: %s", strings.Join(fields, "; "))
}

// mayBeLeftOut reports whether values of the chart leave out an object that is missing: all network policies, or the disruption budget
// of a role with one replica.
//
// networks is the number of network policies that are installed. With one of them, the values of the chart want all.
func (d *doctor) mayBeLeftOut(want *unstructured.Unstructured, networks int) bool {
	switch want.GetKind() {
	case "NetworkPolicy":
		return networks == 0
	case "PodDisruptionBudget":
		p := d.deployments[strings.TrimPrefix(want.GetName(), "sluice-")]
		return p != nil && p.Spec.Replicas != nil && *p.Spec.Replicas < 2
	}
	return false
}

// patchCommand is the command that removes differences of an installed object.
func patchCommand(have *unstructured.Unstructured, list []difference) string {
	return fmt.Sprintf("kubectl%s patch %s %s --type=json -p '%s'", inNamespace(have), strings.ToLower(have.GetKind()), have.GetName(), strings.ReplaceAll(patchOf(list), "'", `'\''`))
}

// inNamespace is the flag for the namespace of an object; empty if it has none.
func inNamespace(u *unstructured.Unstructured) string {
	if u.GetNamespace() == "" {
		return ""
	}
	return " -n " + u.GetNamespace()
}

// installedOptions are those that the running Deployments were installed with.
//
// A role that this build does not know, of a newer version for instance, is told of and left out.
func (d *doctor) installedOptions() config.Options {
	o := d.flagOptions()
	known := config.RoleNames()
	for _, role := range slices.Sorted(maps.Keys(d.deployments)) {
		if !slices.Contains(known, role) {
			d.addCheck(Warn, "Deployment "+d.namespace+"/"+d.deployments[role].Name, "", "this version of sluice has no role %q", role)
			continue
		}
		o.Roles = append(o.Roles, role)
	}
	return o
}

// optionsOfMost sets the options for arguments that most resolvers have. counts has in how many each occurs.
//
// More than half of the resolvers must have an argument, since one of them may have been changed by hand.
func (d *doctor) optionsOfMost(o *config.Options, counts map[string]int) {
	all := 0
	for role := range d.deployments {
		if strings.HasPrefix(role, "resolver-") {
			all++
		}
	}
	for arg, n := range counts {
		if 2*n <= all {
			continue
		}
		switch name, value, _ := strings.Cut(arg, "="); name {
		case "--wide-addresses":
			o.WideAddresses = true
		case "--compress":
			o.Compress = true
		case "--store":
			o.Store = value
		case "--store-plain-http":
			o.StorePlainHTTP = true
		}
	}
}

// flagOptions are the options that the arguments of the running Deployments tell, without roles.
//
// The arguments are the only record of how Sluice was installed, as a Helm release or as manifests of sluice manifests. What they do
// not tell, such as the image, is not part of the comparison.
func (d *doctor) flagOptions() config.Options {
	o := config.Options{Image: "sluice", Namespace: d.namespace}
	resolvers := map[string]int{} // arguments of resolvers, of which most have them
	for _, role := range slices.Sorted(maps.Keys(d.deployments)) {
		pod := d.deployments[role].Spec.Template.Spec
		for _, c := range pod.Containers {
			for _, arg := range c.Args {
				switch name, value, _ := strings.Cut(arg, "="); name {
				case "--defaults-namespace":
					o.BesideTekton, o.TektonNamespace = true, value
				case "--guard-cert-dir": // cert-manager's
					o.GuardCertManager = true
				case "--config-namespace":
					if value != d.namespace {
						o.TektonResolversNamespace = value
					}
				case "--wide-addresses", "--compress", "--store", "--store-plain-http":
					resolvers[arg]++
				}
			}
		}
		for _, v := range pod.Volumes {
			if v.Name == "store" && v.Secret != nil {
				o.StoreCredentials = v.Secret.SecretName
			}
		}
	}
	d.optionsOfMost(&o, resolvers)
	if !o.BesideTekton {
		o.TektonResolversNamespace = ""
	}
	return o
}

// checkPolicies looks at what the admission policies of Sluice and of its features need to work.
//
// A policy without a binding enforces nothing. A binding whose parameter is missing refuses every write that it matches, if its
// parameterNotFoundAction is Deny.
func (d *doctor) checkPolicies(ctx context.Context) error {
	bindings, err := d.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return d.noteUnread("ValidatingAdmissionPolicyBindings", err)
	}
	bound := map[string][]admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for i := range bindings.Items {
		b := bindings.Items[i]
		bound[b.Spec.PolicyName] = append(bound[b.Spec.PolicyName], b)
	}
	fine, made := 0, 0
	for _, selector := range []string{partOf, managedBy} {
		list, err := d.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return d.noteUnread("ValidatingAdmissionPolicies", err)
		}
		for i := range list.Items {
			p := &list.Items[i]
			if selector == managedBy {
				made++
				if p.Labels["app.kubernetes.io/part-of"] == "sluice" {
					continue // it was in the first list
				}
			}
			good, err := d.checkPolicy(ctx, p, bound[p.Name])
			if err != nil {
				return err
			}
			if good {
				fine++
			}
		}
	}
	if fine > 0 {
		d.addCheck(OK, "policies", "", "%d admission policies are bound and have their parameters", fine)
	}
	if made > 0 && d.deployments["features"] == nil {
		d.addCheck(Warn, "policies", d.applyCommand("features")+", or sluice uninstall",
			"%d admission policies of features are left, and no role features keeps them in step", made)
	}
	return nil
}

// checkPolicy looks at one policy and its bindings.
//
// good says that nothing is wrong with it, as far as the user may look. err means that the API server did not answer.
func (d *doctor) checkPolicy(ctx context.Context, p *admissionregistrationv1.ValidatingAdmissionPolicy, bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding) (good bool, err error) {
	subject := "ValidatingAdmissionPolicy " + p.Name
	good = true
	if len(bindings) == 0 {
		d.addCheck(Fail, subject, "apply the manifests again", "no binding names it, so that it enforces nothing")
		good = false
	}
	if p.Status.TypeChecking != nil && len(p.Status.TypeChecking.ExpressionWarnings) > 0 {
		w := p.Status.TypeChecking.ExpressionWarnings[0]
		d.addCheck(Warn, subject, "", "the API server's type check says of %s: %s", w.FieldRef, w.Warning)
		good = false
	}
	if p.Spec.ParamKind == nil {
		return good, nil
	}
	gv, err := schema.ParseGroupVersion(p.Spec.ParamKind.APIVersion)
	if err != nil {
		return false, err
	}
	mapping, err := d.mapper.RESTMapping(gv.WithKind(p.Spec.ParamKind.Kind).GroupKind(), gv.Version)
	if err != nil {
		d.addCheck(Fail, subject, "apply the manifests again", "the kind %s of its parameters is not served, so that every write that it matches is refused: %v", p.Spec.ParamKind.Kind, err)
		return false, nil
	}
	for _, b := range bindings {
		ref := b.Spec.ParamRef
		if ref == nil || ref.Name == "" || ref.ParameterNotFoundAction == nil || *ref.ParameterNotFoundAction != admissionregistrationv1.DenyAction {
			continue
		}
		param := Object{Kind: p.Spec.ParamKind.Kind, Namespace: ref.Namespace, Name: ref.Name}.String()
		_, err := d.dynamic.Resource(mapping.Resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			d.addCheck(Fail, "ValidatingAdmissionPolicyBinding "+b.Name, "create it, or kubectl delete validatingadmissionpolicybinding "+b.Name,
				"its parameter %s does not exist, so that every write that %s matches is refused", param, p.Name)
			good = false
		case err != nil:
			if err := d.noteUnread(param, err); err != nil {
				return false, err
			}
		}
	}
	return good, nil
}

package apply

import "strings"

// Apply with --into-namespace puts a source into another namespace than its author meant. Objects move, and so must the references
// between them that name a namespace. Only references to objects of the source move: a webhook whose Service is somebody else's keeps
// calling that one.

// relocate moves all objects of a source into one namespace, before their kinds are known. References from Kubernetes' own kinds to
// a namespace of the source follow. All Namespaces of the source become one with the new name. References from custom resources
// stay, because only their controllers know them. relocate returns copies.
func relocate(objects []Object, namespace string) ([]Object, error) {
	r := relocation{to: namespace, in: map[ID]bool{}}
	for i := range objects {
		r.in[objects[i].ID] = true
	}
	out := make([]Object, len(objects))
	for i := range objects {
		o := objects[i]
		content, err := o.decodeContent()
		if err != nil {
			return nil, &Error{File: o.File, Line: o.Line, ID: o.ID, Err: err}
		}
		if isNamespace(o.ID) {
			o.Name = namespace
			metadataOf(content)["name"] = namespace
		}
		r.moveReferences(&o, content)
		if err := o.setContent(content); err != nil {
			return nil, err
		}
		out[i] = o
	}
	return out, nil
}

// relocation knows which objects move.
type relocation struct {
	to string
	in map[ID]bool // objects of the source, under their own names
}

// isInSource reports whether a reference is to an object of the source. That object may leave its namespace empty.
func (r *relocation) isInSource(group, kind, namespace, name string) bool {
	return r.in[ID{group, kind, namespace, name}] || r.in[ID{group, kind, "", name}]
}

// moveReference changes the namespace of a reference if it is to an object of the source. ref may be nil.
func (r *relocation) moveReference(ref map[string]any, kind string) {
	namespace, _ := ref["namespace"].(string)
	name, _ := ref["name"].(string)
	if namespace != "" && r.isInSource("", kind, namespace, name) {
		ref["namespace"] = r.to
	}
}

// moveReferences moves the references of one object.
func (r *relocation) moveReferences(o *Object, content map[string]any) {
	at := func(from map[string]any, keys ...string) map[string]any {
		for _, k := range keys {
			from, _ = from[k].(map[string]any)
		}
		return from
	}
	switch o.Group + "/" + o.Kind {
	case "rbac.authorization.k8s.io/RoleBinding", "rbac.authorization.k8s.io/ClusterRoleBinding":
		for _, s := range mapsIn(content["subjects"]) {
			if s["kind"] == "ServiceAccount" {
				r.moveReference(s, "ServiceAccount")
			}
		}
	case "admissionregistration.k8s.io/ValidatingWebhookConfiguration", "admissionregistration.k8s.io/MutatingWebhookConfiguration":
		for _, w := range mapsIn(content["webhooks"]) {
			r.moveReference(at(w, "clientConfig", "service"), "Service")
		}
	case "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding", "admissionregistration.k8s.io/MutatingAdmissionPolicyBinding":
		r.moveParam(at(content, "spec", "paramRef"))
	case "apiextensions.k8s.io/CustomResourceDefinition":
		r.moveReference(at(content, "spec", "conversion", "webhook", "clientConfig", "service"), "Service")
	case "apiregistration.k8s.io/APIService":
		r.moveReference(at(content, "spec", "service"), "Service")
	}
	// The one annotation that many webhooks need: cert-manager's, with NAMESPACE/CERTIFICATE.
	annotations := annotationsOf(content)
	const inject = "cert-manager.io/inject-ca-from"
	if text, ok := annotations[inject].(string); ok {
		if namespace, name, ok := strings.Cut(text, "/"); ok && r.isInSource("cert-manager.io", "Certificate", namespace, name) {
			annotations[inject] = r.to + "/" + name
		}
	}
}

// moveParam moves a reference to a parameter, whose kind only its policy names. ref may be nil.
func (r *relocation) moveParam(ref map[string]any) {
	namespace, _ := ref["namespace"].(string)
	name, _ := ref["name"].(string)
	for id := range r.in {
		if id.Name == name && namespace != "" && id.Namespace == namespace {
			ref["namespace"] = r.to
		}
	}
}

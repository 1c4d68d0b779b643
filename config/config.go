// Package config holds the manifests that install Sluice in a cluster. It promises that they are the files of this
// folder, and that none of them is a ConfigMap: settings are the operator's. It applies nothing.
package config

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/api/resolution"
	"sluice.dev/internal/brief"
)

//go:embed resolution/*.yaml features/*.yaml compat-tekton/*.yaml guard/*.yaml delivery/*.yaml own/*.yaml
var files embed.FS

// TektonWriter is the user that writes the status of requests where Tekton Pipelines runs in its usual namespace.
const TektonWriter = "system:serviceaccount:" + tektonNamespace + ":tekton-pipelines-controller"

// The usual namespaces.
const (
	ownNamespace              = "sluice-system"
	tektonNamespace           = "tekton-pipelines"
	tektonsResolversNamespace = "tekton-pipelines-resolvers"
)

// DeliveryRole is the role of sluice serve that runs deliveries.
const DeliveryRole = "delivery"

// resolverTemplate is filled in for each resolver.
const resolverTemplate = "resolution/50-resolver.yaml"

// allRoles stands for all roles.
const allRoles = "all"

const (
	placeOfImage = "image: IMAGE\n"
	// lifecycleWriter is the first line of the list of users who write the status of requests.
	lifecycleWriter = "          'system:serviceaccount:sluice-system:sluice-resolution': ['*'],\n"

	endOfArgs     = "            - --config-namespace=sluice-system\n"
	endOfMounts   = "            - {name: cache, mountPath: /var/cache/sluice}\n"
	endOfVolumes  = "        - {name: cache, emptyDir: {sizeLimit: 5Gi}}\n"
	ownConfig     = "--config-namespace=sluice-system"
	tektonsConfig = "--config-namespace=" + tektonsResolversNamespace + "\n            - --defaults-namespace=" + tektonNamespace + "\n            - --content-kinds=*.tekton.dev"
)

// defaultImage is the container image of a release. It is set when the program is linked (see the Makefile); a development
// build has none.
var defaultImage string

// ErrNoImage is the error of [Manifests] where neither the options nor the build name an image.
var ErrNoImage = errors.New("this is a development build without a container image of its own: name the image to install")

// Options change what is installed. The zero value installs Sluice alone.
type Options struct {
	// BesideTekton leaves out the CRD and the lifecycle controller, which are Tekton's there, lets Tekton's controller
	// write the status of requests, and reads Tekton's ConfigMaps. Its resolvers must be switched off.
	BesideTekton bool
	// Namespace is where Sluice is installed; empty stands for sluice-system. TektonNamespace and TektonResolversNamespace are
	// those of Tekton; empty stands for tekton-pipelines and tekton-pipelines-resolvers.
	Namespace, TektonNamespace, TektonResolversNamespace string
	// WideCredentials lets the resolvers read Secrets of all namespaces, as Tekton's do.
	WideCredentials bool
	// WideAddresses opens private addresses and plain http to requesters, as Tekton's resolvers have them open, where the
	// resolver's ConfigMap does not say otherwise.
	WideAddresses bool
	// Writers are more users who may write the status of requests, for resolvers that are not part of Sluice; in the form
	// system:serviceaccount:NAMESPACE:NAME=RESOLVER for the requests of that resolver, once for each resolver that they
	// have. Without =RESOLVER they may write those of all resolvers but Sluice's own, with =* those of all.
	Writers []string
	// Image is the container image; empty stands for the one that this build belongs to, if it knows any.
	Image string
	// Compress has resolvers compress content that is too large for a request; Store, REGISTRY/PATH, is where they put what
	// is too large all the same. StoreCredentials names a Secret in sluice-system of the type
	// kubernetes.io/dockerconfigjson with credentials for it.
	Compress                bool
	Store, StoreCredentials string
	// StorePlainHTTP allows a registry without TLS.
	StorePlainHTTP bool
	// Roles lists the roles of sluice serve to install; nil stands for all but the guard of CRDs ([GuardRole]), which acts on
	// everybody's requests, deliveries ([DeliveryRole]) and features ([FeaturesRole], [FeatureWebhookRole]): they are
	// installed only where they are named, or "all" is.
	Roles []string
	// FeatureSettings are the ConfigMaps of components, NAMESPACE/NAME, that the roles for features may watch, and make again.
	FeatureSettings []string
	// FeatureUsage are the resources, PLURAL.GROUP, whose objects the controller of features may list, to count those that use
	// features.
	FeatureUsage []string
	// GuardCertManager leaves the certificate of the guard to cert-manager.
	GuardCertManager bool
	// GuardReads are API groups whose objects the guard may list, to see whether there are any when a CRD is deleted.
	GuardReads []string
}

// Manifests returns a YAML stream of what the options ask for, in the order in which it can be applied.
func Manifests(o Options) ([]byte, error) {
	var out bytes.Buffer
	if err := errors.Join(o.checkRoles(), o.checkStore(), o.checkNamespaces()); err != nil {
		return nil, err
	}
	standAlone := []string{GuardRole, FeaturesRole, FeatureWebhookRole}
	if len(o.Roles) > 0 && !slices.ContainsFunc(o.Roles, func(r string) bool { return !slices.Contains(standAlone, r) }) {
		for _, p := range []string{"resolution/00-namespace.yaml", "resolution/21-own-objects.yaml"} {
			text, err := files.ReadFile(p)
			if err != nil {
				return nil, err
			}
			if out.Len() > 0 {
				out.WriteString("---\n")
			}
			out.Write(text)
		}
		return finish(&out, o)
	}
	paths, err := fs.Glob(files, "resolution/*.yaml")
	if err != nil {
		return nil, err
	}
	writers := o.Writers
	if o.BesideTekton {
		paths = append(paths, "compat-tekton/31-config.yaml")
		writers = append([]string{TektonWriter + "=*"}, writers...)
	}
	if o.WideCredentials {
		paths = append(paths, "compat-tekton/30-credentials.yaml")
	}
	if contains(o.Roles, DeliveryRole) {
		paths = append(paths, "delivery/10-crds.yaml", "delivery/40-delivery.yaml")
	}
	for _, p := range paths {
		if o.BesideTekton && (p == "resolution/10-crd.yaml" || p == "resolution/40-resolution.yaml") {
			continue
		}
		if role, isRole := roleOf(p); isRole && o.Roles != nil && !contains(o.Roles, role) {
			continue
		}
		data, err := files.ReadFile(p)
		if err != nil {
			return nil, err
		}
		texts := []string{string(data)}
		switch p {
		case "resolution/20-policies.yaml":
			if texts[0], err = withResolvers(texts[0]); err == nil {
				texts[0], err = addWriters(texts[0], writers)
			}
		case "resolution/40-resolution.yaml":
			texts[0] = addOthers(texts[0], o.Writers)
		case resolverTemplate:
			texts, err = o.resolvers(texts[0])
		}
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			if o.BesideTekton {
				text = strings.ReplaceAll(text, ownConfig, tektonsConfig)
			}
			if out.Len() > 0 {
				out.WriteString("---\n")
			}
			out.WriteString(text)
		}
	}
	return finish(&out, o)
}

// resolvers are the manifests of the resolvers that are asked for.
func (o Options) resolvers(template string) (out []string, err error) {
	for _, r := range resolverTable {
		if o.Roles != nil && !contains(o.Roles, r.role()) {
			continue
		}
		text, err := r.text(template, o)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// RoleNames lists the roles of sluice serve that can be installed, and "all".
func RoleNames() []string {
	out := []string{"resolution"}
	for _, r := range resolverTable {
		out = append(out, r.role())
	}
	return append(out, DeliveryRole, FeaturesRole, FeatureWebhookRole, GuardRole, allRoles)
}

func (o Options) checkRoles() error {
	known := RoleNames()
	for _, r := range o.Roles {
		if !slices.Contains(known, r) {
			return fmt.Errorf("there is no role %q%s; the roles are %s", r, brief.Hint(r, known), strings.Join(known, ", "))
		}
	}
	return nil
}

func (o Options) checkStore() error {
	switch {
	case strings.Trim(o.Store, letters+"ABCDEFGHIJKLMNOPQRSTUVWXYZ:/_") != "":
		return fmt.Errorf("%q is no repository of the form REGISTRY/PATH", o.Store)
	case strings.Trim(o.StoreCredentials, letters) != "":
		return fmt.Errorf("%q is no name of a Secret", o.StoreCredentials)
	case o.Store == "" && (o.StoreCredentials != "" || o.StorePlainHTTP):
		return errors.New("credentials and plain HTTP are for a store, and none is named")
	case o.BesideTekton && (o.Compress || o.Store != ""):
		return errors.New("beside Tekton there is no place for large content: its ResolutionRequest has no fields for it")
	}
	return nil
}

// finish adds the roles for features and the guard, if they are asked for, and fills in what holds for all files.
func finish(out *bytes.Buffer, o Options) ([]byte, error) {
	more, err := features(o)
	if err != nil {
		return nil, err
	}
	if more != "" {
		out.WriteString("---\n" + more)
	}
	if contains(o.Roles, GuardRole) {
		text, err := guard(o)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n" + text)
	}
	image := cmp.Or(o.Image, defaultImage)
	switch {
	case image == "":
		return nil, ErrNoImage
	case strings.ContainsAny(image, " \t\r\n\"'#{}"):
		return nil, fmt.Errorf("%q is no name of an image", image)
	}
	text := o.inNamespaces(out.String())
	return []byte(strings.ReplaceAll(text, placeOfImage, "image: "+image+"\n")), nil
}

func (o Options) checkNamespaces() error {
	for _, n := range []string{o.Namespace, o.TektonNamespace, o.TektonResolversNamespace} {
		if reasons := validation.IsDNS1123Label(n); n != "" && len(reasons) > 0 {
			return fmt.Errorf("%q is no name of a namespace: %s", n, reasons[0])
		}
	}
	if !o.BesideTekton && o.TektonNamespace+o.TektonResolversNamespace != "" {
		return errors.New("the namespaces of Tekton are for an installation beside Tekton")
	}
	return nil
}

// inNamespaces moves the manifests from the usual namespaces to those of the options.
func (o Options) inNamespaces(text string) string {
	pairs := []string{ownNamespace, cmp.Or(o.Namespace, ownNamespace)}
	if o.BesideTekton {
		// The first that fits is taken: names that begin like others stand before them.
		pairs = append(pairs, tektonsResolversNamespace, cmp.Or(o.TektonResolversNamespace, tektonsResolversNamespace),
			"tekton-pipelines-controller", "tekton-pipelines-controller", tektonNamespace, cmp.Or(o.TektonNamespace, tektonNamespace))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// FeatureCRDs returns the CRDs of Component, Feature and FeatureReport, as a YAML stream. Manifests has them where a role for
// features is asked for.
func FeatureCRDs() ([]byte, error) { return files.ReadFile("features/10-crds.yaml") }

// OwnFeatures returns the Component sluice and its Features, as a YAML stream: what of Sluice's own API is not settled yet. They are
// applied once the role features runs.
func OwnFeatures() ([]byte, error) { return files.ReadFile("own/features.yaml") }

// roleOf returns the role that a file installs, if it installs one only.
func roleOf(path string) (string, bool) {
	name := strings.TrimSuffix(path[strings.LastIndex(path, "/")+1:], ".yaml")
	if r, ok := strings.CutPrefix(name, "40-"); ok {
		return r, true
	}
	return strings.CutPrefix(name, "51-")
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s || l == allRoles {
			return true
		}
	}
	return false
}

// addWriters adds users to the policy that says whose status each may write.
func addWriters(policies string, writers []string) (string, error) {
	var users []string
	of := map[string][]string{}
	for _, w := range writers {
		user, resolver, named := strings.Cut(w, "=")
		if !named {
			resolver = "+"
		}
		if !validUser(user) {
			return "", fmt.Errorf("%q is no user of the form system:serviceaccount:NAMESPACE:NAME", user)
		}
		if named && resolver != "*" && (resolver == "" || strings.Trim(resolver, letters) != "") {
			return "", fmt.Errorf("%q is no name of a resolver, for the user %s", resolver, user)
		}
		if strings.Contains(policies, "'"+user+"':") {
			return "", fmt.Errorf("%s is an account of Sluice, and writes for its own resolver", user)
		}
		if _, ok := of[user]; !ok {
			users = append(users, user)
		}
		of[user] = append(of[user], "'"+resolution.Canonical(resolver)+"'")
	}
	var lines strings.Builder
	for _, u := range users {
		fmt.Fprintf(&lines, "          '%s': [%s],\n", u, strings.Join(of[u], ", "))
	}
	return insert(policies, lifecycleWriter, lines.String())
}

// addOthers tells the lifecycle controller for which names other people run resolvers. addWriters has judged them.
func addOthers(text string, writers []string) string {
	var names []string
	for _, w := range writers {
		_, resolver, named := strings.Cut(w, "=")
		if !named {
			resolver = "*"
		}
		if !slices.Contains(names, resolver) {
			names = append(names, resolver)
		}
	}
	if len(names) == 0 {
		return text
	}
	return strings.Replace(text, endOfArgs, endOfArgs+"            - --other-resolvers="+strings.Join(names, ",")+"\n", 1)
}

// letters are those of the names of ServiceAccounts and resolvers.
const letters = "abcdefghijklmnopqrstuvwxyz0123456789-."

// validUser keeps what could end the string that it is put into.
func validUser(s string) bool {
	rest, ok := strings.CutPrefix(s, "system:serviceaccount:")
	namespace, name, two := strings.Cut(rest, ":")
	return ok && two && namespace != "" && name != "" &&
		strings.Trim(namespace+name, letters) == ""
}

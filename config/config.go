// Package config holds the manifests that install Sluice in a cluster. It promises that they are the files of this
// folder; it applies nothing.
package config

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed resolution/*.yaml features/*.yaml compat-tekton/*.yaml guard/*.yaml delivery/*.yaml
var files embed.FS

// TektonWriter is the user that writes the status of requests where Tekton Pipelines runs.
const TektonWriter = "system:serviceaccount:tekton-pipelines:tekton-pipelines-controller"

// DeliveryRole is the role of sluice serve that runs deliveries.
const DeliveryRole = "delivery"

const (
	placeOfImage  = "image: sluice\n"
	endOfWriters  = "          'system:serviceaccount:sluice-system:sluice-resolver-dir',\n"
	ownConfig     = "--config-namespace=sluice-system"
	tektonsConfig = "--config-namespace=tekton-pipelines-resolvers"
)

// Options change what is installed. The zero value installs Sluice alone.
type Options struct {
	// BesideTekton leaves out the CRD and the lifecycle controller, which are Tekton's there, lets Tekton's controller
	// write the status of requests, and reads Tekton's ConfigMaps. Its resolvers must be switched off.
	BesideTekton bool
	// WideCredentials lets the resolvers read Secrets of all namespaces, as Tekton's do.
	WideCredentials bool
	// WideAddresses opens private addresses and plain http to requesters, as Tekton's resolvers have them open.
	WideAddresses bool
	// Writers are more users who may write the status of requests, for resolvers that are not part of Sluice; in the form
	// system:serviceaccount:NAMESPACE:NAME.
	Writers []string
	// Image is the container image; empty stands for sluice.
	Image string
	// Roles lists the roles of sluice serve to install; nil stands for all but the guard of CRDs ([GuardRole]), which acts on
	// everybody's requests, deliveries ([DeliveryRole]) and features ([FeaturesRole], [FeatureWebhookRole]): they are
	// installed only where they are named, or "all" is.
	Roles []string
	// FeatureSettings are the ConfigMaps of components, NAMESPACE/NAME, that the roles for features may watch, and make again.
	FeatureSettings []string
	// GuardCertManager leaves the certificate of the guard to cert-manager.
	GuardCertManager bool
	// GuardReads are API groups whose objects the guard may list, to see whether there are any when a CRD is deleted.
	GuardReads []string
}

// Manifests returns a YAML stream of what the options ask for, in the order in which it can be applied.
func Manifests(o Options) ([]byte, error) {
	var out bytes.Buffer
	if len(o.Roles) > 0 && !slices.ContainsFunc(o.Roles, func(r string) bool { return !slices.Contains([]string{GuardRole, FeaturesRole, FeatureWebhookRole}, r) }) {
		namespace, err := files.ReadFile("resolution/00-namespace.yaml")
		if err != nil {
			return nil, err
		}
		out.Write(namespace)
		return finish(&out, o)
	}
	paths, err := fs.Glob(files, "resolution/*.yaml")
	if err != nil {
		return nil, err
	}
	writers := o.Writers
	if o.BesideTekton {
		paths = append(paths, "compat-tekton/31-config.yaml")
		writers = append([]string{TektonWriter}, writers...)
	}
	if o.WideCredentials {
		paths = append(paths, "compat-tekton/30-credentials.yaml")
	}
	if o.WideAddresses {
		paths = append(paths, "compat-tekton/32-addresses.yaml")
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
		text := string(data)
		if p == "resolution/20-policies.yaml" {
			if text, err = addWriters(text, writers); err != nil {
				return nil, err
			}
		}
		if o.BesideTekton {
			text = strings.ReplaceAll(text, ownConfig, tektonsConfig)
			if strings.HasPrefix(p, "compat-tekton/32-") {
				text = strings.ReplaceAll(text, "namespace: sluice-system\n", "namespace: tekton-pipelines-resolvers\n")
			}
		}
		if out.Len() > 0 {
			out.WriteString("---\n")
		}
		out.WriteString(text)
	}
	return finish(&out, o)
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
	text := out.String()
	if o.Image != "" {
		if strings.ContainsAny(o.Image, " \t\r\n\"'#{}") {
			return nil, fmt.Errorf("%q is no name of an image", o.Image)
		}
		text = strings.ReplaceAll(text, placeOfImage, "image: "+o.Image+"\n")
	}
	return []byte(text), nil
}

// FeatureCRDs returns the CRDs of Component and Feature, as a YAML stream. Manifests has them where a role for features is
// asked for.
func FeatureCRDs() ([]byte, error) { return files.ReadFile("features/10-crds.yaml") }

// roleOf returns the role that a file installs, if it installs one.
func roleOf(path string) (string, bool) {
	name := strings.TrimSuffix(path[strings.LastIndex(path, "/")+1:], ".yaml")
	if r, ok := strings.CutPrefix(name, "40-"); ok {
		return r, true
	}
	return strings.CutPrefix(name, "50-")
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s || l == "all" {
			return true
		}
	}
	return false
}

func addWriters(policies string, writers []string) (string, error) {
	var lines strings.Builder
	for _, w := range writers {
		if !validUser(w) {
			return "", fmt.Errorf("%q is no user of the form system:serviceaccount:NAMESPACE:NAME", w)
		}
		fmt.Fprintf(&lines, "          '%s',\n", w)
	}
	before, after, ok := strings.Cut(policies, endOfWriters)
	if !ok {
		return "", errors.New("the policies have no list of writers")
	}
	return before + endOfWriters + lines.String() + after, nil
}

// validUser keeps what could end the string that it is put into.
func validUser(s string) bool {
	rest, ok := strings.CutPrefix(s, "system:serviceaccount:")
	namespace, name, two := strings.Cut(rest, ":")
	return ok && two && namespace != "" && name != "" &&
		strings.Trim(namespace+name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

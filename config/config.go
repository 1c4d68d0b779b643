// Package config holds the manifests that install Sluice in a cluster, as a Helm chart. Helm or sluice manifests renders it. The
// package promises that both give the same objects. None of these is a ConfigMap or a Secret: settings belong to the operator. It
// applies nothing.
package config

import (
	"bufio"
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

//go:embed all:chart own-features.yaml
var files embed.FS

// Chart returns the files of the Helm chart.
func Chart() embed.FS { return files }

// Roles of sluice serve that other packages name.
const (
	// DeliveryRole runs deliveries.
	DeliveryRole = "delivery"
	// FeaturesRole keeps policies up to date with features.
	FeaturesRole = "features"
	// FeatureWebhookRole enforces rules that policies cannot express.
	FeatureWebhookRole = "feature-webhook"
	// GuardRole judges changes of CRDs at admission.
	GuardRole = "crd-guard"
	// ResolutionRole ends and deletes ResolutionRequests.
	ResolutionRole = "resolution"
	// AllRoles stands for all roles.
	AllRoles = "all"
)

// defaultImage is the container image of a release. The linker sets it (see the Makefile); a development build has none.
var defaultImage string

// ErrNoImage is the error of [Manifests] if neither the options nor the build name an image.
var ErrNoImage = errors.New("this is a development build without a container image of its own: name the image to install")

// Options select what the manifests install. The zero value installs Sluice alone.
type Options struct {
	// BesideTekton installs Sluice beside Tekton Pipelines. It leaves out the CRD and the lifecycle controller, because Tekton has
	// its own. It lets Tekton's controller write the status of requests, and reads Tekton's ConfigMaps. Switch Tekton's resolvers
	// off.
	BesideTekton bool
	// Namespace is the namespace of Sluice; empty stands for sluice-system. TektonNamespace and TektonResolversNamespace are those
	// of Tekton; empty stands for tekton-pipelines and tekton-pipelines-resolvers.
	Namespace, TektonNamespace, TektonResolversNamespace string
	// WideCredentials lets the resolvers read Secrets of all namespaces, as Tekton's do.
	WideCredentials bool
	// WideAddresses lets requesters use private addresses and plain http, as Tekton's resolvers do. The resolver's ConfigMap takes
	// precedence.
	WideAddresses bool
	// Writers are more users that can write the status of requests, for resolvers that are not part of Sluice. The form
	// system:serviceaccount:NAMESPACE:NAME=RESOLVER is for the requests of one resolver; repeat it for each resolver. Without
	// =RESOLVER the user can write requests of all resolvers except Sluice's own, with =* of all resolvers.
	Writers []string
	// Image is the container image; empty stands for the image of Values, and then for the image of this build.
	Image string
	// Compress makes resolvers compress content that is too large for a request. Store, REGISTRY/PATH, is the place for content
	// that is too large even then. StoreCredentials names a Secret with credentials for it, in Sluice's namespace and of the type
	// kubernetes.io/dockerconfigjson.
	Compress                bool
	Store, StoreCredentials string
	// StorePlainHTTP allows a registry without TLS.
	StorePlainHTTP bool
	// Roles lists the roles of sluice serve to install. nil stands for the guard of CRDs ([GuardRole]), resolution and all resolvers.
	// Deliveries ([DeliveryRole]) and features ([FeaturesRole], [FeatureWebhookRole]) must be named, or covered by "all".
	Roles []string
	// FeatureSettings are the ConfigMaps of components, as NAMESPACE/NAME, that the roles for features may watch and create again.
	FeatureSettings []string
	// FeatureUsage are the resources, as PLURAL.GROUP, whose objects the features controller may list, to count the objects that
	// use features.
	FeatureUsage []string
	// GuardCertManager leaves the certificate of the guard to cert-manager.
	GuardCertManager bool
	// GuardReads are API groups whose objects the guard may list. When somebody deletes a CRD, it checks whether there are any.
	GuardReads []string
	// Values are values of the chart, as YAML. The fields above take precedence. Empty stands for none.
	Values []byte
}

// chartValues returns the chart values that the options change.
func (o Options) chartValues() map[string]any {
	out := map[string]any{"createNamespace": true}
	set := func(value any, given bool, path ...string) {
		if given {
			// It fails if an inner value is not a map. All values here are maps.
			_ = unstructured.SetNestedField(out, value, path...)
		}
	}
	text := func(s string, path ...string) { set(s, s != "", path...) }
	flag := func(b bool, path ...string) { set(b, b, path...) }
	list := func(l []string, path ...string) {
		set(anysOf(l), l != nil, path...)
	}
	text(o.Image, "image")
	list(o.Roles, "roles")
	list(o.Writers, "writers")
	flag(o.BesideTekton, "besideTekton", "enabled")
	text(o.TektonNamespace, "besideTekton", "namespace")
	text(o.TektonResolversNamespace, "besideTekton", "resolversNamespace")
	flag(o.WideCredentials, "wideCredentials")
	flag(o.WideAddresses, "wideAddresses")
	flag(o.Compress, "compress")
	text(o.Store, "store", "repository")
	text(o.StoreCredentials, "store", "credentials")
	flag(o.StorePlainHTTP, "store", "plainHTTP")
	list(o.FeatureSettings, "features", "settings")
	list(o.FeatureUsage, "features", "usage")
	flag(o.GuardCertManager, "guard", "certManager")
	list(o.GuardReads, "guard", "reads")
	return out
}

// Manifests returns the manifests for the options as a YAML stream, in an order that can be applied. An error names the wrong
// value.
func Manifests(o Options) ([]byte, error) {
	if !o.BesideTekton && o.TektonNamespace+o.TektonResolversNamespace != "" {
		return nil, errors.New("the namespaces of Tekton are for an installation beside Tekton")
	}
	c, err := readChart()
	if err != nil {
		return nil, err
	}
	given, err := readValues(o.Values)
	if err != nil {
		return nil, fmt.Errorf("the values: %w", err)
	}
	values := overlayValues(c.values, given, o.chartValues())
	if err := validateValues(values); err != nil {
		return nil, fmt.Errorf("the values: %w", err)
	}
	if values["image"] == "" {
		values["image"] = defaultImage
	}
	if values["image"] == "" {
		return nil, ErrNoImage
	}
	return c.renderManifests(cmp.Or(o.Namespace, "sluice-system"), values)
}

// readValues reads one YAML document, which may be empty.
func readValues(text []byte) (values map[string]any, err error) {
	var documents [][]byte
	for r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		var content any
		if yaml.Unmarshal(document, &content) != nil || content != nil { // what is wrong is told below
			documents = append(documents, document)
		}
	}
	switch len(documents) {
	case 0:
		return nil, nil
	case 1:
		return values, yaml.UnmarshalStrict(documents[0], &values)
	}
	return nil, fmt.Errorf("there are %d YAML documents: values are one document; name one file, or join them", len(documents))
}

// FeatureCRDs returns the CRDs of Component, Feature and FeatureReport, as a YAML stream. Manifests includes them if Roles has a
// role for features.
func FeatureCRDs() ([]byte, error) { return files.ReadFile("chart/files/features.yaml") }

// OwnFeatures returns the Component sluice and its Features, as a YAML stream. They cover the parts of Sluice's own API that are
// not stable yet. Apply them when the role features runs.
func OwnFeatures() ([]byte, error) { return files.ReadFile("own-features.yaml") }

// RoleNames lists the roles of sluice serve that can be installed, and "all".
func RoleNames() []string {
	c, err := readChart()
	if err != nil {
		return nil // never: tests read it
	}
	workloads, _ := c.values["workloads"].(map[string]any)
	return append(slices.Sorted(maps.Keys(workloads)), AllRoles)
}

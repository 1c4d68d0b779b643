package feature

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "k8s.io/apiextensions-apiserver/pkg/features" // registers gates
	_ "k8s.io/apiserver/pkg/features"               // registers gates
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

func TestTextsOfNumbers(t *testing.T) {
	for text, want := range map[string][]string{
		"2": {"2"}, "2.0": {"2"}, "2e0": {"2"}, "-0": {"-0", "0"}, "12345678": {"1.2345678e+07", "12345678"}, "1e3": {"1000"}, "0.5": {"0.5"},
		"9007199254740993": {"9007199254740993"}, "1e19": {"1e+19"}, "1e400": nil,
		"": nil, "two": nil, "02": nil, "+2": nil, ".5": nil, "5.": nil, "0x1": nil, "1_000": nil, "Infinity": nil, "NaN": nil, " 2": nil, "2 ": nil,
	} {
		if got := NumberTexts(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestNamesInKebabCase(t *testing.T) {
	for name, want := range map[string]string{
		"TasksTimeout": "tasks-timeout", "CSIMigrationAWS": "csi-migration-aws", "IPv6DualStack": "ipv6-dual-stack", "TLSv13": "tlsv13",
		"UseIPv4": "use-ipv4", "KMSv2KDF": "kmsv2-kdf", "APIVersion": "api-version", "AVersion2": "a-version2", "CRDv": "cr-dv", "A": "a",
		// A plural s belongs to the acronym before it.
		"PodHostIPs": "pod-host-ips", "PVCs": "pvcs", "URLsV2": "urls-v2", "IPsOfPods": "ips-of-pods", "UseCAs2": "use-cas2", "APIsAndCRDs": "apis-and-crds",
		"APIServer": "api-server", "DNSStub": "dns-stub", "PodsReady": "pods-ready", "As": "as", "XAsY": "xas-y",
		// Gates of Kubernetes that are not in the registries below.
		"StatefulSetAutoDeletePVC": "stateful-set-auto-delete-pvc", "ServiceLBNodePortControl": "service-lb-node-port-control",
		"ExpandCSIVolumes": "expand-csi-volumes", "SELinuxMount": "se-linux-mount", "MultiCIDRServiceAllocator": "multi-cidr-service-allocator",
		"CustomCPUCFSQuotaPeriod": "custom-cpucfs-quota-period", "DRAAdminAccess": "dra-admin-access",
	} {
		if got := Kebab(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestGatesOfKubernetesInKebabCase has all gates of the API server and of CRDs.
func TestGatesOfKubernetesInKebabCase(t *testing.T) {
	want := map[string]string{
		"APIResponseCompression": "api-response-compression", "AllowParsingUserUIDFromCertAuth": "allow-parsing-user-uid-from-cert-auth",
		"CBORServingAndStorage": "cbor-serving-and-storage", "CRDValidationRatcheting": "crd-validation-ratcheting", "KMSv1": "kmsv1",
		"OpenAPIEnums": "open-api-enums", "UnauthenticatedHTTP2DOSMitigation": "unauthenticated-http2-dos-mitigation", "WatchList": "watch-list",
		"StructuredAuthenticationConfigurationJWKSMetrics": "structured-authentication-configuration-jwks-metrics",
	}
	// No word is a consonant with an s, such as the end of pod-host-i-ps.
	cut := regexp.MustCompile(`(^|-)[b-df-hj-np-tv-z]?s(-|$)`)
	n := 0
	for gate := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		n++
		got := Kebab(string(gate))
		if w, ok := want[string(gate)]; ok && w != got {
			t.Errorf("%s: %s, want %s", gate, got, w)
		}
		delete(want, string(gate))
		if strings.ReplaceAll(got, "-", "") != strings.ToLower(string(gate)) || cut.MatchString(got) || strings.Contains(got, "--") {
			t.Errorf("%s: %s", gate, got)
		}
	}
	if n < 30 || len(want) > 0 {
		t.Errorf("there are %d gates, without %v", n, want)
	}
}

package cluster

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/localcluster/internal/pki"
)

// flag is one command-line flag of a component.
type flag struct{ name, value string }

func (f flag) String() string { return "--" + f.name + "=" + f.value }

func flagStrings(flags []flag) []string {
	out := make([]string, len(flags))
	for i, f := range flags {
		out[i] = f.String()
	}
	return out
}

// reserved are flags of the API server that the cluster depends on. Another value for one of them cannot work.
var reserved = []string{
	"bind-address", "client-ca-file", "etcd-cafile", "etcd-certfile", "etcd-keyfile", "etcd-servers", "secure-port",
	"service-account-key-file", "service-account-signing-key-file", "tls-cert-file", "tls-private-key-file",
}

// parseAPIServerArgs reads K=V pairs (leading dashes allowed; K alone means K=true).
func parseAPIServerArgs(args []string) ([]flag, error) {
	flags := make([]flag, 0, len(args))
	for _, arg := range args {
		name, value, found := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !found {
			value = "true"
		}
		switch {
		case name == "" || strings.ContainsAny(name, " \t\n"):
			return nil, fmt.Errorf("--apiserver-arg %q is not of the form name=value", arg)
		case slices.Contains(reserved, strings.ReplaceAll(name, "_", "-")):
			return nil, fmt.Errorf("--apiserver-arg %s cannot be set: localcluster itself decides it", name)
		}
		flags = append(flags, flag{name, value})
	}
	return flags, nil
}

// credentials are the files that the components need.
type credentials struct {
	ca, server, admin, controllers pki.Pair
	saPrivate, saPublic            string
}

// apiServerFlags returns the API server's flags. An extra flag replaces the flag of the same name. Flags with several values would
// otherwise collect both.
func apiServerFlags(c credentials, port string, extra []flag) []string {
	flags := []flag{
		// The endpoint controller would refuse a loopback address, and nothing here routes to endpoints.
		{"advertise-address", "127.0.0.1"},
		{"endpoint-reconciler-type", "none"},
		{"allow-privileged", "true"},
		{"authorization-mode", "RBAC"},
		{"bind-address", "127.0.0.1"},
		{"client-ca-file", c.ca.CertFile},
		{"etcd-servers", "unix://" + etcdSocket},
		{"secure-port", port},
		{"service-account-issuer", "https://kubernetes.default.svc.cluster.local"},
		{"service-account-key-file", c.saPublic},
		{"service-account-signing-key-file", c.saPrivate},
		{"service-cluster-ip-range", "10.96.0.0/16"},
		{"tls-cert-file", c.server.CertFile},
		{"tls-private-key-file", c.server.KeyFile},
	}
	flags = slices.DeleteFunc(flags, func(f flag) bool {
		return slices.ContainsFunc(extra, func(e flag) bool { return e.name == f.name })
	})
	return flagStrings(append(flags, extra...))
}

// controllers lists the only controllers that run: those that API machinery itself needs to behave as documented.
var controllers = []string{
	"namespace-controller", "garbage-collector-controller", "serviceaccount-controller", "serviceaccount-token-controller",
	"validatingadmissionpolicy-status-controller",
}

// controllerManagerFlags returns the flags of the controller manager. It serves nothing itself, and may
// send as many requests as it likes: tests wait for it.
func controllerManagerFlags(c credentials, kubeconfig string) []string {
	return flagStrings([]flag{
		{"controllers", strings.Join(controllers, ",")},
		{"kubeconfig", kubeconfig},
		{"leader-elect", "false"},
		{"root-ca-file", c.ca.CertFile},
		{"secure-port", "0"},
		{"service-account-private-key-file", c.saPrivate},
		// Each controller has its own ServiceAccount, with the rights that RBAC gives it in a real cluster.
		{"use-service-account-credentials", "true"},
		{"kube-api-qps", "1000"},
		{"kube-api-burst", "2000"},
	})
}

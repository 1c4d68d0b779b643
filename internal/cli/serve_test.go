package cli

import (
	"bytes"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"sluice.dev/config"
	"sluice.dev/internal/resolvers"
)

func TestRolesAreThoseOfTheTable(t *testing.T) {
	table := []resolvers.Entry{{Name: "git"}, {Name: "http"}}
	for name, test := range map[string]struct {
		asked, want []string
	}{
		"none":    {nil, nil},
		"unknown": {[]string{"resolution", "resolver-svn"}, nil},
		"some":    {[]string{"resolver-http", "resolution", "resolver-http"}, []string{"resolver-http", "resolution"}},
		"all":     {[]string{"all"}, []string{"resolution", "crd-guard", "delivery", "features", "feature-webhook", "resolver-git", "resolver-http"}},
	} {
		got, err := chosenRoles(test.asked, table)
		if diff := cmp.Diff(test.want, got); diff != "" || (err == nil) != (test.want != nil) {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

// TestABusyPortIsCalledOne: a process whose port is taken says so, though it could not reach the cluster by then.
func TestABusyPortIsCalledOne(t *testing.T) {
	t.Parallel()
	listen := func() string {
		var config net.ListenConfig
		l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l.Addr().String()
	}
	busy, silent := listen(), listen() // who connects to the second never gets an answer
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c", Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: "http://" + silent}},
	}, file); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := Main([]string{"serve", "--roles=features", "--kubeconfig=" + file, "--listen=" + busy}, strings.NewReader(""), &out, &errs)
	if text := errs.String(); code != ExitFailed || !strings.Contains(text, "another process listens on "+busy) || strings.Contains(text, "no access to the cluster") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// TestEveryRoleCanBeInstalled holds the table of resolvers against that of their manifests.
func TestEveryRoleCanBeInstalled(t *testing.T) {
	run := append(roleNames(resolvers.Table()), allRoles)
	installed := config.RoleNames()
	slices.Sort(run)
	slices.Sort(installed)
	if diff := cmp.Diff(run, installed); diff != "" {
		t.Errorf("roles that run, and roles that can be installed: %s", diff)
	}
}

// TestEachRoleIsDescribed: the log has a line for each role, with its task and its addresses.
func TestEachRoleIsDescribed(t *testing.T) {
	f := serveFlags{webhookListen: ":8443", guard: guardFlags{listen: ":9443"}, features: featureWebhookFlags{listen: ":9444"}}
	listens := map[string]string{}
	for _, name := range roleNames(resolvers.Table()) {
		role := f.roleNamed(name)
		if role.Name != name || role.Does == "" || role.ActsFor == "" {
			t.Errorf("%+v", role)
		}
		listens[name] = strings.Join(role.Listens, " ")
	}
	for role, want := range map[string]string{"resolution": ":8443", "crd-guard": ":9443", "feature-webhook": ":9444", "delivery": "", "resolver-git": ""} {
		if listens[role] != want {
			t.Errorf("%s listens at %q, want %q", role, listens[role], want)
		}
	}
}

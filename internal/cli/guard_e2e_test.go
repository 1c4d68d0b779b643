//go:build e2e

package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"sluice.dev/compat"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/controller/guard"
	"sluice.dev/report"
	"sluice.dev/resolve/controller"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

const (
	databasesCRD = "databases.example.sluice.dev"
	bypassedKey  = "sluice.dev/allow-unsafe-upgrade"
)

// guarded is a cluster of its own with the guard installed: what it refuses, it refuses to every test.
type guarded struct {
	cluster *clustertest.Cluster
	admin   *kubernetes.Clientset
	address string
	process *guardProcess
}

// guardProcess is a running sluice serve --roles=crd-guard.
type guardProcess struct {
	cancel context.CancelFunc
	done   chan error
	listen string
	log    *bytes.Buffer
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	c := clustertest.Start(t, clustertest.WithoutControllers())
	g := &guarded{cluster: c, admin: kubernetes.NewForConfigOrDie(c.Config()), address: freeAddress(t)}
	g.install(t)
	g.process = g.serve(t, g.address, nil)
	until(t, "the guard to act", func() error {
		_, err := g.as("", nil).ApiextensionsV1().CustomResourceDefinitions().Update(t.Context(), g.changed(t, dropServed), dryRun)
		return denied(err)
	})
	return g
}

// install applies what sluice manifests prints; nothing routes to a Service here, so the webhooks are called by URL.
func (g *guarded) install(t *testing.T) {
	t.Helper()
	k, err := kube.New(g.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Apply(t.Context(), upgrade+"v1.yaml", false); err != nil {
		t.Fatal(err)
	}
	changedManifests(t, g.cluster, func(u *unstructured.Unstructured) {
		if u.GetKind() == "ValidatingWebhookConfiguration" {
			g.byURL(t, u)
		}
	}, "--roles=crd-guard", "--guard-reads=example.sluice.dev,guarded.example")
}

func (g *guarded) byURL(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	hooks, _, err := unstructured.NestedSlice(u.Object, "webhooks")
	if err != nil {
		t.Fatal(err)
	}
	for i := range hooks {
		hook := hooks[i].(map[string]any) //nolint:errcheck,forcetypeassert // a test
		hook["clientConfig"] = map[string]any{"url": "https://" + g.address + guard.Path}
		// A busy machine is no failure.
		hook["timeoutSeconds"] = int64(30)
	}
	if err := unstructured.SetNestedSlice(u.Object, hooks, "webhooks"); err != nil {
		t.Fatal(err)
	}
}

// serve starts the guard under its ServiceAccount and waits until it is ready.
func (g *guarded) serve(t *testing.T, address string, change func(*guardFlags)) *guardProcess {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &guardProcess{cancel: sync.OnceFunc(cancel), done: make(chan error, 1), listen: freeAddress(t), log: &bytes.Buffer{}}
	f := serveFlags{
		Options: controller.Options{Kubeconfig: kubeconfigFor(t, g.cluster.Config(), "sluice-crd-guard"), Listen: p.listen, ID: "guard-" + strings.TrimPrefix(p.listen, "127.0.0.1:"), LogLevel: "warn"},
		roles:   []string{guard.Role}, guard: guardFlags{listen: address, hosts: []string{"127.0.0.1"}},
	}
	if change != nil {
		change(&f.guard)
	}
	e := &command.Env{Out: io.Discard, Err: p.log, Now: time.Now, Getenv: func(string) string { return "" }}
	go func() { p.done <- serveRoles(ctx, e, f, nil) }()
	t.Cleanup(cancel)
	until(t, "the guard to be ready", func() error {
		if code, body := get(t, "http://"+p.listen+"/readyz"); code != http.StatusOK {
			return errors.New(body)
		}
		return nil
	})
	return p
}

// stop ends the process and says what it complained about.
func (p *guardProcess) stop(t *testing.T) string {
	t.Helper()
	p.cancel()
	if err := <-p.done; err != nil {
		t.Error(err)
	}
	return p.log.String()
}

// as returns a client for a user who may do everything with CRDs; an empty name stands for the administrator. warned gets the
// warnings.
func (g *guarded) as(user string, warned *warned) *apiextensions.Clientset {
	cfg := g.cluster.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user}
	if warned != nil {
		cfg.WarningHandler = warned
	}
	return apiextensions.NewForConfigOrDie(cfg)
}

type warned struct{ texts []string }

func (w *warned) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// user makes a user who may change CRDs, and with bypass may also let unsafe changes through.
func (g *guarded) user(t *testing.T, name string, bypass bool) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-" + name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"*"}},
	}}
	if _, err := g.admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	roles := []string{role.Name}
	if bypass {
		roles = append(roles, "sluice-crd-guard-bypass")
	}
	for _, r := range roles {
		_, err := g.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name + "-" + r},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: r},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	clustertest.AwaitRights(t, g.admin, "default")
}

var dryRun = metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}

func (g *guarded) live(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd, err := g.as("", nil).ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return crd
}

// changed is the live CRD of databasesCRD with a change.
func (g *guarded) changed(t *testing.T, change func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := g.live(t, databasesCRD)
	change(crd)
	return crd
}

// update changes a live CRD as a user, again where somebody else changed it in between: the API server's own controllers write
// the status of new ones.
func (g *guarded) update(t *testing.T, user, name string, change func(*apiextensionsv1.CustomResourceDefinition), o metav1.UpdateOptions, w *warned) error {
	t.Helper()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		crd := g.live(t, name)
		change(crd)
		_, err := g.as(user, w).ApiextensionsV1().CustomResourceDefinitions().Update(t.Context(), crd, o)
		return err
	})
}

// withSpecOf gives the CRD the spec of a file.
func withSpecOf(t *testing.T, file string) func(*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	next := parseCRD(t, file)
	return func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec = next.Spec }
}

func parseCRD(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(data, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// dropServed is unsafe whatever the CRD is.
func dropServed(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Served = false }

// denied is nil where the guard itself refused.
func denied(err error) error {
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"crd-guard.sluice.dev" denied the request`) {
		return fmt.Errorf("not refused by the guard: %w", cmpErr(err))
	}
	return nil
}

func cmpErr(err error) error {
	if err == nil {
		return errors.New("it was taken")
	}
	return err
}

func wants(t *testing.T, err error, texts ...string) {
	t.Helper()
	if e := denied(err); e != nil {
		t.Fatal(e)
	}
	if n := len(err.Error()); n > 4200 {
		t.Errorf("the message has %d bytes", n)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("no %q in: %v", text, err)
		}
	}
}

func TestE2EGuard(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	g.user(t, "alice", false)
	g.user(t, "bob", true)
	k, err := kube.New(g.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Apply(t.Context(), upgrade+"objects.yaml", false); err != nil {
		t.Fatal(err)
	}
	// In this order: later ones change what earlier ones need.
	for _, s := range []struct {
		name string
		test func(*guarded, *testing.T)
	}{
		{"refuses an unsafe update, whoever sends it", (*guarded).refusesUnsafeUpdates},
		{"is no validation of the API server", (*guarded).isNoValidation},
		{"stops every client in the same way", (*guarded).stopsEveryClient},
		{"judges big CRDs", (*guarded).judgesBigCRDs},
		{"survives nonsense", (*guarded).survivesNonsense},
		{"passes what leaves the spec alone", (*guarded).passesWhatLeavesTheSpecAlone},
		{"judges what mutating admission makes of a change", (*guarded).judgesWhatAdmissionMakes},
		{"stops a whole apply because of one CRD", (*guarded).stopsAWholeApply},
		{"lets one change through, by annotation and permission", (*guarded).isBypassed},
		{"follows the fail mode where nothing is decided", (*guarded).followsTheConfiguration},
		{"counts the objects whose owners are noted in a removed version", (*guarded).countsOwnersInRemovedVersions},
		{"refuses deletions that take objects along", (*guarded).refusesDeletions},
		{"lets an app delete its CRDs after their objects", (*guarded).letsAppsEnd},
		{"refuses what breaks Sluice's own CRDs", (*guarded).refusesWhatBreaksItsOwn},
		{"shares its certificate and renews it", (*guarded).renewsItsCertificate},
		{"locks nobody out when it is down", (*guarded).locksNobodyOut},
	} {
		if !t.Run(s.name, func(t *testing.T) { s.test(g, t) }) {
			t.Logf("the guard's log: %s", g.process.stop(t))
			return
		}
	}
}

// letsAppsEnd: a prune and a deletion try all before the first write. A CRD whose objects the app deletes first is no reason to stop; one that the guard
// will refuse all the same is, and then nothing is deleted.
func (g *guarded) letsAppsEnd(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run := func(want int, says string, args ...string) {
		t.Helper()
		code, out, errs := sluice(t, append(args, "--kubeconfig", g.cluster.Kubeconfig, "-n", "default")...)
		if code != want || !strings.Contains(out+errs, says) {
			t.Errorf("%v: exit code %d, want %d and %q: %s%s", args, code, want, says, out, errs)
		}
	}
	source := func(group string) string {
		crd := strings.NewReplacer("databases.example.sluice.dev", "gauges."+group, "group: example.sluice.dev", "group: "+group, "databases", "gauges", "database", "gauge", "Database", "Gauge", "[db]", "[gg]").Replace(readText(t, upgrade+"v1.yaml"))
		return file(group, crd+"---\napiVersion: "+group+"/v1\nkind: Gauge\nmetadata: {name: g}\nspec: {engine: postgres, storage: {size: 1Gi}}\n")
	}
	rest := file("rest.yaml", configMap("rest"))
	seen, unseen := source("guarded.example"), source("unseen.example")

	run(ExitOK, "", "apply", "--app", "gauges", "-f", seen, "-f", rest)
	run(ExitOK, "would delete", "apply", "--app", "gauges", "-f", rest, "--prune", "--dry-run=server")
	run(ExitOK, "2 deleted", "apply", "--app", "gauges", "-f", rest, "--prune", "--yes")
	run(ExitOK, "", "apply", "--app", "gauges", "-f", seen, "-f", rest)
	run(ExitOK, "", "delete", "gauges", "--yes")

	run(ExitOK, "", "apply", "--app", "gauges", "-f", unseen, "-f", rest)
	for _, args := range [][]string{{"delete", "gauges", "--dry-run"}, {"delete", "gauges", "--yes"}, {"apply", "--app", "gauges", "-f", rest, "--prune", "--yes"}} {
		run(ExitFailed, "cannot be deleted", args...)
	}
	run(ExitOK, "3 unchanged", "apply", "--app", "gauges", "-f", unseen, "-f", rest)
}

// readText reads a file of the repository.
func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (g *guarded) refusesUnsafeUpdates(t *testing.T) {
	before := g.live(t, databasesCRD)
	objects, err := kube.Read(upgrade + "v2-unsafe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	next := objects[0]
	cfg := g.cluster.Config()
	cfg.Impersonate.UserName = "alice"
	k, err := kube.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := compat.SpecDigest(parseCRD(t, upgrade+"v2-unsafe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, printed, _ := sluice(t, "check", "--print-hash", upgrade+"v2-unsafe.yaml")
	if printed != digest+"  "+databasesCRD+"\n" {
		t.Errorf("printed %q", printed)
	}
	texts := []string{
		"is unsafe", "findings fail", "objects are stored", "data-lost, property-removed, v1 .spec.storage.tier",
		`accepted until now: {"apiVersion":"example.sluice.dev/v1","kind":"Database"`, "effect: spec.storage.tier is dropped",
		"sluice check NEW.yaml", bypassedKey + `: "` + digest + `: REASON"`,
	}
	// As kubectl apply --server-side does it, and as a controller with a typed client does.
	wants(t, k.ApplyObject(t.Context(), next, false), texts...)
	_, err = g.as("system:serviceaccount:flux-system:kustomize-controller", nil).ApiextensionsV1().CustomResourceDefinitions().
		Update(t.Context(), g.changed(t, withSpecOf(t, upgrade+"v2-unsafe.yaml")), metav1.UpdateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a user without permissions: %v", err)
	}
	_, err = g.as("alice", nil).ApiextensionsV1().CustomResourceDefinitions().
		Update(t.Context(), g.changed(t, withSpecOf(t, upgrade+"v2-unsafe.yaml")), metav1.UpdateOptions{})
	wants(t, err, texts...)
	t.Log(err)
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || len(status.Status().Details.Causes) < 4 || status.Status().Details.Causes[0].Type != "property-removed" {
		t.Errorf("causes: %+v", status)
	}
	if after := g.live(t, databasesCRD); after.Generation != before.Generation {
		t.Error("the CRD changed")
	}

	// Versions that objects are stored in come from the live CRD.
	wants(t, g.update(t, "alice", databasesCRD, dropServed, dryRun, nil), "clients-broken")

	// The safe one passes, with a warning.
	w := &warned{}
	_, err = g.as("alice", w).ApiextensionsV1().CustomResourceDefinitions().Update(t.Context(), g.changed(t, withSpecOf(t, upgrade+"v3-safe.yaml")), dryRun)
	if err != nil {
		t.Error(err)
	}
	if !slices.ContainsFunc(w.texts, func(s string) bool { return strings.Contains(s, "enum-value-added") }) {
		t.Errorf("warnings: %q", w.texts)
	}
}

// sluice check asks the API server by a dry run, which the guard refuses: that is a note beside the findings of its own.
func (g *guarded) isNoValidation(t *testing.T) {
	for file, want := range map[string]int{"v2-unsafe.yaml": ExitFindings, "v3-safe.yaml": ExitOK} {
		code, out, errs := sluice(t, "check", "--kubeconfig", g.cluster.Kubeconfig, "-o", "json", "--objects=false", upgrade+file)
		var doc struct{ CRDs []report.CRD }
		if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.CRDs) != 1 {
			t.Fatalf("%s: exit code %d: %v %s%s", file, code, err, out, errs)
		}
		notes := 0
		for _, f := range doc.CRDs[0].Findings {
			if f.Rule == "crd-refused-by-api-server" && f.Outcome == report.Note && strings.Contains(f.Message, `admission webhook "`) && strings.Contains(f.Message, "denied the request") {
				notes++
			} else if f.Rule == "crd-refused-by-api-server" {
				t.Errorf("%s: %s %s", file, f.Outcome, f.Message)
			}
		}
		if code != want || (notes == 1) != (want == ExitFindings) {
			t.Errorf("%s: exit code %d, want %d, with %d notes of the guard: %s%s", file, code, want, notes, out, errs)
		}
	}
}

func (g *guarded) passesWhatLeavesTheSpecAlone(t *testing.T) {
	crds := g.as("alice", nil).ApiextensionsV1().CustomResourceDefinitions()
	counted := func() string {
		_, body := get(t, "http://"+g.process.listen+"/metrics")
		var out []string
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, "sluice_crd_guard_requests_total") {
				out = append(out, line)
			}
		}
		return strings.Join(out, "")
	}
	g.conversion(t)
	before := counted()
	for _, patch := range []string{
		`{"metadata":{"labels":{"team":"a"}}}`,
		`{"metadata":{"annotations":{"example.com/note":"b"},"finalizers":["customresourcecleanup.apiextensions.k8s.io","example.com/x"]}}`,
		`{"metadata":{"finalizers":["customresourcecleanup.apiextensions.k8s.io"]}}`,
	} {
		if _, err := crds.Patch(t.Context(), databasesCRD, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	// As cert-manager's injector does it.
	leaf, err := certificateOf(t, g.address)
	if err != nil {
		t.Fatal(err)
	}
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf}))
	patch := `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"` + bundle + `"}}}}}`
	crd, err := crds.Patch(t.Context(), "convs.guarded.example", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	if err != nil || len(crd.Spec.Conversion.Webhook.ClientConfig.CABundle) == 0 {
		t.Error(err)
	}
	if after := counted(); after != before {
		t.Errorf("the guard was asked:\n%s before:\n%s", after, before)
	}
}

// conversion makes a CRD with a conversion webhook.
func (g *guarded) conversion(t *testing.T) {
	t.Helper()
	crd := gauge("convs", "Conv", "guarded.example", "")
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/convert")},
		},
	}
	if _, err := g.as("", nil).ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// gauge is a small CRD, with a validation rule where there is one.
func gauge(plural, kind, group, rule string) *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: new(int64(40))}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"name"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": text}}
	if rule != "" {
		spec.XValidations = apiextensionsv1.ValidationRules{{Rule: rule}}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
				}},
			}},
		},
	}
}

func certificateOf(t *testing.T, address string) ([]byte, error) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // only looked at
	return leafOf(t.Context(), conn)
}

func writeFile(t *testing.T, data []byte, elem ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(elem...), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

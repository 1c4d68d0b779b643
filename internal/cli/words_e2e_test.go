//go:build e2e

package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/apply"
	applycmd "sluice.dev/internal/cli/apply"
	"sluice.dev/tools/clustertest"
)

// program runs sluice as a process of its own, and gives all that it writes to standard error.
func (w *world) program(args ...string) string {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(w.t.TempDir(), "sluice")
	if err := os.Symlink(self, path); err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(path, append(args, "--kubeconfig", w.Kubeconfig, "-n", w.namespace)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("%v: %s", err, errs.String())
	}
	return errs.String()
}

// Nothing but Sluice's own words are written, even where the libraries have something to say: here about a version that is deprecated.
func TestE2ECommandsWriteNoLinesOfTheLibraries(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	old := strings.Replace(widget(group, "small"), "    served: true\n", "    served: true\n    deprecated: true\n", 1)
	w.apply(ExitOK, "--app", "x", "-f", w.file("a.yaml", old), "--preflight", "")
	next := w.file("b.yaml", strings.Replace(old, "enum: [small]", "enum: [small, large]", 1))
	for _, args := range [][]string{{"apply", "--app", "x", "-f", next}, {"ls", "x"}, {"delete", "x"}} {
		if errs := w.program(args...); regexp.MustCompile(`(?m)^[IWEF]\d{4} |"level":`).MatchString(errs) {
			t.Errorf("%v:\n%s", args, errs)
		}
	}
}

func TestE2EADryRunSaysWouldDelete(t *testing.T) {
	w := newWorld(t)
	w.apply(ExitOK, "--app", "x", "-f", w.file("a.yaml", configMap("old")+configMap("a")))
	f := w.file("b.yaml", configMap("a"))
	for _, how := range []string{"client", "server"} {
		out, errs := w.run(ExitOK, "apply", "--app", "x", "-f", f, "--prune", "--dry-run="+how)
		if strings.Count(out, "would delete ConfigMap "+w.namespace+"/old") != 1 || regexp.MustCompile(`(?m)^(deleted|will) `).MatchString(out) || strings.Contains(errs, "deleting") {
			t.Errorf("%s: %s%s", how, out, errs)
		}
	}
}

// A report of preflights that are not about CRDs does not speak of any.
func TestE2EAReportOfOtherKindsSpeaksOfThese(t *testing.T) {
	w := newWorld(t)
	f := w.file("a.yaml", configMap("a"))
	for _, format := range []string{"text", "markdown", "html"} {
		for _, preflight := range []string{"PermissionValidation", "CRDUpgradeSafety", ""} {
			out, _ := w.run(ExitOK, "apply", "-f", f, "--preflight", preflight, "--report", format, "--dry-run=client")
			if strings.Contains(out, "CRD") || strings.Contains(out, "rules of Kubernetes") {
				t.Errorf("%s of %q:\n%s", format, preflight, out)
			}
		}
	}
	w.reader("only-reads", "get", "list")
	out, _ := w.as("only-reads", ExitFindings, "apply", "-f", f, "--preflight", "PermissionValidation", "-v")
	if strings.Contains(out, "CRD") || strings.Contains(out, "rules of Kubernetes") || !strings.Contains(out, "FAIL  1 of 1 resource") {
		t.Errorf("findings:\n%s", out)
	}
}

// reader makes a ServiceAccount that may do something with ConfigMaps and Deployments of the world, and a configuration of it.
func (w *world) reader(name string, verbs ...string) {
	w.t.Helper()
	ctx := w.t.Context()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apps"}, Resources: []string{"configmaps", "deployments"}, Verbs: verbs},
	}}
	if _, err := w.kube.RbacV1().Roles(w.namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}},
	}
	if _, err := w.kube.RbacV1().RoleBindings(w.namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	clustertest.AwaitRights(w.t, w.kube, w.namespace)
}

// as runs sluice as another user.
func (w *world) as(user string, want int, command string, args ...string) (stdout, stderr string) {
	w.t.Helper()
	admin, err := os.ReadFile(w.Kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^( *)user:\n`).ReplaceAllString(string(admin), "${1}user:\n${1}  as: "+user+"\n")
	code, stdout, stderr := sluice(w.t, append([]string{command, "--kubeconfig", w.file(user+".kubeconfig", text), "-n", w.namespace}, args...)...)
	if code != want {
		w.t.Fatalf("sluice %s as %s: exit code %d, want %d\n%s%s", command, user, code, want, stdout, stderr)
	}
	return stdout, stderr
}

// Who may only read gets a difference, too, and is told that the server was not asked. It is that of the server, defaults apart.
func TestE2EDiffWithRightsToRead(t *testing.T) {
	w := newWorld(t)
	w.apply(ExitOK, "--app", "x", "--wait=false", "-f", w.file("a.yaml", takeoverBefore+configMapDoc("old")))
	w.reader("reader", "get", "list")
	next := w.file("b.yaml", takeoverAfter+configMapDoc("new"))
	decode := func(out string) map[string]apply.Difference {
		var d applycmd.DiffResult
		if err := json.Unmarshal([]byte(out), &d); err != nil {
			t.Fatal(err)
		}
		all := map[string]apply.Difference{}
		for _, one := range d.Differences {
			all[one.Name] = one
		}
		return all
	}
	theirs, _ := w.run(ExitFindings, "diff", "--app", "x", "-f", next, "--prune", "-o", "json")
	ours, errs := w.as("reader", ExitFindings, "diff", "--app", "x", "-f", next, "--prune", "-o", "json")
	want, got := decode(theirs), decode(ours)
	for name, d := range got {
		if !strings.Contains(d.Note, "this user may not have the server try") {
			t.Errorf("%s: note %q", name, d.Note)
		}
		d.Note = ""
		got[name] = d
	}
	// Of a new object only the server knows what it fills in.
	if got["new"].Action != want["new"].Action {
		t.Errorf("%+v", got["new"])
	}
	delete(got, "new")
	delete(want, "new")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, errs)
	}
	if out, _ := w.as("reader", ExitOK, "diff", "--app", "x", "-f", w.file("a.yaml", takeoverBefore+configMapDoc("old"))); strings.Contains(out, "@@") {
		t.Errorf("nothing differs:\n%s", out)
	}
}

func configMapDoc(name string) string {
	return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {k: v}\n"
}

//go:build e2e

package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/internal/cli/apply"
)

// keeping and sparing are the annotations by which other tools keep objects, and leave them alone.
var (
	keeping = map[string]string{
		"kapp": "kapp.k14s.io/delete-strategy: orphan", "flux": "kustomize.toolkit.fluxcd.io/prune: disabled", "argo-prune": "argocd.argoproj.io/sync-options: Validate=true,Prune=false",
		"argo-delete": "argocd.argoproj.io/sync-options: Delete=confirm", "cli-utils": "cli-utils.sigs.k8s.io/on-remove: keep",
		"lifecycle": "client.lifecycle.config.k8s.io/deletion: detach", "helm": "helm.sh/resource-policy: keep", "unknown": "kapp.k14s.io/delete-strategy: perhaps",
	}
	sparing = map[string]string{
		"noop": `kapp.k14s.io/noop: `, "reconcile": "kustomize.toolkit.fluxcd.io/reconcile: disabled", "ignore": "kustomize.toolkit.fluxcd.io/ssa: Ignore", "skip": "argocd.argoproj.io/hook: Skip",
	}
	once = map[string]string{
		"if-not-present": "kustomize.toolkit.fluxcd.io/ssa: IfNotPresent", "skip-update": "kapp.k14s.io/update-strategy: skip", "mutation": "client.lifecycle.config.k8s.io/mutation: ignore",
	}
)

func marked(name, annotation, value string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, annotations: {%s}}\ndata: {by: %q}\n", name, strings.Replace(annotation, ": ", `: "`, 1)+`"`, value)
}

func TestE2EWhatOthersKeepOrLeaveAloneIsKeptAndLeftAlone(t *testing.T) {
	w := newWorld(t)
	text := configMap("plain")
	var kept []string
	for name, annotation := range keeping {
		text += marked(name, annotation, "one")
		kept = append(kept, name)
	}
	slices.Sort(kept)
	all := w.file("all.yaml", text)
	none := w.file("none.yaml", configMap("other"))
	left := func(of []string) {
		t.Helper()
		got := slices.DeleteFunc(w.configMaps(w.namespace), func(n string) bool { return strings.HasPrefix(n, "sluice-app-") || n == "other" })
		if diff := cmp.Diff(of, got); diff != "" {
			t.Error(diff)
		}
	}
	_, errs := w.run(ExitOK, "apply", "--app", "x", "-f", all)
	if !strings.Contains(errs, "kapp.k14s.io/delete-strategy: perhaps (ConfigMap "+w.namespace+"/unknown)") {
		t.Errorf("it is not told what is not understood: %s", errs)
	}
	out, _ := w.run(ExitOK, "apply", "--app", "x", "-f", none, "--prune")
	for _, annotation := range keeping {
		if !strings.Contains(out, "its annotation "+annotation) {
			t.Errorf("it is not told why %s stays: %s", annotation, out)
		}
	}
	left(kept)
	w.run(ExitOK, "apply", "--app", "x", "-f", all)
	w.run(ExitOK, "delete", "x")
	left(kept)
}

func TestE2EWhatOthersLeaveAloneIsNotWritten(t *testing.T) {
	w := newWorld(t)
	value := func(name string) string {
		cm, err := w.kube.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return "missing"
		}
		return cm.Data["by"]
	}
	// The app has made them all, before they were marked.
	text := ""
	for name := range sparing {
		text += marked(name, "example.com/x: y", "one")
	}
	for name, annotation := range once {
		text += marked(name, annotation, "one")
	}
	w.run(ExitOK, "apply", "--app", "x", "-f", w.file("one.yaml", text))
	text = marked("missing", sparing["noop"], "two") + configMap("plain")
	for name, annotation := range sparing {
		text += marked(name, annotation, "two")
	}
	for name, annotation := range once {
		text += marked(name, annotation, "two")
	}
	two := w.file("two.yaml", text)
	_, errs := w.run(ExitOK, "apply", "--app", "x", "-f", two, "--prune")
	if !strings.Contains(errs, "not written: ") {
		t.Errorf("it is not told what is not written: %s", errs)
	}
	for _, list := range []map[string]string{sparing, once} {
		for name := range list {
			if got := value(name); got != "one" {
				t.Errorf("%s is %s", name, got)
			}
		}
	}
	if got := value("missing"); got != "missing" {
		t.Errorf("what is not to be created was, as %s", got)
	}
	if r := w.apply(ExitOK, "--app", "x", "-f", two, "--prune"); r.Outcome != apply.OutcomeUnchanged {
		t.Errorf("again: %s", r.Outcome)
	}
	// What is left alone is not the app's any more.
	w.run(ExitOK, "delete", "x")
	for name := range sparing {
		if got := value(name); got != "one" {
			t.Errorf("%s is %s after the deletion of the app", name, got)
		}
	}
	// What others are to create is waited for.
	exists := w.file("exists.yaml", marked("theirs", `kapp.k14s.io/exists: `, "two")+configMap("after"))
	_, errs = w.run(ExitFailed, "apply", "--app", "y", "-f", exists, "--timeout=300ms")
	if !strings.Contains(errs, "kapp.k14s.io/exists") || value("theirs") != "missing" {
		t.Errorf("%s", errs)
	}
	w.run(ExitOK, "apply", "--app", "z", "-f", w.file("theirs.yaml", marked("theirs", "example.com/x: y", "z")))
	w.run(ExitOK, "apply", "--app", "y", "-f", exists, "--prune")
	if got := value("theirs"); got != "z" {
		t.Errorf("what others have is %s now", got)
	}
	w.run(ExitOK, "delete", "y")
	if got := value("theirs"); got != "z" {
		t.Errorf("what others have is %s after a deletion", got)
	}
}

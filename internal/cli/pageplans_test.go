package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// tutorials is where pages stand of which every block is run.
const tutorials = "docs/tutorials/"

// pagePlan says how the blocks sh and console of a page are run.
type pagePlan struct {
	// cluster: they need a cluster.
	cluster bool
	// assume are commands for what a block assumes of its reader, by the beginning of the block. They run before it.
	assume map[string]string
	// replace are pairs: what the page leaves to the reader, and what the test has in its place.
	replace []string
	// skip says why a block is not run, by its beginning.
	skip map[string]string
}

// everyBlock stands in skip for the beginnings of all blocks.
const everyBlock = "*"

// Reasons of several blocks.
const (
	noHost    = "git.example.com and registry.example.com do not exist; docs/tutorials/deliver-from-git.md runs such commands"
	noTools   = "the tools of the reader's project are not here"
	needsGo   = "it reads the Go packages of a project; TestExamplesRun runs it in one"
	asksOrRun = "it needs the processes of an installation; TestE2EDocumentsFitTheirSchemas runs it beside none"
)

// namespaces are the commands that create namespaces, unless they are there.
func namespaces(names ...string) (commands string) {
	for _, name := range names {
		commands += "kubectl create namespace " + name + " --dry-run=client -o yaml | kubectl apply -f -\n"
	}
	return commands
}

var examplePages = namespaces("pages-system") + `kubectl create configmap feature-flags -n pages-system --dry-run=client -o yaml | kubectl apply -f -
mkdir -p crds; cp examples/operator/config/features.yaml features.yaml; cp examples/operator/config/crd.yaml crds/
kubectl apply -f crds/`

const exampleRepository = `git init -q -b main .; mkdir -p config/crd; cp examples/upgrade/v1.yaml config/crd/database.yaml
echo 'resources: [database.yaml]' > config/crd/kustomization.yaml
git add config; git commit -qm 'A CRD'; git tag v1.2.0; git update-ref refs/remotes/origin/main HEAD`

// pagePlans has each page with blocks sh or console.
var pagePlans = map[string]pagePlan{
	"docs/tutorials/first-check.md":      {},
	"docs/tutorials/write-a-resolver.md": {},
	"docs/tutorials/guard-a-cluster.md":  {cluster: true},
	"docs/tutorials/gate-a-field.md":     {cluster: true},
	"docs/tutorials/deliver-from-git.md": {cluster: true},
	"docs/tutorials/tekton-resolvers.md": {cluster: true},

	"docs/howto/add-required-field.md": {},
	"docs/howto/suppress-finding.md":   {},
	"docs/howto/air-gap.md":            {cluster: true},
	"docs/howto/allow-unsafe-upgrade.md": {cluster: true, assume: map[string]string{
		"kubectl apply": "kubectl apply --server-side -f examples/howto/rename-both.yaml; cp examples/howto/rename-done.yaml new.yaml",
	}},
	"docs/howto/debug-request.md": {
		cluster: true, replace: []string{"-n team-a NAME", "-n team-a build"},
		assume: map[string]string{
			"sluice resolve ls": namespaces("team-a") + `sluice manifests --image=sluice:test | kubectl apply --server-side -f -
kubectl wait --for=condition=Established crd/resolutionrequests.resolution.tekton.dev
printf 'apiVersion: resolution.tekton.dev/v1beta1\nkind: ResolutionRequest\nmetadata: {name: build, namespace: team-a, labels: {resolution.tekton.dev/type: git}}\nspec: {params: [{name: url, value: x}]}\n' | kubectl create -f -`,
		},
		skip: map[string]string{
			"sluice resolve git --param url=": noHost,
			"sluice resolve -f request.yaml":  "it waits for a resolver; resolve_e2e_test.go runs it beside one",
		},
	},
	"docs/howto/move-from-flags.md": {skip: map[string]string{
		"sluice features compile": "an API server takes minutes for these policies; examples/tekton/tekton_test.go runs them by its code",
	}},
	"docs/howto/move-from-crdify.md": {},
	"docs/howto/move-from-kapp.md": {
		cluster: true, replace: []string{"configmap NAME", "configmap shop"},
		assume: map[string]string{
			"$ sluice diff": `mkdir config; printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\ndata: {a: b}\n' > config/settings.yaml
printf 'apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\n' > kapp-config.yaml`,
			"kubectl get configmap": `kubectl create configmap shop; kubectl label configmap shop kapp.k14s.io/is-app=
kubectl create configmap shop-change; kubectl label configmap shop-change kapp.k14s.io/is-app-change=`,
		},
	},
	"docs/howto/move-from-tekton-resolvers.md": {
		cluster: true, replace: []string{"IMAGE", "sluice:test"},
		assume: map[string]string{
			"kubectl scale deployment tekton-pipelines-remote-resolvers -n tekton-pipelines-resolvers --replicas=0": namespaces("tekton-pipelines", "tekton-pipelines-resolvers", "team-a") + `kubectl create deployment tekton-pipelines-remote-resolvers -n tekton-pipelines-resolvers --image=resolvers:test`,
			"kubectl create rolebinding": "kubectl delete rolebinding -n team-a sluice-resolver-git-credentials --ignore-not-found",
		},
		skip: map[string]string{"sluice doctor": asksOrRun},
	},
	"docs/howto/remove-version.md": {cluster: true, assume: map[string]string{
		"kubectl get databases": `kubectl apply -f examples/howto/versions-0.yaml; kubectl wait --for=condition=Established crd/databases.example.com
printf 'apiVersion: example.com/v1beta1\nkind: Database\nmetadata: {name: orders}\nspec: {engine: postgres}\n' > orders.yaml
until kubectl apply -f orders.yaml; do sleep 0.2; done 2>/dev/null; kubectl apply -f examples/howto/versions-1.yaml`,
		"sluice check new.yaml": "kubectl apply -f examples/howto/versions-2.yaml; cp examples/howto/database.yaml new.yaml",
	}},
	"docs/howto/rename-field.md": {cluster: true, assume: map[string]string{
		"kubectl get databases": `kubectl apply -f examples/howto/rename-both.yaml; kubectl wait --for=condition=Established crd/databases.example.com
cp examples/howto/rename-done.yaml new.yaml; until kubectl get databases.example.com; do sleep 0.2; done 2>/dev/null`,
	}},

	"README.md": {
		cluster: true,
		assume: map[string]string{
			"sluice check old.yaml":   exampleRepository + "; cp examples/upgrade/v1.yaml old.yaml; cp examples/upgrade/v3-safe.yaml new.yaml",
			"sluice features compile": examplePages,
		},
		skip: map[string]string{
			"make build":                       "it builds this project and runs all of its tests",
			"sluice check new.yaml ":           noHost,
			"sluice manifests --beside-tekton": noHost,
		},
	},
	"docs/apply.md": {skip: map[string]string{everyBlock: noHost}},
	"docs/ci.md": {
		cluster: true, assume: map[string]string{"git worktree add ../base origin/main\nkubectl": exampleRepository},
		skip: map[string]string{
			"make manifests": noTools, "git worktree add ../base origin/main\n(cd": noTools, "git worktree add ../base origin/main\nhelm": noTools,
			"helm template": noTools + "; testdata/script/filter.txtar runs sluice filter",
		},
	},
	"docs/delivery.md": {
		cluster: true, replace: []string{"IMAGE", "sluice:test"},
		assume: map[string]string{
			"kubectl create rolebinding": namespaces("shop"),
			"kubectl annotate": `kubectl wait --for=condition=Established crd/deliveries.sluice.dev
until kubectl apply -f delivery.yaml; do sleep 0.2; done 2>/dev/null`,
		},
		skip: map[string]string{"$ kubectl get deliveries": "the digest is that of an example; delivery_states_e2e_test.go shows each state"},
	},
	"docs/doctor.md":                 {skip: map[string]string{everyBlock: asksOrRun}},
	"docs/features-for-operators.md": {skip: map[string]string{everyBlock: "examples/operator builds and runs this program in TestE2ETheProgramOfTheDocumentation"}},
	"docs/features-life.md": {
		cluster: true, replace: []string{"IMAGE", "sluice:test"},
		assume: map[string]string{
			"sluice manifests --roles features": `sluice manifests --roles features --feature-settings sluice-system/sluice-features --image sluice:test | kubectl apply --server-side -f -
kubectl wait --for=condition=Established crd/components.sluice.dev crd/features.sluice.dev`,
		},
		skip: map[string]string{"sluice features scaffold": needsGo, "sluice features docs": needsGo, "sluice features matrix": needsGo},
	},
	"docs/features.md": {
		cluster: true, replace: []string{"sluice manifests --roles=features,", "sluice manifests --image=sluice:test --roles=features,"},
		assume: map[string]string{
			"$ kubectl create namespace":                                           "cp examples/operator/config/crd.yaml crd.yaml",
			"sluice features compile -f ":                                          "mkdir crds; cp crd.yaml crds/",
			"sluice manifests --roles=features,feature-webhook --feature-settings": namespaces("tekton-pipelines"),
		},
		skip: map[string]string{
			"$ sluice features enable tasks-timeout": "the features of this block are made up; features_gates_e2e_test.go holds the output",
			"$ sluice features disable step-debug":   "the features of this block are made up; features_gates_e2e_test.go holds the output",
			"$ sluice features lint":                 "the features of this block are made up; testdata/script/features_lint.txtar holds the output",
			"sluice features simulate":               "the objects of this block are the reader's; testdata/script/features.txtar simulates",
		},
	},
	"docs/guard.md":        {cluster: true, replace: []string{"IMAGE", "sluice:test"}},
	"docs/installation.md": {skip: map[string]string{everyBlock: "the registry is the reader's; config and test/helm render the same manifests, and tools/release installs them"}},
	"docs/resolution.md": {
		cluster: true, replace: []string{"IMAGE", "sluice:test"},
		assume: map[string]string{
			"sluice manifests --image IMAGE --beside-tekton": namespaces("tekton-pipelines", "tekton-pipelines-resolvers"),
			"kubectl create rolebinding":                     namespaces("team-a") + "kubectl delete rolebinding -n team-a --all",
		},
		skip: map[string]string{"sluice resolve git": noHost},
	},
	"docs/uninstall.md": {skip: map[string]string{everyBlock: "it asks before it removes; tools/release uninstalls in its test"}},
}

func (b pageBlock) runs() bool { return b.language == "sh" || b.language == "console" }

// reason says why a block is not run; empty if it is.
func (p pagePlan) reason(b pageBlock) string {
	if !b.runs() {
		return ""
	}
	return of(p.skip, b)
}

// assumed are the commands before a block.
func (p pagePlan) assumed(b pageBlock) string {
	if !b.runs() {
		return ""
	}
	return of(p.assume, b)
}

func of(values map[string]string, b pageBlock) string {
	for beginning, value := range values {
		if beginning == everyBlock || strings.HasPrefix(b.text, beginning) {
			return value
		}
	}
	return ""
}

// TestEachBlockIsRunOrHasAReason: a page with commands has a plan, and each entry of a plan is about one block of its page.
func TestEachBlockIsRunOrHasAReason(t *testing.T) {
	pages := pagesOf(t, "README.md", "CONTRIBUTING.md", "docs")
	run, skipped := 0, 0
	for page, text := range pages {
		page = filepath.ToSlash(page)
		plan, planned := pagePlans[page]
		entries := map[string]int{}
		for _, b := range pageBlocks(t, text) {
			if !b.runs() {
				continue
			}
			if !planned {
				t.Errorf("%s:%d: no test runs this block: give the page a row in pagePlans", page, b.line)
			}
			if plan.reason(b) != "" {
				skipped++
			} else {
				run++
			}
			for _, values := range []map[string]string{plan.assume, plan.skip} {
				for beginning := range values {
					if beginning == everyBlock || strings.HasPrefix(b.text, beginning) {
						entries[beginning]++
					}
				}
			}
		}
		for _, values := range []map[string]string{plan.assume, plan.skip} {
			for beginning, value := range values {
				if n := entries[beginning]; n != 1 && (beginning != everyBlock || n == 0) || value == "" {
					t.Errorf("%s: %d blocks begin with %q, want one, with a reason", page, n, beginning)
				}
			}
		}
	}
	for page := range pagePlans {
		if pages[filepath.FromSlash(page)] == "" {
			t.Errorf("%s has a plan, but is no page", page)
		}
	}
	if run < 80 || run < 3*skipped {
		t.Errorf("%d blocks are run, and %d are not", run, skipped)
	}
}

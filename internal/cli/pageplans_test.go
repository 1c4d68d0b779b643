package cli

import (
	"fmt"
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
	// alone: the page has a cluster of its own.
	alone bool
	// folders of the repository that the page names, beside examples.
	folders []string
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
	inTheWalk = "it needs the processes of an installation; TestE2EFromNothingToGuarded of tools/release runs this block beside them"
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

// goTypes is a project of Go types in the folder of exampleRepository, with a chart.
const goTypes = `
(cd $SLUICE && go build -o "$OLDPWD/bin/controller-gen" sigs.k8s.io/controller-tools/cmd/controller-gen)
rm -r examples/kubebuilder examples/kubernetes examples/resolver examples/tekton
mkdir -p api charts/x/crds charts/x/templates; mv examples/operator/api/v1 api/v1; cp config/crd/database.yaml charts/x/crds; rm -r examples
printf 'apiVersion: v2\nname: x\nversion: 1.0.0\n' > charts/x/Chart.yaml
sed 's/^module .*/module example.com\/shop/' $SLUICE/go.mod > go.mod; cp $SLUICE/go.sum .
printf 'manifests:\n\tcontroller-gen crd paths=./... output:crd:dir=config/crd/bases\n' > Makefile; make manifests
git add api charts config go.mod go.sum Makefile; git commit -qm 'Go types'; git update-ref refs/remotes/origin/main HEAD`

// otherTools puts programs that the module test/helm builds into the path.
func otherTools(names ...string) (commands string) {
	for _, name := range names {
		commands += fmt.Sprintf("mkdir -p bin; ln -s \"$(cd $SLUICE/test/helm && go tool -n %[1]s)\" bin/%[1]s\n", name)
	}
	return commands + "export PATH=$PWD/bin:$PATH\n"
}

// pagePlans has each page with blocks sh or console.
var pagePlans = map[string]pagePlan{
	"docs/tutorials/first-check.md":      {},
	"docs/tutorials/guard-a-cluster.md":  {cluster: true},
	"docs/tutorials/gate-a-field.md":     {cluster: true},
	"docs/tutorials/deliver-from-git.md": {cluster: true},
	"docs/tutorials/tekton-resolvers.md": {cluster: true},
	"docs/tutorials/write-a-resolver.md": {cluster: true},

	"docs/proof.md": {},

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
		"sluice migrate databases": `kubectl apply -f examples/howto/versions-0.yaml; kubectl wait --for=condition=Established crd/databases.example.com
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
	"docs/apply.md": {
		cluster: true, alone: true, replace: []string{"git+https://git.example.com/shop.git", "git+file://$PWD/shop.git", "sluice delete shop", "sluice delete shop --yes"},
		assume: map[string]string{"sluice apply --app shop": otherTools("kustomize") + `mkdir config shop.git
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\ndata: {a: b}\n' > config/settings.yaml
echo 'resources: [config/settings.yaml]' > kustomization.yaml
cp -r config shop.git/deploy; git -C shop.git init -q -b main; git -C shop.git add .; git -C shop.git commit -qm 'Settings'; git -C shop.git tag v1.2.0`},
		skip: map[string]string{"sluice apply --app operator": "registry.example.com does not exist; apply_e2e_test.go reads from a registry"},
	},
	"docs/ci.md": {
		cluster: true, replace: []string{"/tmp/", "../"},
		assume: map[string]string{
			"make manifests": otherTools("helm") + exampleRepository + goTypes,
			"git worktree add ../base origin/main\nhelm":    "git worktree remove --force ../base",
			"git worktree add ../base origin/main\nkubectl": "git worktree remove --force ../base",
			"sluice check --releases 'v1": `git tag v1.3.0
for v in v1.0 v1.1 v1.2; do mkdir -p crds/$v; cp config/crd/database.yaml crds/$v; done`,
		},
		skip: map[string]string{"sluice check --releases 'oci": "ghcr.io is on the Internet; TestReleasesFromManyPlaces has a registry"},
	},
	"docs/migrate.md": {cluster: true, assume: map[string]string{
		"sluice migrate": `cat > new.yaml <<EOF
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {plural: widgets, kind: Widget}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {engine: {type: string, enum: [mysql, postgres]}}}}}}
EOF
sed 's/mysql, postgres/mariadb, mysql, postgres/' new.yaml | kubectl apply -f -
kubectl wait --for=condition=Established crd/widgets.example.com
printf 'apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: orders}\nspec: {engine: mariadb}\n' > orders.yaml
until kubectl apply -f orders.yaml; do sleep 0.2; done 2>/dev/null`,
	}},
	"docs/ui.md":         {skip: map[string]string{everyBlock: "it serves until it is interrupted; the module test/browser opens the pages"}},
	"docs/comparison.md": {skip: map[string]string{everyBlock: "it fetches repositories from the Internet"}},
	"docs/delivery.md": {
		cluster: true, replace: []string{"IMAGE", "sluice:test"},
		assume: map[string]string{
			"kubectl create rolebinding": namespaces("shop"),
			"kubectl annotate": `kubectl wait --for=condition=Established crd/deliveries.sluice.dev
until kubectl apply -f delivery.yaml; do sleep 0.2; done 2>/dev/null`,
		},
		skip: map[string]string{"$ kubectl get deliveries": "the digest is that of an example; delivery_states_e2e_test.go shows each state"},
	},
	"docs/doctor.md": {skip: map[string]string{everyBlock: inTheWalk}},
	"docs/features-for-operators.md": {cluster: true, alone: true, replace: []string{
		"go get sluice.dev@latest     # or, beside a checkout: ", "", "=../sluice", "=$SLUICE",
		"sluice manifests", "sluice manifests --image=sluice:test",
	}},
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
			"$ kubectl create namespace":  "cp examples/operator/config/crd.yaml crd.yaml",
			"sluice features compile -f ": "mkdir -p crds; cp crd.yaml crds/",
			"sluice features usage -f manifests/": `mkdir -p crds manifests; cp crd.yaml crds/; test -f features.yaml || cp examples/operator/config/features.yaml .
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: feature-flags, namespace: pages-system}\n' > manifests/settings.yaml`,
			"sluice manifests --roles=features,feature-webhook --feature-settings": namespaces("tekton-pipelines"),
		},
		skip: map[string]string{
			"$ sluice features enable tasks-timeout": "the features of this block are made up; features_gates_e2e_test.go holds the output",
			"$ sluice features disable step-debug":   "the features of this block are made up; features_gates_e2e_test.go holds the output",
			"$ sluice features lint":                 "the features of this block are made up; testdata/script/features_lint.txtar holds the output",
			"sluice features simulate":               "the objects of this block are the reader's; testdata/script/features.txtar simulates",
		},
	},
	"docs/guard.md": {cluster: true, replace: []string{"IMAGE", "sluice:test"}},
	"docs/installation.md": {
		cluster: true, alone: true, folders: []string{"config"}, assume: map[string]string{
			"helm install":  "sluice uninstall --yes\n" + otherTools("helm"),
			"kubectl apply": "sluice uninstall --yes; helm uninstall sluice --namespace sluice-system",
		},
		skip: map[string]string{
			"kubectl -n sluice-system port-forward": "it needs the processes of an installation; serve_listen_test.go asks for /flagz",
			"make build image":                      "it needs Docker, for the cluster that kind makes",
			"make build cluster":                    "it builds this project; docs/tutorials/guard-a-cluster.md goes on from here",
		},
	},
	"docs/resolution.md": {
		cluster: true, replace: []string{"IMAGE", "sluice:test"},
		assume: map[string]string{
			"sluice manifests --image IMAGE --beside-tekton": namespaces("tekton-pipelines", "tekton-pipelines-resolvers"),
			"kubectl create rolebinding":                     namespaces("team-a") + "kubectl delete rolebinding -n team-a --all",
		},
		skip: map[string]string{"sluice resolve git": noHost},
	},
	"docs/uninstall.md": {skip: map[string]string{everyBlock: inTheWalk}},
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

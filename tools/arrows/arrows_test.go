// Package arrows pins which packages of this module may import which. It holds one table and the test that compares it
// with the source; it decides nothing about other modules but what a pure package must do without.
package arrows

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "sluice.dev"

// table has a row for every package of the module. Imports go upwards in it: a package may import only what stands in
// an earlier row, so that the order of the rows is the order of the layers.
var table = []row{
	{pkg: "internal/brief", pure: true, why: "texts fit for messages, for whoever writes one"},
	{pkg: "report", pure: true, why: "findings and their printers know nothing of where findings come from", may: []string{"internal/brief"}},
	{pkg: "schema", pure: true, why: "a schema as a value"},
	{pkg: "schema/upstream", pure: true, why: "the API server's own code, without a server", may: []string{"schema"}},
	{pkg: "schema/contain/internal/logic", pure: true, why: "formulas about JSON values, of whatever origin"},
	{pkg: "schema/contain/internal/regular", pure: true, why: "sets of strings, of whatever origin"},
	{
		pkg: "schema/contain/internal/celrule", pure: true, why: "validation rules of a schema as formulas",
		may: []string{"schema", "schema/contain/internal/logic"},
	},
	{
		pkg: "schema/contain", pure: true, why: "the prover compares schemas and has its witnesses judged by upstream; what a difference means is not its business",
		may: []string{
			"schema", "schema/upstream",
			"schema/contain/internal/celrule", "schema/contain/internal/logic", "schema/contain/internal/regular",
		},
	},
	{
		pkg: "compat", pure: true, why: "the rules ask the prover and write findings; nobody below knows of rules",
		may: []string{"internal/brief", "report", "schema", "schema/contain", "schema/upstream"},
	},
	{
		pkg: "conversion", pure: true, why: "converts objects of the prover and says what is lost; who converts comes as a value",
		may: []string{"compat", "internal/brief", "report", "schema/contain", "schema/upstream"},
	},
	{pkg: "internal/limit", why: "bounded reading, for whoever reads"},
	{pkg: "internal/yamlerr", why: "plain words for errors of YAML, for every package that reads YAML"},
	{pkg: "internal/sourceurl", why: "parses the URL of a source; it fetches nothing"},
	{
		pkg: "internal/input", why: "reads CRDs and says where they stood; what they mean is for others",
		may: []string{"internal/limit", "internal/brief", "internal/sourceurl", "internal/yamlerr", "report", "schema"},
	},
	{pkg: "tools/*", why: "one job each, for tests or for those who work on the project; what is tested is not its business", may: []string{"internal/limit"}},
	{pkg: "internal/admission", why: "the protocol of admission webhooks; what is admitted is for those who serve one", may: []string{"internal/limit"}},
	{pkg: "api/resolution", why: "names that both versions of the API share"},
	{pkg: "api/resolution/v1beta1", why: "the API as it is stored", may: []string{"api/resolution"}},
	{pkg: "api/v1alpha1", why: "Sluice's own kinds, without what they mean", may: []string{"api/resolution/v1beta1"}},
	{pkg: "internal/apiclient", why: "the way to our own kinds, for the controllers that act on them", may: []string{"api/v1alpha1"}},
	{
		pkg: "feature", pure: true, why: "decides what is open and what becomes of a request; settings and objects come as values",
		may: []string{"api/v1alpha1", "internal/brief", "schema"},
	},
	{
		pkg: "feature/rules", pure: true, why: "what becomes of validation rules; apart from feature, whose users do without a parser of CEL",
		may: []string{"api/v1alpha1", "feature"},
	},
	{
		pkg: "feature/skew", pure: true, why: "whether processes agree about features; who they are comes as values",
		may: []string{"api/v1alpha1", "feature", "internal/brief"},
	},
	{
		pkg: "internal/settings", why: "the form of settings in files, for processes and for commands; what they mean, feature says",
		may: []string{"feature", "internal/brief", "internal/input", "internal/limit", "report"},
	},
	{
		pkg: "feature/gate", why: "the features of one process; where settings come from is for its callers",
		may: []string{"api/v1alpha1", "feature", "feature/skew", "internal/brief", "internal/settings"},
	},
	{
		pkg: "feature/matrix", pure: true, why: "chooses the combinations of features to test, for tests in Go and for the command",
		may: []string{"api/v1alpha1", "feature"},
	},
	{
		pkg: "feature/featuretest", why: "sets features in tests; what they mean is for gate",
		may: []string{"api/v1alpha1", "feature", "feature/gate", "feature/matrix"},
	},
	{pkg: "feature/typed", why: "objects as Go values; what is on is asked of gates", may: []string{"feature"}},
	{
		pkg: "feature/process", why: "settings from a cluster, and reports to it; what they mean is for gate and skew",
		may: []string{"api/v1alpha1", "feature", "feature/gate", "feature/skew"},
	},
	{
		pkg: "feature/policy", pure: true, why: "features as admission policies; compiled and measured with the API server's code, applied by others",
		may: []string{"api/v1alpha1", "feature", "internal/brief", "schema"},
	},
	{
		pkg: "feature/policy/simulate", pure: true, why: "runs policies with the API server's code, without a server",
		may: []string{"api/v1alpha1", "feature", "feature/policy", "schema"},
	},
	{
		pkg: "tools/featuregen", why: "random worlds for the evaluator, processes and the policies, and whether they agree",
		may: []string{"api/v1alpha1", "feature", "feature/gate", "feature/rules", "feature/policy", "feature/policy/simulate"},
	},
	{pkg: "apply/kapprules", why: "what is done of the rules in kapp's configuration, for what reads them and for what applies them"},
	{
		pkg: "internal/config", why: "reads the configuration and applies it to a finished report",
		may: []string{"apply/kapprules", "internal/limit", "internal/brief", "internal/yamlerr", "report"},
	},
	{pkg: "conversion/conversiontest", why: "checks conversions in the tests of those who write them", may: []string{"conversion", "internal/config", "report"}},
	{
		pkg: "internal/life", why: "features from a marker in Go to their end: reads sources and writes generated files; what definitions mean, feature says",
		may: []string{"api/v1alpha1", "compat", "feature", "feature/rules", "feature/gate", "internal/input", "internal/limit", "internal/brief", "report", "schema", "schema/upstream"},
	},

	{pkg: "resolve", why: "what a resolver is, and what all have in common; the resolvers import it, never the other way round", may: []string{"internal/brief"}},
	{pkg: "resolve/resolvetest", why: "what every resolver must hold, whoever wrote it", may: []string{"resolve"}},
	{pkg: "resolve/netguard", why: "which addresses may be spoken to, for every resolver", may: []string{"internal/brief", "internal/limit", "resolve"}},
	{pkg: "resolve/verify", why: "checks the signatures of resources from any resolver", may: []string{"internal/brief", "internal/sourceurl", "resolve"}},
	{pkg: "resolve/*", why: "a resolver, which knows no other one", may: []string{"internal/brief", "internal/limit", "internal/yamlerr", "resolve", "resolve/netguard", "resolve/verify"}},
	{
		pkg: "internal/resolvers", why: "which resolvers there are, and what each needs; programs ask it",
		may: []string{
			"resolve", "resolve/*", "resolve/netguard", "resolve/verify",
		},
	},
	{
		pkg: "examples/tekton", why: "what Tekton gates today, as policies: a folder of YAML and its test",
		may: []string{"api/v1alpha1", "feature", "feature/policy", "feature/policy/simulate"},
	},
	{pkg: "examples/kubernetes", why: "gates for Kubernetes' own kinds: a folder of YAML and its test"},
	{
		pkg: "examples/kubebuilder", tree: true, why: "a project as kubebuilder lays it out, as somebody else writes it",
		may: []string{"api/v1alpha1", "compat", "feature", "feature/gate", "feature/policy", "feature/process", "feature/typed", "report"},
	},
	{
		pkg: "examples/operator", tree: true, why: "an operator as somebody else writes it",
		may: []string{"api/v1alpha1", "feature", "feature/gate", "feature/policy", "feature/process", "feature/typed"},
	},

	{pkg: "api/resolution/v1alpha1", why: "the older API; it is converted, never stored", may: []string{"api/resolution", "api/resolution/v1beta1"}},
	{pkg: "client", tree: true, why: "generated clients", may: []string{"api/resolution", "api/resolution/v1alpha1", "api/resolution/v1beta1"}},
	{pkg: "config", why: "manifests, as files", may: []string{"internal/brief", "api/resolution"}},
	{pkg: "internal/fairqueue", why: "whose turn it is, for whoever works for several tenants"},
	{pkg: "internal/metric", why: "makes metrics and registers them; its callers decide what they count"},
	{pkg: "internal/servingcert", why: "the certificate of a webhook, whichever it is"},
	{
		pkg: "requester", why: "asks for a resource through the API; how it is found is not its business",
		may: []string{"api/resolution", "api/resolution/v1beta1", "client", "internal/limit"},
	},
	{pkg: "requester/contentstore", why: "content in a registry; whose it is and what it is for is not its business", may: []string{"internal/limit"}},
	{
		pkg: "requester/refs", why: "references inside a resource; who fetches what they refer to is not its business",
		may: []string{"api/resolution", "api/resolution/v1beta1", "internal/sourceurl", "internal/yamlerr", "requester"},
	},
	{
		pkg: "internal/controller/resolution", why: "brings requests of the API to resolvers, and answers back; it knows no resolver by name",
		may: []string{"api/resolution", "api/resolution/v1alpha1", "api/resolution/v1beta1", "client", "internal/fairqueue", "internal/brief", "internal/metric", "internal/servingcert", "resolve", "resolve/verify"},
	},
	{
		pkg: "internal/process", why: "what the roles of one process share; what a role does is for its part",
		may: []string{"client", "internal/controller/resolution", "resolve"},
	},
	{
		pkg: "resolve/controller", why: "runs any resolver in a cluster, and knows none by name",
		may: []string{"api/resolution", "api/resolution/v1beta1", "client", "internal/controller/resolution", "internal/process", "resolve", "resolve/verify"},
	},
	{pkg: "examples/resolver", why: "a resolver as somebody else writes it", may: []string{"resolve", "resolve/controller", "resolve/netguard"}},

	{
		pkg: "internal/cluster", why: "reads a live API server; an object's fate is upstream's to say",
		may: []string{"internal/brief", "internal/limit", "schema/upstream"},
	},
	{
		pkg: "internal/featureusage", why: "which stored objects use features; what a use is, feature says",
		may: []string{"feature", "internal/cluster"},
	},
	{
		pkg: "internal/crdcheck", why: "what a new CRD does to a cluster, for whoever is about to change one",
		may: []string{"compat", "conversion", "internal/brief", "internal/cluster", "report"},
	},
	{
		pkg: "apply", why: "brings objects into a cluster; where they come from and how it is told is not its business",
		may: []string{"api/v1alpha1", "compat", "feature", "feature/rules", "internal/brief", "internal/cluster", "internal/crdcheck", "apply/kapprules", "internal/limit", "report", "schema/upstream"},
	},
	{
		pkg: "internal/migrate", why: "rewrites stored objects in the storage version; which CRD, and how it is told, is for its callers",
		may: []string{"internal/brief", "internal/cluster"},
	},
	{
		pkg: "internal/preflight", why: "makes a report of what preflights found, for whoever is about to apply",
		may: []string{"apply", "internal/config", "internal/crdcheck", "internal/input", "report"},
	},
	{
		pkg: "internal/controller/delivery", why: "keeps in a cluster what stands in a source; how it is fetched, judged and applied is for the packages below",
		may: []string{
			"api/resolution", "api/resolution/v1beta1", "api/v1alpha1", "apply", "client", "internal/apiclient", "internal/brief", "internal/config", "internal/fairqueue", "internal/input",
			"internal/metric", "internal/migrate", "internal/preflight", "internal/sourceurl", "report", "requester",
		},
	},
	{
		pkg: "internal/controller/guard", why: "judges changes of CRDs at admission; what is harmful is for compat to say",
		may: []string{"compat", "internal/admission", "internal/brief", "internal/config", "internal/metric", "report"},
	},
	{
		pkg: "internal/controller/features", why: "keeps policies, webhook and status in step with features; what they mean and how they are said is for the packages below",
		may: []string{
			"api/v1alpha1", "feature", "feature/rules", "feature/policy", "feature/policy/simulate", "feature/skew", "internal/admission", "internal/apiclient", "internal/brief", "internal/cluster", "internal/featureusage", "internal/metric",
		},
	},
	{pkg: "internal/installation", why: "what Sluice has in a cluster, whether it works, and how it is removed", may: []string{"config", "internal/brief"}},
	{pkg: "internal/inflection", why: "keeps a library from files of the working directory before main runs; imports syscall alone"},
	{pkg: "internal/gcpercent", why: "sets the collector before other packages allocate; imports os and runtime/debug alone"},
	{
		pkg: "internal/cli/command", why: "what the commands share: exit codes, flags, progress, output; it knows no command",
		may: []string{"internal/brief", "internal/cluster", "internal/limit", "report"},
	},
	{
		pkg: "internal/cli/features", why: "the commands about features; what they mean and how they are enforced is for the packages below",
		may: []string{
			"api/v1alpha1", "feature", "feature/matrix", "feature/policy", "feature/policy/simulate", "feature/process", "feature/rules", "feature/skew", "internal/brief",
			"internal/cli/command", "internal/cluster", "internal/featureusage", "internal/input", "internal/life", "internal/limit", "internal/settings", "report",
		},
	},
	{
		pkg: "internal/cli/resolve", why: "the commands that resolve, and the set of resolvers that a process runs; how one fetches is not its business",
		may: []string{
			"api/resolution", "api/resolution/v1alpha1", "api/resolution/v1beta1", "client", "internal/brief", "internal/cli/command", "internal/controller/resolution",
			"internal/resolvers", "internal/sourceurl", "requester", "requester/contentstore", "requester/refs", "resolve", "resolve/netguard", "resolve/verify",
		},
	},
	{
		pkg: "internal/cli/check", why: "the commands that judge CRDs; what a difference means is for the packages below",
		may: []string{
			"compat", "conversion", "internal/brief", "internal/cli/command", "internal/cli/resolve", "internal/cluster", "internal/config", "internal/crdcheck", "internal/input", "internal/life",
			"internal/limit", "internal/preflight", "report",
		},
	},
	{
		pkg: "internal/cli/apply", why: "the commands about apps, and their sources; planning and writing is for apply",
		may: []string{
			"api/resolution", "api/resolution/v1beta1", "api/v1alpha1", "apply", "internal/brief", "internal/cli/command", "internal/cli/resolve", "internal/config",
			"internal/input", "internal/preflight", "internal/resolvers", "internal/sourceurl", "report", "resolve",
		},
	},
	{
		pkg: "internal/cli/migrate", why: "the commands that change stored objects for the sake of a CRD; how is for internal/migrate",
		may: []string{"internal/brief", "internal/cli/command", "internal/input", "internal/migrate", "report"},
	},
	{
		pkg: "internal/cli/install", why: "the commands about Sluice in a cluster; what it has there, internal/installation says",
		may: []string{"config", "internal/brief", "internal/cli/command", "internal/installation", "report", "requester/contentstore"},
	},
	{
		pkg: "internal/ui", why: "shows in a browser what the commands know; it decides nothing",
		may: []string{
			"api/resolution/v1beta1", "api/v1alpha1", "compat", "internal/brief", "internal/cli/check", "internal/cli/command", "internal/cli/features", "internal/cli/resolve",
			"internal/controller/guard", "internal/crdcheck", "internal/input", "internal/preflight", "report",
		},
	},
	{
		pkg: "internal/cli", why: "puts the commands together, and runs the roles of serve; only programs import it",
		may: []string{
			"api/resolution/v1beta1", "api/v1alpha1", "apply", "client", "compat", "internal/brief", "internal/admission", "internal/cli/apply", "internal/cli/check", "internal/cli/command",
			"internal/cli/features", "internal/cli/install", "internal/cli/migrate", "internal/cli/resolve", "internal/cluster", "internal/config", "internal/controller/delivery",
			"internal/controller/features", "internal/controller/guard", "internal/controller/resolution", "internal/gcpercent", "internal/inflection", "internal/life", "internal/migrate", "internal/preflight", "internal/process",
			"internal/resolvers", "internal/servingcert", "internal/ui", "report", "requester", "requester/contentstore", "resolve", "resolve/controller", "resolve/netguard", "resolve/verify",
		},
	},
	{pkg: "cmd/sluice", why: "calls the commands and exits", may: []string{"internal/cli"}},

	{pkg: "tools/clustertest/binary", why: "builds the local cluster with nothing but the go command"},
	{pkg: "tools/clustertest/build", why: "builds the local cluster ahead of the tests", may: []string{"tools/clustertest/binary"}},
	{pkg: "tools/clustertest", why: "starts the local cluster for a test, whatever it tests", may: []string{"tools/clustertest/binary"}},
	{pkg: "tools/clustertest/nodeless", why: "runs Deployments beside a local cluster", may: []string{"internal/limit", "tools/clustertest"}},
	{
		pkg: "internal/e2e", why: "tests resolution as its users run it: processes, each with its rights, and a real API server",
		may: []string{"api/resolution/v1alpha1", "internal/cli", "internal/controller/resolution", "internal/resolvers", "requester", "resolve"},
	},
	{
		pkg: "internal/e2e/features", why: "tests features as their users meet them: processes, each with its rights, and a real API server",
		may: []string{"feature/policy", "feature/process", "internal/cli", "internal/controller/features", "internal/installation"},
	},
	{
		pkg: "internal/e2e/enforcement", why: "policies and the webhook on a real API server, against the evaluator; no process and no controller",
		may: []string{"feature", "feature/policy", "internal/admission", "internal/controller/features"},
	},
	{pkg: "tools/release", why: "packs what ships", may: []string{"config", "internal/cli"}},
	{
		pkg: "tools/bench", why: "measures the command as a whole, and the comparison",
		may: []string{
			"api/resolution", "api/resolution/v1beta1", "api/v1alpha1", "client", "compat", "internal/gcpercent", "tools/clustertest",
			"tools/clustertest/binary", "tools/clustertest/nodeless", "internal/controller/features", "internal/controller/guard", "internal/input", "tools/*", "report",
		},
	},
}

// row says what one package may import. Paths are relative to the module.
type row struct {
	// pkg is the package. DIR/* stands for each package directly below DIR that has no row of its own; they do not import one another.
	pkg string
	why string   // what the package is for, which is why the list is as short as it is
	may []string // the packages of this module that it may import, besides helpers in its tests
	// pure packages take values and return values. The rule is about what they import themselves: the API server's
	// libraries bring client-go and cobra along, which nobody calls.
	pure bool
	// tree rows stand for all packages below as well, which may import one another in any order.
	tree bool
}

// holds reports whether the row is that of a package.
func (r row) holds(pkg string) bool {
	dir, each := strings.CutSuffix(r.pkg, "/*")
	return r.pkg == pkg || r.tree && under(pkg, r.pkg) || each && path.Dir(pkg) == dir
}

// rowOf returns the place in the table of a package's row, -1 if there is none.
func rowOf(pkg string) int {
	if i := slices.IndexFunc(table, func(r row) bool { return r.pkg == pkg }); i >= 0 {
		return i
	}
	return slices.IndexFunc(table, func(r row) bool { return r.holds(pkg) })
}

// allows reports whether the row lets its packages import one of the module's packages.
func (r row) allows(pkg string) bool {
	if r.tree && r.holds(pkg) {
		return true
	}
	i := rowOf(pkg)
	return i >= 0 && slices.Contains(r.may, table[i].pkg)
}

// isPure reports whether an import is a package of this module that is pure itself, wherever it stands.
func isPure(imp string) bool {
	return slices.ContainsFunc(table, func(r row) bool { return r.pure && module+"/"+r.pkg == imp })
}

// helpers may be imported by the tests of any package.
var helpers = []string{
	"api/resolution", "api/resolution/v1beta1", "api/v1alpha1", "client", "config", "conversion", "feature/featuretest", "feature/gate", "feature/rules",
	"resolve/resolvetest", "resolve/verify", "schema/upstream", "internal/preflight",
	"tools/*", "tools/clustertest", "tools/clustertest/binary", "tools/clustertest/nodeless", "tools/featuregen",
}

// impure are packages, with all below them, that a pure package does not import outside its tests.
var impure = []string{
	"flag", "github.com/spf13/cobra", "github.com/spf13/pflag", "k8s.io/client-go", "log", "net/http", "os",
	"sigs.k8s.io/controller-runtime", module + "/internal", module + "/tools",
}

func TestImportsAreAsTheTableSays(t *testing.T) {
	known := map[string]bool{}
	for _, r := range table {
		for _, p := range r.may {
			if !known[p] {
				t.Errorf("the row of %s allows %s, which has no earlier row: imports go one way only", r.pkg, p)
			}
		}
		if known[r.pkg] {
			t.Errorf("%s has two rows", r.pkg)
		}
		known[r.pkg] = true
	}

	found := map[string]bool{}
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		i := rowOf(path)
		if i < 0 {
			t.Errorf("%s has no row: add one to table in tools/arrows/arrows_test.go, after the packages that it imports", path)
			continue
		}
		r := table[i]
		found[r.pkg] = true
		for _, imp := range p.Imports {
			if own, ok := strings.CutPrefix(imp, module+"/"); ok && !r.allows(own) {
				t.Errorf("%s imports %s, which its row does not allow (%s)", path, own, r.why)
			}
			if under(imp, module+"/tools") && !under(path, "tools") {
				t.Errorf("%s ships, and imports %s, which does not", path, imp)
			}
			if r.pure && !isPure(imp) && slices.ContainsFunc(impure, func(dir string) bool { return under(imp, dir) }) {
				t.Errorf("%s imports %s, but is to be pure: no cluster, network, file, environment or flag (%s)", path, imp, r.why)
			}
		}
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			own, ok := strings.CutPrefix(imp, module+"/")
			if ok && own != path && !r.allows(own) && !(row{may: helpers}).allows(own) {
				t.Errorf("a test of %s imports %s, which neither its row nor the list of helpers allows (%s)", path, own, r.why)
			}
		}
	}
	for _, r := range table {
		if !found[r.pkg] {
			t.Errorf("%s has a row, but is no package of the module: remove the row", r.pkg)
		}
	}
}

// TestOperatorsDoWithoutCEL: what a program links that only uses features has no part of CEL in it.
func TestOperatorsDoWithoutCEL(t *testing.T) {
	out := command(t, "../..", "list", "-deps", "./feature/gate", "./feature/process", "./feature/typed", "./feature/featuretest", "./feature/matrix", "./feature/skew", "./examples/operator", "./examples/kubebuilder/cmd")
	for dep := range strings.FieldsSeq(string(out)) {
		if under(dep, "github.com/google/cel-go") || under(dep, "cel.dev/expr") {
			t.Errorf("%s is linked into every operator", dep)
		}
	}
}

// TestDefinitionsAreReadWithTheirRules: whoever judges definitions for others looks at validation rules too; only gates of a process
// do without.
func TestDefinitionsAreReadWithTheirRules(t *testing.T) {
	root := strings.TrimSpace(string(command(t, ".", "list", "-m", "-f", "{{.Dir}}")))
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == ".cache"):
			return filepath.SkipDir
		}
		where, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || slices.Contains([]string{"feature", "feature/rules", "feature/gate"}, filepath.ToSlash(where)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("feature.Define"+"(")) {
			t.Errorf("%s: use rules.Define", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// listed is what go list says of a package.
type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// packages returns every package of the module, the files of end-to-end tests included.
func packages(t *testing.T) []listed {
	t.Helper()
	root := strings.TrimSpace(string(command(t, ".", "list", "-m", "-f", "{{.Dir}}")))
	touch(t, root)
	dec := json.NewDecoder(bytes.NewReader(command(t, root, "list", "-tags", "e2e",
		"-json=ImportPath,Imports,TestImports,XTestImports", "./...")))
	var out []listed
	for {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatal(err)
		}
		out = append(out, p)
	}
}

// touch reads the module's directories, because go test repeats an earlier result unless something changed in what
// this process itself has read, and the source is read by go list.
func touch(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

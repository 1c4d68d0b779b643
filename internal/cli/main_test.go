package cli

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/conversion"
	"sluice.dev/tools/convertfaults"
)

const upgrade = "../../examples/upgrade/"

// tests runs the tests of the package, and the program itself where a script calls it.
type tests struct{ m *testing.M }

// Run implements [testscript.TestingM]. The tests run as outside of a CI job; those of CI jobs set the environment of their commands.
func (t tests) Run() int {
	for _, name := range []string{"CI", "GITHUB_ACTIONS", "GITLAB_CI", "BITBUCKET_BUILD_NUMBER", "JENKINS_URL"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	// A role that a test serves in this process would limit its memory to that of a Deployment: all tests after it would collect garbage all
	// the time.
	if err := os.Setenv("GOMEMLIMIT", "off"); err != nil {
		panic(err)
	}
	return runTests(t.m)
}

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"sluice": sluiceMain, "widgets": widgetsMain})
}

// widgetsMain is a program that converts widgets, with the fault that its arguments name. With once it ends after an answer.
func widgetsMain() {
	fault := ""
	for _, a := range os.Args[1:] {
		if a != "once" {
			fault += " " + a
		}
	}
	f := conversion.Func(convertfaults.Widgets(fault[min(1, len(fault)):], nil))
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		review := &apiextensionsv1.ConversionReview{}
		if in.Decode(review) != nil {
			return
		}
		answer, err := f.Review(nil, review) //nolint:staticcheck // a function does not look at it
		if err != nil || out.Encode(answer) != nil || os.Args[len(os.Args)-1] == "once" {
			return
		}
	}
}

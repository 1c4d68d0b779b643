package cli

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

const upgrade = "../../examples/upgrade/"

// tests runs the tests of the package, and the program itself where a script calls it.
type tests struct{ m *testing.M }

// Run implements [testscript.TestingM].
func (t tests) Run() int { return runTests(t.m) }

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"sluice": sluiceMain})
}

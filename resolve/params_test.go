package resolve_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/resolve"
)

func TestParametersTellAllErrorsAtOnce(t *testing.T) {
	given := []resolve.Given{
		str("pth", "x"), str("path", "x"), str("pathInRepo", "y"), str("kind", "cluster\ntask"),
		{Name: "list", Value: resolve.Value{Type: resolve.Object}},
		str("cache", "sometimes"), str(strings.Repeat("n", 5000), "%s"),
	}
	_, _, err := spec().Parse(given, resolve.Config{"default-kind": "task"})
	want := []string{
		`unknown parameter "pth" (did you mean "path"?)`,
		`parameters path and pathInRepo are the same, only one may be given`,
		`parameter kind: "cluster task" is not allowed; allowed are task, pipeline`,
		`parameter list is an object, want an array`,
		`parameter cache: "sometimes" is not allowed; allowed are always, never, auto`,
		`unknown parameter "` + strings.Repeat("n", 77) + `..."`,
	}
	if diff := cmp.Diff(want, resolve.Problems(err)); diff != "" {
		t.Error(diff)
	}
	_, _, err = spec().Parse([]resolve.Given{{Name: "path", Value: resolve.Value{Type: resolve.Array, Array: []string{"x"}}}}, nil)
	if diff := cmp.Diff([]string{"parameter path is an array, want a string"}, resolve.Problems(err)); diff != "" {
		t.Error(diff)
	}
	_, _, err = spec().Parse([]resolve.Given{str("path", "")}, resolve.Config{"default-kind": "bad"})
	if diff := cmp.Diff([]string{"parameter path is missing", `configuration key default-kind: "bad" is not allowed; allowed are task, pipeline`}, resolve.Problems(err)); diff != "" {
		t.Error(diff)
	}
}

func TestConfiguration(t *testing.T) {
	s := spec()
	_, err := s.ParseConfig(map[string]string{
		"fetch-timeut": "1m", "fetch-timeout": "soon", "backoff-factor": "NaN", "backoff-steps": "0", "default-cache-mode": "x",
		"_example": "anything", "named.default-kind": "task",
	})
	if got := resolve.Problems(err); len(got) != 6 || !strings.Contains(got[4], `unknown key "fetch-timeut" (did you mean "fetch-timeout"?)`) {
		t.Errorf("got %q", got)
	}
	s.NamedConfigs = true
	c, err := s.ParseConfig(map[string]string{"named.default-kind": "pipeline", "_example": "x"})
	if err != nil || c["named.default-kind"] != "pipeline" || c["fetch-timeout"] != "1m" || c["default-kind"] != "task" {
		t.Errorf("got %v %v", c, err)
	}
	if _, err := s.ParseConfig(map[string]string{"named.default-knd": "x"}); err == nil {
		t.Error("a named configuration may have unknown keys")
	}
}

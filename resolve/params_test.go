package resolve_test

import (
	"context"
	"errors"
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
		`parameter kind: "cluster\ntask" is not allowed; allowed are task, pipeline`,
		`parameter list is an object, want an array`,
		`parameter cache: "sometimes" is not allowed; allowed are always, never, auto`,
		`the resolver fake has no parameter "` + strings.Repeat("n", 77) + `…"; it is ignored`,
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

func TestParametersThatNobodyKnowsCountForNothing(t *testing.T) {
	sp := spec()
	runner := runner(t, sp, resolve.Options{}, func(context.Context, *resolve.Request) (*resolve.Resource, error) { return resource("x"), nil })
	given := []resolve.Given{str("path", "x"), str("team", "blue"), str(strings.Repeat("n", 5000), "%s\n")}
	res, err := runner.Resolve(t.Context(), &resolve.Query{Resolver: sp.Name, Params: given})
	if err != nil {
		t.Fatal(err)
	}
	want := `the resolver fake has no parameter "team"; it is ignored; the resolver fake has no parameter "` + strings.Repeat("n", 77) + `…"; it is ignored`
	if got := res.Annotations[resolve.AnnotationWarning]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for range 300 {
		given = append(given, str("x", "y"))
	}
	if _, err := runner.Resolve(t.Context(), &resolve.Query{Resolver: sp.Name, Params: given}); err == nil {
		t.Error("any number of parameters is taken")
	}
	given = given[:1]
	for i := range 200 {
		given = append(given, str("unknown-parameter-"+strings.Repeat("z", i), "y"))
	}
	res, err = runner.Resolve(t.Context(), &resolve.Query{Resolver: sp.Name, Params: given})
	if err != nil || !strings.HasSuffix(res.Annotations[resolve.AnnotationWarning], "and 190 more") {
		t.Errorf("got %v %v", res, err)
	}
	res, err = runner.Resolve(t.Context(), &resolve.Query{Resolver: sp.Name, Params: given[:1]})
	if err != nil || res.Annotations[resolve.AnnotationWarning] != "" {
		t.Errorf("the warning of another request: %v %v", res, err)
	}
}

// Whatever is wrong in a ConfigMap, what is right in it holds.
func TestConfigurationIsReadKeyByKey(t *testing.T) {
	s := spec()
	s.Config = append(s.Config,
		resolve.Key{Name: "policy", Check: resolve.OneOf("tight"), Wrong: resolve.Closes, Doc: "d"},
		resolve.Key{Name: "wide", Default: "false", Check: resolve.CheckBool, Doc: "d"},
	)
	good := map[string]string{"fetch-timeout": "5s", "policy": "tight", "default-kind": "pipeline"}
	for name, test := range map[string]struct {
		data, before map[string]string
		want         map[string]string
		closed       []string
		wrong        []string
	}{
		"nothing":       {want: map[string]string{"fetch-timeout": "1m", "default-kind": "task", "wide": "false"}},
		"documentation": {data: map[string]string{"_example": "anything"}},
		"all right":     {data: map[string]string{"backoff-factor": "0.5", "backoff-jitter": "3", "backoff-cap": "0s", "wide": "True"}, want: map[string]string{"backoff-factor": "0.5", "wide": "true"}},
		"wrong from the start": {
			data:  map[string]string{"fetch-timeout": "soon", "backoff-factor": "NaN", "backoff-steps": "0", "default-cache-mode": "x", "default-kind": "pipeline"},
			want:  map[string]string{"fetch-timeout": "1m", "backoff-factor": "2.0", "backoff-steps": "2", "default-cache-mode": "auto", "default-kind": "pipeline"},
			wrong: []string{"backoff-factor", "backoff-steps", "default-cache-mode", "fetch-timeout"},
		},
		"wrong later":              {data: map[string]string{"fetch-timeout": "soon"}, before: good, want: map[string]string{"fetch-timeout": "5s", "default-kind": "task", "policy": ""}, wrong: []string{"the last good value holds"}},
		"what it allows is wrong":  {data: map[string]string{"policy": "x"}, closed: []string{"policy"}, wrong: []string{"nothing is resolved"}},
		"... but was right before": {data: map[string]string{"policy": "x"}, before: good, want: map[string]string{"policy": "tight"}, wrong: []string{"the last good value holds"}},
		"... is mistyped":          {data: map[string]string{"polcy": "tight"}, closed: []string{"policy"}, wrong: []string{`did you mean "policy"`}},
		"... stands there twice":   {data: map[string]string{"polcy": "x", "policy": "tight"}, want: map[string]string{"policy": "tight"}, wrong: []string{"ignored"}},
		"unknown":                  {data: map[string]string{"fetch-timeut": "1m", "of-tomorrow": "x"}, want: map[string]string{"fetch-timeout": "1m", "of-tomorrow": ""}, wrong: []string{`did you mean "fetch-timeout"`, `"of-tomorrow"; it is ignored`}},
		"not named":                {data: map[string]string{"named.default-kind": "task"}, wrong: []string{"named.default-kind"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.ReadConfig(test.data, test.before)
			for k, v := range test.want {
				if got.Config[k] != v {
					t.Errorf("%s is %q, want %q", k, got.Config[k], v)
				}
			}
			if diff := cmp.Diff(test.closed, got.Closed); diff != "" {
				t.Error(diff)
			}
			told := resolve.Problems(got.Err())
			if len(told) != len(test.wrong) {
				t.Fatalf("told %q, want %q", told, test.wrong)
			}
			for i, w := range test.wrong {
				if !strings.Contains(told[i], w) {
					t.Errorf("told %q, want %q", told[i], w)
				}
			}
		})
	}
	s.NamedConfigs = true
	got := s.ReadConfig(map[string]string{"named.default-kind": "pipeline", "named.fetch-timeout": "x", "named.policy": "x", "named.default-knd": "x", "a.b.policy": "x"}, nil)
	if c := got.Config; c["named.default-kind"] != "pipeline" || c["fetch-timeout"] != "1m" || c["default-kind"] != "task" || c["named.fetch-timeout"] != "" {
		t.Errorf("got %v", c)
	}
	if diff := cmp.Diff([]string{"a.policy", "named.policy"}, got.Closed); diff != "" {
		t.Error(diff)
	}
	if told := resolve.Problems(got.Err()); len(told) != 4 {
		t.Errorf("told %q", told)
	}
}

func TestNothingIsResolvedWhileWhatIsAllowedIsUnknown(t *testing.T) {
	sp := spec()
	sp.Config = append(sp.Config, resolve.Key{Name: "policy", Check: resolve.OneOf("tight"), Wrong: resolve.Closes, Doc: "d"})
	runner := runner(t, sp, resolve.Options{}, func(context.Context, *resolve.Request) (*resolve.Resource, error) { return resource("x"), nil })
	query := &resolve.Query{Resolver: sp.Name, Params: []resolve.Given{str("path", "x")}}
	for _, step := range []struct {
		data   map[string]string
		closed bool
	}{
		{map[string]string{"policy": "x"}, true},
		{map[string]string{"policy": "tight"}, false},
		{map[string]string{"policy": "x"}, false},
		{nil, false},
		{map[string]string{"policy": "x"}, true},
	} {
		_ = runner.Configure(sp.Name, step.data)
		_, err := runner.Resolve(t.Context(), query)
		e, _ := errors.AsType[*resolve.Error](err)
		if closed := e != nil && e.Reason == resolve.ReasonForbidden && strings.Contains(e.Msg, sp.ConfigMap); closed != step.closed || !closed && err != nil {
			t.Errorf("%v: %v", step.data, err)
		}
	}
}

// A specification may leave parameters and keys to the resolver. They arrive as they were given; a misspelt key that closes still closes.
func TestUndeclaredParametersAndKeysArrive(t *testing.T) {
	s := resolve.Spec{Name: "x", Doc: "d", ConfigMap: "c", Undeclared: true, Params: []resolve.Param{{Name: "text", Doc: "d"}}}
	list := resolve.Value{Type: resolve.Array, Array: []string{"a"}}
	got, _, err := s.Parse([]resolve.Given{{Name: "texts", Value: list}, {Name: "empty", Value: resolve.Value{Type: resolve.String}}, {Name: "text", Value: resolve.Value{Type: resolve.String, String: "t"}}}, nil)
	if err != nil || len(got) != 3 || got["texts"].Type != resolve.Array {
		t.Errorf("%v, %v", got, err)
	}
	if _, _, err := s.Parse([]resolve.Given{{Name: "b", Value: list}, {Name: "b", Value: list}}, nil); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Errorf("twice: %v", err)
	}
	read := s.ReadConfig(map[string]string{"own-key": "v", "content-kind": "Task"}, nil)
	if read.Config["own-key"] != "v" || len(read.Closed) != 1 || read.Err() == nil {
		t.Errorf("%+v", read)
	}
	schema, err := s.Schema()
	if err != nil || !strings.Contains(string(schema), `"additionalProperties": true`) {
		t.Errorf("%v: %s", err, schema)
	}
}

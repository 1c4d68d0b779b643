package resolve

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/internal/controller/resolution"
	"sluice.dev/internal/resolvers"
	"sluice.dev/resolve"
	"sluice.dev/resolve/verify"
	"sluice.dev/tools/verifytest"
)

// newTestResolving makes the resolvers of this build that need no cluster, with a directory that has one file.
func newTestResolving(t *testing.T) *resolution.Resolvers {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "task.yaml"), []byte("kind: Task\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var entries []resolvers.Entry
	for _, e := range resolvers.Table() {
		if e.Local {
			entries = append(entries, e)
		}
	}
	lent := resolvers.Env{Clock: resolve.SystemClock(), Cache: t.TempDir(), Roots: map[string]string{"default": root}}
	r, err := resolution.NewResolvers(t.Context(), MakeOf(entries, lent), FlagsOf(entries), resolve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func readFile(ctx context.Context, r *resolution.Resolvers) (*resolve.Resource, error) {
	return resolveWith(ctx, r, "dir", &resolve.Request{
		Namespace: "ns", Params: map[string]resolve.Value{"path": {Type: resolve.String, String: "task.yaml"}},
	})
}

// resolveWith gives the memory of the content back at once.
func resolveWith(ctx context.Context, r *resolution.Resolvers, name string, req *resolve.Request) (*resolve.Resource, error) {
	res, held, err := r.Adapters()[name].Hold(ctx, req)
	held.Release()
	return res, err
}

// isOff tells whether a resolver is switched off.
func isOff(t *testing.T, r *resolution.Resolvers, name string) bool {
	t.Helper()
	_, err := resolveWith(t.Context(), r, name, &resolve.Request{})
	e, ok := errors.AsType[*resolve.Error](err)
	return ok && e.Reason == resolve.ReasonForbidden && strings.Contains(e.Msg, resolution.FlagsConfigMap)
}

func TestEveryResolverHasASoundSpecification(t *testing.T) {
	// Making them has judged the specifications; what is left is that the table tells the truth.
	r := newTestResolving(t)
	for _, e := range resolvers.Table() {
		if !e.Local {
			continue
		}
		config := r.Runner.Config(e.Name)
		if config == nil {
			t.Errorf("%s goes by another name", e.Name)
		}
		if _, ok := r.ConfigMaps(t.Context(), nil)[e.ConfigMap]; e.ConfigMap != "" && !ok {
			t.Errorf("the configuration of %s is not read", e.Name)
		}
	}
}

func TestResolversAreSwitchedOff(t *testing.T) {
	r := newTestResolving(t)
	configure := r.ConfigMaps(t.Context(), nil)[resolution.FlagsConfigMap]
	if err := configure(map[string]string{"enable-git-resolver": "maybe", "enable-http-resolver": "false"}); err == nil || !strings.Contains(err.Error(), "enable-git-resolver") {
		t.Errorf("error %v", err)
	}
	if !isOff(t, r, "http") || !isOff(t, r, "git") || isOff(t, r, "hub") {
		t.Error("what is right does not hold, or a mistake leaves a resolver on")
	}
	if err := configure(map[string]string{"enable-git-resolver": "true"}); err != nil {
		t.Fatal(err)
	}
	if err := configure(map[string]string{"enable-git-resolver": "maybe"}); err == nil || isOff(t, r, "git") {
		t.Errorf("the last good value does not hold: %v", err)
	}
	if err := configure(map[string]string{"enable-git-resolver": "False", "enable-http-resolver": "mybe"}); err == nil || !isOff(t, r, "git") || !isOff(t, r, "http") {
		t.Errorf("False does not switch off, or a mistake switches on: %v", err)
	}
	if err := configure(map[string]string{"enable-git-resolver": "false", "other": "x"}); err != nil {
		t.Fatal(err)
	}
	if !isOff(t, r, "git") {
		t.Error("it is on")
	}
	if err := configure(nil); err != nil || isOff(t, r, "git") {
		t.Errorf("it stays off: %v", err)
	}
}

// A mistake is no outage. Only what says what is allowed has nothing that stands in for it.
func TestAResolverThatHasNotReadWhatIsAllowedDoesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		configMap string
		bad, good map[string]string
		stops     []string
	}{
		"its own":        {"http-resolver-config", map[string]string{"secrets-need-hosts": "yse"}, nil, []string{"http"}},
		"what is secret": {"http-resolver-config", map[string]string{"secret-need-hosts": "true"}, map[string]string{"secrets-need-hosts": "True"}, []string{"http"}},
		"others":         {"http-resolver-config", map[string]string{"fetch-timeout": "soon", "backoff-steps": "-1", "later": "x"}, nil, nil},
		"flags":          {resolution.FlagsConfigMap, map[string]string{"enable-http-resolver": "fales"}, map[string]string{"enable-http-resolver": "true"}, []string{"http"}},
		"verification":   {resolution.VerificationConfigMap, map[string]string{"no-match": "fial"}, map[string]string{"no-match": "warn"}, []string{"dir", "http"}},
		"the cache":      {resolve.CacheConfigMap, map[string]string{"ttl": "x"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestResolving(t)
			configure := r.ConfigMaps(t.Context(), nil)[test.configMap]
			stopped := func() (out []string) {
				for _, name := range []string{"dir", "http"} {
					// Without parameters each is refused for want of them, if it comes to that.
					_, err := resolveWith(t.Context(), r, name, &resolve.Request{})
					var e *resolve.Error
					if errors.As(err, &e) && e.Reason == resolve.ReasonForbidden && strings.Contains(e.Msg, test.configMap) {
						out = append(out, name)
					} else if e == nil || e.Reason != resolve.ReasonInvalid {
						t.Errorf("%s: %v", name, err)
					}
				}
				return out
			}
			if configure(test.bad) == nil {
				t.Error("it is taken")
			}
			if diff := cmp.Diff(test.stops, stopped()); diff != "" {
				t.Errorf("with mistakes: %s", diff)
			}
			if err := configure(test.good); err != nil {
				t.Fatal(err)
			}
			if got := stopped(); got != nil {
				t.Errorf("repaired: %v", got)
			}
			if configure(test.bad) == nil {
				t.Error("it is taken")
			}
			if got := stopped(); got != nil && test.good != nil {
				t.Errorf("with the last good one: %v", got)
			}
		})
	}
}

func TestVerificationIsAppliedToEveryResolver(t *testing.T) {
	r := newTestResolving(t)
	if _, err := readFile(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	configure := r.ConfigMaps(t.Context(), nil)[resolution.VerificationConfigMap]
	for _, bad := range []map[string]string{{"polices": ""}, {"policies": "kind: Task"}, {"no-match": "sometimes"}} {
		if configure(bad) == nil || r.Policies() != nil {
			t.Errorf("%v is taken", bad)
		}
	}
	for mode, want := range map[verify.NoMatch]resolve.Reason{verify.NoMatchFail: resolve.ReasonVerification, verify.NoMatchWarn: "", verify.NoMatchIgnore: ""} {
		if err := configure(map[string]string{"no-match": string(mode)}); err != nil {
			t.Fatal(err)
		}
		res, err := readFile(t.Context(), r)
		var e *resolve.Error
		if errors.As(err, &e); (e == nil) != (want == "") || e != nil && e.Reason != want {
			t.Errorf("%s: %v", mode, err)
		}
		if res != nil && (res.Annotations[resolution.AnnotationUnverified] != "") != (mode == verify.NoMatchWarn) {
			t.Errorf("%s: annotations %v", mode, res.Annotations)
		}
	}
	if err := configure(nil); err != nil || r.Policies() != nil {
		t.Errorf("the policies stay: %v", err)
	}
	for _, bad := range []map[string]string{{"policies": "# none yet"}, {"policies": "kind: Task"}, {"no-match": "Fail"}} {
		if configure(bad) == nil {
			t.Errorf("%v is taken", bad)
		}
		if _, err := readFile(t.Context(), r); resolveReason(err) != resolve.ReasonForbidden {
			t.Errorf("%v is all that there is, and yet: %v", bad, err)
		}
	}
}

func TestDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"a", "c=d"} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		given []string
		want  map[string]string
	}{
		"none":    {nil, map[string]string{}},
		"one":     {[]string{"a"}, map[string]string{"default": "a"}},
		"named":   {[]string{"a", "b=c=d"}, map[string]string{"default": "a", "b": "c=d"}},
		"twice":   {[]string{"a", "default=c=d"}, nil},
		"no name": {[]string{"=a"}, nil},
		"no path": {[]string{"a="}, nil},
		"missing": {[]string{"b=missing"}, nil},
		"file":    {[]string{"b=file"}, nil},
	} {
		got, err := Roots(test.given)
		if diff := cmp.Diff(test.want, got); err == nil && diff != "" || (err == nil) != (test.want != nil) {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

// Certificates are verified from the root that the ConfigMap gives. Without one the policies are a mistake, and those before stay.
func TestTheTrustedRootOfTheConfigMap(t *testing.T) {
	r := newTestResolving(t)
	set := r.ConfigMaps(t.Context(), nil)[resolution.VerificationConfigMap]
	const keyless = `
apiVersion: tekton.dev/v1alpha1
kind: VerificationPolicy
metadata: {name: p}
spec:
  form: cosign
  resources: [{pattern: '.*'}]
  authorities: [{name: ci, keyless: {identities: [{issuer: https://i.example, subject: s}]}}]
`
	root := verifytest.New(t).TrustedRoot(t, verifytest.Parts{})
	if err := set(map[string]string{"policies": keyless}); err == nil || !strings.Contains(err.Error(), "trusted-root") {
		t.Errorf("without a root: %v", err)
	}
	if _, err := readFile(t.Context(), r); resolveReason(err) != resolve.ReasonForbidden {
		t.Errorf("without a root the policies are not in force, and yet: %v", err)
	}
	if err := set(map[string]string{"policies": keyless, "trusted-root": root}); err != nil {
		t.Fatal(err)
	}
	before := r.Policies()
	if len(before.Cosign("x").IDs()) != 1 {
		t.Error("the identity is not in the policies")
	}
	if _, err := readFile(t.Context(), r); resolveReason(err) != resolve.ReasonVerification {
		t.Errorf("a file without a signature: %v", err)
	}
	for _, bad := range []string{"", "{}", root[:len(root)/2]} {
		if err := set(map[string]string{"policies": keyless, "trusted-root": bad}); err == nil || r.Policies() != before {
			t.Errorf("a root of %d bytes: %v", len(bad), err)
		}
	}
	other := verifytest.New(t).TrustedRoot(t, verifytest.Parts{})
	if err := set(map[string]string{"policies": keyless, "trusted-root": other}); err != nil || r.Policies().Digest() == before.Digest() {
		t.Errorf("what was verified from another root is taken from the cache: %v", err)
	}
}

func resolveReason(err error) resolve.Reason {
	if e, ok := errors.AsType[*resolve.Error](err); ok {
		return e.Reason
	}
	return ""
}

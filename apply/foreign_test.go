package apply

import (
	"os"
	"strings"
	"testing"
)

func TestAnnotationsOfOthersThatAreNotUnderstoodAreToldAndKeepWhatTheyMayKeep(t *testing.T) {
	for key, want := range map[string]struct {
		value   string
		treated treatment
		unknown bool
	}{
		"helm.sh/resource-policy":                 {" Keep ", treatment{kept: true}, false},
		"kapp.k14s.io/delete-strategy":            {"orphaned", treatment{kept: true}, true},
		"kapp.k14s.io/deletion":                   {"", treatment{kept: true}, true},
		"kapp.k14s.io/versioned":                  {"", treatment{}, false},
		"kapp.k14s.io/versioned-keep-original":    {"", treatment{}, false},
		"kapp.k14s.io/num-versions":               {"3", treatment{}, false},
		"kapp.k14s.io/disable-wait":               {"", treatment{}, false},
		"kapp.k14s.io/change-group":               {"app/db", treatment{}, false},
		"kapp.k14s.io/change-rule.delete-last":    {"delete after deleting app/db", treatment{}, false},
		"kapp.k14s.io/change-groups":              {"app/db", treatment{}, true},
		"kapp.k14s.io/identity":                   {"v1;/Pod", treatment{}, false},
		"argocd.argoproj.io/sync-options":         {"Validate=false, Delete=false", treatment{kept: true}, true},
		"argocd.argoproj.io/hook":                 {"PreSync", treatment{}, true},
		"kustomize.toolkit.fluxcd.io/prune":       {"Disabled", treatment{kept: true}, false},
		"kustomize.toolkit.fluxcd.io/ssa":         {"Merge", treatment{}, false},
		"cli-utils.sigs.k8s.io/on-remove":         {"leave", treatment{kept: true}, true},
		"client.lifecycle.config.k8s.io/deletion": {"detach", treatment{kept: true}, false},
		"example.com/prune":                       {"never", treatment{}, false},
	} {
		m := marksOf(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: want.value}}})
		if m.treatment != want.treated || (len(m.unknown) > 0) != want.unknown {
			t.Errorf("%s: %q: %+v", key, want.value, m)
		}
	}
}

func TestTheDocsHaveEachAnnotationOfOthers(t *testing.T) {
	text, err := os.ReadFile("../docs/apply.md")
	if err != nil {
		t.Fatal(err)
	}
	for key := range foreign {
		if !strings.Contains(string(text), "`"+key) {
			t.Errorf("docs/apply.md does not say what %s does", key)
		}
	}
}

package config_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice.dev/apply/kapprules"
	"sluice.dev/internal/config"
)

// What Sluice does with a key: it does what the key says, says that it does not, or refuses the file.
const (
	kept    = "kept"
	noted   = "noted"
	refused = "refused"
)

// kappKeyTable has every key of kapp's Config, as its documentation lists them (carvel.dev/kapp/docs/v0.64.x/config, and preflight checks),
// with an example.
var kappKeyTable = []struct{ key, fate, text string }{
	{"minimumRequiredVersion", noted, "minimumRequiredVersion: 0.23.0"},
	{"ownershipLabelRules", noted, "ownershipLabelRules: [{path: [metadata, labels], resourceMatchers: [{allMatcher: {}}]}]"},
	{"labelScopingRules", noted, "labelScopingRules: [{path: [spec, selector], isDefault: true, resourceMatchers: [{allMatcher: {}}]}]"},
	{"templateRules", noted, "templateRules: [{resourceMatchers: [], affectedResources: {objectReferences: [{path: [spec], nameKey: x, resourceMatchers: []}]}}]"},
	{"additionalLabels", noted, "additionalLabels: {department: marketing}"},
	{"diffMaskRules", noted, "diffMaskRules: [{path: [data], resourceMatchers: [{allMatcher: {}}]}]"},
	{"diffAgainstLastAppliedFieldExclusionRules", noted, "diffAgainstLastAppliedFieldExclusionRules: [{path: [status], resourceMatchers: []}]"},
	{"diffAgainstExistingFieldExclusionRules", noted, "diffAgainstExistingFieldExclusionRules: [{path: [status], resourceMatchers: []}]"},

	{"rebaseRules.path", kept, "rebaseRules: [{path: [spec, clusterIP], type: copy, sources: [new, existing], resourceMatchers: [{allMatcher: {}}]}]"},
	{"rebaseRules.paths", kept, "rebaseRules: [{paths: [[spec, a], [spec, {allIndexes: true}], [spec, {index: 1}]], type: remove}]"},
	{"rebaseRules.path.regex", refused, "rebaseRules: [{path: [metadata, annotations, {regex: ^x}], type: remove}]"},
	{"rebaseRules.type", kept, "rebaseRules: [{path: [spec], type: remove}]"},
	{"rebaseRules.sources", kept, "rebaseRules: [{path: [spec], type: copy, sources: [existing]}]"},
	{"rebaseRules.ytt", noted, "rebaseRules: [{ytt: {overlayContractV1: {overlay.yml: x}}, resourceMatchers: []}]"},
	{"rebaseRules.resourceMatchers", kept, "rebaseRules: [{path: [spec], type: remove, resourceMatchers: [{allMatcher: {}}]}]"},

	{"waitRules.supportsObservedGeneration", kept, "waitRules: [{supportsObservedGeneration: true, resourceMatchers: []}]"},
	{"waitRules.conditionMatchers", kept, "waitRules: [{conditionMatchers: []}]"},
	{"waitRules.conditionMatchers.type", kept, `waitRules: [{conditionMatchers: [{type: Ready, status: "True", success: true}]}]`},
	{"waitRules.conditionMatchers.status", kept, `waitRules: [{conditionMatchers: [{type: Ready, status: "False", success: true}]}]`},
	{"waitRules.conditionMatchers.success", kept, `waitRules: [{conditionMatchers: [{type: Ready, status: "True", success: true}]}]`},
	{"waitRules.conditionMatchers.failure", kept, `waitRules: [{conditionMatchers: [{type: Ready, status: "True", failure: true}]}]`},
	{"waitRules.conditionMatchers.supportsObservedGeneration", kept, `waitRules: [{conditionMatchers: [{type: Ready, status: "True", success: true, supportsObservedGeneration: true}]}]`},
	{"waitRules.conditionMatchers.timeout", noted, `waitRules: [{conditionMatchers: [{type: Ready, status: "False", failure: true, timeout: 5m}]}]`},
	{"waitRules.conditionMatchers.unblockChanges", noted, `waitRules: [{conditionMatchers: [{type: Ready, status: "False", unblockChanges: true}]}]`},
	{"waitRules.ytt", noted, "waitRules: [{ytt: {funcContractV1: {resource.star: x}}, resourceMatchers: []}]"},
	{"waitRules.resourceMatchers", kept, "waitRules: [{resourceMatchers: [{allMatcher: {}}]}]"},

	{"changeGroupBindings.name", kept, `changeGroupBindings: [{name: "x/{name}", resourceMatchers: []}]`},
	{"changeGroupBindings.resourceMatchers", kept, "changeGroupBindings: [{name: x, resourceMatchers: [{allMatcher: {}}]}]"},
	{"changeRuleBindings.rules", kept, "changeRuleBindings: [{rules: [upsert after upserting x, upsert before upserting y]}]"},
	{"changeRuleBindings.rules: deletions", noted, "changeRuleBindings: [{rules: [delete before deleting x]}]"},
	{"changeRuleBindings.ignoreIfCyclical", noted, "changeRuleBindings: [{ignoreIfCyclical: true, rules: [upsert after upserting x]}]"},
	{"changeRuleBindings.resourceMatchers", kept, "changeRuleBindings: [{rules: [upsert after upserting x], resourceMatchers: [{allMatcher: {}}]}]"},

	{"preflightRules.name", kept, "preflightRules: [{name: PermissionValidation}]"},
	{"preflightRules.config", kept, "preflightRules: [{name: CRDUpgradeSafety, config: {mode: warn}}]"},
	{"preflightRules.config.permissionValidatorResource", kept, "preflightRules: [{name: PermissionValidation, config: {permissionValidatorResource: SelfSubjectAccessReview}}]"},
	{"preflightRules.config.permissionValidatorResource: rules", noted, "preflightRules: [{name: PermissionValidation, config: {permissionValidatorResource: SelfSubjectRulesReview}}]"},

	{"resourceMatchers.allMatcher", kept, withMatcher("{allMatcher: {}}")},
	{"resourceMatchers.anyMatcher", kept, withMatcher("{anyMatcher: {matchers: [{allMatcher: {}}]}}")},
	{"resourceMatchers.andMatcher", kept, withMatcher("{andMatcher: {matchers: [{allMatcher: {}}]}}")},
	{"resourceMatchers.notMatcher", kept, withMatcher("{notMatcher: {matcher: {allMatcher: {}}}}")},
	{"resourceMatchers.apiGroupKindMatcher", kept, withMatcher("{apiGroupKindMatcher: {apiGroup: apps, kind: Deployment}}")},
	{"resourceMatchers.apiVersionKindMatcher", kept, withMatcher("{apiVersionKindMatcher: {apiVersion: v1, kind: Pod}}")},
	{"resourceMatchers.kindNamespaceNameMatcher", kept, withMatcher("{kindNamespaceNameMatcher: {kind: Pod, namespace: a, name: b}}")},
	{"resourceMatchers.hasAnnotationMatcher", kept, withMatcher("{hasAnnotationMatcher: {keys: [a]}}")},
	{"resourceMatchers.hasNamespaceMatcher", kept, withMatcher("{hasNamespaceMatcher: {names: [a]}}")},
	{"resourceMatchers.customResourceMatcher", kept, withMatcher("{customResourceMatcher: {}}")},
	{"resourceMatchers.emptyFieldMatcher", kept, withMatcher("{emptyFieldMatcher: {path: [aggregationRule]}}")},

	// What no version of kapp has.
	{"no key of kapp's", refused, "replaceRules: []"},
	{"waitRules: no key of kapp's", refused, "waitRules: [{until: x}]"},
	{"resourceMatchers: no key of kapp's", refused, withMatcher("{labelMatcher: {}}")},
}

// matching is a configuration with a matcher.
func withMatcher(matcher string) string {
	return "changeGroupBindings: [{name: x, resourceMatchers: [" + matcher + "]}]"
}

// TestNoKeyOfKappsIsPassedOver holds what Sluice does with each key of kapp's.
func TestNoKeyOfKappsIsPassedOver(t *testing.T) {
	for _, row := range kappKeyTable {
		c, _, err := config.Parse("f", []byte("apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\n"+row.text+"\n"), nil)
		fate := kept
		switch {
		case err != nil:
			fate = refused
		case len(c.NotDone()) > 0:
			fate = noted
		}
		if fate != row.fate {
			t.Errorf("%s is %s, want %s: %v", row.key, fate, row.fate, err)
		}
		names := strings.Split(strings.SplitN(row.key, ":", 2)[0], ".")
		if fate == noted && !strings.Contains(strings.Join(c.NotDone(), "\n"), names[0]) && !strings.Contains(row.key, ": ") {
			t.Errorf("%s is not named: %v", row.key, c.NotDone())
		}
	}
}

// TestTheTableHasEveryKeyThatIsRead: a key that Sluice reads has a row.
func TestTheTableHasEveryKeyThatIsRead(t *testing.T) {
	has := func(key string) bool {
		return slices.ContainsFunc(kappKeyTable, func(row struct{ key, fate, text string }) bool {
			return row.key == key || strings.HasPrefix(row.key, key+".") || strings.HasPrefix(row.key, key+":")
		})
	}
	for _, key := range slices.Concat([]string{"preflightRules"}, kapprules.Keys(), config.KappKeys) {
		if !has(key) {
			t.Errorf("no row for %s", key)
		}
	}
	for prefix, v := range map[string]any{
		"waitRules": kapprules.WaitRule{}, "waitRules.conditionMatchers": kapprules.Condition{}, "rebaseRules": kapprules.RebaseRule{},
		"changeGroupBindings": kapprules.GroupBinding{}, "changeRuleBindings": kapprules.OrderBinding{}, "resourceMatchers": kapprules.Matcher{},
	} {
		for f := range reflect.TypeOf(v).Fields() {
			if name := f.Tag.Get("json"); !has(prefix + "." + name) {
				t.Errorf("no row for %s.%s", prefix, name)
			}
		}
	}
}

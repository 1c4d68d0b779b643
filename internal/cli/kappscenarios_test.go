package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kappCRD is a CRD whose spec.field has a schema; served versions beside the stored one are in more.
func kappCRD(scope, field, more string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: memcacheds.example.com}
spec:
  group: example.com
  names: {kind: Memcached, plural: memcacheds}
  scope: %s
  versions:
%s  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s}}}}}
`, scope, more, field)
}

// What kapp's end-to-end tests of its preflight for CRDs do, by their names without the prefix PreflightCRDUpgradeSafety: what stops kapp
// stops Sluice, but where a word says why not.
var kappCRDScenarios = map[string]struct {
	old, new string // what properties has in spec
	stops    bool
	why      string // where Sluice judges otherwise than kapp
}{
	"ExistingFieldRemoval":                                {"field: {type: string}, other: {type: string}", "field: {type: string}", true, ""},
	"InvalidFieldChangeDefaultAdded":                      {"field: {type: string}", "field: {type: string, default: a}", false, "a default that is added is told as a warning: old readers meet a value that nobody wrote"},
	"InvalidFieldChangeDefaultChanged":                    {"field: {type: string, default: a}", "field: {type: string, default: b}", true, ""},
	"InvalidFieldChangeDefaultRemoved":                    {"field: {type: string, default: a}", "field: {type: string}", true, ""},
	"InvalidFieldChangeEnumsAdded":                        {"field: {type: string}", "field: {type: string, enum: [a]}", true, ""},
	"InvalidFieldChangeEnumsRemoved":                      {"field: {type: string, enum: [a, b]}", "field: {type: string, enum: [a]}", true, ""},
	"InvalidFieldChangeMaxItemsAdded":                     {"field: {type: array, items: {type: string}}", "field: {type: array, maxItems: 9, items: {type: string}}", true, ""},
	"InvalidFieldChangeMaxItemsDecreased":                 {"field: {type: array, maxItems: 9, items: {type: string}}", "field: {type: array, maxItems: 8, items: {type: string}}", true, ""},
	"InvalidFieldChangeMaxLengthAdded":                    {"field: {type: string}", "field: {type: string, maxLength: 9}", true, ""},
	"InvalidFieldChangeMaxLengthDecreased":                {"field: {type: string, maxLength: 9}", "field: {type: string, maxLength: 8}", true, ""},
	"InvalidFieldChangeMaxPropertiesAdded":                {"field: {type: object, additionalProperties: {type: string}}", "field: {type: object, maxProperties: 9, additionalProperties: {type: string}}", true, ""},
	"InvalidFieldChangeMaxPropertiesDecreased":            {"field: {type: object, maxProperties: 9, additionalProperties: {type: string}}", "field: {type: object, maxProperties: 8, additionalProperties: {type: string}}", true, ""},
	"InvalidFieldChangeMaximumAdded":                      {"field: {type: integer}", "field: {type: integer, maximum: 9}", true, ""},
	"InvalidFieldChangeMaximumDecreased":                  {"field: {type: integer, maximum: 9}", "field: {type: integer, maximum: 8}", true, ""},
	"InvalidFieldChangeMinItemsAdded":                     {"field: {type: array, items: {type: string}}", "field: {type: array, minItems: 1, items: {type: string}}", true, ""},
	"InvalidFieldChangeMinItemsIncreased":                 {"field: {type: array, minItems: 1, items: {type: string}}", "field: {type: array, minItems: 2, items: {type: string}}", true, ""},
	"InvalidFieldChangeMinLengthAdded":                    {"field: {type: string}", "field: {type: string, minLength: 1}", true, ""},
	"InvalidFieldChangeMinLengthIncreased":                {"field: {type: string, minLength: 1}", "field: {type: string, minLength: 2}", true, ""},
	"InvalidFieldChangeMinPropertiesAdded":                {"field: {type: object, additionalProperties: {type: string}}", "field: {type: object, minProperties: 1, additionalProperties: {type: string}}", true, ""},
	"InvalidFieldChangeMinPropertiesIncreased":            {"field: {type: object, minProperties: 1, additionalProperties: {type: string}}", "field: {type: object, minProperties: 2, additionalProperties: {type: string}}", true, ""},
	"InvalidFieldChangeMinimumAdded":                      {"field: {type: integer}", "field: {type: integer, minimum: 1}", true, ""},
	"InvalidFieldChangeMinimumIncreased":                  {"field: {type: integer, minimum: 1}", "field: {type: integer, minimum: 2}", true, ""},
	"InvalidFieldChangeRequiredFieldAdded":                {"field: {type: object, required: [a], properties: {a: {type: string}, b: {type: string}}}", "field: {type: object, required: [a, b], properties: {a: {type: string}, b: {type: string}}}", true, ""},
	"InvalidFieldChangeRequiredFieldAddedWhenNoneExisted": {"field: {type: object, properties: {a: {type: string}}}", "field: {type: object, required: [a], properties: {a: {type: string}}}", true, ""},
	"InvalidFieldChangeRequiredFieldRemoved":              {"field: {type: object, required: [a], properties: {a: {type: string}}}", "field: {type: object, properties: {a: {type: string}}}", false, "a field that may be left out from now on harms no stored object and no writer"},
	"ValidFieldChangeDefaultNoChange":                     {"field: {type: string, default: a}", "field: {type: string, default: a}, more: {type: string}", false, ""},
	"ValidFieldChangeEnumsAdded":                          {"field: {type: string, enum: [a]}", "field: {type: string, enum: [a, b]}", false, ""},
	"ValidFieldChangeMaxItemsIncreased":                   {"field: {type: array, maxItems: 8, items: {type: string}}", "field: {type: array, maxItems: 9, items: {type: string}}", false, ""},
	"ValidFieldChangeMaxLengthIncreased":                  {"field: {type: string, maxLength: 8}", "field: {type: string, maxLength: 9}", false, ""},
	"ValidFieldChangeMaxPropertiesIncreased":              {"field: {type: object, maxProperties: 8, additionalProperties: {type: string}}", "field: {type: object, maxProperties: 9, additionalProperties: {type: string}}", false, ""},
	"ValidFieldChangeMaximumIncreased":                    {"field: {type: integer, maximum: 8}", "field: {type: integer, maximum: 9}", false, ""},
	"ValidFieldChangeMinItemsDecreased":                   {"field: {type: array, minItems: 2, items: {type: string}}", "field: {type: array, minItems: 1, items: {type: string}}", false, ""},
	"ValidFieldChangeMinLengthDecreased":                  {"field: {type: string, minLength: 2}", "field: {type: string, minLength: 1}", false, ""},
	"ValidFieldChangeMinPropertiesDecreased":              {"field: {type: object, minProperties: 2, additionalProperties: {type: string}}", "field: {type: object, minProperties: 1, additionalProperties: {type: string}}", false, ""},
	"ValidFieldChangeMinimumDecreased":                    {"field: {type: integer, minimum: 2}", "field: {type: integer, minimum: 1}", false, ""},
}

func TestKappsScenariosOfCRDUpgradeSafety(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, before, after string, stops bool) {
		t.Helper()
		dir := t.TempDir()
		files := []string{filepath.Join(dir, "old.yaml"), filepath.Join(dir, "new.yaml")}
		for i, text := range []string{before, after} {
			if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want := ExitOK
		if stops {
			want = ExitFindings
		}
		if code, out, errs := sluice(t, "check", files[0], files[1]); code != want {
			t.Errorf("exit code %d, want %d\n%s%s", code, want, out, errs)
		}
	}
	for name, c := range kappCRDScenarios {
		t.Run(name, func(t *testing.T) {
			check(t, kappCRD("Namespaced", c.old, ""), kappCRD("Namespaced", c.new, ""), c.stops)
		})
	}
	const other = "  - {name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}\n"
	t.Run("ScopeChange", func(t *testing.T) {
		check(t, kappCRD("Namespaced", "field: {type: string}", ""), kappCRD("Cluster", "field: {type: string}", ""), true)
	})
	t.Run("StoredVersionRemoved", func(t *testing.T) {
		moved := strings.Replace(kappCRD("Namespaced", "field: {type: string}", ""), "name: v1alpha1", "name: v1", 1)
		check(t, kappCRD("Namespaced", "field: {type: string}", other), moved, true)
	})
}

// Every scenario of kapp's stands in the documentation, with the test that replays it or a word why Sluice does not mean to have it.
func TestKappsScenariosStandInTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/apply.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## kapp's scenarios\n")
	if !ok {
		t.Fatal("there is no section about them")
	}
	var names []string
	for line := range strings.SplitSeq(section, "\n") {
		if m := regexp.MustCompile("^\\| ((?:`[A-Za-z0-9_]+`(?:, )?)+) \\| (.+) \\|$").FindStringSubmatch(line); m != nil {
			for _, n := range regexp.MustCompile("`([A-Za-z0-9_]+)`").FindAllStringSubmatch(m[1], -1) {
				names = append(names, n[1])
			}
			if strings.TrimSpace(m[2]) == "" {
				t.Errorf("nothing is said of %s", m[1])
			}
		}
	}
	for name := range kappCRDScenarios {
		names = append(names, "PreflightCRDUpgradeSafety"+name)
	}
	names = append(names, "PreflightCRDUpgradeSafetyScopeChange", "PreflightCRDUpgradeSafetyStoredVersionRemoved")
	slices.Sort(names)
	want := strings.Fields(kappScenarios)
	slices.Sort(want)
	if diff := diffNames(want, names); diff != "" {
		t.Error(diff)
	}
	sources, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, s := range sources {
		b, err := os.ReadFile(s)
		if err != nil {
			t.Fatal(err)
		}
		all += string(b)
	}
	tests := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(section, -1)
	if len(tests) == 0 {
		t.Error("no test is named")
	}
	for _, m := range tests {
		if !strings.Contains(all, "func "+m[1]+"(") {
			t.Errorf("there is no test %s", m[1])
		}
	}
}

func diffNames(want, got []string) string {
	var b strings.Builder
	for _, n := range want {
		if !slices.Contains(got, n) {
			fmt.Fprintf(&b, "missing: %s\n", n)
		}
	}
	for i, n := range got {
		if !slices.Contains(want, n) || i > 0 && got[i-1] == n {
			fmt.Fprintf(&b, "unknown or twice: %s\n", n)
		}
	}
	return b.String()
}

// kappScenarios are the names of kapp's end-to-end tests (carvel-dev/kapp v0.64.2, test/e2e).
const kappScenarios = `
AdoptionOfResourcesWithVersionedAnn AnchoredDiff AppChange AppChangeWithLongAppName AppChangesMaxToKeep AppDeploy_With_Existing_OR_New_Res AppFilter
AppGroupCreateUpdateDelete AppKindChangeWithMetadataOutput AppNamespace AppSuffix_AppExists_MigrationEnabled ApplyWaitErrors CRDVersionsWithGKScoping
Config ConfigHavingRegex CreateFallbackOnNoop CreateFallbackOnUpdate CreateUpdateDelete CreateUpdateDelete_PrevApp
CreateUpdateDelete_PrevApp_FQConfigmap_Enabled CustomWaitRules DefaultConfig_AggregatedClusterRole DefaultConfig_ExcludeDiffAgainstExistingStatus
DefaultLabelScopingRulesFlag DeleteInoperable DeleteOrphan DeployFilesystem Diff DiffChangeYAML DiffExitStatus DiffFilter DiffMaskRules DiffRun
DiffRun_WithReadOnlyPermissions ExistsAnn ExitEarlyOnApplyErrorFlag FallbackAllowedNamespaces Filter FormattedError HelpCommandGroup
IgnoreFailingAPIServices IgnoreFailingGroupVersion Inspect NoopAnn Order OwnershipOverride PodLogs PreflightCRDUpgradeSafetyExistingFieldRemoval
PreflightCRDUpgradeSafetyInvalidFieldChangeDefaultAdded PreflightCRDUpgradeSafetyInvalidFieldChangeDefaultChanged
PreflightCRDUpgradeSafetyInvalidFieldChangeDefaultRemoved PreflightCRDUpgradeSafetyInvalidFieldChangeEnumsAdded
PreflightCRDUpgradeSafetyInvalidFieldChangeEnumsRemoved PreflightCRDUpgradeSafetyInvalidFieldChangeMaxItemsAdded
PreflightCRDUpgradeSafetyInvalidFieldChangeMaxItemsDecreased PreflightCRDUpgradeSafetyInvalidFieldChangeMaxLengthAdded
PreflightCRDUpgradeSafetyInvalidFieldChangeMaxLengthDecreased PreflightCRDUpgradeSafetyInvalidFieldChangeMaxPropertiesAdded
PreflightCRDUpgradeSafetyInvalidFieldChangeMaxPropertiesDecreased PreflightCRDUpgradeSafetyInvalidFieldChangeMaximumAdded
PreflightCRDUpgradeSafetyInvalidFieldChangeMaximumDecreased PreflightCRDUpgradeSafetyInvalidFieldChangeMinItemsAdded
PreflightCRDUpgradeSafetyInvalidFieldChangeMinItemsIncreased PreflightCRDUpgradeSafetyInvalidFieldChangeMinLengthAdded
PreflightCRDUpgradeSafetyInvalidFieldChangeMinLengthIncreased PreflightCRDUpgradeSafetyInvalidFieldChangeMinPropertiesAdded
PreflightCRDUpgradeSafetyInvalidFieldChangeMinPropertiesIncreased PreflightCRDUpgradeSafetyInvalidFieldChangeMinimumAdded
PreflightCRDUpgradeSafetyInvalidFieldChangeMinimumIncreased PreflightCRDUpgradeSafetyInvalidFieldChangeRequiredFieldAdded
PreflightCRDUpgradeSafetyInvalidFieldChangeRequiredFieldAddedWhenNoneExisted PreflightCRDUpgradeSafetyInvalidFieldChangeRequiredFieldRemoved
PreflightCRDUpgradeSafetyScopeChange PreflightCRDUpgradeSafetyStoredVersionRemoved PreflightCRDUpgradeSafetyValidFieldChangeDefaultNoChange
PreflightCRDUpgradeSafetyValidFieldChangeEnumsAdded PreflightCRDUpgradeSafetyValidFieldChangeMaxItemsIncreased
PreflightCRDUpgradeSafetyValidFieldChangeMaxLengthIncreased PreflightCRDUpgradeSafetyValidFieldChangeMaxPropertiesIncreased
PreflightCRDUpgradeSafetyValidFieldChangeMaximumIncreased PreflightCRDUpgradeSafetyValidFieldChangeMinItemsDecreased
PreflightCRDUpgradeSafetyValidFieldChangeMinLengthDecreased PreflightCRDUpgradeSafetyValidFieldChangeMinPropertiesDecreased
PreflightCRDUpgradeSafetyValidFieldChangeMinimumDecreased PreflightPermissionValidation PreflightPermissionValidationEscalation
PreflightPermissionValidationEscalationSSRR PreflightPermissionValidationFailedEscalation PreflightPermissionValidationMissingPermissions
PreflightPermissionValidationSSRR RenewableResources SelectiveOwnershipOverride ServiceAccountAssociatedSecretDefaultChangeRule
SupportUnblockingChanges Template TemplateRulesWithNonTypedArrayFields TransientResourceInspectDelete TransientResourceSwitchToNonTransient
UpdateAlwaysReplace UpdateFallbackOnReplace UpdateRetryOnConflict_WithConflict UpdateRetryOnConflict_WithConflictRebasedAway
UpdateRetryOnConflict_WithoutConflict Version VersionedAnnotation_WithFailedPreviousVersions VersionedAnnotations VersionedExplicitReference
WaitTimeout WarningsFlag YTTWaitRuleWithTimeout YttRebaseRule_OverlayContractV1 YttRebaseRule_ServiceAccountRebaseTokenSecret
YttRebaseRule_ServiceAccountRebaseTokenSecret_OpenShift YttWaitRules_WithUnblockChanges
`

package config_test

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"sluice.dev/apply/kapprules"
	"sluice.dev/internal/config"
	"sluice.dev/internal/preflight"
	"sluice.dev/report"
	"sluice.dev/tools/jsonschema"
)

var update = flag.Bool("update", false, "write docs/schemas/config-*.json")

type object = jsonschema.Object

// scalar is the schema of a text. YAML reads some texts, such as 1.30, as something else.
func scalar(description string) object {
	return object{"type": []string{"string", "number", "boolean"}, "minLength": 1, "description": description}
}

func oneOf(description string, values []string) object {
	return object{"type": "string", "enum": values, "description": description}
}

// closed is the schema of a mapping that has no other keys.
func closed(description string, properties object) object {
	return object{"type": "object", "description": description, "properties": properties, "additionalProperties": false}
}

// ownSchema has a property for each of Sluice's keys.
func ownSchema(t *testing.T) object {
	levels, rules := object{}, object{}
	for _, l := range report.Levels() {
		levels[string(l.ID)] = oneOf(l.Meaning, config.Severities)
	}
	for _, id := range config.Known(preflight.Rules()) {
		d, _ := preflight.Doc(id)
		rules[id] = oneOf(d.Title, config.Severities)
	}
	suppression := closed("One accepted finding. It needs a rule or a crd, and a reason.", object{
		"rule":    scalar("ID of the rule; * stands for any text without a dash at its ends."),
		"crd":     scalar("Name of the CRD; * matches between dots, ** matches anything."),
		"version": scalar("Version of the API."),
		"path":    scalar("Path of the field; * matches between dots, ** matches anything."),
		"reason":  scalar("Why the finding is acceptable."),
		"expires": object{"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "description": "From this day on it is a finding again: YYYY-MM-DD."},
	})
	suppression["required"] = []string{"reason"}
	loss := closed("One deliberate loss. It needs a crd or a path, and a reason.", maps.Clone(suppression["properties"].(object))) //nolint:errcheck,forcetypeassert // closed made it
	delete(loss["properties"].(object), "rule")                                                                                    //nolint:errcheck,forcetypeassert // see above
	loss["required"] = []string{"reason"}
	loss["anyOf"] = []object{{"required": []string{"crd"}}, {"required": []string{"path"}}}
	suppression["anyOf"] = []object{{"required": []string{"rule"}}, {"required": []string{"crd"}}}
	own := object{
		"mode":         oneOf("error: findings at a failing level fail. warn: nothing fails. stored: only findings that stored objects confirm fail.", config.CRDModes),
		"failMode":     oneOf("closed: undecided changes fail. open: they are reported and pass.", config.FailModes),
		"kubeVersion":  object{"type": []string{"string", "number"}, "pattern": config.KubeVersion, "description": "Kubernetes version whose rules apply, such as 1.34."},
		"levels":       closed("Severity of each level of harm.", levels),
		"rules":        closed("Severity of each rule.", rules),
		"suppressions": object{"type": "array", "description": "Accepted findings.", "items": suppression},
		"allowLoss":    object{"type": "array", "description": "What conversions lose deliberately.", "items": loss},
	}
	same(t, "sluice's keys", config.OwnKeys, own)
	same(t, "the keys of a suppression", config.SuppressionKeys, suppression["properties"].(object)) //nolint:errcheck // see above
	return own
}

// same fails if a schema does not have the keys that the parser has.
func same(t *testing.T, what string, keys []string, properties object) {
	t.Helper()
	if diff := cmp.Diff(slices.Sorted(slices.Values(keys)), slices.Sorted(maps.Keys(properties))); diff != "" {
		t.Errorf("%s (-parser +schema)\n%s", what, diff)
	}
}

// document is the schema of a file.
func document(apiVersion string, properties object) object {
	properties["apiVersion"], properties["kind"], properties["metadata"] = oneOf("", []string{apiVersion}), oneOf("", []string{"Config"}), object{"type": "object"}
	out := closed("Configuration of sluice check, sluice apply and the guard", properties)
	out["required"], out["$schema"], out["title"] = []string{"apiVersion", "kind"}, "http://json-schema.org/draft-07/schema#", "Config, "+apiVersion
	return out
}

func kappSchema(t *testing.T) object {
	rule := func(name string, config object) object {
		config["type"] = []string{"object", "null"}
		out := closed("", object{"name": oneOf("", []string{name}), "config": config})
		out["required"] = []string{"name"}
		return out
	}
	rules := map[string]object{
		"CRDUpgradeSafety": closed("Sluice's own keys", ownSchema(t)),
		"FeatureGates":     closed("", object{"mode": oneOf("error: a use of a closed feature fails. warn: nothing fails.", config.Modes)}),
		"PermissionValidation": closed("", object{
			"permissionValidatorResource": oneOf("kapp's key; Sluice always asks for each access.", []string{"SelfSubjectAccessReview", "SelfSubjectRulesReview"}),
		}),
	}
	var items []object
	for _, name := range config.Preflights() {
		if rules[name] == nil {
			t.Fatalf("the preflight %s has no schema", name)
		}
		items = append(items, rule(name, rules[name]))
	}
	properties := object{"preflightRules": object{"type": "array", "description": "The preflights to run.", "items": object{"anyOf": items}}}
	for _, key := range kapprules.Keys() {
		properties[key] = object{"type": "array", "description": "For sluice apply."}
	}
	for _, key := range config.KappKeys {
		properties[key] = object{"description": "For kapp; Sluice ignores it."}
	}
	return document("kapp.k14s.io/v1alpha1", properties)
}

func crdifySchema(t *testing.T) object {
	var items []object
	for _, name := range config.CrdifyValidations() {
		_, keys := config.CrdifyRules(name)
		policies := object{}
		for _, key := range keys {
			policies[key] = oneOf("Allow: the change is no finding.", config.CrdifyPolicies)
		}
		configuration := closed("", policies)
		configuration["type"] = []string{"object", "null"}
		item := closed("", object{"name": oneOf("", []string{name}), "enforcement": oneOf("Error: fails. Warn: warns. None: off.", config.CrdifyEnforces), "configuration": configuration})
		item["required"] = []string{"name", "enforcement"}
		items = append(items, item)
	}
	properties := object{
		"validations":          object{"type": "array", "description": "Validations of crdify, each for rules of Sluice.", "items": object{"anyOf": items}},
		"unhandledEnforcement": oneOf("Error: undecided changes fail. Warn and None: they are reported and pass.", config.CrdifyEnforces),
		"conversion":           oneOf("Sluice always does Ignore.", config.CrdifyConverts),
	}
	same(t, "crdify's keys", config.CrdifyKeys, properties)
	out := closed("Configuration of crdify, as sluice check reads it", properties)
	out["minProperties"], out["$schema"], out["title"] = 1, "http://json-schema.org/draft-07/schema#", "crdify"
	return out
}

const schemas = "../../docs/schemas/"

// TestTheSchemasAreCurrent writes the JSON Schemas from the parser's tables with -update, and compares them with these otherwise.
func TestTheSchemasAreCurrent(t *testing.T) {
	for name, schema := range map[string]object{
		"config-sluice-v1alpha1.json": document("sluice.dev/v1alpha1", ownSchema(t)), "config-kapp-v1alpha1.json": kappSchema(t),
		"config-crdify.json": crdifySchema(t),
	} {
		jsonschema.Current(t, schemas+name, schema, *update, "go test ./internal/config -update")
	}
}

// validator reads a published schema. It returns an error for a document that does not fit.
func validator(t *testing.T, name string) func(n *yaml.Node) error {
	t.Helper()
	fits, err := jsonschema.Read(schemas + name)
	if err != nil {
		t.Fatal(err)
	}
	return func(n *yaml.Node) error { return fits(valueOf(n)) }
}

// valueOf is a document as an editor reads it: YAML 1.2 has no dates, and off is a text.
func valueOf(n *yaml.Node) any {
	switch n.Kind { //nolint:exhaustive // the others have no values of their own
	case yaml.DocumentNode:
		return valueOf(n.Content[0])
	case yaml.MappingNode:
		out := object{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			out[n.Content[i].Value] = valueOf(n.Content[i+1])
		}
		return out
	case yaml.SequenceNode:
		out := []any{}
		for _, item := range n.Content {
			out = append(out, valueOf(item))
		}
		return out
	}
	switch n.Tag {
	case "!!int", "!!float", "!!bool", "!!null":
		var v any
		if n.Decode(&v) == nil {
			return v
		}
	}
	return n.Value
}

var configBlock = regexp.MustCompile("(?s)```yaml[^\n]*\n(.*?)```")

// goodDocuments are the configurations of all pages, and some more.
func goodDocuments(t *testing.T) (out []string) {
	t.Helper()
	err := filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range configBlock.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "\nkind: Config\n") && !strings.Contains(m[1], "\n---\n") {
				out = append(out, m[1])
			}
		}
		return err
	})
	if err != nil || len(out) < 3 {
		t.Fatal(len(out), err)
	}
	const own, kapp = "apiVersion: sluice.dev/v1alpha1\nkind: Config\n", "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\n"
	return append(out,
		own, own+"metadata: {name: x}\nmode: stored\nfailMode: open\nkubeVersion: 1.30\nlevels: {cosmetic: off}\nrules: {suppression-expired: warn}\n",
		own+"kubeVersion: v1.29.3\nsuppressions: [{crd: as.x.io, version: v1, path: spec.old.**, reason: 7, expires: 2100-01-31}, {rule: '*-removed', reason: x}]\n",
		own+"allowLoss: [{path: spec.old, reason: x, expires: 2100-01-31}]\n",
		kapp+"waitRules: []\nadditionalLabels: {a: b}\npreflightRules:\n- {name: CRDUpgradeSafety, config: null}\n- {name: FeatureGates, config: {mode: warn}}\n- {name: PermissionValidation, config: {permissionValidatorResource: SelfSubjectAccessReview}}\n",
		kapp+"preflightRules: [{name: CRDUpgradeSafety, config: {mode: warn, rules: {enum-value-removed: off}}}]\n",
		"unhandledEnforcement: Warn\n", "conversion: Ignore\nvalidations: []\n",
		"conversion: None\nvalidations:\n- {name: enum, enforcement: Error, configuration: {additionPolicy: Allow}}\n- {name: pattern, enforcement: Warn, configuration: {removalPolicy: Disallow}}\n- {name: scope, enforcement: None, configuration: null}\n",
	)
}

// anything are keys below which the schemas allow everything.
var anything = append(slices.Clone(config.KappKeys), append(kapprules.Keys(), "metadata")...)

// TestSchemasAndParserAgree compares them on good documents, on these with an unknown key in each mapping, and on these with another value
// of each key that has few of them.
func TestSchemasAndParserAgree(t *testing.T) {
	own, kapp, crdify := validator(t, "config-sluice-v1alpha1.json"), validator(t, "config-kapp-v1alpha1.json"), validator(t, "config-crdify.json")
	seen := map[bool]int{}
	compare := func(root *yaml.Node, want bool) {
		text, err := yaml.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		fits := own
		if strings.Contains(string(text), "kapp.k14s.io") {
			fits = kapp
		} else if !strings.Contains(string(text), "apiVersion") {
			fits = crdify
		}
		_, _, parsed := config.Parse("f", text, preflight.Rules())
		valid := fits(root)
		if (parsed == nil) != want || (valid == nil) != want {
			t.Errorf("good is %t; the parser says %v, the schema %v:\n%s", want, parsed, valid, text)
		}
		seen[want]++
	}
	for _, text := range goodDocuments(t) {
		var root yaml.Node
		if err := yaml.Unmarshal([]byte(text), &root); err != nil {
			t.Fatal(err)
		}
		compare(&root, true)
		var spoil func(key string, n *yaml.Node)
		spoil = func(key string, n *yaml.Node) {
			if slices.Contains(anything, key) {
				return
			}
			switch n.Kind { //nolint:exhaustive // the others have no values of their own
			case yaml.MappingNode:
				was := n.Content
				n.Content = append(slices.Clone(was), &yaml.Node{Kind: yaml.ScalarNode, Value: "unknownKey"}, &yaml.Node{Kind: yaml.ScalarNode, Value: "x"})
				compare(&root, false)
				n.Content = was
				for i := 0; i+1 < len(was); i += 2 {
					spoil(was[i].Value, was[i+1])
				}
			case yaml.SequenceNode, yaml.DocumentNode:
				for _, item := range n.Content {
					spoil(key, item)
				}
			case yaml.ScalarNode:
				if n.Tag == "!!null" || slices.Contains([]string{"rule", "crd", "version", "path", "reason", "apiVersion"}, key) {
					return
				}
				was := *n
				*n = yaml.Node{Kind: yaml.ScalarNode, Value: "nonsense-value"}
				compare(&root, false)
				*n = was
			}
		}
		spoil("", &root)
	}
	if seen[true] < 8 || seen[false] < 40 {
		t.Errorf("compared %v documents", seen)
	}
}

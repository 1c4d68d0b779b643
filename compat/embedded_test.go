package compat

import "testing"

// Rules see apiVersion, kind and metadata of an embedded resource whether its schema declares them or not. What the schema fills in for
// them counts.
func TestDefaultsOfEmbeddedResources(t *testing.T) {
	resource := func(fields, rule string) string {
		out := "{type: object, x-kubernetes-embedded-resource: true, properties: {b: {type: string}" + fields + "}"
		if rule != "" {
			out += `, x-kubernetes-validations: [{rule: "` + rule + `"}]`
		}
		return out + "}"
	}
	const (
		kind = ", kind: {type: string, default: K}"
		only = ", apiVersion: {type: string}, kind: {type: string, enum: [K]}"
		rule = "!has(self.kind) || self.kind == 'L'"
		name = "!has(self.metadata) || !has(self.metadata.name) || self.metadata.name == 'n'"
	)
	for _, tt := range []struct{ name, old, new, verdict string }{
		{"a rule that a default of kind satisfies", resource(kind, ""), resource(kind, "has(self.kind)"), "safe"},
		{"a rule that a default of kind breaks", resource(kind, ""), resource(kind, "!has(self.kind) || self.kind == 'L'"), "unsafe"},
		{"a default of kind, which no object lacks", resource("", rule), resource(kind, rule), "safe"},
		{"metadata declared under a rule", resource("", name), resource(", metadata: {type: object, properties: {name: {type: string}}}", name), "safe"},
		{"a kind is never empty", resource("", ""), resource(", kind: {type: string, minLength: 1}", ""), "safe"},
		{"one kind", resource(only, ""), resource(only, "has(self.b) || !has(self.b)"), "safe"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := check(t, specCRD(t, "res: "+tt.old), specCRD(t, "res: "+tt.new)); string(got.Verdict) != tt.verdict {
				t.Errorf("%s: %s", got.Verdict, listed(got))
			}
		})
	}
}

package refs

import (
	"cmp"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"sluice.dev/requester"
)

// Names of the ConfigMap of [ReadDefaults], which Tekton has in the namespace tekton-pipelines, and of its keys about references. The first
// key is Tekton's.
const (
	DefaultsConfigMap  = "config-defaults"
	KeyDefaultResolver = "default-resolver-type"
	KeyDefaultRemotes  = "default-remotes"
)

// Defaults are what the operator of a cluster says about references.
type Defaults struct {
	// Resolver is that of references that name neither a resolver nor an object; empty for none.
	Resolver string
	// Remotes are default remotes by kind, for [Templates]; nil for none.
	Remotes map[string]requester.Ref
}

// ReadDefaults reads the defaults from the data of the ConfigMap [DefaultsConfigMap]. [KeyDefaultRemotes] is a map in YAML, from
// kinds, or * for all other kinds, to references:
//
//	task: {resolver: git, params: [{name: pathInRepo, value: "tasks/{name}.yaml"}]}
//
// A reference in it that names no resolver gets the default one. The error names the key that is wrong.
func ReadDefaults(data map[string]string) (Defaults, error) {
	out := Defaults{Resolver: strings.TrimSpace(data[KeyDefaultResolver])}
	var given map[string]requester.Ref
	if err := yaml.UnmarshalStrict([]byte(data[KeyDefaultRemotes]), &given); err != nil {
		return Defaults{}, fmt.Errorf("key %s: want references by kind: %w", KeyDefaultRemotes, err)
	}
	for kind, ref := range given {
		ref = out.Complete(ref)
		if _, err := ref.Spec(); err != nil {
			return Defaults{}, fmt.Errorf("key %s: %s: %w", KeyDefaultRemotes, kind, err)
		}
		if out.Remotes == nil {
			out.Remotes = map[string]requester.Ref{}
		}
		kind = strings.ToLower(strings.TrimSuffix(kind, "*"))
		if _, twice := out.Remotes[kind]; twice {
			return Defaults{}, fmt.Errorf("key %s: the kind %s stands twice", KeyDefaultRemotes, kind)
		}
		out.Remotes[kind] = ref
	}
	return out, nil
}

// Complete returns the reference with the default resolver, if it names none.
func (d Defaults) Complete(ref requester.Ref) requester.Ref {
	ref.Resolver = cmp.Or(ref.Resolver, d.Resolver)
	return ref
}

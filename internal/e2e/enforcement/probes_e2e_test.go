//go:build e2e

package enforcement

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// fewestProbes is how many probes there are at least, counted once for each state of the gates.
const fewestProbes = 1800

// probe is a way, and what is to come of it.
type probe struct {
	way
	// object is the name of the object; empty: the name of the way gives it.
	object string
	// dry is set if nothing is stored in any case, never if the API server itself ignores the part, and fine if there is no use.
	dry, never, fine bool
}

// probesOf are ways, some of which only look like one.
func probesOf(routes map[string][]way) map[string][]probe {
	out := map[string][]probe{}
	for route, ways := range routes {
		for _, w := range ways {
			out[route] = append(out[route], probe{way: w, never: strings.HasPrefix(w.name, "status with a spec") || w.name == "put without a resource version"})
		}
	}
	return out
}

// probeCRD is a kind with all sorts of places: gizmos for features that reject and droppers for those that drop, each in two versions alike.
// %[1]s stands for the kind, %[2]s for its plural.
const probeCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.round.e2e.dev}
spec:
  group: round.e2e.dev
  scope: Namespaced
  names: {kind: %[1]s, plural: %[2]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema: &schema
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            default: {}
            properties:
              plain: {type: string, default: p}
              alpha: {type: string}
              mode: {type: string, enum: [calm, turbo]}
              level: {type: number}
              port: {x-kubernetes-int-or-string: true}
              image: {type: string}
              box: {type: object, properties: {in: {type: string, default: i}}}
              list: {type: array, items: {type: string}}
              flag: {type: boolean}
              count: {type: integer}
              wide: {type: integer, format: int64}
              maybe: {type: object, nullable: true, properties: {a: {type: string}}}
              labels: {type: object, additionalProperties: {type: string}}
              extra: {type: object, additionalProperties: {type: string}}
              env: {type: object, additionalProperties: {type: object, properties: {value: {type: string}, secret: {type: string}}}}
              modes: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              items:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, extra: {type: string}}}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [port, protocol]
                items: {type: object, required: [port], properties: {port: {type: integer}, protocol: {type: string, default: TCP}}}
              steps: {type: array, items: {type: object, properties: {image: {type: string}, secret: {type: string}}}}
              whole: {type: array, x-kubernetes-list-type: atomic, items: {type: object, properties: {image: {type: string}, secret: {type: string}}}}
              fixed: {type: object, x-kubernetes-map-type: atomic, properties: {image: {type: string}, secret: {type: string}}}
              rows: {type: array, items: {type: array, items: {type: object, properties: {image: {type: string}, secret: {type: string}}}}}
              kinds: {type: array, items: {type: object, properties: {kind: {type: string}, script: {type: string}}}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              embedded: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              copies: {type: integer, format: int32}
              title: {type: string}
              speed: {type: string}
  - name: v1beta1
    served: true
    storage: false
    schema: *schema
`

// gatedUse is a use of one feature, and what is none.
type gatedUse struct {
	name, gate string
	// part is the rest of a part of the feature.
	part string
	// spec has the use, and fine is like it without a use.
	spec, fine string
}

// gatedUses are those of every sort of part.
var gatedUses = []gatedUse{
	{"a field", "Alpha", "field: spec.alpha", "{alpha: x}", "{plain: x}"},
	{"an empty string", "Alpha", "field: spec.alpha", "{alpha: ''}", "{alpha: null}"},
	{"a field between others", "Alpha", "field: spec.alpha", "{plain: x, alpha: x, mode: calm}", "{plain: x, mode: calm}"},
	{"a value of an enum", "Turbo", "field: spec.mode, values: [turbo]", "{mode: turbo}", "{mode: calm}"},
	{"a number", "Two", `field: spec.level, values: ["2"]`, "{level: 2}", "{level: 3}"},
	{"a number with a fraction", "Two", `field: spec.level, values: ["2"]`, "{level: 2.0}", "{level: 2.5}"},
	{"a number with an exponent", "Two", `field: spec.level, values: ["2"]`, "{level: 20e-1}", "{level: 2e1}"},
	{"an integer of a port", "Port", `field: spec.port, values: ["80"]`, "{port: 80}", "{port: 81}"},
	{"a string of a port", "Port", `field: spec.port, values: ["80"]`, "{port: '80'}", "{port: http}"},
	{"a string with a pattern", "Retry", `field: spec.image, pattern: "^retry/"`, "{image: retry/x}", "{image: x/retry/}"},
	{"an empty object", "Box", "field: spec.box", "{box: {}}", "{plain: x}"},
	{"an object with a field", "Box", "field: spec.box", "{box: {in: x}}", "{plain: z}"},
	{"an empty list", "List", "field: spec.list", "{list: []}", "{plain: x}"},
	{"a list", "List", "field: spec.list", "{list: [a, a]}", "{plain: z}"},
	{"false", "Flag", "field: spec.flag", "{flag: false}", "{plain: x}"},
	{"zero", "Count", "field: spec.count", "{count: 0}", "{plain: x}"},
	{"a number beyond the exact floating-point numbers", "Wide", `field: spec.wide, values: ["9007199254740993"]`, "{wide: 9007199254740993}", "{wide: 9007199254740992}"},
	{"an object that may be null", "Maybe", "field: spec.maybe", "{maybe: {}}", "{maybe: null}"},
	{"an entry of a map by its odd name", "Label", `field: 'spec.labels["a.b~c/d"]'`, "{labels: {a.b~c/d: x}}", "{labels: {a.b~c: x}}"},
	{"any entry of a map", "Extra", `field: "spec.extra[*]"`, "{extra: {k: v}}", "{extra: {}}"},
	{"an entry without a name", "Extra", `field: "spec.extra[*]"`, "{extra: {'': v}}", "{extra: {}}"},
	{"a field of an entry", "Secret", `field: "spec.env[*].secret"`, "{env: {A: {value: v}, B: {secret: ''}}}", "{env: {A: {value: v}, secret: {}}}"},
	{"a member of a set", "Member", `field: "spec.modes[*]", values: [turbo]`, "{modes: [calm, turbo]}", "{modes: [calm]}"},
	{"a field of an item", "Item", `field: "spec.items[*].extra"`, "{items: [{name: a}, {name: b, extra: x}]}", "{items: [{name: a}, {name: extra}]}"},
	{"a value of a key", "SCTP", `field: "spec.ports[*].protocol", values: [SCTP]`, "{ports: [{port: 1}, {port: 1, protocol: SCTP}]}", "{ports: [{port: 1}, {port: 1, protocol: UDP}]}"},
	{"a field of an item without identity", "Step", `field: "spec.steps[*].secret"`, "{steps: [{image: i}, {secret: x}]}", "{steps: [{image: secret}, {}]}"},
	{"a field of an item that is twice", "Step", `field: "spec.steps[*].secret"`, "{steps: [{secret: x}, {secret: x}]}", "{steps: [{image: x}, {image: x}]}"},
	{"a field in an atomic list", "Whole", `field: "spec.whole[*].secret"`, "{whole: [{image: i, secret: x}]}", "{whole: [{image: i}]}"},
	{"a field in an atomic object", "Fixed", "field: spec.fixed.secret", "{fixed: {image: i, secret: x}}", "{fixed: {image: i}}"},
	{"a field in a list of lists", "Row", `field: "spec.rows[*][*].secret"`, "{rows: [[], [{image: i}, {secret: x}]]}", "{rows: [[], [{image: i}]]}"},
	{"items of a kind", "Kind", `field: "spec.kinds[*]", match: [{field: kind, values: [b]}, {field: script, pattern: "^#!"}]`, "{kinds: [{kind: a}, {kind: b, script: '#!x'}]}", "{kinds: [{kind: a, script: '#!x'}, {kind: b}]}"},
	{"a field that no schema knows", "Free", "field: spec.free.deep.alpha", "{free: {deep: {alpha: {}}}}", "{free: {deep: {alpha: null}, alpha: x}}"},
	{"a field of an embedded object", "Host", "field: spec.embedded.spec.hostNetwork", "{embedded: {apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {hostNetwork: false}}}", "{embedded: {apiVersion: v1, kind: Pod, spec: {hostname: x}}}"},
	{"a number above", "Copies", "field: spec.copies, beyond: {minimum: 1, maximum: 10}", "{copies: 11}", "{copies: 10}"},
	{"a number below", "Copies", "field: spec.copies, beyond: {minimum: 1, maximum: 10}", "{copies: 0}", "{copies: 1}"},
	{"a long string", "Title", `field: spec.title, beyond: {maxLength: 3, pattern: "^[A-Z]"}`, "{title: Hähm}", "{title: Häh}"},
	{"another value", "Speed", `field: spec.speed, beyond: {values: [slow, fast]}`, "{speed: Fast}", "{speed: fast}"},
}

// cannotDrop are gates of parts that cannot be taken out, a value of a key and an item without identity, and of values that policies cannot put back.
var cannotDrop = map[string]bool{"SCTP": true, "Kind": true, "Two": true, "Port": true, "Wide": true}

// probeFeatures are the features of the uses. Each of them has its twin that drops if it can.
func probeFeatures() string {
	var b strings.Builder
	for i, u := range gatedUses {
		if i == 0 || gatedUses[i-1].gate != u.gate {
			fmt.Fprintf(&b, "- {gate: Probe%s, parts: [{group: round.e2e.dev, resource: gizmos, %s}]}\n", u.gate, u.part)
			if !cannotDrop[u.gate] {
				fmt.Fprintf(&b, "- {gate: Dropped%s, whenDisabled: Drop, parts: [{group: round.e2e.dev, resource: droppers, %s}]}\n", u.gate, u.part)
			}
		}
	}
	return b.String()
}

// sendRaw sends a body as it is.
func (r *rounds) sendRaw(resource, contentType string, body func(name string) string) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		return r.clients.CoreV1().RESTClient().Post().AbsPath("/apis/round.e2e.dev/v1/namespaces/"+roundNamespace+"/"+resource).
			SetHeader("Content-Type", contentType).Body([]byte(body(name))).Do(ctx).Error()
	}
}

// jsonOfYAML is the text of a spec as JSON that keeps how its numbers are written.
func jsonOfYAML(r *rounds, text string) string {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		r.Fatal(err)
	}
	return string(data)
}

// routes are the ways in which a client sends a spec to a resource. The object with what is fine is there before, or none.
func (r *rounds) routes(resource, kind string, u *gatedUse) []probe {
	header := func(name, version string) string {
		return "apiVersion: round.e2e.dev/" + version + "\nkind: " + kind + "\nmetadata: {name: " + name + "}\n"
	}
	spec := jsonOfYAML(r, u.spec)
	replace := func(o *unstructured.Unstructured) {
		o.Object["spec"] = read(r, "{apiVersion: a/b, kind: C, spec: "+u.spec+"}")["spec"]
	}
	return []probe{
		{way: way{"create", resource, "", r.create(resource, "v1", u.spec)}},
		{way: way{"create in another version", resource, "", r.create(resource, "v1beta1", u.spec)}},
		{way: way{"create with a generated name", resource, "", func(ctx context.Context, name string) error {
			o := r.object(resource, "v1", name, u.spec)
			o.SetName("")
			o.SetGenerateName(name + "-")
			made, err := r.of(resource, "v1").Create(ctx, o, metav1.CreateOptions{})
			if err == nil {
				r.made.Store(name, made.GetName())
			}
			return err
		}}},
		{way: way{"create with strict validation", resource, "", func(ctx context.Context, name string) error {
			_, err := r.of(resource, "v1").Create(ctx, r.object(resource, "v1", name, u.spec), metav1.CreateOptions{FieldValidation: "Strict"})
			return err
		}}},
		{way: way{"create in YAML", resource, "", r.sendRaw(resource, "application/yaml", func(name string) string { return header(name, "v1") + "spec: " + u.spec + "\n" })}},
		{way: way{"create with a spec before", resource, "", r.sendRaw(resource, "application/json", func(name string) string {
			return `{"apiVersion":"round.e2e.dev/v1","kind":"` + kind + `","metadata":{"name":"` + name + `"},"spec":{"plain":"p"},"spec":` + spec + `}`
		})}},
		{way: way{"create by apply", resource, "", r.apply(resource, "v1", "somebody", u.spec)}},
		{way: way{"put", resource, u.fine, r.put(resource, "v1", replace)}},
		{way: way{"put in another version", resource, u.fine, r.put(resource, "v1beta1", replace)}},
		{way: way{"merge patch", resource, u.fine, r.patch(resource, "v1", merge, "{spec: "+u.spec+"}")}},
		{way: way{"merge patch in another version", resource, u.fine, r.patch(resource, "v1beta1", merge, "{spec: "+u.spec+"}")}},
		{way: way{"json patch", resource, u.fine, r.patch(resource, "v1", jsonPatch, "[{op: remove, path: /spec}, {op: add, path: /spec, value: "+u.spec+"}]")}},
		{way: way{"apply by another manager", resource, u.fine, r.apply(resource, "v1", "another", u.spec)}},
		{way: way{"apply in another version", resource, u.fine, r.apply(resource, "v1beta1", "another", u.spec)}},
		{dry: true, way: way{"create as a dry run", resource, "", func(ctx context.Context, name string) error {
			_, err := r.of(resource, "v1").Create(ctx, r.object(resource, "v1", name, u.spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}}},
		{fine: true, way: way{"what is fine", resource, "", r.create(resource, "v1", u.fine)}},
	}
}

// probes are all uses by all routes.
func (r *rounds) probes() map[string][]probe {
	out := map[string][]probe{}
	for resource, kind := range map[string]string{"gizmos": "Gizmo", "droppers": "Dropper"} {
		for i := range gatedUses {
			u := &gatedUses[i]
			if resource == "droppers" && cannotDrop[u.gate] {
				continue
			}
			for n, w := range r.routes(resource, kind, u) {
				w.name, w.object = w.name+" "+u.name, fmt.Sprintf("%s-%d-%d", resource, i, n)
				out[resource] = append(out[resource], w)
			}
		}
	}
	return out
}

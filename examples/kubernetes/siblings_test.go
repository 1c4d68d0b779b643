package kubernetes_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
)

// place is a field of a resource, in the form in which parts name it.
type place struct{ group, resource, path string }

// kind is what fields with one meaning have in common: a type of the API, or a name with a type of Go.
type kind struct {
	of   reflect.Type
	name string
}

func kindOf(name string, t reflect.Type) kind {
	element := t
	for element.Kind() == reflect.Pointer || element.Kind() == reflect.Slice || element.Kind() == reflect.Map {
		element = element.Elem()
	}
	if strings.HasPrefix(element.PkgPath(), "k8s.io/api/") {
		return kind{of: element}
	}
	return kind{of: t, name: name}
}

// places are the fields of all resources in the versions of the API that have no planned end, by kind.
type places struct {
	kinds map[place]kind
	of    map[kind][]place
}

func placesOfKubernetes() places {
	p := places{map[place]kind{}, map[kind][]place{}}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		_, ends := reflect.PointerTo(t).MethodByName("APILifecycleRemoved")
		if _, isObject := t.FieldByName("ObjectMeta"); ends || !isObject {
			continue
		}
		gvr, _ := meta.UnsafeGuessKindToResource(gvk)
		p.walk(gvr.GroupResource(), "", t, nil)
	}
	return p
}

// walk goes through the fields below a type. Of a type that holds itself it takes one level; status is never gated.
func (p places) walk(in schema.GroupResource, path string, t reflect.Type, above []reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Map:
		p.walk(in, path+"[*]", t.Elem(), above)
		return
	case t.Kind() != reflect.Struct || slices.Contains(above, t):
		return
	}
	above = append(slices.Clip(above), t)
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch at := strings.TrimPrefix(path+"."+name, "."); {
		case name == "" && f.Anonymous:
			p.walk(in, path, f.Type, above)
		case name == "" || name == "-" || at == "status":
		default:
			here, k := place{in.Group, in.Resource, at}, kindOf(name, f.Type)
			if _, known := p.kinds[here]; !known {
				p.kinds[here], p.of[k] = k, append(p.of[k], here)
			}
			p.walk(in, at, f.Type, above)
		}
	}
}

// leftOut are the siblings of gated fields that the example leaves out, and why.
var leftOut = map[string]string{
	`^(podtemplates|replicationcontrollers|replicasets|statefulsets|daemonsets|jobs|cronjobs) .*\btemplate\.spec\.`: "README.md says it: of what makes pods, the example gates Deployments",
	`^deployments spec\.template\.spec\.ephemeralContainers\b`:                                                      "the API server refuses it: TestE2EKubernetesOwnKinds tries",
	`^(pods spec|deployments spec\.template\.spec)\.resources\.claims$`:                                             "the API server refuses it: TestE2EKubernetesOwnKinds tries",
	`^pods spec\.ephemeralContainers\[\*\]\.(resources\.claims|lifecycle\.(preStop|postStart)\.sleep)$`:             "the API server refuses it: TestE2EKubernetesOwnKinds tries",
	`\.(containers|ephemeralContainers)\[\*\]\.restartPolicy$`:                                                      "Kubernetes has the gate ContainerRestartRules for these",
	`\.topologySpreadConstraints\[\*\]\.matchLabelKeys$`:                                                            "Kubernetes has the gate MatchLabelKeysInPodTopologySpread for it",
}

// TestSiblingsOfGatedFieldsAreGated walks the Go types of Kubernetes' API: where a gated field is reached by another path too, or
// another field has its type, the same feature gates it there.
func TestSiblingsOfGatedFieldsAreGated(t *testing.T) {
	data, err := os.ReadFile("features.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Features []v1alpha1.FeatureSpec `json:"features"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	all, reasons, siblings := placesOfKubernetes(), map[string]bool{}, 0
	for _, f := range file.Features {
		gated := map[place]bool{}
		for _, p := range f.Parts {
			gated[place{p.Group, p.Resource, p.Field}] = true
		}
		for part := range gated {
			k, ok := all.kinds[part]
			if !ok {
				t.Errorf("%s: no type has %v", f.Gate, part)
			}
			for _, sibling := range all.of[k] {
				siblings++
				if !gated[sibling] && !isLeftOut(sibling, reasons) {
					t.Errorf("%s gates %v, and not %v", f.Gate, part, sibling)
				}
			}
		}
	}
	for pattern := range leftOut {
		if !reasons[pattern] {
			t.Errorf("nothing is left out by %s", pattern)
		}
	}
	if siblings < 200 {
		t.Errorf("only %d siblings were found", siblings)
	}
}

// isLeftOut reports whether a place is left out, and notes the reason.
func isLeftOut(p place, seen map[string]bool) bool {
	for pattern := range leftOut {
		if regexp.MustCompile(pattern).MatchString(p.resource + " " + p.path) {
			seen[pattern] = true
			return true
		}
	}
	return false
}

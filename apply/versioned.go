package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// With kapp, a ConfigMap or Secret can get a new name for each content, so that Pods which refer to it restart. This file chooses the
// number in the name and changes the references. For example, settings becomes settings-ver-3 if the content of settings-ver-2 in the
// cluster differs, and a Deployment of the source that mounts settings mounts settings-ver-3.

// kapp's annotations for objects that get a new name for each content: NAME-ver-N (carvel-dev/kapp pkg/kapp/diff).
const (
	kappVersioned    = "kapp.k14s.io/versioned"
	kappKeepOriginal = "kapp.k14s.io/versioned-keep-original"
	kappNumVersions  = "kapp.k14s.io/num-versions"
	kappExplicitRef  = "kapp.k14s.io/versioned-explicit-ref"

	versionInfix = "-ver-"
	// numVersions is the number of versions to keep if the object does not say.
	numVersions = 5
)

// versionedName returns the object's name with a version.
func (v *versioned) versionedName(n int) string {
	return v.original.Name + versionInfix + strconv.Itoa(n)
}

// versionNumberOf returns the version of the object that an ID has; 0 for none.
func (v *versioned) versionNumberOf(id ID) int {
	text, ok := strings.CutPrefix(id.Name, v.original.Name+versionInfix)
	if !ok || id.Group != v.original.Group || id.Kind != v.original.Kind || id.Namespace != v.original.Namespace {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || strconv.Itoa(n) != text {
		return 0
	}
	return n
}

// versionObjects adds versions to the names of objects whose annotation asks for it: the last version if the content is the same, and
// the next one otherwise. References to these objects follow. Earlier versions stay, as many as the object's annotation says.
//
// A reference to an object of the source that has no version stays. With the annotation for keeping the original, the object is
// applied under its own name too.
func (a *Applier) versionObjects(ctx context.Context, p *Plan) error {
	renamed := map[ID]string{}
	var originals []Item
	for it := range eachOf(p.Items) {
		content, err := it.decodeContent()
		if err != nil {
			return err
		}
		annotations := annotationsOf(content)
		if _, asked := annotations[kappVersioned]; !asked {
			continue
		}
		if p.inventory == nil {
			p.notDone = append(p.notDone, fmt.Sprintf("%s: versions need --app, whose inventory tells which there are; it is applied under its own name", it.ID))
			continue
		}
		v := &versioned{original: it.ID, keep: numVersions}
		if text, there := annotations[kappNumVersions]; there {
			s, _ := text.(string)
			if v.keep, err = strconv.Atoi(s); err != nil || v.keep < 1 {
				return it.wrapError(fmt.Errorf("annotation %s is %q: it is a number, 1 at least", kappNumVersions, s))
			}
		}
		if _, both := annotations[kappKeepOriginal]; both {
			originals = append(originals, *it)
		}
		if err := a.chooseVersion(ctx, p, it, content, v); err != nil {
			return it.wrapError(err)
		}
		renamed[v.original] = it.Name
		p.versioned = append(p.versioned, v)
	}
	if len(renamed) == 0 {
		return nil
	}
	for i := range p.Items {
		if err := updateReferences(&p.Items[i], renamed); err != nil {
			return p.Items[i].wrapError(err)
		}
	}
	p.Items = append(p.Items, originals...)
	return nil
}

// chooseVersion finds the version of an item and renames it.
func (a *Applier) chooseVersion(ctx context.Context, p *Plan, it *Item, content map[string]any, v *versioned) error {
	for i := range p.inventory.Objects {
		v.current = max(v.current, v.versionNumberOf(p.inventory.Objects[i].ID))
	}
	rename := func() error {
		it.Name = v.versionedName(v.current)
		metadataOf(content)["name"] = it.Name
		return it.setContent(content)
	}
	if v.current == 0 {
		v.current = 1
		return rename()
	}
	if err := rename(); err != nil {
		return err
	}
	if it.mapping.pending {
		return errors.New("is of a kind that only the source defines, so its versions are not known")
	}
	live, err := a.client.fetchObject(ctx, it.mapping.objectPath(&it.Object))
	if err != nil || live == nil { // nil: recorded, and not created yet or already deleted
		return err
	}
	if entryOfOwnApplies(managedEntriesOf(live)).isAlreadyApplied(content, live) {
		return nil
	}
	v.current++
	return rename()
}

// isRetainedVersion reports whether an entry of the inventory is one of the last versions of an object of the source.
func (p *Plan) isRetainedVersion(id ID) bool {
	return slices.ContainsFunc(p.versioned, func(v *versioned) bool {
		n := v.versionNumberOf(id)
		return n > 0 && n < v.current && n > v.current-v.keep
	})
}

// updateReferences changes references to ConfigMaps and Secrets whose names now have a version. It also changes the other references,
// which an annotation of kapp lists.
//
// References have no common form in Kubernetes, so the function looks at all places of built-in kinds whose key says what they refer
// to. Custom kinds are left alone: there the same key may mean something else.
func updateReferences(it *Item, renamed map[ID]string) error {
	content, err := it.decodeContent()
	if err != nil {
		return err
	}
	changed := false
	to := func(m map[string]any, field, kind string) {
		old, _ := m[field].(string)
		if next, ok := renamed[ID{Kind: kind, Namespace: it.Namespace, Name: old}]; ok {
			m[field], changed = next, true
		}
	}
	var walk func(key string, v any)
	walk = func(key string, v any) {
		switch x := v.(type) {
		case map[string]any:
			kind, fields := nameFields(it.Kind, key)
			for _, f := range fields {
				to(x, f, kind)
			}
			for k, inner := range x {
				walk(k, inner)
			}
		case []any:
			for _, item := range x {
				walk(key, item)
			}
		}
	}
	if !strings.Contains(it.Group, ".") || it.Group == "networking.k8s.io" {
		for k, v := range content {
			if k != "metadata" {
				walk(k, v)
			}
		}
	}
	annotations := annotationsOf(content)
	for k, value := range annotations {
		if k != kappExplicitRef && !strings.HasPrefix(k, kappExplicitRef+".") {
			continue
		}
		text, _ := value.(string)
		next, err := referTo(text, k, it.Namespace, renamed)
		if err != nil {
			return err
		}
		if next != "" {
			annotations[k], changed = next, true
		}
	}
	if !changed {
		return nil
	}
	return it.setContent(content)
}

// nameFields returns what an object that stands at a key refers to, and the fields that may have the name; empty if it refers to
// nothing that has versions. of is the kind of the object around it.
func nameFields(of, key string) (kind string, fields []string) {
	switch key {
	case "configMap", "configMapRef", "configMapKeyRef":
		return "ConfigMap", []string{"name"}
	case "secret":
		return "Secret", []string{"secretName", "name"}
	case "secretRef", "secretKeyRef", "imagePullSecrets":
		return "Secret", []string{"name"}
	case "secrets":
		if of == "ServiceAccount" {
			return "Secret", []string{"name"}
		}
	case "tls":
		return "Secret", []string{"secretName"}
	}
	return "", nil
}

// referTo changes the reference in an annotation; empty if its object keeps its name.
func referTo(text, annotation, namespace string, renamed map[ID]string) (string, error) {
	var ref map[string]any
	if err := yaml.Unmarshal([]byte(text), &ref); err != nil || ref["kind"] == nil || ref["name"] == nil {
		return "", fmt.Errorf("annotation %s is no object with apiVersion, kind and name", annotation)
	}
	kind, _ := ref["kind"].(string)
	name, _ := ref["name"].(string)
	next, ok := renamed[ID{Group: kindOf(ref).Group, Kind: kind, Namespace: namespace, Name: name}]
	if !ok {
		return "", nil
	}
	ref["name"] = next
	b, err := yaml.Marshal(ref)
	return string(b), err
}

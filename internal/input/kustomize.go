package input

// What does kustomize make of a CRD? kubebuilder's layout keeps the conversion webhook of config/crd/bases/widgets.yaml in the patch
// config/crd/patches/webhook_in_widgets.yaml, which config/crd/kustomization.yaml lists. The patched CRD is the one that is installed, so
// it is the one to compare. Labels, prefixes, and whatever else a kustomization does with names are left out: they change no schema.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"

	"sluice.dev/internal/limit"
)

// kustomization has the fields of a kustomization.yaml that patch
// (https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/).
type kustomization struct {
	Resources             []string         `json:"resources"`
	Bases                 []string         `json:"bases"`
	Components            []string         `json:"components"`
	Patches               []kustomizePatch `json:"patches"`
	PatchesJSON6902       []kustomizePatch `json:"patchesJson6902"`
	PatchesStrategicMerge []string         `json:"patchesStrategicMerge"`
}

type kustomizePatch struct {
	Path   string           `json:"path"`
	Patch  string           `json:"patch"`
	Target *kustomizeTarget `json:"target"`

	dir string // the folder of the kustomization that has it
}

// kustomizeTarget chooses the objects that a patch is for. All but the selectors are expressions that match the whole value.
type kustomizeTarget struct {
	Group              string `json:"group"`
	Version            string `json:"version"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	Namespace          string `json:"namespace"`
	LabelSelector      string `json:"labelSelector"`
	AnnotationSelector string `json:"annotationSelector"`
}

const (
	maxKustomizeBytes = 1 << 20
	// maxKustomizeLevels is how many folders above a CRD may have its kustomization: config/crd for config/crd/bases/v1/widgets.yaml.
	maxKustomizeLevels = 3
	// maxComponents is how deep components may have components, and how many folders above a kustomization they may be.
	maxComponents = 4
)

var kustomizationNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// kustomizer applies the patches of kustomizations to the definitions of a set.
type kustomizer struct {
	r    *reader
	read func(ctx context.Context, name string) ([]byte, error)
	// byDir has the kustomization of each folder that was looked at; nil for none.
	byDir map[string]*kustomization
	// used has the folders of kustomizations whose patches are for a definition that was read.
	used map[string]bool
}

// applyKustomizations patches the definitions of a source. Patches that cannot be applied become warnings.
func (r *reader) applyKustomizations(ctx context.Context, read func(context.Context, string) ([]byte, error)) error {
	k := &kustomizer{r: r, read: read, byDir: map[string]*kustomization{}, used: map[string]bool{}}
	r.set.Documents = slices.DeleteFunc(r.set.Documents, func(d Document) bool { return k.isPatchFile(ctx, filepath.ToSlash(d.File)) })
	for i := range r.set.Documents {
		d := &r.set.Documents[i]
		if err := k.patchDocument(ctx, d, k.patchesOf(ctx, filepath.ToSlash(d.File))); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	for _, file := range r.kustomizations {
		if dir := path.Dir(filepath.ToSlash(file)); !k.used[dir] && k.patchesDefinitions(ctx, dir) && !slices.Contains(r.set.Patches, file) {
			r.set.Patches = append(r.set.Patches, file)
		}
	}
	return nil
}

// patchesDefinitions reports whether the kustomization in a folder says itself that it patches definitions: inline, or by a target.
func (k *kustomizer) patchesDefinitions(ctx context.Context, dir string) bool {
	found := k.readKustomization(ctx, dir, 0)
	return found != nil && slices.ContainsFunc(found.Patches, func(p kustomizePatch) bool {
		return strings.Contains(p.Patch, crdKind) || p.Target != nil && p.Target.Kind == crdKind
	})
}

// isPatchFile reports whether the kustomization of a file lists it as a patch.
func (k *kustomizer) isPatchFile(ctx context.Context, file string) bool {
	return slices.ContainsFunc(k.patchesOf(ctx, file), func(p kustomizePatch) bool { return p.Path != "" && path.Join(p.dir, p.Path) == file })
}

// patchesOf returns the patches that a file gets, in their order: those of its kustomization, then those of the ones in folders above that
// have the first as a base.
func (k *kustomizer) patchesOf(ctx context.Context, file string) []kustomizePatch {
	dir, found := k.kustomizationOf(ctx, path.Dir(file))
	if found == nil {
		return nil
	}
	patches := found.Patches
	for {
		above, next := k.kustomizationOf(ctx, path.Join(dir, ".."))
		isBase := func(name string) bool { return path.Join(above, name) == dir || path.Join(above, name) == file }
		if next == nil || above == dir || !slices.ContainsFunc(slices.Concat(next.Resources, next.Bases), isBase) {
			return patches
		}
		dir, patches = above, slices.Concat(patches, next.Patches)
	}
}

// kustomizationOf returns the kustomization in a folder, or in the nearest one above that has one.
func (k *kustomizer) kustomizationOf(ctx context.Context, dir string) (nearest string, found *kustomization) {
	for range maxKustomizeLevels {
		if _, ok := k.byDir[dir]; !ok {
			k.byDir[dir] = k.readKustomization(ctx, dir, 0)
		}
		if k.byDir[dir] != nil {
			return dir, k.byDir[dir]
		}
		dir = path.Join(dir, "..")
	}
	return "", nil
}

// readKustomization reads the kustomization in a folder, nil if there is none. Its patches begin with those of its components, which are nested
// depth deep.
func (k *kustomizer) readKustomization(ctx context.Context, dir string, depth int) *kustomization {
	for _, name := range kustomizationNames {
		file := path.Join(dir, name)
		data, err := k.read(ctx, file)
		if err != nil {
			continue
		}
		out := &kustomization{}
		if err := sigsyaml.Unmarshal(data, out); err != nil {
			k.warn(file, "", fmt.Errorf("its patches are not applied: %w", err))
			return nil
		}
		// kustomize applies them in this order (api/internal/target/kusttarget_configplugin.go).
		all := make([]kustomizePatch, len(out.PatchesStrategicMerge))
		for i, text := range out.PatchesStrategicMerge {
			if strings.ContainsAny(text, "\n:{") {
				all[i].Patch = text
			} else {
				all[i].Path = text
			}
		}
		all = slices.Concat(all, out.Patches, out.PatchesJSON6902)
		for i := range all {
			all[i].dir = dir
		}
		out.Patches = append(k.componentPatches(ctx, file, out.Components, depth), all...)
		return out
	}
	return nil
}

// componentPatches returns the patches of the components that the kustomization file lists. kustomize applies them first (accumulateTarget in
// api/internal/target/kusttarget.go).
func (k *kustomizer) componentPatches(ctx context.Context, file string, components []string, depth int) []kustomizePatch {
	var out []kustomizePatch
	for _, name := range components {
		clean := path.Clean(name)
		switch steps := strings.Count(clean+"/", "../"); {
		case strings.Contains(name, ":") || path.IsAbs(clean) || steps > maxComponents:
			k.warn(file, "", fmt.Errorf("the component %s is elsewhere, and its patches are not applied; render the kustomization, and check what comes out", name))
			continue
		case depth == maxComponents:
			k.warn(file, "", fmt.Errorf("its components are not read: they are nested deeper than %d levels", maxComponents))
			continue
		}
		found := k.readKustomization(ctx, path.Join(path.Dir(file), clean), depth+1)
		if found == nil {
			k.warn(file, "", fmt.Errorf("the component %s has no kustomization.yaml that can be read, and its patches are not applied", name))
			continue
		}
		out = append(out, found.Patches...)
	}
	return out
}

func (k *kustomizer) warn(file, crd string, err error) {
	w := Warning{CRD: crd, Message: strings.ReplaceAll(err.Error(), "\n", " ")}
	w.Position.File = file
	k.r.set.Warnings = append(k.r.set.Warnings, w)
}

// patchDocument applies the patches that are about a definition.
func (k *kustomizer) patchDocument(ctx context.Context, d *Document, patches []kustomizePatch) error {
	for _, p := range patches {
		k.used[p.dir] = true
		file, text := path.Join(p.dir, "kustomization.yaml"), []byte(p.Patch)
		if p.Path != "" {
			file = path.Join(p.dir, p.Path)
			if !fs.ValidPath(p.Path) && !fs.ValidPath(path.Clean(p.Path)) {
				continue // outside of the folder, which kustomize refuses
			}
			var err error
			if text, err = k.read(ctx, file); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				k.warn(file, d.CRD.Name, fmt.Errorf("this patch cannot be read: %w", systemReason(err)))
				continue
			}
		}
		applied, err := applyPatch(d, p, text)
		if err != nil {
			k.warn(file, d.CRD.Name, fmt.Errorf("this patch of %s is not applied: %w", d.CRD.Name, err))
		}
		if applied {
			d.Patched = true
			k.r.set.Patches = slices.DeleteFunc(k.r.set.Patches, func(name string) bool { return path.Clean(filepath.ToSlash(name)) == file })
		}
	}
	return nil
}

// errDirective says that a patch has a directive of strategic merge patches.
var errDirective = errors.New("it has a directive $patch; render the kustomization, and check what comes out")

// applyPatch applies a patch to a definition, if it is about it: a JSON patch (RFC 6902), or objects to merge. Definitions have no lists
// that merge by a key, so a strategic merge is a JSON merge patch (RFC 7386).
func applyPatch(d *Document, p kustomizePatch, text []byte) (applied bool, err error) {
	chosen := p.Target != nil
	if chosen {
		if ok, err := p.Target.choosesDefinition(d.CRD); !ok || err != nil {
			return false, err
		}
	}
	for _, chunk := range splitStream(string(text)) {
		if contentOffset(chunk.text) < 0 {
			continue
		}
		data, err := yaml.ToJSON([]byte(chunk.text))
		if err != nil {
			return applied, err
		}
		var value any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &value); err != nil {
			return applied, err
		}
		object, isObject := value.(map[string]any)
		if isObject && !chosen && !isAbout(object, d.CRD.Name) || !isObject && !chosen {
			continue
		}
		if metadata, ok := object["metadata"].(map[string]any); ok && chosen { // the target has the name, whatever the patch says
			delete(metadata, "name")
			if data, err = json.Marshal(object); err != nil {
				return applied, err
			}
		}
		if err := d.patch(data, isObject); err != nil {
			return applied, err
		}
		applied = true
	}
	return applied, nil
}

// choosesDefinition reports whether a definition is among the objects that the target chooses.
func (t *kustomizeTarget) choosesDefinition(crd *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	group, version, _ := strings.Cut(crdVersion, "/")
	for _, c := range []struct{ pattern, value string }{
		{t.Group, group}, {t.Version, version}, {t.Kind, crdKind}, {t.Name, crd.Name}, {t.Namespace, crd.Namespace},
	} {
		expression, err := regexp.Compile("^(?:" + c.pattern + ")$")
		if err != nil {
			return false, err
		}
		if c.pattern != "" && !expression.MatchString(c.value) {
			return false, nil
		}
	}
	for _, c := range []struct {
		selector string
		values   map[string]string
	}{{t.LabelSelector, crd.Labels}, {t.AnnotationSelector, crd.Annotations}} {
		selector, err := labels.Parse(c.selector)
		if err != nil {
			return false, err
		}
		if !selector.Matches(labels.Set(c.values)) {
			return false, nil
		}
	}
	return true, nil
}

// isAbout reports whether a patch names a definition.
func isAbout(object map[string]any, name string) bool {
	metadata, _ := object["metadata"].(map[string]any)
	return object["kind"] == crdKind && metadata["name"] == name
}

// patch replaces the definition by what a patch makes of it.
func (d *Document) patch(patch []byte, merge bool) error {
	if merge && strings.Contains(string(patch), `"$patch"`) {
		return errDirective
	}
	before, err := json.Marshal(d.CRD)
	if err != nil {
		return err
	}
	var after []byte
	if merge {
		after, err = jsonpatch.MergePatch(before, patch)
	} else {
		var ops jsonpatch.Patch
		if ops, err = jsonpatch.DecodePatch(patch); err == nil {
			after, err = ops.Apply(before)
		}
	}
	if err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(after, crd); err != nil {
		return err
	}
	if crd.Name != d.CRD.Name {
		return fmt.Errorf("it renames the definition to %q", crd.Name)
	}
	crd.APIVersion, crd.Kind = crdVersion, crdKind
	d.CRD = crd
	return nil
}

// readBeside reads a small file of the file system.
func (r *reader) readBeside(_ context.Context, name string) ([]byte, error) {
	full := filepath.FromSlash(name)
	if !filepath.IsAbs(full) {
		full = filepath.Join(r.opts.Dir, full)
	}
	f, err := os.Open(full) //nolint:gosec // beside the files that the user names
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fs.ErrInvalid
	}
	return limit.ReadAll(f, maxKustomizeBytes)
}

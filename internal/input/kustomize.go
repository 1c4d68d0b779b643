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
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
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

// kustomization has the fields of a kustomization.yaml that say which CRDs it has, and patch them
// (https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/).
type kustomization struct {
	Kind                  string           `json:"kind"`
	Resources             []string         `json:"resources"`
	Bases                 []string         `json:"bases"`
	Components            []string         `json:"components"`
	Patches               []kustomizePatch `json:"patches"`
	PatchesJSON6902       []kustomizePatch `json:"patchesJson6902"`
	PatchesStrategicMerge []string         `json:"patchesStrategicMerge"`
	// What is not applied.
	Transformers []string               `json:"transformers"`
	Replacements []kustomizeReplacement `json:"replacements"`

	file string
	// includes are the files and folders that it has as resources or bases, and those of its components. elsewhere are the ones that are
	// not in the repository.
	includes, elsewhere []string
	// unknown are the fields that kustomize does not know.
	unknown []string
	// holding is set if it includes a definition that was read.
	holding bool
}

// kustomizeReplacement copies a value into other objects; Path names a file with such.
type kustomizeReplacement struct {
	Path    string `json:"path"`
	Targets []struct {
		Select     kustomizeTarget `json:"select"`
		FieldPaths []string        `json:"fieldPaths"`
	} `json:"targets"`
}

// mayChangeSpecs reports whether a replacement may change more of a definition than its metadata, as that of a CA of cert-manager's does.
func (r kustomizeReplacement) mayChangeSpecs() bool {
	if r.Path != "" {
		return true
	}
	for _, t := range r.Targets {
		if (t.Select.Kind == "" || t.Select.Kind == crdKind) && slices.ContainsFunc(t.FieldPaths, func(p string) bool { return !strings.HasPrefix(strings.TrimPrefix(p, "."), "metadata.") }) {
			return true
		}
	}
	return false
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
	// maxOverlays is how many kustomizations may include each other.
	maxOverlays = 20
)

var kustomizationNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// kustomizer applies the patches of kustomizations to the definitions of a set.
type kustomizer struct {
	r *reader
	// read reads a file, and remembers it.
	read func(ctx context.Context, name string) ([]byte, error)
	// byDir has the kustomization of each folder that was looked at; nil for none.
	byDir map[string]*kustomization
	// includers are the kustomizations that include a file or folder, in the order in which they were found.
	includers map[string][]*kustomization
	// used are the folders of kustomizations whose patches are for a definition that was read.
	used map[string]bool
	// left are the kustomizations that change definitions and are not applied.
	left []*leftOverlay
}

// leftOverlay is a kustomization that changes definitions and is not applied, because there are others beside it.
type leftOverlay struct {
	base    string // the folder or file that each of them includes
	overlay *kustomization
	beside  *kustomization
	names   []string
}

// applyKustomizations patches the definitions of a source. Patches that cannot be applied become remarks. Files
// that a kustomization lists as patches are no definitions of their own. Kustomizations that patch definitions
// that were not read are listed with the patches.
func (r *reader) applyKustomizations(ctx context.Context, read func(context.Context, string) ([]byte, error)) error {
	k := &kustomizer{
		r: r, read: readingEachOnce(r.kustomizations, read),
		byDir: map[string]*kustomization{}, includers: map[string][]*kustomization{}, used: map[string]bool{},
	}
	for _, file := range slices.Sorted(maps.Keys(r.kustomizations)) {
		k.lookIn(ctx, path.Dir(file))
	}
	for _, d := range r.set.Documents {
		k.includersOf(ctx, filepath.ToSlash(d.File))
	}
	patchFiles := k.patchFiles()
	r.set.Documents = slices.DeleteFunc(r.set.Documents, func(d Document) bool { return patchFiles[k.placeOf(filepath.ToSlash(d.File))] })
	for i := range r.set.Documents {
		if err := k.renderDocument(ctx, &r.set.Documents[i]); err != nil {
			return err
		}
	}
	k.tellLeft()
	k.tellElsewhere()
	k.tellUnapplied()
	for _, found := range k.allFound() {
		r.set.Kustomizations = append(r.set.Kustomizations, found.file)
		if !k.used[path.Dir(found.file)] && found.patchesDefinitions() && r.kustomizations[found.file] != nil && !slices.Contains(r.set.Patches, found.file) {
			r.set.Patches = append(r.set.Patches, found.file)
		}
	}
	return ctx.Err()
}

// allFound returns the kustomizations that were read, in the order of their folders.
func (k *kustomizer) allFound() (out []*kustomization) {
	for _, dir := range slices.Sorted(maps.Keys(k.byDir)) {
		if c := k.byDir[dir]; c != nil {
			out = append(out, c)
		}
	}
	return out
}

// readingEachOnce returns a function that reads each file once. known are files that were read already.
func readingEachOnce(known map[string][]byte, read func(context.Context, string) ([]byte, error)) func(context.Context, string) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	results := map[string]result{}
	for name, data := range known {
		results[name] = result{data: data}
	}
	return func(ctx context.Context, name string) ([]byte, error) {
		got, ok := results[name]
		if !ok {
			got.data, got.err = read(ctx, name)
			results[name] = got
		}
		return got.data, got.err
	}
}

// patchesDefinitions reports whether a kustomization says itself that it patches definitions: inline, or by a target.
func (c *kustomization) patchesDefinitions() bool {
	return slices.ContainsFunc(c.Patches, func(p kustomizePatch) bool {
		return strings.Contains(p.Patch, crdKind) || p.Target != nil && p.Target.Kind == crdKind
	})
}

// patchFiles returns the files that a kustomization lists as patches.
func (k *kustomizer) patchFiles() map[string]bool {
	files := map[string]bool{}
	for _, found := range k.allFound() {
		for _, p := range found.Patches {
			if p.Path != "" {
				files[k.placeOf(path.Join(p.dir, p.Path))] = true
			}
		}
	}
	return files
}

// includersOf returns the kustomizations that include a file or folder: those that were read, and those in the folders above.
func (k *kustomizer) includersOf(ctx context.Context, name string) []*kustomization {
	dir := name
	for range maxKustomizeLevels {
		dir = path.Join(dir, "..")
		k.lookIn(ctx, dir)
	}
	return k.includers[k.placeOf(name)]
}

// renderDocument applies the patches of the kustomizations that include a definition, one after the other. Where there are several, none of
// them is applied: each makes something else of the definition.
func (k *kustomizer) renderDocument(ctx context.Context, d *Document) error {
	name := filepath.ToSlash(d.File)
	for _, c := range k.allIncluding(ctx, name) {
		c.holding = true
		d.Kustomizations = append(d.Kustomizations, c.file)
	}
	for range maxOverlays {
		found := k.includersOf(ctx, name)
		if len(found) != 1 {
			return k.leaveOverlays(ctx, d, name, found)
		}
		if err := k.patchDocument(ctx, d, found[0]); err != nil {
			return err
		}
		name = path.Dir(found[0].file)
	}
	return nil
}

// allIncluding returns the kustomizations that include a file, and those that include these, the nearest first.
func (k *kustomizer) allIncluding(ctx context.Context, name string) (all []*kustomization) {
	names := []string{name}
	for range maxOverlays {
		var next []string
		for _, name := range names {
			for _, c := range k.includersOf(ctx, name) {
				if !slices.Contains(all, c) {
					all, next = append(all, c), append(next, path.Dir(c.file))
				}
			}
		}
		names = next
	}
	return all
}

// leaveOverlays keeps in mind which of several kustomizations would change the spec of a definition, by themselves
// or by those that include them. It tries each of them on a copy. Those that would change nothing but metadata do
// not matter.
func (k *kustomizer) leaveOverlays(ctx context.Context, d *Document, base string, overlays []*kustomization) error {
	told := len(k.r.set.Remarks)
	defer func() { k.r.set.Remarks = k.r.set.Remarks[:told] }() // what is not applied needs no remark on its parts
	for i, overlay := range overlays {
		tried := *d
		for _, c := range append([]*kustomization{overlay}, k.allIncluding(ctx, path.Dir(overlay.file))...) {
			if err := k.patchDocument(ctx, &tried, c); err != nil {
				return err
			}
		}
		if reflect.DeepEqual(tried.CRD.Spec, d.CRD.Spec) {
			continue
		}
		at := slices.IndexFunc(k.left, func(l *leftOverlay) bool { return l.overlay == overlay })
		if at < 0 {
			at = len(k.left)
			k.left = append(k.left, &leftOverlay{base: base, overlay: overlay, beside: overlays[(i+1)%len(overlays)]})
		}
		k.left[at].names = append(k.left[at].names, d.CRD.Name)
	}
	return nil
}

// tellLeft names the kustomizations that change definitions and are not applied.
func (k *kustomizer) tellLeft() {
	for _, l := range k.left {
		changed := l.names[0]
		if n := len(l.names) - 1; n > 0 {
			changed += fmt.Sprintf(" and %d more", n)
		}
		k.addRemark(l.overlay.file, fmt.Sprintf("it changes %s, and is not applied, because %s includes %s, too; to check it, give the paths %[3]s %s",
			changed, path.Dir(l.beside.file), l.base, path.Dir(l.overlay.file)))
	}
}

// tellElsewhere names the resources that are not in the repository. For a kustomization without a definition that was read, only a change of
// them matters.
func (k *kustomizer) tellElsewhere() {
	for _, c := range k.allFound() {
		for _, name := range c.elsewhere {
			k.r.addRemark(c.file, fmt.Sprintf("its resource %s is elsewhere, and the CRDs in it are not compared", name), !c.holding)
		}
	}
}

// tellUnapplied names what kustomizations with definitions do to them that is not done here, and fields that kustomize does not know.
func (k *kustomizer) tellUnapplied() {
	for _, c := range k.allFound() {
		if !c.holding {
			continue
		}
		var fields []string
		if len(c.Transformers) > 0 {
			fields = append(fields, "transformers")
		}
		if slices.ContainsFunc(c.Replacements, kustomizeReplacement.mayChangeSpecs) {
			fields = append(fields, "replacements")
		}
		if len(fields) > 0 {
			k.r.addRemark(c.file, fmt.Sprintf("its %s are not applied; check what they render: kubectl kustomize %s | sluice check OLD -", strings.Join(fields, " and "), path.Dir(c.file)), false)
		}
		if len(c.unknown) > 0 {
			k.r.addRemark(c.file, fmt.Sprintf("kustomize refuses it: it has no field %s", c.unknown[0]), false)
		}
	}
}

// kustomizeFields are those of a kustomization, in any case of letters (sigs.k8s.io/kustomize/api/types, Kustomization).
var kustomizeFields = strings.Fields(`apiVersion bases buildMetadata commonAnnotations commonLabels components configMapGenerator configurations crds generatorOptions
	generators helmChartInflationGenerator helmCharts helmGlobals imageTags images kind labels metadata namePrefix nameSuffix namespace openapi patches
	patchesJson6902 patchesStrategicMerge replacements replicas resources secretGenerator sortOptions transformers validators vars`)

// placeOf returns one name for each file: seen from config/crd/bases, ../bases/widgets.yaml is widgets.yaml.
func (k *kustomizer) placeOf(name string) string {
	if k.r.inRevision {
		return name
	}
	if full, err := filepath.Abs(k.r.pathInDir(name)); err == nil {
		return filepath.ToSlash(full)
	}
	return name
}

// lookIn reads the kustomization in a folder, if there is one, once.
func (k *kustomizer) lookIn(ctx context.Context, dir string) {
	if _, ok := k.byDir[dir]; ok {
		return
	}
	found := k.readKustomization(ctx, dir, 0)
	k.byDir[dir] = found
	if found == nil || found.Kind == "Component" { // what a component has, the kustomization with the component includes
		return
	}
	for _, name := range found.includes {
		name = k.placeOf(name)
		if !slices.Contains(k.includers[name], found) {
			k.includers[name] = append(k.includers[name], found)
		}
	}
}

// readKustomization reads the kustomization in a folder, nil if there is none. Its patches begin with those of its
// components, which are nested depth deep. One that is no YAML gets a remark, and counts as none.
func (k *kustomizer) readKustomization(ctx context.Context, dir string, depth int) *kustomization {
	for _, name := range kustomizationNames {
		file := path.Join(dir, name)
		data, err := k.read(ctx, file)
		if err != nil {
			continue
		}
		out := &kustomization{file: file}
		if err := sigsyaml.Unmarshal(data, out); err != nil {
			k.addRemark(file, fmt.Sprintf("its patches are not applied: %v", err))
			return nil
		}
		fields := map[string]any{}
		_ = sigsyaml.Unmarshal(data, &fields) // it was read above
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if !slices.ContainsFunc(kustomizeFields, func(known string) bool { return strings.EqualFold(known, name) }) {
				out.unknown = append(out.unknown, name)
			}
		}
		for _, name := range slices.Concat(out.Resources, out.Bases) {
			if isRemote(name) {
				out.elsewhere = append(out.elsewhere, name)
			} else {
				out.includes = append(out.includes, path.Join(dir, name))
			}
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
		out.Patches = nil
		k.addComponents(ctx, out, depth)
		out.Patches = append(out.Patches, all...)
		return out
	}
	return nil
}

// remoteName matches a resource that kustomize fetches (https://github.com/kubernetes-sigs/kustomize/blob/master/examples/remoteBuild.md).
var remoteName = regexp.MustCompile(`:|\?|^(?:github|gitlab)\.com/`)

func isRemote(name string) bool { return remoteName.MatchString(name) }

// addComponents adds the patches and the resources of components. kustomize applies the patches first (accumulateTarget in
// api/internal/target/kusttarget.go).
func (k *kustomizer) addComponents(ctx context.Context, to *kustomization, depth int) {
	for _, name := range to.Components {
		clean := path.Clean(name)
		switch steps := strings.Count(clean+"/", "../"); {
		case isRemote(name) || path.IsAbs(clean) || steps > maxComponents:
			k.addRemark(to.file, fmt.Sprintf("its component %s is elsewhere, and the patches of it are not applied; render the kustomization, and check what comes out", name))
			continue
		case depth == maxComponents:
			k.addRemark(to.file, fmt.Sprintf("its components are not read: they are nested deeper than %d levels", maxComponents))
			continue
		}
		found := k.readKustomization(ctx, path.Join(path.Dir(to.file), clean), depth+1)
		if found == nil {
			k.addRemark(to.file, fmt.Sprintf("its component %s has no kustomization.yaml that can be read, and the patches of it are not applied", name))
			continue
		}
		to.Patches = append(to.Patches, found.Patches...)
		to.includes = append(to.includes, found.includes...)
		to.elsewhere = append(to.elsewhere, found.elsewhere...)
	}
}

// addRemark adds a remark about a file.
func (k *kustomizer) addRemark(file, text string) { k.r.addRemark(file, text, false) }

// patchDocument applies the patches of a kustomization that are about a definition. A patch that cannot be read or
// applied is a remark, and the others are applied. A file that was applied is no longer among the patches that
// were passed over.
func (k *kustomizer) patchDocument(ctx context.Context, d *Document, from *kustomization) error {
	k.used[path.Dir(from.file)] = true
	for _, p := range from.Patches {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		k.used[p.dir] = true // of a component
		if p.Target != nil {
			chosen, err := p.Target.choosesDefinition(d.CRD)
			if err != nil {
				k.addRemark(path.Join(p.dir, "kustomization.yaml"), fmt.Sprintf("a target of its patches is not understood: %v", err))
			}
			if !chosen {
				continue
			}
		}
		file, text := path.Join(p.dir, "kustomization.yaml"), []byte(p.Patch)
		if p.Path != "" {
			if file = path.Join(p.dir, p.Path); !fs.ValidPath(path.Clean(p.Path)) {
				k.addRemark(path.Join(p.dir, "kustomization.yaml"), fmt.Sprintf("its patch %s is outside of its folder, which kustomize refuses, and is not applied", p.Path))
				continue
			}
			var err error
			if text, err = k.read(ctx, file); err != nil {
				k.addRemark(file, fmt.Sprintf("this patch cannot be read: %v", systemReason(err)))
				continue
			}
		}
		applied, err := applyPatch(d, p, text)
		if err != nil {
			k.addRemark(file, fmt.Sprintf("this patch of %s is not applied: %v", d.CRD.Name, err))
		}
		if applied {
			d.Patched = true
			k.r.set.Patches = slices.DeleteFunc(k.r.set.Patches, func(name string) bool { return k.placeOf(path.Clean(filepath.ToSlash(name))) == k.placeOf(file) })
		}
	}
	return nil
}

// errDirective says that a patch has a directive of strategic merge patches.
var errDirective = errors.New("it has a directive $patch; render the kustomization, and check what comes out")

// applyPatch applies a patch to a definition, if it is about it, or has a target, which chooses the definition: a JSON patch (RFC 6902), or objects to merge. Definitions have no lists
// that merge by a key, so a strategic merge is a JSON merge patch (RFC 7386).
func applyPatch(d *Document, p kustomizePatch, text []byte) (applied bool, err error) {
	chosen := p.Target != nil
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

// choosesDefinition reports whether a definition is among the objects that the target chooses. A target without
// any condition chooses all. The error is for an expression or a selector that is none.
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
	f, err := os.Open(r.pathInDir(name))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fs.ErrInvalid
	}
	return limit.ReadAll(f, maxKustomizeBytes)
}

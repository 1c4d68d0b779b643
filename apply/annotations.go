package apply

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/apply/kapprules"
	"sluice.dev/internal/brief"
)

// This file reads what the annotations of an object say: Sluice's own, Helm's, and those by which other tools keep an object from
// being deleted or changed. Sluice honours those, too. Flux reads them from labels as well, so Sluice does so for all of them. For
// example, `argocd.argoproj.io/sync-options: Prune=false` keeps an object that the source no longer has.

// AnnotationApp on an object names the app that it belongs to, as NAMESPACE/NAME. The app neither prunes nor deletes an object
// without this annotation.
const AnnotationApp = "sluice.dev/app"

// LabelApp on an object identifies the app of [AnnotationApp]: its value is a digest of that name, which is too long for a label.
const LabelApp = "sluice.dev/app-id"

// annotationMadeBy on a namespace names the app that has created it, as NAMESPACE/NAME. The annotation comes with the creation, so
// it is right even if the run is interrupted or the inventory is lost. Server-side apply would not do: it cannot tell a creation
// from a change.
const annotationMadeBy = "sluice.dev/made-by"

// AnnotationIgnore on an object lists fields that keep the cluster's values, as JSON pointers (RFC 6901) separated by commas. The
// source's values count only when the object is created.
const AnnotationIgnore = "sluice.dev/ignore-fields"

// ignoreRuleOf reads the annotation as a rule.
func ignoreRuleOf(annotations map[string]any) (*kapprules.RebaseRule, error) {
	value, there := annotations[AnnotationIgnore]
	if !there {
		return nil, nil
	}
	text, _ := value.(string)
	rule := &kapprules.RebaseRule{Type: "copy", Sources: []string{"existing", "new"}}
	for _, pointer := range splitNames(text) {
		steps := strings.Split(pointer, "/")
		if len(steps) < 2 || steps[0] != "" || steps[1] == "" {
			return nil, fmt.Errorf("annotation %s has %q: it has JSON pointers such as /spec/replicas, separated by commas", AnnotationIgnore, pointer)
		}
		if steps[1] == "apiVersion" || steps[1] == "kind" {
			return nil, fmt.Errorf("annotation %s has %q: an object without it is none", AnnotationIgnore, pointer)
		}
		var path kapprules.Path
		for _, s := range steps[1:] {
			e := kapprules.Element{Key: strings.NewReplacer("~1", "/", "~0", "~").Replace(s)}
			if n, err := strconv.Atoi(s); err == nil && n >= 0 {
				e.Index, e.InList = n, true
			} else if s == "*" {
				e.All = true
			}
			path = append(path, e)
		}
		rule.Paths = append(rule.Paths, path)
	}
	if len(rule.Paths) == 0 {
		return nil, fmt.Errorf("annotation %s names no field", AnnotationIgnore)
	}
	return rule, nil
}

// splitNames returns the names in a list that commas separate, without the spaces around them; nil if there is none.
func splitNames(text string) []string {
	var out []string
	for n := range strings.SplitSeq(text, ",") {
		if n = strings.TrimSpace(n); n != "" {
			out = append(out, n)
		}
	}
	return out
}

// AnnotationOnImmutable on an object decides what happens if immutable fields differ. Its only value is "replace": the apply
// deletes and creates the object again.
const AnnotationOnImmutable = "sluice.dev/on-immutable"

// onImmutable reads the annotation.
func onImmutable(id ID, annotations map[string]any) (bool, error) {
	value, there := annotations[AnnotationOnImmutable]
	switch {
	case !there:
		return false, nil
	case value != "replace":
		return false, fmt.Errorf("annotation %s is %q: its one value is replace", AnnotationOnImmutable, value)
	case isNamespace(id) || id.isCRD():
		return false, fmt.Errorf("annotation %s: a %s is not replaced, for all that is in it would be deleted", AnnotationOnImmutable, id.Kind)
	}
	return true, nil
}

// Annotations on an object that decide by its conditions whether it is ready, instead of kstatus. They stay on the object in the
// cluster, so that later runs use them too.
const (
	// AnnotationReadyWhen has conditions as TYPE=STATUS, separated by commas. The object is ready when it has one of them. The only
	// other value is "applied": the apply does not wait for the object.
	AnnotationReadyWhen = "sluice.dev/ready-when"
	// AnnotationFailedWhen has conditions. The object has failed when it has one of them.
	AnnotationFailedWhen = "sluice.dev/failed-when"

	readyApplied = "applied"
	// kappNoWait is kapp's annotation for objects that an apply does not wait for.
	kappNoWait = "kapp.k14s.io/disable-wait"
)

// condition is a type and a status of a condition.
type condition struct{ kind, status string }

func (c condition) String() string { return c.kind + "=" + c.status }

// parseConditions reads the value of an annotation.
func parseConditions(name, text string) ([]condition, error) {
	var out []condition
	for part := range strings.SplitSeq(text, ",") {
		kind, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || kind == "" || value == "" {
			return nil, fmt.Errorf("annotation %s is %q: it has conditions as TYPE=STATUS, separated by commas", name, text)
		}
		out = append(out, condition{kind, value})
	}
	return out, nil
}

// checkReady checks the readiness annotations of a manifest.
func checkReady(annotations map[string]any) error {
	for _, name := range []string{AnnotationReadyWhen, AnnotationFailedWhen} {
		value, there := annotations[name]
		text, _ := value.(string)
		if !there || name == AnnotationReadyWhen && text == readyApplied {
			continue
		}
		if _, err := parseConditions(name, text); err != nil {
			return err
		}
	}
	return nil
}

// Annotations of Helm that change how Sluice treats an object (helm.sh/helm/v3/pkg/release/hook.go, pkg/kube/resource_policy.go).
const (
	annotationHook   = "helm.sh/hook"
	annotationPolicy = "helm.sh/resource-policy"
)

// hookEvents reads the annotation as Helm does; none if it is missing or names nothing.
func hookEvents(annotations map[string]any) []string {
	value, _ := annotations[annotationHook].(string)
	return splitNames(strings.ToLower(value))
}

// treatment is how Sluice treats an object with such an annotation.
type treatment struct {
	// kept: only people delete it.
	kept bool
	// alone: Sluice neither creates nor changes it. exists: the apply waits until somebody else has created it.
	alone, exists bool
	// once: Sluice creates it, and does not change it later.
	once bool
}

// mark is the meaning of an annotation's value. understood is false for a value that the tool does not know.
type mark func(value string) (t treatment, understood bool)

// markForValue returns the meaning of an annotation with one special value; ordinary values mean nothing.
func markForValue(t treatment, special string, usual ...string) mark {
	return func(value string) (treatment, bool) {
		value = strings.ToLower(strings.TrimSpace(value))
		if value == special {
			return t, true
		}
		return treatment{}, slices.Contains(usual, value)
	}
}

// foreign lists the annotations of other tools that change how Sluice treats an object, with the place where their tool reads them.
// docs/apply.md has the same table.
var foreign = map[string]mark{
	// helm.sh/helm/v3/pkg/kube/resource_policy.go
	annotationPolicy: markForValue(treatment{kept: true}, "keep", ""),
	// carvel-dev/kapp, pkg/kapp/clusterapply: add_or_update_change.go, delete_change.go
	"kapp.k14s.io/delete-strategy": markForValue(treatment{kept: true}, "orphan", ""),
	"kapp.k14s.io/noop":            markForValue(treatment{alone: true, kept: true}, ""),
	"kapp.k14s.io/exists":          markForValue(treatment{alone: true, kept: true, exists: true}, ""),
	"kapp.k14s.io/update-strategy": markForValue(treatment{once: true}, "skip", "", "fallback-on-replace", "always-replace"),
	// fluxcd/kustomize-controller, docs/spec/v1/kustomizations.md, "Controlling the apply behavior of resources"
	"kustomize.toolkit.fluxcd.io/prune":     markForValue(treatment{kept: true}, "disabled", "", "enabled"),
	"kustomize.toolkit.fluxcd.io/reconcile": markForValue(treatment{alone: true, kept: true}, "disabled", "", "enabled"),
	"kustomize.toolkit.fluxcd.io/ssa": func(value string) (treatment, bool) {
		switch strings.ToLower(strings.TrimSpace(value)) {
		case "ignore":
			return treatment{alone: true, kept: true}, true
		case "ifnotpresent":
			return treatment{once: true}, true
		case "", "override", "merge":
			return treatment{}, true
		}
		return treatment{}, false
	},
	// argo-cd, docs/user-guide/sync-options.md and resource_hooks.md
	"argocd.argoproj.io/sync-options": syncOptions,
	"argocd.argoproj.io/hook": func(value string) (treatment, bool) {
		return treatment{alone: strings.TrimSpace(value) == "Skip"}, strings.TrimSpace(value) == "Skip"
	},
	// kubernetes-sigs/cli-utils, pkg/common/common.go
	"cli-utils.sigs.k8s.io/on-remove":         markForValue(treatment{kept: true}, "keep", ""),
	"client.lifecycle.config.k8s.io/deletion": markForValue(treatment{kept: true}, "detach", ""),
	"client.lifecycle.config.k8s.io/mutation": markForValue(treatment{once: true}, "ignore", ""),
}

// syncOptions reads the options of Argo CD. There, Prune and Delete are two switches, for pruning and for deleting the app. Sluice
// keeps an object in both cases if one of them is false or confirm. The other options do not decide about deletions.
func syncOptions(value string) (treatment, bool) {
	t, understood := treatment{}, true
	for option := range strings.SplitSeq(value, ",") {
		name, setting, _ := strings.Cut(strings.TrimSpace(option), "=")
		switch name {
		case "":
		case "Prune", "Delete":
			switch setting {
			case "false", "confirm":
				t.kept = true
			case "true":
			default:
				t.kept, understood = true, false
			}
		case "ServerSideApply", "PruneLast", "SkipDryRunOnMissingResource":
		default:
			understood = false
		}
	}
	return t, understood
}

// foreignPrefixes are prefixes of annotations that Sluice reports if it does not understand them. foreignNotes are exceptions:
// annotations that tools write for themselves, or that other code of Sluice reads. A suffix after a dot is no other annotation.
var (
	foreignPrefixes = []string{
		"helm.sh/", "kapp.k14s.io/", "kustomize.toolkit.fluxcd.io/", "argocd.argoproj.io/", "cli-utils.sigs.k8s.io/", "client.lifecycle.config.k8s.io/",
	}
	foreignNotes = []string{
		annotationHook, "helm.sh/hook-weight", "helm.sh/hook-delete-policy", "helm.sh/chart",
		kappGroup, kappRule, kappNoWait, kappVersioned, kappKeepOriginal, kappNumVersions, kappExplicitRef,
		"kapp.k14s.io/app", "kapp.k14s.io/association", "kapp.k14s.io/config", "kapp.k14s.io/identity", "kapp.k14s.io/original", "kapp.k14s.io/original-diff", "kapp.k14s.io/original-diff-md5",
		"kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace", "kustomize.toolkit.fluxcd.io/checksum",
		"argocd.argoproj.io/tracking-id",
	}
	// foreignLive are annotations that also count if only the object in the cluster has them.
	foreignLive = []string{"kustomize.toolkit.fluxcd.io/reconcile", "kustomize.toolkit.fluxcd.io/ssa"}
)

// foreignAndUnknown reports whether another tool may act on an annotation that Sluice does not know.
func foreignAndUnknown(key string) bool {
	return slices.ContainsFunc(foreignPrefixes, func(p string) bool { return strings.HasPrefix(key, p) }) &&
		!slices.ContainsFunc(foreignNotes, func(n string) bool { return key == n || strings.HasPrefix(key, n+".") })
}

// deletionWords mark the names of annotations about deletion. If Sluice does not know such an annotation, the object stays.
var deletionWords = []string{"delet", "prune", "remove", "policy"}

// marks is the meaning of all annotations of an object.
type marks struct {
	treatment

	// keptBy, aloneBy and onceBy name the annotations that decide so, as KEY or KEY: VALUE.
	keptBy, aloneBy, onceBy string
	// unknown names the annotations that Sluice does not understand.
	unknown []string
}

// marksOf reads labels and annotations.
func marksOf(obj map[string]any) marks {
	texts := map[string]string{}
	copyTexts(texts, metadataOf(obj)["labels"])
	copyTexts(texts, metadataOf(obj)["annotations"])
	return marksOfTexts(texts)
}

// marksOfTexts reads annotations, and labels that stand for annotations.
func marksOfTexts(texts map[string]string) marks {
	var out marks
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		read := foreign[key]
		if read == nil && !foreignAndUnknown(key) {
			continue
		}
		by := key
		if v := texts[key]; v != "" {
			by += ": " + brief.Clip(v, 30)
		}
		t, understood := treatment{}, false
		if read != nil {
			t, understood = read(texts[key])
		}
		if !understood {
			out.unknown = append(out.unknown, by)
			_, name, _ := strings.Cut(key, "/")
			t.kept = t.kept || slices.ContainsFunc(deletionWords, func(w string) bool { return strings.Contains(name, w) })
		}
		note := func(is bool, was *bool, first *string) {
			if is && !*was {
				*was, *first = true, by
			}
		}
		note(t.kept, &out.kept, &out.keptBy)
		note(t.alone, &out.alone, &out.aloneBy)
		note(t.once, &out.once, &out.onceBy)
		out.exists = out.exists || t.exists
	}
	return out
}

package apply

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice.dev/internal/brief"
)

// Other tools have annotations that keep an object from being deleted or changed. Sluice honours them. Flux reads them from labels
// as well, so Sluice does so for all of them.

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
		"kapp.k14s.io/app", "kapp.k14s.io/association", "kapp.k14s.io/identity", "kapp.k14s.io/original", "kapp.k14s.io/original-diff", "kapp.k14s.io/original-diff-md5",
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
	meta, _ := obj["metadata"].(map[string]any)
	texts := map[string]string{}
	for _, field := range []string{"labels", "annotations"} {
		list, _ := meta[field].(map[string]any)
		for k, v := range list {
			if s, ok := v.(string); ok {
				texts[k] = s
			}
		}
	}
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

// keptReason says why an object is not deleted.
func (m *marks) keptReason() string {
	return fmt.Sprintf("its annotation %s says that it stays", m.keptBy)
}

// reasonToSpare says why the apply does not write an item; empty if it does. l is the object in the cluster, nil for none.
func (m *marks) reasonToSpare(l *live) string {
	switch {
	case m.alone:
		return fmt.Sprintf("its annotation %s says that it is left alone", m.aloneBy)
	case l != nil && m.once:
		return fmt.Sprintf("its annotation %s says that it is not changed once it exists", m.onceBy)
	case l != nil && l.alone && slices.ContainsFunc(foreignLive, func(key string) bool { return strings.HasPrefix(l.aloneBy, key) }):
		return fmt.Sprintf("the annotation %s of the object in the cluster says that it is left alone", l.aloneBy)
	}
	return ""
}

// foreignNote lists annotations that Sluice does not understand; empty if there are none.
func (p *Plan) foreignNote() string {
	const most = 5
	var keys []string
	first := map[string]ID{}
	for i := range p.Items {
		for _, key := range p.Items[i].marks.unknown {
			if _, told := first[key]; !told {
				first[key] = p.Items[i].ID
				keys = append(keys, key)
			}
		}
	}
	if len(keys) == 0 {
		return ""
	}
	var parts []string
	for _, key := range keys[:min(len(keys), most)] {
		parts = append(parts, fmt.Sprintf("%s (%s)", key, first[key]))
	}
	if n := len(keys) - most; n > 0 {
		parts = append(parts, fmt.Sprintf("%d more", n))
	}
	return "annotations of other tools that have no effect here: " + strings.Join(parts, ", ") + "; an object with one that speaks of deletion is never deleted"
}

// sparedNote lists objects that the apply does not write because of an annotation; empty if there are none.
func (p *Plan) sparedNote() string {
	const most = 5
	var parts []string
	n := 0
	for i := range p.Items {
		if it := &p.Items[i]; it.Reason != "" {
			if n++; n <= most {
				parts = append(parts, fmt.Sprintf("%s: %s", it.ID, it.Reason))
			}
		}
	}
	if n > most {
		parts = append(parts, fmt.Sprintf("%d more", n-most))
	}
	if n == 0 {
		return ""
	}
	return "not written: " + strings.Join(parts, "; ")
}

// Package preflight makes a report of what the preflights of an apply found, with the configuration applied to it. Commands
// and controllers share it.
//
// It does not run the preflights, which package apply does, and it does not decide severities, which the configuration does.
package preflight

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/apply"
	"sluice.dev/internal/config"
	"sluice.dev/internal/crdcheck"
	"sluice.dev/internal/input"
	"sluice.dev/report"
)

// Rules gives the IDs of all rules, which a configuration may name. They are those of crdcheck, in its order.
func Rules() []string {
	var out []string
	for _, r := range crdcheck.Rules() {
		out = append(out, r.ID)
	}
	return out
}

// Doc finds the documentation of a rule, for printers that carry it.
func Doc(id string) (report.RuleDoc, bool) {
	r, ok := crdcheck.Lookup(id)
	if !ok {
		return report.RuleDoc{}, false
	}
	return report.RuleDoc{ID: r.ID, Title: r.Title, Why: r.Why, Help: r.Help}, true
}

// Report tells what was found on the way from what a cluster has, which before names, to sources, which after names. It is
// sorted, and its findings are placed where the documents, by name of the CRD, have them. Fail mode, levels and suppressions
// are those of CRDUpgradeSafety; it and FeatureGates have a mode each.
func Report(cfg *config.Config, ran *apply.PreflightResult, before, after string, documents map[string]input.Document, now time.Time) *report.Report {
	r := &report.Report{Old: before, New: after, Mode: cfg.Mode(), FailMode: cfg.FailMode(), CRDs: ran.Found[apply.CRDUpgradeSafety]}
	if ran.KubeVersion != nil && len(r.CRDs) > 0 {
		r.KubeVersion = ran.KubeVersion.String()
	}
	cfg.Apply(r, now)
	r.CRDs = append(r.CRDs, ran.Found[apply.PermissionValidation]...)
	r.CRDs = append(r.CRDs, withFeatureSeverity(cfg, ran.Found[apply.FeatureGates])...)
	if len(r.CRDs) == 0 || len(r.CRDs) > len(ran.Found[apply.CRDUpgradeSafety]) {
		r.Noun = "resource"
	}
	r.Sort()
	for i := range r.CRDs {
		for j := range r.CRDs[i].Findings {
			f := &r.CRDs[i].Findings[j]
			if doc, ok := documents[f.CRD]; ok && f.Position == nil {
				f.Position = doc.Place(f)
			}
		}
	}
	return r
}

// withFeatureSeverity gives the findings of FeatureGates the severities of its mode.
func withFeatureSeverity(cfg *config.Config, found []report.CRD) []report.CRD {
	if cfg.FeatureMode() == config.ModeError {
		return found
	}
	out := slices.Clone(found)
	for i := range out {
		out[i].Findings = slices.Clone(out[i].Findings)
		for j := range out[i].Findings {
			if f := &out[i].Findings[j]; f.Severity == report.Fail {
				f.Severity = report.Warn
			}
		}
	}
	return out
}

// Labels and keys of a ConfigMap with a configuration of kapp's (carvel-dev/kapp pkg/kapp/config/conf.go).
const (
	kappConfigLabel = "kapp.k14s.io/config"
	kappConfigKey   = "config.yml"
)

// Configs takes configurations of kapp's out of the objects of a source: they are about the others, and none themselves. A ConfigMap that
// kapp takes for a configuration is both.
func Configs(set *input.Set) (objects []input.Object, configs []config.Document) {
	for _, o := range set.Objects {
		var head metav1.TypeMeta
		if err := json.Unmarshal(o.JSON, &head); err == nil && config.IsKapp(head.APIVersion, head.Kind) {
			configs = append(configs, config.Document{Name: o.File, Line: o.Line, Data: o.JSON})
			continue
		}
		if head.APIVersion == "v1" && head.Kind == "ConfigMap" {
			if text, ok := configInConfigMap(o.JSON); ok {
				configs = append(configs, config.Document{Name: o.File, Line: o.Line, Data: []byte(text)})
			}
		}
		objects = append(objects, o)
	}
	return objects, configs
}

// configInConfigMap returns the configuration in a ConfigMap that kapp takes for one.
func configInConfigMap(text []byte) (string, bool) {
	if !bytes.Contains(text, []byte(kappConfigLabel)) {
		return "", false
	}
	var cm corev1.ConfigMap
	if err := json.Unmarshal(text, &cm); err != nil {
		return "", false
	}
	_, ok := cm.Labels[kappConfigLabel]
	return cm.Data[kappConfigKey], ok
}

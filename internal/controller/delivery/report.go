package delivery

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/apply"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/preflight"
	"sluice.dev/report"
)

// What the preflights found goes into three places: the condition has the few worst findings in one sentence, the status has some
// more with their witnesses, and a ConfigMap has the whole report. Each place has a limit of its own.

const (
	reportPrefix = "sluice-report-"
	// maxWorst bounds the findings in the status, maxWitness each of their witnesses, in bytes.
	maxWorst   = 5
	maxWitness = 4 << 10
	// maxReport bounds a report in a ConfigMap, in bytes. A longer one is kept only as text, which is bounded.
	maxReport = 800 << 10
)

// objectCount is a number in the type that a status has for it.
func objectCount(n int) int32 { return int32(min(n, math.MaxInt32)) } //nolint:gosec // bounded

// summarizeReport returns the findings for the status. The report is sorted within CRDs; here the worst of all come first.
//
// Suppressed findings and notes are counted, and not listed.
func summarizeReport(found *report.Report) *v1alpha1.DeliveryReport {
	s := found.Summary()
	out := &v1alpha1.DeliveryReport{Fail: objectCount(s.Fail), Warn: objectCount(s.Warn), Undecided: objectCount(s.Undecided), Notes: objectCount(s.Notes)}
	for _, severity := range []report.Severity{report.Fail, report.Warn} {
		for _, level := range allLevels() {
			for i := range found.CRDs {
				for j := range found.CRDs[i].Findings {
					f := &found.CRDs[i].Findings[j]
					if f.Severity == severity && f.Level == level && f.Suppressed == nil && f.Outcome != report.Note && len(out.Worst) < maxWorst {
						out.Worst = append(out.Worst, shortFinding(f))
					}
				}
			}
		}
	}
	return out
}

// allLevels lists all levels, that of findings without one last.
func allLevels() []report.Level {
	var out []report.Level
	for _, l := range report.Levels() {
		out = append(out, l.ID)
	}
	return append(out, "")
}

// shortFinding returns a finding in the size that a status has room for. Longer texts are cut at the end.
func shortFinding(f *report.Finding) v1alpha1.DeliveryFinding {
	out := v1alpha1.DeliveryFinding{
		Rule: f.Rule, Level: string(f.Level), Severity: string(f.Severity), CRD: f.CRD, Version: f.Version, Path: brief.Clip(f.Path, maxEvent),
		Message: brief.Clip(f.Message, maxEvent),
	}
	if w := f.Witness; w != nil {
		out.Witness, out.Effect = brief.Clip(w.Object, maxWitness), brief.Clip(w.Effect, maxEvent)
	}
	if o := f.Objects; o != nil {
		out.Checked, out.Affected, out.Examples = o.Checked, o.Affected, o.Examples[:min(len(o.Examples), maxWorst)]
	}
	return out
}

// blockedMessage describes in a few lines what stops a revision.
//
// The worst findings come first, with one stored object as an example, and then where the whole report is.
func blockedMessage(revision string, r *v1alpha1.DeliveryReport, s report.Summary) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d findings stop %s", s.Fail, revision)
	const most = 3
	n := 0
	for _, f := range r.Worst {
		if f.Severity != string(report.Fail) || n == most {
			break
		}
		n++
		fmt.Fprintf(&b, "; %s: %s", f.Rule, f.CRD)
		for _, part := range []string{f.Version, f.Path} {
			if part != "" {
				b.WriteString(" " + brief.Clip(part, 200))
			}
		}
		b.WriteString(": " + brief.Clip(f.Message, 300))
		if f.Checked > 0 {
			fmt.Fprintf(&b, " (%d of %d stored objects", f.Affected, f.Checked)
			if len(f.Examples) > 0 {
				b.WriteString(", " + f.Examples[0])
			}
			b.WriteString(")")
		}
	}
	if s.Fail > n {
		fmt.Fprintf(&b, "; and %d more", s.Fail-n)
	}
	if r.ConfigMap != "" {
		b.WriteString("; all is in ConfigMap " + r.ConfigMap)
	}
	return b.String()
}

// publishReport writes the whole report, as the ServiceAccount, into a ConfigMap that is deleted with the delivery.
//
// The JSON may take the whole room of a ConfigMap, and the text half of it. Of two that do not fit together, the JSON stays. A
// ConfigMap of the name that is not the delivery's stays as it is, and is an error.
func (r *run) publishReport(ctx context.Context, found *report.Report) (string, error) {
	data := map[string]string{}
	for key, format := range map[string]string{"report.json": "json", "report.txt": "text"} {
		var b bytes.Buffer
		if err := report.Print(&b, format, found, report.Options{Rules: preflight.Doc}); err != nil {
			return "", err
		}
		if b.Len() <= maxReport/2 || format == "json" && b.Len() <= maxReport {
			data[key] = b.String()
		}
	}
	if len(data["report.json"]) > maxReport/2 {
		delete(data, "report.txt")
	}
	kube, err := kubernetes.NewForConfig(r.impersonatedConfig())
	if err != nil {
		return "", err
	}
	controller := true
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.d.Namespace, Name: reportPrefix + r.d.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": "sluice"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: kind, Name: r.d.Name, UID: r.d.UID, Controller: &controller,
			}},
		},
		Data: data,
	}
	maps := kube.CoreV1().ConfigMaps(r.d.Namespace)
	old, err := maps.Get(ctx, cm.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = maps.Create(ctx, cm, metav1.CreateOptions{})
	case err != nil:
	case !metav1.IsControlledBy(old, r.d):
		err = fmt.Errorf("the ConfigMap %s is somebody else's", cm.Name)
	default:
		cm.ResourceVersion = old.ResourceVersion
		_, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
	}
	if err != nil {
		return "", err
	}
	return cm.Name, nil
}

// deliveryWarnings returns the API server's warnings for the status.
func deliveryWarnings(list []apply.Warning) []v1alpha1.DeliveryWarning {
	var out []v1alpha1.DeliveryWarning
	for _, w := range list[:min(len(list), maxWorst)] {
		one := v1alpha1.DeliveryWarning{Message: brief.Clip(w.Message, maxEvent), Objects: objectCount(len(w.Objects))}
		for _, id := range w.Objects[:min(len(w.Objects), maxWorst)] {
			one.Examples = append(one.Examples, id.String())
		}
		out = append(out, one)
	}
	return out
}

func warningsOf(r *v1alpha1.DeliveryReport) []v1alpha1.DeliveryWarning {
	if r == nil {
		return nil
	}
	return r.Warnings
}

// withWarnings returns a report with these warnings and no others; nil if nothing is left to report.
func withWarnings(r *v1alpha1.DeliveryReport, list []v1alpha1.DeliveryWarning) *v1alpha1.DeliveryReport {
	switch {
	case r == nil && len(list) == 0:
		return nil
	case r == nil:
		return &v1alpha1.DeliveryReport{Warnings: list}
	case len(list) == 0 && r.Fail+r.Warn+r.Undecided+r.Notes == 0:
		return nil
	}
	r.Warnings = list
	return r
}

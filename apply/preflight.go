package apply

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	kubeversion "k8s.io/component-base/version"

	"sluice.dev/report"
)

// Preflights check a plan before anything is written. Each is one value in [Preflights]. They see the cluster as it will be, because
// they know the plan, and they find more than the server would: the server judges one request at a time.

// Preflight is a check of a plan before the apply changes anything. It only finds. The severities of findings come from their
// levels, and the caller decides what fails.
type Preflight struct {
	// Name is the name by which users select the preflight. The names are kapp's if kapp has the same check.
	Name string
	// Run returns the findings by CRD, or by resource if they are about other kinds. An error means that it could not decide.
	Run func(ctx context.Context, p *PreflightInput) ([]report.CRD, error)
}

// The names of preflights.
const (
	CRDUpgradeSafety     = "CRDUpgradeSafety"
	PermissionValidation = "PermissionValidation"
	FeatureGates         = "FeatureGates"
)

// Preflights lists the preflights in the order in which they run. To add one, write one file and add one line here.
func Preflights() []Preflight {
	return []Preflight{
		{CRDUpgradeSafety, crdUpgradeSafety},         // no stored object, writer or reader of a CRD is harmed by its upgrade
		{PermissionValidation, permissionValidation}, // this user may do all that the apply needs
		{FeatureGates, featureGates},                 // the source uses no part of an API whose feature is off here
	}
}

// Preflight runs the preflights on a plan that are enabled, by their names, whatever the findings are; nil enables
// [CRDUpgradeSafety] alone. The caller decides what fails, by the severities of the findings and its configuration. An error, of type [*PreflightError], means that a preflight could not run.
// Then the caller must not apply the plan.
func (a *Applier) Preflight(ctx context.Context, p *Plan, enabled func(name string) bool) (*PreflightResult, error) {
	if enabled == nil {
		enabled = func(name string) bool { return name == CRDUpgradeSafety }
	}
	out := &PreflightResult{Found: map[string][]report.CRD{}}
	run := slices.DeleteFunc(Preflights(), func(f Preflight) bool { return !enabled(f.Name) })
	if len(run) == 0 {
		return out, nil
	}
	out.KubeVersion = version.MustParseGeneric(kubeversion.DefaultKubeBinaryVersion)
	if len(p.crds) > 0 {
		var err error
		if out.KubeVersion, err = a.client.reads.Version(ctx); err != nil {
			return nil, err
		}
	}
	in := &PreflightInput{
		Applier: a, Plan: p, KubeVersion: out.KubeVersion, Progress: a.events.notifyObserver,
		Unread: func(err error) { out.Unread = errors.Join(out.Unread, err) },
	}
	for _, f := range run {
		out.Ran = append(out.Ran, f.Name)
		found, err := f.Run(ctx, in)
		if err != nil {
			return nil, &PreflightError{f.Name, err}
		}
		out.Found[f.Name] = found
	}
	return out, nil
}

// PreflightResult has the findings of the preflights.
type PreflightResult struct {
	// Ran are the names of the preflights that ran, in order.
	Ran []string
	// Found has the findings by the name of the preflight.
	Found map[string][]report.CRD
	// KubeVersion is the Kubernetes version whose rules applied; nil if no preflight ran.
	KubeVersion *version.Version
	// Unread says why stored objects could not be read; nil if all were. Findings about them are undecided, and another run may decide
	// them.
	Unread error
}

// PreflightError means that a preflight could not run.
type PreflightError struct {
	Name string
	Err  error
}

// Error implements error.
func (e *PreflightError) Error() string { return "preflight " + e.Name + ": " + e.Err.Error() }

// Unwrap returns e.Err.
func (e *PreflightError) Unwrap() error { return e.Err }

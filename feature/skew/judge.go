package skew

// Do all agree about a feature? The settings, the processes that report it, those that it requires, and what
// enforces it at the API server. For example, with two revisions of a webhook, one of which has the feature
// off, the condition says RollingUpdate and names both.

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/brief"
)

const (
	// maxNamed is how many processes are named on one side of a disagreement, maxGates how many disagreements in a condition.
	maxNamed = 5
	maxGates = 20
	// maxMessage is how long the message of a condition may be; the API allows 32 KiB.
	maxMessage = 8 << 10
)

// Disagreement is a feature about which not all agree.
type Disagreement struct {
	// Gate is the feature.
	Gate string
	// Settings is the state of the feature by the settings; nil if the component has no settings in the cluster.
	Settings *bool
	// On and Off are the processes that report the feature as on and off, sorted, in the form PROCESS/INSTANCE (RELEASE). A process
	// that knows others of the component's features but not this one is in neither.
	On, Off []string
	// Missing are required processes that do not report the feature; some of them may not report anything.
	Missing []string
	// Restart are processes among On and Off that take the settings in when they start the next time.
	Restart []string
	// Enforced is the enforced state if it differs from the effective one; nil otherwise.
	Enforced *Enforced
	// Effective is true if the feature is in effect.
	Effective bool
	// RollingUpdate means that all deviating reports come from processes that run in two revisions at the moment.
	RollingUpdate bool
}

// String describes the disagreement in one sentence without a full stop.
func (d *Disagreement) String() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if d.Settings != nil {
		add("the settings say %s", feature.OnOff(*d.Settings))
	}
	if d.On != nil {
		add("on in %s", joinNames(d.On))
	}
	if d.Off != nil {
		add("off in %s", joinNames(d.Off))
	}
	if d.Missing != nil {
		add("not reported by %s, which it needs", joinNames(d.Missing))
	}
	if d.Restart != nil {
		add("%s to be restarted", joinNames(d.Restart))
	}
	if e := d.Enforced; e != nil {
		if d.Settings == nil || *d.Settings != d.Effective {
			add("%s in effect", feature.OnOff(d.Effective))
		}
		add("enforced as %s by %s", feature.OnOff(e.Open), e.By)
	}
	text := d.Gate + ": " + strings.Join(parts, "; ")
	if d.RollingUpdate {
		text += "; a rolling update is under way"
	}
	return text
}

func joinNames(names []string) string { return brief.FirstNames(names, maxNamed) }

// Judge decides whether all agree.
func Judge(in *Input) *Result {
	live := Live(in.Model, in.Reports, in.Now)
	j := &judge{Input: in, runs: map[string]revision{}, rolling: map[string]bool{}, enforced: map[string]*Enforced{}, result: &Result{
		Features: map[string]metav1.Condition{}, Live: live, States: in.Model.Resolve(in.Settings, Runtime(live)),
	}}
	j.wanted = in.Model.Resolve(in.Settings, feature.Runtime{AssumeProcesses: true})
	j.readReports()
	for i := range in.Enforced {
		// Of several that enforce a feature, one that differs counts.
		e := &in.Enforced[i]
		if s, ok := j.result.States.State(e.Gate); ok && (j.enforced[e.Gate] == nil || e.Open != s.Open) {
			j.enforced[e.Gate] = e
		}
	}
	for _, f := range in.Model.Features() {
		j.judgeFeature(f)
	}
	j.judgeComponent()
	return j.result
}

type judge struct {
	*Input

	result   *Result
	wanted   *feature.States
	members  []member
	runs     map[string]revision // of one instance of each process that runs
	rolling  map[string]bool     // processes that run in several revisions
	late     bool                // some process has not read the settings yet
	enforced map[string]*Enforced
}

// member is an instance of a process.
type member struct {
	process, name string
	gates         map[string]v1alpha1.ReportedFeature
	late          bool // it has not read the settings yet, and has time left
}

type revision struct{ release, revision string }

// readReports goes through the reports.
func (j *judge) readReports() {
	left := j.SettingsTime.Add(Grace).Sub(j.Now)
	for i := range j.result.Live {
		r := &j.result.Live[i]
		s := &r.Spec
		j.judgeAgainIn(Expires(r).Sub(j.Now))
		rev := revision{s.Release, s.Revision}
		if first, ok := j.runs[s.Process]; ok && first != rev {
			j.rolling[s.Process] = true
		}
		j.runs[s.Process] = rev
		m := member{process: s.Process, name: s.Process + "/" + s.Instance, gates: make(map[string]v1alpha1.ReportedFeature, len(s.Features))}
		if s.Release != "" {
			m.name += " (" + s.Release + ")"
		}
		for _, f := range s.Features {
			m.gates[f.Gate] = f
		}
		if left > 0 && s.SettingsVersion != "" && s.SettingsVersion != j.SettingsVersion && len(s.SettingsErrors) == 0 {
			m.late, j.late = true, true
			j.judgeAgainIn(left)
		}
		j.members = append(j.members, m)
	}
}

// judgeAgainIn bounds the time for which the result holds.
func (j *judge) judgeAgainIn(d time.Duration) {
	if j.result.Again == 0 || d < j.result.Again {
		j.result.Again = d
	}
}

// judgeFeature judges one feature.
func (j *judge) judgeFeature(f *feature.Feature) {
	gate := f.Spec.Gate
	effective, _ := j.result.States.State(gate)
	d := Disagreement{Gate: gate, Effective: effective.Open}
	wanted, _ := j.wanted.State(gate)
	want, fromSettings := wanted.Open, j.Model.Spec().ConfigMap != nil
	if fromSettings {
		d.Settings = &want
	}
	known := map[string]bool{} // processes with an instance that knows the feature
	differs, rolling := false, true
	note := func(process string) {
		differs = true
		rolling = rolling && j.rolling[process]
	}
	for _, m := range j.members {
		v, knows := m.gates[gate]
		if !knows {
			continue
		}
		if len(known) == 0 && !fromSettings {
			want = v.Enabled // flags only: who differs from the first differs
		}
		known[m.process] = true
		if v.Enabled {
			d.On = append(d.On, m.name)
		} else {
			d.Off = append(d.Off, m.name)
		}
		if v.Pending != nil {
			d.Restart = append(d.Restart, m.name)
		}
		if v.Enabled != want && !m.late {
			note(m.process)
		}
	}
	if want {
		j.findMissing(f, &d, known, note)
	}
	d.RollingUpdate = differs && rolling
	if e := j.enforced[gate]; e != nil && e.Open != effective.Open {
		d.Enforced, d.RollingUpdate = e, false
	}
	j.result.Features[gate] = j.concludeFeature(&d, differs, want)
}

// findMissing finds the processes and instances that should have a feature on and do not know it. note takes the process of each.
func (j *judge) findMissing(f *feature.Feature, d *Disagreement, known map[string]bool, note func(process string)) {
	required := f.Spec.RequiredProcesses
	for _, p := range required {
		if _, runs := j.runs[p]; !runs {
			d.Missing = append(d.Missing, p)
			note(p)
		}
	}
	for _, m := range j.members {
		if _, knows := m.gates[f.Spec.Gate]; !knows && (known[m.process] || slices.Contains(required, m.process)) {
			d.Missing = append(d.Missing, m.name)
			note(m.process)
		}
	}
}

// concludeFeature makes the condition of a feature, and records a disagreement.
func (j *judge) concludeFeature(d *Disagreement, differs, want bool) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionSkew, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProcessesAgree}
	reporting := len(d.On) + len(d.Off)
	switch {
	case differs && d.RollingUpdate:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonRollingUpdate
	case differs:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonProcessesDisagree
	case d.Enforced != nil:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonEnforcementDiffers
	case reporting == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonNoReports, "no process reports this feature"
	default:
		c.Message = fmt.Sprintf("%s in %s", feature.OnOff(want), processCount(reporting))
	}
	if c.Status == metav1.ConditionTrue {
		c.Message = brief.Clip(d.String(), maxMessage)
		j.result.Disagreements = append(j.result.Disagreements, *d)
	}
	return c
}

// judgeComponent makes the condition of the component.
func (j *judge) judgeComponent() {
	c := metav1.Condition{Type: v1alpha1.ConditionSkew, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProcessesAgree}
	list := j.result.Disagreements
	var broken []string
	for i := range j.result.Live {
		if s := &j.result.Live[i].Spec; len(s.SettingsErrors) > 0 {
			broken = append(broken, s.Process+"/"+s.Instance+": "+s.SettingsErrors[0])
		}
	}
	switch {
	case len(list) > 0 || len(broken) > 0:
		c.Status = metav1.ConditionTrue
		c.Reason = v1alpha1.ReasonRollingUpdate
		// The worst reason of the features counts: a rolling update passes by itself.
		for i := range list {
			if f := j.result.Features[list[i].Gate]; f.Reason != v1alpha1.ReasonRollingUpdate && c.Reason != v1alpha1.ReasonProcessesDisagree {
				c.Reason = f.Reason
			}
		}
		if len(broken) > 0 {
			c.Reason = v1alpha1.ReasonProcessesDisagree
		}
		c.Message = j.skewMessage(list, broken)
	case len(j.result.Live) == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonNoReports, "no process of the component reports its features"
		if Namespaces(j.Model) == nil {
			c.Message = "the component has no ConfigMap and names no namespaces in which its processes run: no report counts"
		}
	default:
		c.Message = processCount(len(j.result.Live)) + " agree"
		if len(j.result.Live) == 1 {
			c.Message = "1 process agrees"
		}
		if j.late {
			c.Message += ", but for those that have yet to read the settings"
		}
	}
	c.Message = brief.Clip(c.Message, maxMessage)
	j.result.Component = c
}

// skewMessage is the message of the component's condition: a line for each disagreement, then the settings
// that processes refuse.
func (j *judge) skewMessage(list []Disagreement, broken []string) string {
	var lines []string
	for i := range list[:min(len(list), maxGates)] {
		lines = append(lines, list[i].String())
	}
	if more := len(list) - maxGates; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more features", more))
	}
	if broken != nil {
		lines = append(lines, "settings that are not taken: "+joinNames(broken))
	}
	return strings.Join(lines, "\n")
}

func processCount(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

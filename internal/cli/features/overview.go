package features

// What do the pages of sluice ui show of features? The same as list, get and skew, for all components at once, and
// two things more: which stages may follow by the policy of the project, and the commands that would change the
// feature. Nothing is printed: what would go to standard error is in Notes.

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/life"
)

// Overview is the features of all components, for pages.
type Overview struct {
	Components []Component
	// Notes say what could not be read, such as the reports of processes.
	Notes []string

	world *featureWorld
}

// Component is a component of an [Overview].
type Component struct {
	Name, Release string
	// Settings names the ConfigMap with the settings, as NAMESPACE/NAME; empty if there is none.
	Settings string
	// Wrong are the errors of the component and of the settings.
	Wrong []string
	// Skew says whether the processes agree, in a sentence; Disagree is set if they do not.
	Skew     string
	Disagree bool
	Features []Entry
}

// Entry is a feature of a [Component]. Its Details say what sluice features get says.
type Entry struct {
	Details

	// Entered is the entry in Stages that is in force, -1 for none. Since is the day of that stage; zero if it is not known.
	Entered int
	// On tells whether it is in effect, Used how many objects used it when they were last counted.
	On    bool
	Used  int64
	Since time.Time
	// History, Gates and WhenOff are texts for Stages, Parts, and for what happens to uses while the feature is off.
	History, Gates []string
	WhenOff        string
	// Next are the stages that may follow. Legal is the first one that the policy allows. If it allows none, TooEarly says why not the first one.
	Next            []life.NextStage
	Legal, TooEarly string
	// Commands change the feature; empty if its component has no settings.
	Commands []string
}

// ReadOverview reads the features of a cluster, or of files if some are named.
func ReadOverview(ctx context.Context, e *command.Env, flags *command.ClusterFlags, files []string) (*Overview, error) {
	var notes strings.Builder
	quiet := *e
	quiet.Err, quiet.ErrTTY = &notes, false
	w, err := readFeatures(ctx, &quiet, &featuresFlags{ClusterFlags: *flags, files: files}, nil)
	if err != nil {
		return nil, err
	}
	w.tellUnread(&quiet)
	o := &Overview{world: w}
	for line := range strings.Lines(notes.String()) {
		o.Notes = append(o.Notes, strings.TrimPrefix(strings.TrimSpace(line), "note: "))
	}
	wrong := w.errorsToTell(false)
	for _, p := range w.parts {
		c := Component{Name: p.component.Name, Release: p.component.Spec.Release}
		for _, text := range wrong.Components[c.Name] {
			c.Wrong = append(c.Wrong, "Component: "+text)
		}
		for _, text := range wrong.Settings[c.Name] {
			c.Wrong = append(c.Wrong, "Settings: "+text)
		}
		if ref := p.component.Spec.ConfigMap; ref != nil {
			c.Settings = ref.Namespace + "/" + ref.Name
		}
		// Without settings or reports, that nobody disagrees would be a guess.
		if s := p.skew; s != nil && p.hidden == nil && w.unreported == nil && len(s.Live) > 0 {
			c.Skew, c.Disagree = s.Component.Message, s.Component.Reason == v1alpha1.ReasonProcessesDisagree
		}
		for i := range w.chosen {
			if w.chosen[i].componentFeatures == p {
				c.Features = append(c.Features, w.chosen[i].entry(ctx, e.Now(), c.Settings != "" && len(files) == 0))
			}
		}
		o.Components = append(o.Components, c)
	}
	return o, nil
}

// entry is a feature for a page. settable tells that its component has settings that the command could change. A
// feature whose definition is wrong has no stage, and no commands.
func (c *chosenFeature) entry(ctx context.Context, now time.Time, settable bool) Entry {
	e := Entry{Details: c.detailsOf(), Entered: -1}
	for i := range e.Stages {
		e.History = append(e.History, stageText(&e.Stages[i]))
	}
	for i := range e.Parts {
		e.Gates = append(e.Gates, partText(&e.Parts[i]))
	}
	e.WhenOff = whenOff(e.WhenDisabled, e.Ratchet)
	e.Used = ptr.Deref(e.InUse, 0)
	e.On = ptr.Deref(e.Enabled, false)
	if c.state == nil {
		return e
	}
	if e.Entered = c.state.Feature.Entry; e.Entered >= 0 {
		e.Since, _ = time.Parse(time.DateOnly, e.Stages[e.Entered].Date)
	}
	e.Next = life.NextStages(ctx, c.component, &c.state.Feature.Spec, e.Stage, now)
	// A locked gate takes no setting, and a feature before its first stage does not exist yet.
	if settable && !c.state.Feature.Locked && e.Entered >= 0 {
		verb := "enable"
		if c.state.Open {
			verb = "disable"
		}
		e.Commands = append(e.Commands, "sluice features "+verb+" "+e.Name)
	}
	// The first step that no rule is against.
	i := slices.IndexFunc(e.Next, func(n life.NextStage) bool { return n.Against == "" })
	switch {
	case i >= 0 && e.Next[i].Stage == v1alpha1.Removed:
		e.Legal = string(e.Next[i].Stage)
		e.Commands = append(e.Commands, fmt.Sprintf("sluice features remove %s --release %s", e.Gate, e.Next[i].Release))
	case i >= 0:
		e.Legal = string(e.Next[i].Stage)
		e.Commands = append(e.Commands, fmt.Sprintf("sluice features promote %s --to %s --release %s", e.Gate, strings.ToLower(e.Legal), e.Next[i].Release))
	case len(e.Next) > 0:
		e.TooEarly = string(e.Next[0].Stage) + " is not allowed: " + e.Next[0].Against
	}
	return e
}

// CountUses counts the stored objects of a cluster that use a feature, and names some of them as RESOURCE
// NAMESPACE/NAME PATH. counted is a text such as "3 objects of 1,204". It fails for features from files, and for a
// name that is not there.
func (o *Overview) CountUses(ctx context.Context, e *command.Env, name string, most int) (counted string, objects []string, err error) {
	if o.world.cluster == nil {
		return "", nil, fmt.Errorf("these features are of files: without a cluster there are no objects to count")
	}
	if err := o.world.canScan(ctx, ""); err != nil {
		return "", nil, err
	}
	i := slices.IndexFunc(o.world.chosen, func(c chosenFeature) bool { return c.definition.Name == name })
	if i < 0 || o.world.chosen[i].state == nil {
		return "", nil, fmt.Errorf("there is no feature %q that could be counted", name)
	}
	c := &o.world.chosen[i]
	quiet := *e
	quiet.ErrTTY = false
	r, err := o.world.countUses(ctx, &quiet, c.componentFeatures, []string{c.definition.Spec.Gate}, "", true)
	if err != nil || len(r.Usage) == 0 {
		return "no object can use it", nil, err
	}
	u := usageFor(c.componentFeatures, &r.Usage[0])
	for _, n := range u.Named[:min(most, len(u.Named))] {
		objects = append(objects, fmt.Sprintf("%s %s %s", n.Resource, strings.TrimPrefix(n.Namespace+"/"+n.Name, "/"), n.Path))
	}
	return fmt.Sprintf("%s of %s", brief.Count(u.Objects, "object"), cmp.Or(brief.Number(r.Scanned), "0")), objects, nil
}

package policy

// Which policies enforce the features of a component? [Compile] groups the targets by resource, version and effect, makes a policy of each
// group, and lists for each target which policy enforces it. For example, ten gated fields of Tasks v1 that are refused become one
// ValidatingAdmissionPolicy.

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// Options say what policies are made for.
type Options struct {
	// Kubernetes is the oldest version of the API servers for the policies, such as 1.35; empty stands for [Newest]. A server
	// accepts only expressions of the version before its own (k8s.io/apiserver/pkg/cel/environment, DefaultCompatibilityVersion),
	// so that it can be rolled back.
	Kubernetes string
	// Mode overrides the component's.
	Mode v1alpha1.Mode
	// Settings are part of the policies in baked mode; nil stands for defaults. In live mode they are ignored, except for SettingsMissing.
	Settings *feature.Settings
	// Runtime has the reports of processes. Policies cannot know them by themselves.
	Runtime feature.Runtime
	// WithoutValidating and WithoutMutating say that the API server has no policies of that kind, in spite of its version.
	WithoutValidating, WithoutMutating bool
	// Items is the number of items of lists and maps, with uses of one part, that the policies must support within the API server's
	// limits of cost; zero stands for 5,000.
	Items int
	// SettingsMissing is true if a component in live mode has no ConfigMap, and it cannot be created. Until it is, Settings are
	// part of the policies, as in baked mode.
	SettingsMissing bool
	// Only is the resource whose policies are made; nil stands for all.
	Only *schema.GroupResource
	// Unguarded leaves out the policies that judge the settings when they are written.
	Unguarded bool
	// Object, if it is set, is the only one that the policies have to judge, with SettingsData as the data of the ConfigMap: those that have
	// nothing to say about it may be left out.
	Object       map[string]any
	SettingsData map[string]string
}

// Newest is the version of Kubernetes whose code judges the expressions, and the newest that can be asked for.
const Newest = "1.37"

// Versions that bring what policies need.
const (
	validatingSince = 30 // ValidatingAdmissionPolicy v1
	listsSince      = 33 // comprehensions with an index, which came with the version before
	nestedSince     = 35 // flatten, which came with the version before
	mutatingSince   = 36 // MutatingAdmissionPolicy v1
	newestMinor     = 37
)

// Enforced says what enforces one part of a feature in one version of a resource.
type Enforced struct {
	Gate string
	// Part is the index in the feature's spec.parts.
	Part                     int
	Group, Version, Resource string
	// Kind is ValidatingAdmissionPolicy or MutatingAdmissionPolicy, and Name that of the policy; both are empty if it
	// takes the webhook.
	Kind, Name string
	// Reason says in a sentence without an end why it takes the webhook; empty otherwise.
	Reason string
	// Undropped is true for a policy that refuses dropped parts which are there again, because another component set them later.
	Undropped bool
}

// Set has the objects that enforce the features of a component.
type Set struct {
	Component string
	Mode      v1alpha1.Mode
	// The policies and bindings, sorted by name. A binding has the name of its policy.
	Validating         []admissionregistrationv1.ValidatingAdmissionPolicy
	ValidatingBindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding
	Mutating           []admissionregistrationv1.MutatingAdmissionPolicy
	MutatingBindings   []admissionregistrationv1.MutatingAdmissionPolicyBinding
	// Enforced is in the order of gate, part, resource and version. It omits parts of features that are open for everybody for
	// good, or, in baked mode, by the settings.
	Enforced []Enforced
	// Told are parts for which the component's tellUse asks for a warning, and for which that needs the webhook. Kind and Name are
	// empty in all of them. The order is that of Enforced. It does not depend on which features are open.
	Told []Enforced
	// Webhook reports whether anything in Enforced takes the webhook.
	Webhook bool
	// SettingsReason says in a sentence without a full stop why, in live mode, no policy judges the settings when they are written,
	// so that the webhook must; empty if one does.
	SettingsReason string
	// Estimates are upper bounds for the cost of policies about objects, in the API server's units, with as many items as [Options]
	// say; by name.
	Estimates map[string]int64
}

// WebhookParts return the targets that the webhook has to judge: those that no policy enforces, and those of Told.
func (s *Set) WebhookParts() (judged, told func(*feature.Feature, *feature.Target) bool) {
	type place struct {
		gate, group, resource, version string
		part                           int
	}
	among := func(list []Enforced) func(*feature.Feature, *feature.Target) bool {
		left := map[place]bool{}
		for i := range list {
			if e := &list[i]; e.Kind == "" {
				left[place{e.Gate, e.Group, e.Resource, e.Version, e.Part}] = true
			}
		}
		return func(f *feature.Feature, t *feature.Target) bool {
			return left[place{f.Spec.Gate, t.Group, t.Resource, t.Version, t.Part}]
		}
	}
	return among(s.Enforced), among(s.Told)
}

// Compile makes policies of the features of a model. The error names options that are not valid. Parts that policies cannot express
// are no error.
func Compile(ctx context.Context, m *feature.Model, o Options) (*Set, error) {
	c, err := newCompiler(m, o)
	if err != nil {
		return nil, err
	}
	return c.compileGroups(ctx)
}

// compileGroups makes the policies of all groups, and what guards them. A context that ends is an error: half
// a set would leave parts open.
func (c *compiler) compileGroups(ctx context.Context) (*Set, error) {
	for _, g := range c.policyGroups() {
		if !c.hasNothingToSay(ctx, g) {
			c.compileGroup(ctx, g)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.finishSet(ctx)
	return c.set, ctx.Err()
}

// newCompiler fills in the defaults of the options. The states that it resolves are those of the settings only
// if policies do not read the settings themselves.
func newCompiler(m *feature.Model, o Options) (*compiler, error) {
	minor, err := minorOf(o.Kubernetes)
	if err != nil {
		return nil, err
	}
	o.Items = cmp.Or(o.Items, 5000)
	c := &compiler{
		model: m, options: o, minor: minor, groupOf: map[string]*group{}, costs: map[string][2]int64{},
		set: &Set{Component: m.Component(), Mode: cmp.Or(o.Mode, m.Spec().Mode), Estimates: map[string]int64{}},
	}
	c.follows = c.set.Mode == v1alpha1.Live && m.Spec().ConfigMap != nil
	c.live = c.follows && !o.SettingsMissing
	settings := o.Settings
	if c.live {
		settings = nil
	}
	c.states, c.names = m.Resolve(settings, o.Runtime), c.fieldNames()
	return c, nil
}

// minorOf reads a version of Kubernetes. A newer one than [Newest] counts as that.
func minorOf(text string) (int, error) {
	v, err := version.ParseGeneric(cmp.Or(text, Newest))
	if err != nil || v.Major() != 1 {
		return 0, fmt.Errorf("%q is no version of Kubernetes such as %s", text, Newest)
	}
	return min(int(v.Minor()), newestMinor), nil
}

type compiler struct {
	model   *feature.Model
	options Options
	minor   int
	// follows says that the settings are those of the ConfigMap, whenever it is there, and live that policies read it.
	follows, live bool
	states        *feature.States
	set           *Set
	groupOf       map[string]*group             // of each policy, by name
	shared        *plugincel.CompositedCompiler // of all runners
	costs         map[string][2]int64           // of expressions, by content or form and sample objects
	names         map[string]bool               // of fields, gates and keys
	largeSamples  bool                          // expressions are measured with [largeSampling]
}

// unit is one target of a feature in the making.
type unit struct {
	feature *feature.Feature
	target  *feature.Target
	state   feature.State
	ways    []shape // in which its values may be found
	shape   shape   // the first of them
	items   int     // how many of lists and maps are to pass
	// asked are the variables for the verdict, and words those that the message needs in addition.
	asked, words map[string]estimate
	patch        int64 // what taking it out costs
	dearest      int64 // the cost of the dearest expression
	limit        int   // how many items can be gone through; zero: those of the options
	told         bool  // it belongs to a policy that only warns about uses
	remains      bool  // it belongs to a policy that refuses parts that were dropped and set again
	alone        bool  // it shares no expression, because that costs too much
	together     int   // how many items are to pass in all lists of its [family]; zero: it has none
	few          bool  // sample objects have one item of it
}

// kind is the effect of a policy.
type kind string

const (
	rejects kind = "reject"
	warns   kind = "warn"
	tells   kind = "tell" // warns about uses of open parts
	drops   kind = "drop"
	remains kind = "undropped" // refuses parts that were dropped and set again by a later change of the object
)

// group are the targets that go into one kind of policy for one version of a resource.
type group struct {
	apiGroup, resource, version string
	kind                        kind
	whole                       bool // whole versions
	// claims is set for managed fields of the version in writes of other versions and of the status.
	claims  bool
	units   []unit
	costly  bool // to find out whether any part is used
	sampled bool // it is compiled to be measured with sample objects, which may have more items than the limits
	most    int  // how many items are gone through for that; 0: matchLimit
	plain   bool // only uses are tested before the validation: a test for open gates would cost too much
}

// policyGroups are the targets that policies can be made for. Others are left to the webhook.
func (c *compiler) policyGroups() (order []*group) {
	place := func(k kind, u unit) {
		if reason := c.webhookReason(&u); reason != "" {
			c.leaveToWebhook(&u, reason)
			return
		}
		order = c.addToGroup(order, k, u)
	}
	for _, f := range c.model.Features() {
		state, _ := c.states.State(f.Spec.Gate)
		for i := range f.Targets {
			t := &f.Targets[i]
			if c.leavesOut(t) {
				continue
			}
			ways := shapesOf(f, t)
			u := unit{feature: f, target: t, state: state, ways: ways, shape: ways[0], items: searchLimitOf(t, c.options.Items)}
			if slices.Contains(c.model.Spec().TellUse, f.Stage) {
				told := u
				told.told = true
				place(tells, told)
			}
			probe := c.newGates(newEmitter(c.minor))
			// What is open for everybody, whatever is set, needs no policy.
			if probe.isOpen(f.Spec.Gate, true) == "true" {
				continue
			}
			k := kindOf(f)
			if k == drops {
				left := u
				left.remains = true
				place(remains, left)
			}
			place(k, u)
		}
	}
	return order
}

// leavesOut reports whether no policy of a target's resource is asked for.
func (c *compiler) leavesOut(t *feature.Target) bool {
	return c.options.Only != nil && *c.options.Only != schema.GroupResource{Group: t.Group, Resource: t.Resource}
}

// addToGroup adds a unit to the group of its resource, version and kind, or begins that group.
func (c *compiler) addToGroup(list []*group, k kind, u unit) []*group {
	t := u.target
	i := slices.IndexFunc(list, func(g *group) bool {
		return g.apiGroup == t.Group && g.resource == t.Resource && g.version == t.Version && g.kind == k && g.whole == t.WholeVersion
	})
	if i < 0 {
		i, list = len(list), append(list, &group{apiGroup: t.Group, resource: t.Resource, version: t.Version, kind: k, whole: t.WholeVersion})
	}
	list[i].units = append(list[i].units, u)
	return list
}

// kindOf is the effect of a feature's policies on closed uses.
func kindOf(f *feature.Feature) kind {
	switch f.Spec.WhenDisabled {
	case v1alpha1.Drop:
		return drops
	case v1alpha1.Warn:
		return warns
	case v1alpha1.Reject:
	}
	return rejects
}

// leaveToWebhook records that no policy has a unit, and why. A unit that is only told does not make the
// webhook necessary for refusals.
func (c *compiler) leaveToWebhook(u *unit, reason string) {
	e := u.enforcedBy("", "")
	e.Reason = reason
	if u.told {
		c.set.Told = append(c.set.Told, e)
		return
	}
	c.set.Webhook = true
	c.set.Enforced = append(c.set.Enforced, e)
}

// enforcedBy says that a policy enforces a unit.
func (u *unit) enforcedBy(policy, name string) Enforced {
	t := u.target
	return Enforced{Gate: u.feature.Spec.Gate, Part: t.Part, Group: t.Group, Version: t.Version, Resource: t.Resource, Kind: policy, Name: name, Undropped: u.remains}
}

// compileGroup makes the policies of a group: as few as its size and cost allow. An equal group in another version of the resource gets the same, because
// its expressions have been measured already.
func (c *compiler) compileGroup(ctx context.Context, g *group) {
	part := 0
	for _, chunk := range c.splitBySize(g) {
		part = c.compileChunk(ctx, chunk, part)
	}
}

// compileChunk makes policies of a part of a group, behind those that there are, and returns how many there are then.
func (c *compiler) compileChunk(ctx context.Context, g *group, part int) int {
	var policies [][]unit
	units := c.affordableUnits(ctx, g)
	dear := func(u *unit) int {
		if _, twice := sumOf(g.kind, []unit{*u}); twice > maxPolicyCost/2 {
			return 1
		}
		return 0
	}
	// Parts that fill a policy alone come last: the API server reports the refusals of one policy only, so most parts should share one.
	slices.SortStableFunc(units, func(a, b unit) int { return cmp.Compare(dear(&a), dear(&b)) })
	for _, u := range units {
		at := slices.IndexFunc(policies, func(units []unit) bool { return fitsWith(g.kind, units, &u) })
		if at < 0 {
			at, policies = len(policies), append(policies, nil)
		}
		policies[at] = append(policies[at], u)
	}
	for _, units := range policies {
		part++
		p := *g
		p.units = units
		sum, twice := sumOf(g.kind, units)
		for i := range units {
			u := &units[i]
			most := min(maxExpressionCost*1000/max(u.dearest, 1), 1000+(maxBudget-sum)*1000/max(twice-sum, 1))
			u.limit = int(int64(c.itemLimit(u)) * most / 1000)
		}
		c.choosePrefilters(ctx, &p)
		c.set.Estimates[c.policyName(&p, part)] = sum
		c.addPolicy(&p, part)
		c.addClaimPolicy(&p, part)
	}
	return part
}

// itemLimit is how many items of a target are gone through, those of lists within lists counted too.
func (c *compiler) itemLimit(u *unit) int {
	n := max(u.limit, u.promisedItems()*max(u.shape.countLoops(), 1))
	if u.shape.countLoops() > 1 {
		n = min(n, matchLimit) // if the outer list has more, the inner items are not counted
	}
	return n
}

// promisedItems is how many items are to pass.
func (u *unit) promisedItems() int { return cmp.Or(u.together, u.items) }

// sampleLimit is a limit that lets all items of a sample object pass. Otherwise a measurement would show what it costs to refuse too many.
func sampleLimit(u *unit) int { return sample * max(u.shape.countLoops(), 1) }

// addClaimPolicy makes the policy that prevents false claims about writes in a closed version. The ratchet of a closed version relies on
// managed fields, and clients can send any managed fields, also with writes of other versions and of the status.
func (c *compiler) addClaimPolicy(g *group, part int) {
	claims := *g
	claims.claims = true
	claims.units = slices.DeleteFunc(slices.Clone(g.units), func(u unit) bool { return u.feature.Spec.Ratchet == v1alpha1.Unchanged })
	if g.whole && g.kind == rejects && len(claims.units) > 0 {
		c.addPolicy(&claims, part)
	}
}

// finishSet adds the policies that guard the settings, and sorts all objects.
func (c *compiler) finishSet(ctx context.Context) {
	s := c.set
	if c.follows {
		c.addAnchors()
	}
	if c.judgesSettings() {
		c.addGuardPolicies(ctx)
	}
	c.addScalePolicies()
	s.mergeVersions()
	c.otherVersions()
	slices.SortFunc(s.Validating, func(a, b admissionregistrationv1.ValidatingAdmissionPolicy) int {
		return strings.Compare(a.Name, b.Name)
	})
	slices.SortFunc(s.Mutating, func(a, b admissionregistrationv1.MutatingAdmissionPolicy) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.ValidatingBindings, func(a, b admissionregistrationv1.ValidatingAdmissionPolicyBinding) int {
		return strings.Compare(a.Name, b.Name)
	})
	slices.SortFunc(s.MutatingBindings, func(a, b admissionregistrationv1.MutatingAdmissionPolicyBinding) int {
		return strings.Compare(a.Name, b.Name)
	})
	for _, list := range [][]Enforced{s.Enforced, s.Told} {
		slices.SortStableFunc(list, func(a, b Enforced) int {
			return cmp.Or(strings.Compare(a.Gate, b.Gate), cmp.Compare(a.Part, b.Part), strings.Compare(a.Group, b.Group),
				strings.Compare(a.Resource, b.Resource), strings.Compare(a.Version, b.Version))
		})
	}
}

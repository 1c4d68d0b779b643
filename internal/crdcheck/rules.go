// Package crdcheck judges CRDs that are about to replace those of a cluster: the comparison of package compat, and the stored
// objects that package cluster reads, in one result. Commands, preflights and webhooks share it.
//
// It decides nothing of its own but which rule a count of stored objects belongs to. Configuration is for the caller.
package crdcheck

import (
	"slices"

	"sluice.dev/compat"
	"sluice.dev/report"
)

// Rules are the rules about CRDs and those about what a cluster has stored.
func Rules() []compat.Rule {
	return append(compat.Rules(), objectRules()...)
}

// Lookup finds a rule by its ID.
func Lookup(id string) (compat.Rule, bool) {
	rules := Rules()
	i := slices.IndexFunc(rules, func(r compat.Rule) bool { return r.ID == id })
	if i < 0 {
		return compat.Rule{}, false
	}
	return rules[i], true
}

// objectRules are the rules that only a cluster can answer. They bear out, with numbers and names, what the rules about
// schemas say can happen.
func objectRules() []compat.Rule {
	const help = `Look at the objects that the finding names; sluice check -o json lists more of them. Change them while the old CRD is
installed, or make the new CRD accept them.`
	return []compat.Rule{
		{
			ID: ruleObjectsRefused, Level: report.ObjectsStuck,
			Title: "stored objects would be refused by any update",
			Why: `Each stored object was read as the new CRD reads it, given a label, and validated as the API server validates such an
update. For these it would be refused, although nothing but a label changed: their controllers can no longer write to them, and
finalizers cannot be removed.`,
			Help: help,
		},
		{
			ID: ruleObjectsRatcheted, Level: report.ObjectsRatcheted,
			Title: "stored objects hold what is refused from now on",
			Why: `The API server tolerates an update of these objects as long as the value that is refused, and what it belongs to, is left
alone (ratcheting). An update that touches it is refused, and so is the object when it is created anew, from a backup for example.`,
			Help: help,
		},
		{
			ID: ruleObjectsPruned, Level: report.DataLost,
			Title: "stored objects would lose data",
			Why: `The new CRD does not know fields that these objects have. The API server hides them at once, and any write to the object,
of its status too, removes them for good.`,
			Help: help,
		},
		{
			ID:    ruleObjectsUnread,
			Title: "the stored objects could not be judged",
			Why: `The objects can only be read in a version that reaches the new storage version through a conversion webhook, which is not
run here, or not at all.`,
			Help: "Check the schemas of each version with sluice check OLD NEW, and try the webhook on a copy of the objects.",
		},
		{
			ID:    RuleNew,
			Title: "the cluster does not have this CRD",
			Why: `The CRD is compared with the one of the cluster, and the cluster has none: it is new there, so that nothing could be compared, and the
verdict only says that the API server would take it. Where the CRD should be installed already, the kubeconfig or its context is
that of another cluster.`,
			Help: "Check the context. --new-crds=fail makes this an error, --new-crds=allow takes it that none of the CRDs is installed yet.",
		},
		{
			ID:    RulePermission,
			Title: "a permission is missing for what is to be applied",
			Why: `The API server was asked, before the first write, whether this user may do all that the apply needs. Some of it they may
not: the apply would have stopped half-way.`,
			Help: "Have the permission granted that the finding names, or apply as somebody who has it.",
		},
		{
			ID:    RuleFeature,
			Title: "a part of an API is used whose feature is off",
			Why: `Unstable parts of an API are open only where the settings of their component say so. Here they do not: the object would be
refused, or stored without the part. What a stored object uses already it may go on with, and so may who has opted in.`,
			Help: "Set what the finding names, leave the part out, or have the namespace or the user opted in where the component allows that.",
		},
	}
}

// The rules about stored objects.
const (
	ruleObjectsRefused   = "stored-objects-refused"
	ruleObjectsRatcheted = "stored-objects-ratcheted"
	ruleObjectsPruned    = "stored-objects-pruned"
	ruleObjectsUnread    = "stored-objects-unread"
	// RuleNew is told of a CRD that is compared with a cluster and that the cluster does not have.
	RuleNew = "crd-not-in-cluster"
	// RulePermission is what the preflight PermissionValidation finds.
	RulePermission = "permission-missing"
	// RuleFeature is what the preflight FeatureGates finds.
	RuleFeature = "feature-off"
)

// Package crdcheck judges CRDs that are about to replace those of a cluster: the comparison of package compat, and the stored
// objects that package cluster reads, in one result. Commands, preflights and webhooks share it.
//
// It decides nothing of its own but which rule a count of stored objects belongs to. Configuration is for the caller.
package crdcheck

import (
	"slices"

	"sluice.dev/compat"
	"sluice.dev/conversion"
	"sluice.dev/report"
)

// Rules are the rules about CRDs, those about what a cluster has stored, and those about conversions, in this order.
func Rules() []compat.Rule {
	return slices.Concat(compat.Rules(), objectRules(), conversion.Rules())
}

// Lookup finds a rule by its ID. It is false for an ID that no rule has.
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
			Why: `Sluice read each stored object as the new CRD reads it, added a label, and validated the update as the API server does. The API server
would refuse the update of these objects, although only a label changed. Their controllers can no longer write to them, and nobody can
remove their finalizers. Or only the writes of their status are refused: Kubernetes 1.30 to 1.32 tolerate an old value in an update, and not
in a request to /status.`,
			Help: help,
		},
		{
			ID: ruleObjectsUnappliable, Level: report.ObjectsStuck,
			Title: "stored objects would be refused by every server-side apply",
			Why: `These objects hold a value of another type than the new CRD says, such as a string where it has an object. Ratcheting tolerates updates that
leave the value alone. A server-side apply is another matter: the API server merges it with the stored object by the types of the new
schema, and refuses it if a stored value does not fit its type. So neither kubectl apply --server-side nor Flux, Argo CD or
Sluice can apply these objects, not even with a manifest in which the value is right.`,
			Help: "Replace the value by an update or a merge patch (kubectl replace, kubectl patch --type=merge) right after the upgrade, or remove it before. Better add a field with another name.",
		},
		{
			ID: ruleObjectsRatcheted, Level: report.ObjectsRatcheted,
			Title: "stored objects hold values that the new CRD refuses",
			Why: `The API server tolerates an update of these objects as long as the update leaves the refused value and the part around it alone
(ratcheting). If an update touches the value, it is refused. The object is also refused when you create it again, for example from a backup.`,
			Help: help,
		},
		{
			ID: ruleObjectsPruned, Level: report.DataLost,
			Title: "stored objects would lose data",
			Why: `The new CRD does not declare some fields of these objects. The API server hides the fields at once. Any write to the object, even of
its status, removes them for good.`,
			Help: help,
		},
		{
			ID:    ruleObjectsUnread,
			Title: "the stored objects could not be checked",
			Why: `The objects can only be read in a version that needs a conversion webhook to reach the new storage version, and Sluice does not run the
webhook. Or no version leads to it at all. Or the API server cannot list them, because the webhook that converts them does not answer, or
because this user may not list them. Or a validation rule would take too long on a value of an object, such as
quantity("1e999999999"), which the API server's code writes out in full.`,
			Help: `Check the schemas of each version with sluice check OLD NEW, and try the webhook on a copy of the objects. If the change itself repairs the webhook, apply it with
--fail-mode open. If a value is too large for a
rule, give the field a maxLength or a pattern: the API server would take as long.`,
		},
		{
			ID:    RuleNew,
			Title: "the cluster does not have this CRD",
			Why: `The cluster does not have the CRD, so there is nothing to compare. The verdict only says that the API server would accept it. If the CRD
should be installed already, the kubeconfig or its context belongs to another cluster.`,
			Help: "Check the context. --new-crds=fail makes this an error, --new-crds=allow expects that none of the CRDs is installed yet.",
		},
		{
			ID:    RuleDeleted,
			Title: "the cluster is deleting this CRD",
			Why: `Somebody has deleted the CRD. It stays until its objects are gone, and takes them along. An update does not save it or them, whatever the
verdict on the update is.`,
			Help: "Find out who deleted it. If the objects are needed, save them now: kubectl get RESOURCE --all-namespaces -o yaml. The new CRD can be created once the old one is gone.",
		},
		{
			ID:    RulePermission,
			Title: "the user lacks a permission that the apply needs",
			Why: `Before the first write Sluice asks the API server if this user has every permission that the apply needs. One is missing, so the apply
would have stopped halfway.`,
			Help: "Ask for the permission that the finding names, or apply as a user who has it.",
		},
		{
			ID:    RuleFeature,
			Title: "an object uses a part of an API whose feature is off",
			Why: `Unstable parts of an API are open only if the settings of their component open them. Here they do not, so the API server would refuse the
object, or store it without the part. A stored object may keep the parts that it already uses, and users who opted in may use them.`,
			Help: "Turn on the feature that the finding names, or leave the part out. If the component allows it, opt the namespace or the user in.",
		},
	}
}

// The rules about stored objects.
const (
	ruleObjectsRefused     = "stored-objects-refused"
	ruleObjectsUnappliable = "stored-objects-unappliable"
	ruleObjectsRatcheted   = "stored-objects-ratcheted"
	ruleObjectsPruned      = "stored-objects-pruned"
	ruleObjectsUnread      = "stored-objects-unread"
	// RuleNew is told of a CRD that is compared with a cluster and that the cluster does not have.
	RuleNew = "crd-not-in-cluster"
	// RuleDeleted reports a CRD that the cluster is deleting.
	RuleDeleted = "crd-being-deleted"
	// RulePermission is what the preflight PermissionValidation finds.
	RulePermission = "permission-missing"
	// RuleFeature is what the preflight FeatureGates finds.
	RuleFeature = "feature-off"
)

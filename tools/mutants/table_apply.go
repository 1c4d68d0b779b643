package main

// applyFaults are faults in code that deletes and overwrites objects. The random test of two apps has found the first three. It
// needs an API server, so tests without one replace it here.
// They lie in the planning of what is applied and removed, and in the comparison of live objects with
// manifests. Most of them would delete or overwrite something of others.
var applyFaults = []fault{
	{
		in: "apply.(*Applier).compareWithLive", find: "ownerIn(obj) != p.ownerOf()", put: `ownerIn(obj) == ""`,
		broken: "an object that another app has taken over is taken for unchanged",
	},
	{
		in: "apply.(*Plan).hasCreatedNamespace", without: `record.Manifest != ""`,
		broken: "a namespace that another app has made is deleted, because an apply that was killed was to make it",
	},
	{
		in: "apply.(*Plan).hasCreatedNamespace", find: `record != nil && record.Manifest != ""`, put: `record == nil || record.Manifest != ""`,
		broken: "a namespace that was there before is deleted, because the app has forgotten it",
	},
	{
		in: "apply.(*Applier).writeItem", find: "!it.now.made", put: "it.now.made",
		broken: "a namespace that another app has made since the plan was is taken for the app's",
	},
	{in: "apply.(*Plan).isOurs", without: "v.entryOf(id) != nil || appliedHere(m)", broken: "a namespace takes along what somebody has copied"},
	{
		in: "apply.(*owners).ownerStays", find: "stays = err != nil", put: "stays = false",
		broken: "a namespace takes along what belongs to an object that may not be read",
	},
	{in: "apply.(*owners).ownerStays", without: "anyOwnerStays", broken: "a namespace takes along what belongs to an object that belongs to one that stays"},
	{
		in: "apply.(*Applier).ownersOf", without: "o.stays[types.UID(r.live.uid)] = false",
		broken: "a namespace is kept for the sake of what belongs to the app",
	},
	{in: "apply.(*Plan).shelterRemovals", without: "same[it.now.live.uid] = it.ID", broken: "an object is deleted that the source has in another group"},
	{
		in: "apply.(*Applier).deleteForReplace", find: "it.keptReason(l)", put: "it.keptReason(it.now.live)",
		broken: "an object is replaced that somebody keeps since it was tried",
	},
	{in: "apply.(*Item).keptReason", find: "it.marks.kept", put: "false", broken: "an object is replaced that the source keeps"},
	{
		in: "apply.(*Plan).rebaseItem", find: `e.subresource == ""`, put: `e.subresource != ""`,
		broken: "a field that is ignored goes with those of its former owner",
	},
	{in: "apply.(*node).placeNode", find: "later >= 0", put: "later > 0", broken: "what is after a group is written beside it"},
	{
		in: "apply.(*Plan).orderGraph", find: "after: members[g]", put: "after: members[g][:min(1, len(members[g]))]",
		broken: "what is after a group waits for its first object only",
	},
	{in: "apply.(*client).sendOnce", without: "isRefusal", broken: "what the server has refused is told as done"},
	{
		in: "apply.aboutSchema", find: "status.Status().Code == http.StatusInternalServerError", put: "status.Status().Code == http.StatusBadGateway",
		broken: "an object is refused that has a field that comes with its CRD",
	},
	{
		in: "apply.(*Applier).judgeByNewSchema", find: "len(refusals) == 0", put: "true",
		broken: "a CRD is written although it refuses an object of its source",
	},
	{
		in: "apply.isOfOneKind", find: "errors.As(err, &status)", put: "!errors.As(err, &status)",
		broken: "a search goes on in a cluster that does not accept the credentials",
	},
	{in: "apply.isOfOneKind", find: "!errors.Is(err, cluster.ErrNoAccess)", put: "false", broken: "one kind that cannot be read ends a search"},
	{in: "apply.(*client).hurried", find: "shortBusy", put: "c.busy", broken: "one kind that cannot be listed holds a search up for minutes"},
	{in: "apply.(*lock).markLost", find: "range l.users", put: "range l.users[:0]", broken: "a run goes on after its lock is lost"},
	{in: "apply.(*lock).renewUntilDone", find: "err == nil", put: "false", broken: "the reason of a lost lock is no error"},
	{
		in: "apply.sameFields", find: `ok && !wanted || !ok && key != "."`, put: `ok && wanted && !wanted || !ok && key != "."`,
		broken: "a field that left the manifest stays in the object", tests: modelPackage, e2e: modelTest,
	},
	{
		in: "apply.(*Applier).writeItem", find: "a.client.patchOr(ctx, path, it.json, false, p.request.Force)", put: "a.client.patchOr(ctx, path, it.json, false, false)",
		broken: "--force-conflicts takes no fields", tests: modelPackage, e2e: modelTest,
	},
	{
		in: "apply.(*Plan).mayPass", find: "aboutSchema(err) && p.changesCRDOf(it)", put: "false",
		broken: "an object is refused that has a field which comes with its CRD", tests: modelPackage, e2e: modelTest,
	},
}

// modelTest holds sluice apply against kubectl apply --server-side, on a real API server.
const modelTest = "TestE2EApplySucceedsWheneverKubectlDoes"

var modelPackage = []string{"internal/cli"}

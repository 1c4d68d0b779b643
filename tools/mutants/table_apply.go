package main

// applyFaults are faults in code that deletes and overwrites objects. The random test of two apps has found the first three. It
// needs an API server, so tests without one replace it here.
var applyFaults = []fault{
	{
		file: "apply/plan.go", old: `	if ownerIn(obj) != p.ownerOf() {`, new: `	if ownerIn(obj) == "" {`,
		broken: "an object that another app has taken over is taken for unchanged",
	},
	{
		file: "apply/namespace.go", old: `record != nil && record.Manifest != "" && !record.Found`, new: `record != nil && !record.Found`,
		broken: "a namespace that another app has made is deleted, because an apply that was killed was to make it",
	},
	{
		file: "apply/namespace.go", old: `record != nil && record.Manifest != "" && !record.Found`, new: `record == nil || record.Manifest != "" && !record.Found`,
		broken: "a namespace that was there before is deleted, because the app has forgotten it",
	},
	{
		file: "apply/run.go", old: `it.found || it.Action == Create && !it.made`, new: `it.found || it.Action == Create && it.made`,
		broken: "a namespace that another app has made since the plan was is taken for the app's",
	},
	{
		file: "apply/protect.go", old: `(v.entry(id) != nil || appliedHere(m)) && `, new: ``,
		broken: "a namespace takes along what somebody has copied",
	},
	{
		file: "apply/protect.go", old: `	stays = err != nil
`, new: `	stays = false
`,
		broken: "a namespace takes along what belongs to an object that may not be read",
	},
	{
		file: "apply/protect.go", old: `(len(u.GetOwnerReferences()) == 0 || o.stay(ctx, u.GetOwnerReferences()))`, new: `(len(u.GetOwnerReferences()) == 0)`,
		broken: "a namespace takes along what belongs to an object that belongs to one that stays",
	},
	{
		file: "apply/protect.go", old: `			o.stays[types.UID(r.live.uid)] = false
`, new: ``,
		broken: "a namespace is kept for the sake of what belongs to the app",
	},
	{
		file: "apply/shelter.go", old: `			same[it.live.uid] = it.ID
`, new: ``,
		broken: "an object is deleted that the source has in another group",
	},
	{
		file: "apply/replace.go", old: `	if why := it.keptReason(l); why != "" {`, new: `	if why := it.keptReason(it.live); why != "" {`,
		broken: "an object is replaced that somebody keeps since it was tried",
	},
	{
		file: "apply/replace.go", old: `	case it.marks.kept:`, new: `	case false:`,
		broken: "an object is replaced that the source keeps",
	},
	{
		file: "apply/rebase.go", old: `e.subresource == "" && slices.Contains(taken, e.manager)`, new: `e.subresource != "" && slices.Contains(taken, e.manager)`,
		broken: "a field that is ignored goes with those of its former owner",
	},
	{
		file: "apply/waves.go", old: `n.item != nil && later >= 0 && `, new: `n.item != nil && later > 0 && `,
		broken: "what is after a group is written beside it",
	},
	{
		file: "apply/waves.go", old: `				ends[g] = &node{after: members[g]}`, new: `				ends[g] = &node{after: members[g][:min(1, len(members[g]))]}`,
		broken: "what is after a group waits for its first object only",
	},
	{
		file: "apply/client.go", old: `	if changes && !isRefusal(err) {`, new: `	if changes {`,
		broken: "what the server has refused is told as done",
	},
}

package apply

import (
	"slices"
	"strings"
)

// The inventory keeps the last revisions of an app, so that a user can see what was applied when. A revision counts when an apply of
// it is complete. A second apply of the same sources and digests is no new revision.

// maxHistory is the number of revisions in an inventory.
const maxHistory = 10

// Has reports whether a source of the revision has a digest that begins with text. The text may have the algorithm before it, as in
// sha1:0c4e1f0.
func (r *Revision) Has(text string) bool {
	algorithm, digest, found := strings.Cut(text, ":")
	if !found {
		algorithm, digest = "", text
	}
	return slices.ContainsFunc(r.Sources, func(s Source) bool {
		for a, d := range s.Digest {
			if (algorithm == "" || algorithm == a) && strings.HasPrefix(d, digest) {
				return true
			}
		}
		return false
	})
}

// Same reports whether two revisions came from the same sources with the same digests.
func (r *Revision) Same(o *Revision) bool { return sameSources(r.Sources, o.Sources) }

// historyWith returns the inventory's history with the new revision in front, the newest first.
func (v *Inventory) historyWith(next *Inventory) []Revision {
	list := v.History
	if len(list) == 0 && len(v.Sources) > 0 && v.Finished != nil { // older versions have not recorded more
		list = []Revision{{v.Sources, v.Finished, len(v.Objects)}}
	}
	now := Revision{next.Sources, next.Finished, len(next.Objects)}
	if len(list) > 0 && list[0].Same(&now) {
		return list
	}
	list = append([]Revision{now}, list...)
	return list[:min(len(list), maxHistory)]
}

package apply

import (
	"fmt"
	"strconv"
	"strings"
)

// How many objects does a plan touch? The numbers are for limits and summaries. For example, a prune that would delete more than half
// of a large app's objects is refused unless the user allows it, because the source may be incomplete.

// fewDeletes is the number of objects that a prune may delete from an app of any size, if the user sets no limit.
const fewDeletes = 10

// MostDeletes reads the limit for a prune, for an app of the given size. The text is a number or a share such as "30%". Empty
// stands for half of the objects, or 10 if that is more.
func MostDeletes(text string, existing int) (int, error) {
	if text == "" {
		return max(fewDeletes, existing/2), nil
	}
	number, share := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || share && n > 100 {
		return 0, fmt.Errorf("%q: it is a number, or a share from 0%% to 100%%", text)
	}
	if share {
		return existing * n / 100, nil
	}
	return n, nil
}

// Count returns the number of items with the action.
func (p *Plan) Count(a Action) int {
	return countOf(p.Items, func(it *Item) bool { return it.Action == a }) + countOf(p.Removals, func(r *Removal) bool { return r.Action == a })
}

// Changes returns the number of objects that the apply creates, changes or deletes.
func (p *Plan) Changes() int {
	return p.Count(Create) + p.Count(Update) + p.Count(Replace) + p.Count(Delete)
}

// Orphans returns the number of objects that are no longer in the source and stay because the request does not prune.
func (p *Plan) Orphans() int {
	if p.request.Prune {
		return 0
	}
	return countOf(p.Removals, func(r *Removal) bool { return !r.Retained })
}

// Existing returns the number of the app's objects that were in the cluster before the plan. Those that an interrupted apply has
// recorded and not created do not count.
func (p *Plan) Existing() int {
	if p.inventory == nil {
		return 0
	}
	recorded := map[ID]bool{}
	for _, e := range p.inventory.Objects {
		recorded[e.ID] = true
	}
	return countOf(p.Removals, func(r *Removal) bool { return r.live != nil }) +
		countOf(p.Items, func(it *Item) bool { return it.now.live != nil && recorded[it.ID] })
}

// Kept returns the number of objects that are no longer in the source and stay, for any reason.
func (p *Plan) Kept() int {
	return countOf(p.Removals, func(r *Removal) bool { return r.Action == Keep })
}

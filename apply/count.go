package apply

import (
	"fmt"
	"strconv"
	"strings"
)

// fewDeletes is the number of objects that a prune may delete from an app of any size, if the user sets no limit.
const fewDeletes = 10

// MostDeletes reads the limit for a prune, for an app of the given size. The text is a number or a share such as "30%". Empty
// stands for half of the objects, or 10 if that is more.
func MostDeletes(text string, recorded int) (int, error) {
	if text == "" {
		return max(fewDeletes, recorded/2), nil
	}
	number, share := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || share && n > 100 {
		return 0, fmt.Errorf("%q: it is a number, or a share from 0%% to 100%%", text)
	}
	if share {
		return recorded * n / 100, nil
	}
	return n, nil
}

// Count returns the number of items with the action.
func (p *Plan) Count(a Action) int {
	n := 0
	for i := range p.Items {
		if p.Items[i].Action == a {
			n++
		}
	}
	for i := range p.Removals {
		if p.Removals[i].Action == a {
			n++
		}
	}
	return n
}

// Orphans returns the number of objects that are no longer in the source and stay because the request does not prune.
func (p *Plan) Orphans() int {
	if p.request.Prune {
		return 0
	}
	n := 0
	for i := range p.Removals {
		if !p.Removals[i].Retained {
			n++
		}
	}
	return n
}

// Recorded returns the number of objects that the app may have had in the cluster before the plan.
func (p *Plan) Recorded() int {
	if p.inventory == nil {
		return 0
	}
	return len(p.inventory.Objects)
}

// Kept returns the number of objects that are no longer in the source and stay, for any reason.
func (p *Plan) Kept() int {
	n := 0
	for i := range p.Removals {
		if p.Removals[i].Action == Keep {
			n++
		}
	}
	return n
}

package apply

import (
	"fmt"
	"strconv"
	"strings"
)

// fewDeletes is how many objects a prune may delete whatever share of the app they are, if nothing else is said.
const fewDeletes = 10

// MostDeletes reads how many objects a prune may delete of an app that has a number of objects: a number, or a share such as "30%". Empty
// stands for half of them, or 10 if that is more.
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

// Count says how many items have the action.
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

// Orphans says how many objects of the app are no longer in the source and stay, because nobody asked to prune.
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

// Recorded says how many objects the app may have had in the cluster before the plan.
func (p *Plan) Recorded() int {
	if p.inventory == nil {
		return 0
	}
	return len(p.inventory.Objects)
}

// Kept says how many objects of the app are no longer in the source and stay, for whatever reason.
func (p *Plan) Kept() int {
	n := 0
	for i := range p.Removals {
		if p.Removals[i].Action == Keep {
			n++
		}
	}
	return n
}

package policy

// Is an object refused, and what is it told? Units of the same list share a variable, because the API server's checker takes time with the
// square of an expression's length. For example, 20 gated fields of tasks become three variables.

import (
	"strconv"
	"strings"
)

// together is the number of units that share a variable: the work of the checker of expressions grows with the square of their length
// (github.com/google/cel-go, checker, mapping.copy).
const together = 8

// No variable has more than shortText bytes if it has more than one unit. An expression of up to shortText bytes is no variable if there are up
// to fewBundles.
const shortText, fewBundles = 2_000, 4

// bundleUnits divides the units of a group into those that one expression tests: units of the same list or map together, so that what
// they share is looked up once.
func (d *draft) bundleUnits() (out [][]int) {
	var others []int
	lists := map[string][]int{}
	var loops []string
	for i := range d.group.units {
		u := &d.group.units[i]
		if d.texts[i] == "" {
			continue // it is alike others
		}
		if d.group.whole || u.shape.loop == len(u.target.Path) {
			others = append(others, i)
			continue
		}
		loop := u.target.Path[:u.shape.loop].String()
		if lists[loop] == nil {
			loops = append(loops, loop)
		}
		lists[loop] = append(lists[loop], i)
	}
	for _, loop := range loops {
		out = append(out, d.splitUnits(lists[loop])...)
	}
	return append(out, d.splitUnits(others)...)
}

// splitUnits divides units so that what is asked about those of each part is short.
func (d *draft) splitUnits(units []int) (out [][]int) {
	size := shortText
	for _, i := range units {
		own := max(len(d.texts[i]), len(d.valid[i])) + 10
		if size += own; size > shortText || len(out[len(out)-1]) == together {
			out, size = append(out, nil), own
		}
		out[len(out)-1] = append(out[len(out)-1], i)
	}
	return out
}

// addVerdict adds the variables of a policy. valid is true if no unit is violated; told lists the messages of the violated ones.
func (d *draft) addVerdict() (valid, told string) {
	bundles := d.bundleUnits()
	// What is asked for takes the API server a while to begin with, and what it could be asked for as well: the short ones are written
	// out where they are asked for, which is once.
	few := len(bundles)+len(d.families) <= fewBundles
	there := "p != ''"
	if d.pairs {
		there = "p[0] != ''"
	}
	var tests []string
	var lists []variable
	size := 0 // of the lists that may be written out
	for n, units := range bundles {
		var test, text []string
		for _, i := range units {
			test, text = append(test, "("+d.valid[i]+")"), append(text, d.texts[i])
		}
		one := strings.Join(test, " && ")
		switch {
		case len(bundles)+len(d.families) == 1:
		case few && len(one) <= shortText:
			one = "(" + one + ")"
		default:
			one = d.addVariable("ok"+strconv.Itoa(n), one)
		}
		tests = append(tests, one)
		list := "[" + strings.Join(text, ", ") + "].filter(p, " + there + ")"
		if few {
			size += len(list)
		}
		lists = append(lists, variable{"say" + strconv.Itoa(n), list})
	}
	for _, f := range d.families {
		text := f.violationTexts(d.pairs)
		size += len(text)
		tests, lists = append(tests, f.test), append(lists, variable{"say" + f.name, text})
	}
	var all []string
	for i, list := range lists {
		switch bundle := i < len(bundles); {
		case size > shortText || bundle && !few:
			all = append(all, d.addVariable(list.name, list.expression))
		case bundle:
			all = append(all, "("+list.expression+")")
		default:
			all = append(all, list.expression)
		}
	}
	told = strings.Join(all, " + ")
	switch {
	case len(all) == 1:
	case few && !d.pairs && len(told) <= shortText:
		told = "(" + told + ")"
	default:
		told = d.addVariable("said", told)
	}
	return strings.Join(tests, " && "), told
}

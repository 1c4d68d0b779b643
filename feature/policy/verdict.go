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

// An expression of up to shortText bytes is no variable if there are up to fewBundles.
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

// splitUnits divide units so that what is asked about those of each part fits into an expression.
func (d *draft) splitUnits(units []int) (out [][]int) {
	size := maxSize
	for _, i := range units {
		own := max(len(d.texts[i]), len(d.valid[i])) + 10
		if size += own; size > maxSize || len(out[len(out)-1]) == together {
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
	add := func(name, expression string, together bool) string {
		if len(expression) <= shortText && together {
			return "(" + expression + ")"
		}
		return d.addVariable(name, expression)
	}
	few := len(bundles)+len(d.families) <= fewBundles
	there := "p != ''"
	if d.pairs {
		there = "p[0] != ''"
	}
	var tests, lists []string
	for n, units := range bundles {
		var test, text []string
		for _, i := range units {
			test, text = append(test, "("+d.valid[i]+")"), append(text, d.texts[i])
		}
		one := strings.Join(test, " && ")
		if len(bundles)+len(d.families) > 1 {
			one = add("ok"+strconv.Itoa(n), one, few)
		}
		tests = append(tests, one)
		lists = append(lists, add("say"+strconv.Itoa(n), "["+strings.Join(text, ", ")+"].filter(p, "+there+")", few))
	}
	for _, f := range d.families {
		tests, lists = append(tests, variableRef(f.name)+".size() == 0"), append(lists, f.texts(d.pairs))
	}
	told = strings.Join(lists, " + ")
	if len(lists) > 1 {
		told = add("said", told, few && !d.pairs)
	}
	return strings.Join(tests, " && "), told
}

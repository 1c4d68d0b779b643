package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// together is the number of units that share a variable: the work of the checker of expressions grows with the square of their length
// (github.com/google/cel-go, checker, mapping.copy).
const together = 8

// An expression of up to shortText bytes is no variable if there are up to fewBundles.
const shortText, fewBundles = 12_000, 4

// bundle is a group of units that one expression tests.
type bundle struct {
	units []int
	// keys is a variable with the keys of the value that has all the fields, and names has the names of the fields. none is a cheap test
	// that no part is used. All are empty if there is no such test.
	keys, names, none string
}

// bundleUnits divides the units of a group. If many units are about fields of the same value, its keys are checked once.
func (d *draft) bundleUnits() (out []bundle) {
	var others []int
	fields := map[string][]int{}
	var parents []string
	for i := range d.group.units {
		u := &d.group.units[i]
		n := len(u.target.Path)
		if d.group.whole || u.shape.loop < n || n == 1 {
			others = append(others, i)
			continue
		}
		parent := u.target.Path[:n-1].String()
		if fields[parent] == nil {
			parents = append(parents, parent)
		}
		fields[parent] = append(fields[parent], i)
	}
	for _, parent := range parents {
		units := fields[parent]
		if len(units) < manyFields {
			others = append(others, units...)
			continue
		}
		name := func(i int) string {
			path := d.group.units[i].target.Path
			return path[len(path)-1].Name
		}
		var all []string
		for _, i := range units {
			if !slices.Contains(all, name(i)) {
				all = append(all, name(i))
			}
		}
		path := d.group.units[units[0]].target.Path
		there, at := plainPath("object", path[:len(path)-1])
		keys := d.addVariable("k"+strconv.Itoa(len(d.vars)), fmt.Sprintf("%s ? (%s.size() > %d ? %s : %s.filter(k, k in %[4]s)) : []", joinAnd(append(there, isMap(at))...), at, manyKeys, celStrings(all), at))
		for _, some := range d.splitUnits(units) {
			var names []string
			for _, i := range some {
				names = append(names, name(i))
			}
			out = append(out, bundle{units: some, keys: keys, names: celStrings(names)})
		}
	}
	lists := map[string][]int{}
	var loops []string
	others = slices.DeleteFunc(others, func(i int) bool {
		u := &d.group.units[i]
		if d.group.whole || u.shape.loop == len(u.target.Path) {
			return false
		}
		loop := u.target.Path[:u.shape.loop].String()
		if lists[loop] == nil {
			loops = append(loops, loop)
		}
		lists[loop] = append(lists[loop], i)
		return true
	})
	for _, loop := range loops {
		for _, some := range d.splitUnits(lists[loop]) {
			b := bundle{units: some}
			if root := (&tree{}); len(some) > 2 {
				for _, i := range some {
					root.addUnit(&d.group.units[i], 0)
				}
				b.none = "!(" + root.usedTest(d.emitter, "object", "", 0) + ")"
			}
			out = append(out, b)
		}
	}
	slices.Sort(others)
	for _, some := range d.splitUnits(others) {
		out = append(out, bundle{units: some})
	}
	return out
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
	d.bundled = bundles
	// What is asked for takes the API server a while to begin with, and what it could be asked for as well: the short ones are written
	// out where they are asked for, which is once.
	add := func(name, expression string, together bool) string {
		if len(expression) <= shortText && together {
			return "(" + expression + ")"
		}
		return d.addVariable(name, expression)
	}
	few := len(bundles) <= fewBundles
	there := "p != ''"
	if d.pairs {
		there = "p[0] != ''"
	}
	var tests, lists []string
	for n, b := range bundles {
		var test, text []string
		for _, i := range b.units {
			test, text = append(test, "("+d.valid[i]+")"), append(text, d.texts[i])
		}
		one, say := strings.Join(test, " && "), "["+strings.Join(text, ", ")+"].filter(p, "+there+")"
		if b.none != "" {
			one, say = b.none+" || "+one, b.none+" ? [] : "+say
		}
		if len(bundles) > 1 {
			one = add("ok"+strconv.Itoa(n), one, few)
		}
		say = add("say"+strconv.Itoa(n), say, few)
		if b.keys != "" {
			used := "ks.exists(k, k in " + b.names + ")"
			one, say = "(!"+used+" || "+one+")", "("+used+" ? "+say+" : [])"
			if n > 0 && bundles[n-1].keys == b.keys { // the keys are looked up once
				last := len(tests) - 1
				tests[last], lists[last] = tests[last]+" && "+one, lists[last]+" + "+say
				continue
			}
		}
		tests, lists = append(tests, one), append(lists, say)
		if b.keys != "" {
			tests[len(tests)-1], lists[len(lists)-1] = "["+b.keys+"].all(ks, "+one, "["+b.keys+"].map(ks, "+say
		}
	}
	for i := range tests {
		if strings.HasPrefix(lists[i], "[") {
			tests[i], lists[i] = tests[i]+")", lists[i]+")[0]"
		}
	}
	told = strings.Join(lists, " + ")
	if len(bundles) > 1 {
		told = add("said", told, few && !d.pairs)
	}
	return strings.Join(tests, " && "), told
}

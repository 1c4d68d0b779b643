package celrule

// What has to be true if a part that is not understood is? For example, self.l.filter(x, f(x)).size() == 1 needs an item in l.

import (
	"slices"

	"github.com/google/cel-go/common/operators"
)

// neededFor returns statements that are true whenever e is, and easier to translate. For example, f in x.l implies that x.l has an item,
// and a filter with a result implies that an item satisfies it. It is empty if there are none.
func neededFor(e *expr) []*expr {
	if e.kind != call {
		return nil
	}
	switch e.name {
	case operators.LogicalAnd:
		return append(neededFor(e.args[0]), neededFor(e.args[1])...)
	case operators.LogicalOr:
		a, b := neededFor(e.args[0]), neededFor(e.args[1])
		if len(a) == 0 || len(b) == 0 {
			return nil
		}
		return []*expr{{kind: call, name: operators.LogicalOr, args: []*expr{conjunctionOf(a), conjunctionOf(b)}}}
	case operators.In:
		return []*expr{notEmpty(e.args[1])}
	}
	if l, x, body, ok := oneVariable(e); ok {
		switch e.name {
		case "all":
			if inner := neededFor(body); len(inner) > 0 {
				return []*expr{allOf(l, x, conjunctionOf(inner))}
			}
		case "exists", "exists_one", "existsOne":
			return someItem(l, x, body)
		}
		return nil
	}
	if kept, ok := leavesSome(e); ok {
		if l, x, body, ok := oneVariable(kept); ok && kept.name == "filter" {
			return someItem(l, x, body)
		}
	}
	return nil
}

// someItem returns the statements that have to be true if an item of l satisfies body: that there is an item, and those parts of body
// that do not mention it.
func someItem(l, x, body *expr) []*expr {
	return append([]*expr{notEmpty(l)}, slices.DeleteFunc(neededFor(body), func(n *expr) bool {
		free := map[string]bool{}
		freeNames(n, nil, free)
		return free[x.name]
	})...)
}

// oneVariable reads l.macro(x, body).
func oneVariable(e *expr) (l, x, body *expr, ok bool) {
	if e.kind != call || !e.member || len(e.args) != 3 || e.args[1].kind != ident || e.binders() == 0 {
		return nil, nil, nil, false
	}
	return e.args[0], e.args[1], e.args[2], true
}

// leavesSome reads a comparison that says that l.size() is at least one.
func leavesSome(e *expr) (l *expr, ok bool) {
	size, op, n, ok := comparedWithConst(e)
	if !ok || size.kind != call || size.name != "size" || len(size.args) != 1 {
		return nil, false
	}
	switch op {
	case operators.Equals, operators.GreaterEquals:
		return size.args[0], n >= 1
	case operators.Greater:
		return size.args[0], n >= 0
	}
	return nil, false
}

func notEmpty(l *expr) *expr {
	size := &expr{kind: call, member: true, name: "size", args: []*expr{l}}
	return &expr{kind: call, name: operators.Greater, args: []*expr{size, {kind: literal, val: int64(0)}}}
}

func conjunctionOf(all []*expr) *expr { return joinedBy(operators.LogicalAnd, all) }

package celrule

import "testing"

func TestImpliedBy(t *testing.T) {
	for _, c := range []struct {
		old, new string
		list     bool // self is none of the scalars
		want     bool
	}{
		{old: "self == oldSelf", new: "self == oldSelf", want: true},
		{old: "self == oldSelf", new: "oldSelf == self", want: true},
		{old: "self == oldSelf", new: "oldSelf == self", list: true},
		{old: "self == oldSelf", new: "self == oldSelf || oldSelf == 0", want: true},
		{old: "self == oldSelf", new: "self == oldSelf && oldSelf == 0"},
		{old: "self == oldSelf && self > 1", new: "self > 1 || self < 0", want: true},
		{old: "self == oldSelf || self > 1", new: "self > 1"},
		{old: "self == oldSelf || self > 1", new: "oldSelf < 5 || self > 1 || self == oldSelf", want: true},
		{old: "!(self != oldSelf || self < 3)", new: "3 <= self", want: true},
		{old: "self == oldSelf", new: "self >= oldSelf", want: true},
		{old: "self == oldSelf", new: "self >= oldSelf", list: true},
		{old: "self == oldSelf", new: "dyn(self) >= oldSelf"},
		{old: "self >= oldSelf", new: "self == oldSelf"},
		{old: "self > oldSelf", new: "self >= oldSelf", want: true},
		{old: "self > oldSelf", new: "!(self < oldSelf)", want: true},
		{old: "self > oldSelf", new: "oldSelf >= self"},
		{old: "self >= oldSelf", new: "self > oldSelf"},
		{old: "self < oldSelf", new: "self != oldSelf", want: true},
		{old: "!(self < oldSelf)", new: "self > oldSelf"},
		{old: "!(self <= oldSelf)", new: "self >= oldSelf", want: true},
		{old: "self.a < self.b", new: "self.a <= self.b", list: true, want: true},
		{old: "self.a < self.b", new: "self.b <= self.a", list: true},
		{old: "self == oldSelf || (self > 1 && self < 3)", new: "self == oldSelf || self > 1"},
		{old: "self > 1", new: "(self == 3 || self > 1) && (self > 1 || self == oldSelf)", want: true},
		{old: "has(self.a) ? self.a == 1 : true", new: "has(self.a) ? self.a == 1 : true || self.b == 1", list: true},
	} {
		if got := parse(t, c.new).ImpliedBy([]*Rule{parse(t, c.old)}, !c.list); got != c.want {
			t.Errorf("%s by %s: %v, want %v", c.new, c.old, got, c.want)
		}
	}
	both := []*Rule{parse(t, "self == oldSelf || oldSelf == 0"), parse(t, "self > 1")}
	if r := parse(t, "(oldSelf == 0 || self == oldSelf || self == 7) && self > 1"); !r.ImpliedBy(both, true) || r.ImpliedBy(both[:1], true) {
		t.Error("two rules do not imply what they imply together, or one does")
	}
	if parse(t, "self == oldSelf").ImpliedBy(nil, true) {
		t.Error("implied by nothing")
	}
}

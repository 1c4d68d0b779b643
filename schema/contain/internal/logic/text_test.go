package logic

import (
	"math"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for want, f := range map[string]Formula{
		"is anything": True,
		"is nothing":  False,
		"is of type null or string and (has 1 to 5 characters or matches \"^a$\")": And{Kinds(Null | String), Or{Length{1, 5}, Pattern{Expr: "^a$"}}},
		"has at most 5 characters": Length{0, 5},
		"has at least 2 items":     NumItems{2, Unbounded},
		"is at least 3":            IntRange{3, math.MaxInt64},
		"is at most -3":            IntRange{math.MinInt64, -3},
		"is -2 to 9":               IntRange{-2, 9},
		"is in (0, 1.5]":           FloatRange{Lo: 0, Hi: 1.5, LoOpen: true},
		`is none of ["a",1]`:       Enum{Values: []any{"a", int64(1)}, Neg: true},
		"has no format date":       Format{"date", true},
		"has the format date":      Format{"date", false},
		"is not a multiple of 3":   IntMultiple{3, true},
		"has .a and its .a (has .b and its .b (has equal items))": And{Has{"a"}, Prop{"a", And{Has{"b"}, Prop{"b", Unique{Neg: true}}}}},
		"some field but a, b (is nothing)":                        SomeRest{[]string{"a", "b"}, False},
		"every item (some key (has a fraction))":                  Items{SomeKey{Integral{Neg: true}}},
		`does not fulfil "self.a"`:                                Opaque{"self.a", true},
	} {
		if got := Text(f); got != want {
			t.Errorf("%#v: %q, want %q", f, got, want)
		}
	}
	long := make(Or, 1000)
	for i := range long {
		long[i] = Has{strings.Repeat("é", 50)}
	}
	if got := Text(long); len(got) > maxText+len("…") || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	deep := True
	for range 1_000_000 {
		deep = Items{deep}
	}
	if got := Text(deep); !strings.Contains(got, "every item is as it has to be") {
		t.Error(got)
	}
	self := Lazy{ID: "self", Small: true}
	self.Make = func() Formula { return Items{self} }
	if got := Text(self); !strings.HasPrefix(got, "every item (every item") {
		t.Error(got)
	}
}

// Every sort of formula has a text of its own.
func TestTextOfEverySort(t *testing.T) {
	seen := map[string]Formula{}
	for _, f := range []Formula{
		True, False, Kinds(String),
		Length{1, 2},
		Pattern{Expr: "a"},
		Format{Name: "date"},
		IntRange{1, 2},
		FloatRange{Lo: 1, Hi: 2},
		IntMultiple{N: 2},
		FloatMultiple{F: 2.5},
		Integral{},
		Enum{Values: []any{1}},
		Has{"a"},
		Lacks{"a"},
		Prop{"a", True},
		Rest{nil, True},
		SomeRest{nil, True},
		AllKeys{True},
		SomeKey{True},
		NumProps{1, 2},
		Items{True},
		SomeItem{True},
		NumItems{1, 2},
		Unique{},
		Opaque{ID: "a"},
		Lazy{ID: "a"},
	} {
		text := Text(f)
		if other, ok := seen[text]; ok || text == "is as it has to be" {
			t.Errorf("%#v and %#v are both %q", f, other, text)
		}
		seen[text] = f
	}
}

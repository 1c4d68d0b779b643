package controller

import (
	"slices"
	"testing"

	bookv1 "sluice.dev/examples/kubebuilder/api/v1"
	"sluice.dev/examples/kubebuilder/internal/features"
	"sluice.dev/feature/featuretest"
	"sluice.dev/feature/gate"
)

func TestNumbers(t *testing.T) {
	book := bookv1.GuestbookSpec{Title: "Visitors", Order: bookv1.Newest, Entries: []string{"hello", "hi"}}
	for name, want := range map[string][]string{
		"on":  {"Visitors", "1. hi", "2. hello"},
		"off": {"Visitors", "hi", "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			gates := featuretest.New(t, features.Declaration(), gate.Options{}, featuretest.Values{features.Numbers: name == "on"})
			if got := Page(gates, &book); !slices.Equal(got, want) {
				t.Errorf("the page is %q", got)
			}
		})
	}
}

// TestEveryCombination runs with each combination of sluice features matrix.
func TestEveryCombination(t *testing.T) {
	gates := featuretest.New(t, features.Declaration(), gate.Options{}, nil)
	featuretest.Run(t, gates, featuretest.All(gates), func(t *testing.T) {
		if got := Page(gates, &bookv1.GuestbookSpec{Title: "Visitors", Entries: []string{"hello"}}); len(got) != 2 || got[0] != "Visitors" {
			t.Errorf("the page is %q", got)
		}
	})
}

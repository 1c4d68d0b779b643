package features

import (
	"testing"
)

func TestOnlyTheEntryOfTheGateIsEdited(t *testing.T) {
	for _, tt := range []struct {
		text, gate string
		on         bool
		want       string
		found      bool
	}{
		{"", "A", true, "", false},
		{"A=false", "A", true, "A=true", true},
		{"A=true,B=false", "B", true, "A=true,B=true", true},
		{" A = false ,\n  B=true\n", "B", false, " A = false ,\n  B=false\n", true},
		{"AB=false,A=false", "A", true, "AB=false,A=true", true},
		{"A=", "A", true, "A=true", true},
		{"A=false,A=True", "A", false, "A=false,A=false", true},
		{"A", "A", true, "A", false},
		{",,A=0,", "A", true, ",,A=true,", true},
	} {
		if got, found := editGates(tt.text, tt.gate, tt.on); got != tt.want || found != tt.found {
			t.Errorf("%q, %s: %q, %t; want %q, %t", tt.text, tt.gate, got, found, tt.want, tt.found)
		}
	}
}

package compat

import "testing"

// A panic of the API server's code reaches the caller, and does not end the process.
func TestAPanicReachesTheCaller(t *testing.T) {
	t.Parallel()
	wait := startAhead(func() int { panic("a mistake") })
	defer func() {
		if r := recover(); r != "a mistake" {
			t.Errorf("recovered %v", r)
		}
	}()
	wait()
	t.Error("nothing panicked")
}

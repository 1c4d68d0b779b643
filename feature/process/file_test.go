package process_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	clocktesting "k8s.io/utils/clock/testing"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/gate"
	"sluice.dev/feature/process"
)

// TestTheFileIsFollowed has a process with a file alone, which is missing, wrong, good, changed, wrong and gone in turn.
func TestTheFileIsFollowed(t *testing.T) {
	alpha := []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}
	d := gate.Declaration{Name: "demo", Spec: v1alpha1.ComponentSpec{Release: "v1.0.0"}, Features: []v1alpha1.FeatureSpec{
		{Gate: "FastPath", Stages: alpha}, {Gate: "Slow", Stages: alpha, NeedsRestart: true},
	}}
	gates, err := gate.New(d, gate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "settings.yaml")
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	p, err := process.New(&rest.Config{Host: "127.0.0.1:1"}, gates, process.Options{NoReport: true, File: file, Clock: clock, Renew: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Begin(t.Context()); err == nil || !strings.Contains(err.Error(), "settings.yaml") {
		t.Errorf("a file that is missing at the start: %v", err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("fast-pth: true\nslow: maybe")
	if err := p.Begin(t.Context()); err == nil || !strings.Contains(err.Error(), `settings.yaml:1: fast-pth: there is no such key (did you mean "fast-path"?)`) || !strings.Contains(err.Error(), `"maybe"`) {
		t.Errorf("a file that is wrong at the start: %v", err)
	}
	write("slow: true")
	if err := p.Begin(t.Context()); err != nil || !gates.Enabled("Slow") {
		t.Fatalf("a good one: %v, %v", err, gates.Problems())
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	for _, step := range []struct {
		name, text string
		on         map[featuregate.Feature]bool
		problems   int
		restart    bool
		gone       bool
	}{
		{name: "changed", text: "slow: true\nfast-path: true", on: map[featuregate.Feature]bool{"FastPath": true, "Slow": true}},
		{name: "what takes a restart", text: "fast-path: false", on: map[featuregate.Feature]bool{"FastPath": false, "Slow": true}, restart: true},
		{name: "wrong", text: "fast-path: yess", on: map[featuregate.Feature]bool{"FastPath": false, "Slow": true}, problems: 1, restart: true},
		{name: "unreadable", text: "[", on: map[featuregate.Feature]bool{"FastPath": false, "Slow": true}, problems: 1, restart: true},
		{name: "gone", gone: true, on: map[featuregate.Feature]bool{"FastPath": false, "Slow": true}, problems: 1, restart: true},
		{name: "mended", text: "fast-path: true\nslow: true", on: map[featuregate.Feature]bool{"FastPath": true, "Slow": true}},
	} {
		if step.gone {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		} else {
			write(step.text)
		}
		check := func() error {
			for name, on := range step.on {
				if gates.Enabled(name) != on {
					return fmt.Errorf("%s is %t", name, !on)
				}
			}
			report := gates.Report()
			if len(report.SettingsErrors) != step.problems {
				return fmt.Errorf("problems %v", report.SettingsErrors)
			}
			for _, f := range report.Features {
				if pending := f.Pending != nil; f.Gate == "Slow" && pending != step.restart {
					return fmt.Errorf("a restart is pending: %t", pending)
				}
			}
			return nil
		}
		eventually(t, step.name, clock, check)
	}
}

// eventually lets time go by until a check is content.
func eventually(t *testing.T, what string, clock *clocktesting.FakeClock, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		clock.Step(10 * time.Second)
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

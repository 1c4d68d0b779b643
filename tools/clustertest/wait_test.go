package clustertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sluice.dev/tools/clustertest"
)

func TestUntilWaitsForACheckThatPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		err := clustertest.Until(t.Context(), time.Minute, "it", func(context.Context) error {
			if tries++; tries < 100 {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil || tries != 100 {
			t.Errorf("%v after %d tries", err, tries)
		}
	})
}

func TestUntilEndsWithWhatTheCheckSaidLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := errors.New("missing")
		err := clustertest.Until(t.Context(), time.Minute, "it", func(ctx context.Context) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return missing
		})
		if !errors.Is(err, missing) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestUntilAsksRarelyForWhatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, began := 0, time.Now()
		err := clustertest.Until(t.Context(), time.Minute, "it", func(context.Context) error {
			if tries++; time.Since(began) < 40*time.Second {
				return errors.New("not yet")
			}
			return nil
		})
		if late := time.Since(began) - 40*time.Second; err != nil || tries > 250 || late > time.Second {
			t.Errorf("%v after %d tries, %s late", err, tries, late)
		}
	})
}

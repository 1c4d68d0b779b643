package dirlock_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sluice.dev/localcluster/internal/dirlock"
)

func TestAFolderHasOneHolder(t *testing.T) {
	dir := t.TempDir()
	first, err := dirlock.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	var held *dirlock.HeldError
	if _, err := dirlock.Acquire(dir); !errors.As(err, &held) || held.PID != os.Getpid() || held.Dir != dir {
		t.Errorf("a second lock: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	second, err := dirlock.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if pid := second.LeftBehindBy(); pid != 0 {
		t.Errorf("a released lock counts as left behind by %d", pid)
	}
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestWhoLeftALockBehind(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		want    int
	}{
		"a process":      {"4711\n", 4711},
		"nobody":         {"", 0},
		"junk":           {"junk", 0},
		"a negative id":  {"-1", 0},
		"a very long id": {"99999999999999999999999999999999999999999999999999", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "lock"), []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			lock, err := dirlock.Acquire(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := lock.Release(); err != nil {
					t.Error(err)
				}
			}()
			if got := lock.LeftBehindBy(); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

func TestAFolderThatIsNotThereIsAnError(t *testing.T) {
	if _, err := dirlock.Acquire(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

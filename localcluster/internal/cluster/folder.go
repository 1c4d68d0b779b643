package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"sluice.dev/localcluster/internal/dirlock"
)

const tempPrefix = "localcluster-"

// folder is the folder in which one cluster keeps everything.
type folder struct {
	dir       string
	temporary bool
	lock      *dirlock.Lock
}

// openFolder prepares and locks dir, or a new temporary folder when dir is empty.
func openFolder(dir string, note func(string)) (*folder, error) {
	f := &folder{dir: dir}
	if dir == "" {
		sweep(note)
		temp, err := os.MkdirTemp("", tempPrefix)
		if err != nil {
			return nil, fmt.Errorf("make a temporary folder: %w", err)
		}
		f.dir, f.temporary = temp, true
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--dir %s: %w", dir, err)
	}
	lock, err := dirlock.Acquire(f.dir)
	if err != nil {
		if f.temporary {
			_ = os.RemoveAll(f.dir)
		}
		return nil, fmt.Errorf("--dir: %w", err)
	}
	f.lock = lock
	if pid := lock.LeftBehindBy(); pid != 0 {
		note(fmt.Sprintf("taking over %s, left behind by process %d, which is gone", f.dir, pid))
	}
	if err := os.MkdirAll(f.path("logs"), 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("--dir: %w", err), f.close())
	}
	return f, nil
}

// close releases the folder and removes temporary files.
func (f *folder) close() error {
	var err error
	if f.temporary {
		err = os.RemoveAll(f.dir)
	}
	return errors.Join(err, f.lock.Release())
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) log(component string) string { return filepath.Join(f.dir, "logs", component+".log") }

// sweep removes temporary folders of clusters that were killed before they could remove them. In case of doubt a folder stays.
func sweep(note func(string)) {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range found {
		if !ownFolder(dir) {
			continue
		}
		// A folder that another process has just made has no holder written in it yet. Locking it here, even for an instant, would
		// make that process find it in use.
		if info, err := os.Stat(filepath.Join(dir, "lock")); err != nil || info.Size() == 0 {
			continue
		}
		lock, err := dirlock.Acquire(dir)
		if err != nil {
			continue
		}
		if pid := lock.LeftBehindBy(); pid != 0 && os.RemoveAll(dir) == nil {
			note(fmt.Sprintf("removed %s, left behind by process %d, which is gone", dir, pid))
		}
		_ = lock.Release()
	}
}

// ownFolder reports whether a folder is this user's alone. One of another user, or one that others may write,
// is not ours to remove.
func ownFolder(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&fs.FileMode(0o077) != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

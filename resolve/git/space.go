package git

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// maxReserve is how much of the file system stays free for what is being fetched; a smaller one keeps an eighth.
	maxReserve = 256 << 20
	// asideBytes is the largest pack that is fetched where there is no room for mirrors: the place may be memory.
	asideBytes = 32 << 20
)

// space tells how many bytes of the file system of a folder are free for this process, and how many it has.
func space(dir string) (free, total int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil //nolint:gosec // sizes of file systems
}

// short tells that less is free than the reserve, or nothing at all by number of files.
func (s *store) short() bool {
	free, total, err := s.space(s.root)
	return err == nil && free < min(maxReserve, total/8)
}

// makeRoom removes mirrors that nobody uses, the least recently used first, until so many bytes are free that there were
// not before. It tells whether there was any.
func (s *store) makeRoom() bool {
	before, total, err := s.space(s.root)
	if err != nil {
		return false
	}
	removed := false
	for free := before; free < before+min(maxReserve, total/8) || !removed; free, _, _ = s.space(s.root) {
		if !s.evictOldest() {
			break
		}
		removed = true
	}
	return removed
}

// openStoreIn opens the folder, and makes room in it if its file system is full: mirrors are a cache. Where that does not
// help it opens one aside, and the process starts all the same.
func openStoreIn(root string, limit int64, files *catfiles, index *indexer) (*store, error) {
	for {
		s, err := openStore(root, limit, files, index)
		if err == nil || !errors.Is(diskError(err), errDiskFull) {
			return s, err
		}
		if !removeOldest(filepath.Join(root, mirrorsDir)) {
			return openAside(files, index, err)
		}
	}
}

// removeOldest removes the entry of a folder that was changed first.
func removeOldest(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return false
	}
	changed := func(e os.DirEntry) (at time.Time) {
		if info, err := e.Info(); err == nil {
			at = info.ModTime()
		}
		return at
	}
	oldest := slices.MinFunc(entries, func(a, b os.DirEntry) int { return changed(a).Compare(changed(b)) })
	return os.RemoveAll(filepath.Join(dir, oldest.Name())) == nil
}

// openAside opens a store for one request after the other in a place that has room: the folder for temporary files, or
// memory. It keeps nothing, and its folder goes with it.
func openAside(files *catfiles, index *indexer, why error) (*store, error) {
	for _, dir := range []string{os.TempDir(), "/dev/shm"} {
		if free, _, err := space(dir); err != nil || free < asideBytes {
			continue
		}
		root, err := os.MkdirTemp(dir, "sluice-git-")
		if err != nil {
			continue
		}
		s, err := openStore(root, 0, files, index)
		if err == nil {
			s.aside = true
			return s, nil
		}
		_ = os.RemoveAll(root)
	}
	return nil, fmt.Errorf("%w, and no other place has room for %d bytes", diskError(why), asideBytes)
}

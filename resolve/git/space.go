package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A full disk must cost no more than the cache. The store evicts mirrors to keep a reserve free for running fetches. If other files
// fill the disk all the same, requests are served one after the other from a folder elsewhere.

const (
	// maxReserve is the part of the file system that stays free for running fetches, in bytes; on a small one it is an eighth.
	maxReserve = 256 << 20
	// asideBytes bounds a pack that is fetched when there is no room for mirrors: the place may be memory.
	asideBytes = 32 << 20
)

// lacksSpace reports whether less than the reserve is free, or no more files can be created.
func (s *store) lacksSpace() bool {
	free, total, err := s.space(s.root)
	return err == nil && free < min(maxReserve, total/8)
}

// makeRoom removes unused mirrors, the least recently used first, until that many more bytes are free. It reports whether it removed
// any.
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

// openStoreIn opens the folder, and makes room in it if its file system is full: mirrors are a cache. The error is errDiskFull if that
// does not help.
func openStoreIn(root string, limit int64, files *catfiles, index *indexer) (*store, error) {
	for {
		s, err := openStore(root, limit, files, index)
		if err == nil {
			return s, nil
		}
		if err = diskError(err); !errors.Is(err, errDiskFull) || !removeOldest(filepath.Join(root, mirrorsDir)) {
			return nil, err
		}
	}
}

// removeOldest removes the entry of a folder with the oldest change.
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

// openAside opens a store for one request after the other in a place that has room: the folder for temporary files, or memory. The
// store keeps nothing, and deletes its folder at the end.
func openAside(files *catfiles, index *indexer) (*store, error) {
	for _, dir := range []string{os.TempDir(), "/dev/shm"} {
		if free, _, err := diskSpaceOf(dir); err != nil || free < asideBytes {
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
	return nil, fmt.Errorf("%w, and no other place has room for %d bytes", errDiskFull, asideBytes)
}

// openAgain is the pause before a folder without room is tried again.
const openAgain = 30 * time.Second

// openMirrorStore opens the store.
func (g *Resolver) openMirrorStore() (err error) {
	g.opened = g.options.Clock.Now()
	g.store, err = openStoreIn(g.options.Dir, defaultCacheBytes, g.files, g.index)
	return err
}

// currentStore returns the store, nil while its folder has no room.
func (g *Resolver) currentStore() *store {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.store == nil && g.options.Clock.Now().Sub(g.opened) >= openAgain {
		_ = g.openMirrorStore() // it is tried again
	}
	return g.store
}

// readBeside reads without the store, one request after the other, because other files fill the store's file system.
func (c *cloning) readBeside(ctx context.Context) (cloned, error) {
	c.noteCacheFull(true)
	select {
	case c.beside <- struct{}{}:
		defer func() { <-c.beside }()
	case <-ctx.Done():
		return cloned{}, ctx.Err()
	}
	st, err := openAside(c.files, c.index)
	if err != nil {
		return cloned{}, err
	}
	defer func() { _ = st.close() }()
	return c.readFrom(ctx, st)
}

// noteCacheFull notes whether the cache can be used, and tells of changes.
func (g *Resolver) noteCacheFull(full bool) {
	if g.full.Swap(full) != full && g.options.CacheFull != nil {
		g.options.CacheFull(full)
	}
}

// noteCacheUse notes that a request could use the store, if the store has room.
func (g *Resolver) noteCacheUse(s *store, err error) {
	if err == nil && g.full.Load() && !s.lacksSpace() {
		g.noteCacheFull(false)
	}
}

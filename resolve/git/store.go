package git

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"sluice.dev/resolve"
)

// The folder of a store has one folder below mirrors for each repository and credential. The name of that is a keyed hash of both, so
// that it tells nothing about a credential, and requests share a mirror only if they may see the same. New objects arrive in a folder
// incoming-*, and mirrors that go are renamed to trash-* first. So a crash leaves nothing half done, and the next start removes the
// rest.

// store keeps mirrors on disk: one bare repository for each repository and credential. It is a cache, so it discards everything
// that is damaged or incomplete.
type store struct {
	root string
	lock *flock.Flock
	// salt hides the credentials in the names of folders.
	salt  []byte
	files *catfiles
	index *indexer
	// histories bounds the fetches of all branches and tags that run at once.
	histories *turns
	// create creates a file for a pack.
	create func(name string) (*os.File, error)
	// space returns the free bytes and the size of the file system.
	space func(dir string) (free, total int64, err error)
	// aside: it replaces a store whose file system is full, and has a folder of its own.
	aside bool

	mu sync.Mutex
	// limit bounds the bytes of mirrors, packs the bytes of large packs that are being fetched.
	limit   int64
	packs   *resolve.Memory
	mirrors map[string]*mirror
	// hosts are the hosts that refuse byRoot.
	hosts map[string]bool
	use   uint64
}

const (
	lockFile   = "lock"
	saltFile   = "salt"
	trashGlob  = "trash-*"
	mirrorsDir = "mirrors"
	maxMirrors = 4096
	// maxHistories bounds the lists of hundreds of thousands of branches and tags in memory, of about 50 MB each.
	maxHistories = 2
)

// openStore opens the folder, which only one process at a time can use.
func openStore(root string, limit int64, files *catfiles, index *indexer) (s *store, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(root, mirrorsDir), 0o700); err != nil {
		return nil, fmt.Errorf("the folder for mirrors cannot be made: %w", err)
	}
	lock := flock.New(filepath.Join(root, lockFile), flock.SetPermissions(0o600))
	taken, err := lock.TryLock()
	if err != nil {
		return nil, err
	}
	if !taken {
		return nil, fmt.Errorf("the folder %s is in use by another process; give each its own", root)
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	s = &store{
		root: root, lock: lock, files: files, index: index, mirrors: map[string]*mirror{}, space: diskSpaceOf,
		histories: newTurns(maxHistories),
		create: func(name string) (*os.File, error) {
			return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // a file in the store's folder
		},
	}
	s.setLimit(limit)
	if s.salt, err = os.ReadFile(filepath.Join(root, saltFile)); err != nil || len(s.salt) != 32 { //nolint:gosec // a file in the store's folder
		// The folder is new, or its salt is damaged.
		s.salt = make([]byte, 32)
		if _, err := rand.Read(s.salt); err != nil {
			return nil, err
		}
		// A mirror whose name was made with another salt cannot be found again.
		if err := os.RemoveAll(filepath.Join(root, mirrorsDir)); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(filepath.Join(root, mirrorsDir), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(root, saltFile), s.salt, 0o600); err != nil {
			return nil, err
		}
	}
	return s, s.recoverFolder()
}

// setLimit changes the number of bytes for mirrors. Half of it is for packs that are being fetched.
func (s *store) setLimit(limit int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.packs == nil || s.limit != limit {
		s.limit, s.packs = limit, resolve.NewMemory(max(limit/2, asideBytes))
	}
}

// packBytes is the size of the largest pack that fits.
func (s *store) packBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.limit/2, asideBytes)
}

// recoverFolder reads the folder, and removes the rest of a crash.
func (s *store) recoverFolder() error {
	trash, _ := filepath.Glob(filepath.Join(s.root, trashGlob))
	for _, t := range trash {
		_ = os.RemoveAll(t)
	}
	entries, err := os.ReadDir(filepath.Join(s.root, mirrorsDir))
	if err != nil {
		return err
	}
	type found struct {
		m    *mirror
		used time.Time
	}
	var all []found
	for _, e := range entries {
		dir := filepath.Join(s.root, mirrorsDir, e.Name())
		format, err := os.ReadFile(filepath.Join(dir, "format")) //nolint:gosec // a file in the store's folder
		if err != nil || !e.IsDir() || len(e.Name()) != hex.EncodedLen(sha256.Size) {
			_ = os.RemoveAll(dir)
			continue
		}
		m := &mirror{store: s, key: e.Name(), dir: dir, format: string(format)}
		used, err := m.sweepLeftovers()
		if err != nil {
			// Its size is unknown, and git could not read it either.
			s.discardMirror(m)
			s.deleteMirror(m)
			continue
		}
		all = append(all, found{m, used})
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.m.key, b.m.key)) })
	for _, f := range all {
		s.use++
		f.m.lastUse = s.use
		s.mirrors[f.m.key] = f.m
	}
	s.evictUnused()
	return nil
}

// sweepLeftovers removes the rest of a crash from the mirror. It returns the mirror's size and the time of its last write.
func (m *mirror) sweepLeftovers() (used time.Time, err error) {
	var left []string
	err = filepath.WalkDir(m.dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			// A git process that outlived the crash may still remove files.
			return nil
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), "incoming-") || strings.HasPrefix(d.Name(), "tmp_") {
			left = append(left, p)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := d.Info(); err == nil {
			m.size += onDisk(info.Size())
			if info.ModTime().After(used) {
				used = info.ModTime()
			}
		}
		return nil
	})
	for _, p := range left {
		_ = os.RemoveAll(p)
	}
	return used, err
}

// onDisk returns the approximate space of a file of that size.
func onDisk(size int64) int64 { return (size + 4095) &^ 4095 }

// close ends connections and idle processes, and unlocks the folder. A store in place of another deletes its folder; the processes are
// the other one's.
func (s *store) close() error {
	if !s.aside {
		s.files.endIdle("")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.mirrors {
		if m.remote != nil {
			m.remote.close()
		}
	}
	err := s.lock.Close()
	if s.aside {
		err = errors.Join(err, os.RemoveAll(s.root))
	}
	return err
}

// folderName returns the folder's name for the key of a mirror.
func (s *store) folderName(parts ...string) string {
	mac := hmac.New(sha256.New, s.salt)
	for _, p := range parts {
		mac.Write(fmt.Appendf(nil, "%d:%s,", len(p), p))
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// acquireMirror returns the mirror, which is not evicted until it is released. If there is no remote for the repository yet, it calls
// connect.
func (s *store) acquireMirror(key, host string, connect func() (remote, error)) (*mirror, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mirrors[key]
	if m == nil {
		m = &mirror{store: s, key: key, dir: filepath.Join(s.root, mirrorsDir, key)}
		s.mirrors[key] = m
	}
	if m.remote == nil {
		m.host = host
		if s.hosts[host] {
			m.way = byObject
		}
		r, err := connect()
		if err != nil {
			return nil, err
		}
		m.remote = r
		m.session = &session{remote: r}
	}
	s.use++
	m.lastUse = s.use
	m.users++
	return m, nil
}

// recordRootless records that a host refuses the filter of byRoot, so that its other repositories do not try it.
func (s *store) recordRootless(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hosts == nil || len(s.hosts) >= maxMirrors {
		s.hosts = map[string]bool{}
	}
	s.hosts[host] = true
}

// forgetServerFacts drops the facts about the server of a mirror that are not on disk. It reports whether there were any.
func (s *store) forgetServerFacts(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mirrors[key]
	if m == nil || m.remote == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.caps != nil
	m.caps, m.way, m.proven, m.refs = nil, byRoot, false, nil
	m.remote.forgetRedirects()
	return known
}

// releaseMirror gives a mirror back. Its files are deleted outside the lock, because that can take long.
func (s *store) releaseMirror(m *mirror) {
	s.mu.Lock()
	m.users--
	gone := m.discarded && m.users == 0
	if m.users == 0 && !gone && !m.isOnDisk() {
		// The mirror was never filled. Requests for addresses without a repository must not fill the memory.
		delete(s.mirrors, m.key)
		m.remote.close()
	}
	s.mu.Unlock()
	if gone {
		s.deleteMirror(m)
	}
	s.evictUnused()
}

// discardMirror removes a damaged mirror from the store: the next request gets a new one. Its last user deletes it.
func (s *store) discardMirror(m *mirror) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putAside(m)
}

// putAside is discard with the lock held: the folder has to be free before another mirror gets the name. It is one rename.
func (s *store) putAside(m *mirror) {
	if m.discarded {
		return
	}
	m.discarded = true
	delete(s.mirrors, m.key)
	trash := filepath.Join(s.root, fmt.Sprintf("trash-%s-%d", m.key[:16], m.lastUse))
	if os.Rename(m.dir, trash) == nil {
		s.files.endIdle(m.dir)
		m.trash = trash
	}
}

// deleteMirror deletes the mirrors that discard has put aside.
func (s *store) deleteMirror(m *mirror) {
	s.files.endIdle(m.dir)
	if m.remote != nil {
		m.remote.close()
	}
	if m.trash != "" {
		_ = os.RemoveAll(m.trash)
	}
}

// evictUnused removes unused mirrors, the least recently used first, until the rest fits and the reserve of the file system is free.
func (s *store) evictUnused() {
	for s.isOverLimit() {
		if !s.evictOldest() {
			return
		}
	}
}

// isOverLimit reports whether the mirrors exceed the limit.
func (s *store) isOverLimit() bool {
	s.mu.Lock()
	var total int64
	limit, count := s.limit-s.packs.Used(), len(s.mirrors)
	for _, m := range s.mirrors {
		total += m.sizeOnDisk()
	}
	s.mu.Unlock()
	return total > limit || count > maxMirrors || s.lacksSpace()
}

// evictOldest removes the least recently used mirror; false if all are in use.
func (s *store) evictOldest() bool {
	s.mu.Lock()
	var oldest *mirror
	for _, m := range s.mirrors {
		if m.users == 0 && (oldest == nil || m.lastUse < oldest.lastUse) {
			oldest = m
		}
	}
	if oldest != nil {
		s.putAside(oldest)
	}
	s.mu.Unlock()
	if oldest == nil {
		return false
	}
	s.deleteMirror(oldest)
	return true
}

// receivePack stores a pack: fill writes it, then receive indexes it and moves it to the mirror's objects. A failure leaves nothing.
// thin: the pack may depend on objects of the mirror. A pack of more than smallPack waits until there is room for limit bytes
// beside the other running fetches.
func (s *store) receivePack(ctx context.Context, m *mirror, thin bool, limit int64, fill func(io.Writer) error) error {
	if s.lacksSpace() {
		// The last of the room is for running fetches, not for old ones.
		s.evictUnused()
	}
	staging, err := os.MkdirTemp(m.dir, "incoming-")
	if err != nil {
		return diskError(err)
	}
	defer func() { _ = os.RemoveAll(staging) }()
	pack := filepath.Join(staging, "pack-"+rand.Text()+".pack")
	f, err := s.create(pack)
	if err != nil {
		return diskError(err)
	}
	s.mu.Lock()
	in := &incoming{ctx: ctx, file: f, packs: s.packs, limit: limit, room: func() { s.evictUnused() }}
	s.mu.Unlock()
	defer func() { in.held.Release() }()
	defer f.Close() //nolint:errcheck // it was closed before, but for failures that count more
	if err := fill(in); err != nil {
		return diskError(err)
	}
	var head [packHead]byte
	n, _ := f.ReadAt(head[:], 0)
	info, err := f.Stat()
	if err != nil {
		return diskError(err)
	}
	// The number of objects stands at the end of the header (gitformat-pack).
	if n < packHead || string(head[:4]) != "PACK" {
		return errGarbage
	}
	count, size := binary.BigEndian.Uint32(head[8:]), info.Size()
	if count == 0 {
		return nil
	}
	// Most fetches bring a few objects. See unpackSmall for why they do not stay a pack.
	if count <= 64 && size < largePlain {
		if done, err := s.unpackSmall(ctx, m, f, size, count, filepath.Join(staging, "loose")); done || err != nil {
			return err
		}
	}
	if err := f.Close(); err != nil {
		return diskError(err)
	}
	from := staging
	if thin {
		from = filepath.Join(staging, "pack")
		err = os.Mkdir(from, 0o700)
		if err == nil {
			err = s.index.completeThinPack(ctx, m.dir, staging, pack)
		}
	} else {
		err = s.index.indexPack(ctx, m.dir, pack)
	}
	if err != nil {
		return diskError(err)
	}
	return s.adoptPacks(m, from)
}

// unpackSmall stores the few objects of a pack as loose ones, in the folder loose first: many packs are slow to search, and a large tree
// then takes no memory. It reports whether it did. Unpacked, a pack of deltas may be a thousand times as large, so it stays a pack. A
// damaged pack is refused later as a pack, too.
func (s *store) unpackSmall(ctx context.Context, m *mirror, pack *os.File, size int64, count uint32, loose string) (done bool, err error) {
	if err := os.Mkdir(loose, 0o700); err != nil {
		return false, diskError(err)
	}
	err = unpackPlain(ctx, pack, size, count, m.objectFormat(), loose)
	if errors.Is(err, errNotPlain) && size < smallPack {
		err = s.index.unpackLoose(ctx, m.dir, loose, pack.Name())
	}
	if err == nil {
		return true, s.adoptLoose(m, loose)
	}
	if _, refused := errors.AsType[*packError](err); !refused && !errors.Is(err, errNotPlain) {
		return false, diskError(err)
	}
	if err := os.RemoveAll(loose); err != nil {
		return false, diskError(err)
	}
	return false, nil
}

const (
	// smallPack is the size in bytes up to which a pack is fetched without waiting for others, and unpacked by git.
	smallPack = 8 << 20
	// largePlain is the size up to which a pack of a few objects without deltas is unpacked.
	largePlain = 64 << 20
)

// incoming is the file of a pack that is being fetched.
type incoming struct {
	ctx   context.Context //nolint:containedctx // it is that of the fetch
	file  *os.File
	packs *resolve.Memory
	limit int64

	// room is called when the pack has its reservation.
	room func()

	written int64
	held    *resolve.Reservation
}

// Write implements [io.Writer].
func (i *incoming) Write(b []byte) (int, error) {
	if i.written += int64(len(b)); i.written > smallPack && i.held == nil {
		var err error
		if i.held, err = i.packs.Reserve(i.ctx, i.limit); err != nil {
			return 0, err
		}
		i.room()
	}
	return i.file.Write(b)
}

// adoptPacks moves packs with their indexes from a folder to the mirror.
func (s *store) adoptPacks(m *mirror, from string) error {
	packs, err := filepath.Glob(filepath.Join(from, "pack-*.pack"))
	if err != nil {
		return err
	}
	var files []string
	for _, pack := range packs {
		// The index comes last, because git finds packs by it.
		files = append(files, pack, strings.TrimSuffix(pack, ".pack")+".idx")
	}
	return m.adoptFiles(files, func(string) string { return "pack" })
}

// adoptLoose moves loose objects from a folder to the mirror.
func (s *store) adoptLoose(m *mirror, from string) error {
	found, err := filepath.Glob(filepath.Join(from, "[0-9a-f][0-9a-f]", "*"))
	if err != nil {
		return err
	}
	return m.adoptFiles(found, func(file string) string { return filepath.Base(filepath.Dir(file)) })
}

// adoptFiles moves files, in their order, into folders of the mirror's objects. A loose object that is there already stays: its name says
// what it has. A pack that is fetched again replaces the one that is there, which may be damaged.
func (m *mirror) adoptFiles(files []string, folder func(file string) string) error {
	var size int64
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		dir := filepath.Join(m.dir, "objects", folder(file))
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return diskError(err)
		}
		to := filepath.Join(dir, info.Name())
		if _, err := os.Lstat(to); err == nil && folder(file) != "pack" {
			continue
		}
		if err := os.Rename(file, to); err != nil {
			return diskError(err)
		}
		size += onDisk(info.Size())
	}
	m.addSize(size)
	return nil
}

// diskError reports that the disk is full, or that it is read-only, as Linux makes a broken one.
func diskError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: %w", errDiskFull, err)
	}
	return err
}

package git

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

// smallDisk is a file system of that many bytes, until the test ends.
func smallDisk(t *testing.T, size int64) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("no file system can be mounted here (the end-to-end tests do it in a namespace of their own): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// noise does not compress, so that a file of it takes its size in a pack.
func noise(seed, size int) string {
	out := make([]byte, size)
	// It never fails.
	_, _ = rand.NewChaCha8(keyOf(seed)).Read(out)
	return string(out)
}

func keyOf(seed int) (key [32]byte) {
	binary.BigEndian.PutUint64(key[:], uint64(seed))
	return key
}

func repositories(t *testing.T, s *gittest.Server, n, size int) {
	t.Helper()
	for i := range n {
		o := gittest.NewOrigin(t, s.Root, fmt.Sprintf("r%d.git", i), map[string]string{"task.yaml": fmt.Sprintf("n: %d\n", i), "noise": noise(i, size)})
		// All or nothing: the server does not filter.
		gittest.Run(t, o.Dir, nil, "config", "uploadpack.allowFilter", "false")
	}
}

// More repositories than fit, again and again, with a restart in between: the volume has to do, whatever CacheBytes says.
func TestMirrorsAreEvictedByTheRoomThatThereIs(t *testing.T) {
	disk := smallDisk(t, 8<<20)
	s := gittest.NewServer(t, false)
	const n = 12
	repositories(t, s, n, 1<<20)
	for round := range 2 {
		g, err := New(t.Context(), Options{Dir: filepath.Join(disk, "git"), Network: local(t), Clock: systemClock{}})
		if err != nil {
			t.Fatal(err)
		}
		g.besideBytes = 1 // nothing is read without the cache
		for i := range 2 * n {
			wantData(t, g, ask(nil, "url", fmt.Sprintf("%s/r%d.git", s.URL, i%n), "pathInRepo", "task.yaml"), fmt.Sprintf("n: %d\n", i%n))
		}
		if free, total, err := diskSpaceOf(disk); err != nil || free < total/8 {
			t.Errorf("round %d: %d of %d bytes are free: %v", round, free, total, err)
		}
		if l := leftovers(t, g); len(l) > 0 {
			t.Errorf("left over: %v", l)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

// No file system has to be mounted for this: the files of packs are a device that is full.
func TestAFullDeviceCostsTheCacheOnly(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	s := gittest.NewServer(t, false)
	gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	var told []bool
	g := newResolver(t, func(o *Options) { o.CacheFull = func(full bool) { told = append(told, full) } })
	create := g.store.create
	g.store.create = func(string) (*os.File, error) { return os.OpenFile("/dev/full", os.O_RDWR, 0) }
	for range 2 {
		wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml"), "kind: Task\n")
	}
	if !slices.Equal(told, []bool{true}) {
		t.Errorf("the operator learns %v", told)
	}
	g.store.create = create
	wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml"), "kind: Task\n")
	if !slices.Equal(told, []bool{true, false}) {
		t.Errorf("the operator learns %v", told)
	}
	if l := leftovers(t, g); len(l) > 0 {
		t.Errorf("left over: %v", l)
	}
}

// fill leaves nothing of a file system, in a file that is not the resolver's.
func fill(t *testing.T, disk string) string {
	t.Helper()
	name := filepath.Join(disk, "foreign")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// A volume that is full of what is not the resolver's costs the cache and nothing else, at a start and later.
func TestAFullVolumeCostsTheCacheOnly(t *testing.T) {
	s := gittest.NewServer(t, false)
	repositories(t, s, 3, 1<<20)
	get := func(t *testing.T, g *Resolver, i int) {
		t.Helper()
		wantData(t, g, ask(nil, "url", fmt.Sprintf("%s/r%d.git", s.URL, i), "pathInRepo", "task.yaml"), fmt.Sprintf("n: %d\n", i))
	}
	for _, when := range []string{"before the first start", "before another start", "while it runs"} {
		t.Run(when, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			disk := smallDisk(t, 8<<20)
			clock := &handClock{now: time.Now()}
			o := Options{Dir: filepath.Join(disk, "git"), Network: local(t), Clock: clock}
			var foreign string
			if when != "while it runs" {
				if when == "before another start" {
					g, err := New(t.Context(), o)
					if err != nil {
						t.Fatal(err)
					}
					get(t, g, 0)
					if err := g.Close(); err != nil {
						t.Fatal(err)
					}
				}
				foreign = fill(t, disk)
			}
			g, err := New(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if when == "while it runs" {
				get(t, g, 0)
				foreign = fill(t, disk)
			}
			for i := range 3 {
				get(t, g, i)
				get(t, g, i)
			}
			if err := os.Remove(foreign); err != nil {
				t.Fatal(err)
			}
			clock.add(openAgain)
			for i := range 3 {
				get(t, g, i)
			}
			if len(mirrorFiles(t, g)) == 0 {
				t.Error("the volume has room again, and is not used")
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
			if left, err := filepath.Glob(filepath.Join(os.TempDir(), "sluice-git-*")); err != nil || len(left) > 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

// A volume that is only read is one without room: Linux makes that of a broken one.
func TestAVolumeThatCannotBeWrittenCostsTheCacheOnly(t *testing.T) {
	s := gittest.NewServer(t, false)
	repositories(t, s, 2, 1<<10)
	get := func(g *Resolver, i int) {
		t.Helper()
		wantData(t, g, ask(nil, "url", fmt.Sprintf("%s/r%d.git", s.URL, i), "pathInRepo", "task.yaml"), fmt.Sprintf("n: %d\n", i))
	}
	disk := smallDisk(t, 8<<20)
	o := Options{Dir: filepath.Join(disk, "git"), Network: local(t), Clock: systemClock{}}
	g, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	get(g, 0)
	g.store.create = func(name string) (*os.File, error) {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EROFS}
	}
	get(g, 1)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if g, err = New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	get(g, 0)
	get(g, 1)
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// Where there is no room anywhere the request fails, and says why.
func TestNoRoomAnywhere(t *testing.T) {
	disk := smallDisk(t, 1<<20)
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "huge.git", map[string]string{"task.yaml": "n: 0\n", "noise": noise(1, 2<<20)})
	gittest.Run(t, o.Dir, nil, "config", "uploadpack.allowFilter", "false")
	g, err := New(t.Context(), Options{Dir: filepath.Join(disk, "git"), Network: local(t), Clock: systemClock{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	g.besideBytes = 1 << 20
	e := failure(t, g, ask(nil, "url", s.URL+"/huge.git", "pathInRepo", "task.yaml"), resolve.ReasonLocal)
	if !e.Transient || !strings.Contains(e.Msg, "disk is full") {
		t.Errorf("error %+v", e)
	}
	if l := leftovers(t, g); len(l) > 0 {
		t.Errorf("left over: %v", l)
	}
}

// TestTheOldestMirrorGoesFirst: a full disk costs one mirror at a time.
func TestTheOldestMirrorGoesFirst(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"b", "a", "c"} {
		path := filepath.Join(dir, name)
		at := time.Unix(int64(1_000_000+i), 0)
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"a,c", "c", ""} {
		if !removeOldest(dir) {
			t.Fatal("nothing was removed")
		}
		var left []string
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if got := strings.Join(left, ","); got != want {
			t.Errorf("%q is left, want %q", got, want)
		}
	}
	if removeOldest(dir) {
		t.Error("something was removed from an empty folder")
	}
}

// TestAPackThatIsFetchedAgainReplacesADamagedOne: a loose object stays, because its name says what it has.
func TestAPackThatIsFetchedAgainReplacesADamagedOne(t *testing.T) {
	m := &mirror{store: &store{}, dir: t.TempDir()}
	from := t.TempDir()
	for name, text := range map[string]string{"objects/pack/pack-1.pack": "damaged", "objects/ab/cd": "old"} {
		path := filepath.Join(m.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"pack-1.pack": "whole", "pack-1.idx": "index", "ab/cd": "new"} {
		path := filepath.Join(from, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(m.store.adoptPacks(m, from), m.store.adoptLoose(m, from)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"pack/pack-1.pack": "whole", "pack/pack-1.idx": "index", "ab/cd": "old"} {
		if got, err := os.ReadFile(filepath.Join(m.dir, "objects", name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, want %q (%v)", name, got, want, err)
		}
	}
}

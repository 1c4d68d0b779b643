package git

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice.dev/resolve"
	"sluice.dev/resolve/git/gittest"
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

// noise does not compress.
func noise(seed, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%x", resolve.SHA256(fmt.Appendf(nil, "%d/%d", seed, i))["sha256"])
	}
	return b.String()
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
		for i := range 2 * n {
			wantData(t, g, ask(nil, "url", fmt.Sprintf("%s/r%d.git", s.URL, i%n), "pathInRepo", "task.yaml"), fmt.Sprintf("n: %d\n", i%n))
		}
		if free, total, err := space(disk); err != nil || free < total/8 {
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
	g := newResolver(t, nil)
	create := g.store.create
	g.store.create = func(string) (*os.File, error) { return os.OpenFile("/dev/full", os.O_RDWR, 0) }
	wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml"), "kind: Task\n")
	g.store.create = create
	wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml"), "kind: Task\n")
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
			o := Options{Dir: filepath.Join(disk, "git"), Network: local(t), Clock: systemClock{}}
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
			for i := range 3 {
				get(t, g, i)
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

// Where there is no room anywhere the request fails, and says why.
func TestNoRoomAnywhere(t *testing.T) {
	disk := smallDisk(t, 8<<20)
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "huge.git", map[string]string{"task.yaml": "n: 0\n", "noise": noise(1, 24<<20)})
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

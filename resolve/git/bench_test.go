package git

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"sluice.dev/tools/gittest"
)

// history makes a repository with so many commits, each of which replaces files with noise, so that packs do not compress it.
func history(t testing.TB, root, name string, commits, files, size int) *gittest.Origin {
	t.Helper()
	o := gittest.NewOrigin(t, root, name, map[string]string{"task.yaml": "kind: Task\n"})
	r, w := io.Pipe()
	go func() {
		b := bufio.NewWriterSize(w, 1<<20)
		noise := rand.NewChaCha8([32]byte{1})
		buf := make([]byte, size)
		for c := range commits {
			fmt.Fprintf(b, "commit refs/heads/main\ncommitter c <c@example.com> %d +0000\ndata 1\nm\n", 1700000000+c)
			if c == 0 {
				fmt.Fprint(b, "from refs/heads/main^0\n")
				for f := range files {
					fmt.Fprintf(b, "M 100644 inline d%d/e%d/f%d.yaml\ndata 11\nn: %7d\n\n", f%40, f%7, f, f)
				}
			}
			_, _ = noise.Read(buf)
			fmt.Fprintf(b, "M 100644 inline big/%d\ndata %d\n", c%10, size)
			_, _ = b.Write(buf)
			fmt.Fprint(b, "\n\n")
		}
		fmt.Fprint(b, "done\n")
		_ = w.CloseWithError(b.Flush())
	}()
	gittest.Run(t, o.Dir, r, "fast-import", "--quiet", "--done")
	// A pack with bitmaps, as a well-kept server has them.
	gittest.Run(t, o.Dir, nil, "repack", "-adbq", "--window=0")
	return o
}

func TestBytesFromLongHistory(t *testing.T) {
	s := gittest.NewServer(t, false)
	o := history(t, s.Root, "r.git", 200, 500, 100<<10)
	for _, c := range []struct {
		filter string
		most   int64
	}{{"true", 100 << 10}, {"false", 2 << 20}} {
		gittest.Run(t, o.Dir, nil, "config", "uploadpack.allowFilter", c.filter)
		g := newResolver(t, nil)
		before := s.Bytes.Load()
		wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml"), "kind: Task\n")
		if n := s.Bytes.Load() - before; n > c.most {
			t.Errorf("filter %s: %d bytes of 20 MB, want at most %d", c.filter, n, c.most)
		}
	}
}

// BenchmarkResolve measures one file of a repository with long history: SLUICE_BENCH_MIB MiB of it, 64 by default, and with
// SLUICE_BENCH_FILES files, 1,865 by default.
func BenchmarkResolve(b *testing.B) {
	from := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	s := gittest.NewServer(b, false)
	o := history(b, s.Root, "r.git", from("SLUICE_BENCH_MIB", 64), from("SLUICE_BENCH_FILES", 1865), 1<<20)
	id := gittest.Run(b, o.Dir, nil, "rev-parse", "main")
	url := s.URL + "/r.git"
	run := func(name string, filter bool, each func(b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			gittest.Run(b, o.Dir, nil, "config", "uploadpack.allowFilter", strconv.FormatBool(filter))
			bytes, requests := s.Bytes.Load(), s.Requests.Load()
			b.ResetTimer()
			each(b)
			b.ReportMetric(float64(s.Bytes.Load()-bytes)/float64(b.N), "bytes/op")
			b.ReportMetric(float64(s.Requests.Load()-requests)/float64(b.N), "requests/op")
		})
	}
	cold := func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			g := newResolver(b, nil)
			b.StartTimer()
			wantData(b, g, ask(nil, "url", url, "pathInRepo", "task.yaml"), "kind: Task\n")
		}
	}
	run("cold/filter", true, cold)
	run("cold/filter-deep", true, func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			g := newResolver(b, nil)
			b.StartTimer()
			wantData(b, g, ask(nil, "url", url, "pathInRepo", "d7/e0/f7.yaml"), "n:       7\n")
		}
	})
	run("cold/no-filter", false, cold)
	// What a resolver costs that runs the git program with all it knows to be thrifty, on the same repository.
	program := func(args ...string) func(b *testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				dir := b.TempDir()
				gittest.Run(b, dir, nil, append([]string{"clone", "-q"}, append(args, url, "r")...)...)
			}
		}
	}
	run("git-program/depth-1", true, program("--depth=1"))
	run("git-program/no-blobs", true, program("--depth=1", "--filter=blob:none", "--no-checkout"))
	warm := func(params ...string) func(b *testing.B) {
		return func(b *testing.B) {
			g := newResolver(b, nil)
			r := ask(nil, append([]string{"url", url, "pathInRepo", "task.yaml"}, params...)...)
			wantData(b, g, r, "kind: Task\n")
			b.ResetTimer()
			for b.Loop() {
				wantData(b, g, r, "kind: Task\n")
			}
		}
	}
	run("warm/branch-looked-up", true, warm(":ref-ttl", "0s"))
	run("warm/branch-within-ttl", true, warm(":ref-ttl", "1h"))
	run("warm/commit", true, warm("revision", id))
	run("moved-branch", true, func(b *testing.B) {
		g := newResolver(b, nil)
		r := ask(nil, "url", url, "pathInRepo", "moving.yaml", ":ref-ttl", "0s")
		for n := 0; b.Loop(); n++ {
			b.StopTimer()
			text := fmt.Sprintf("n: %d\n", n)
			o.Commit("main", map[string]string{"moving.yaml": text})
			b.StartTimer()
			wantData(b, g, r, text)
		}
	})
	run("50-files-40-at-once", true, func(b *testing.B) {
		g := newResolver(b, nil)
		next := make(chan int)
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				for i := range next {
					f := i % 50
					r := ask(nil, "url", url, "pathInRepo", filepath.Join(fmt.Sprintf("d%d/e%d", f%40, f%7), fmt.Sprintf("f%d.yaml", f)))
					if _, err := g.Resolve(b.Context(), r); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for i := 0; b.Loop(); i++ {
			next <- i
		}
		close(next)
		wg.Wait()
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// largeCommits makes a history of a gigabyte.
	largeCommits = 1000
	// largeRuns is the number of times that one file is resolved, each time by a new process with an empty folder.
	largeRuns = 5
	// largeCache keeps repositories for the next run; their names describe their content.
	largeCache = ".cache/bench"
	// manyFiles are in folders of folderFiles.
	manyFiles   = 1_000_000
	folderFiles = 1000
)

// resolveLarge measures one file of a large repository that the resolver has never seen.
func resolveLarge(ctx context.Context, c *config) (err error) {
	history, err := c.largeRepository("history-1000-v1.git", func(dir string) error { return makeRepository(ctx, dir, largeCommits) })
	if err != nil {
		return err
	}
	many, err := c.largeRepository("files-1000000-v1.git", func(dir string) error { return importRepository(ctx, dir, writeManyFiles) })
	if err != nil {
		return err
	}
	wide, err := c.largeRepository("wide-1000000-v2.git", func(dir string) error { return makeWideRepository(ctx, dir) })
	if err != nil {
		return err
	}
	s, err := install(ctx, c.sluice, map[string]map[string]string{"git-resolver-config": {"allowed-addresses": allowLoopback}})
	if err != nil {
		return err
	}
	defer func() { err = c.closeSystem(s, err) }()
	if _, err := s.start(ctx, "resolution"); err != nil {
		return err
	}
	const namespace = "large"
	rows := [][]string{{
		"one file, cold", "creation to Succeeded", "worst", "resolver alone", "fetched", "HTTP requests", "on disk", "work tree",
		"peak memory of the resolver", "of its git processes", "load",
	}}
	for _, kind := range []struct {
		title, repo, path string
		filter            bool
		// atOnce is the number of requests at once, each for a file of its own.
		atOnce int
	}{
		{"1 GB of history", history, filePath(7), true, 1},
		{"the same, the server cannot filter", history, filePath(7), false, 1},
		{"a million files", many, manyPath(7), true, 1},
		{"a million entries in one folder", wide, widePath(7), true, 1},
		{"the same, 4 at once", wide, widePath(7), true, 4},
	} {
		row, err := s.largeRow(ctx, fmt.Sprintf("%s-%d", namespace, len(rows)), kind.repo, kind.path, kind.filter, kind.atOnce)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.title, err)
		}
		rows = append(rows, append([]string{kind.title}, row...))
	}
	rows = append(rows, []string{"aim", "300 ms", "", "", "2.0 MiB with a filter", "", "", "none", "256 MiB", "256 MiB", ""})
	fmt.Fprintf(c.out, "%d commits and %d files; %d files in folders of %d; %d files in one folder; medians of %d runs\n",
		largeCommits+1, repositoryFiles+10, manyFiles, folderFiles, manyFiles, largeRuns)
	c.table(rows...)
	return nil
}

// largeRepository returns the folder of a large repository, and makes it the first time.
func (c *config) largeRepository(name string, fill func(dir string) error) (string, error) {
	repo, err := filepath.Abs(filepath.Join(largeCache, name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(repo); err == nil {
		return repo, nil
	}
	if err := os.MkdirAll(filepath.Dir(repo), 0o750); err != nil {
		return "", err
	}
	making, err := os.MkdirTemp(filepath.Dir(repo), "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(making) //nolint:errcheck // what is left of a failure takes room and nothing else
	start := time.Now()
	tmp := filepath.Join(making, "r.git")
	if err := fill(tmp); err != nil {
		return "", err
	}
	fmt.Fprintf(c.out, "made %s in %.0f s\n", name, time.Since(start).Seconds())
	return repo, os.Rename(tmp, repo)
}

// filesBelow adds up the sizes of the files of a folder, and lists those that are named like files of the repository.
func filesBelow(dir string) (size int64, tree []string, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		size += info.Size()
		if strings.HasSuffix(p, ".yaml") || strings.Contains(p, "/big/") || d.Name() == "index" {
			tree = append(tree, p)
		}
		return nil
	})
	return size, tree, err
}

// largeRow resolves one file several times and returns what the table shows.
func (s *system) largeRow(ctx context.Context, namespace, repo, path string, filter bool, atOnce int) ([]string, error) {
	if err := s.namespace(ctx, namespace); err != nil {
		return nil, err
	}
	origin, err := gitServer(ctx, filepath.Dir(repo), filter)
	if err != nil {
		return nil, err
	}
	defer origin.Close() //nolint:errcheck // nobody uses it any more
	what := ask{"git", [][2]string{{"url", origin.url("/" + filepath.Base(repo))}, {"revision", "main"}, {"pathInRepo", path}, {"cache", "never"}}}
	var whole, alone []time.Duration
	var fetched, requests, disk int64
	var memory, gitMemory int
	tree := "none"
	for i := range largeRuns {
		r, err := s.start(ctx, "resolver-git")
		if err != nil {
			return nil, err
		}
		role := r[0]
		w, err := s.watch(ctx, namespace)
		if err != nil {
			return nil, err
		}
		bytesBefore, requestsBefore := origin.bytes.Load(), origin.requests.Load()
		peakOfGit := peakOfChildren(ctx, role.PID())
		out, err := w.run(ctx, fmt.Sprintf("r-%d", i), atOnce, atOnce, func(int) ask { return what })
		gitMemory = max(gitMemory, peakOfGit())
		if err != nil {
			return nil, err
		}
		if out.succeeded != atOnce {
			return nil, fmt.Errorf("it failed: %v", out.failures)
		}
		fetched, requests = max(fetched, origin.bytes.Load()-bytesBefore), max(requests, origin.requests.Load()-requestsBefore)
		memory = max(memory, memoryOf(role.PID(), "VmHWM"))
		whole = append(whole, out.latencies...)
		const duration = "sluice_resolution_duration_seconds_sum"
		m, err := metrics(ctx, http.DefaultClient, "http://"+role.Listen+"/metrics", duration)
		if err != nil {
			return nil, err
		}
		alone = append(alone, time.Duration(m.since(nil, duration, `phase="resolve"`)*float64(time.Second))/time.Duration(atOnce))
		size, names, err := filesBelow(role.cache)
		if err != nil {
			return nil, err
		}
		disk = max(disk, size)
		if len(names) > 0 {
			tree = fmt.Sprintf("%d files", len(names))
		}
		w.stop()
		if err := s.end(role); err != nil {
			return nil, err
		}
	}
	mib := func(n int64) string { return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20)) }
	return []string{
		millis(median(whole)), millis(slices.Max(whole)), millis(median(alone)), mib(fetched), fmt.Sprint(requests), mib(disk), tree,
		mebibytes(memory), mebibytes(gitMemory), loadAverage(),
	}, nil
}

// Command bench measures the claims of the project, and prints tables with units. It compares verdicts with real upgrades. It measures the time of a check, the speed of reading stored objects, and the speed of resolving requests.
// It asserts nothing about time.
//
// The real upgrades are not part of the repository: SLUICE_CORPUS names a folder with pairs.tsv (id, old file, new file, old
// release, new release, label). Without it, the bench skips those tables.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"sluice.dev/internal/cli"
)

type config struct {
	corpus string
	sluice string
	// objects are the numbers of stored objects for the checks of stored objects.
	objects []int
	only    string
	out     io.Writer
}

func main() {
	c := config{out: os.Stdout, corpus: os.Getenv("SLUICE_CORPUS")}
	flag.StringVar(&c.sluice, "sluice", "bin/sluice", "the binary whose start is measured")
	c.objects = []int{10_000, 100_000}
	flag.Func("objects", "how many stored objects to check, separated by commas (default 10000,100000)", c.setObjects)
	flag.StringVar(&c.only, "only", "", "run only these parts, separated by commas: "+strings.Join(partNames(), ", "))
	flag.Parse()
	debug.SetGCPercent(cli.GCPercent) // as the command does
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Fprintf(c.out, "%s %s/%s, %d processors\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	failed := false
	for _, p := range parts() {
		if c.only != "" && !slices.Contains(strings.Split(c.only, ","), p.name) {
			continue
		}
		fmt.Fprintf(c.out, "\n## %s\n", p.title)
		if err := p.run(ctx, &c); err != nil {
			fmt.Fprintf(os.Stderr, "bench %s: %v\n", p.name, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

func (c *config) setObjects(list string) error {
	c.objects = nil
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n <= 0 {
			return fmt.Errorf("%q is not a number of objects", s)
		}
		c.objects = append(c.objects, n)
	}
	slices.Sort(c.objects)
	return nil
}

type part struct {
	name, title string
	run         func(context.Context, *config) error
}

func parts() []part {
	return []part{
		// Before this process has grown: a child's peak memory counts what its parent had when it was started.
		{"process", "Speed of `sluice check` as a process", process},
		{"hostile", "Changes of up to 3 MB that are made to cost a lot: `sluice check` as a process", hostile},
		{"apply", "Delivery: `sluice apply` of 500 to 50,000 ConfigMaps, and `kubectl apply --server-side`", measureApplying},
		{"objects", "Stored objects checked against a real API server", objects},
		{"resolve", "Throughput: files of one git repository, through the cluster", resolveGit},
		{"large", "One file of a large repository, cold, through the cluster", resolveLarge},
		{"corpus", "Truth: real upgrades", corpusTruth},
		{"speed", "Speed of the comparison, in one process", speed},
		{"features-latency", "Settings of features that change: until a real API server enforces them", featuresLatency},
		{"features-memory", "Memory of the controller of features", featuresMemory},
		{"feature-generate", "Generating a project of 100 CRDs, the loading of Go packages included", featureGenerate},
		{"feature-speed", "Speed of features, without an API server", featureSpeed},
	}
}

func partNames() []string {
	var out []string
	for _, p := range parts() {
		out = append(out, p.name)
	}
	return out
}

// table prints rows with aligned columns; the first is the head.
func (c *config) table(rows ...[]string) {
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush() // for a person to read, like all that is printed here
}

func percent(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(n)/float64(of))
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// quantile returns the q-th quantile of sorted durations.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return quantile(d, 0.5)
}

// peakMemory returns the peak resident memory of this process in MiB, or 0 if the system does not tell.
func peakMemory() int { return memoryOf(os.Getpid(), "VmHWM") / 1024 }

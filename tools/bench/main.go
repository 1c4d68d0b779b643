// Command bench measures what docs/performance.md shows, and prints tables with units. It asserts nothing about time.
//
// The real upgrades are not part of the repository: SLUICE_CORPUS names a folder with pairs.tsv (id, old file, new file, old
// release, new release, label). Without it, the bench skips those tables.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	_ "sluice.dev/internal/gcpercent" // as the command does
)

// bench is one run; sluice is the absolute path of the program that is measured, dir an empty folder for the
// files of a part.
type bench struct{ corpus, sluice, dir string }

// main measures all parts, or those that -only names, and prints as it goes: some parts take minutes.
func main() {
	sluice := flag.String("sluice", "bin/sluice", "the program that is measured (make build)")
	only := flag.String("only", "", "run only these parts, separated by commas: "+strings.Join(partNames(), ", "))
	flag.Parse()
	klog.SetLogger(logr.Discard()) // client-go tells of each watch that ends
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runParts(ctx, *sluice, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// runParts runs the parts, all of them even if one fails, and returns the last error.
func runParts(ctx context.Context, sluice, only string) error {
	path, err := filepath.Abs(sluice)
	if err != nil {
		return err
	}
	b := bench{corpus: os.Getenv("SLUICE_CORPUS"), sluice: path}
	fmt.Printf("%s %s/%s, %d processors\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	for _, p := range parts {
		if only != "" && !slices.Contains(strings.Split(only, ","), p.name) {
			continue
		}
		fmt.Printf("\n## %s\n", p.title)
		if e := p.runIn(ctx, b); e != nil {
			err = fmt.Errorf("%s: %w", p.name, e)
			fmt.Fprintln(os.Stderr, "bench", err)
		}
	}
	return err
}

// A part is what -only can choose. Its function prints its own tables, and may fail without harm to the others.
type part struct {
	name, title string
	measure     func(context.Context, bench) error
}

// runIn measures with a folder that is removed afterwards.
func (p *part) runIn(ctx context.Context, b bench) (err error) {
	if b.dir, err = os.MkdirTemp("", "sluice-bench"); err != nil {
		return err
	}
	return errors.Join(p.measure(ctx, b), os.RemoveAll(b.dir))
}

var parts = []part{
	// First, before this process has grown: a child's peak memory counts what its parent had when it was started.
	// The order of the others is that of docs/performance.md.
	{"process", "Speed of `sluice check` as a process", measureChecks},
	{"hostile", "Changes of up to 3 MB that are made to cost a lot: `sluice check` as a process", measureHostile},
	{"feature-generate", "Generating a project of 100 CRDs, the loading of Go packages included", measureGenerating},
	{"apply", "Delivery: `sluice apply` of 500 to 50,000 ConfigMaps, and `kubectl apply --server-side`", measureApplying},
	{"objects", "Stored objects checked against a real API server", measureObjects},
	{"guard", "The guard: writes of a CRD of 1 MiB through a real API server, with and without it", measureGuard},
	{"resolve", "Throughput: files of one git repository, through the cluster", measureResolving},
	{"large", "One file of a large repository, cold, through the cluster", measureLarge},
	{"features-latency", "Settings of features that change: until a real API server enforces them", measureLatency},
	{"features-memory", "Memory of the controller of features", measureMemory},
	{"corpus", "Real upgrades: verdicts, and speed of the comparison in one process", measureCorpus},
}

func partNames() []string {
	var out []string
	for _, p := range parts {
		out = append(out, p.name)
	}
	return out
}

// printTable prints rows with aligned columns; the first is the head.
func printTable(rows ...[]string) {
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush() // for a person to read, like all that is printed here
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }

func mebibytes(kib int64) string { return fmt.Sprintf("%.0f MiB", float64(kib)/1024) }

// quantile returns the q-th quantile of durations.
// 0 is the least, 1 the greatest, 0.5 the median. It panics for no durations.
func quantile(d []time.Duration, q float64) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[min(int(q*float64(len(d))), len(d)-1)]
}

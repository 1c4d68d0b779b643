//go:build e2e

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"sluice.dev/tools/clustertest/nodeless"
)

// samples is how often the processes are measured in a soak.
const samples = 16

// measured are the lines of a process, by the names of their metrics, with the growth that is no leak: what informers and caches
// keep, what Go has not given back, connections.
var measured = []struct {
	metric, title string
	unit          float64
	slack         float64
}{
	{"process_resident_memory_bytes", "RSS MiB", 1 << 20, 32},
	{"go_memstats_heap_alloc_bytes", "heap MiB", 1 << 20, 8},
	{"go_goroutines", "goroutines", 1, 25},
	{"process_open_fds", "files", 1, 15},
}

// growth is by how much the last third of a line may be above the first, beside its slack.
const growth = 1.25

// TestE2ESoak has users work for SLUICE_SOAK, a duration such as 30m. In the first quarter each role is restarted, one after another;
// then the processes are measured. It fails if something was lost, or if a line grows.
func TestE2ESoak(t *testing.T) {
	if os.Getenv("SLUICE_SOAK") == "" {
		t.Skip("make soak runs it: it takes long")
	}
	duration, err := time.ParseDuration(os.Getenv("SLUICE_SOAK"))
	if err != nil {
		t.Fatalf("SLUICE_SOAK: %v", err)
	}
	begun := time.Now()
	w := newWalk(t, false)
	w.shop(w.manifests("--values", w.file("values.yaml", "debug: true\n")))
	l := w.begin(true)
	w.restart(begun.Add(duration / 4))
	t.Logf("while all roles were restarted: %s", l.anew())

	lines := map[string]map[string][]float64{} // by Deployment and metric
	began := time.Now()
	for i := range samples {
		time.Sleep(time.Until(began.Add((duration - duration/4) * time.Duration(i+1) / samples)))
		for deployment, p := range w.node.Processes() {
			values := w.measure(p)
			if lines[deployment] == nil {
				lines[deployment] = map[string][]float64{}
			}
			for _, m := range measured {
				lines[deployment][m.metric] = append(lines[deployment][m.metric], values[m.metric]/m.unit)
			}
		}
	}
	l.end("requests", "unsafe changes refused", "safe changes", "writes of a gated field", "flips", "deliveries")
	w.healthy()
	w.allowed(w.requests())
	load, _ := os.ReadFile("/proc/loadavg") // for the reader only
	t.Logf("%s, load average %s%s", time.Since(began).Round(time.Second), load, soakTable(lines))
	for _, fault := range growing(lines) {
		t.Error(fault)
	}
}

// restart rolls all Deployments over, one after another, until a time; each at least once.
func (w *walk) restart(until time.Time) {
	w.Helper()
	for round := 0; round == 0 || time.Now().Before(until); round++ {
		for d := range strings.FieldsSeq(w.kubectl("-n", "sluice-system", "get", "deployments", "-o", "name")) {
			w.kubectl("-n", "sluice-system", "patch", d, "--type=merge", "-p", fmt.Sprintf(`{"spec": {"template": {"metadata": {"annotations": {"restarted": "%d"}}}}}`, round))
			w.kubectl("-n", "sluice-system", "rollout", "status", "--timeout=300s", d)
		}
	}
}

// measure reads the metrics of a process that has just collected its garbage.
func (w *walk) measure(p *nodeless.Process) map[string]float64 {
	w.Helper()
	get := func(path string) string {
		text, err := p.Get(w.Context(), path)
		if err != nil {
			w.Fatalf("%s of %s: %v", path, p.Name, err)
		}
		return text
	}
	get("/debug/pprof/heap?gc=1")
	out := map[string]float64{}
	for line := range strings.Lines(get("/metrics")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			out[name] = v
		}
	}
	return out
}

// thirds are the medians of the first and the last third of a line.
func thirds(line []float64) (first, last float64) {
	median := func(part []float64) float64 {
		part = slices.Sorted(slices.Values(part))
		return part[len(part)/2]
	}
	n := max(len(line)/3, 1)
	return median(line[:n]), median(line[len(line)-n:])
}

// growing lists the lines that grow.
func growing(lines map[string]map[string][]float64) (faults []string) {
	for deployment, of := range lines {
		for _, m := range measured {
			if first, last := thirds(of[m.metric]); last > first*growth+m.slack {
				faults = append(faults, fmt.Sprintf("%s: %s grows from %.0f to %.0f: %.0f", deployment, m.title, first, last, of[m.metric]))
			}
		}
	}
	slices.Sort(faults)
	return faults
}

// soakTable has, for each process and line, the medians of the thirds and the highest value.
func soakTable(lines map[string]map[string][]float64) string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 1, ' ', 0)
	row := func(cells ...string) { fmt.Fprintf(table, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	head, rule := []string{"role"}, []string{"---"}
	for _, m := range measured {
		head, rule = append(head, m.title), append(rule, "---")
	}
	fmt.Fprintln(table)
	row(head...)
	row(rule...)
	var roles []string
	for role := range lines {
		roles = append(roles, role)
	}
	slices.Sort(roles)
	for _, role := range roles {
		cells := []string{"`" + strings.TrimPrefix(role, "sluice-") + "`"}
		for _, m := range measured {
			line := lines[role][m.metric]
			first, last := thirds(line)
			cells = append(cells, fmt.Sprintf("%.0f, %.0f, %.0f", first, last, slices.Max(line)))
		}
		row(cells...)
	}
	if err := table.Flush(); err != nil {
		return err.Error()
	}
	return out.String()
}

func TestALineThatGrowsIsFound(t *testing.T) {
	lines := func(goroutines ...float64) map[string]map[string][]float64 {
		flat := []float64{50, 50, 50, 50, 50, 50}
		return map[string]map[string][]float64{"sluice-x": {
			"process_resident_memory_bytes": flat, "go_memstats_heap_alloc_bytes": flat, "go_goroutines": goroutines, "process_open_fds": flat,
		}}
	}
	if got := growing(lines(100, 300, 90, 110, 120, 100)); got != nil {
		t.Errorf("a line that only jumps: %v", got)
	}
	if got := growing(lines(100, 110, 130, 150, 170, 190)); len(got) != 1 || !strings.Contains(got[0], "goroutines grows from") {
		t.Errorf("a line that grows: %v", got)
	}
}

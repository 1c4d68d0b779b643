package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	metricRow  = regexp.MustCompile("(?m)^\\| `((?:sluice|kubernetes)_[a-z_]+)` \\| (\\w+) \\| (.*?) \\|")
	labelCode  = regexp.MustCompile("`(\\w+)`")
	inUse      = regexp.MustCompile(`\b((?:sluice|kubernetes|process|go)_[a-z_]+)(\{[^}]*\})?`)
	matcher    = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"`)
	aggregated = regexp.MustCompile(`by \(([^)]*)\)`)
)

// everyTarget are labels that Prometheus gives to all metrics of a target.
var everyTarget = []string{"job", "instance", "pod"}

// listedMetrics has the labels of the metrics of docs/reference.md, which another test compares with the code.
func listedMetrics(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference.md"))
	if err != nil {
		t.Fatal(err)
	}
	of := map[string][]string{"process_resident_memory_bytes": nil, "process_open_fds": nil, "go_goroutines": nil}
	for _, m := range metricRow.FindAllStringSubmatch(string(page), -1) {
		name := m[1]
		var labels []string
		for _, l := range labelCode.FindAllStringSubmatch(m[3], -1) {
			labels = append(labels, l[1])
		}
		if m[2] == "histogram" {
			of[name+"_sum"], of[name+"_count"] = labels, labels
			name, labels = name+"_bucket", append(slices.Clip(labels), "le")
		}
		of[name] = labels
	}
	return of
}

// askedFor fails the test if a query asks for a metric or a label that the program does not have.
func askedFor(t *testing.T, where, query string, listed map[string][]string) {
	t.Helper()
	if strings.Count(query, "(") != strings.Count(query, ")") || strings.Count(query, "[") != strings.Count(query, "]") {
		t.Errorf("%s: brackets do not match: %s", where, query)
	}
	var known []string
	uses := inUse.FindAllStringSubmatch(query, -1)
	if len(uses) == 0 {
		t.Errorf("%s asks for no metric: %s", where, query)
	}
	for _, use := range uses {
		labels, ok := listed[use[1]]
		if !ok {
			t.Errorf("%s: the program has no metric %s", where, use[1])
			continue
		}
		labels = append(slices.Clip(labels), everyTarget...)
		known = append(known, labels...)
		for _, m := range matcher.FindAllStringSubmatch(use[2], -1) {
			if !slices.Contains(labels, m[1]) {
				t.Errorf("%s: %s has no label %s", where, use[1], m[1])
			}
		}
	}
	for _, by := range aggregated.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(by[1], ",") {
			if !slices.Contains(known, strings.TrimSpace(label)) {
				t.Errorf("%s: no metric has the label %s: %s", where, label, query)
			}
		}
	}
}

func monitoring(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "config", "monitoring", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func TestAlertsAskForMetricsThatExist(t *testing.T) {
	var rules struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	monitoring(t, "alerts.yaml", &rules)
	listed := listedMetrics(t)
	seen := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			askedFor(t, r.Alert, r.Expr, listed)
			if seen[r.Alert] || !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.For == "" {
				t.Errorf("the alert %s is not complete, or there are two: %+v", r.Alert, r)
			}
			if _, err := os.Stat(filepath.Join("..", "..", r.Annotations["page"])); err != nil || r.Annotations["page"] == "" {
				t.Errorf("%s: %v", r.Alert, err)
			}
			seen[r.Alert] = true
		}
	}
	if len(seen) == 0 {
		t.Error("there are no alerts")
	}
}

func TestTheDashboardAsksForMetricsThatExist(t *testing.T) {
	var board struct {
		Panels []struct {
			Title   string `json:"title"`
			Type    string `json:"type"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "config", "monitoring", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	listed := listedMetrics(t)
	queries := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			askedFor(t, p.Title, target.Expr, listed)
			queries++
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %s shows nothing", p.Title)
		}
	}
	if queries == 0 {
		t.Error("there are no queries")
	}
}

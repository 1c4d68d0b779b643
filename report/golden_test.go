package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func printed(t testing.TB, format string, r *Report, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Print(&b, format, r, o); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return b.String()
}

func TestOutputIsAsRecorded(t *testing.T) {
	docs := Options{Rules: ruleDoc, Version: "1.2.3"}
	type golden struct {
		name   string
		report *Report
		format string
		opts   Options
	}
	var all []golden
	for _, p := range Printers() {
		all = append(all,
			golden{"realistic", realistic(), p.Name, docs},
			golden{"empty", &Report{}, p.Name, Options{}},
			golden{"safe", allSafe(), p.Name, Options{}},
		)
	}
	all = append(all,
		golden{"realistic-verbose", realistic(), "text", Options{Verbose: true}},
		golden{"realistic-color-80", realistic(), "text", Options{Color: true, Width: 80}},
		golden{"huge", huge(2000), "text", Options{}},
		golden{"huge", huge(2000), "github", Options{}},
		golden{"hostile", hostile(), "text", Options{}},
		golden{"hostile", hostile(), "github", Options{}},
		golden{"hostile", hostile(), "markdown", Options{}},
		golden{"new", someNew(), "text", Options{}},
		golden{"new", someNew(), "junit", Options{}},
		golden{"new", someNew(), "markdown", Options{}},
	)
	for _, g := range all {
		t.Run(g.name+"/"+g.format, func(t *testing.T) {
			got := printed(t, g.format, g.report, g.opts)
			file := filepath.Join("testdata", g.name+"."+extension(g.format))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("output differs from %s (-want +got):\n%s", file, diff)
			}
		})
	}
}

func extension(format string) string {
	switch format {
	case "text":
		return "txt"
	case "sarif":
		return "sarif.json"
	case "junit":
		return "junit.xml"
	case "markdown":
		return "md"
	case "github":
		return "github.txt"
	}
	return format
}

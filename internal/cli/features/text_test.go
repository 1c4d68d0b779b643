package features

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/featureusage"
)

// runFeatures runs sluice features with the environment of the test, and returns the exit code.
func runFeatures(t *testing.T, args []string, stdout, stderr io.Writer) int {
	t.Helper()
	return command.Run(t.Context(), &command.Env{In: strings.NewReader(""), Out: stdout, Err: stderr, Now: time.Now, Getenv: os.Getenv}, args, New)
}

// modeUsage is what a change and a count show of a feature.
var modeUsage = usageOf{
	Name: "demo.mode", Objects: 3, Uses: 4,
	Namespaces: []featureusage.Namespace{{Objects: 1, Uses: 1}, {Name: "team-a", Objects: 2, Uses: 3}},
	Named:      []usedBy{{"widgets.demo.dev", "", "w", 1, "spec.mode", sourcePlace{}}, {"widgets.demo.dev", "team-a", "x", 2, "spec.items[1].mode", sourcePlace{}}},
}

func TestTextOfAChange(t *testing.T) {
	before := "false"
	for _, tt := range []struct {
		name      string
		change    Change
		verbose   bool
		out, errs string
	}{
		{
			name: "written",
			change: Change{
				ConfigMap: "demo/flags", Written: true, Keys: []keyChange{{"mode", &before, "true"}, {"slow", nil, "true"}},
				Features: []changedFeature{{Name: "demo.mode", Enabled: true, Why: "the settings say on", Needs: "processes take it in when they are restarted"}},
			},
			out: `ConfigMap demo/flags: mode: "true" written ("false" before)
ConfigMap demo/flags: slow: "true" written (not set before)
demo.mode: on, the settings say on
  processes take it in when they are restarted
`,
		},
		{
			name: "dry run",
			change: Change{
				ConfigMap: "demo/flags", DryRun: true, Keys: []keyChange{{"mode", &before, "false"}},
				Features: []changedFeature{{Name: "demo.mode", Why: "the settings say off", Usage: &modeUsage, Outcome: "new uses are refused"}},
				Refused:  []string{"demo.mode is in use by 3 objects"},
			},
			out: `ConfigMap demo/flags: mode: "false" would be written ("false" before)
demo.mode: off, the settings say off
  in use by 3 objects; new uses are refused
  -       1 object
  team-a  2 objects
`,
			errs: "refused: demo.mode is in use by 3 objects\n",
		},
		{
			name: "dry run with names", verbose: true,
			change: Change{
				ConfigMap: "demo/flags", DryRun: true,
				Features: []changedFeature{{Name: "demo.mode", Why: "the settings say off", Usage: &modeUsage, Outcome: "new uses are refused"}},
			},
			out: `demo.mode: off, the settings say off
  in use by 3 objects; new uses are refused
  widgets.demo.dev  -       w  spec.mode
  widgets.demo.dev  team-a  x  spec.items[1].mode
  and 1 more
`,
		},
		{
			name: "refused",
			change: Change{
				ConfigMap: "demo/flags", Keys: []keyChange{{"mode", nil, "true"}}, Features: []changedFeature{{Name: "demo.mode", Enabled: true}},
				Refused: []string{"one", "two"},
			},
			errs: "refused: one\nrefused: two\n",
		},
		{name: "nothing to do", change: Change{Unchanged: []string{"demo.mode is on: the settings say on"}}, out: "demo.mode is on: the settings say on\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if err := tt.change.printChange(&command.Env{Out: &out, Err: &errs}, &setFlags{featuresFlags: featuresFlags{output: asTable}, verbose: tt.verbose}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.out, out.String()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.errs, errs.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTextOfUsage(t *testing.T) {
	var out bytes.Buffer
	u := Usage{Features: []usageOf{modeUsage, {Name: "demo.unused"}}}
	u.printTable(&command.Env{Out: &out, Err: &out}, true)
	const want = `FEATURE      NAMESPACE  OBJECTS  USES
demo.mode    all        3        4
demo.mode    -          1        1
demo.mode    team-a     2        3
demo.unused  all        0        0

demo.mode
  widgets.demo.dev  -       w  spec.mode
  widgets.demo.dev  team-a  x  spec.items[1].mode
  and 1 more
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

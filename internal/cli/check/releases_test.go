package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"sluice.dev/internal/cli/command"
	"sluice.dev/report"
	"sluice.dev/tools/bundletest"
)

// matrixOf makes a matrix of n releases, 0 to n-1, of which the given upgrades are safe, such as 01 from 0 to 1.
func matrixOf(n int, safe string) *ReleaseMatrix {
	m := &ReleaseMatrix{}
	for i := range n {
		m.Releases = append(m.Releases, Release{Name: string(rune('0' + i))})
	}
	for i := range n {
		for j := i + 1; j < n; j++ {
			u := Upgrade{From: m.Releases[i].Name, To: m.Releases[j].Name, Verdict: report.Unsafe}
			if strings.Contains(" "+safe+" ", " "+u.From+u.To+" ") {
				u.Verdict = report.Safe
			}
			m.Upgrades = append(m.Upgrades, u)
		}
	}
	m.findWays()
	return m
}

func TestWaysBetweenReleases(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		n          int
		safe       string
		ways, skip []string
	}{
		"all are safe":                   {3, "01 02 12", []string{"0: 2", "1: 2"}, nil},
		"one must not be skipped":        {3, "01 12", []string{"0: 1, 2", "1: 2"}, []string{"1"}},
		"one may only be skipped":        {3, "02", []string{"0: 2", "1: none to 2"}, nil},
		"the shortest of two":            {4, "01 12 23 13 02", []string{"0: 2, 3", "1: 3", "2: 3"}, nil},
		"nothing leads to the newest":    {5, "01 12 03 13 23", []string{"0: 3; none to 4", "1: 3; none to 4", "2: 3; none to 4", "3: none to 4"}, []string{"1"}},
		"a way that goes past a bad one": {5, "02 24 34", []string{"0: 2, 4", "1: none to 4", "2: 4", "3: 4"}, nil},
		"several steps before the end":   {4, "01 12", []string{"0: 1, 2; none to 3", "1: 2; none to 3", "2: none to 3"}, []string{"1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := matrixOf(tt.n, tt.safe)
			var ways, skip []string
			for _, w := range m.Ways {
				ways = append(ways, w.From+": "+m.wayText(w))
			}
			for _, u := range m.Unskippable {
				skip = append(skip, u.Release)
			}
			if diff := cmp.Diff(tt.ways, ways); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.skip, skip); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVersionsAmongTags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ pattern, tags, want string }{
		{"v*", "v1.10.0 v1.9.0 vnext v2.0.0-rc.1", "v1.9.0 v1.10.0"},
		{"*", "helm-chart-1.0.0 v1.0.0 nightly-20240101", "v1.0.0"},
		{"helm-chart-*", "helm-chart-1.1.0 helm-chart-1.0.0 helm-chart-2.0.0-rc.1", "helm-chart-1.0.0 helm-chart-1.1.0"},
		{"chart2-[0-9]*", "chart2-1.1.0 chart2-1.0.0-rc.1", "chart2-1.1.0"},
		{"c-v*-rc*", "c-v1.1.0-rc.2 c-v1.1.0-rc.1", "c-v1.1.0-rc.1 c-v1.1.0-rc.2"},
		{"api/*", "api/v1.1.0 api/v1.0.0-rc.1 api/controller-v2", "api/v1.1.0"},
		{"c*", "c-v2 c-v1", "c-v1 c-v2"},
	} {
		tags, _ := versionsAmong(strings.Fields(tt.tags), tt.pattern)
		if got := strings.Join(tags, " "); got != tt.want {
			t.Errorf("%s of %s: %s, want %s", tt.pattern, tt.tags, got, tt.want)
		}
	}
}

// crdWith is a CRD with the versions; one with a star is the storage version, and the first alone is served.
func crdWith(versions ...string) string {
	text := `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.demo.dev}
spec:
  group: demo.dev
  names: {plural: widgets, kind: Widget}
  scope: Namespaced
  versions:
`
	for i, v := range versions {
		name, stored := strings.CutSuffix(v, "*")
		text += fmt.Sprintf("  - {name: %s, served: %t, storage: %t, schema: {openAPIV3Schema: {type: object}}}\n", name, i == 0, stored)
	}
	return text
}

// releasePlaces are five releases: in a directory, a repository on this machine, a Helm chart in a registry, and two more directories. The directory is the
// current one.
func releasePlaces(t *testing.T) (places []string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(file string, versions ...string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(crdWith(versions...)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one/crd.yaml", "v1", "v1beta1*")
	write("repo/crds/crd.yaml", "v1*", "v1beta1")
	write("four/crd.yaml", "v1*", "v2")
	write("five/crd.yaml", "v1", "v2*")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-qm", "two"}, {"tag", "v2"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", "repo"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	images := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(images.Close)
	host := strings.TrimPrefix(images.URL, "http://")
	repository, err := name.NewRepository(host+"/team/crds", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&bundletest.Registry{Repo: repository}).Push(t.Context(), "v3", bundletest.Layer{
		MediaType: types.MediaType("application/vnd.cncf.helm.chart.content.v1.tar+gzip"), Annotations: map[string]string{},
		Blob: bundletest.Gzip(bundletest.Tar(bundletest.File{Name: "crds/templates/crd.yaml", Data: []byte("{{ x }}")}, bundletest.File{Name: "crds/crds/crd.yaml", Data: []byte(crdWith("v1*"))})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return []string{"one", "git+file://" + dir + "/repo//crds?ref=v2", "oci://" + host + "/team/crds:v3", "four", "five"}
}

func runCommand(args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd := New(&command.Env{In: strings.NewReader(""), Out: &out, Err: &errs, Now: time.Now, Getenv: func(string) string { return "" }})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	return out.String(), errs.String(), err
}

func TestReleasesFromManyPlaces(t *testing.T) {
	places := releasePlaces(t)
	out, _, err := runCommand("--releases", strings.Join(places, ", "), "--allow-address", "127.0.0.1", "--allow-plain-http", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var m ReleaseMatrix
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		t.Fatal(err)
	}
	index := strings.NewReplacer(places[0], "1", places[1], "2", places[2], "3", places[3], "4", places[4], "5")
	var got []string
	for _, u := range m.Upgrades {
		got = append(got, index.Replace(u.From+u.To)+" "+string(u.Verdict)+" "+strings.Join(u.MigrateFirst, " "))
	}
	want := []string{
		"12 safe ", "13 unsafe ", "14 unsafe ", "15 unsafe ",
		"23 safe widgets.demo.dev", "24 safe widgets.demo.dev", "25 safe widgets.demo.dev",
		"34 safe ", "35 safe ", "45 safe ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	before := "before " + places[1] + " to " + places[2] + ": sluice migrate widgets.demo.dev"
	for format, wants := range map[string][]string{
		"text": {before, "  safe after migrate  four "},
		"html": {`<td class="safe" title="before `, ">safe after migrate</td>"},
	} {
		text, _, err := runCommand("--releases", strings.Join(places, ","), "--allow-address", "127.0.0.1", "--allow-plain-http", "-o", format)
		for _, want := range wants {
			if err != nil || !strings.Contains(text, want) {
				t.Errorf("%s: error %v, and no %q in\n%s", format, err, want, text)
			}
		}
	}
}

// TestOldAndNewFromARemotePlace: what cannot be fetched is an error with its reason, and no password is printed.
func TestOldAndNewFromARemotePlace(t *testing.T) {
	places := releasePlaces(t)
	out, errs, err := runCommand(places[1], places[2], "--allow-address", "127.0.0.1", "--allow-plain-http")
	if want := places[1] + " → " + places[2]; err != nil || !strings.Contains(out, want) {
		t.Errorf("error %v, and no %q in\n%s", err, want, out)
	}
	if want := "warning: " + places[2] + ": of a Helm chart only the files below crds/ are read"; !strings.Contains(errs, want) {
		t.Errorf("no %q in %q", want, errs)
	}
	if out, _, err := runCommand("--print-hash", places[2], "--allow-address", "127.0.0.1", "--allow-plain-http"); err != nil || !strings.Contains(out, "  widgets.demo.dev") {
		t.Errorf("error %v, and no hash in\n%s", err, out)
	}
	host := strings.TrimSuffix(strings.TrimPrefix(places[2], "oci://"), "/team/crds:v3")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{places[2], "one"}, "--allow-address"},
		{[]string{places[2], "one", "--allow-address", "127.0.0.1"}, "--allow-plain-http"},
		{[]string{"one", "oci://" + host + "/team/crds:v9", "--allow-address", "127.0.0.1", "--allow-plain-http"}, "v9"},
		{[]string{"one", "ftp://user:hunter2@" + host + "/x"}, "the scheme ftp:// is not known"},
		{[]string{"one", "git+file://repo//crds"}, "absolute path"},
		{[]string{"http://user:hunter2@" + host + "/x", "one", "--allow-address", "127.0.0.1", "--allow-plain-http"}, "http://" + host + "/x"},
	} {
		if _, stderr, err := runCommand(tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error()+stderr, "hunter2") {
			t.Errorf("%v: error %v, want one with %q\n%s", tt.args, err, tt.want, stderr)
		}
	}
}

// Package helm compares what Helm renders from the chart with what sluice manifests prints.
package helm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/util/yaml"

	"sluice.dev/tools/clustertest"
)

const root = "../.."

// cases are values for the chart; Helm takes them as they are, sluice manifests with --values.
var cases = map[string]string{
	"default":       "image: example.test/sluice:v1",
	"everything":    "{image: example.test/sluice:v1, roles: [all]}",
	"guard":         "{image: i, roles: [crd-guard], guard: {certManager: true, reads: [example.com, b.example.com]}}",
	"features":      "{image: i, roles: [features], features: {settings: [a/b, c/d], usage: [widgets.example.com, pods]}}",
	"beside Tekton": "{image: i, besideTekton: {enabled: true, namespace: ci, resolversNamespace: ci-r}, wideCredentials: true, wideAddresses: true}",
	"writers":       "{image: i, writers: ['system:serviceaccount:a:b', 'system:serviceaccount:a:c=mine', 'system:serviceaccount:a:c=bundle', 'system:serviceaccount:d:e=*']}",
	"store":         "{image: i, compress: true, store: {repository: 'registry.test:5000/a', credentials: c, plainHTTP: true}, dirVolume: {hostPath: {path: /srv}}}",
	"Flux":          "{image: i, roles: [delivery], delivery: {fluxSourceController: 'source-controller.flux:8080'}}",
	"pods": `
image: i
imagePullPolicy: Always
imagePullSecrets: [a, b]
priorityClassName: low
nodeSelector: {a: b}
tolerations: [{operator: Exists}]
affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
networkPolicies: false
log: {level: debug, format: text}
debug: true
createNamespace: false
cacheVolume: {ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}}
workloads:
  resolver-git: {replicas: 3, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 2Gi}}, nodeSelector: {c: d}}
  resolution: {priorityClassName: high, tolerations: [], replicas: 1}
`,
}

// bad values, each with a part of the message that both give.
var bad = map[string]string{
	"{image: i, roles: [git]}":                                            `there is no role "git"`,
	"{image: i, roles: []}":                                               "no role is named",
	"{image: i, workloads: {git: {replicas: 1}}}":                         `there is no role "git"`,
	"{image: 'a b'}":                                                      "is no name of an image",
	"{image: i, writers: [admin]}":                                        "is no user of the form",
	"{image: i, writers: ['system:serviceaccount:ns:sluice-x']}":          "has its rights already",
	"{image: i, store: {credentials: a}}":                                 "none is named",
	"{image: i, compress: true, besideTekton: {enabled: true}}":           "beside Tekton there is no place",
	"{image: i, features: {settings: [a/b]}}":                             "which are not asked for",
	"{image: i, features: {usage: [a.b]}}":                                "which is not asked for",
	"{image: i, roles: [features], features: {settings: [a]}}":            "is no ConfigMap of the form",
	"{image: i, roles: [features], features: {usage: ['a.']}}":            "is no resource of the form",
	"{image: i, roles: [crd-guard], guard: {reads: ['*']}}":               "is no API group of CRDs",
	"{image: i, imagePullSecrets: ['a}']}":                                "is no name of a Secret",
	"{image: i, replicas: 2}":                                             "replicas",
	"{image: i, workloads: {resolver-git: {replica: 2}}}":                 "replica",
	"{image: i, networkPolicies: 'yes'}":                                  "networkPolicies",
	"{image: i, log: {level: loud}}":                                      "level",
	"{image: i, besideTekton: {enabled: true, namespace: \"x'y\"}}":       "is no name of a namespace",
	"{image: i, store: {repository: \"r/x\\n- evil\"}}":                   "is no repository of the form",
	"{image: i, roles: [features], features: {usage: [\"a], b: ['*'\"]}}": "is no resource of the form",
}

func TestHelmAndTheCommandGiveTheSame(t *testing.T) {
	program := build(t)
	for name, values := range cases {
		t.Run(name, func(t *testing.T) {
			ours, err := command(t, program, values)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := render(t, values)
			if err != nil {
				t.Fatal(err)
			}
			got, want := objects(t, theirs), objects(t, ours)
			// sluice manifests makes the namespace; helm install does so by --create-namespace.
			delete(want, "Namespace//ns")
			if len(want) < 10 {
				t.Errorf("%d objects", len(want))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHelmAndTheCommandRefuseTheSame(t *testing.T) {
	program := build(t)
	for values, want := range bad {
		if _, err := command(t, program, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("sluice manifests with %s: %v", values, err)
		}
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Helm with %s: %v", values, err)
		}
	}
}

var shared clustertest.Shared

func TestMain(m *testing.M) {
	code := shared.Run(m)
	if programDir != "" {
		_ = os.RemoveAll(programDir)
	}
	os.Exit(code)
}

var programDir string

// builtProgram builds sluice, once for all tests.
var builtProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-helm")
	if err != nil {
		return "", err
	}
	programDir = dir
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, "sluice"), "./cmd/sluice")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "sluice"), nil
})

func build(t *testing.T) string {
	t.Helper()
	program, err := builtProgram()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// command is sluice manifests with the values.
func command(t *testing.T, program, values string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "manifests", "--namespace=ns", "--values=-")
	cmd.Stdin = strings.NewReader(values)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New(errs.String())
	}
	return out, nil
}

// TestTheNotesNameTheRolesThatRun: what Helm prints after an installation has a line for each Deployment, and no other.
func TestTheNotesNameTheRolesThatRun(t *testing.T) {
	for name, values := range cases {
		files, err := renderFiles(t, values)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for key := range objects(t, joinManifests(files)) {
			if role, ok := strings.CutPrefix(key, "Deployment/ns/sluice-"); ok {
				want[role] = true
			}
		}
		got := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^  ([a-z-]+): it `).FindAllStringSubmatch(files["sluice/templates/NOTES.txt"], -1) {
			got[m[1]] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: roles of the notes (-installed +named)\n%s", name, diff)
		}
	}
}

// render is helm template with the values.
func render(t *testing.T, values string) ([]byte, error) {
	t.Helper()
	files, err := renderFiles(t, values)
	return joinManifests(files), err
}

// renderFiles returns what Helm makes of each file of the chart.
func renderFiles(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load(root + "/config/chart")
	if err != nil {
		t.Fatal(err)
	}
	given, err := common.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, given, common.ReleaseOptions{Name: "sluice", Namespace: "ns", IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// joinManifests joins the files with objects.
func joinManifests(files map[string]string) []byte {
	var out bytes.Buffer
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			out.WriteString("---\n" + text + "\n")
		}
	}
	return out.Bytes()
}

func objects(t *testing.T, stream []byte) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(stream), 4096)
	for {
		var o map[string]any
		err := dec.Decode(&o)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(o) == 0 {
			continue
		}
		meta, _ := o["metadata"].(map[string]any)
		namespace, _ := meta["namespace"].(string)
		kind, _ := o["kind"].(string)
		name, _ := meta["name"].(string)
		key := kind + "/" + namespace + "/" + name
		if out[key] != nil || name == "" {
			t.Errorf("%s is there twice, or has no name", key)
		}
		out[key] = o
	}
}

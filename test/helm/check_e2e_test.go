//go:build e2e

package helm

import (
	"path/filepath"
	"strings"
	"testing"
)

const chartCRD = `{{- if .Values.crds.enabled }}
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
  labels:
    {{- include "x.labels" . | nindent 4 }}
spec:
  group: example.com
  scope: {{ .Values.scope | default "Namespaced" }}
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer, maximum: {{ .Values.max }}}}}}}}
{{- else }}
# nothing
{{- end }}
`

// TestE2ECheckRendersChartsOfBothSides checks revisions of a chart and of a sub-chart, whose values alone change.
func TestE2ECheckRendersChartsOfBothSides(t *testing.T) {
	s := newShell(t, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	helm := tool(t, "helm")
	for i, entry := range s.env {
		if path, ok := strings.CutPrefix(entry, "PATH="); ok {
			s.env[i] = "PATH=" + filepath.Dir(helm) + ":" + path
		}
	}
	s.must(t, "git", "init", "-q")
	write(t, s.dir, map[string]string{
		"op/Chart.yaml": "apiVersion: v2\nname: operator\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0}, {name: absent, version: 1.0.0, repository: \"https://charts.example.com\"}]\n", "op/templates/_labels.tpl": "{{ define \"x.labels\" }}app: {{ .Chart.Name }}{{ end }}",
		"op/charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n", "op/charts/sub/templates/crd.yaml": chartCRD,
		"op/charts/sub/values.yaml": "{max: 1, crds: {enabled: true}}",
		"op/templates/deploy.yaml":  "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: {{ .Release.Name }}}\n",
	})
	commit := func(tag, values string) {
		write(t, s.dir, map[string]string{"op/values.yaml": values})
		s.must(t, "git", "add", "op")
		s.must(t, "git", "commit", "-qm", tag)
		s.must(t, "git", "tag", tag)
	}
	commit("v1", "sub: {max: 9}")
	commit("v2", "sub: {max: 15}")
	commit("v3", "sub: {max: 12}")
	commit("v4", "sub: {max: {}}")
	check := func(revisions string) (string, string, error) {
		return s.run(t, s.program, "check", "--git", revisions)
	}

	out, errs, err := check("v1...v2")
	if err != nil || !strings.Contains(out, "OK    widgets.example.com  safe") || !strings.Contains(errs, "templates rendered by helm with the default values: op/charts/sub/templates/crd.yaml") {
		t.Errorf("a maximum that rises: %v\n%s%s", err, out, errs)
	}
	if out, errs, err = check("v2...v3"); err == nil || !strings.Contains(out, "FAIL  widgets.example.com") {
		t.Errorf("a maximum that falls: %v\n%s%s", err, out, errs)
	}
	// The template is the same on both sides, but what it makes is not known.
	if out, errs, err = check("v3...v4"); err == nil || !strings.Contains(errs, "op/charts/sub/templates/crd.yaml: is a template of a CustomResourceDefinition, and it is not rendered: ") {
		t.Errorf("values that cannot be rendered: %v\n%s%s", err, out, errs)
	}
}

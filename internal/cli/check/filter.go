package check

// May these manifests be applied? Filter stands in a pipe between a tool that renders and one that applies, such
// as helm template and kubectl apply. It passes its input through byte by byte, or stops the pipe with a report.
// As a KRM function it speaks the protocol of kustomize and kpt: it reads a ResourceList, and writes it again with
// its findings as results.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/compat"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/cluster"
	"sluice.dev/internal/input"
	"sluice.dev/internal/limit"
	"sluice.dev/report"
)

// maxFiltered bounds what filter reads, in bytes.
const maxFiltered = 256 << 20

// NewFilter returns the command filter.
func NewFilter(e *command.Env) *cobra.Command {
	f := &checkFlags{output: "text", newCRDs: newAllow, budget: compat.DefaultBudget, objectPages: cluster.DefaultPages}
	cmd := &cobra.Command{
		Use:   "filter [OLD]",
		Short: "Pass manifests through, unless an upgrade of a CRD among them is unsafe",
		Long: `Filter reads manifests on standard input, compares the CRDs among them with OLD, and writes the same manifests to standard output. If a
finding fails, it writes the report to standard error and no manifests. So use it between a tool that renders and one that applies: as
a post-renderer of Helm, or in a pipe.

If the input is a ResourceList, filter is a KRM function for kustomize and kpt: it writes the list with the findings as results. The
functionConfig can be a ConfigMap with the keys old, mode and fail-mode.

OLD has the forms that sluice check accepts; without it, filter compares with the live CRDs of the cluster. Manifests without a CRD pass through, and
need neither OLD nor a cluster. CRDs that OLD does not have are new and pass; CRDs that only OLD has are left alone.

Exit codes: 0 the manifests pass, 1 findings at a failing level, 2 error.`,
		Example: `  helm template CHART | sluice filter | kubectl apply --server-side -f -
  kustomize build . | sluice filter git:main:config/crd`,
		Args:        cobra.MaximumNArgs(1),
		Annotations: map[string]string{command.ResultKind: command.NoDocument},
		RunE: func(cmd *cobra.Command, args []string) error {
			return filterInput(cmd.Context(), e, f, strings.Join(args, ""))
		},
	}
	f.addJudgement(cmd)
	cmd.Flags().StringVar(&f.kubeVersion, "kube-version", "", "Kubernetes version whose rules apply, such as 1.29 (default: that of the cluster or of this build)")
	return cmd
}

// filterInput passes what it reads through, if old may be upgraded to it. Findings that only warn are printed, and
// the manifests pass. The report goes to standard error, because standard output belongs to the next program.
func filterInput(ctx context.Context, e *command.Env, f *checkFlags, old string) error {
	data, err := limit.ReadAll(e.In, maxFiltered)
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	if list := asResourceList(data); list != nil {
		return filterList(ctx, e, f, old, data, list)
	}
	r, err := judgeText(ctx, e, f, old, data)
	if err != nil {
		return err
	}
	// A report of notes alone would make every run of a pipe print something.
	if r != nil && len(worthTelling(r)) > 0 {
		if err := report.Print(e.Err, "text", r, report.Options{Version: e.Version}); err != nil {
			return err
		}
		if r.Failing() > 0 {
			return command.ErrFindings
		}
	} else {
		tellNew(e, r)
	}
	_, err = e.Out.Write(data)
	return err
}

// judgeText compares the CRDs of manifests with old; nil if there are none. Without old they are compared with the
// cluster. CRDs that only old has are left alone.
func judgeText(ctx context.Context, e *command.Env, f *checkFlags, old string, manifests []byte) (*report.Report, error) {
	_, err := input.Load(ctx, input.Source{Kind: input.Stdin}, input.Options{Stdin: bytes.NewReader(manifests)})
	if errors.Is(err, input.ErrNoCRD) {
		return nil, nil //nolint:nilnil // there is nothing to judge
	}
	if err != nil {
		return nil, err
	}
	// The manifests are read a second time, as the new side.
	inner := *e
	inner.In = bytes.NewReader(manifests)
	c := &checker{Env: &inner, flags: f, partly: true}
	cfg, err := c.loadConfig()
	if err != nil {
		return nil, err
	}
	args := []string{"-"}
	if old != "" {
		args = []string{old, "-"}
	}
	return c.compareArguments(ctx, cfg, args)
}

// tellNew names the CRDs that were compared with nothing, and tells the remarks of a report that is not printed; r may be nil.
func tellNew(e *command.Env, r *report.Report) {
	if r == nil {
		return
	}
	var names []string
	for i := range r.CRDs {
		if r.CRDs[i].Verdict == report.IsNew {
			names = append(names, r.CRDs[i].Name)
		}
	}
	for _, text := range r.Remarks {
		fmt.Fprintln(e.Err, "note:", brief.OneLine(text))
	}
	if len(names) > 0 {
		fmt.Fprintf(e.Err, "note: new: not in %s, compared with nothing: %s\n", r.Old, firstNames(names))
	}
}

// worthTelling are the findings that fail or warn.
func worthTelling(r *report.Report) (out []report.Finding) {
	for _, c := range r.CRDs {
		for _, f := range c.Findings {
			if f.Severity == report.Fail || f.Severity == report.Warn && f.Outcome != report.Note {
				out = append(out, f)
			}
		}
	}
	return out
}

// resourceList is what a KRM function reads and writes
// (https://github.com/kubernetes-sigs/kustomize/blob/master/cmd/config/docs/api-conventions/functions-spec.md).
type resourceList struct {
	APIVersion     string           `json:"apiVersion"`
	Kind           string           `json:"kind"`
	Items          []map[string]any `json:"items"`
	FunctionConfig map[string]any   `json:"functionConfig,omitempty"`
	Results        []krmResult      `json:"results,omitempty"`
}

// krmResult is a finding in a ResourceList.
type krmResult struct {
	Message     string            `json:"message"`
	Severity    string            `json:"severity"`
	ResourceRef map[string]string `json:"resourceRef,omitempty"`
	Field       map[string]string `json:"field,omitempty"`
	File        map[string]string `json:"file,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
}

// asResourceList reads a ResourceList; nil if the text is none. A list of an API version that is not that of KRM
// functions is none.
func asResourceList(data []byte) *resourceList {
	if !bytes.Contains(data, []byte("ResourceList")) {
		return nil
	}
	var list resourceList
	if err := yaml.Unmarshal(data, &list); err != nil || list.Kind != "ResourceList" || !strings.HasPrefix(list.APIVersion, "config.kubernetes.io/") {
		return nil
	}
	return &list
}

const crdKind = "CustomResourceDefinition"

// filterList is the KRM function. The functionConfig takes precedence over flags, since kustomize runs functions
// without any. Items are judged, but never changed.
func filterList(ctx context.Context, e *command.Env, f *checkFlags, old string, data []byte, list *resourceList) error {
	settings, _, err := unstructured.NestedStringMap(list.FunctionConfig, "data")
	if err != nil {
		return fmt.Errorf("the functionConfig: %w", err)
	}
	for key, value := range settings {
		switch key {
		case "old":
			old = value
		case "mode":
			f.mode = value
		case "fail-mode":
			f.failMode = value
		default:
			return fmt.Errorf("the functionConfig has the key %q: it can have old, mode and fail-mode", key)
		}
	}
	var crds bytes.Buffer
	paths := map[string]string{}
	for _, item := range list.Items {
		u := unstructured.Unstructured{Object: item}
		if u.GetKind() != crdKind {
			continue
		}
		text, err := yaml.Marshal(item)
		if err != nil {
			return err
		}
		crds.WriteString("---\n")
		crds.Write(text)
		// Orchestrators note there which file an item comes from.
		paths[u.GetName()] = u.GetAnnotations()["internal.config.kubernetes.io/path"]
	}
	r, err := judgeText(ctx, e, f, old, crds.Bytes())
	if err != nil {
		return err
	}
	failing := false
	tellNew(e, r)
	if r != nil {
		failing = r.Failing() > 0
		for _, finding := range worthTelling(r) {
			list.Results = append(list.Results, krmResultOf(finding, paths[finding.CRD]))
			fmt.Fprintf(e.Err, "%s: %s: %s: %s\n", finding.Severity, finding.CRD, finding.Rule, finding.Message) // kustomize shows only this
		}
	}
	if err := writeList(e, data, list); err != nil {
		return err
	}
	return command.FindingsIf(failing)
}

// krmResultOf is a finding as a result of a KRM function. path is the file of the CRD, as the orchestrator has
// noted it in an annotation; it may be empty.
func krmResultOf(f report.Finding, path string) krmResult {
	out := krmResult{
		Message: f.Message, Severity: "warning", Tags: map[string]string{"rule": f.Rule},
		ResourceRef: map[string]string{"apiVersion": "apiextensions.k8s.io/v1", "kind": crdKind, "name": f.CRD},
	}
	if f.Severity == report.Fail {
		out.Severity = "error"
	}
	if f.Path != "" {
		out.Field = map[string]string{"path": strings.TrimSpace(f.Version + " " + f.Path)}
	}
	if path != "" {
		out.File = map[string]string{"path": path}
	}
	return out
}

// writeList writes the list with its results. The items stay as they came, with their comments, unless the list had results before.
func writeList(e *command.Env, data []byte, list *resourceList) error {
	if len(list.Results) == 0 {
		_, err := e.Out.Write(data)
		return err
	}
	// JSON has no place to append to, and old results would stand there twice.
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) || bytes.Contains(data, []byte("\nresults:")) || bytes.HasPrefix(data, []byte("results:")) {
		text, err := yaml.Marshal(list)
		if err == nil {
			_, err = e.Out.Write(text)
		}
		return err
	}
	results, err := yaml.Marshal(map[string]any{"results": list.Results})
	if err != nil {
		return err
	}
	_, err = e.Out.Write(slices.Concat(bytes.TrimRight(data, "\n"), []byte("\n"), results))
	return err
}

package resolve

// What has become of the ResolutionRequests of a cluster? sluice resolve ls lists them without their content:
// phase, age, size, and why they failed. With --watch it prints a line for each change. The pages of sluice ui
// show the same summaries.

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/resolve"
)

// listFlags are those of sluice resolve ls.
type listFlags struct {
	selector, output string
	all, watch       bool

	command.ClusterFlags
}

var listFormats = []string{"table", "wide", "json", "yaml", "name"}

// listPage is how many requests are read at once: each may have a megabyte of content.
const listPage = 100

// newResolveList returns the command resolve ls.
func newResolveList(e *command.Env) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:               "ls",
		Short:             "Show the ResolutionRequests of the cluster: phase, age, resolver, size, cache",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return listRequests(cmd.Context(), e, f) },
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.Namespace, "namespace", "n", "", "namespace (default: the kubeconfig's)")
	fs.BoolVarP(&f.all, "all-namespaces", "A", false, "list requests of all namespaces")
	fs.StringVarP(&f.selector, "selector", "l", "", "label selector, for example resolution.tekton.dev/type=git")
	command.AddOutput(cmd, &f.output, listFormats...)
	fs.BoolVarP(&f.watch, "watch", "w", false, "print a line for each change, until interrupted")
	f.AddCluster(fs)
	return cmd
}

// Phases of a request, as sluice resolve ls prints them.
const (
	phasePending    = "Pending" // nobody has taken notice yet
	phaseInProgress = "InProgress"
	PhaseSucceeded  = "Succeeded"
	phaseFailed     = "Failed"
	phaseTimedOut   = "TimedOut"
)

// Summary is a request without its content.
type Summary struct {
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	Resolver  string      `json:"resolver"`
	Phase     string      `json:"phase"`
	Created   metav1.Time `json:"created"`
	// Seconds is how long it took; nothing where it has not ended.
	Seconds *float64 `json:"seconds,omitempty"`
	// Bytes is the size of the content.
	Bytes int `json:"bytes"`
	// Cache is what the resolver's cache did: retrieve or store; empty where it has no part.
	Cache string `json:"cache,omitempty"`
	// Reason in one word and Message are those of a failure.
	Reason    string             `json:"reason,omitempty"`
	Message   string             `json:"message,omitempty"`
	RefSource *v1beta1.RefSource `json:"refSource,omitempty"`
	Owners    []string           `json:"owners,omitempty"`
}

// Summarize leaves out the content of a request. The phase is that of the condition Succeeded; a request that
// timed out has a phase of its own. Reason is that of the resolver, if it gave one.
func Summarize(r *v1beta1.ResolutionRequest) Summary {
	out := Summary{
		Namespace: r.Namespace, Name: r.Name, Phase: phasePending, Created: r.CreationTimestamp, RefSource: r.Status.Origin(),
		Cache: r.Status.Annotations[resolve.AnnotationCacheOperation], Bytes: contentSize(&r.Status),
	}
	if out.Resolver = cmp.Or(r.Labels[resolution.LabelType], r.Labels[resolution.LabelResolver]); out.Resolver != "" {
		out.Resolver = resolution.Canonical(out.Resolver)
	}
	for _, o := range r.OwnerReferences {
		out.Owners = append(out.Owners, o.Kind+"/"+o.Name)
	}
	c := r.Status.Succeeded()
	if c == nil {
		return out
	}
	switch c.Status {
	case metav1.ConditionTrue:
		out.Phase = PhaseSucceeded
	case metav1.ConditionFalse:
		out.Phase, out.Message = phaseFailed, c.Message
		if c.Reason == resolution.ReasonTimedOut {
			out.Phase = phaseTimedOut
		}
		out.Reason = cmp.Or(r.Status.Annotations[resolution.AnnotationReason], c.Reason)
	case metav1.ConditionUnknown:
		out.Phase = phaseInProgress
	}
	if r.Status.Finished() {
		seconds := max(0, c.LastTransitionTime.Sub(r.CreationTimestamp.Time).Seconds())
		out.Seconds = &seconds
	}
	return out
}

// contentSize is the number of bytes of the content, wherever it is.
func contentSize(s *v1beta1.ResolutionRequestStatus) int {
	if s.DataDigest != "" {
		return int(s.DataSize)
	}
	return base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(s.Data, "=")))
}

// SummaryList is the requests for programs.
type SummaryList struct {
	command.Document `json:",inline"`
	Items            []Summary `json:"items"`
}

// listRequests prints the requests, and with --watch the changes from then on, until it is interrupted. An empty
// list is no error.
func listRequests(ctx context.Context, e *command.Env, f listFlags) error {
	if f.watch && (f.output == "json" || f.output == "yaml") {
		return fmt.Errorf("--watch goes with -o table, wide and name, not with %s", f.output)
	}
	config, namespace, err := f.Connect()
	if err != nil {
		return err
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	if f.all {
		namespace = metav1.NamespaceAll
	}
	items, version, err := readSummaries(ctx, client, namespace, f.selector)
	if err != nil {
		return fmt.Errorf("cannot list requests: %w", err)
	}
	if f.output == "json" || f.output == "yaml" {
		return printAs(e.Out, f.output, SummaryList{command.DocumentOf(KindRequestsList), items})
	}
	p := &requestTable{out: e.Out, all: f.all, format: f.output, now: e.Now}
	if len(items) == 0 && !f.watch {
		fmt.Fprintln(e.Err, "no requests")
		return nil
	}
	if err := p.printRows(items); err != nil || !f.watch {
		return err
	}
	// From the version of the list on, so that no change between both is lost.
	changes := metav1.ListOptions{LabelSelector: f.selector, ResourceVersion: version}
	err = watchRequests(ctx, client, namespace, changes, func(change watch.EventType, r *v1beta1.ResolutionRequest) (bool, error) {
		s := Summarize(r)
		if change == watch.Deleted {
			s.Phase = "Deleted"
		}
		return false, p.printRows([]Summary{s})
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // that ends every watch
	}
	return err
}

// readSummaries lists requests by namespace and name; version is that from which on to watch. It reads them in
// pages, and keeps only the summaries.
func readSummaries(ctx context.Context, client versioned.Interface, namespace, selector string) (items []Summary, version string, err error) {
	items = []Summary{}
	o := metav1.ListOptions{LabelSelector: selector, Limit: listPage}
	for {
		page, err := client.ResolutionV1beta1().ResolutionRequests(namespace).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		for i := range page.Items {
			items = append(items, Summarize(&page.Items[i]))
		}
		if page.Continue == "" {
			slices.SortStableFunc(items, func(a, b Summary) int {
				return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
			})
			return items, page.ResourceVersion, nil
		}
		o.Continue = page.Continue
	}
}

// requestTable prints requests in lines. Its columns keep the width that the first lines have given them.
type requestTable struct {
	out    io.Writer
	all    bool
	format string
	now    func() time.Time
	widths []int
}

// printRows prints a line for each summary, and the heads of the columns before the first lines. The widths come
// from the first call: a watch cannot know what is still to come, and columns that jump are hard to read.
//
//	NAME          RESOLVER   PHASE       REASON     SIZE    CACHE   AGE
//	git-7c1e      git        Succeeded   -          1.5Ki   store   3m
//	bundle-20ab   bundles    Failed      NotFound   -       -       5m
func (t *requestTable) printRows(items []Summary) error {
	var rows [][]string
	if t.format == "name" {
		for _, s := range items {
			rows = append(rows, []string{"resolutionrequest." + resolution.GroupName + "/" + s.Name})
		}
	} else {
		if t.widths == nil {
			rows = append(rows, t.headRow())
		}
		for _, s := range items {
			rows = append(rows, t.rowOf(s))
		}
	}
	if t.widths == nil {
		for _, row := range rows {
			for i, cell := range row {
				if i == len(t.widths) {
					t.widths = append(t.widths, 0)
				}
				t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s   ", t.widths[i], cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(t.out, b.String())
	return err
}

// headRow has the heads of the columns, in the order of rowOf.
func (t *requestTable) headRow() []string {
	row := []string{"NAME", "RESOLVER", "PHASE", "REASON", "SIZE", "CACHE", "AGE"}
	if t.all {
		row = append([]string{"NAMESPACE"}, row...)
	}
	if t.format == "wide" {
		row = append(row, "TOOK", "OWNERS", "SOURCE", "MESSAGE")
	}
	return row
}

// rowOf has the cells of a request. A dash stands for what is not known, and for the size of content that is not
// there.
func (t *requestTable) rowOf(s Summary) []string {
	// What resolvers have written stays on its line.
	dash := func(text string) string { return cmp.Or(brief.OneLine(text), "-") }
	size := "-"
	if s.Phase == PhaseSucceeded {
		size = byteSize(s.Bytes)
	}
	row := []string{s.Name, dash(s.Resolver), s.Phase, dash(s.Reason), size, dash(s.Cache), duration.HumanDuration(t.now().Sub(s.Created.Time))}
	if t.all {
		row = append([]string{s.Namespace}, row...)
	}
	if t.format == "wide" {
		took, source := "-", "-"
		if s.Seconds != nil {
			took = duration.HumanDuration(time.Duration(*s.Seconds * float64(time.Second)))
		}
		if s.RefSource != nil {
			source = dash(s.RefSource.URI)
		}
		row = append(row, took, dash(strings.Join(s.Owners, ",")), source, dash(s.Message))
	}
	return row
}

// byteSize writes a number of bytes in binary units, with one digit after the point: 1.5Ki.
func byteSize(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1fKi", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1fMi", float64(n)/(1<<20))
}

// Phases are those that a request may have.
func Phases() []string {
	return []string{phasePending, phaseInProgress, PhaseSucceeded, phaseFailed, phaseTimedOut}
}

package features

// Do all processes of a component have the same features on? During a rolling update they differ for a while;
// afterwards a difference means that one has other flags or old settings. The processes report their features, or
// --scrape reads the metrics of one that does not. Package feature/skew judges; this file reads and prints.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/skew"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/limit"
)

// Skew is the document of sluice features skew for programs.
type Skew struct {
	command.Document `json:",inline"`
	Components       []componentSkew `json:"components"`
}

type componentSkew struct {
	Component string                       `json:"component"`
	Status    string                       `json:"status"`
	Reason    string                       `json:"reason"`
	Message   string                       `json:"message"`
	Processes []v1alpha1.FeatureReportSpec `json:"processes"`
}

// newFeaturesSkew returns the command features skew.
func newFeaturesSkew(e *command.Env) *cobra.Command {
	f := &featuresFlags{}
	var scrape []string
	cmd := &cobra.Command{
		Use:   "skew [COMPONENT...]",
		Short: "List the processes that disagree about features",
		Long: `List the processes that disagree about features, with each other or with the settings. Processes report their features in
FeatureReports. If a process exposes the metric kubernetes_feature_enabled instead, name it with --scrape.

Exit code 1 if some disagree. For the duration of a rolling update, Sluice tolerates a difference.`,
		Example: `  sluice features skew --component demo`,
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := readFeatures(cmd.Context(), e, f, nil)
			if err != nil {
				return err
			}
			// With --scrape there is something to judge all the same.
			if apierrors.IsForbidden(w.unreported) && scrape == nil {
				return fmt.Errorf("nothing can be said of processes: %w", w.unreported)
			}
			if err := w.addScraped(cmd.Context(), e, scrape); err != nil {
				return err
			}
			return w.printSkew(e, f.output, args)
		},
	}
	f.addFlags(e, cmd, true, "json", "yaml", "name")
	cmd.Flags().StringSliceVar(&scrape, "scrape", nil, "process of the component as PROCESS=URL, with the URL of its metrics in Prometheus' text format (may be repeated)")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return componentsToComplete(cmd.Context(), e, f)
	}
	return cmd
}

// printSkew prints the components of the given names, or all. It returns [command.ErrFindings] if the processes of
// one disagree. Components whose settings cannot be read are an error at the end, after the others were printed;
// if there is a disagreement as well, they are only noted.
func (w *featureWorld) printSkew(e *command.Env, output string, names []string) error {
	for _, n := range names {
		if !slices.ContainsFunc(w.parts, func(p *componentFeatures) bool { return p.component.Name == n }) {
			known := make([]string, len(w.parts))
			for i, p := range w.parts {
				known[i] = p.component.Name
			}
			return fmt.Errorf("there is no component %q%s", n, brief.Hint(n, known))
		}
	}
	out := Skew{Document: command.DocumentOf("FeatureSkew"), Components: []componentSkew{}}
	differs := false
	var unread []error
	for _, p := range w.parts {
		if len(names) > 0 && !slices.Contains(names, p.component.Name) {
			continue
		}
		if p.hidden != nil {
			unread = append(unread, p.hidden)
			continue
		}
		c := p.skew.Component
		s := componentSkew{Component: p.component.Name, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Processes: []v1alpha1.FeatureReportSpec{}}
		for _, r := range p.skew.Live {
			s.Processes = append(s.Processes, r.Spec)
		}
		differs = differs || c.Reason == v1alpha1.ReasonProcessesDisagree
		out.Components = append(out.Components, s)
	}
	err := printInFormat(e, output, out, func() { out.printComponents(e) }, func() {
		for _, c := range out.Components {
			if c.Reason == v1alpha1.ReasonProcessesDisagree {
				fmt.Fprintln(e.Out, "component.sluice.dev/"+c.Component)
			}
		}
	})
	switch {
	case err != nil:
		return err
	case differs:
		for _, err := range unread {
			fmt.Fprintf(e.Err, "note: %v\n", err)
		}
		return command.ErrFindings
	}
	return errors.Join(unread...)
}

// printComponents prints the verdict on each component, and a table of its processes with the features that are
// on.
//
//	demo: ProcessesDisagree
//	  TasksTimeout: the settings say on; on in controller/b (v1.5.0); off in webhook/a (v1.5.0); ...
//	PROCESS     INSTANCE  RELEASE  RENEWED               ON
//	controller  b         v1.5.0   2026-01-01T00:00:00Z  Plain TasksTimeout
//	webhook     a         v1.5.0   2026-01-01T00:00:00Z  Plain
func (s *Skew) printComponents(e *command.Env) {
	for i, c := range s.Components {
		if i > 0 {
			fmt.Fprintln(e.Out)
		}
		fmt.Fprintf(e.Out, "%s: %s\n", c.Component, c.Reason)
		for line := range strings.SplitSeq(c.Message, "\n") {
			fmt.Fprintf(e.Out, "  %s\n", line)
		}
		if len(c.Processes) == 0 {
			continue
		}
		t := command.Columns(e.Out)
		fmt.Fprintln(t, "PROCESS\tINSTANCE\tRELEASE\tRENEWED\tON")
		for _, p := range c.Processes {
			var on []string
			for _, f := range p.Features {
				if f.Enabled {
					on = append(on, f.Gate)
				}
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", p.Process, p.Instance, command.Dash(p.Release), p.RenewTime.UTC().Format(time.RFC3339), command.Dash(strings.Join(on, " ")))
		}
		t.Flush()
	}
}

// judgeAgain judges a component with new reports.
func (p *componentFeatures) judgeAgain(now time.Time, reports []v1alpha1.FeatureReport) {
	p.skew = skew.Judge(&skew.Input{Now: now, Model: p.model, Settings: p.settings, SettingsVersion: p.configVersion(), Reports: reports})
	p.states = p.skew.States
}

const (
	// maxMetrics bounds the metrics of a process, in bytes.
	maxMetrics = 32 << 20
	// scrapeTimeout is the time limit for the answer of a process.
	scrapeTimeout = 30 * time.Second
)

// addScraped reads the features of processes from their metrics, as if they had reported them. It takes one
// component, and judges it again with the new reports.
func (w *featureWorld) addScraped(ctx context.Context, e *command.Env, list []string) error {
	if len(list) == 0 {
		return nil
	}
	if len(w.parts) != 1 {
		return errors.New("--scrape takes a component: choose one with --component")
	}
	p := w.parts[0]
	for i, entry := range list {
		process, url, ok := strings.Cut(entry, "=")
		if !ok || process == "" {
			return fmt.Errorf("--scrape %q: it is written PROCESS=URL", entry)
		}
		features, err := scrapeMetrics(ctx, url)
		if err != nil {
			return fmt.Errorf("%s: %w", process, err)
		}
		r := v1alpha1.FeatureReport{Spec: v1alpha1.FeatureReportSpec{
			Component: p.component.Name, Process: process, Instance: fmt.Sprintf("scraped-%d", i), RenewTime: metav1.NewTime(e.Now()), LeaseDurationSeconds: 60,
			Features: features,
		}}
		if ref := p.component.Spec.ConfigMap; ref != nil {
			r.Namespace = ref.Namespace
		}
		w.reports = append(w.reports, r)
	}
	p.judgeAgain(e.Now(), w.reports)
	return nil
}

// scrapeMetrics returns the features that a process exposes in Prometheus' text format. It takes 30 seconds and 32
// MiB at most.
func scrapeMetrics(ctx context.Context, url string) ([]v1alpha1.ReportedFeature, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/plain; version=0.0.4")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", request.URL.Redacted(), response.Status)
	}
	text, err := limit.ReadAll(response.Body, maxMetrics)
	if err != nil {
		return nil, err
	}
	return skew.FromMetrics(text)
}

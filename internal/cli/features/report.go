package features

// How does Sluice learn the features of a process that does not use its library? The command report runs beside
// it, reads its metric kubernetes_feature_enabled, and writes a FeatureReport, which counts as if the process had
// written it. It renews the report as long as the process answers.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"sluice.dev/api/v1alpha1"
	featureprocess "sluice.dev/feature/process"
	"sluice.dev/internal/cli/command"
)

const (
	// reportLeases is how many times a report is renewed before it expires.
	reportLeases = 3
	// reportGoodbye is the time limit for the deletion of a report at the end.
	reportGoodbye = 5 * time.Second
)

// reportFlags are the flags of sluice features report.
type reportFlags struct {
	command.ClusterFlags

	component, process, instance, release, url string
	interval                                   time.Duration
	once                                       bool
}

// newFeaturesReport returns the command features report.
func newFeaturesReport(e *command.Env) *cobra.Command {
	f := &reportFlags{}
	cmd := &cobra.Command{
		Use:   "report --component COMPONENT --process PROCESS --scrape URL",
		Short: "Report the features of a process that exposes the metric kubernetes_feature_enabled",
		Long: `Report the features of a process that exposes the metric kubernetes_feature_enabled. The command reads the metrics at an interval and
writes them as a FeatureReport into the namespace, until it ends. The condition Skew, the events and the metrics of the Component then
cover a process that does not use Sluice's library. Run it beside the process, as a container of the same pod:

  sluice features report --component tekton-pipelines --process webhook --scrape http://localhost:9090/metrics

If the variables POD_NAME and POD_UID are set, the pod owns the report, and the report is deleted with the pod. While the process
does not answer, the command does not renew the report, and the report expires after three intervals. When the command ends, it deletes
the report.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.runReports(cmd.Context(), e) },
	}
	fs := cmd.Flags()
	f.AddCluster(fs)
	fs.StringVarP(&f.Namespace, "namespace", "n", "", "namespace of the report: the one of the component's settings, unless the Component names others")
	fs.StringVar(&f.component, "component", "", "component of the process")
	fs.StringVar(&f.process, "process", "", "name of the process within the component, such as webhook")
	fs.StringVar(&f.instance, "instance", "", "name of this instance of the process; default: POD_NAME, or the host name")
	fs.StringVar(&f.release, "release", "", "release of the component that the process runs")
	fs.StringVar(&f.url, "scrape", "", "URL of its metrics in Prometheus' text format")
	fs.DurationVar(&f.interval, "interval", 3*time.Second, "how often to read the metrics, at least a second")
	fs.BoolVar(&f.once, "once", false, "report once, and let the report expire")
	for _, name := range []string{"component", "process", "scrape"} {
		_ = cmd.MarkFlagRequired(name) // it is there
	}
	return cmd
}

// runReports writes the report at each interval until ctx is done, and then deletes it. An error is told once, and
// tried again: the process may still be starting. With --once the first error ends the command. The report of a
// killed command expires after three intervals.
func (f *reportFlags) runReports(ctx context.Context, e *command.Env) error {
	if f.interval < time.Second || f.interval > 20*time.Minute {
		return fmt.Errorf("--interval %s: it is from 1s to 20m", f.interval)
	}
	config, namespace, err := f.Connect()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	// Two processes under one name would write over each other's report.
	if f.instance = cmp.Or(f.instance, e.Getenv("POD_NAME")); f.instance == "" {
		if f.instance, err = os.Hostname(); err != nil {
			return fmt.Errorf("%w: name the process with --instance", err)
		}
	}
	reports := client.Resource(v1alpha1.SchemeGroupVersion.WithResource("featurereports")).Namespace(namespace)
	name := featureprocess.ReportName(f.component, f.process, f.instance)
	started := metav1.NewTime(e.Now())
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	said, there := "", false
	for {
		err := f.writeReport(ctx, e, reports, name, started)
		switch {
		case ctx.Err() != nil:
		case f.once:
			return err
		// The same error every three seconds would hide everything else in a log.
		case err != nil && err.Error() != said:
			said = err.Error()
			fmt.Fprintf(e.Err, "not reported: %s; trying again every %s\n", said, f.interval)
		case err == nil:
			if !there || said != "" {
				fmt.Fprintf(e.Err, "reported as %s/%s\n", namespace, name)
			}
			said, there = "", true
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		if !there {
			return nil
		}
		// The command has been interrupted, and the report has to go all the same.
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportGoodbye)
		defer cancel()
		if err := reports.Delete(bye, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("the report stays until it expires: %w", err)
		}
		return nil
	}
}

// writeReport reads the metrics once and writes the report. The report is owned by the pod if the environment
// names it. Metrics without the metric are an error.
func (f *reportFlags) writeReport(ctx context.Context, e *command.Env, reports dynamic.ResourceInterface, name string, started metav1.Time) error {
	asking, cancel := context.WithTimeout(ctx, max(f.interval, 5*time.Second))
	defer cancel()
	features, err := scrapeMetrics(asking, f.url)
	if err != nil {
		return err
	}
	if len(features) == 0 {
		return errors.New("the metrics have no kubernetes_feature_enabled")
	}
	r := &v1alpha1.FeatureReport{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "FeatureReport"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{featureprocess.ComponentLabel: f.component}},
		Spec: v1alpha1.FeatureReportSpec{
			Component: f.component, Process: f.process, Instance: f.instance, Release: f.release,
			StartTime: &started, RenewTime: metav1.NewTime(e.Now()), LeaseDurationSeconds: int32(reportLeases * f.interval / time.Second), //nolint:gosec // an hour at most
			Features: features,
		},
	}
	if pod, uid := e.Getenv("POD_NAME"), e.Getenv("POD_UID"); pod != "" && uid != "" {
		r.OwnerReferences = []metav1.OwnerReference{*featureprocess.PodOwner(pod, uid)}
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		return err
	}
	_, err = reports.Apply(asking, name, &unstructured.Unstructured{Object: object}, metav1.ApplyOptions{FieldManager: "sluice-feature-report", Force: true})
	return err
}

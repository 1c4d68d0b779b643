package check

// Does a conversion webhook keep what it converts? check conversion makes objects that reach every part of each
// version, has them converted to the other versions and back, and reports what does not come back as it was. For
// example, a field of v1 that v1beta1 has no place for is lost on the way, unless the webhook keeps it in an
// annotation. The objects and the judgement are those of package conversion; this file chooses CRDs and
// converters.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kubeversion "k8s.io/component-base/version"

	"sluice.dev/conversion"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/cluster"
	"sluice.dev/internal/input"
	"sluice.dev/report"
)

// conversionFlags are those of check conversion.
type conversionFlags struct {
	*checkFlags
	converter, oldConverter string
	ca                      string
	names                   []string
	seed                    uint64
	random                  int
	maxTime                 time.Duration
}

// newConversion returns the command check conversion.
func newConversion(e *command.Env) *cobra.Command {
	f := &conversionFlags{checkFlags: &checkFlags{objectPages: cluster.DefaultPages}}
	cmd := &cobra.Command{
		Use:   "conversion [CRDS]",
		Short: "Convert objects between the versions of CRDs and back, and show what is lost",
		Long: `Check conversion makes objects of each version of a CRD: at least one for each field, enum value, union branch, bound and default that the
version declares, and random ones. It has a converter convert them to each other version and back, as the API server would, and
reports each value that is lost, added or changed, each result that the API server prunes or refuses, and each answer that is against the protocol, with
the smallest object that shows it. It also says how much of each version the objects reached.

CRDS is a file, a directory, - (standard input), git:REV[:PATH] in the current repository, or cluster (the default). With the cluster,
the stored objects are converted as well.

The converter is the webhook that the CRD names, a URL, or a program. Sluice asks a webhook that is a service by way of the API server,
which needs the verb create on services/proxy. A program reads reviews from its standard input, one a line, and writes an answer to each.

Exit codes: 0 no failing finding, 1 findings at a failing level, 2 error.`,
		Example: `  sluice check conversion                                   # all CRDs of the cluster, with their webhooks
  sluice check conversion --crd widgets.example.com
  sluice check conversion config/crd --converter https://localhost:9443/convert --ca ca.crt
  sluice check conversion crd.yaml --converter 'exec:./manager convert'
  sluice check conversion crd.yaml --converter exec:./new --old-converter exec:./old`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"cluster\tthe live CRDs", "-\tstandard input"}, cobra.ShellCompDirectiveDefault
		},
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.noObjects = cmd.Flags().Changed("objects") && !f.objects
			c := newChecker(e, f.checkFlags)
			defer c.remote.Close()
			return c.runConversion(cmd.Context(), f, strings.Join(args, ""))
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.converter, "converter", ownWebhook, "who converts: webhook (what the CRD names), a URL, or exec:PROGRAM with arguments")
	fs.StringVar(&f.oldConverter, "old-converter", "", "converter of the release before, written as --converter is; each result that differs is a finding")
	fs.StringVar(&f.ca, "ca", "", "file with the CA, in PEM, that signed the certificate of the converter")
	fs.StringArrayVar(&f.names, "crd", nil, "name of a CRD to check (may be repeated; default: all that have several versions)")
	fs.Uint64Var(&f.seed, "seed", 1, "seed of the random objects")
	fs.IntVar(&f.random, "random", conversion.DefaultRandom, "number of random objects of each version")
	fs.DurationVar(&f.maxTime, "max-time", conversion.DefaultMaxTime, "longest time for an object; with more than the default, a page of a list takes longer than the API server waits")
	command.AddOutput(cmd, &f.output, command.FormatNames()...)
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "print everything: each finding, whole witnesses, safe CRDs, notes on the configuration")
	fs.StringVar(&f.color, "color", "auto", "auto, always or never")
	f.addJudgement(cmd)
	f.AddRemote(fs)
	fs.StringVar(&f.kubeVersion, "kube-version", "", "Kubernetes version whose rules apply, such as 1.29 (default: the cluster's, or "+kubeversion.DefaultKubeBinaryVersion+")")
	fs.Int64Var(&f.budget, "budget", conversion.DefaultBudget, "limit of work for the objects of each version, in units of less than a microsecond")
	fs.BoolVar(&f.objects, "objects", false, "also convert the stored objects of the cluster (on if CRDS is the cluster; --objects=false turns it off)")
	command.Complete(cmd, "color", "auto", "always", "never")
	command.Complete(cmd, "converter", ownWebhook, programPrefix)
	return cmd
}

// runConversion checks the CRDs one after the other, and prints one report. With several CRDs, one that has no
// webhook or nothing to convert gets a remark; if it is the only one, that is an error. Only the suppressions of
// the configuration that are about rules of conversions apply.
func (c *checker) runConversion(ctx context.Context, f *conversionFlags, from string) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	// Suppressions of the configuration that are about comparisons would be told as matching nothing.
	var rules []string
	for _, r := range conversion.Rules() {
		rules = append(rules, r.ID)
	}
	cfg = cfg.ForConversions(rules)
	color, err := c.WantsColor(f.color)
	if err != nil {
		return err
	}
	documents, err := c.loadConverted(ctx, f, from)
	if err != nil {
		return err
	}
	r := &report.Report{Old: c.next.name, New: "converter " + f.converter, KubeVersion: c.kube.String(), Mode: cfg.Mode(), FailMode: cfg.FailMode()}
	for _, d := range documents {
		found, err := c.checkConversions(ctx, f, d.CRD)
		if errors.Is(err, errNoWebhook) && len(documents) > 1 || errors.Is(err, conversion.ErrNothingToConvert) && len(documents) > 1 {
			c.addRemark("%s is not checked: %s", d.CRD.Name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d.CRD.Name, err)
		}
		for i := range found.Findings {
			found.Findings[i].Position = d.Place(&found.Findings[i])
		}
		r.CRDs = append(r.CRDs, found)
	}
	if len(r.CRDs) == 0 {
		return fmt.Errorf("%s has no CRD with a webhook that converts between several versions", c.next.name)
	}
	r.Remarks = c.remarks
	cfg.Apply(r, c.Now())
	r.Sort()
	return c.printReport(ctx, r, color)
}

// loadConverted reads the CRDs to check, and connects to the cluster if that is needed. Of a cluster, those are
// the CRDs with a webhook, unless names are given. They are sorted by name. A name without a CRD is an error.
func (c *checker) loadConverted(ctx context.Context, f *conversionFlags, from string) (out []input.Document, err error) {
	src := input.Source{Kind: input.Cluster}
	if from != "" {
		if src, err = input.ParseSource(from); err != nil {
			return nil, err
		}
	}
	if src.Kind == input.Cluster || f.objects {
		if err := c.connectCluster(ctx); err != nil {
			return nil, err
		}
	}
	if c.kube == nil {
		c.kube = newestKube()
	}
	if src.Kind != input.Cluster {
		if c.next, err = c.readSide(ctx, src, input.Options{Stdin: c.In, PassTemplates: true}); err != nil {
			return nil, err
		}
		for _, docs := range c.next.crds {
			out = append(out, docs...)
		}
	} else {
		crds, err := c.cluster.CRDs(ctx)
		if err != nil {
			return nil, err
		}
		c.next = side{name: "cluster " + c.cluster.Host(), live: true}
		for _, crd := range crds {
			if len(f.names) > 0 || crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
				out = append(out, input.Document{File: "cluster", CRD: crd})
			}
		}
	}
	for _, name := range f.names {
		if !slices.ContainsFunc(out, func(d input.Document) bool { return d.CRD.Name == name }) {
			return nil, fmt.Errorf("%s has no CRD %s", c.next.name, name)
		}
	}
	// Only now, so that a name that is not there could be found above.
	out = slices.DeleteFunc(out, func(d input.Document) bool { return len(f.names) > 0 && !slices.Contains(f.names, d.CRD.Name) })
	slices.SortFunc(out, func(a, b input.Document) int { return strings.Compare(a.CRD.Name+a.File, b.CRD.Name+b.File) })
	return out, nil
}

// checkConversions checks one CRD. The converter is stopped at the end. With a cluster, its stored objects are
// converted as well.
func (c *checker) checkConversions(ctx context.Context, f *conversionFlags, crd *apiextensionsv1.CustomResourceDefinition) (report.CRD, error) {
	var ca []byte
	if f.ca != "" {
		var err error
		if ca, err = command.ReadFileBounded(f.ca); err != nil {
			return report.CRD{}, err
		}
	}
	converter, stop, err := c.converterFor(f.converter, ca, crd)
	if err != nil {
		return report.CRD{}, err
	}
	defer stop()
	bar := c.Progress("converting "+brief.OneLine(crd.Name), 0)
	defer bar.Done()
	o := conversion.Options{
		KubeVersion: c.kube, Seed: f.seed, Random: f.random, Budget: f.budget, Now: c.Now, MaxTime: f.maxTime, Progress: func(n int64) { bar.SetOf(n, 0) },
	}
	// Of the options, 0 is the default, and a negative number is none.
	o.Random = cmp.Or(o.Random, -1)
	if f.oldConverter != "" {
		old, stopOld, err := c.converterFor(f.oldConverter, ca, crd)
		if err != nil {
			return report.CRD{}, fmt.Errorf("--old-converter: %w", err)
		}
		defer stopOld()
		o.Old = old
	}
	if c.cluster != nil && (f.objects || c.next.live && !f.noObjects) {
		o.Stored = func(ctx context.Context, version string, page func([]map[string]any) error) error {
			return c.cluster.Objects(ctx, crd, version, page)
		}
	}
	return conversion.Check(ctx, crd, converter, o)
}

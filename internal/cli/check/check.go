// Package check has the commands that judge CRDs: check, filter, rules and explain. What a difference means, packages compat and
// internal/crdcheck say.
package check

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/version"
	kubeversion "k8s.io/component-base/version"

	"sluice.dev/compat"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/cli/resolve"
	"sluice.dev/internal/cluster"
	"sluice.dev/internal/config"
	"sluice.dev/internal/crdcheck"
	"sluice.dev/internal/input"
	"sluice.dev/internal/preflight"
	"sluice.dev/report"
)

// checkFlags are the flags of check. The commands filter and check conversion use a part of them, and leave the
// others at values that have no effect.
type checkFlags struct {
	git         string
	ci          bool
	exclude     []string
	output      string
	verbose     bool
	color       string
	configs     []string
	mode        string
	failMode    string
	kubeVersion string
	newCRDs     string
	budget      int64
	objects     bool
	objectPages int
	noObjects   bool // --objects=false
	digest      bool
	trace       string
	open        bool
	releases    string

	command.ClusterFlags
	resolve.RemoteFlags
}

// New returns the command check. It reads both sides, brings their CRDs together in pairs, compares each pair, and
// prints one report.
func New(e *command.Env) *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use:   "check [OLD] NEW | check --git BASE[...HEAD] [PATH...] | check --ci [PATH...]",
		Short: "Prove that an upgrade of CRDs is safe, or show an object that it would break",
		Long: `Check compares two versions of CustomResourceDefinitions. For every change it gives a proof that the change is safe, or an
object that breaks: the old version accepts the object, and the new one refuses, prunes or changes it. The API server's own code
confirms each such object. If check can neither prove nor refute a change, it says so.

OLD and NEW are each a file, a directory, - (standard input), git:REV[:PATH] in the current repository, cluster, or a remote source:
git+https://HOST/REPO//PATH?ref=REV (also git+ssh and git+file), oci://REGISTRY/REPO:TAG, or https://URL.
Without OLD, check compares with the live CRDs of the cluster. It then also reads the stored objects, and asks the API server with a
dry run if it accepts the new CRDs.

In a directory, check reads all .yaml, .yml and .json files. It applies the patches of the kustomizations that include a CRD. It lets
helm render the templates of charts that hold CRDs, and skips other templates with a note. A CRD in several files is compared with the one at the same place. Files that cannot be read stop the check only if
they may hold a CRD and differ. The file .sluiceignore in the current directory lists files to leave out, with the syntax of .dockerignore.

Exit codes: 0 no failing finding, 1 findings at a failing level, 2 error.`,
		Example: `  sluice check old.yaml new.yaml
  sluice check --git origin/main...HEAD config/crd
  sluice check --ci config/crd               # what a CI job changes
  sluice check git:v1.2.0:config/crd config/crd -o markdown
  sluice check --releases 'v1.*' config/crd  # which release may be upgraded to which, directly
  sluice check oci://ghcr.io/example/crds:v1 oci://ghcr.io/example/crds:v2
  sluice check new.yaml                      # against the cluster and its stored objects
  kustomize build . | sluice check cluster -`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"cluster\tthe live CRDs", "-\tstandard input"}, cobra.ShellCompDirectiveDefault
		},
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case f.git != "" && f.ci:
				return errors.New("--git and --ci both name the revisions: give one of them")
			case f.git != "" || f.ci || f.releases != "":
				return nil
			case len(args) == 0:
				return errors.New("nothing to check: give OLD and NEW, NEW alone to compare with the cluster, or --git BASE...HEAD [PATH]")
			case len(args) > 2:
				return fmt.Errorf("%d arguments: give OLD and NEW (a directory or - holds several CRDs)", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c := newChecker(e, f)
			defer c.remote.Close()
			if f.digest {
				return c.printDigests(cmd.Context(), args)
			}
			if err := f.settleFlags(cmd); err != nil {
				return err
			}
			if f.releases != "" {
				if f.git != "" || f.ci || f.open || f.objects || !slices.Contains([]string{"text", "json", "html"}, f.output) {
					return errReleases
				}
				return c.runReleases(cmd.Context(), f.releases, args)
			}
			// Without the flag, the objects of the cluster are read if OLD is the cluster.
			f.noObjects = cmd.Flags().Changed("objects") && !f.objects
			return c.runCheck(cmd.Context(), args)
		},
	}
	fs := cmd.Flags()
	f.AddRemote(fs)
	fs.StringVar(&f.git, "git", "", "compare two revisions of the current repository: BASE...HEAD (from where HEAD left BASE), BASE..HEAD (as they are), or BASE with the work tree")
	fs.BoolVar(&f.ci, "ci", false, "compare what this CI job changes: the variables of GitHub, Gitea, GitLab, Bitbucket or Jenkins name the base")
	fs.StringVar(&f.releases, "releases", "", "compare every two of several releases: the tags that match a pattern such as 'v1.*', or directories, git:REV:PATH and remote sources with commas between them; formats text, json and html")
	command.AddOutput(cmd, &f.output, command.FormatNames()...)
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "print everything: each finding, whole witnesses, safe CRDs, notes on the configuration")
	fs.StringVar(&f.color, "color", "auto", "auto, always or never")
	fs.BoolVar(&f.open, "open", false, "write the report as html into a temporary file, and open it in the browser")
	f.addJudgement(cmd)
	fs.StringVar(&f.kubeVersion, "kube-version", "", "Kubernetes version whose rules apply, such as 1.29 (default: the cluster's, or "+kubeversion.DefaultKubeBinaryVersion+")")
	fs.StringVar(&f.newCRDs, "new-crds", "", "effect of CRDs that OLD does not have. fail: it is an error; some: it is an error if OLD has none of them; allow: they are only reported (default: some if OLD is the cluster, otherwise allow)")
	fs.StringArrayVar(&f.exclude, "exclude", nil, "pattern of files to leave out of directories, as in .sluiceignore (may be repeated)")
	fs.Int64Var(&f.budget, "budget", compat.DefaultBudget, "limit of work for each CRD, in units of less than a microsecond; changes beyond it are undecided")
	fs.BoolVar(&f.objects, "objects", false, "also read the stored objects of the cluster (on if OLD is the cluster; --objects=false turns it off)")
	fs.IntVar(&f.objectPages, "object-pages", cluster.DefaultPages, "pages of stored objects to read at once, each of a different namespace; 1 reads one after the other")
	fs.StringVar(&f.trace, "trace", "", "place in a schema, such as .spec.tasks[*].name or . for the object: print to standard error each question about it, and the argument or object that answered")
	fs.BoolVar(&f.digest, "print-hash", false, "compare nothing: print the SHA-256 of the spec of each CRD in NEW, for the annotation that bypasses the guard")
	command.Complete(cmd, "color", "auto", "always", "never")
	command.Complete(cmd, "new-crds", newFail, newSome, newAllow)
	cmd.AddCommand(newConversion(e))
	return cmd
}

// addJudgement adds the flags that say what fails, and those of the cluster.
func (f *checkFlags) addJudgement(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.AddCluster(fs)
	fs.StringArrayVarP(&f.configs, "config", "c", nil, "configuration file in Sluice's, kapp's or crdify's format (may be repeated)")
	fs.StringVar(&f.mode, "mode", "", "error: findings fail; warn: nothing fails; stored: if the cluster has stored objects, a finding fails only if one of them shows it (default: from the configuration, or error)")
	fs.StringVar(&f.failMode, "fail-mode", "", "closed: an undecided change fails; open: it is only reported (default: from the configuration, or closed)")
	command.Complete(cmd, "mode", "error", "warn", "stored")
	command.Complete(cmd, "fail-mode", "closed", "open")
}

// checker is one run of the command. Commands that compare several pairs of sources copy it. Notes that both sides
// share are told once, so it remembers what was told.
type checker struct {
	*command.Env
	flags *checkFlags
	// ciBases are the revisions that --ci compares HEAD with: the first one that lacks a commit of HEAD.
	ciBases []string

	remote    *resolve.Remote
	cluster   *cluster.Cluster
	old, next side
	kube      *version.Version
	// templates are those that were passed over last.
	templates []string
	// tests are the files of tests that were told.
	tests []string
	// remarks are those of the report.
	remarks []string
	// unrendered are the templates that were told.
	unrendered []input.Unrendered
	// unchanged counts the files that cannot be read and are the same on both sides.
	unchanged int
	// moved says which CRDs are compared with a file at another place.
	moved []string
	// partly is set where NEW may have other CRDs than OLD.
	partly bool
	// asksServer is set where the cluster's API server says whether it takes the new CRDs.
	asksServer bool
}

// newChecker returns a run that can read remote sources; whoever runs it closes its remote.
func newChecker(e *command.Env, f *checkFlags) *checker {
	return &checker{Env: e, flags: f, remote: &resolve.Remote{Env: e, Flags: &f.RemoteFlags}}
}

// side is what one source holds.
type side struct {
	// Set is what was read of files; it is empty for the cluster.
	input.Set
	name string
	// crds are the definitions by name.
	crds map[string][]input.Document
	// live is set for the cluster, which has CRDs that nobody speaks of, and files for files.
	live, files bool
}

// runCheck compares what the arguments name, prints the report, and returns [command.ErrFindings] if a finding
// fails. Configuration, colors and the variables of a CI system are judged before anything is read, because
// mistakes in them are cheap to find.
func (c *checker) runCheck(ctx context.Context, args []string) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	color, err := c.WantsColor(c.flags.color)
	if err != nil {
		return err
	}
	if c.flags.ci {
		if c.ciBases, err = ciBases(c.Getenv); err != nil {
			return err
		}
	}
	r, err := c.compareArguments(ctx, cfg, args)
	if err != nil {
		return err
	}
	return c.printReport(ctx, r, color)
}

// printReport prints a report, or opens it in the browser, and returns [command.ErrFindings] if a finding fails.
func (c *checker) printReport(ctx context.Context, r *report.Report, color bool) (err error) {
	o := c.ReportOptions()
	o.Verbose, o.Color, o.Date, o.Rules = c.flags.verbose, color, c.Now().Format(time.DateOnly), preflight.Doc
	if c.flags.open {
		err = c.openReport(ctx, r, o)
	} else {
		err = report.Print(c.Out, c.flags.output, r, o)
	}
	if err != nil {
		return err
	}
	return command.FindingsIf(r.Failing() > 0)
}

// openReport opens a report in the browser. It prints the name of the file, which stays. A browser that does not
// open is a warning, and no error.
func (c *checker) openReport(ctx context.Context, r *report.Report, o report.Options) error {
	file, err := os.CreateTemp("", "sluice-check-*.html")
	if err != nil {
		return err
	}
	if err := cmp.Or(report.Print(file, c.flags.output, r, o), file.Close()); err != nil {
		return err
	}
	fmt.Fprintln(c.Out, file.Name())
	if err := command.OpenInBrowser(ctx, file.Name()); err != nil {
		fmt.Fprintf(c.Err, "warning: %v; open the file yourself\n", err)
	}
	return nil
}

// compareArguments compares what the arguments name. If it fails, the remarks are told on standard error: they may
// say why a side has less than the user thinks.
func (c *checker) compareArguments(ctx context.Context, cfg *config.Config, args []string) (_ *report.Report, err error) {
	defer func() {
		if err != nil { // there is no report that has them
			for _, text := range c.remarks {
				fmt.Fprintln(c.Err, "note:", brief.OneLine(text))
			}
		}
	}()
	if err := c.loadSides(ctx, args); err != nil {
		return nil, err
	}
	return c.compareSides(ctx, cfg)
}

// compareSides compares the sides that were read. The configuration is applied last, when all findings are there:
// suppressions and levels are about single findings.
func (c *checker) compareSides(ctx context.Context, cfg *config.Config) (*report.Report, error) {
	pairs, err := c.pairCRDs()
	if err != nil {
		return nil, err
	}
	c.remarkOnKustomizations(pairs)
	r := &report.Report{
		Old: c.old.name, New: c.next.name, KubeVersion: c.kube.String(), Remarks: c.remarks,
		Mode: cfg.Mode(), FailMode: cfg.FailMode(), Skipped: c.skippedByKind(), Unreadable: c.unchanged,
	}
	if r.CRDs, err = c.comparePairs(ctx, pairs); err != nil {
		return nil, err
	}
	if c.old.live {
		tellLive(r.CRDs, pairs, c.old.name)
	}
	if c.scansObjects() {
		if err := c.scanObjects(ctx, pairs, r); err != nil {
			return nil, err
		}
	}
	locateFindings(r.CRDs, pairs)
	for i, p := range pairs {
		if c.flags.output == "html" { // other formats do not show them
			r.CRDs[i].Schemas = compat.SchemaTrees(crdOf(p.old), crdOf(p.next))
		}
	}
	cfg.Apply(r, c.Now())
	r.Sort()
	return r, nil
}

// loadConfig reads the configuration, and judges the flags that go with it. Of the Kubernetes version, the flag
// takes precedence over the configuration; if neither names one, c.kube stays nil, and the cluster or this build
// decide later. Notes about parts of a configuration of other tools that have no effect here are told with
// --verbose; suppressions that match nothing are always told.
func (c *checker) loadConfig() (*config.Config, error) {
	cfg, notes, err := config.Load(config.Options{
		Files: c.flags.configs, Mode: c.flags.mode, FailMode: c.flags.failMode, Rules: preflight.Rules(),
	})
	if err != nil {
		return nil, err
	}
	if c.flags.verbose {
		for _, n := range notes {
			fmt.Fprintln(c.Err, "note:", n)
		}
	}
	for _, n := range cfg.Unmatched() {
		fmt.Fprintln(c.Err, "note:", brief.OneLine(n))
	}
	if c.flags.budget < 1 {
		return nil, fmt.Errorf("--budget %d: it is at least 1; the default is %d", c.flags.budget, compat.DefaultBudget)
	}
	if n := c.flags.objectPages; n < 1 || n > cluster.MaxPages {
		return nil, fmt.Errorf("--object-pages %d: it is between 1 and %d; the default is %d", n, cluster.MaxPages, cluster.DefaultPages)
	}
	kube := cmp.Or(c.flags.kubeVersion, cfg.KubeVersion())
	if kube == "" {
		return cfg, nil
	}
	if c.kube, err = version.ParseGeneric(strings.TrimPrefix(kube, "v")); err != nil || c.kube.Major() != 1 {
		return nil, fmt.Errorf("--kube-version %q: it is a version such as 1.29", kube)
	}
	c.kube = version.MajorMinor(c.kube.Major(), c.kube.Minor())
	if oldest, newest := compat.KubeVersions(); c.kube.LessThan(oldest) || newest.LessThan(c.kube) {
		return nil, fmt.Errorf("--kube-version %q: this build knows the rules of %s to %s", kube, oldest, newest)
	}
	return cfg, nil
}

// settleFlags sets the format that --open needs, and refuses flags that say nothing or contradict each other.
func (f *checkFlags) settleFlags(cmd *cobra.Command) error {
	switch {
	case cmd.Flags().Changed("git") && f.git == "":
		return errors.New("--git is empty: give BASE...HEAD, or BASE alone for the work tree")
	case !f.open:
	case cmd.Flags().Changed("output") && f.output != "html":
		return fmt.Errorf("--open shows the format html, and -o says %s: give one of them", f.output)
	default:
		f.output = "html"
	}
	return nil
}

// loadSides reads both sides. The cluster is read after the files, and only for the CRDs that the other side has.
func (c *checker) loadSides(ctx context.Context, args []string) error {
	// One set of patterns for both sides: a file that is left out on one side only would count as removed.
	exclude, err := c.excludePatterns()
	if err != nil {
		return err
	}
	o := input.Options{Stdin: c.In, Exclude: exclude, PassTemplates: true}
	from, to, err := c.sourcesOf(ctx, args, o)
	if err != nil {
		return err
	}
	// The files first: what is wrong with them shows without a cluster.
	if err := c.readFiles(ctx, from, to, o); err != nil {
		return err
	}
	if from.Kind == input.Cluster || to.Kind == input.Cluster || c.flags.objects {
		if err := c.connectCluster(ctx); err != nil {
			return err
		}
	}
	if from.Kind == input.Cluster {
		c.old, err = c.readLiveCRDs(ctx, c.next)
	}
	// Asking takes the live CRDs, the rules of the server's own version, and the right to write.
	if c.asksServer = err == nil && c.asksServer && c.old.live; c.asksServer {
		err = c.mayAsk(ctx)
	}
	if to.Kind == input.Cluster {
		c.next, err = c.readLiveCRDs(ctx, c.old)
	}
	if c.kube == nil {
		c.kube = newestKube()
	}
	return err
}

// newestKube is the version of the linked libraries. It stands for the version if neither a flag nor a cluster
// says one.
func newestKube() *version.Version {
	return version.MustParseGeneric(kubeversion.DefaultKubeBinaryVersion)
}

// readFiles reads the sides that are files. The new side comes first, so that its notes stand before those of the
// old side. It also finds CRDs that moved within the old revision.
func (c *checker) readFiles(ctx context.Context, from, to input.Source, o input.Options) (err error) {
	// What changed matters, and only two sources of files tell that.
	o.KeepAll = from.Kind != input.Cluster && to.Kind != input.Cluster
	// Of a repository, what its tests read is nobody's API.
	o.PassTests = from.Kind == input.Git || to.Kind == input.Git
	if to.Kind != input.Cluster {
		if c.next, err = c.readSide(ctx, to, o); err != nil {
			return err
		}
	}
	if from.Kind != input.Cluster {
		if c.old, err = c.readSide(ctx, from, o); err != nil {
			return err
		}
	}
	c.remarkOnFiles()
	if err := errors.Join(c.refuseMissing(to.Paths), c.settleUnread()); err != nil {
		return err
	}
	if from.Kind == input.Git {
		return c.findElsewhere(ctx, from, to, o)
	}
	return nil
}

// sourcesOf returns where the old and the new CRDs come from. With --ci it tries the bases of the CI system in
// their order, until one lacks a commit of HEAD. In a CI job, a range without a new commit is an error: the job
// would always pass.
func (c *checker) sourcesOf(ctx context.Context, args []string, o input.Options) (from, to input.Source, err error) {
	switch {
	case c.flags.ci:
		// The note of a range says that HEAD has nothing new over its base; then the next base is tried.
		for _, base := range c.ciBases {
			c.flags.git = base + "...HEAD"
			from, to, err = input.GitRange(ctx, c.flags.git, args, o)
			if err = c.withHistoryAdvice(err); err != nil || from.Note == "" {
				return from, to, err
			}
		}
		return from, to, fmt.Errorf("--ci: %s, so there is nothing to compare: check out the commit that this job is about, or name the base %s", from.Note, ciSystemOf(c.Getenv).naming)
	case c.flags.git != "":
		from, to, err = input.GitRange(ctx, c.flags.git, args, o)
		err = c.withHistoryAdvice(err)
		switch {
		case err != nil:
		case from.Same && (ciSystemOf(c.Getenv) != nil || c.Getenv("CI") == "true"):
			err = fmt.Errorf("--git %s: %s, so there is nothing to compare, and this job would always pass; name another base, or let --ci find that of the event", c.flags.git, from.Note)
		case from.Note != "":
			fmt.Fprintln(c.Err, "note:", from.Note)
		}
	case len(args) == 1:
		from = input.Source{Kind: input.Cluster}
		to, err = input.ParseSource(args[0])
	default:
		if from, err = input.ParseSource(args[0]); err == nil {
			to, err = input.ParseSource(args[1])
		}
		switch {
		case from.Kind == input.Git:
			// A folder beside a revision is most often the work tree of the same repository: it follows the rules
			// of --git.
			to = to.InWorkTree()
		case to.Kind == input.Git:
			from = from.InWorkTree()
		}
	}
	switch {
	case err != nil:
	case from.Kind == input.Cluster && to.Kind == input.Cluster:
		err = errors.New("OLD and NEW are both the cluster: give the new CRDs as a file, a directory, - or git:REV")
	case from.Kind == input.Stdin && to.Kind == input.Stdin:
		err = errors.New("OLD and NEW are both standard input: one of them has to come from elsewhere")
	}
	return from, to, err
}

// withHistoryAdvice adds to the error of a revision that the checkout of a CI job lacks what the user of this CI system does about it.
func (c *checker) withHistoryAdvice(err error) error {
	if s := ciSystemOf(c.Getenv); s != nil && errors.Is(err, input.ErrUnknownRevision) {
		return fmt.Errorf("%w: the checkout of this job lacks it; %s", err, s.history)
	}
	return err
}

// mayAsk finds out whether the API server may be asked to try the new CRDs. If not, a warning says why, and the
// linked code of Kubernetes judges the new CRDs alone.
func (c *checker) mayAsk(ctx context.Context) error {
	verbs := []string{"update"}
	if len(c.old.crds) < len(c.next.crds) {
		verbs = append(verbs, "create")
	}
	why, err := c.cluster.MayDryRun(ctx, verbs...)
	if why != "" {
		c.asksServer = false
		fmt.Fprintf(c.Err, "warning: the API server is not asked whether it takes the new CRDs, because %s; the code of Kubernetes %s says so\n", why, kubeversion.DefaultKubeBinaryVersion)
	}
	return err
}

// readSide loads one source that is not the cluster. A side of a range of revisions may be empty: CRDs come and
// go. What was left out is told even if the side cannot be used, because it may be the reason.
func (c *checker) readSide(ctx context.Context, src input.Source, o input.Options) (side, error) {
	set, err := c.loadSource(ctx, src, o)
	if set != nil {
		c.tellLeftOut(src.String(), set)
	}
	missing := errors.Is(err, input.ErrNotFound)
	// In a history, a folder that does not exist yet or any more is no mistake.
	if c.flags.git != "" && (errors.Is(err, input.ErrNoCRD) || missing) {
		if missing {
			fmt.Fprintln(c.Err, "note:", brief.OneLine(err.Error()))
			return side{name: src.String(), crds: map[string][]input.Document{}, Set: input.Set{Missing: src.Paths}, files: true}, nil
		}
		err = nil
	}
	switch {
	case errors.Is(err, input.ErrNoCRD):
		return side{}, fmt.Errorf("%w%s", err, goTypesHint())
	case err != nil:
		return side{}, err
	}
	for _, w := range set.Warnings {
		fmt.Fprintln(c.Err, "warning:", w.Position.Tell(w.Message))
	}
	return newSide(src, set), nil
}

// loadSource loads a source, which may be remote. The content of a remote source is read as one stream, under the
// name of the source without credentials.
func (c *checker) loadSource(ctx context.Context, src input.Source, o input.Options) (_ *input.Set, err error) {
	switch name := src.String(); {
	case !src.IsRemote():
	case strings.HasPrefix(name, "git+file://"):
		if src, o.Dir, err = input.GitFile(name); err != nil {
			return nil, err
		}
	default:
		res, err := c.remote.Fetch(ctx, name)
		if err != nil {
			return nil, err
		}
		src, o.Stdin = input.Stream(resolve.RedactUserInfo(name)), bytes.NewReader(res.Data)
	}
	return input.Load(ctx, src, o)
}

// newSide returns the side with what was read from a source.
func newSide(src input.Source, set *input.Set) side {
	s := side{Set: *set, name: src.String(), crds: map[string][]input.Document{}, files: true}
	for _, d := range set.Documents {
		s.crds[d.CRD.Name] = append(s.crds[d.CRD.Name], d)
	}
	return s
}

// connectCluster connects to the cluster of the flags. Unless the user names a Kubernetes version, that of the
// cluster holds, and only then can its API server be asked: it judges by its own rules. A cluster that is newer
// than this build gets a warning.
func (c *checker) connectCluster(ctx context.Context) error {
	var err error
	if c.cluster, err = c.flags.Cluster(); err != nil {
		return err
	}
	if c.kube == nil {
		if c.kube, err = c.cluster.Version(ctx); err != nil {
			return err
		}
		c.asksServer = true // of no other version
		// Findings by older rules may miss what the new version refuses, so the user should know.
		if _, newest := compat.KubeVersions(); newest.LessThan(version.MajorMinor(c.kube.Major(), c.kube.Minor())) {
			fmt.Fprintf(c.Err, "warning: the cluster runs Kubernetes %s; the findings follow the rules of %s, the newest version that this build knows\n", c.kube, newest)
		}
	}
	return nil
}

// readLiveCRDs reads those CRDs of the cluster that the other side has. CRDs that the cluster does not have are
// left out.
func (c *checker) readLiveCRDs(ctx context.Context, other side) (side, error) {
	s := side{name: "cluster " + c.cluster.Host(), crds: map[string][]input.Document{}, live: true}
	for _, name := range slices.Sorted(maps.Keys(other.crds)) {
		crd, err := c.cluster.CRD(ctx, name)
		if err != nil {
			return s, err
		}
		if crd != nil {
			s.crds[name] = []input.Document{{File: "cluster", CRD: crd}}
		}
	}
	return s, nil
}

// skippedByKind counts the documents of other kinds on both sides, for the report.
func (c *checker) skippedByKind() map[string]int {
	out := map[string]int{}
	for _, s := range []side{c.old, c.next} {
		for k, n := range s.Skipped {
			out[k] += n
		}
	}
	return out
}

// comparePairs checks the pairs on all processors. The results are in the order of the pairs. With --trace, the
// steps of all comparisons are printed when all are done, so that they are not mixed.
func (c *checker) comparePairs(ctx context.Context, pairs []pair) ([]report.CRD, error) {
	list := make([]crdcheck.Pair, len(pairs))
	for i, p := range pairs {
		list[i] = crdcheck.Pair{Old: crdOf(p.old), New: crdOf(p.next)}
	}
	bar := c.Progress("checking CRDs", int64(len(pairs)))
	defer bar.Done()
	o := crdcheck.Options{KubeVersion: c.kube, Budget: c.flags.budget}
	if c.asksServer {
		o.Server = crdcheck.Ask(c.cluster)
	}
	var trace *tracer
	if c.flags.trace != "" {
		trace = newTracer(c.flags.trace)
		o.Trace = trace.addStep
	}
	out, err := crdcheck.Compare(ctx, list, o, bar.Set)
	if trace != nil && err == nil {
		trace.printSteps(c.Err)
	}
	return out, err
}

// crdOf returns the CRD of a document, which may be nil.
func crdOf(d *input.Document) *apiextensionsv1.CustomResourceDefinition {
	if d == nil {
		return nil
	}
	return d.CRD
}

// locateFindings fills in where findings stand in the new files, or in the old one of a CRD that is gone. Findings
// that have a place already keep it.
func locateFindings(crds []report.CRD, pairs []pair) {
	for i := range crds {
		crds[i].File = pairs[i].place
		// A CRD that is gone has its findings in the old file.
		d := cmp.Or(pairs[i].next, pairs[i].old)
		for j := range crds[i].Findings {
			if f := &crds[i].Findings[j]; f.Position == nil {
				f.Position = d.Place(f)
			}
		}
	}
}

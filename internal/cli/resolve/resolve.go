// Package resolve has the commands that resolve a resource, here or in a cluster, and the set of resolvers that a process of sluice
// runs. How a resource is fetched, packages resolve and internal/resolvers say.
package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/resolvers"
	"sluice.dev/resolve"
)

// resolveFlags are those of sluice resolve RESOLVER.
type resolveFlags struct {
	params    []string
	configs   []string
	settings  []string
	namespace string
	secrets   []string
	secretDir string
	addresses []string
	policies  string
	noMatch   string
	// trustedRoot is a file.
	trustedRoot string
	dirs        []string
	cacheDir    string

	followFlags
	command.ClusterFlags
}

// New returns the command resolve.
func New(e *command.Env) *cobra.Command {
	table := resolvers.Table()
	names := make([]string, 0, len(table))
	for _, r := range table {
		names = append(names, r.Name)
	}
	unknown := func(name string) error {
		return fmt.Errorf("there is no resolver %q%s; this build has %s", name, brief.Hint(name, names), strings.Join(names, ", "))
	}
	var f requestFlags
	cmd := &cobra.Command{
		Use:   "resolve RESOLVER --param NAME=VALUE ... | resolve -f REQUEST",
		Short: "Fetch a resource from git, an OCI registry, a hub, a web server or a cluster",
		Long: `Fetch a resource from another place, and print it.

If you name a resolver, this process fetches the resource as the resolvers in a cluster do, but without a cluster. With -f, the command
creates a ResolutionRequest (v1beta1 or v1alpha1) in the cluster, and deletes it when it has ended.

Exit codes: 0 printed, 1 the policies do not accept its signature, 2 error.`,
		Example: `  sluice resolve git --param url=https://git.example.com/team/catalog.git --param pathInRepo=tasks/build.yaml
  sluice resolve git --help
  sluice resolve -f request.yaml
  sluice resolve ls --all-namespaces --watch`,
		Args: func(_ *cobra.Command, args []string) error {
			if f.file != "" && len(args) == 0 {
				return nil
			}
			if len(args) > 0 {
				return unknown(args[0])
			}
			return fmt.Errorf("which resolver? this build has %s; or give a request with -f", strings.Join(names, ", "))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return resolveRequests(cmd.Context(), e, f) },
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.file, "filename", "f", "", "file with ResolutionRequests to create in the cluster; - is standard input")
	fs.StringVarP(&f.Namespace, "namespace", "n", "", "namespace of requests that have none (default: the kubeconfig's)")
	fs.BoolVar(&f.keep, "keep", false, "keep the requests in the cluster")
	f.addFollow(cmd)
	f.AddStore(fs, "repository in an OCI registry, REGISTRY/PATH, where the cluster's resolvers put content that is too large for a request")
	f.AddCluster(fs)
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		// The name of a resolver that there is not leaves its flags to this command, which does not know them.
		if args := c.Flags().Args(); c == cmd && len(args) > 0 {
			return unknown(args[0])
		}
		return cmd.Parent().FlagErrorFunc()(c, err)
	})
	cmd.AddCommand(newResolveList(e))
	for _, entry := range table {
		cmd.AddCommand(newResolveWith(e, entry, table))
	}
	return cmd
}

// newResolveWith is the command of one resolver. What it says of itself comes from the resolver's specification.
// The flag --dir is that of the resolver dir alone; resolvers that need no cluster have no flags for one.
func newResolveWith(e *command.Env, entry resolvers.Entry, table []resolvers.Entry) *cobra.Command {
	var f resolveFlags
	spec := entry.Spec()
	cmd := &cobra.Command{
		Use:               entry.Name + " --param NAME=VALUE ...",
		Aliases:           spec.Aliases,
		Short:             spec.Doc,
		Long:              helpOf(spec),
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return resolveLocally(cmd.Context(), e, f, entry, table)
		},
	}
	fs := cmd.Flags()
	fs.StringArrayVarP(&f.params, "param", "p", nil, "parameter as NAME=VALUE (may be repeated); give an array as JSON or item by item, an object as JSON or as NAME=KEY=VALUE")
	fs.StringArrayVar(&f.configs, "config", nil, "file with the resolver's configuration: ConfigMaps as in a cluster, or their plain keys (may be repeated)")
	fs.StringArrayVar(&f.settings, "set", nil, "key of the configuration as KEY=VALUE (may be repeated)")
	fs.StringVarP(&f.namespace, "namespace", "n", "default", "namespace of the request")
	fs.StringArrayVar(&f.secrets, "secret", nil, "Secret as NAME=PATH to a manifest, or to a directory with a file for each key; or one key as NAME:KEY=FILE (may be repeated)")
	fs.StringVar(&f.secretDir, "secret-dir", "", "directory with one subdirectory for each Secret")
	fs.StringArrayVar(&f.addresses, "allow-address", nil, "host, host:port, *.domain, address or range to allow although it is local or private (may be repeated)")
	fs.StringVar(&f.policies, "verify-policies", "", "file with VerificationPolicies that the resource has to satisfy")
	fs.StringVar(&f.trustedRoot, "trusted-root", "", "file with Sigstore's trusted_root.json, against which policies without keys verify certificates; Sluice fetches none")
	fs.StringVar(&f.noMatch, "verify-no-match", "", "if no policy matches a resource: ignore, warn or fail (default ignore)")
	fs.StringVar(&f.cacheDir, "cache-dir", "", "folder for mirrors of repositories (default: sluice/resolve in the user's cache directory)")
	f.addFollow(cmd)
	if entry.Name == "dir" {
		fs.StringArrayVar(&f.dirs, "dir", []string{"."}, "directory as PATH or NAME=PATH (may be repeated)")
	}
	if !entry.Local {
		f.AddCluster(fs)
	}
	command.Complete(cmd, "verify-no-match", "ignore", "warn", "fail")
	command.CompleteWith(cmd, "param", func(typed string) ([]string, cobra.ShellCompDirective) { return completeParam(spec, typed) })
	command.CompleteWith(cmd, "set", func(string) ([]string, cobra.ShellCompDirective) { return completeKey(spec) })
	return cmd
}

// completeParam completes a parameter: its name up to the equals sign, or a value if the resolver declares which
// are allowed.
func completeParam(spec resolve.Spec, typed string) ([]string, cobra.ShellCompDirective) {
	var out []string
	name, _, valued := strings.Cut(typed, "=")
	for _, p := range spec.Parameters() {
		if !valued {
			out = append(out, p.Name+"=\t"+p.Doc)
			continue
		}
		if p.Name == name {
			for _, v := range p.Allowed {
				out = append(out, name+"="+v)
			}
		}
	}
	if valued {
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeKey completes a key of the resolver's configuration, up to the equals sign.
func completeKey(spec resolve.Spec) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, k := range spec.Keys() {
		out = append(out, k.Name+"=\t"+k.Doc)
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// helpOf describes a resolver from what it declares. So the help text of a resolver is never older than its
// parameters.
func helpOf(spec resolve.Spec) string {
	var b strings.Builder
	b.WriteString(spec.Doc)
	if len(spec.Aliases) > 0 {
		fmt.Fprintf(&b, " Also known as %s.", strings.Join(spec.Aliases, ", "))
	}
	b.WriteString("\n\nParameters:\n")
	w := command.Columns(&b)
	for _, p := range spec.Parameters() {
		kind := cmp.Or(p.Type, resolve.String)
		standard := command.Dash(p.Default)
		switch {
		case p.DefaultKey != "":
			standard = "key " + p.DefaultKey
		case p.Required:
			standard = "required"
		}
		doc := p.Doc
		if len(p.Allowed) > 0 {
			doc += " One of " + strings.Join(p.Allowed, ", ") + "."
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", strings.Join(append([]string{p.Name}, p.Aliases...), ", "), kind, standard, doc)
	}
	w.Flush()
	if spec.ConfigMap == "" {
		return b.String()
	}
	fmt.Fprintf(&b, "\nConfiguration (--set KEY=VALUE, or --config with the ConfigMap %s):\n", spec.ConfigMap)
	for _, k := range spec.Keys() {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", k.Name, command.Dash(k.Default), k.Doc)
	}
	w.Flush()
	return b.String()
}

// tellFailure returns the error that a command ends with for one of a resolver. If policies refuse what was
// fetched, that is an answer of no and not an error: it is printed, and [command.ErrFindings] is returned. Other
// errors begin with their reason in one word.
func tellFailure(e *command.Env, err error) error {
	if r, ok := errors.AsType[*resolve.Error](err); ok && r.Reason == resolve.ReasonVerification {
		fmt.Fprintf(e.Err, "sluice: %s: %s\n", r.Reason, brief.OneLine(r.Error()))
		return command.ErrFindings
	} else if ok && r.Reason != resolve.ReasonFailed && r.Reason != "" {
		return fmt.Errorf("%s: %w", r.Reason, err)
	}
	return err
}

// resolveLocally runs a resolver in this process.
func resolveLocally(ctx context.Context, e *command.Env, f resolveFlags, entry resolvers.Entry, table []resolvers.Entry) (err error) {
	given, err := parseParams(entry.Spec(), f.params)
	if err != nil {
		return err
	}
	follow, err := f.newFollower()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("it took longer than %s (--timeout)", f.timeout))
	defer cancel()
	l, err := newLocal(e, f, entry, table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	res, err := l.fetchByName(ctx, entry.Name, "", given)
	if err != nil {
		return tellFailure(e, err)
	}
	Warn(e, entry.Name, res)
	list, err := follow.withReferences(ctx, e, resolved{Resolver: entry.Name, Params: asParams(given), Resource: res}, l.fetchRef)
	if err != nil {
		return tellFailure(e, err)
	}
	return printResolved(e, f.output, list)
}

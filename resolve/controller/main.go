package controller

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/internal/controller/resolution"
	"sluice.dev/resolve"
)

// Main is the whole program of resolvers. It reads the command line, runs what that asks for, and ends the process: with exit code 0
// after SIGTERM, an interrupt or a command, and 1 after an error.
//
//	PROGRAM [FLAGS]                       runs the resolvers in a cluster; see [Options.AddFlags]
//	PROGRAM manifests --image=IMAGE       prints what installs it there
//	PROGRAM resolve [NAME] PARAM=VALUE... resolves one request without a cluster, and prints the content
func Main(resolvers ...resolve.Resolver) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, resolvers)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1) //nolint:forbidigo // it is the program
	}
	os.Exit(0) //nolint:forbidigo // it is the program
}

// run does what the arguments ask for.
func run(ctx context.Context, args []string, out io.Writer, resolvers []resolve.Resolver) error {
	registry, err := resolve.NewRegistry(resolvers...)
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "resolve" && !slices.Contains([]string{"-h", "--help"}, args[len(args)-1]) {
		return errors.Join(resolveOnce(ctx, registry, args[1:], out), resolve.CloseAll(resolvers))
	}
	if len(resolvers) == 0 {
		return errors.New("there is no resolver to run")
	}
	account := resolvers[0].Spec().Name + "-resolver"
	o := Options{Namespace: account, Account: account}
	image := ""
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		_, _ = fmt.Fprintf(out, usage, filepath.Base(os.Args[0]), flags.FlagUsages()) // nobody reads it then
	}
	manifests := len(args) > 0 && args[0] == "manifests"
	if manifests {
		flags.StringVar(&image, "image", "", "container image of this program; required")
		o.addNamespaces(flags)
		args = args[1:]
	} else {
		o.AddFlags(flags)
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q; want manifests, resolve, or flags only", flags.Arg(0))
	case !manifests:
		return Run(ctx, o, resolvers...)
	case image == "" || strings.ContainsFunc(image, unicode.IsSpace):
		return errors.New("manifests: name the container image, as in --image=registry.example.com/resolver:v1")
	}
	o = o.withDefaults()
	for _, namespace := range []string{o.Namespace, o.ConfigNamespace, o.DefaultsNamespace} {
		if wrong := validation.IsDNS1123Label(namespace); wrong != nil {
			return fmt.Errorf("manifests: %q is no name of a namespace: %s", namespace, wrong[0])
		}
	}
	_, err = io.WriteString(out, manifestsOf(resolvers, o, image))
	return err
}

// usage is the help text. It takes the name of the program, and the flags.
const usage = `Usage:
  %[1]s [FLAGS]                        run in a cluster
  %[1]s manifests --image=IMAGE        print what installs it there
  %[1]s resolve [NAME] PARAM=VALUE...  resolve one request without a cluster

Flags:
%[2]s`

//go:embed manifests.yaml
var manifestsTemplate string

// manifestsOf returns the manifests of a program, as a YAML stream.
func manifestsOf(resolvers []resolve.Resolver, o Options, image string) string {
	var names, schemas, writers []string
	maps := []string{resolve.CacheConfigMap, resolution.FlagsConfigMap, resolution.VerificationConfigMap}
	for _, r := range resolvers {
		spec := r.Spec()
		names, schemas = append(names, spec.Name), append(schemas, resolution.SchemaConfigMap(spec.Name))
		writers = append(writers, fmt.Sprintf("--writer system:serviceaccount:%s:%s=%s", o.Namespace, o.Account, spec.Name))
		if spec.ConfigMap != "" {
			maps = append(maps, spec.ConfigMap)
		}
	}
	values := map[string]string{
		"names": strings.Join(names, ", "), "schemas": strings.Join(schemas, ", "), "configMaps": strings.Join(maps, ", "), "writers": strings.Join(writers, " "),
		"account": o.Account, "namespace": o.Namespace, "configNamespace": o.ConfigNamespace, "defaultsNamespace": o.DefaultsNamespace, "image": image,
	}
	return os.Expand(manifestsTemplate, func(key string) string { return values[key] })
}

// resolveOnce resolves one request: the name of a resolver if there are several, and PARAM=VALUE for each parameter.
func resolveOnce(ctx context.Context, registry *resolve.Registry, args []string, out io.Writer) error {
	q := &resolve.Query{Namespace: "default"}
	if names := registry.Names(); len(names) == 1 {
		q.Resolver = names[0]
	}
	for i, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		switch {
		case !ok && i == 0 && slices.Contains(registry.Names(), arg):
			q.Resolver = arg
		case !ok || name == "":
			return fmt.Errorf("resolve: %q: want PARAM=VALUE", arg)
		default:
			q.Params = append(q.Params, resolve.Given{Name: name, Value: resolve.Value{Type: resolve.String, String: value}})
		}
	}
	runner, err := resolve.NewRunner(resolve.Options{Resolvers: registry})
	if err != nil {
		return err
	}
	defer runner.Wait()
	res, err := runner.Resolve(ctx, q)
	if err != nil {
		return err
	}
	_, err = out.Write(res.Data)
	return err
}

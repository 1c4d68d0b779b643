package apply

// Where do the objects of an apply come from? A source is a file, a folder, standard input, a git revision, a
// repository, an image, a URL, or a file with a ResolutionRequest. Sources of this machine are read by package
// input, all others are fetched by the resolvers that also run in clusters, with the credentials of the user. What
// a source held is noted with its commit or digest, for the inventory and for provenance.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/apply"
	"sluice.dev/internal/cli/command"
	resolvecmd "sluice.dev/internal/cli/resolve"
	"sluice.dev/internal/config"
	"sluice.dev/internal/input"
	"sluice.dev/internal/preflight"
	"sluice.dev/resolve"
)

// sourceFlags say where objects come from. mayBeEmpty accepts a source without an object among several.
type sourceFlags struct {
	sources    []string
	mayBeEmpty bool
	resolvecmd.RemoteFlags
}

// sourceHelp is the part of the help that all commands with sources share.
const sourceHelp = `A source is a file, a directory, - (standard input), git:REV[:PATH] in the current repository,
git+https://HOST/REPO//PATH?ref=REV (also git+ssh and git+file), oci://REGISTRY/REPO:TAG
(Tekton bundles, Flux's artifacts, tars), http(s)://..., or a file with a ResolutionRequest, which Sluice resolves locally.
Pipe the output of Kustomize or Helm to -f -. Sluice leaves out Helm hooks that do not belong to an install or an upgrade (test,
pre-delete, ...), and applies the other hooks like other objects.`

// addSources adds -f, and the flags for sources that are fetched.
func (f *sourceFlags) addSources(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.AddRemote(fs)
	fs.StringArrayVarP(&f.sources, "filename", "f", nil, "source of objects (may be repeated)")
}

// loaded is what the sources hold.
type loaded struct {
	objects []apply.Object
	sources []apply.Source
	// configs are configurations of kapp's among the objects.
	configs []config.Document
	// crds finds places in definitions, by name.
	crds map[string]input.Document
}

// fetcher reads the sources of one command.
type fetcher struct {
	*command.Env

	remote *resolvecmd.Remote
	out    loaded
}

// loadAllSources reads all sources, in their order. All objects come from the sources that hold any: a source that
// is empty among several is an error without --allow-empty, since it is most often a wrong path. Standard input
// can be one source only.
func loadAllSources(ctx context.Context, e *command.Env, f *sourceFlags, cluster *rest.Config) (*loaded, error) {
	if len(f.sources) == 0 {
		return nil, errors.New("nothing to do: give a source with -f (a file, a directory, -, git+https://..., oci://..., https://...)")
	}
	if n := len(slices.DeleteFunc(slices.Clone(f.sources), func(s string) bool { return s != "-" })); n > 1 {
		return nil, errors.New("-f - is given twice: standard input can be read once")
	}
	remote := &resolvecmd.Remote{Env: e, Flags: &f.RemoteFlags, Cluster: cluster}
	defer remote.Close()
	r := &fetcher{Env: e, remote: remote, out: loaded{crds: map[string]input.Document{}}}
	for _, s := range f.sources {
		// A source with nothing but a configuration of kapp is not empty.
		before := len(r.out.objects) + len(r.out.configs)
		if err := r.readSource(ctx, s); err != nil {
			return nil, err
		}
		if len(r.out.objects)+len(r.out.configs) == before && len(f.sources) > 1 && !f.mayBeEmpty {
			return nil, fmt.Errorf("no object in %s; with --allow-empty one of several sources may be empty", resolvecmd.RedactUserInfo(s))
		}
	}
	if len(r.out.objects) == 0 {
		return nil, fmt.Errorf("no object in %s", strings.Join(f.sources, ", "))
	}
	return &r.out, nil
}

// missingSourcesError tells of all files and directories that do not exist. It returns nil if all are there, and
// does not look at sources that are no files.
func missingSourcesError(sources []string) error {
	var names []string
	for _, s := range sources {
		src, err := input.ParseSource(s)
		if strings.Contains(s, "://") || err != nil || src.Kind != input.Path {
			continue
		}
		if _, err := os.Stat(s); errors.Is(err, os.ErrNotExist) {
			names = append(names, s)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s: no such file or directory; a source is a file, a directory, - (standard input), git:REV[:PATH], "+
		"git+https://HOST/REPO//PATH?ref=REV (also git+http, git+ssh, git+file), oci://REGISTRY/REPO:TAG, https://URL or http://URL", strings.Join(names, ", "))
}

// readSource reads one source. A repository on this machine (git+file) is read by git itself, without a resolver.
func (r *fetcher) readSource(ctx context.Context, s string) error {
	scheme, _, remote := strings.Cut(s, "://")
	switch {
	case !remote:
		src, err := input.ParseSource(s)
		if err != nil {
			return err
		}
		return withBuildHint(r.readLocal(ctx, s, src, "", ""), src)
	case scheme == "git+file":
		src, dir, err := input.GitFile(s)
		if err != nil {
			return err
		}
		return r.readLocal(ctx, s, src, dir, "git+file://"+dir)
	}
	res, err := r.remote.Fetch(ctx, s)
	if err != nil {
		return err
	}
	return r.takeResource(ctx, resolvecmd.RedactUserInfo(s), res)
}

// builders are programs that make objects of a folder, by a file that tells such a folder.
var builders = map[string]string{
	"kustomization.yaml": "kubectl kustomize DIR", "kustomization.yml": "kubectl kustomize DIR", "Kustomization": "kubectl kustomize DIR",
	"Chart.yaml": "helm template RELEASE DIR --include-crds",
}

// withBuildHint adds to an error of a source on this machine how its objects are had, where it is no folder of objects but one of Kustomize or
// Helm.
func withBuildHint(err error, src input.Source) error {
	if err == nil || src.Kind != input.Path {
		return err
	}
	for _, path := range src.Paths {
		for _, file := range slices.Sorted(maps.Keys(builders)) {
			folder := path
			if filepath.Base(path) == file {
				folder = filepath.Dir(path)
			}
			if info, e := os.Stat(filepath.Join(folder, file)); e == nil && info.Mode().IsRegular() {
				return fmt.Errorf("%w; build %s first: %s | sluice apply -f -", err, folder, strings.ReplaceAll(builders[file], "DIR", folder))
			}
		}
	}
	return err
}

// readLocal reads files, standard input, or a revision of a local repository. uri, if not empty, is the URI of the
// source in the result. A ResolutionRequest in a file is not applied: it is resolved here, and its content takes
// its place. In a git revision it is an object like others, because what it names could be another content
// tomorrow.
func (r *fetcher) readLocal(ctx context.Context, name string, src input.Source, dir, uri string) error {
	if src.Kind == input.Cluster {
		return errors.New("the cluster is no source; a file called cluster is ./cluster")
	}
	set, err := input.Load(ctx, src, input.Options{Dir: dir, Stdin: r.In, Objects: true})
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, o := range set.Objects {
		text.Write(o.JSON)
		text.WriteByte('\n')
	}
	// The digest is that of the objects, so it does not change with comments or the order of files.
	source := apply.Source{Name: name, URI: uri, Digest: resolve.SHA256([]byte(text.String()))}
	if set.Commit != "" {
		source.Digest = map[string]string{"sha1": set.Commit}
	}
	requests, objects := []input.Object(nil), []input.Object(nil)
	for _, o := range set.Objects {
		// In a revision, a request is an object to apply: its content could change under the same commit.
		if src.Kind != input.Git && isRequest(o.JSON) {
			requests = append(requests, o)
			continue
		}
		objects = append(objects, o)
	}
	set.Objects = objects
	if len(objects) > 0 || len(requests) == 0 {
		if err := r.takeObjects(set, source); err != nil {
			return err
		}
	}
	for _, o := range requests {
		if err := r.resolveRequest(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// takeObjects adds the objects of a set. Configurations of kapp among them are kept apart.
func (r *fetcher) takeObjects(set *input.Set, source apply.Source) error {
	for _, w := range set.Warnings {
		fmt.Fprintln(r.Err, "warning:", w.Position.Tell(w.Message))
	}
	objects, configs := preflight.Configs(set)
	r.out.configs = append(r.out.configs, configs...)
	for _, o := range objects {
		obj, err := apply.NewObject(o.File, o.Line, o.JSON)
		if err != nil {
			return err
		}
		r.out.objects = append(r.out.objects, obj)
	}
	for _, d := range set.Documents {
		r.out.crds[d.CRD.Name] = d
	}
	r.out.sources = append(r.out.sources, source)
	return nil
}

// takeResource decodes a fetched resource and adds its objects.
func (r *fetcher) takeResource(ctx context.Context, name string, res *resolve.Resource) error {
	set, err := input.DecodeObjects(ctx, name, res.Data)
	if err != nil {
		return err
	}
	return r.takeObjects(set, apply.Source{Name: name, URI: res.Source.URI, Digest: res.Source.Digest, EntryPoint: res.Source.EntryPoint})
}

// isRequest tells whether an object is a ResolutionRequest.
func isRequest(json []byte) bool {
	var head metav1.TypeMeta
	return yaml.Unmarshal(json, &head) == nil && head.Kind == "ResolutionRequest" && strings.HasPrefix(head.APIVersion, resolution.GroupName+"/")
}

// resolveRequest resolves a ResolutionRequest on this machine. The resolver is named by the label, as in a
// cluster. Errors begin with the place of the request.
func (r *fetcher) resolveRequest(ctx context.Context, o input.Object) error {
	// Every error has the place of the request in its file.
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s:%d: ResolutionRequest: %w", o.File, o.Line, fmt.Errorf(format, args...))
	}
	var request v1beta1.ResolutionRequest
	if err := yaml.Unmarshal(o.JSON, &request); err != nil {
		return fail("%w", err)
	}
	if request.APIVersion != v1beta1.SchemeGroupVersion.String() {
		return fail("is of %s; %s is wanted", request.APIVersion, v1beta1.SchemeGroupVersion)
	}
	name := cmp.Or(request.Labels[resolution.LabelType], request.Labels[resolution.LabelResolver])
	if name == "" {
		return fail("has no label %s, which names the resolver", resolution.LabelType)
	}
	at := fmt.Sprintf("%s:%d", o.File, o.Line)
	res, err := r.remote.Resolve(ctx, at, &resolve.Query{
		Resolver: resolution.Canonical(name), Namespace: request.Namespace, URL: request.Spec.URL, Params: resolvecmd.GivenParams(request.Spec.Params),
	})
	if err != nil {
		return err
	}
	return r.takeResource(ctx, at, res)
}

package resolve

// How does one have a resource fetched by a cluster? resolve -f creates the ResolutionRequests of a file, waits
// for each, prints what they brought, and deletes them again. It shows what a controller that makes requests would
// get, with the configuration and the rights of that cluster.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1alpha1"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/requester"
	"sluice.dev/requester/refs"
	"sluice.dev/resolve"
)

// requestFlags are those of sluice resolve -f.
type requestFlags struct {
	file string
	keep bool

	followFlags
	StoreFlags
	command.ClusterFlags
}

// maxRequests is how many requests a file may have.
const maxRequests = 1000

// generatedName begins the names of requests that have none.
const generatedName = "sluice-"

// cleanupTime is how long a run that was interrupted still tries to delete its requests.
const cleanupTime = 5 * time.Second

// resolveRequests makes the requests of a file in the cluster, waits for all and prints what they brought. All
// requests are created before the first one is waited for, so that they run side by side. They are deleted even
// after an error or an interrupt.
func resolveRequests(ctx context.Context, e *command.Env, f requestFlags) (err error) {
	text, err := e.ReadInput(f.file)
	if err != nil {
		return err
	}
	list, err := parseRequests(text)
	if err != nil {
		return fmt.Errorf("%s: %w", f.file, err)
	}
	follow, err := f.newFollower()
	if err != nil {
		return err
	}
	config, namespace, err := f.Connect()
	if err != nil {
		return err
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("not finished after %s (--timeout)", f.timeout))
	defer cancel()
	if (f.recursive || f.pin) && len(f.remotes) == 0 {
		if follow.where, err = clusterRemotes(ctx, config); err != nil {
			return err
		}
	}
	a := asker{Env: e, client: client}
	if f.Store != "" {
		if a.outcomes.Store, err = f.Open(); err != nil {
			return err
		}
	}
	defer func() {
		if !f.keep {
			err = errors.Join(err, a.deleteRequests(ctx))
		}
	}()
	for _, r := range list {
		r.Namespace = cmp.Or(r.Namespace, namespace)
		if _, err := a.createRequest(ctx, r); err != nil {
			return err
		}
	}
	var out []resolved
	for _, r := range slices.Clone(a.made) {
		res, err := a.awaitResult(ctx, r)
		if err != nil {
			return requestFailure(e, r, err)
		}
		more, err := follow.withReferences(ctx, e, res, func(ctx context.Context, ref requester.Ref) (resolved, error) {
			return a.fetchRef(ctx, r.Namespace, ref)
		})
		if err != nil {
			return requestFailure(e, r, err)
		}
		out = append(out, more...)
	}
	return printResolved(e, f.output, out)
}

// clusterRemotes returns the default remotes that the operator of the cluster has set; nil if there are none, or if the user may not read
// them. Beside Tekton its ConfigMap counts.
func clusterRemotes(ctx context.Context, config *rest.Config) (refs.Remotes, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	// Beside Tekton, its ConfigMap is the one that operators have changed.
	for _, namespace := range []string{"tekton-pipelines", "sluice-system"} {
		m, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, refs.DefaultsConfigMap, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the default remotes: %w", err)
		}
		defaults, err := refs.ReadDefaults(m.Data)
		if err != nil {
			return nil, fmt.Errorf("ConfigMap %s/%s: %w", namespace, refs.DefaultsConfigMap, err)
		}
		return refs.Templates(defaults.Remotes), nil
	}
	return nil, nil
}

// asker makes requests in a cluster.
type asker struct {
	*command.Env

	client versioned.Interface
	// outcomes reads what has become of requests.
	outcomes requester.Requester
	made     []*v1beta1.ResolutionRequest
}

// createRequest creates a request, and notes it for deleteRequests.
func (a *asker) createRequest(ctx context.Context, r *v1beta1.ResolutionRequest) (*v1beta1.ResolutionRequest, error) {
	got, err := a.client.ResolutionV1beta1().ResolutionRequests(r.Namespace).Create(ctx, r, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot make the request: %w", err)
	}
	a.made = append(a.made, got)
	return got, nil
}

// fetchRef has a reference resolved in a namespace. It makes a request of its own, which is deleted at the end
// like those of the file.
func (a *asker) fetchRef(ctx context.Context, namespace string, ref requester.Ref) (resolved, error) {
	spec, err := ref.Spec()
	if err != nil {
		return resolved{}, err
	}
	r, err := a.createRequest(ctx, &v1beta1.ResolutionRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: generatedName, Labels: map[string]string{resolution.LabelType: ref.Resolver}},
		Spec:       spec,
	})
	if err != nil {
		return resolved{}, err
	}
	return a.awaitResult(ctx, r)
}

// parseRequests reads requests of both versions. The number of the document is in each error. A request without a
// name gets one from the API server.
func parseRequests(text []byte) ([]*v1beta1.ResolutionRequest, error) {
	docs, err := splitDocuments(text)
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 || len(docs) > maxRequests {
		return nil, fmt.Errorf("it has %d documents, want 1 to %d ResolutionRequests", len(docs), maxRequests)
	}
	var out []*v1beta1.ResolutionRequest
	for i, doc := range docs {
		r, err := parseRequest(doc)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		if _, err := resolution.Resolver(r.Labels); err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		if r.Name == "" && r.GenerateName == "" {
			r.GenerateName = generatedName
		}
		// What the API server sets, and a status, are those of another request.
		r.UID, r.ResourceVersion, r.ManagedFields, r.Status = "", "", nil, v1beta1.ResolutionRequestStatus{}
		out = append(out, r)
	}
	return out, nil
}

// parseRequest reads one request of either version, and returns it as v1beta1. Unknown fields are an error, and so
// are other kinds and versions.
func parseRequest(doc []byte) (*v1beta1.ResolutionRequest, error) {
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &head); err != nil {
		return nil, err
	}
	if err := checkTexts(doc); err != nil {
		return nil, err
	}
	switch {
	case head.Kind == "ResolutionRequest" && head.APIVersion == v1beta1.SchemeGroupVersion.String():
		r := &v1beta1.ResolutionRequest{}
		return r, yaml.UnmarshalStrict(doc, r)
	case head.Kind == "ResolutionRequest" && head.APIVersion == v1alpha1.SchemeGroupVersion.String():
		r := &v1alpha1.ResolutionRequest{}
		if err := yaml.UnmarshalStrict(doc, r); err != nil {
			return nil, err
		}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
		if err == nil {
			err = v1alpha1.ConvertObject(object, v1beta1.SchemeGroupVersion.String())
		}
		if err != nil {
			return nil, err
		}
		out := &v1beta1.ResolutionRequest{}
		return out, runtime.DefaultUnstructuredConverter.FromUnstructured(object, out)
	}
	return nil, fmt.Errorf("it is %s %q, not a ResolutionRequest of %s or %s",
		head.APIVersion, head.Kind, v1beta1.SchemeGroupVersion, v1alpha1.SchemeGroupVersion)
}

// checkTexts refuses parameters that YAML does not read as text: 0.10 would become 0.1. Params are a list in v1beta1, and a map in v1alpha1.
func checkTexts(doc []byte) error {
	var r struct {
		Spec struct {
			Params any `json:"params"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(doc, &r); err != nil {
		return err
	}
	if params, ok := r.Spec.Params.(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(params)) {
			if fault := faultOfText(params[name]); fault != "" {
				return fmt.Errorf("parameter %q %s", name, fault)
			}
		}
	}
	list, _ := r.Spec.Params.([]any)
	for _, p := range list {
		param, _ := p.(map[string]any)
		values := []any{param["value"]}
		switch v := param["value"].(type) {
		case []any:
			values = v
		case map[string]any:
			values = slices.Collect(maps.Values(v))
		}
		for _, v := range values {
			if fault := faultOfText(v); fault != "" {
				return fmt.Errorf("parameter %q %s", param["name"], fault)
			}
		}
	}
	return nil
}

// faultOfText says what a value is that is no text; empty for a text.
func faultOfText(v any) string {
	switch v.(type) {
	case string, nil:
		return ""
	case []any, map[string]any:
		return "has a list or an object where a text is wanted"
	}
	return fmt.Sprintf(`has %v, which is a number, true or false in YAML, where a text is wanted; put it in quotes, as in "0.9"`, v)
}

// awaitResult waits until a request has ended. A request that failed is a [requester.FailedError].
func (a *asker) awaitResult(ctx context.Context, r *v1beta1.ResolutionRequest) (resolved, error) {
	resolver, err := resolution.Resolver(r.Labels)
	if err != nil {
		return resolved{}, err
	}
	stop := showWaiting(ctx, a.Env, fmt.Sprintf("waiting for the resolver %s, seconds", resolver))
	defer stop()
	ended, err := awaitEnd(ctx, a.client, r)
	if err != nil {
		return resolved{}, err
	}
	res, err := a.outcomes.Outcome(ctx, ended)
	if err != nil {
		return resolved{}, err
	}
	out := &resolve.Resource{Data: res.Data, Annotations: res.Annotations}
	if s := res.Source; s != nil {
		out.Source = resolve.Source{URI: s.URI, Digest: s.Digest, EntryPoint: s.EntryPoint}
	}
	Warn(a.Env, r.Namespace+"/"+r.Name, out)
	return resolved{Request: r.Namespace + "/" + r.Name, Resolver: resolver, Params: r.Spec.Params, Resource: out}, nil
}

// showWaiting counts seconds on a terminal until it is stopped.
func showWaiting(ctx context.Context, e *command.Env, label string) (stop func()) {
	bar := e.Progress(label, 0)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for n := int64(1); ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				bar.Set(n)
			}
		}
	}()
	return func() {
		cancel()
		<-done
		bar.Done()
	}
}

// awaitEnd watches a request until it has ended.
func awaitEnd(ctx context.Context, client versioned.Interface, r *v1beta1.ResolutionRequest) (ended *v1beta1.ResolutionRequest, err error) {
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", r.Name).String(), ResourceVersion: r.ResourceVersion}
	err = watchRequests(ctx, client, r.Namespace, only, func(change watch.EventType, now *v1beta1.ResolutionRequest) (bool, error) {
		switch {
		case now.UID != r.UID:
		case change == watch.Deleted:
			return false, errors.New("it was deleted before it had ended")
		case now.Status.Finished():
			ended = now
		}
		return ended != nil, nil
	})
	return ended, err
}

// watchRequests calls see for each change after a version of the requests that the options select, until it is done. Watches that break
// are begun anew.
func watchRequests(ctx context.Context, client versioned.Interface, namespace string, o metav1.ListOptions, see func(watch.EventType, *v1beta1.ResolutionRequest) (bool, error)) error {
	_, err := watchtools.Until(ctx, o.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, from metav1.ListOptions) (watch.Interface, error) {
			from.LabelSelector, from.FieldSelector = o.LabelSelector, o.FieldSelector
			return client.ResolutionV1beta1().ResolutionRequests(namespace).Watch(ctx, from)
		},
	}, func(event watch.Event) (bool, error) {
		switch object := event.Object.(type) {
		case *v1beta1.ResolutionRequest:
			return see(event.Type, object)
		case *metav1.Status:
			return false, apierrors.FromObject(object)
		}
		return false, nil // a bookmark
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, watchtools.ErrWatchClosed):
		return errors.New("the API server has ended the watch")
	}
	return err
}

// requestFailure is the error that the command ends with for a request. A signature that no policy accepts is an
// answer of no, and not an error.
func requestFailure(e *command.Env, r *v1beta1.ResolutionRequest, err error) error {
	if failed, ok := errors.AsType[*requester.FailedError](err); ok && failed.Exact == string(resolve.ReasonVerification) {
		fmt.Fprintf(e.Err, "sluice: %s/%s: %s\n", r.Namespace, r.Name, brief.OneLine(failed.Error()))
		return command.ErrFindings
	}
	return fmt.Errorf("%s/%s: %w", r.Namespace, r.Name, err)
}

// deleteRequests deletes the requests, also after an interrupt. A request that was deleted or replaced meanwhile
// is left alone.
func (a *asker) deleteRequests(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	var errs []error
	for _, r := range a.made {
		// The UID keeps a request of somebody else alive that has taken the name meanwhile.
		err := a.client.ResolutionV1beta1().ResolutionRequests(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("%s/%s is left in the cluster: %w", r.Namespace, r.Name, err))
		}
	}
	return errors.Join(errs...)
}

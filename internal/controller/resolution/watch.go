package resolution

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
	"sluice.dev/client/versioned/scheme"
)

// Processes watch all requests of their types, and most of their bytes are the content of finished ones, which nobody here reads.
// This file keeps that cheap: lists come in small pages and lose their content at once, events are decoded in two passes, and the
// caches keep a few fields.

const resource = "resolutionrequests"

// maxEvent bounds one event of a watch, in bytes: etcd takes objects up to 1.5 MiB, and this is ten times as much.
const maxEvent = 16 << 20

// pageSize is the number of requests in a page of a list, of up to 1.5 MiB each.
const pageSize = 20

// newInformer watches requests of all namespaces that the label selector chooses; the empty one chooses all. Its cache has
// them as transform leaves them.
//
// It is the generated informer except for how it reads events. Each finished request comes with its content, which is not needed here.
// client-go goes through the bytes of an event seven times, and this informer twice.
func newInformer(client versioned.Interface, selector string, transform cache.TransformFunc) (cache.SharedIndexInformer, error) {
	requests := client.ResolutionV1beta1().ResolutionRequests(metav1.NamespaceAll)
	i := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			// If the API server streams no lists. A list from its cache would come all at once.
			o.LabelSelector, o.Limit, o.ResourceVersion, o.ResourceVersionMatch = selector, pageSize, "", ""
			all, err := requests.List(ctx, o)
			for page := all; err == nil; {
				for i := range page.Items {
					if _, err := transform(&page.Items[i]); err != nil {
						return nil, err
					}
				}
				if page != all {
					all.Items = append(all.Items, page.Items...)
				}
				if o.Continue = page.Continue; o.Continue == "" {
					all.Continue, all.RemainingItemCount = "", nil
					return all, nil
				}
				page, err = requests.List(ctx, o)
			}
			return nil, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector, o.Watch = selector, true
			return watchRequests(ctx, client.ResolutionV1beta1().RESTClient(), o)
		},
	}, client), &v1beta1.ResolutionRequest{}, 0, cache.Indexers{})
	return i, i.SetTransform(transform)
}

const (
	// maxSpec bounds a spec in bytes, as the policies do. Resolvers keep specs up to keptSpec.
	maxSpec  = 64 << 10
	keptSpec = 4 << 10
	// keptAnnotation bounds an annotation that is kept, in bytes.
	keptAnnotation = 1 << 10
	// keptOwners bounds the owners that are kept. If there are more, the controller is kept, or else the first.
	keptOwners = 8
	// annotationSpecLeftOut is in caches only: the spec is not there but in the API.
	annotationSpecLeftOut = "sluice.dev/spec-left-out"
)

// slimRequest drops unused parts from the cache: the content of requests, and large parts of waiting ones.
func slimRequest(o any) (any, error) {
	r, ok := o.(*v1beta1.ResolutionRequest)
	if !ok {
		return o, nil
	}
	r.ManagedFields = nil
	if r.Status.Data != "" {
		r.Status.Data = "-"
	}
	kept := map[string]string{}
	for _, name := range []string{resolution.AnnotationTimeout, resolution.AnnotationLookAfter} {
		if v, ok := r.Annotations[name]; ok {
			kept[name] = v[:min(len(v), keptAnnotation)]
		}
	}
	labels := map[string]string{}
	for _, name := range []string{resolution.LabelType, resolution.LabelResolver} {
		if v, ok := r.Labels[name]; ok {
			labels[name] = v
		}
	}
	if len(r.OwnerReferences) > keptOwners {
		one := r.OwnerReferences[0]
		if controller := metav1.GetControllerOf(r); controller != nil {
			one = *controller
		}
		r.OwnerReferences = []metav1.OwnerReference{one}
	}
	r.Labels, r.Finalizers = labels, nil
	if r.Status.Finished() {
		r.Spec = v1beta1.ResolutionRequestSpec{}
		r.Status.Annotations, r.Status.Source, r.Status.RefSource = nil, nil, nil
	} else if specBytes(&r.Spec) > keptSpec || r.Annotations[annotationSpecLeftOut] != "" {
		r.Spec = v1beta1.ResolutionRequestSpec{}
		kept[annotationSpecLeftOut] = "true"
	}
	r.Annotations = kept
	return r, nil
}

// withoutSpec is slimRequest for users that need no specs.
func withoutSpec(o any) (any, error) {
	if r, ok := o.(*v1beta1.ResolutionRequest); ok {
		r.Spec = v1beta1.ResolutionRequestSpec{}
	}
	return slimRequest(o)
}

// specBytes returns the size of a spec in bytes.
func specBytes(s *v1beta1.ResolutionRequestSpec) int {
	n := len(s.URL)
	for _, p := range s.Params {
		n += len(p.Name) + len(p.Value.StringVal)
		for _, v := range p.Value.ArrayVal {
			n += len(v) + 8
		}
		for k, v := range p.Value.ObjectVal {
			n += len(k) + len(v) + 8
		}
	}
	return n
}

func watchRequests(ctx context.Context, client rest.Interface, o metav1.ListOptions) (watch.Interface, error) {
	stream, err := client.Get().Resource(resource).VersionedParams(&o, scheme.ParameterCodec).Stream(ctx)
	if err != nil {
		return nil, err
	}
	return watch.NewStreamWatcher(newEvents(stream), reporter{}), nil
}

// events reads the events of a watch. The API server writes each on a line of its own
// (k8s.io/apimachinery/pkg/runtime/serializer/json), as the official clients in other languages rely on too.
type events struct {
	stream io.ReadCloser
	lines  *bufio.Scanner
}

func newEvents(stream io.ReadCloser) *events {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxEvent)
	lines.Split(wholeLines)
	return &events{stream, lines}
}

// wholeLines is [bufio.ScanLines] without the text after the last line break, which is the beginning of an event that was cut off.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	n := bytes.IndexByte(data, '\n')
	if n < 0 && atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	if n < 0 {
		return 0, nil, nil
	}
	return n + 1, data[:n], nil
}

// Decode implements [watch.Decoder].
func (e *events) Decode() (watch.EventType, runtime.Object, error) {
	if !e.lines.Scan() {
		return "", nil, cmp.Or(e.lines.Err(), io.EOF)
	}
	line := e.lines.Bytes()
	var event struct {
		Type   watch.EventType           `json:"type"`
		Object v1beta1.ResolutionRequest `json:"object"`
	}
	err := utiljson.Unmarshal(line, &event)
	switch {
	case event.Type == watch.Error:
		// Its object is a Status, which does not fit.
		var failure struct {
			Object metav1.Status `json:"object"`
		}
		if err := utiljson.Unmarshal(line, &failure); err != nil {
			return "", nil, err
		}
		return watch.Error, &failure.Object, nil
	case err != nil:
		return "", nil, err
	}
	switch event.Type { //nolint:exhaustive // errors have been dealt with
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		return event.Type, &event.Object, nil
	}
	return "", nil, fmt.Errorf("an event of the unknown type %q", event.Type)
}

// Close implements [watch.Decoder].
func (e *events) Close() { _ = e.stream.Close() }

// reporter reports events that cannot be read, in the same form as client-go.
type reporter struct{}

// AsObject implements [watch.Reporter].
func (reporter) AsObject(err error) runtime.Object {
	return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
}

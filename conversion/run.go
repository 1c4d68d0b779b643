package conversion

// What belongs to one run? The options, what was found so far, and the objects as the API server has them.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/report"
)

// The defaults of Options.
const (
	// DefaultBudget is the limit of the search for objects of a version, in units of [contain.Work].
	DefaultBudget = 200_000_000
	// DefaultRandom is the number of random objects of a version.
	DefaultRandom = 100
	// DefaultMaxTime is the time for an object: with more, the API server does not get a page of 500 objects within its 30 seconds.
	DefaultMaxTime = 60 * time.Millisecond
)

// Options say how to check. The zero value is ready for use.
type Options struct {
	// KubeVersion is the API server's version; nil stands for that of the linked libraries.
	KubeVersion *version.Version
	// Seed chooses the random objects, Random their number for each version: 0 stands for DefaultRandom, less for none.
	Seed   uint64
	Random int
	// Budget bounds the search for objects of a version; 0 stands for DefaultBudget.
	Budget int64
	// Now is the clock; nil measures no time. MaxTime is the longest time that an object may take; 0 stands for DefaultMaxTime.
	Now     func() time.Time
	MaxTime time.Duration
	// Old is the converter of the release before; what it made of each object is compared. It may be nil.
	Old Converter
	// Stored, if not nil, yields the stored objects of the storage version, page by page.
	Stored func(ctx context.Context, version string, page func(objects []map[string]any) error) error
	// Progress, if not nil, is called with the number of objects that were converted.
	Progress func(done int64)
}

// ErrNothingToConvert means that the CRD has one version at most.
var ErrNothingToConvert = errors.New("nothing to convert: the CRD has fewer than two versions that are served or stored")

// batchSize is the number of objects in one request.
const batchSize = 50

// checker is one run.
type checker struct {
	crd       *apiextensionsv1.CustomResourceDefinition
	converter Converter
	old       Converter
	opts      Options
	sides     []*side
	// found has the observations, each with the smallest object that shows it; order has their keys.
	found map[string]*sighting
	order []string
	// objects counts those that were converted, stored those of them that the cluster has stored.
	objects, stored int64
	// times are those of the trips from each version.
	times map[*side][]time.Duration
}

// sighting is what is wrong with several objects.
type sighting struct {
	observation
	size int
	// stored counts the stored objects that show it, examples names some.
	stored   int64
	examples []string
}

// now is the time, or no time if there is no clock.
func (c *checker) now() time.Time {
	if c.opts.Now == nil {
		return time.Time{}
	}
	return c.opts.Now()
}

// asStored returns the object that the API server has for a request, with the metadata that it sets. n tells objects apart.
func (c *checker) asStored(ctx context.Context, s *side, request map[string]any, n int) map[string]any {
	named := runtime.DeepCopyJSON(request)
	_ = unstructured.SetNestedField(named, fmt.Sprintf("sample-%d", n), "metadata", "name") // on an error the object keeps its name
	obj := s.create(ctx, named)
	if obj == nil {
		obj = s.create(ctx, request)
	}
	u := unstructured.Unstructured{Object: obj}
	meta, _ := obj["metadata"].(map[string]any)
	if meta == nil {
		return obj
	}
	meta["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", n+1)
	meta["creationTimestamp"], meta["resourceVersion"] = "2024-01-01T00:00:00Z", "1"
	meta["managedFields"] = []any{map[string]any{
		"manager": "kubectl", "operation": "Update", "apiVersion": u.GetAPIVersion(), "time": "2024-01-01T00:00:00Z",
		"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}},
	}}
	return obj
}

// asRequest returns an object without what the API server sets.
func asRequest(obj map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(obj)
	if meta, ok := out["metadata"].(map[string]any); ok {
		for _, name := range []string{"uid", "creationTimestamp", "resourceVersion", "generation", "managedFields", "selfLink"} {
			delete(meta, name)
		}
	}
	return out
}

// observation is something that is wrong with the conversion of an object.
type observation struct {
	rule     string
	level    report.Level // empty for that of the rule
	from, to *side
	path     string
	// what says what is wrong, without the path.
	what          string
	before, after string
	object        map[string]any // as the API server has it
}

// key is the same for observations that are one finding.
func (o *observation) key() string {
	return strings.Join([]string{o.rule, o.from.name, o.to.name, o.path}, "\x00")
}

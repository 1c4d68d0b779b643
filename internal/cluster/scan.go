package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/schema/upstream"
)

// Fate is what the new CRD does to one stored object.
type Fate struct {
	// Name is namespace/name, or name for cluster-scoped resources.
	Name string
	// Refused are the new schema's words where an update that leaves the object alone but for a label is refused.
	Refused []string
	// Strict are its words where the object would be refused if ratcheting did not tolerate what is left alone.
	Strict []string
	// Dropped are the fields that would be pruned.
	Dropped []string
	// Defaulted is set where a default would be filled in that the object does not have.
	Defaulted bool
}

// Bad tells whether anything is wrong with the object.
func (f Fate) Bad() bool {
	return len(f.Refused) > 0 || len(f.Strict) > 0 || len(f.Dropped) > 0
}

// Scan counts what a scan found.
type Scan struct {
	// Version is the API version that the objects were read in, Target the one whose new schema judged them.
	Version, Target string
	// Checked objects; Refused, Strict, Dropped and Defaulted of them have that fate.
	Checked, Refused, Strict, Dropped, Defaulted int64
	// Fates of the first bad objects, in the order of the listing.
	Fates []Fate
	// Note says why objects could not be judged; the counts are then zero.
	Note string
}

// ScanOptions say how to scan.
type ScanOptions struct {
	KubeVersion *version.Version
	// PageSize is the number of objects per request at first (default 500). Pages of large objects are made smaller.
	PageSize int
	// Keep is how many bad objects are kept in Fates (default 100).
	Keep int
	// Progress, where not nil, is called after each page with the number of objects checked so far, and the number that
	// remain as far as the server tells (-1 where it does not).
	Progress func(checked, remaining int64)
}

// maxPage is the size in bytes above which the next pages are made smaller, so that memory stays bounded.
const maxPage = 8 << 20

// Scan pages through the objects stored under the live CRD and judges each by the new CRD, as an update that adds a label
// would be. Objects are read once, in the storage version. Memory does not depend on their number.
func (c *Cluster) Scan(ctx context.Context, live, next *apiextensionsv1.CustomResourceDefinition, o ScanOptions) (Scan, error) {
	from, to, note := route(live, next)
	s := Scan{Version: from, Note: note}
	if note != "" {
		return s, nil
	}
	s.Target = to.Name
	judge, err := newJudge(next, to, o)
	if err != nil {
		return s, err
	}
	if o.PageSize <= 0 {
		o.PageSize = 500
	}
	if o.Keep <= 0 {
		o.Keep = 100
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages := make(chan page, 1)
	var readErr error
	go func() {
		defer close(pages)
		readErr = c.pages(ctx, "/apis/"+live.Spec.Group+"/"+from+"/"+live.Spec.Names.Plural, o.PageSize, pages)
	}()
	for p := range pages {
		fates, err := judge.page(ctx, p.items)
		if err != nil {
			return s, err
		}
		s.count(fates, o.Keep)
		if o.Progress != nil {
			o.Progress(s.Checked, p.remaining)
		}
	}
	return s, readErr
}

func (s *Scan) count(fates []Fate, keep int) {
	for _, f := range fates {
		s.Checked++
		if len(f.Refused) > 0 {
			s.Refused++
		}
		if len(f.Strict) > 0 {
			s.Strict++
		}
		if len(f.Dropped) > 0 {
			s.Dropped++
		}
		if f.Defaulted {
			s.Defaulted++
		}
		if f.Bad() && len(s.Fates) < keep {
			s.Fates = append(s.Fates, f)
		}
	}
}

// route says in which version the objects are read, and by which version of the new CRD they are judged: its storage
// version, for that is the one that they are stored in again. A note says why that cannot be done.
func route(live, next *apiextensionsv1.CustomResourceDefinition) (from string, to *apiextensionsv1.CustomResourceDefinitionVersion, note string) {
	served := ""
	for _, v := range live.Spec.Versions {
		if v.Served && (v.Storage || served == "") {
			served = v.Name
		}
	}
	if served == "" {
		return "", nil, "the live CRD serves no version, so its objects cannot be read"
	}
	for i := range next.Spec.Versions {
		if next.Spec.Versions[i].Storage {
			to = &next.Spec.Versions[i]
		}
	}
	if to == nil {
		return served, nil, "the new CRD has no storage version"
	}
	webhook := next.Spec.Conversion != nil && next.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
	if to.Name != served && webhook {
		for i := range next.Spec.Versions {
			if v := &next.Spec.Versions[i]; v.Name == served {
				return served, v, ""
			}
		}
		return served, nil, "objects of version " + served + " reach version " + to.Name + " through a conversion webhook, which is not run here"
	}
	return served, to, ""
}

type page struct {
	items     []any
	remaining int64
}

// pages lists all objects and sends them page by page.
func (c *Cluster) pages(ctx context.Context, path string, size int, out chan<- page) error {
	next := ""
	for {
		query := url.Values{"limit": {strconv.Itoa(size)}}
		if next != "" {
			query.Set("continue", next)
		}
		b, err := c.raw(ctx, path, query)
		if apierrors.IsResourceExpired(err) {
			// The listing took longer than the server keeps its state. It offers to go on with a newer one.
			var status apierrors.APIStatus
			if errors.As(err, &status) && status.Status().Continue != "" {
				next = status.Status().Continue
				continue
			}
		}
		if err != nil {
			return err
		}
		var v any
		if err := utiljson.Unmarshal(b, &v); err != nil {
			return fmt.Errorf("list of %s: %w", path, err)
		}
		list, _ := v.(map[string]any)
		items, _ := list["items"].([]any)
		meta, _ := list["metadata"].(map[string]any)
		next, _ = meta["continue"].(string)
		remaining, ok := meta["remainingItemCount"].(int64)
		if !ok {
			remaining = -1
			if next == "" {
				remaining = 0
			}
		}
		select {
		case out <- page{items, remaining}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if next == "" {
			return nil
		}
		if len(b) > maxPage {
			size = max(1, size/2)
		}
	}
}

// judge runs objects through the new schema.
type judge struct {
	v          *upstream.Validator
	apiVersion string
	workers    int
}

func newJudge(next *apiextensionsv1.CustomResourceDefinition, to *apiextensionsv1.CustomResourceDefinitionVersion, o ScanOptions) (*judge, error) {
	var props *apiextensionsv1.JSONSchemaProps
	if to.Schema != nil {
		props = to.Schema.OpenAPIV3Schema
	}
	v, err := upstream.New(props, upstream.Options{
		Group: next.Spec.Group, Version: to.Name, Kind: next.Spec.Names.Kind,
		Namespaced:  next.Spec.Scope == apiextensionsv1.NamespaceScoped,
		KubeVersion: o.KubeVersion,
	})
	if err != nil {
		return nil, err
	}
	return &judge{v: v, apiVersion: next.Spec.Group + "/" + to.Name, workers: runtime.GOMAXPROCS(0)}, nil
}

// page judges the objects of a page on all processors, and returns their fates in order.
func (j *judge) page(ctx context.Context, items []any) ([]Fate, error) {
	fates := make([]Fate, len(items))
	errs := make([]error, j.workers)
	var wg sync.WaitGroup
	for w := range j.workers {
		wg.Go(func() {
			for i := w; i < len(items); i += j.workers {
				obj, ok := items[i].(map[string]any)
				if !ok {
					continue
				}
				if fates[i], errs[w] = j.fate(ctx, obj); errs[w] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return fates, errors.Join(errs...)
}

func (j *judge) fate(ctx context.Context, obj map[string]any) (Fate, error) {
	f := Fate{Name: objectName(obj)}
	obj["apiVersion"] = j.apiVersion // conversion None changes nothing else
	served, dropped, defaulted, err := j.v.Read(obj)
	if err != nil {
		return f, fmt.Errorf("%s: %w", f.Name, err)
	}
	f.Dropped, f.Defaulted = dropped, defaulted
	touched, err := j.v.TouchUpdate(ctx, obj, j.v.Ratchets())
	if err != nil {
		return f, fmt.Errorf("%s: %w", f.Name, err)
	}
	for _, e := range touched.Errors {
		f.Refused = append(f.Refused, e.Error())
	}
	if j.v.Ratchets() {
		strict, err := j.v.Update(ctx, served, served, false)
		if err != nil {
			return f, fmt.Errorf("%s: %w", f.Name, err)
		}
		for _, e := range strict.Errors {
			f.Strict = append(f.Strict, e.Error())
		}
	}
	if len(dropped) == 0 && !defaulted && !reflect.DeepEqual(served, obj) {
		f.Defaulted = true
	}
	return f, nil
}

func objectName(obj map[string]any) string {
	meta, _ := obj["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if ns, _ := meta["namespace"].(string); ns != "" {
		return strings.Join([]string{ns, name}, "/")
	}
	return name
}

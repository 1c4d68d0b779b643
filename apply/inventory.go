package apply

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/internal/limit"
)

// Names in the cluster.
const (
	// AnnotationApp on an object says which app it belongs to, as NAMESPACE/NAME. What does not have it, the app neither
	// prunes nor deletes.
	AnnotationApp = "sluice.dev/app"
	// LabelInventory marks the ConfigMaps that hold inventories; its value is app.
	LabelInventory = "sluice.dev/inventory"

	inventoryPrefix = "sluice-app-"
	inventoryKey    = "inventory.json"
	packedKey       = "inventory.json.gz"
)

// State says how far an app is.
type State string

// The states of an app.
const (
	// Applying: an apply has begun and not ended in order. The same command goes on.
	Applying State = "applying"
	// Applied: the last apply ended in order.
	Applied State = "applied"
	// Deleting: a deletion has begun.
	Deleting State = "deleting"
)

// Source is where objects came from.
type Source struct {
	// Name is the source as it was given.
	Name string `json:"name"`
	// URI, Digest (by algorithm: sha1 for a commit, sha256 for content) and EntryPoint say what was resolved.
	URI        string            `json:"uri,omitempty"`
	Digest     map[string]string `json:"digest,omitempty"`
	EntryPoint string            `json:"entryPoint,omitempty"`
}

// Entry is one object of an inventory.
type Entry struct {
	ID
	Version string `json:"version"`
	// Resource is the plural name.
	Resource string `json:"resource"`
	// Manifest identifies what was applied, and Owned our entry in managedFields as it was then. Both are empty for what was
	// not applied in order yet, and for Secrets, of which a digest could tell something.
	Manifest string `json:"manifest,omitempty"`
	Owned    string `json:"owned,omitempty"`
	// Found is set for a namespace that was there before the app.
	Found bool `json:"found,omitempty"`
}

func (e *Entry) path() string {
	return listPath(e.Group, e.Version, e.Resource, e.Namespace) + "/" + e.Name
}

// Inventory is what an app may have in the cluster.
type Inventory struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// App and Namespace name the app.
	App       string `json:"app"`
	Namespace string `json:"namespace"`
	State     State  `json:"state"`
	// Sources are those of the last apply that ended in order; while one goes on, Next has its sources.
	Sources []Source `json:"sources,omitempty"`
	Next    []Source `json:"next,omitempty"`
	// Started is when the last apply or deletion that had something to do began, Finished when it ended.
	Started  *metav1.Time `json:"started,omitempty"`
	Finished *metav1.Time `json:"finished,omitempty"`
	// History has the last revisions that an apply has brought the app to, the newest first, ten at most.
	History []Revision `json:"history,omitempty"`
	// Incomplete: the inventory was lost, and made anew from a source, so objects may be missing in it. [Applier.Adopt] finds them.
	Incomplete bool `json:"incomplete,omitempty"`
	// Objects are sorted by ID.
	Objects []Entry `json:"objects"`

	// resourceVersion is that of the ConfigMap; empty where there is none yet. parts are those that it names.
	resourceVersion string
	parts           []string
}

const (
	inventoryVersion = "sluice.dev/v1alpha1"
	inventoryKind    = "Inventory"
	// maxPlain is up to which size an inventory is readable in the ConfigMap; above it is packed.
	maxPlain = 400 << 10
	// maxInventory bounds an inventory in memory.
	maxInventory = 64 << 20
	// maxPacked is what a ConfigMap takes, less what else is in it.
	maxPacked = 950 << 10
)

var appName = regexp.MustCompile(`\A[a-z0-9]([-a-z0-9.]{0,198}[a-z0-9])?\z`)

// CheckApp judges the name of an app: lower case letters, digits, dashes and dots, at most 200.
func CheckApp(name string) error {
	if !appName.MatchString(name) || strings.Contains(name, "..") {
		return fmt.Errorf("%q is no name for an app: lower case letters, digits, - and . are allowed, 200 at most", name)
	}
	return nil
}

// InventoryName is the name of the ConfigMap that has the inventory of an app.
func InventoryName(app string) string { return inventoryPrefix + app }

func inventoryPath(namespace, app string) string {
	return listPath("", "v1", "configmaps", namespace) + "/" + InventoryName(app)
}

// isInventory tells whether a ConfigMap holds the inventory of an app.
func isInventory(name, app string) bool {
	return name == InventoryName(app) || strings.HasPrefix(name, partPrefix+partLabel(app)+"-")
}

// isRecord tells whether an object is one in which Sluice keeps the inventory or the lock of an app.
func (p *Plan) isRecord(id ID, content map[string]any) bool {
	switch {
	case id.Group == "coordination.k8s.io" && id.Kind == "Lease":
		return strings.HasPrefix(id.Name, inventoryPrefix)
	case id.Group != "" || id.Kind != "ConfigMap":
		return false
	}
	labels, _ := metadataOf(content)["labels"].(map[string]any)
	own := p.inventory != nil && id.Namespace == p.inventory.Namespace && isInventory(id.Name, p.inventory.App)
	return own || labels[LabelInventory] != nil || labels[labelPart] != nil
}

// entry finds an object; nil where it is not in the inventory. It may be called on nil.
func (v *Inventory) entry(id ID) *Entry {
	if v == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(v.Objects, id, func(e Entry, id ID) int { return e.Compare(id) })
	if !ok {
		return nil
	}
	return &v.Objects[i]
}

// owner is the value of [AnnotationApp].
func (v *Inventory) owner() string { return v.Namespace + "/" + v.App }

// sortEntries sorts entries and drops those that stand twice: the first stays.
func sortEntries(list []Entry) []Entry {
	slices.SortStableFunc(list, func(a, b Entry) int { return a.Compare(b.ID) })
	return slices.CompactFunc(list, func(a, b Entry) bool { return a.ID == b.ID })
}

// loadInventory reads the inventory of an app. Where there is none yet it is empty.
func (c *client) loadInventory(ctx context.Context, namespace, app string) (*Inventory, error) {
	for try := 1; ; try++ {
		v, err := c.loadOnce(ctx, namespace, app)
		if try == maxTries || !errors.Is(err, errInventory) || !apierrors.IsNotFound(err) {
			return v, err
		}
		// A part is gone: somebody has written another inventory after its names were read.
		if err := sleep(ctx, firstPause); err != nil {
			return nil, err
		}
	}
}

func (c *client) loadOnce(ctx context.Context, namespace, app string) (*Inventory, error) {
	b, err := c.do(ctx, request{verb: http.MethodGet, path: inventoryPath(namespace, app)})
	if apierrors.IsNotFound(err) {
		return &Inventory{APIVersion: inventoryVersion, Kind: inventoryKind, App: app, Namespace: namespace}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inventory of app %s: %w", app, err)
	}
	var cm corev1.ConfigMap
	if err := json.Unmarshal(b, &cm); err != nil {
		return nil, fmt.Errorf("inventory of app %s: %w", app, err)
	}
	v, err := c.unpack(ctx, &cm)
	if err != nil {
		return nil, err
	}
	if v.App != app || v.Namespace != namespace {
		return nil, fmt.Errorf("ConfigMap %s/%s holds the inventory of %s: it was copied or changed by hand", namespace, cm.Name, v.owner())
	}
	return v, nil
}

// errInventory says that a ConfigMap holds no inventory that can be read.
var errInventory = errors.New("the inventory cannot be read")

func (c *client) unpack(ctx context.Context, cm *corev1.ConfigMap) (*Inventory, error) {
	fail := func(err error) (*Inventory, error) {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w: %w", cm.Namespace, cm.Name, errInventory, err)
	}
	text := []byte(cm.Data[inventoryKey])
	packed := cm.BinaryData[packedKey]
	var parts []string
	if cm.Data[partsKey] != "" {
		var err error
		if packed, parts, err = c.readParts(ctx, cm); err != nil {
			return fail(err)
		}
	}
	if len(packed) > 0 {
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return fail(err)
		}
		if text, err = limit.ReadAll(r, maxInventory); err != nil {
			return fail(err)
		}
	}
	v := &Inventory{}
	if err := json.Unmarshal(text, v); err != nil {
		return fail(err)
	}
	if v.APIVersion != inventoryVersion || v.Kind != inventoryKind {
		return fail(fmt.Errorf("it is %q %q, and this program knows %s %s", v.APIVersion, v.Kind, inventoryVersion, inventoryKind))
	}
	for _, e := range v.Objects {
		// These become parts of a path. Names are what the API server takes (k8s.io/apimachinery/pkg/api/validate/content).
		for _, s := range []string{e.Group, e.Version, e.Resource, e.Namespace, e.Name} {
			if len(content.IsPathSegmentName(s)) > 0 {
				return fail(fmt.Errorf("it has an object with the name %q", s))
			}
		}
		if e.Version == "" || e.Resource == "" || e.Name == "" || e.Kind == "" {
			return fail(errors.New("it has an object without a kind or a name"))
		}
	}
	v.Objects = sortEntries(v.Objects)
	v.resourceVersion, v.parts = cm.ResourceVersion, parts
	return v, nil
}

// ErrConcurrent says that somebody else changed the inventory of the app meanwhile.
var ErrConcurrent = errors.New("another apply or deletion of the app runs, or ran meanwhile; run this one again")

// same tells whether text is the inventory.
func (v *Inventory) same(text []byte) bool {
	mine, err := json.Marshal(v)
	return err == nil && bytes.Equal(mine, text)
}

// saveInventory writes the inventory, unless somebody else has written it since it was read.
func (c *client) saveInventory(ctx context.Context, v *Inventory) error {
	cm := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": inventoryPrefix + v.App, "namespace": v.Namespace, "labels": map[string]any{LabelInventory: "app"},
		},
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var parts []string
	if len(text) <= maxPlain {
		cm["data"] = map[string]any{inventoryKey: string(text)}
	} else {
		packed, err := pack(text)
		if err != nil {
			return err
		}
		if base64.StdEncoding.EncodedLen(len(packed)) <= maxPacked {
			cm["binaryData"] = map[string]any{packedKey: base64.StdEncoding.EncodeToString(packed)}
		} else {
			if parts, err = c.writeParts(ctx, v, packed); err != nil {
				return err
			}
			names, err := json.Marshal(parts)
			if err != nil {
				return err
			}
			cm["data"] = map[string]any{partsKey: string(names)}
		}
	}
	r := request{verb: http.MethodPost, path: listPath("", "v1", "configmaps", v.Namespace), query: url.Values{"fieldManager": {Manager}}}
	if v.resourceVersion != "" {
		r.verb, r.path = http.MethodPut, inventoryPath(v.Namespace, v.App)
		cm["metadata"].(map[string]any)["resourceVersion"] = v.resourceVersion //nolint:errcheck,forcetypeassert // made above
	}
	if r.body, err = json.Marshal(cm); err != nil {
		return err
	}
	b, err := c.do(ctx, r)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || v.resourceVersion != "" && apierrors.IsNotFound(err) {
		// Perhaps it was this very request, of which the first answer was lost.
		now, again := c.loadInventory(ctx, v.Namespace, v.App)
		if again == nil && now.same(text) {
			v.resourceVersion, v.parts = now.resourceVersion, now.parts
			return nil
		}
		return fmt.Errorf("app %s: %w", v.App, ErrConcurrent)
	}
	if err != nil {
		return fmt.Errorf("inventory of app %s: %w", v.App, err)
	}
	var saved struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(b, &saved); err != nil {
		return fmt.Errorf("inventory of app %s: %w", v.App, err)
	}
	had := v.parts
	v.resourceVersion, v.parts = saved.Metadata.ResourceVersion, parts
	if slices.Equal(had, parts) {
		return nil
	}
	return c.dropParts(ctx, v.Namespace, v.App, parts)
}

// Apps lists the inventories in a namespace, or in all where it is empty, by namespace and name. An inventory that cannot be
// read is an error, beside which the others are returned.
func (a *Applier) Apps(ctx context.Context, namespace string) ([]*Inventory, error) {
	var out []*Inventory
	var errs []error
	token := ""
	for {
		q := url.Values{"labelSelector": {LabelInventory + "=app"}, "limit": {"100"}}
		if token != "" {
			q.Set("continue", token)
		}
		b, err := a.client.do(ctx, request{verb: http.MethodGet, path: listPath("", "v1", "configmaps", namespace), query: q})
		if err != nil {
			return nil, fmt.Errorf("inventories: %w", err)
		}
		var list corev1.ConfigMapList
		if err := json.Unmarshal(b, &list); err != nil {
			return nil, fmt.Errorf("inventories: %w", err)
		}
		for i := range list.Items {
			v, err := a.client.unpack(ctx, &list.Items[i])
			if err != nil {
				errs = append(errs, err)
				continue
			}
			out = append(out, v)
		}
		if token = list.Continue; token == "" {
			break
		}
	}
	slices.SortFunc(out, func(a, b *Inventory) int { return strings.Compare(a.owner(), b.owner()) })
	return out, errors.Join(errs...)
}

func stamp(t time.Time) *metav1.Time {
	m := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &m
}

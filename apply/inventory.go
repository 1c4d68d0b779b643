package apply

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

	"sluice.dev/internal/cluster"
	"sluice.dev/internal/limit"
)

// The inventory of an app is a ConfigMap in the app's namespace that lists the objects which the app may have in the cluster. It is
// written before the first object and again at the end, so that an interrupted apply loses nothing. Writes carry the resourceVersion
// that was read: of two runs at the same time, one gets a conflict. This file reads, checks and writes it; parts.go has the form for
// apps with very many objects.

// Names in the cluster.
const (
	// LabelInventory marks the ConfigMaps that hold inventories; its value is app.
	LabelInventory = "sluice.dev/inventory"

	inventoryPrefix = "sluice-app-"
	inventoryKey    = "inventory.json"
	packedKey       = "inventory.json.gz"
)

// State is the progress of an app.
type State string

// The states of an app.
const (
	// Applying: an apply has begun and is not complete. The same command resumes it.
	Applying State = "applying"
	// Applied: the last apply is complete.
	Applied State = "applied"
	// Deleting: a deletion has begun.
	Deleting State = "deleting"
)

// Source is the place that objects came from.
type Source struct {
	// Name is the source as it was given.
	Name string `json:"name"`
	// URI, Digest (by algorithm: sha1 for a commit, sha256 for content) and EntryPoint identify the resolved content.
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
	// Manifest identifies the applied content, and Owned our entry in managedFields at that time. Both are empty for objects that
	// were not applied successfully yet. They are empty for Secrets too, because a digest could reveal something of the content.
	Manifest string `json:"manifest,omitempty"`
	Owned    string `json:"owned,omitempty"`
	// Found is true for a namespace that is older than the app.
	Found bool `json:"found,omitempty"`
}

func (e *Entry) objectPath() string {
	return listPath(e.Group, e.Version, e.Resource, e.Namespace) + "/" + e.Name
}

// Inventory lists the objects that an app may have in the cluster.
type Inventory struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// App and Namespace name the app.
	App       string `json:"app"`
	Namespace string `json:"namespace"`
	State     State  `json:"state"`
	// Sources are those of the last complete apply. While an apply runs, Next has its sources.
	Sources []Source `json:"sources,omitempty"`
	Next    []Source `json:"next,omitempty"`
	// Started and Finished are the times of the last apply or deletion that had something to do.
	Started  *metav1.Time `json:"started,omitempty"`
	Finished *metav1.Time `json:"finished,omitempty"`
	// History has the last revisions of the app, the newest first, ten at most.
	History []Revision `json:"history,omitempty"`
	// Incomplete: the inventory was lost and created again from a source, so it may lack objects. [Applier.Adopt] finds them.
	Incomplete bool `json:"incomplete,omitempty"`
	// Objects are in the order of their IDs.
	Objects []Entry `json:"objects"`

	// resourceVersion is that of the ConfigMap; empty if there is none yet. parts are the names of its parts.
	resourceVersion string
	parts           []string
}

const (
	inventoryVersion = "sluice.dev/v1alpha1"
	inventoryKind    = "Inventory"
	// maxPlain is the size in bytes up to which an inventory stays readable in the ConfigMap. A larger one is compressed.
	maxPlain = 400 << 10
	// maxInventory bounds an inventory in memory, in bytes.
	maxInventory = 64 << 20
	// maxPacked is the space in a ConfigMap for an inventory, in bytes.
	maxPacked = 950 << 10
)

// maxApp bounds the name of an app, in bytes.
const maxApp = 200

var appName = regexp.MustCompile(`\A[a-z0-9]([-a-z0-9.]*[a-z0-9])?\z`)

// CheckApp checks the name of an app: lower case letters, digits, dashes and dots, at most 200.
func CheckApp(name string) error {
	if len(name) > maxApp || !appName.MatchString(name) || strings.Contains(name, "..") {
		return fmt.Errorf("%q is no name for an app: lower case letters, digits, - and . are allowed, 200 at most", name)
	}
	return nil
}

// InventoryName is the name of the ConfigMap with the inventory of an app.
func InventoryName(app string) string { return inventoryPrefix + app }

func inventoryPath(namespace, app string) string {
	return listPath("", "v1", "configmaps", namespace) + "/" + InventoryName(app)
}

// isInventory reports whether a ConfigMap holds the inventory of an app.
func isInventory(name, app string) bool {
	return name == InventoryName(app) || strings.HasPrefix(name, partPrefix+partLabel(app)+"-")
}

// isRecord reports whether an object holds the inventory or the lock of an app.
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

// entryOf finds an object; nil if it is not in the inventory. v may be nil.
func (v *Inventory) entryOf(id ID) *Entry {
	if v == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(v.Objects, id, func(e Entry, id ID) int { return e.Compare(id) })
	if !ok {
		return nil
	}
	return &v.Objects[i]
}

// ownerMark is the value of [AnnotationApp].
func (v *Inventory) ownerMark() string { return v.Namespace + "/" + v.App }

// sortEntries sorts entries. Of entries for the same object it keeps the first.
func sortEntries(list []Entry) []Entry {
	slices.SortStableFunc(list, func(a, b Entry) int { return a.Compare(b.ID) })
	return slices.CompactFunc(list, func(a, b Entry) bool { return a.ID == b.ID })
}

// loadInventory reads the inventory of an app. The result is empty if there is none yet.
func (c *client) loadInventory(ctx context.Context, namespace, app string) (*Inventory, error) {
	for try := 1; ; try++ {
		v, err := c.loadOnce(ctx, namespace, app)
		if try == maxTries || !errors.Is(err, errInventory) || !apierrors.IsNotFound(err) {
			return v, err
		}
		// A part is gone: another run has written a new inventory after its names were read.
		if err := cluster.Sleep(ctx, firstPause); err != nil {
			return nil, err
		}
	}
}

// loadOnce reads the inventory once; see loadInventory. An inventory that names another app or namespace is refused: the ConfigMap
// was copied, and a prune by it would delete objects of the app that it was copied from.
func (c *client) loadOnce(ctx context.Context, namespace, app string) (*Inventory, error) {
	var cm corev1.ConfigMap
	err := c.getJSON(ctx, inventoryPath(namespace, app), nil, &cm)
	if apierrors.IsNotFound(err) {
		return &Inventory{APIVersion: inventoryVersion, Kind: inventoryKind, App: app, Namespace: namespace}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inventory of app %s: %w", app, err)
	}
	v, err := c.unpackInventory(ctx, &cm)
	if err != nil {
		return nil, err
	}
	if v.App != app || v.Namespace != namespace {
		return nil, fmt.Errorf("ConfigMap %s/%s holds the inventory of %s: it was copied or changed by hand", namespace, cm.Name, v.ownerMark())
	}
	return v, nil
}

// errInventory means that a ConfigMap holds no readable inventory.
var errInventory = errors.New("the inventory cannot be read")

// unpackInventory returns the inventory that a ConfigMap holds, in any of its three forms. Every account with the right to write
// ConfigMaps in the namespace can change it, so unpackInventory bounds its size and checks names before they become parts of URLs.
// The error wraps errInventory.
func (c *client) unpackInventory(ctx context.Context, cm *corev1.ConfigMap) (*Inventory, error) {
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
		// These names become parts of a path. The API server accepts the same names (k8s.io/apimachinery/pkg/api/validate/content).
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

// ErrConcurrent means that somebody else changed the inventory of the app at the same time.
var ErrConcurrent = errors.New("another apply or deletion of the app runs, or ran meanwhile; run this one again")

// equalsEncoded reports whether text is the encoded inventory.
func (v *Inventory) equalsEncoded(text []byte) bool {
	mine, err := json.Marshal(v)
	return err == nil && bytes.Equal(mine, text)
}

// saveInventory writes the inventory. It fails if somebody else has written it since it was read.
func (c *client) saveInventory(ctx context.Context, v *Inventory) error {
	cm := corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{
		Name: InventoryName(v.App), Namespace: v.Namespace, Labels: map[string]string{LabelInventory: "app"}, ResourceVersion: v.resourceVersion,
	}}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	parts, err := c.putContent(ctx, v, text, &cm)
	if err != nil {
		return err
	}
	r := request{verb: http.MethodPost, path: listPath("", "v1", "configmaps", v.Namespace), query: url.Values{"fieldManager": {Manager}}}
	if v.resourceVersion != "" {
		r.verb, r.path = http.MethodPut, inventoryPath(v.Namespace, v.App)
	}
	var saved corev1.ConfigMap
	err = sendJSON(ctx, c.sendWithRetries, r, &cm, &saved)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || v.resourceVersion != "" && apierrors.IsNotFound(err) {
		// It may have been this very request, whose first answer was lost.
		now, again := c.loadInventory(ctx, v.Namespace, v.App)
		if again == nil && now.equalsEncoded(text) {
			v.resourceVersion, v.parts = now.resourceVersion, now.parts
			return nil
		}
		return fmt.Errorf("app %s: %w", v.App, ErrConcurrent)
	}
	if err != nil {
		return fmt.Errorf("inventory of app %s: %w", v.App, err)
	}
	had := v.parts
	v.resourceVersion, v.parts = saved.ResourceVersion, parts
	if slices.Equal(had, parts) {
		return nil
	}
	return c.dropParts(ctx, v.Namespace, v.App, parts)
}

// putContent puts the encoded inventory into its ConfigMap: as text if it is short, else compressed, and else as the names of its
// parts, which it writes first and returns.
func (c *client) putContent(ctx context.Context, v *Inventory, text []byte, cm *corev1.ConfigMap) (parts []string, err error) {
	if len(text) <= maxPlain {
		cm.Data = map[string]string{inventoryKey: string(text)}
		return nil, nil
	}
	packed, err := compressInventory(text)
	if err != nil {
		return nil, err
	}
	if base64.StdEncoding.EncodedLen(len(packed)) <= maxPacked {
		cm.BinaryData = map[string][]byte{packedKey: packed}
		return nil, nil
	}
	if parts, err = c.writeParts(ctx, v, packed); err != nil {
		return nil, err
	}
	names, err := json.Marshal(parts)
	cm.Data = map[string]string{partsKey: string(names)}
	return parts, err
}

// Apps lists the inventories of a namespace, by namespace and name. An empty namespace covers all. If it cannot read some
// inventories, it returns an error and the other inventories.
func (a *Applier) Apps(ctx context.Context, namespace string) ([]*Inventory, error) {
	var out []*Inventory
	var errs []error
	token := ""
	for {
		q := url.Values{"labelSelector": {LabelInventory + "=app"}, "limit": {"100"}}
		if token != "" {
			q.Set("continue", token)
		}
		var list corev1.ConfigMapList
		if err := a.client.getJSON(ctx, listPath("", "v1", "configmaps", namespace), q, &list); err != nil {
			return nil, fmt.Errorf("inventories: %w", err)
		}
		for i := range list.Items {
			v, err := a.client.unpackInventory(ctx, &list.Items[i])
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
	slices.SortFunc(out, func(a, b *Inventory) int { return strings.Compare(a.ownerMark(), b.ownerMark()) })
	return out, errors.Join(errs...)
}

func timestampOf(t time.Time) *metav1.Time {
	m := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &m
}

// Revision is a state of the sources that an apply has brought an app to.
type Revision struct {
	// Sources are the applied sources with their digests.
	Sources []Source `json:"sources"`
	// Applied is when the apply ended; nil if that was not recorded.
	Applied *metav1.Time `json:"applied,omitempty"`
	// Objects is the number of objects of the app at that time.
	Objects int `json:"objects"`
}

func sameSources(a, b []Source) bool {
	return slices.EqualFunc(a, b, func(a, b Source) bool {
		return a.Name == b.Name && a.URI == b.URI && a.EntryPoint == b.EntryPoint && maps.Equal(a.Digest, b.Digest)
	})
}

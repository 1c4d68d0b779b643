package apply

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An inventory that is too large for one ConfigMap is split. Each part is a ConfigMap that is named after its content and never
// changes. The ConfigMap of the inventory lists the parts. Parts are written before they are listed, and deleted after they are no
// longer listed. So the inventory is complete at any time.

const (
	partPrefix = "sluice-part-"
	partsKey   = "parts.json"
	partKey    = "part"
	// labelPart marks the parts; its value identifies the app.
	labelPart = "sluice.dev/inventory-part"
	// maxPart is the size of a part in bytes. In JSON it is a third larger.
	maxPart = 600 << 10
	// digestSize is about the size of the digests that an entry has once it is applied, in bytes.
	digestSize = 100
)

// partLabel is the value of the label for an app.
func partLabel(app string) string { return digestOf([]byte(app)) }

// checkStorable checks before the first write whether the inventory can be stored, even when every object has been applied.
func (v *Inventory) checkStorable() error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if most := len(text) + digestSize*len(v.Objects); most > maxInventory {
		return fmt.Errorf("app %s has %d objects; their inventory needs %d MB, and %d MB is the limit: divide the app into several", v.App, len(v.Objects), most>>20, maxInventory>>20)
	}
	return nil
}

// compressInventory compresses an inventory.
func compressInventory(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// writeParts writes a compressed inventory as parts and returns their names.
func (c *client) writeParts(ctx context.Context, v *Inventory, packed []byte) ([]string, error) {
	var names []string
	for chunk := range slices.Chunk(packed, maxPart) {
		name := partPrefix + partLabel(v.App) + "-" + digestOf(chunk)
		names = append(names, name)
		if slices.Contains(v.parts, name) {
			continue
		}
		err := c.createObject(ctx, listPath("", "v1", "configmaps", v.Namespace), map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
			"metadata":   map[string]any{"name": name, "namespace": v.Namespace, "labels": map[string]any{labelPart: partLabel(v.App)}},
			"binaryData": map[string][]byte{partKey: chunk},
		})
		if err != nil && !apierrors.IsAlreadyExists(err) { // an interrupted run may have left it
			return nil, fmt.Errorf("inventory of app %s: %w", v.App, err)
		}
	}
	return names, nil
}

// readParts joins the parts of an inventory; the result is compressed.
func (c *client) readParts(ctx context.Context, cm *corev1.ConfigMap) ([]byte, []string, error) {
	var names []string
	if err := json.Unmarshal([]byte(cm.Data[partsKey]), &names); err != nil {
		return nil, nil, err
	}
	if len(names) > maxInventory/maxPart+1 {
		return nil, nil, fmt.Errorf("it has %d parts", len(names))
	}
	var packed []byte
	for _, name := range names {
		if !strings.HasPrefix(name, partPrefix) || strings.ContainsAny(name, "/%?#") {
			return nil, nil, fmt.Errorf("it has a part with the name %q", name)
		}
		var part corev1.ConfigMap
		if err := c.getJSON(ctx, listPath("", "v1", "configmaps", cm.Namespace)+"/"+name, nil, &part); err != nil {
			return nil, nil, fmt.Errorf("its part %s: %w", name, err)
		}
		if chunk := part.BinaryData[partKey]; strings.HasSuffix(name, "-"+digestOf(chunk)) {
			packed = append(packed, chunk...)
			continue
		}
		return nil, nil, fmt.Errorf("its part %s was changed by hand", name)
	}
	return packed, names, nil
}

// dropParts deletes the parts of an app that are not among names.
func (c *client) dropParts(ctx context.Context, namespace, app string, names []string) error {
	path := listPath("", "v1", "configmaps", namespace)
	var old []string
	err := c.listMetadata(ctx, path, labelPart+"="+partLabel(app), func(m *metav1.PartialObjectMetadata) {
		if strings.HasPrefix(m.Name, partPrefix) && !slices.Contains(names, m.Name) {
			old = append(old, m.Name)
		}
	})
	for i := 0; i < len(old) && err == nil; i++ {
		err = c.deleteObject(ctx, path+"/"+old[i], "", "", false)
	}
	if err != nil {
		return fmt.Errorf("inventory of app %s: %w", app, err)
	}
	return nil
}

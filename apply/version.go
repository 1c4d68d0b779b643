package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/internal/cluster"
)

// The server records field owners by API version. When it applies an object, it converts the object to each of these versions
// (structured-merge-diff, merge/update.go). If the CRD has no conversion webhook, this fails with code 500 as soon as the object
// has a field that one of these schemas does not know. So an object that was once applied as v1 could never be applied as a v2 with
// more fields. Without a webhook, the fields are the same in all versions. So Sluice can change the recorded version, and the
// owners keep their fields.

// otherVersions returns the versions, other than the item's own, that owners of its fields are recorded in. It returns them only if
// this may be the cause of the error, and [Applier.reownInVersion] may help.
func (a *Applier) otherVersions(ctx context.Context, p *Plan, it *Item, err error) []string {
	var status apierrors.APIStatus
	if it.now.live == nil || !strings.Contains(it.Group, ".") || !errors.As(err, &status) || status.Status().Code != http.StatusInternalServerError {
		return nil
	}
	var out []string
	for _, v := range it.now.live.versions {
		if version, ok := strings.CutPrefix(v, it.Group+"/"); ok && version != it.Version {
			out = append(out, version)
		}
	}
	if len(out) == 0 {
		return nil
	}
	if converts, err := a.convertsByWebhook(ctx, p, it); converts || err != nil {
		return nil // the caller reports the first error
	}
	return out
}

// convertsByWebhook reports whether a webhook converts the versions of an item's kind. It is true as well if the CRD cannot be read,
// or if the kind is not custom.
func (a *Applier) convertsByWebhook(ctx context.Context, p *Plan, it *Item) (bool, error) {
	crd := p.crds[crdOf(it)]
	if crd == nil {
		var err error
		if crd, err = a.client.reads.CRD(ctx, crdOf(it)); err != nil || crd == nil {
			if apierrors.IsForbidden(err) {
				err = nil
			}
			return true, err
		}
	}
	return cluster.NamesWebhook(crd), nil
}

// reownInVersion records all owners of an object's fields in the item's version.
func (a *Applier) reownInVersion(ctx context.Context, it *Item) error {
	path := it.mapping.objectPath(&it.Object)
	obj, err := a.client.fetchObject(ctx, path)
	if err != nil || obj == nil {
		return err
	}
	meta := metadataOf(obj)
	// If one owner has two entries in one version, the API server keeps the last (k8s.io/apimachinery/pkg/util/managedfields).
	var merged []any
	entries := map[string]map[string]any{}
	for _, m := range mapsIn(meta["managedFields"]) {
		m["apiVersion"] = it.Group + "/" + it.Version
		owner := fmt.Sprintf("%q %q %q", m["manager"], m["operation"], m["subresource"])
		if first := entries[owner]; first != nil {
			to, okTo := first["fieldsV1"].(map[string]any)
			from, okFrom := m["fieldsV1"].(map[string]any)
			if okTo && okFrom {
				mergeFieldSets(to, from)
				continue
			}
		}
		entries[owner] = m
		merged = append(merged, m)
	}
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
		{"op": "replace", "path": "/metadata/managedFields", "value": merged},
	})
	if err != nil {
		return err
	}
	_, err = a.client.jsonPatch(ctx, path, body, false)
	return err
}

// mergeFieldSets adds the fields of one set to another, in the format of managedFields.
func mergeFieldSets(to, from map[string]any) {
	for k, v := range from {
		a, okTo := to[k].(map[string]any)
		b, okFrom := v.(map[string]any)
		if okTo && okFrom {
			mergeFieldSets(a, b)
		} else {
			to[k] = v
		}
	}
}

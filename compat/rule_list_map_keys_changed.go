package compat

import (
	"slices"

	"sluice.dev/report"
)

// listMapKeysChanged claims duplicates in a list that was and is a map
// (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype). It replaces the keyword and the values by the keys,
// because these are what the author has changed. The order of keys means nothing. It stands before list-type-changed,
// which takes all other lists.
var listMapKeysChanged = Rule{
	ID:     "list-map-keys-changed",
	Level:  report.ObjectsStuck,
	Varies: true,
	Title:  "The keys of a list changed",
	Why: `x-kubernetes-list-map-keys names the fields that identify an item of the list. With fewer keys, two stored items that ` +
		`differed only in the other fields count as the same, and the API server refuses the list. Server-side apply matches items by ` +
		`these keys too: with other keys it treats an existing item as a new one.`,
	Help:    `Keep the keys, or add keys instead of removing them. A field that becomes a key has to be required or have a default.`,
	Unsafe:  Example{Old: portsWithKeys("port, protocol"), New: portsWithKeys("port")},
	Instead: portsWithKeys("port, protocol"),
	claim: func(c *change) (string, bool) {
		if !c.isRefusedBy("x-kubernetes-list-type") || c.old == nil || c.new == nil || c.old.ListType != "map" || c.new.ListType != "map" {
			return "", false
		}
		c.Keyword = "x-kubernetes-list-map-keys"
		if slices.Equal(slices.Sorted(slices.Values(c.old.ListMapKeys)), slices.Sorted(slices.Values(c.new.ListMapKeys))) {
			return "a key that identifies items has another default, or none any more", true
		}
		c.Before, c.After = c.old.ListMapKeys, c.new.ListMapKeys
		return "list-map-keys changed from " + inlineJSON(c.old.ListMapKeys) + " to " + inlineJSON(c.new.ListMapKeys), true
	},
}

// portsWithKeys is the list of the example.
func portsWithKeys(keys string) string {
	return `
ports:
  type: array
  x-kubernetes-list-type: map
  x-kubernetes-list-map-keys: [` + keys + `]
  items:
    type: object
    required: [port, protocol]
    properties:
      port:
        type: integer
      protocol:
        type: string
`
}

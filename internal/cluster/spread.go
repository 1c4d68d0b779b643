package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// One list is read page by page, each after the other, because the server gives the token of the next page at the end of a page.
// Namespaces can be read side by side. This file does so where it pays, and only if it can prove that no object is missed.

// minSpread is the number of objects that a namespace must have on average. A request costs the API server as much as some ten
// objects. With 30 in each of 105 namespaces, its work was a third more than page by page.
const minSpread = 100

// listByNamespace reads the list whose first page all has read namespace by namespace, several at once, in the state of the server
// that this page shows. It counts again, the objects of the first page among the others. If that does not give every object exactly
// once, the error says why: the list is then to be read page by page.
//
// That nothing is missed rests on the server's own count: the objects of the first page, and those that it says remain. It counts
// all objects of the same state (remainingItemCount in k8s.io/apimachinery/pkg/apis/meta/v1), also those in namespaces that are
// gone. Nothing comes twice, because an object is in one namespace only.
func (n *scanner) listByNamespace(ctx context.Context, all *pager) (*tally, error) {
	switch {
	case n.live.Spec.Scope != apiextensionsv1.NamespaceScoped:
		return nil, errors.New("the objects are in no namespace")
	case all.first.ResourceVersion == "" || all.first.RemainingItemCount == nil || all.renewed > 0:
		return nil, errors.New("the server does not tell how many objects there are")
	}
	t := n.newTally(all.sent + *all.first.RemainingItemCount)
	var lists []*pager
	err := n.c.Each(ctx, "/api/v1/namespaces", EachOptions{}, func(raw []byte) error {
		var ns struct{ Metadata struct{ Name string } }
		if err := json.Unmarshal(raw, &ns); err != nil {
			return err
		}
		p := n.pagerFor(ns.Metadata.Name)
		p.limit, p.exact = all.limit, all.first.ResourceVersion
		lists = append(lists, p)
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("the namespaces cannot be listed: %w", err)
	case t.total < int64(n.o.minSpread*len(lists)):
		return nil, fmt.Errorf("a namespace has fewer than %d objects on average", n.o.minSpread)
	}
	// The server sorts by namespace and name with a slash between, and so do we: the examples are those of a list read in order.
	slices.SortFunc(lists, func(a, b *pager) int { return strings.Compare(a.path, b.path) })
	for i, p := range lists {
		p.at.list = i
	}
	if err := judgeLists(ctx, lists, n.o.Pages, n.j, t.countBatch); err != nil {
		return nil, fmt.Errorf("reading by namespace failed: %w", err)
	}
	if t.count.Checked != t.total {
		return nil, fmt.Errorf("the namespaces hold %d objects, but the server counts %d", t.count.Checked, t.total)
	}
	return t, nil
}

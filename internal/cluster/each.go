package cluster

import "context"

// EachOptions say how [Cluster.Each] lists.
type EachOptions struct {
	// PageSize fixes the number of objects per request; 0 lets it follow the size of the objects.
	PageSize int
	// Metadata asks for the metadata of the objects only.
	Metadata bool
	// Page, if not nil, is called after each page with the number of objects that remain, -1 where the server does not
	// tell. An error of it ends the listing and is returned.
	Page func(remaining int64) error
}

// Each lists the objects at an absolute path, such as /api/v1/namespaces/default/configmaps, and calls item with the JSON of each
// while it reads the list. It holds one object at a time. The bytes are overwritten after item returns. If the connection breaks,
// Each continues where it was; no object comes twice.
func (c *Cluster) Each(ctx context.Context, path string, o EachOptions, item func(raw []byte) error) error {
	p := &pager{c: c, path: path, size: o.PageSize, metadata: o.Metadata, item: item, page: o.Page}
	if p.page == nil {
		p.page = func(int64) error { return nil }
	}
	return orCause(ctx, p.listAll(ctx))
}

package cluster

import (
	"context"
	"encoding/json"
	"net/url"
)

// get reads one JSON document into out.
func (c *Cluster) get(ctx context.Context, path string, query url.Values, out any) error {
	b, err := c.raw(ctx, path, query)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, out)
}

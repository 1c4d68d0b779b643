package cluster

import (
	"context"
	"encoding/json"
	"net/url"
)

// readJSON reads one JSON document into out.
func (c *Cluster) readJSON(ctx context.Context, path string, query url.Values, out any) error {
	b, err := c.readRaw(ctx, path, query)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, out)
}

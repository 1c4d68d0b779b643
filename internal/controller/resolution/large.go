package resolution

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/resolve"
)

// A request holds content up to a limit, since etcd takes objects up to 1.5 MiB. Larger content is compressed if it fits then, or
// goes to a store, and the request has a reference and a digest. Both need fields that Tekton's own CRD does not have. So the adapter
// asks the API server whether this cluster has them.

const (
	// DefaultMaxContent is the default of the limit of content that is compressed or in a store, in bytes: what resolvers
	// take from a remote by default.
	DefaultMaxContent = 4 << 20
	// askAgain is the time for which the answer counts that the API server has no place for large content. It is also the pause
	// after no answer.
	askAgain = 30 * time.Second
	askRetry = time.Second
)

// Store keeps content that does not fit into a request and returns a reference to it. It may be called concurrently.
type Store interface {
	Put(ctx context.Context, data []byte) (ref string, err error)
}

// kept is the place and the form of the content of a request: fields of its status, data before base64.
type kept struct {
	data                  []byte
	encoding, ref, digest string
}

// placeLabel is the value of the label place of a metric.
func (k kept) placeLabel() string {
	switch {
	case k.ref != "":
		return "store"
	case k.encoding != "":
		return k.encoding
	}
	return "request"
}

// placer finds the place for content.
type placer struct {
	limit, most int // in a request, and in total, in bytes
	compress    bool
	store       Store
	support     *support
	// A large content is held several times while it is placed.
	turn chan struct{}
}

// placeContent finds the place for content, and puts it there if that is not the request.
func (p *placer) placeContent(ctx context.Context, data []byte) (kept, error) {
	size := int64(len(data))
	if len(data) <= p.limit {
		return kept{data: data}, nil
	}
	if !p.compress && p.store == nil {
		return kept{}, resolve.Errorf(resolve.ReasonTooLarge,
			"the content has %d bytes, over the limit of %d bytes for a ResolutionRequest: split it into smaller files", size, p.limit)
	}
	if len(data) > p.most {
		return kept{}, resolve.TooLarge("the content", size, int64(p.most))
	}
	select {
	case <-ctx.Done():
		return kept{}, context.Cause(ctx)
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	}
	if ok, err := p.support.askUntilAnswered(ctx); err != nil {
		return kept{}, err
	} else if !ok {
		return kept{}, resolve.Errorf(resolve.ReasonTooLarge,
			"the content has %d bytes, over the limit of %d bytes for a ResolutionRequest, and the ResolutionRequests of this cluster have no field for larger ones (it has the CustomResourceDefinition of Tekton, or an older one)", size, p.limit)
	}
	sum := sha256.Sum256(data)
	out := kept{digest: "sha256:" + hex.EncodeToString(sum[:])}
	compressed := size
	if p.compress {
		packed, err := gzipData(data)
		if err != nil {
			return kept{}, err
		}
		if len(packed) <= p.limit {
			out.data, out.encoding = packed, v1beta1.EncodingGzip
			return out, nil
		}
		compressed = int64(len(packed))
	}
	if p.store == nil {
		return kept{}, resolve.Errorf(resolve.ReasonTooLarge,
			"the content has %d bytes, %d when compressed, over the limit of %d bytes for a ResolutionRequest: split it into smaller files", size, compressed, p.limit)
	}
	ref, err := p.store.Put(ctx, data)
	switch {
	case ctx.Err() != nil:
		return kept{}, context.Cause(ctx)
	case err != nil:
		return kept{}, resolve.Transientf("the content has %d bytes, over the limit of %d bytes for a ResolutionRequest, and the store for such content fails: %w", size, p.limit, err)
	}
	out.ref = ref
	return out, nil
}

// gzipData compresses; equal content gives equal bytes.
func gzipData(data []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(data)
	if err == nil {
		err = z.Close()
	}
	return out.Bytes(), err
}

// support reports whether the API has the fields for large content: a CRD without them would drop them, and requests
// would succeed without any content.
type support struct {
	ask   func() (bool, error)
	clock clock.Clock

	mu      sync.Mutex
	found   bool
	refused time.Time // when the answer was no
}

// lastAnswer returns the last answer, if it still holds. A yes is valid for ever: versions do not lose fields.
func (f *support) lastAnswer() (yes, holds bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found, f.found || !f.refused.IsZero() && f.clock.Since(f.refused) < askAgain
}

// askUntilAnswered asks until the API server answers or ctx is done.
func (f *support) askUntilAnswered(ctx context.Context) (bool, error) {
	for {
		if yes, holds := f.lastAnswer(); holds {
			return yes, nil
		}
		yes, err := f.ask()
		if err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.found = yes; !yes {
				f.refused = f.clock.Now()
			}
			return yes, nil
		}
		if err := pauseFor(ctx, f.clock, askRetry); err != nil {
			return false, err
		}
	}
}

// hasFields reports whether the ResolutionRequests of a cluster have the fields for large content. It reads the schema that the API
// server publishes, as every user may. A schema of another form counts as one without them.
func hasFields(d discovery.DiscoveryInterface) (bool, error) {
	paths, err := d.OpenAPIV3().Paths()
	if err != nil {
		return false, err
	}
	group, ok := paths["apis/"+v1beta1.SchemeGroupVersion.String()]
	if !ok {
		return false, nil
	}
	text, err := group.Schema("application/json")
	if err != nil {
		return false, err
	}
	var doc struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return false, err
	}
	for _, s := range doc.Components.Schemas {
		_, hasRef, _ := unstructured.NestedFieldNoCopy(s, "properties", "status", "properties", "dataRef")
		_, hasDigest, _ := unstructured.NestedFieldNoCopy(s, "properties", "status", "properties", "dataDigest")
		if hasRef && hasDigest {
			return true, nil
		}
	}
	return false, nil
}

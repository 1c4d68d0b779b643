package delivery

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Drift is corrected also while the source is unavailable. For that the process remembers what each delivery has applied last, within
// a bound for all of them together.

// maxContents bounds the remembered contents of all deliveries, in bytes.
const maxContents = 64 << 20

// contents remembers the content that each delivery has applied last, so that the controller can correct drift while the source is
// unavailable. It is bounded, and evicts the least recently used content first. A new process remembers nothing.
type contents struct {
	most int

	mu    sync.Mutex
	size  int
	clock int64
	of    map[types.UID]*content
}

type content struct {
	digest string
	data   []byte
	used   int64
	// problem says why the last correction of drift failed; empty if it succeeded.
	problem string
}

func newContents(most int) *contents { return &contents{most: most, of: map[types.UID]*content{}} }

// putContent remembers the content of a delivery in place of the previous one. It drops content that takes a quarter of the room.
func (c *contents) putContent(uid types.UID, digest string, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	if old := c.of[uid]; old != nil && old.digest == digest {
		old.used = c.clock
		return
	}
	c.dropContent(uid)
	if len(data) > c.most/4 {
		return
	}
	c.of[uid] = &content{digest: digest, data: data, used: c.clock}
	for c.size += len(data); c.size > c.most; {
		oldest := uid
		for other, o := range c.of {
			if o.used < c.of[oldest].used {
				oldest = other
			}
		}
		c.dropContent(oldest)
	}
}

// contentOf returns the content of a delivery, if it is the one with that digest.
func (c *contents) contentOf(uid types.UID, digest string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.of[uid]
	if found == nil || found.digest != digest {
		return nil, false
	}
	c.clock++
	found.used = c.clock
	return found.data, true
}

// problemOf returns why the last correction of drift of a content failed.
func (c *contents) problemOf(uid types.UID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.of[uid]; found != nil {
		return found.problem
	}
	return ""
}

func (c *contents) setProblem(uid types.UID, problem string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.of[uid]; found != nil {
		found.problem = problem
	}
}

// forgetContent drops the remembered content of a delivery.
func (c *contents) forgetContent(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropContent(uid)
}

func (c *contents) dropContent(uid types.UID) {
	if old := c.of[uid]; old != nil {
		c.size -= len(old.data)
		delete(c.of, uid)
	}
}

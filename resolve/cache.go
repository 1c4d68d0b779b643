package resolve

import (
	"container/list"
	"maps"
	"strconv"
	"sync"
	"time"
)

// The cache is one for all resolvers of a process. An entry can be used again only under the same key, which covers the epoch of the
// policies, the scope of the request, the generation of the configuration and the parameters ([keyOf]). So nothing is ever removed
// because of a change: entries under old keys are not asked for, and fall out in time.

// CacheLimits bound a cache.
type CacheLimits struct {
	// Entries bounds the number of resources, Bytes their content, annotations and sources. With 0 the cache holds nothing.
	Entries int
	Bytes   int64
	// TTL is the time for which an entry is used.
	TTL time.Duration
}

// CacheConfigMap is the name of the ConfigMap that [ReadCacheLimits] reads.
const CacheConfigMap = "resolver-cache-config"

// DefaultCacheLimits are Tekton's limits, and 64 MiB.
func DefaultCacheLimits() CacheLimits {
	return CacheLimits{Entries: 1000, Bytes: 64 << 20, TTL: 5 * time.Minute}
}

// CacheKeys declares the keys of that ConfigMap.
func CacheKeys() []Key {
	d := DefaultCacheLimits()
	return []Key{
		{Name: "max-size", Default: strconv.Itoa(d.Entries), Check: intIn(0, 1e6), Doc: "How many resources the cache holds."},
		{Name: "max-bytes", Default: strconv.FormatInt(d.Bytes, 10), Check: intIn(0, 1<<40), Doc: "How many bytes the cache holds, at most an eighth of the memory of the resolver."},
		{Name: "ttl", Default: d.TTL.String(), Check: CheckDuration, Doc: "How long an entry is used."},
	}
}

// ReadCacheLimits reads the data of that ConfigMap, as [Spec.ReadConfig] reads the data of a resolver's ConfigMap.
func ReadCacheLimits(data, before map[string]string) (CacheLimits, Reading) {
	r := Spec{}.readKeys(CacheKeys(), data, before)
	c := r.Config
	entries, _ := strconv.Atoi(c["max-size"])
	size, _ := strconv.ParseInt(c["max-bytes"], 10, 64)
	ttl, _ := time.ParseDuration(c["ttl"])
	return CacheLimits{Entries: entries, Bytes: size, TTL: ttl}, r
}

// Annotations of results that went through the cache, as in Tekton.
const (
	AnnotationCached            = AnnotationPrefix + "cached"
	AnnotationCacheOperation    = AnnotationPrefix + "cache-operation"
	AnnotationCacheTimestamp    = AnnotationPrefix + "cache-timestamp"
	AnnotationCacheResolverType = AnnotationPrefix + "cache-resolver-type"
)

// cache holds resources by key. It evicts the least recently used one first.
type cache struct {
	clock Clock

	mu     sync.Mutex
	limits CacheLimits
	bytes  int64
	by     map[string]*list.Element
	used   list.List // of *cached; the last used in front
}

type cached struct {
	key, resolver string
	resource      *Resource
	reads         *secretReads
	size          int64
	at            time.Time
}

func newCache(c Clock, l CacheLimits) *cache {
	return &cache{clock: c, limits: l, by: map[string]*list.Element{}}
}

// cachedResource returns a resource, and the Secrets with which it was read. It returns one that can change only if mutable is true.
func (c *cache) cachedResource(key string, mutable bool) (*Resource, *secretReads) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.by[key]
	if !ok {
		return nil, nil
	}
	entry := e.Value.(*cached) //nolint:errcheck,forcetypeassert // the list has nothing else
	now, expires := c.clock.Now(), entry.resource.Expires
	if now.Sub(entry.at) >= c.limits.TTL || !expires.IsZero() && !now.Before(expires) {
		c.removeEntry(e)
		return nil, nil
	}
	// The entry stays: another request may accept it.
	if !mutable && !entry.resource.Immutable {
		return nil, nil
	}
	c.used.MoveToFront(e)
	return withCacheAnnotations(entry, "retrieve"), entry.reads
}

// storeResource stores a resource. It returns the resource with annotations that say so, and the resolvers of the entries that it evicted. It
// does not store a resource that is larger than the cache, and returns it unchanged.
func (c *cache) storeResource(key, resolver string, r *Resource, reads *secretReads) (out *Resource, stored bool, evicted []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := &cached{key: key, resolver: resolver, resource: r, reads: reads, size: sizeOf(key, r), at: c.clock.Now()}
	if e, ok := c.by[key]; ok {
		c.removeEntry(e)
	}
	if c.limits.Entries <= 0 || entry.size > c.limits.Bytes || c.limits.TTL <= 0 {
		return r, false, nil
	}
	c.by[key] = c.used.PushFront(entry)
	c.bytes += entry.size
	return withCacheAnnotations(entry, "store"), true, c.evictExcess()
}

// setLimits changes the limits.
func (c *cache) setLimits(l CacheLimits) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits = l
	return c.evictExcess()
}

// evictExcess removes entries until the rest is within the limits, and returns their resolvers. The caller holds the lock.
func (c *cache) evictExcess() (evicted []string) {
	for c.used.Len() > max(c.limits.Entries, 0) || c.bytes > c.limits.Bytes {
		evicted = append(evicted, c.removeEntry(c.used.Back()))
	}
	return evicted
}

// removeEntry removes an entry and returns its resolver. The caller holds the lock.
func (c *cache) removeEntry(e *list.Element) string {
	entry := c.used.Remove(e).(*cached) //nolint:errcheck,forcetypeassert // the list has nothing else
	delete(c.by, entry.key)
	c.bytes -= entry.size
	return entry.resolver
}

// sizeOf returns the approximate size of an entry.
func sizeOf(key string, r *Resource) int64 {
	n := 512 + len(key) + len(r.Data) + len(r.Source.URI) + len(r.Source.EntryPoint)
	for _, m := range []map[string]string{r.Annotations, r.Source.Digest} {
		for k, v := range m {
			n += 64 + len(k) + len(v)
		}
	}
	return int64(n)
}

// withCacheAnnotations returns a copy of an entry's resource that says that it went through the cache, and by which operation: store
// or retrieve. The names are Tekton's, so that its users find them where they look.
func withCacheAnnotations(e *cached, operation string) *Resource {
	r := e.resource.clone()
	if r.Annotations == nil {
		r.Annotations = map[string]string{}
	}
	r.Annotations[AnnotationCached] = "true"
	r.Annotations[AnnotationCacheOperation] = operation
	r.Annotations[AnnotationCacheTimestamp] = e.at.UTC().Format(time.RFC3339)
	r.Annotations[AnnotationCacheResolverType] = e.resolver
	return r
}

// clone copies everything except the content, which is immutable.
func (r *Resource) clone() *Resource {
	c := *r
	c.Annotations, c.Source.Digest = maps.Clone(r.Annotations), maps.Clone(r.Source.Digest)
	return &c
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A listing must give each object once, although connections break and the API server forgets old states after some minutes. A page
// that breaks off is read again, and what was handed on already is skipped if it is the same. After an expired state the server
// offers to go on with its newest one, which is counted, since objects that were written in between may be missing.

const (
	// pageBytes is the target size of a page. The server holds a whole page in memory in any case.
	pageBytes = 4 << 20
	// firstPage and maxPage are the numbers of objects per request: of the first one, when their size is not known, and at
	// most.
	firstPage = 50
	maxPage   = 5000
	// maxTries bounds the attempts to read a page if the connection breaks, or if the server has forgotten the state that the page
	// belongs to.
	maxTries = 3
	// maxEmpty bounds the pages without objects in a row.
	maxEmpty = 100
)

// ErrExpired means that the listing took longer than the server keeps the state that it began with, and that the server offers no
// way to continue. Other errors wrap it.
var ErrExpired = errors.New("the server no longer has the state that the listing began with")

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

// pager lists objects page by page.
type pager struct {
	c    *Cluster
	path string
	// size fixes the number of objects per page; 0 means that it follows their size in bytes.
	size int
	// metadata asks for the metadata of the objects only.
	metadata bool
	// exact, if not empty, is the only resource version whose objects are listed.
	exact string
	// once ends each run after one page. The next run goes on behind it.
	once bool
	// item gets each object; see readList. page is called after each page with the number of objects that remain, or -1.
	item func([]byte) error
	page func(remaining int64) error

	limit int
	seed  maphash.Seed
	// first and last are the metadata of the list in the first and the last page.
	first, last listMeta
	// renewed counts how often the listing continued with a newer state of the server.
	renewed int
	// at is the place of the next batch, sent the number of objects before it.
	at   place
	sent int64
}

// listAll lists all objects, once each.
func (p *pager) listAll(ctx context.Context) error {
	p.seed = maphash.MakeSeed()
	if p.size > 0 {
		p.limit = p.size
	} else if p.limit == 0 {
		p.limit = firstPage
	}
	token, empty, expired := p.last.Continue, 0, 0
	for {
		meta, got, err := p.readPage(ctx, token)
		if apierrors.IsResourceExpired(err) && got.objects == 0 {
			newer := p.newerToken(err)
			if expired++; newer == "" || expired > maxTries {
				return fmt.Errorf("%w: %w", ErrExpired, err)
			}
			token = newer
			p.renewed++
			continue
		}
		if err != nil {
			return err
		}
		expired = 0
		if empty++; got.objects > 0 {
			empty = 0
		}
		if err := p.page(meta.objectsLeft()); err != nil {
			return err
		}
		if p.last = meta; p.first.ResourceVersion == "" {
			p.first = meta
		}
		if meta.Continue == "" {
			return nil
		}
		if meta.Continue == token || empty > maxEmpty {
			return fmt.Errorf("%w: it goes on without objects", errList)
		}
		token = meta.Continue
		p.resizePage(got)
		if p.once {
			return nil
		}
	}
}

// newerToken returns the token that the server offers when it has forgotten a state: it leads on behind the last object in the
// newest state. It is empty if there is none, or if the pager may read one state only.
func (p *pager) newerToken(err error) string {
	var status apierrors.APIStatus
	if p.exact != "" || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// objectsLeft returns the number of objects after this page, or -1 if the server does not tell.
func (m listMeta) objectsLeft() int64 {
	switch {
	case m.Continue == "":
		return 0
	case m.RemainingItemCount != nil:
		return max(0, *m.RemainingItemCount)
	}
	return -1
}

// resizePage chooses the size of the next page from the size of the objects of the last one.
func (p *pager) resizePage(got read) {
	if p.size > 0 || got.objects == 0 {
		return
	}
	fit := pageBytes / max(1, got.bytes/got.objects)
	p.limit = max(1, min(fit, 8*p.limit, maxPage))
}

// read is the progress of a page so far.
type read struct {
	objects, bytes int
	sum            uint64 // of all bytes
}

// readPage reads the page behind a token, and again where the connection breaks off. Objects that were handed on already are
// skipped then, if they are the same.
func (p *pager) readPage(ctx context.Context, token string) (listMeta, read, error) {
	var done read
	for try := 1; ; try++ {
		meta, got, err := p.tryPage(ctx, token, done)
		if err == nil && got.objects < done.objects {
			err = errChanged
		}
		if got.objects > done.objects {
			done = got
		}
		var cut cutError
		if !errors.As(err, &cut) || try == maxTries || ctx.Err() != nil {
			return meta, done, err
		}
	}
}

// errChanged means that a page that was read in parts is not the same any more.
var errChanged = errors.New("the connection broke off within a list, and its objects have changed since; try again")

// tryPage reads the page after a token once. It does not pass on its first known.objects objects.
func (p *pager) tryPage(ctx context.Context, token string, known read) (listMeta, read, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(RequestTimeout, func() { cancel(ErrSlow) })
	defer late.Stop()
	query := url.Values{"limit": {strconv.Itoa(p.limit)}}
	switch {
	case token != "":
		query.Set("continue", token)
	case p.exact != "":
		query.Set("resourceVersion", p.exact)
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	}
	var got read
	request := p.c.newRequest(p.path, query)
	if p.metadata {
		request.SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return listMeta{}, got, orCause(ctx, explainAccess(err))
	}
	defer body.Close() //nolint:errcheck // it was only read
	var hash maphash.Hash
	hash.SetSeed(p.seed)
	meta, err := readList(body, func(raw []byte) error {
		_, _ = hash.Write(raw) // it never fails
		got = read{got.objects + 1, got.bytes + len(raw), hash.Sum64()}
		switch {
		case got.objects < known.objects:
			return nil
		case got.objects > known.objects:
			// The time that this side needs for an object is not the server's.
			late.Stop()
			defer late.Reset(RequestTimeout)
			return p.item(raw)
		case got != known:
			return errChanged
		}
		return nil
	})
	return meta, got, orCause(ctx, err)
}

// RequestTimeout bounds how long a request waits for the server: for the answer, or for the next object of a list. API servers give up
// after as long.
const RequestTimeout = time.Minute

// ErrSlow means that a request was not answered within [RequestTimeout]. Other errors wrap it.
var ErrSlow = fmt.Errorf("%w: it did not answer within %s", ErrNoAccess, RequestTimeout)

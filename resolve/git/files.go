package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sluice.dev/resolve"
)

// A web server without git provides the files of a repository (the dumb protocol, "Dumb Clients" in git's http-protocol and
// gitrepository-layout). An object is a file of its own, or in a pack, which is fetched as a whole. The alternates of a repository
// are ignored.

// maxHeadFile bounds the file HEAD, maxPackList the list of packs.
const (
	maxHeadFile = 4096
	maxPackList = 1 << 20
)

// openFile asks for one file of the repository.
func (h *httpRemote) openFile(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := h.newRequest(ctx, http.MethodGet, path, "", nil, false)
	if err != nil {
		return nil, err
	}
	resp, err := h.sendHTTP(req, "")
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// eachLine visits the lines of a file of at most limit bytes.
func eachLine(ctx context.Context, h *httpRemote, path string, limit int64, visit func(string) error) error {
	body, err := h.openFile(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	left := &io.LimitedReader{R: body, N: limit + 1}
	for lines := bufio.NewReader(left); ; {
		line, err := upTo(lines, '\n', maxHeadFile, nil)
		switch {
		case left.N == 0:
			return errTooMuch
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := visit(string(line)); err != nil {
			return err
		}
	}
}

// listDumbServer returns the capabilities of a web server; visit gets all refs, also the one that HEAD names.
func (s *session) listDumbServer(ctx context.Context, visit func(name, object string)) (caps capabilities, err error) {
	h, ok := s.remote.(*httpRemote)
	if !ok {
		return caps, errDumb
	}
	caps = capabilities{files: true, format: "sha1"}
	head := ""
	if visit != nil {
		if err := eachLine(ctx, h, "/HEAD", maxHeadFile, func(line string) error {
			head = strings.TrimSpace(strings.TrimPrefix(line, "ref:"))
			return nil
		}); err != nil && !notFound(err) {
			return caps, err
		}
		if isObjectID(head) {
			visit("HEAD", head)
		} else {
			caps.head = head
		}
	}
	n := 0
	err = eachLine(ctx, h, pathRefs, maxAdvertisement, func(line string) error {
		id, name, ok := strings.Cut(line, "\t")
		if !ok || !isObjectID(id) {
			return errGarbage
		}
		if n++; n > maxListedRefs {
			return errTooMuch
		}
		if len(id) == 64 {
			caps.format = "sha256"
		}
		if visit != nil {
			visit(name, id)
			if name == head {
				visit("HEAD", id)
			}
		}
		return nil
	})
	return caps, err
}

// fetchFiles fetches objects from a web server, packs of at most limit bytes.
func (m *mirror) fetchFiles(ctx context.Context, ids []string, limit int64) error {
	h, ok := m.remote.(*httpRemote)
	if !ok {
		return errDumb
	}
	left, err := m.missingObjects(ctx, ids)
	if err != nil {
		return err
	}
	var packed []string
	for _, id := range left {
		switch err := m.fetchLoose(ctx, h, id, limit); {
		case notFound(err):
			packed = append(packed, id)
		case err != nil:
			return err
		}
	}
	if len(packed) == 0 {
		return nil
	}
	var packs []string
	if err := eachLine(ctx, h, "/objects/info/packs", maxPackList, func(line string) error {
		if name, ok := strings.CutPrefix(line, "P "); ok && packName.MatchString(name) {
			packs = append(packs, name)
		}
		return nil
	}); err != nil && !notFound(err) {
		return err
	}
	// The list does not say which pack has which object, so the packs are fetched in its order until nothing is missing.
	for _, name := range packs {
		m.mu.Lock()
		known := m.packs[name]
		m.mu.Unlock()
		if known {
			continue
		}
		if err := m.fetchPack(ctx, h, name, limit); err != nil {
			return err
		}
		if packed, err = m.missingObjects(ctx, packed); err != nil || len(packed) == 0 {
			return err
		}
	}
	return nil // the reader reports which object is missing
}

var packName = regexp.MustCompile(`^pack-[0-9a-f]{40}([0-9a-f]{24})?\.pack$`)

// notFound reports whether a web server has no such file.
func notFound(err error) bool {
	status, ok := errors.AsType[*statusError](err)
	return ok && (status.code == http.StatusNotFound || status.code == http.StatusGone)
}

// fetchPack fetches a pack of at most limit bytes.
func (m *mirror) fetchPack(ctx context.Context, h *httpRemote, name string, limit int64) error {
	err := m.store.receivePack(ctx, m, false, limit, func(w io.Writer) error { return copyFile(ctx, h, "/objects/pack/"+name, w, limit) })
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.packs == nil {
		m.packs = map[string]bool{}
	}
	m.packs[name] = true
	return nil
}

// copyFile writes a file of at most limit bytes to w.
func copyFile(ctx context.Context, h *httpRemote, path string, w io.Writer, limit int64) error {
	body, err := h.openFile(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	switch n, err := io.Copy(w, io.LimitReader(body, limit+1)); {
	case err != nil:
		return err
	case n > limit:
		return errTooMuch
	}
	return nil
}

// fetchLoose fetches an object that is a file of its own.
func (m *mirror) fetchLoose(ctx context.Context, h *httpRemote, id string, limit int64) (err error) {
	staging, err := os.MkdirTemp(m.dir, "incoming-")
	if err != nil {
		return diskError(err)
	}
	defer func() { _ = os.RemoveAll(staging) }()
	body, err := h.openFile(ctx, "/objects/"+id[:2]+"/"+id[2:])
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	in := &io.LimitedReader{R: body, N: min(limit, smallPack) + 1}
	err = writeLoose(filepath.Join(staging, "objects"), id, in)
	switch {
	case in.N == 0:
		return errTooMuch
	case err != nil:
		return diskError(err)
	}
	// What a web server gives counts only if its hash is the ID that was asked for.
	o, err := (&mirror{dir: staging}).openLoose(id)
	if err != nil {
		return errGarbage
	}
	defer func() { _ = o.file.Close() }()
	if o.size > maxPlain {
		return resolve.Errorf(resolve.ReasonTooLarge, "an object of the repository has more than %d bytes", maxPlain)
	}
	sum := newHash(m.objectFormat())
	_, _ = fmt.Fprintf(sum, "%s %d\x00", o.kind, o.size) // writing to a hash never fails
	if _, err := io.Copy(sum, &o.left); err != nil || o.checkEnd() != nil {
		return errGarbage
	}
	if name, err := nameOf(sum); err != nil || name != id {
		return errGarbage
	}
	return m.store.adoptLoose(m, filepath.Join(staging, "objects"))
}

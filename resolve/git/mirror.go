package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice.dev/resolve"
)

// mirror is what is on disk of one repository, as one credential sees it. It has objects only, no refs: an object that is
// there is known by its name, wherever it came from.
type mirror struct {
	store *store
	key   string
	dir   string

	// These belong to the store and its mutex.
	users     int
	lastUse   uint64
	discarded bool
	trash     string
	remote    remote
	session   *session

	capsFlight   flights[capabilities]
	refFlight    flights[cachedRef]
	fetchFlight  flights[struct{}]
	historyReady bool

	// making is held while the repository is made on disk; mu never is held over disk, as the store takes it inside its own.
	making sync.Mutex

	mu     sync.Mutex
	size   int64
	format string
	caps   *capabilities
	// noFilter: the server refuses partial fetches.
	noFilter bool
	refs     map[string]cachedRef
	// complete are the last commits that were fetched with all their trees.
	complete []string
	next     *batch
	running  bool
}

type cachedRef struct {
	target target
	at     time.Time
}

const (
	maxCachedRefs = 4096
	maxHaves      = 8
	maxCommitSize = 1 << 20
	maxTreeSize   = 32 << 20
	filterBlobs   = "blob:none"
	filterTrees   = "tree:0"
)

func (m *mirror) bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.size
}

func (m *mirror) grow(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size += n
}

// capabilities asks the server what it can do, once.
func (m *mirror) capabilities(ctx context.Context) (capabilities, error) {
	m.mu.Lock()
	known := m.caps
	m.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	return m.capsFlight.do(ctx, "", func(ctx context.Context) (capabilities, error) {
		caps, err := m.session.capabilities(ctx, nil)
		if err != nil {
			return caps, err
		}
		if err := m.prepare(caps.format); err != nil {
			return caps, err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.caps = &caps
		return caps, nil
	})
}

// prepare makes the bare repository if there is none: under another name first, so that it is whole or not there.
func (m *mirror) prepare(format string) error {
	m.making.Lock()
	defer m.making.Unlock()
	m.mu.Lock()
	have := m.format
	m.mu.Unlock()
	if have == format {
		return nil
	}
	if have != "" {
		return errCorrupt
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	switch format {
	case "sha1":
	case "sha256":
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n"
	default:
		return resolve.Errorf(resolve.ReasonFailed, "the repository's object format %q is not known", format)
	}
	tmp, err := os.MkdirTemp(m.store.root, "trash-new-")
	if err != nil {
		return diskError(err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	for _, d := range []string{"objects/pack", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(tmp, d), 0o700); err != nil {
			return diskError(err)
		}
	}
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/none\n", "config": config, "format": format} {
		if err := os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o600); err != nil {
			return diskError(err)
		}
	}
	if err := os.Rename(tmp, m.dir); err != nil {
		// A request that was canceled may have made it.
		if there, e := os.ReadFile(filepath.Join(m.dir, "format")); e != nil || string(there) != format {
			return diskError(err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.format, m.size = format, m.size+5*4096
	return nil
}

// exists tells whether the mirror is on disk.
func (m *mirror) exists() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.format != ""
}

// terms are what a request allows: how old a look at a branch or tag may be, which is younger than ttl and not made before a
// time, and how many bytes the result may have.
type terms struct {
	bytes     int64
	now       func() time.Time
	ttl       time.Duration
	notBefore time.Time
}

// lookup finds what a revision names now, and when that was looked at. A commit's full name needs no look.
func (m *mirror) lookup(ctx context.Context, revision string, wanted terms, limits Limits) (cachedRef, error) {
	if isObjectID(revision) {
		return cachedRef{target: target{object: revision, commit: revision}, at: wanted.now()}, nil
	}
	m.mu.Lock()
	cached, ok := m.refs[revision]
	m.mu.Unlock()
	if ok && wanted.now().Sub(cached.at) < wanted.ttl && !cached.at.Before(wanted.notBefore) {
		return cached, nil
	}
	look := func(ctx context.Context) (cachedRef, error) { return m.look(ctx, revision, wanted.now(), limits) }
	found, err := m.refFlight.do(ctx, revision, look)
	if err == nil && found.at.Before(wanted.notBefore) {
		// A look that was under way asked the server too early; whatever is under way now began after it.
		found, err = m.refFlight.do(ctx, revision, look)
	}
	return found, err
}

// look asks the server what a revision names.
func (m *mirror) look(ctx context.Context, revision string, at time.Time, limits Limits) (cachedRef, error) {
	caps, err := m.capabilities(ctx)
	if err != nil {
		return cachedRef{}, err
	}
	names := candidates(revision)
	found, err := m.session.refs(ctx, caps, names, false)
	if err != nil {
		return cachedRef{}, err
	}
	t, ok := pick(names, found)
	if !ok {
		if digits := strings.ToLower(revision); len(digits) >= 4 && len(digits) < 64 && isHex(digits) {
			t, err := m.short(ctx, caps, digits, limits)
			return cachedRef{t, at}, err
		}
		return cachedRef{}, resolve.Errorf(resolve.ReasonNotFound, "revision: there is no branch, tag or commit %q", revision)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refs == nil || len(m.refs) >= maxCachedRefs {
		m.refs = map[string]cachedRef{}
	}
	m.refs[revision] = cachedRef{t, at}
	return cachedRef{t, at}, nil
}

// short finds the commit whose name begins with these digits. It needs the commits of all branches and tags, without their
// trees where the server can leave them out.
func (m *mirror) short(ctx context.Context, caps capabilities, digits string, limits Limits) (target, error) {
	t, err := m.disambiguate(ctx, digits)
	m.mu.Lock()
	ready := m.historyReady
	m.mu.Unlock()
	if err == nil && ready {
		return t, nil
	}
	all, err := m.session.refs(ctx, caps, []string{"refs/heads/", "refs/tags/"}, true)
	if err != nil {
		return target{}, err
	}
	if tips := objectsOf(all); len(tips) > 0 {
		if err := m.fetch(ctx, caps, want{objects: tips}, filterTrees, limits.PackBytes); err != nil {
			if errors.Is(err, errTooMuch) {
				return target{}, resolve.Errorf(resolve.ReasonTooLarge,
					"revision: the history in which %q would be found is larger than %d bytes; give the commit's full name", digits, limits.PackBytes)
			}
			return target{}, err
		}
	}
	m.mu.Lock()
	m.historyReady = true
	m.mu.Unlock()
	return m.disambiguate(ctx, digits)
}

func (m *mirror) disambiguate(ctx context.Context, digits string) (t target, err error) {
	err = m.store.files.with(ctx, m.dir, func(p *catfile) error {
		id, kind, _, err := p.info(digits + "^{commit}")
		switch {
		case err != nil:
			return err
		case kind == "ambiguous":
			return resolve.Errorf(resolve.ReasonInvalid, "revision: %q is the beginning of several commits; give more digits", digits)
		case kind != "commit":
			return errCorrupt
		}
		t = target{object: id, commit: id}
		return nil
	})
	if errors.Is(err, errMissing) {
		err = resolve.Errorf(resolve.ReasonNotFound, "revision: there is no branch, tag or commit %q", digits)
	}
	return t, err
}

// fetch gets objects from the server. The filter is left out where the server has none.
func (m *mirror) fetch(ctx context.Context, caps capabilities, w want, filter string, limit int64) error {
	m.mu.Lock()
	noFilter := m.noFilter || !caps.version2 || !caps.filter
	m.mu.Unlock()
	w.shallow = w.shallow && caps.shallow
	if !noFilter {
		w.filter = filter
	}
	for {
		err := m.store.receive(ctx, m, len(w.have) > 0, func(f *os.File) error { return m.session.fetch(ctx, caps, w, f, limit) })
		var peer *remoteError
		if w.filter != "" && errors.As(err, &peer) && strings.Contains(peer.text, "filter") {
			m.mu.Lock()
			m.noFilter = true
			m.mu.Unlock()
			w.filter, w.have = "", nil
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			return errCorrupt
		}
		return err
	}
}

// partial tells whether blobs are fetched when they are needed.
func (m *mirror) partial(caps capabilities) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return caps.version2 && caps.filter && !m.noFilter
}

// commit is a commit that is there.
type commit struct {
	id, tree string
	// raw is the commit object, tag the annotated tag that was named, nil if none was.
	raw, tag []byte
}

// ensure brings the commit and its trees.
func (m *mirror) ensure(ctx context.Context, t target, limits Limits) (commit, error) {
	for attempt := 0; ; attempt++ {
		if m.exists() {
			c, err := m.readCommit(ctx, t)
			if !errors.Is(err, errMissing) {
				return c, err
			}
		}
		if attempt == 2 {
			// Or the mirror is damaged so that git does not take the object anew; the caller tries with a new one.
			return commit{}, missingError(resolve.ReasonNotFound, "revision: the server sends no commit "+t.object)
		}
		if _, err := m.fetchFlight.do(ctx, t.object, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, m.fetchCommit(ctx, t, attempt > 0, limits)
		}); err != nil {
			return commit{}, err
		}
	}
}

// missingError is for the user, and errMissing as well.
func missingError(reason resolve.Reason, text string) error {
	return &resolve.Error{Reason: reason, Msg: text, Err: errMissing}
}

// fetchCommit fetches one commit without history. whole: what was fetched before is not counted on.
func (m *mirror) fetchCommit(ctx context.Context, t target, whole bool, limits Limits) error {
	caps, err := m.capabilities(ctx)
	if err != nil {
		return err
	}
	w := want{objects: []string{t.object}, shallow: true}
	if !whole {
		m.mu.Lock()
		w.have = slices.Clone(m.complete)
		m.mu.Unlock()
	}
	err = m.fetch(ctx, caps, w, filterBlobs, limits.PackBytes)
	var damaged *packError
	if len(w.have) > 0 && errors.As(err, &damaged) {
		// The pack may build on what is not here after all.
		w.have = nil
		err = m.fetch(ctx, caps, w, filterBlobs, limits.PackBytes)
	}
	var peer *remoteError
	if !caps.version2 && !caps.anyWant && t.ref == "" && errors.As(err, &peer) {
		// Only tips can be asked for: the commit may be in the history of one.
		all, refsErr := m.session.refs(ctx, caps, []string{"refs/heads/", "refs/tags/"}, true)
		if refsErr != nil {
			return refsErr
		}
		if tips := objectsOf(all); len(tips) > 0 {
			err = m.fetch(ctx, caps, want{objects: tips}, "", limits.PackBytes)
		}
	}
	if errors.Is(err, errTooMuch) && m.store.aside {
		return errDiskFull // with a cache there would have been room for it
	}
	if errors.Is(err, errTooMuch) {
		return resolve.Errorf(resolve.ReasonTooLarge, "the repository sends more than %d bytes for one commit", limits.PackBytes)
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.complete = append(slices.DeleteFunc(m.complete, func(o string) bool { return o == t.commit }), t.commit)
	if len(m.complete) > maxHaves {
		m.complete = m.complete[1:]
	}
	return nil
}

// readCommit reads the commit, through annotated tags, and sees that its root tree is there.
func (m *mirror) readCommit(ctx context.Context, t target) (c commit, err error) {
	err = m.store.files.with(ctx, m.dir, func(p *catfile) error {
		name := t.object
		for range 6 {
			kind, data, _, err := p.read(ctx, name, maxCommitSize)
			if err != nil {
				return err
			}
			switch kind {
			case "commit":
				tree, ok := header(data, "tree ")
				if !ok || !isObjectID(tree) {
					return errCorrupt
				}
				c.id, c.tree, c.raw = name, tree, data
				_, kind, _, err := p.info(tree)
				if err == nil && kind != "tree" {
					err = errCorrupt
				}
				return err
			case "tag":
				if c.tag == nil {
					c.tag = data
				}
				var ok bool
				if name, ok = header(data, "object "); !ok || !isObjectID(name) {
					return errCorrupt
				}
			default:
				return resolve.Errorf(resolve.ReasonNotFound, "revision: %s is a %s and no commit", name, kind)
			}
		}
		return resolve.Errorf(resolve.ReasonFailed, "revision: a tag of a tag of a tag has no end")
	})
	if errors.Is(err, errTooMuch) {
		err = resolve.Errorf(resolve.ReasonTooLarge, "revision: the commit's own text is larger than %d bytes", maxCommitSize)
	}
	return c, err
}

// header finds the first line of an object's header that begins with the word.
func header(object []byte, word string) (string, bool) {
	for line := range bytes.Lines(object) {
		if len(line) == 1 {
			break
		}
		if v, ok := bytes.CutPrefix(line, []byte(word)); ok {
			return string(bytes.TrimSuffix(v, []byte("\n"))), true
		}
	}
	return "", false
}

// object reads one object of that kind.
func (m *mirror) object(ctx context.Context, id, kind string, limit int64) (data []byte, err error) {
	err = m.store.files.with(ctx, m.dir, func(p *catfile) error {
		got, d, size, err := p.read(ctx, id, limit)
		if errors.Is(err, errTooMuch) {
			return fmt.Errorf("%w: %w", errTooMuch, &sizeError{size})
		}
		if err == nil && got != kind {
			return errCorrupt
		}
		data = d
		return err
	})
	return data, err
}

// stream reads one object of that kind with fn, which reads all of it.
func (m *mirror) stream(ctx context.Context, id, kind string, limit int64, fn func(*bufio.Reader) error) error {
	return m.store.files.with(ctx, m.dir, func(p *catfile) error {
		_, err := p.stream(ctx, id, kind, limit, fn)
		return err
	})
}

// sizeError tells how large an object is that was not read.
type sizeError struct{ size int64 }

func (e *sizeError) Error() string { return fmt.Sprintf("%d bytes", e.size) }

package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	admitFlight  flights[struct{}]
	refFlight    flights[cachedRef]
	fetchFlight  flights[struct{}]
	historyReady bool

	// making is held while the repository is made on disk; mu never is held over disk, as the store takes it inside its own.
	making sync.Mutex

	mu     sync.Mutex
	size   int64
	format string
	caps   *capabilities
	// way is how commits are fetched. proven: the server has sent objects by their names.
	way    way
	proven bool
	refs   map[string]cachedRef
	// admitted is when the server let the credential in last.
	admitted time.Time
	// complete are the last commits that were fetched with all their trees.
	complete []string
	next     *batch
	running  bool
}

// way is how commits are fetched, the least first. A server that refuses one gets the next.
type way int

const (
	// byObject: the commit alone, then each tree and blob on the way to a path by its name.
	byObject way = iota
	// byTrees: the commit with all its trees, then blobs by their names.
	byTrees
	// whole: the commit with all that is in it.
	whole
)

type cachedRef struct {
	target target
	at     time.Time
}

const (
	maxCachedRefs = 4096
	maxHaves      = 8
	maxCommitSize = 1 << 20
	maxTreeSize   = 32 << 20
	filterTrees   = "tree:0"
)

// filters are git's, by the way of fetching.
var filters = map[way]string{byObject: filterTrees, byTrees: "blob:none", whole: ""}

// errNoFilter: the server refuses the filter of a fetch.
var errNoFilter = errors.New("the server refuses the filter")

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
// time, how old a proof of access may be likewise, and how many bytes the result may have.
type terms struct {
	// uri is the source as policies about signatures know it.
	uri       string
	bytes     int64
	now       func() time.Time
	ttl       time.Duration
	notBefore time.Time
	// credential: the request has one. access is how long it is believed that the server lets it in, began when the request began.
	credential bool
	access     time.Duration
	began      time.Time
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

// admit has the server let the credential in again, unless it has just done so: what is in the mirror is for nobody whose
// credential was revoked. It tells when it did.
func (m *mirror) admit(ctx context.Context, wanted terms) (time.Time, error) {
	if !wanted.credential {
		return time.Time{}, nil
	}
	fresh := func() (at time.Time, ok bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		age := wanted.began.Sub(m.admitted)
		return m.admitted, !m.admitted.IsZero() && age < wanted.access+1 && !m.admitted.Before(wanted.notBefore)
	}
	// A proof that was under way may have begun too early; whatever is under way then began after it.
	for range 2 {
		if at, ok := fresh(); ok {
			return at, nil
		}
		if _, err := m.admitFlight.do(ctx, "", func(ctx context.Context) (struct{}, error) {
			at := wanted.now()
			_, err := m.session.capabilities(ctx, nil)
			if err == nil {
				m.letIn(at)
			}
			return struct{}{}, err
		}); err != nil {
			return time.Time{}, err
		}
	}
	at, _ := fresh()
	return at, nil
}

// letIn notes that the server has answered a question that was asked at a time.
func (m *mirror) letIn(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.After(m.admitted) {
		m.admitted = at
	}
}

// look asks the server what a revision names.
func (m *mirror) look(ctx context.Context, revision string, at time.Time, limits Limits) (cachedRef, error) {
	caps, err := m.capabilities(ctx)
	if err != nil {
		return cachedRef{}, err
	}
	names := candidates(revision)
	found, err := m.session.refs(ctx, caps, names)
	if err != nil {
		return cachedRef{}, err
	}
	m.letIn(at)
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

// short finds the commit whose name begins with these digits. It needs the commits of all branches and tags.
func (m *mirror) short(ctx context.Context, caps capabilities, digits string, limits Limits) (target, error) {
	t, err := m.disambiguate(ctx, digits)
	m.mu.Lock()
	ready := m.historyReady
	m.mu.Unlock()
	if err == nil && ready {
		return t, nil
	}
	if _, err := m.fetchFlight.do(ctx, "history", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, m.history(ctx, caps, limits)
	}); err != nil {
		if errors.Is(err, errTooMuch) {
			err = resolve.Errorf(resolve.ReasonTooLarge, "revision: the history in which %q would be found is larger than %d bytes (%s); give the commit's full name",
				digits, limits.PackBytes, keyPackBytes)
		}
		return target{}, err
	}
	return m.disambiguate(ctx, digits)
}

// history fetches the commits of all branches and tags, without their trees where the server can leave them out.
func (m *mirror) history(ctx context.Context, caps capabilities, limits Limits) error {
	done, err := m.store.histories.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	tips, err := m.session.tips(ctx, caps)
	if err != nil {
		return err
	}
	if len(tips) > 0 {
		w := want{objects: tips}
		if m.now(caps) == byObject {
			w.filter = filterTrees
		}
		if err = m.fetch(ctx, caps, w, limits.PackBytes); errors.Is(err, errNoFilter) {
			w.filter = ""
			err = m.fetch(ctx, caps, w, limits.PackBytes)
		}
		if err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.historyReady = true
	return nil
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

// fetch gets objects from the server.
func (m *mirror) fetch(ctx context.Context, caps capabilities, w want, limit int64) error {
	w.shallow = w.shallow && caps.shallow
	err := m.store.receive(ctx, m, len(w.have) > 0, limit, func(out io.Writer) error { return m.session.fetch(ctx, caps, w, out, limit) })
	var peer *remoteError
	switch {
	case w.filter != "" && errors.As(err, &peer) && strings.Contains(peer.text, "filter"):
		return fmt.Errorf("%w: %w", errNoFilter, err)
	case errors.Is(err, fs.ErrNotExist):
		return errCorrupt
	}
	return err
}

// now is the way in which commits are fetched at present.
func (m *mirror) now(caps capabilities) way {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !caps.version2 || !caps.filter {
		return whole
	}
	return m.way
}

// refused takes the next way after one that the server refuses. It tells whether there is one to try.
func (m *mirror) refused(tried way) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.way == tried && tried < whole {
		m.way++
	}
	return tried < whole
}

// commit is a commit that is there.
type commit struct {
	id, tree string
	// raw is the commit object, tag the annotated tag that was named, nil if none was.
	raw, tag []byte
	// signers are the IDs of those who have signed either.
	signers []string
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

// fetchCommit fetches one commit without history. again: what was fetched before is not counted on.
func (m *mirror) fetchCommit(ctx context.Context, t target, again bool, limits Limits) error {
	caps, err := m.capabilities(ctx)
	if err != nil {
		return err
	}
	w := want{objects: []string{t.object}, shallow: true}
	way := m.now(caps)
	if way != byObject && !again {
		m.mu.Lock()
		w.have = slices.Clone(m.complete)
		m.mu.Unlock()
	}
	for {
		w.filter = filters[way]
		err = m.fetch(ctx, caps, w, limits.PackBytes)
		var damaged *packError
		switch {
		case errors.Is(err, errNoFilter) && m.refused(way):
			way++
			w.have = nil
			continue
		case len(w.have) > 0 && errors.As(err, &damaged):
			// The pack may build on what is not here after all.
			w.have = nil
			continue
		}
		break
	}
	var peer *remoteError
	if !caps.version2 && !caps.anyWant && t.ref == "" && errors.As(err, &peer) {
		// Only tips can be asked for: the commit may be in the history of one.
		tips, tipsErr := m.session.tips(ctx, caps)
		if tipsErr != nil {
			return tipsErr
		}
		if len(tips) > 0 {
			err = m.fetch(ctx, caps, want{objects: tips}, limits.PackBytes)
		}
	}
	if errors.Is(err, errTooMuch) && m.store.aside {
		return errDiskFull // with a cache there would have been room for it
	}
	if errors.Is(err, errTooMuch) {
		return resolve.Errorf(resolve.ReasonTooLarge, "the repository sends more than %d bytes for one commit (%s)", limits.PackBytes, keyPackBytes)
	}
	if err != nil || way == byObject {
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

// readCommit reads the commit, through annotated tags.
func (m *mirror) readCommit(ctx context.Context, t target) (c commit, err error) {
	name := t.object
	for range 6 {
		kind, data, _, err := m.read(ctx, name, maxCommitSize)
		if errors.Is(err, errTooMuch) {
			return c, resolve.Errorf(resolve.ReasonTooLarge, "revision: the commit's own text is larger than %d bytes", maxCommitSize)
		}
		if err != nil {
			return c, err
		}
		switch kind {
		case "commit":
			tree, ok := header(data, "tree ")
			if !ok || !isObjectID(tree) {
				return c, errCorrupt
			}
			c.id, c.tree, c.raw = name, tree, data
			return c, nil
		case "tag":
			if c.tag == nil {
				c.tag = data
			}
			var ok bool
			if name, ok = header(data, "object "); !ok || !isObjectID(name) {
				return c, errCorrupt
			}
		default:
			return c, resolve.Errorf(resolve.ReasonNotFound, "revision: %s is a %s and no commit", name, kind)
		}
	}
	return c, resolve.Errorf(resolve.ReasonFailed, "revision: a tag of a tag of a tag has no end")
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

// sizeError tells how large an object is that was not read.
type sizeError struct{ size int64 }

func (e *sizeError) Error() string { return fmt.Sprintf("%d bytes", e.size) }

package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice.dev/resolve"
)

// This file looks up revisions and fetches commits into a mirror. All that it knows of a server is a cache: where it is wrong, for
// example after the server was replaced, the request tries once more without it ([worthAnother]).

// mirror holds the objects of one repository on disk, as one credential sees it. It has objects only, no refs: an object has an ID,
// by which it is found, and its origin does not matter.
type mirror struct {
	store *store
	key   string
	dir   string
	// host is the host of the repository.
	host string

	// These fields belong to the store and its mutex.
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

	// making is held while the repository is created on disk. mu is never held during disk access, because the store locks it
	// inside its own lock.
	making sync.Mutex

	mu     sync.Mutex
	size   int64
	format string
	caps   *capabilities
	// way is the way to fetch commits. proven: the server has sent objects by their IDs.
	way    way
	proven bool
	refs   map[string]cachedRef
	// packs are the names of the packs that were fetched from a web server.
	packs map[string]bool
	// admitted is the last time when the server accepted the credential.
	admitted time.Time
	// complete are the last commits that were fetched with all their trees.
	complete []string
	next     *batch
	running  bool
}

// way is a way to fetch commits. The first one transfers least. If a server refuses one, the next is tried.
type way int

const (
	// byRoot: the commit with its root tree, then each tree and blob on a path by its ID.
	byRoot way = iota
	// byObject: the commit alone, then the same.
	byObject
	// byTrees: the commit with all its trees, then blobs by their IDs.
	byTrees
	// whole: the commit with everything in it.
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
	maxTreeSize   = 128 << 20
	filterTrees   = "tree:0"
)

// filters are git's filters, by the way of fetching.
var filters = map[way]string{byRoot: "tree:1", byObject: filterTrees, byTrees: "blob:none", whole: ""}

// errNoFilter: the server refuses the filter of a fetch.
var errNoFilter = errors.New("the server refuses the filter")

// sizeOnDisk is the estimate of addSize.
func (m *mirror) sizeOnDisk() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.size
}

// addSize counts n more bytes on disk. The size is an estimate: it decides about eviction, and nothing else.
func (m *mirror) addSize(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size += n
}

// serverCapabilities asks for the capabilities of the server, once.
func (m *mirror) serverCapabilities(ctx context.Context) (capabilities, error) {
	m.mu.Lock()
	known := m.caps
	m.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	return m.capsFlight.runShared(ctx, "", func(ctx context.Context) (capabilities, error) {
		caps, err := m.session.askCapabilities(ctx, nil)
		if err != nil {
			return caps, err
		}
		if err := m.createOnDisk(caps.format); err != nil {
			return caps, err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.caps = &caps
		return caps, nil
	})
}

// createOnDisk creates the bare repository if there is none. It uses another name first, so that a repository is either complete or
// missing.
func (m *mirror) createOnDisk(format string) error {
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
		// A cancelled request may have created it.
		if there, e := os.ReadFile(filepath.Join(m.dir, "format")); e != nil || string(there) != format {
			return diskError(err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.format, m.size = format, m.size+5*4096
	return nil
}

// isOnDisk reports whether the mirror is on disk.
func (m *mirror) isOnDisk() bool { return m.objectFormat() != "" }

// objectFormat is sha1 or sha256; empty if nothing is on disk.
func (m *mirror) objectFormat() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.format
}

// terms are the limits of a request. A lookup of a branch or tag must be younger than ttl and not earlier than a given time. A proof of
// access has similar limits. The result has at most a given number of bytes.
type terms struct {
	// uri is the source in the form that policies about signatures use.
	uri       string
	bytes     int64
	now       func() time.Time
	ttl       time.Duration
	notBefore time.Time
	// credential: the request has one. access is the time for which a proof of access is valid. began is the begin of the request.
	credential bool
	access     time.Duration
	began      time.Time
}

// lookupRevision returns the current target of a revision, and the time of the lookup. The full ID of a commit needs no lookup.
func (m *mirror) lookupRevision(ctx context.Context, revision string, wanted terms, packBytes int64) (cachedRef, error) {
	if isObjectID(revision) {
		return cachedRef{target: target{object: revision, commit: revision}, at: wanted.now()}, nil
	}
	m.mu.Lock()
	cached, ok := m.refs[revision]
	m.mu.Unlock()
	if ok && wanted.now().Sub(cached.at) < wanted.ttl && !cached.at.Before(wanted.notBefore) {
		return cached, nil
	}
	look := func(ctx context.Context) (cachedRef, error) {
		return m.askForRevision(ctx, revision, wanted.now(), packBytes)
	}
	found, err := m.refFlight.runShared(ctx, revision, look)
	if err == nil && found.at.Before(wanted.notBefore) {
		// A lookup that was already running asked the server too early. Any lookup that runs now began later.
		found, err = m.refFlight.runShared(ctx, revision, look)
	}
	return found, err
}

// proveAccess asks the server to accept the credential again, unless it has just done so. The content of a mirror is not for a credential
// that was revoked. It returns the time of the proof.
func (m *mirror) proveAccess(ctx context.Context, wanted terms) (time.Time, error) {
	if !wanted.credential {
		return time.Time{}, nil
	}
	fresh := func() (at time.Time, ok bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		age := wanted.began.Sub(m.admitted)
		return m.admitted, !m.admitted.IsZero() && age < wanted.access+1 && !m.admitted.Before(wanted.notBefore)
	}
	// A proof that was already running may have begun too early. Any proof that runs then began later.
	for range 2 {
		if at, ok := fresh(); ok {
			return at, nil
		}
		if _, err := m.admitFlight.runShared(ctx, "", func(ctx context.Context) (struct{}, error) {
			at := wanted.now()
			if s, ok := m.remote.(*sshRemote); ok {
				s.recheckCredential()
			}
			_, err := m.session.askCapabilities(ctx, nil)
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

// letIn records that the server has answered a request that was sent at a time.
func (m *mirror) letIn(at time.Time) {
	if s, ok := m.remote.(*sshRemote); ok {
		if since := s.credentialCheckedAt(); since.Before(at) {
			at = since
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.After(m.admitted) {
		m.admitted = at
	}
}

// askForRevision asks the server for the target of a revision.
func (m *mirror) askForRevision(ctx context.Context, revision string, at time.Time, packBytes int64) (cachedRef, error) {
	caps, err := m.serverCapabilities(ctx)
	if err != nil {
		return cachedRef{}, err
	}
	names := candidateRefs(revision)
	found, err := m.session.askRefs(ctx, caps, slices.Concat(names, candidateRefs(shortName(revision)), []string{"HEAD"}))
	if err != nil {
		return cachedRef{}, err
	}
	m.letIn(at)
	t, ok := firstFound(names, found)
	if checkRevision(t.symref) != nil {
		t.symref = ""
	}
	// The names of the branch behind HEAD are names of this commit, too.
	if ok && t.symref != "" {
		more, err := m.session.askRefs(ctx, caps, slices.Concat(candidateRefs(t.symref), candidateRefs(shortName(t.symref))))
		if err != nil {
			return cachedRef{}, err
		}
		maps.Copy(found, more)
	}
	if ok {
		t.names = spellingsOf(t, found)
	}
	if !ok {
		// Git takes four digits or more for the beginning of an ID.
		if digits := strings.ToLower(revision); len(digits) >= 4 && len(digits) < 64 && isHex(digits) {
			t, err := m.resolveShortID(ctx, caps, digits, packBytes)
			return cachedRef{t, at}, err
		}
		return cachedRef{}, resolve.Errorf(resolve.ReasonNotFound, "revision: there is no branch, tag or commit %q%s", revision, m.session.otherNames(ctx, caps, revision))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refs == nil || len(m.refs) >= maxCachedRefs {
		m.refs = map[string]cachedRef{}
	}
	m.refs[revision] = cachedRef{t, at}
	return cachedRef{t, at}, nil
}

// resolveShortID finds the commit whose ID begins with these digits. It needs the commits of all branches and tags.
func (m *mirror) resolveShortID(ctx context.Context, caps capabilities, digits string, packBytes int64) (target, error) {
	t, err := m.findByPrefix(ctx, digits)
	m.mu.Lock()
	ready := m.historyReady
	m.mu.Unlock()
	if err == nil && ready {
		return t, nil
	}
	if _, err := m.fetchFlight.runShared(ctx, "history", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, m.fetchHistory(ctx, caps, packBytes)
	}); err != nil {
		if errors.Is(err, errTooMuch) {
			err = resolve.Errorf(resolve.ReasonTooLarge, "revision: the history in which %q would be found is larger than %d bytes (%s); give the commit's full name",
				digits, packBytes, keyPackBytes)
		}
		return target{}, err
	}
	return m.findByPrefix(ctx, digits)
}

// fetchHistory fetches the commits of all branches and tags, without their trees if the server supports that.
func (m *mirror) fetchHistory(ctx context.Context, caps capabilities, packBytes int64) error {
	if caps.files {
		return resolve.Errorf(resolve.ReasonInvalid, "revision: a web server gives the files of the repository, without git behind it; give a branch, a tag or the commit's full name")
	}
	done, err := m.store.histories.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer done()
	tips, err := m.session.askTips(ctx, caps)
	if err != nil {
		return err
	}
	if len(tips) > 0 {
		w := want{objects: tips}
		if m.currentWay(caps) <= byObject {
			w.filter = filterTrees
		}
		if err = m.fetchObjects(ctx, caps, w, packBytes); errors.Is(err, errNoFilter) {
			w.filter = ""
			err = m.fetchObjects(ctx, caps, w, packBytes)
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

// findByPrefix finds the commit among the objects on disk. Git itself says whether several commits begin with the digits; trees and
// files that do so count for nothing.
func (m *mirror) findByPrefix(ctx context.Context, digits string) (t target, err error) {
	err = m.store.files.withProcess(ctx, m.dir, func(p *catfile) error {
		id, kind, _, err := p.objectInfo(digits + "^{commit}")
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

// fetchObjects gets objects from the server.
func (m *mirror) fetchObjects(ctx context.Context, caps capabilities, w want, limit int64) error {
	if caps.files {
		return m.fetchFiles(ctx, w.objects, max(limit, w.most))
	}
	w.shallow = w.shallow && caps.shallow
	err := m.store.receivePack(ctx, m, len(w.have) > 0, limit, func(out io.Writer) error { return m.session.fetchPackTo(ctx, caps, w, out, limit) })
	var peer *remoteError
	switch {
	case w.filter != "" && errors.As(err, &peer) && strings.Contains(peer.text, "filter"):
		return fmt.Errorf("%w: %w", errNoFilter, err)
	case errors.Is(err, fs.ErrNotExist):
		return errCorrupt
	}
	return err
}

// currentWay returns the current way to fetch commits.
func (m *mirror) currentWay(caps capabilities) way {
	m.mu.Lock()
	defer m.mu.Unlock()
	if caps.files {
		return byObject
	}
	if !caps.version2 || !caps.filter {
		return whole
	}
	return m.way
}

// switchWay switches to the next way after the server has refused one. It reports whether there is one left.
func (m *mirror) switchWay(tried way) bool {
	m.mu.Lock()
	if m.way <= tried && tried < whole {
		m.way = tried + 1
	}
	m.mu.Unlock()
	if tried == byRoot {
		m.store.recordRootless(m.host)
	}
	return tried < whole
}

// commit is a commit in the mirror.
type commit struct {
	id, tree string
	// raw is the commit object. tag is the annotated tag that was named, nil if none was.
	raw, tag []byte
	// signers are the IDs of the keys and identities that have signed either.
	signers []string
}

// ensureCommit fetches the commit and its trees if they are missing.
func (m *mirror) ensureCommit(ctx context.Context, t target, packBytes int64) (commit, error) {
	for attempt := 0; ; attempt++ {
		if m.isOnDisk() {
			c, err := m.readCommit(ctx, t)
			if !errors.Is(err, errMissing) {
				return c, err
			}
		}
		if attempt == 2 {
			// Or damage of the mirror keeps git from storing the object. The caller tries again with a new mirror.
			return commit{}, missingError(resolve.ReasonNotFound, "revision: the server sends no commit "+t.object)
		}
		if _, err := m.fetchFlight.runShared(ctx, t.object, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, m.fetchCommit(ctx, t, attempt > 0, packBytes)
		}); err != nil {
			return commit{}, err
		}
	}
}

// missingError is an error for the user, and errMissing as well.
func missingError(reason resolve.Reason, text string) error {
	return &resolve.Error{Reason: reason, Msg: text, Err: errMissing}
}

// fetchCommit fetches one commit without history. again: do not rely on earlier fetches.
func (m *mirror) fetchCommit(ctx context.Context, t target, again bool, packBytes int64) error {
	caps, err := m.serverCapabilities(ctx)
	if err != nil {
		return err
	}
	w := want{objects: []string{t.object}, shallow: true}
	way := m.currentWay(caps)
	// Where trees come as a whole, the commits that are complete here save most of them.
	if way > byObject && !again {
		m.mu.Lock()
		w.have = slices.Clone(m.complete)
		m.mu.Unlock()
	}
	way, err = m.fetchBy(ctx, caps, w, way, packBytes)
	var peer *remoteError
	if !caps.version2 && !caps.anyWant && t.ref == "" && errors.As(err, &peer) {
		// The server only accepts tips. The commit may be in the history of one.
		tips, tipsErr := m.session.askTips(ctx, caps)
		if tipsErr != nil {
			return tipsErr
		}
		if len(tips) > 0 {
			err = m.fetchObjects(ctx, caps, want{objects: tips}, packBytes)
		}
	}
	if errors.Is(err, errTooMuch) && m.store.aside {
		return errDiskFull // there would have been room for it in the cache
	}
	if errors.Is(err, errTooMuch) {
		return resolve.Errorf(resolve.ReasonTooLarge, "the repository sends more than %d bytes for one commit (%s)", packBytes, keyPackBytes)
	}
	if err != nil || way <= byObject {
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

// fetchBy fetches in the first way that the server does not refuse, and returns that way.
func (m *mirror) fetchBy(ctx context.Context, caps capabilities, w want, way way, packBytes int64) (way, error) {
	for {
		w.filter = filters[way]
		err := m.fetchObjects(ctx, caps, w, packBytes)
		var damaged *packError
		switch {
		case errors.Is(err, errNoFilter) && m.switchWay(way):
			way++
			w.have = nil
		case len(w.have) > 0 && errors.As(err, &damaged):
			// The pack may depend on objects that are missing here after all.
			w.have = nil
		default:
			return way, err
		}
	}
}

// readCommit reads the commit. It follows annotated tags.
func (m *mirror) readCommit(ctx context.Context, t target) (c commit, err error) {
	name := t.object
	for range 6 {
		kind, data, err := m.readObject(ctx, name, "", maxCommitSize)
		if errors.Is(err, errTooMuch) {
			return c, resolve.Errorf(resolve.ReasonTooLarge, "revision: the commit's own text is larger than %d bytes", maxCommitSize)
		}
		if err != nil {
			return c, err
		}
		switch kind {
		case "commit":
			tree, ok := headerLine(data, "tree ")
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
			if name, ok = headerLine(data, "object "); !ok || !isObjectID(name) {
				return c, errCorrupt
			}
		default:
			return c, resolve.Errorf(resolve.ReasonNotFound, "revision: %s is a %s and no commit", name, kind)
		}
	}
	return c, resolve.Errorf(resolve.ReasonFailed, "revision: a tag of a tag of a tag has no end")
}

// headerLine finds the first line of an object's header that begins with the word.
func headerLine(object []byte, word string) (string, bool) {
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

// sizeError has the size of an object that was not read, and the limit.
type sizeError struct{ size, limit int64 }

func (e *sizeError) Error() string {
	return fmt.Sprintf("%d bytes; at most %d are allowed", e.size, e.limit)
}

// Is makes it errTooMuch.
func (*sizeError) Is(target error) bool { return target == errTooMuch }

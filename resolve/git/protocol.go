package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"sluice.dev/internal/brief"
	"sluice.dev/resolve"
)

// This file speaks git's wire protocol in version 2 and, to servers that do not know it, 0 (gitprotocol-v2 and gitprotocol-pack of
// git's documentation). Each list and each pack is bounded while it is read. What the server sends never becomes an argument of a
// command.

// remote is a connection to a repository's git-upload-pack.
type remote interface {
	// exchange sends one complete request; nil asks for the capabilities of the server. The stream begins with the first packet of the
	// answer. To nil it includes the refs if the server does not know version 2 of the protocol.
	exchange(ctx context.Context, body []byte, version2 bool) (io.ReadCloser, error)
	// close closes idle connections.
	close()
	// forgetRedirects goes back to the requested address, and drops what redirects have led to.
	forgetRedirects()
}

// upload is a git-upload-pack that runs on a server. Its first message is the capabilities.
type upload struct {
	io.Reader
	stdin  io.WriteCloser
	finish func()
}

func (u *upload) Close() error {
	u.finish()
	return nil
}

// exchangeUpload is [remote.exchange] by a git-upload-pack of its own, which start runs. It measures the bytes of the answer; an HTTP
// client measures them itself.
func exchangeUpload(ctx context.Context, body []byte, start func(context.Context) (*upload, error)) (io.ReadCloser, error) {
	came := resolve.AwaitRemote(ctx)
	defer came(0)
	u, err := start(ctx)
	if err != nil {
		return nil, err
	}
	if body != nil {
		if u.Reader, err = pastAdvertisement(u.Reader); err == nil {
			_, err = u.stdin.Write(body)
		}
		if err != nil {
			_ = u.Close()
			return nil, cmp.Or(ctx.Err(), err)
		}
		_ = u.stdin.Close()
	}
	return &measuredStream{u, ctx}, nil
}

// pastAdvertisement skips the first message of git-upload-pack, which is known already, and returns the rest.
func pastAdvertisement(r io.Reader) (io.Reader, error) {
	p := newPackets(r, maxAdvertisement)
	for {
		kind, _, err := p.nextPacket()
		if err != nil {
			return nil, noEOF(err)
		}
		if kind == packetFlush {
			return p.r, nil
		}
	}
}

type measuredStream struct {
	io.ReadCloser

	ctx context.Context //nolint:containedctx // it is that of the request
}

// Read implements [io.Reader].
func (s *measuredStream) Read(p []byte) (int, error) {
	came := resolve.AwaitRemote(s.ctx)
	n, err := s.ReadCloser.Read(p)
	came(n)
	return n, err
}

// Bounds of answers without packs.
const (
	maxAdvertisement = 64 << 20
	maxListedRefs    = 200_000
)

// capabilities are the capabilities of a server.
type capabilities struct {
	version2 bool
	// filter: partial fetches. shallow: fetches of one commit without its history. anyWant: commits that no ref names.
	filter, shallow, anyWant bool
	sideBand                 bool
	ofsDelta                 bool
	// files: a web server provides files, and does not run git.
	files bool
	// format is sha1 or sha256.
	format string
	// head is the branch that HEAD names, where the server says it before it lists refs: not in version 2.
	head string
}

// target is the target of a ref.
type target struct {
	// ref is the full name, empty if a commit was named.
	ref string
	// object is the object that the ref names. commit is the commit after annotated tags were followed, if the server reports it.
	object, commit string
	// symref is the branch that HEAD names; empty for other refs.
	symref string
	// names are the spellings of a revision that mean this ref now, separated by spaces.
	names string
}

// session talks to one repository.
type session struct {
	remote remote
}

// askCapabilities asks for the capabilities of the server. With version 0 of the protocol, visit gets all refs.
func (s *session) askCapabilities(ctx context.Context, visit func(name, object string)) (caps capabilities, err error) {
	stream, err := s.remote.exchange(ctx, nil, true)
	switch {
	case errors.Is(err, errDumb):
		return s.listDumbServer(ctx, visit)
	case err != nil:
		return caps, err
	}
	defer func() { _ = stream.Close() }()
	p := newPackets(stream, maxAdvertisement)
	caps.format = "sha1"
	kind, first, err := p.nextLine()
	if err != nil {
		return caps, noEOF(err)
	}
	if kind == packetFlush {
		// An empty repository in version 0.
		return caps, nil
	}
	if first == "version 2" {
		return caps, caps.readVersion2(p)
	}
	if first == "version 1" {
		if kind, first, err = p.nextLine(); err != nil || kind != packetData {
			return caps, errors.Join(errGarbage, err)
		}
	}
	ref, words, ok := strings.Cut(first, "\x00")
	if !ok {
		return caps, errGarbage
	}
	caps.readWords(words)
	return caps, listRefs(p, ref, visit)
}

// readVersion2 reads the lines after that of the version.
func (c *capabilities) readVersion2(p *packets) error {
	c.version2, c.shallow, c.anyWant, c.sideBand, c.ofsDelta = true, false, true, true, true
	return p.eachLine(func(line string) error {
		name, value, _ := strings.Cut(line, "=")
		switch name {
		case "fetch":
			words := strings.Fields(value)
			c.filter, c.shallow = slices.Contains(words, "filter"), slices.Contains(words, "shallow")
		case "object-format":
			c.format = value
		}
		return nil
	})
}

// readWords reads what version 0 says after the first ref.
func (c *capabilities) readWords(words string) {
	for w := range strings.FieldsSeq(words) {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "shallow":
			c.shallow = true
		case "side-band-64k":
			c.sideBand = true
		case "ofs-delta":
			c.ofsDelta = true
		case "allow-reachable-sha1-in-want":
			c.anyWant = true
		case "object-format":
			c.format = value
		case "symref":
			if branch, ok := strings.CutPrefix(value, "HEAD:"); ok {
				c.head = branch
			}
		}
	}
}

// listRefs reads the refs that version 0 lists; first is the one in the line of the capabilities.
func listRefs(p *packets, first string, visit func(name, object string)) error {
	n := 0
	read := func(ref string) error {
		object, name, ok := strings.Cut(ref, " ")
		if strings.HasPrefix(ref, "shallow ") {
			name = ""
		} else if !ok || !isObjectID(object) {
			return errGarbage
		}
		if visit != nil && name != "" && name != "capabilities^{}" {
			visit(name, object)
		}
		if n++; n > maxListedRefs {
			return errTooMuch
		}
		return nil
	}
	if err := read(first); err != nil {
		return err
	}
	return p.eachLine(read)
}

// noEOF makes the end of a stream an error where more has to come. io.EOF alone would count as a clean end.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// askRefs asks for the targets of refs with these names.
func (s *session) askRefs(ctx context.Context, caps capabilities, names []string) (map[string]target, error) {
	found := map[string]target{}
	err := s.eachRef(ctx, caps, names, func(t target) {
		before, ok := found[t.ref]
		switch {
		case !slices.Contains(names, t.ref) || t.object == "" && !ok:
			return
		case ok && t.symref != "":
			before.symref = t.symref // version 0 reports it apart
			t = before
		case ok:
			t.object = before.object // version 0 reports the target of a tag in a second line
		}
		found[t.ref] = t
	})
	return found, err
}

// askTips asks for the targets of branches and tags, and returns their object IDs in order. There may be hundreds of thousands, so it
// keeps nothing else.
func (s *session) askTips(ctx context.Context, caps capabilities) ([]string, error) {
	var tips []string
	of := []string{"refs/heads/", "refs/tags/"}
	err := s.eachRef(ctx, caps, of, func(t target) {
		if t.object != "" && slices.ContainsFunc(of, func(prefix string) bool { return strings.HasPrefix(t.ref, prefix) }) {
			tips = append(tips, strings.Clone(t.object))
		}
	})
	slices.Sort(tips)
	return slices.Compact(tips), err
}

// otherNames says which branches and tags there are in place of one that is missing; empty if the server does not say so.
func (s *session) otherNames(ctx context.Context, caps capabilities, missing string) string {
	var names []string
	head := ""
	err := s.eachRef(ctx, caps, []string{"HEAD", "refs/heads/", "refs/tags/"}, func(t target) {
		short := shortName(t.ref)
		switch {
		case t.symref != "" && checkRevision(t.symref) == nil:
			head = shortName(t.symref)
		case t.ref != short && len(names) < maxCompared && checkRevision(short) == nil:
			names = append(names, strings.Clone(short))
		}
	})
	if err != nil {
		return ""
	}
	if len(names) == 0 {
		return "; the repository has no branch and no tag"
	}
	out := brief.Hint(strings.TrimPrefix(shortName(missing), "origin/"), names)
	if head != "" {
		out += fmt.Sprintf("; the default branch is %q", head)
	}
	return out
}

// eachRef visits the refs below these prefixes, and possibly others. A line with only the commit of a tag has no object.
func (s *session) eachRef(ctx context.Context, caps capabilities, prefixes []string, visit func(target)) error {
	if !caps.version2 {
		now, err := s.askCapabilities(ctx, func(name, object string) {
			if name, peeled := strings.CutSuffix(name, "^{}"); peeled {
				visit(target{ref: name, commit: object})
			} else {
				visit(target{ref: name, object: object, commit: object})
			}
		})
		if err == nil && now.head != "" {
			visit(target{ref: "HEAD", symref: now.head})
		}
		return err
	}
	var q request
	q.writeLine("command=ls-refs")
	q.writeLine("agent=%s", agent)
	q.writeLine("object-format=%s", caps.format)
	q.writeDelim()
	// peel gives the commit of an annotated tag in the same line, and symrefs the branch that HEAD names.
	q.writeLine("peel")
	q.writeLine("symrefs")
	for _, n := range prefixes {
		q.writeLine("ref-prefix %s", n)
	}
	q.writeFlush()
	stream, err := s.remote.exchange(ctx, q.Bytes(), true)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	n := 0
	return newPackets(stream, maxAdvertisement).eachLine(func(line string) error {
		if n++; n > maxListedRefs {
			return errTooMuch
		}
		words := strings.Split(line, " ")
		switch {
		case len(words) < 2 || !isObjectID(words[0]) && words[0] != "unborn":
			return errGarbage
		case words[0] == "unborn":
			return nil // HEAD of a repository without a commit
		}
		t := target{ref: words[1], object: words[0], commit: words[0]}
		for _, attribute := range words[2:] {
			if peeled, ok := strings.CutPrefix(attribute, "peeled:"); ok && isObjectID(peeled) {
				t.commit = peeled
			}
			if branch, ok := strings.CutPrefix(attribute, "symref-target:"); ok && t.ref == "HEAD" {
				t.symref = branch
			}
		}
		visit(t)
		return nil
	})
}

// want describes one fetch.
type want struct {
	objects []string
	// shallow: without history.
	shallow bool
	// filter is one of git's filter-specs, empty for all objects.
	filter string
	// most bounds a pack that is fetched as a whole, in bytes.
	most int64
	// have are commits that are complete here, except for objects that the filter omits.
	have []string
}

// fetchPackTo writes the server's pack to w, at most limit bytes.
func (s *session) fetchPackTo(ctx context.Context, caps capabilities, want want, w io.Writer, limit int64) error {
	var q request
	if caps.version2 {
		q.writeLine("command=fetch")
		q.writeLine("agent=%s", agent)
		q.writeLine("object-format=%s", caps.format)
		q.writeDelim()
		// Deltas that name their base by its place in the pack are shorter than those that name it by its ID.
		q.writeLine("ofs-delta")
		q.writeLine("no-progress")
		if len(want.have) > 0 {
			// Git omits trees that a shallow commit has only if the client accepts thin packs.
			q.writeLine("thin-pack")
		}
		for _, o := range want.objects {
			q.writeLine("want %s", o)
		}
	} else {
		words := []string{"", "no-progress", "agent=" + agent}
		for word, has := range map[string]bool{"side-band-64k": caps.sideBand, "ofs-delta": caps.ofsDelta} {
			if has {
				words = append(words, word)
			}
		}
		for i, o := range want.objects {
			if i > 0 {
				words = nil
			}
			q.writeLine("want %s%s", o, strings.Join(words, " "))
		}
	}
	if want.shallow {
		if caps.version2 {
			for _, h := range want.have {
				q.writeLine("shallow %s", h)
			}
		}
		q.writeLine("deepen 1")
	}
	if want.filter != "" {
		q.writeLine("filter %s", want.filter)
	}
	if caps.version2 {
		for _, h := range want.have {
			q.writeLine("have %s", h)
		}
		q.writeLine("done")
		q.writeFlush()
	} else {
		q.writeFlush()
		q.writeLine("done")
	}
	stream, err := s.remote.exchange(ctx, q.Bytes(), caps.version2)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	// Progress and framing count as well, so the limit of the stream is somewhat larger than that of the pack.
	p := newPackets(stream, limit+limit/64+1<<20)
	if err := toPack(p, caps, want); err != nil {
		return noEOF(err)
	}
	return copyPack(p, caps, w, limit)
}

// toPack reads up to the begin of the pack.
func toPack(p *packets, caps capabilities, want want) error {
	shallow := want.shallow && !caps.version2
	for {
		kind, l, err := p.nextLine()
		if err != nil {
			return err
		}
		switch {
		case kind == packetFlush && shallow:
			shallow = false
		case kind == packetDelim && caps.version2:
		case kind != packetData:
			return errGarbage
		case caps.version2 && l == "packfile":
			return nil
		case !caps.version2 && l == "NAK":
			return nil
		}
	}
}

// copyPack writes the pack to w, at most limit bytes. With side bands, the first byte of each packet tells data from progress and from
// an error of the server.
func copyPack(p *packets, caps capabilities, w io.Writer, limit int64) error {
	if !caps.version2 && !caps.sideBand {
		n, err := io.Copy(w, io.LimitReader(p.r, limit+1))
		if n > limit {
			return errTooMuch
		}
		return err
	}
	for {
		kind, b, err := p.nextPacket()
		if err != nil {
			return noEOF(err)
		}
		if kind != packetData {
			return nil
		}
		if len(b) == 0 {
			return errGarbage
		}
		switch b[0] {
		case 1:
			limit -= int64(len(b) - 1)
			if limit < 0 {
				return errTooMuch
			}
			if _, err := w.Write(b[1:]); err != nil {
				return err
			}
		case 2:
		case 3:
			return newRemoteError(b[1:])
		default:
			return errGarbage
		}
	}
}

// candidateRefs are the refs that a name may mean. The first that exists wins, as in git fetch (ref_fetch_rules in its refs.c).
// pull/1/head and merge-requests/7/head are names, too.
func candidateRefs(revision string) []string {
	out := []string{"refs/" + revision, "refs/tags/" + revision, "refs/heads/" + revision}
	if revision == "HEAD" || strings.HasPrefix(revision, "refs/") {
		out = append([]string{revision}, out...)
	}
	return out
}

// firstFound returns the first of the candidates that exists.
func firstFound(names []string, found map[string]target) (target, bool) {
	for _, n := range names {
		if t, ok := found[n]; ok {
			return t, true
		}
	}
	return target{}, false
}

// shortName returns the name of a branch or tag without refs/heads/ or refs/tags/.
func shortName(revision string) string {
	rest := strings.TrimPrefix(revision, "refs/")
	for _, prefix := range []string{"heads/", "tags/"} {
		if short, ok := strings.CutPrefix(rest, prefix); ok {
			return short
		}
	}
	return revision
}

// spellingsOf returns the revisions that mean the ref of t. found has the refs that each of them might mean.
func spellingsOf(t target, found map[string]target) string {
	names := []string{"HEAD", t.ref, shortName(t.ref)}
	if t.symref != "" {
		names = append(names, t.symref, shortName(t.symref))
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		means, ok := firstFound(candidateRefs(name), found)
		same := means.ref == t.ref || means.ref == t.symref || means.symref == t.ref
		return !ok || !same || checkRevision(name) != nil
	})
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// agent is the name of the client. Some servers answer at an address only if it begins like this.
const agent = "git/2.40.0-sluice"

package git

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

func TestBadServersGiveTrueReasons(t *testing.T) {
	reset := func(w http.ResponseWriter, _ *http.Request) bool {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = c.Close()
		}
		return true
	}
	status := func(code int, header ...string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			if len(header) == 2 {
				w.Header().Set(header[0], header[1])
			}
			http.Error(w, "secret-of-server", code)
			return true
		}
	}
	answer := func(contentType, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	const advert = "application/x-git-upload-pack-advertisement"
	endless := func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", advert)
		_, _ = io.WriteString(w, "001e# service=git-upload-pack\n0000000eversion 2\n")
		line := []byte(fmt.Sprintf("%04x%s\n", 1005, strings.Repeat("x", 1000)))
		for r.Context().Err() == nil {
			if _, err := w.Write(line); err != nil {
				break
			}
		}
		return true
	}
	// later answers so from the n-th request on.
	later := func(n int64, f func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
		var count atomic.Int64
		return func(w http.ResponseWriter, r *http.Request) bool { return count.Add(1) >= n && f(w, r) }
	}
	// packs answers so to requests for packs.
	packs := func(f func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			return strings.Contains(string(body), "want ") && f(w, r)
		}
	}
	const result = "application/x-git-upload-pack-result"
	packet := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	for _, c := range []struct {
		name      string
		intercept func(http.ResponseWriter, *http.Request) bool
		reason    resolve.Reason
		transient bool
		after     time.Duration
	}{
		{"reset", reset, resolve.ReasonUnavailable, true, 0},
		{"reset in the middle", later(3, reset), resolve.ReasonUnavailable, true, 0},
		{"500", status(500), resolve.ReasonUnavailable, true, 0},
		{"503", status(503, "Retry-After", "7"), resolve.ReasonUnavailable, true, 7 * time.Second},
		{"429", status(429, "Retry-After", "30"), resolve.ReasonUnavailable, true, 30 * time.Second},
		{"429 in the middle", later(2, status(429, "Retry-After", "99999999")), resolve.ReasonUnavailable, true, time.Hour},
		{"429 without a number", status(429, "Retry-After", "-1"), resolve.ReasonUnavailable, true, 0},
		{"401", status(401), resolve.ReasonDenied, false, 0},
		{"403", status(403), resolve.ReasonDenied, false, 0},
		{"404", status(404), resolve.ReasonNotFound, false, 0},
		{"418", status(418), resolve.ReasonFailed, false, 0},
		{"a web page", answer("text/html", "<html>"), resolve.ReasonFailed, false, 0},
		{"garbage", answer(advert, "what is this"), resolve.ReasonFailed, false, 0},
		{"nothing", answer(advert, ""), resolve.ReasonUnavailable, true, 0},
		{"half a packet", answer(advert, "001e# serv"), resolve.ReasonUnavailable, true, 0},
		{"length 3", answer(advert, "001e# service=git-upload-pack\n00000003"), resolve.ReasonFailed, false, 0},
		{"endless", endless, resolve.ReasonTooLarge, false, 0},
		{"unknown format", answer(advert, "001e# service=git-upload-pack\n0000"+packet("version 2\n")+packet("object-format=md5\n")+"0000"), resolve.ReasonFailed, false, 0},
		{"refs that are none", later(2, answer(result, packet("x refs/heads/main\n")+"0000")), resolve.ReasonFailed, false, 0},
		{"an error", later(2, answer(result, packet("ERR no\x1b[31mway %s"))), resolve.ReasonFailed, false, 0},
		{"a pack of garbage", later(3, answer(result, packet("packfile\n")+packet("\x01PACKgarbage garbage garbage")+"0000")), resolve.ReasonFailed, false, 0},
		{"no pack", later(3, answer(result, packet("packfile\n")+packet("\x01hello, this is no pack")+"0000")), resolve.ReasonFailed, false, 0},
		{"an empty pack", packs(answer(result, packet("packfile\n")+packet("\x01PACK\x00\x00\x00\x02\x00\x00\x00\x00")+"0000")), resolve.ReasonNotFound, false, 0},
		{"a huge object announced", packs(answer(result, packet("packfile\n")+packet("\x01"+bomb(1))+"0000")), resolve.ReasonFailed, false, 0},
		{"a huge object in a large pack", packs(answer(result, packet("packfile\n")+packet("\x01"+bomb(1000))+"0000")), resolve.ReasonFailed, false, 0},
		{"half a pack", later(3, answer(result, packet("packfile\n")+packet("\x01PACK\x00\x00\x00\x02"))), resolve.ReasonUnavailable, true, 0},
		{"a fatal message", later(3, answer(result, packet("packfile\n")+packet("\x03out of memory")+"0000")), resolve.ReasonFailed, false, 0},
		{"an unknown band", later(3, answer(result, packet("packfile\n")+packet("\x09x")+"0000")), resolve.ReasonFailed, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := gittest.NewServer(t, false)
			gittest.NewOrigin(t, s.Root, "r.git", someFiles)
			s.Set(c.intercept)
			g := newResolver(t, nil)
			e := failure(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml"), c.reason)
			if e.Transient != c.transient || e.RetryAfter != c.after {
				t.Errorf("transient %v after %s, want %v after %s: %s", e.Transient, e.RetryAfter, c.transient, c.after, e.Msg)
			}
			if strings.ContainsAny(e.Msg, "\x1b\n") || strings.Contains(e.Msg, "secret-of-server") {
				t.Errorf("text %q", e.Msg)
			}
			if l := leftovers(t, g); len(l) > 0 {
				t.Errorf("left over: %v", l)
			}
			s.Set(nil)
			wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml"), "kind: Task\n")
		})
	}
}

// bomb is a pack that says it has so many objects, and begins with a tree of 64 GiB.
func bomb(count uint32) string {
	b := append([]byte("PACK"), 0, 0, 0, 2)
	b = binary.BigEndian.AppendUint32(b, count)
	size := uint64(64 << 30)
	b = append(b, 0x80|2<<4|byte(size&15))
	for size >>= 4; size > 0; size >>= 7 {
		more := byte(0)
		if size > 127 {
			more = 0x80
		}
		b = append(b, more|byte(size&127))
	}
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write(make([]byte, 1<<20))
	_ = w.Close()
	b = append(b, z.Bytes()...)
	sum := sha1.Sum(b)
	return string(append(b, sum[:]...))
}

// deltaBomb is a pack of a few objects: one of a megabyte, and deltas that repeat parts of it until each is many times as large.
func deltaBomb(deltas, copies int) string {
	const size = 1 << 20
	base := make([]byte, size)
	// Any numbers that do not compress.
	for i, x := 0, uint32(1); i < size; i++ {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		base[i] = byte(x)
	}
	var b bytes.Buffer
	b.WriteString("PACK\x00\x00\x00\x02")
	_ = binary.Write(&b, binary.BigEndian, uint32(1+deltas))
	object := func(kind byte, data []byte, before ...byte) {
		n := len(data)
		c := kind<<4 | byte(n&15)
		for n >>= 4; n > 0; n >>= 7 {
			b.WriteByte(c | 0x80)
			c = byte(n & 0x7f)
		}
		b.WriteByte(c)
		b.Write(before)
		z := zlib.NewWriter(&b)
		_, _ = z.Write(data)
		_ = z.Close()
	}
	object(3, base)
	h := sha1.New()
	_, _ = fmt.Fprintf(h, "blob %d\x00", size)
	_, _ = h.Write(base)
	id := h.Sum(nil)
	for d := range deltas {
		delta := binary.AppendUvarint(nil, size)
		delta = binary.AppendUvarint(delta, uint64(copies*(size/2)))
		for c := range copies {
			// Copy half of the base from an offset of its own.
			at := (d*copies + c) * 4099 % (size / 2)
			delta = append(delta, 0x80|0x01|0x02|0x04|0x10|0x20|0x40, byte(at), byte(at>>8), byte(at>>16), 0, 0, byte(size/2>>16))
		}
		object(7, delta, id...)
	}
	sum := sha1.Sum(b.Bytes())
	b.Write(sum[:])
	return b.String()
}

// Unpacked, the objects of a small pack may take a thousand times its size: on disk they do not, and what they take is counted.
func TestDeltaBombsTakeNoMoreDiskThanIsCounted(t *testing.T) {
	g := newResolver(t, nil)
	m, err := g.store.acquireMirror("m", "h", func() (remote, error) { return said{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer g.store.releaseMirror(m)
	if err := m.createOnDisk("sha1"); err != nil {
		t.Fatal(err)
	}
	for _, copies := range []int{4, 40} {
		pack := deltaBomb(4, copies)
		if len(pack) >= 8<<20 {
			t.Fatalf("the pack has %d bytes and is not small", len(pack))
		}
		if err := g.store.receivePack(deadline(t), m, false, 512<<20, func(f io.Writer) error {
			_, err := io.WriteString(f, pack)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		var size int64
		if err := filepath.WalkDir(m.dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && !d.IsDir() {
				size += onDisk(info.Size())
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if counted := m.sizeOnDisk(); counted < size*9/10 || counted > size*11/10+1<<20 {
			t.Errorf("%d bytes are counted, %d are there", counted, size)
		}
		if size > 64<<20 {
			t.Errorf("a pack of %d bytes takes %d on disk", len(pack), size)
		}
	}
	if left := leftovers(t, g); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestAddressesThatAreNoneLeaveNothingInMemory(t *testing.T) {
	s := gittest.NewServer(t, false)
	g := newResolver(t, nil)
	for i := range 20 {
		wantReason(t, g, ask(nil, "url", fmt.Sprintf("%s/none%d.git", s.URL, i), "pathInRepo", "x"), resolve.ReasonNotFound)
	}
	if n := len(g.store.mirrors); n != 0 {
		t.Errorf("%d mirrors", n)
	}
}

// hang is an intercept that answers nothing from the n-th request on, until the client goes; gone counts those.
func hang(n int64, gone *atomic.Int64, arrived chan<- struct{}) func(http.ResponseWriter, *http.Request) bool {
	var count atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) bool {
		if count.Add(1) < n {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if n >= 3 {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			_, _ = io.WriteString(w, "000dpackfile\n0009\x01PACK")
			_ = http.NewResponseController(w).Flush()
		}
		arrived <- struct{}{}
		<-r.Context().Done()
		gone.Add(1)
		return true
	}
}

func TestCanceledRequestLeavesNothing(t *testing.T) {
	for n := int64(1); n <= 4; n++ {
		t.Run(fmt.Sprintf("hangs at request %d", n), func(t *testing.T) {
			s := gittest.NewServer(t, false)
			gittest.NewOrigin(t, s.Root, "r.git", someFiles)
			var gone atomic.Int64
			arrived := make(chan struct{}, 10)
			s.Set(hang(n, &gone, arrived))
			g := newResolver(t, nil)
			ctx, cancel := context.WithCancel(deadline(t))
			done := make(chan error, 1)
			go func() {
				_, err := g.Resolve(ctx, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml"))
				done <- err
			}()
			<-arrived
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want context.Canceled", err)
			}
			until(t, func() bool { return gone.Load() == 1 && len(leftovers(t, g)) == 0 })
			if n := len(g.store.index.turns.all); n != 0 {
				t.Errorf("%d git processes", n)
			}
		})
	}
}

func TestTimeOutOfTheConfiguration(t *testing.T) {
	s := gittest.NewServer(t, false)
	var gone atomic.Int64
	s.Set(hang(1, &gone, make(chan struct{}, 1)))
	e := failure(t, newResolver(t, nil), ask(nil, "url", s.URL+"/r.git", "pathInRepo", "x", ":fetch-timeout", "50ms"), resolve.ReasonTimedOut)
	if !errors.Is(e, context.DeadlineExceeded) {
		t.Errorf("cause %v", e.Err)
	}
}

func TestHangingServersDoNotHoldUpOthers(t *testing.T) {
	bad, good := gittest.NewServer(t, false), gittest.NewServer(t, false)
	gittest.NewOrigin(t, good.Root, "r.git", someFiles)
	gittest.NewOrigin(t, bad.Root, "r.git", someFiles)
	var gone atomic.Int64
	arrived := make(chan struct{}, 500)
	bad.Set(hang(1, &gone, arrived))
	g := newResolver(t, nil)
	ctx, cancel := context.WithCancel(deadline(t))
	done := make(chan error, 200)
	for i := range 200 {
		go func() {
			_, err := g.Resolve(ctx, ask(nil, "url", fmt.Sprintf("%s/r%d.git", bad.URL, i), "pathInRepo", "x"))
			done <- err
		}()
	}
	for range 200 {
		<-arrived
	}
	wantData(t, g, ask(nil, "url", good.URL+"/r.git", "pathInRepo", "task.yaml"), "kind: Task\n")
	if n := gone.Load(); n != 0 {
		t.Errorf("%d of the hanging ones have ended", n)
	}
	cancel()
	for range 200 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("one that hangs ended with %v", err)
		}
	}
}

func TestWaitersOfACanceledRequestAreServed(t *testing.T) {
	s := gittest.NewServer(t, false)
	gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	release, arrived := make(chan struct{}), make(chan struct{}, 1)
	var once atomic.Bool
	s.Set(func(http.ResponseWriter, *http.Request) bool {
		if once.CompareAndSwap(false, true) {
			arrived <- struct{}{}
			<-release
		}
		return false
	})
	g := newResolver(t, nil)
	first, cancel := context.WithCancel(deadline(t))
	r := ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml")
	done := make(chan error, 1)
	go func() {
		_, err := g.Resolve(first, r)
		done <- err
	}()
	<-arrived
	second := make(chan error, 1)
	go func() {
		_, err := g.Resolve(deadline(t), r)
		second <- err
	}()
	until(t, func() bool {
		g.store.mu.Lock()
		defer g.store.mu.Unlock()
		for _, m := range g.store.mirrors {
			m.refFlight.mu.Lock()
			f := m.refFlight.runs["main"]
			ok := f != nil && f.waiters == 2
			m.refFlight.mu.Unlock()
			if ok {
				return true
			}
		}
		return false
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("first: %v", err)
	}
	close(release)
	if err := <-second; err != nil {
		t.Errorf("second: %v", err)
	}
}

func TestLargeContentIsRefused(t *testing.T) {
	s := gittest.NewServer(t, false)
	random := strings.Builder{}
	for i := range 40_000 {
		fmt.Fprintf(&random, "%x", uint64(i)*0x9E3779B97F4A7C15)
	}
	gittest.NewOrigin(t, s.Root, "r.git", map[string]string{
		"zeros.yaml": strings.Repeat("0", 3<<20), "random.yaml": random.String(), "small.yaml": "a: 1\n",
		"many/a.yaml": strings.Repeat("a", 60<<10), "many/b.yaml": strings.Repeat("b", 60<<10),
	})
	for _, filter := range []string{"true", "false"} {
		gittest.Run(t, filepath.Join(s.Root, "r.git"), nil, "config", "uploadpack.allowFilter", filter)
		g := newResolver(t, nil)
		for path, want := range map[string]string{
			"zeros.yaml": `"zeros.yaml" has `, "random.yaml": `"random.yaml" has `,
			// Each of its files is within the limit.
			"many": `"many" has more than the 102400 bytes that are allowed`,
		} {
			r := ask(nil, "url", s.URL+"/r.git", "pathInRepo", path)
			r.MaxBytes = 100 << 10
			e := failure(t, g, r, resolve.ReasonTooLarge)
			var name string
			var has, most int64
			if n, _ := fmt.Sscanf(e.Msg, "pathInRepo: %q has %d bytes; at most %d are allowed", &name, &has, &most); !strings.Contains(e.Msg, want) || n == 3 && has <= most {
				t.Errorf("filter=%s: %s", filter, e.Msg)
			}
		}
		wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "small.yaml"), "a: 1\n")
		if l := leftovers(t, g); len(l) > 0 {
			t.Errorf("left over: %v", l)
		}
	}
	wantReason(t, newResolver(t, nil), ask(nil, "url", s.URL+"/r.git", "pathInRepo", "small.yaml", ":max-pack-bytes", "20480"), resolve.ReasonTooLarge)
}

func TestRedirects(t *testing.T) {
	home, other := gittest.NewServer(t, true), gittest.NewServer(t, true)
	gittest.NewOrigin(t, other.Root, "r.git", someFiles)
	gittest.NewOrigin(t, home.Root, "new.git", someFiles)
	var seen atomic.Value
	var at atomic.Int64
	other.Set(func(_ http.ResponseWriter, r *http.Request) bool {
		at.Add(1)
		if a := r.Header.Get("Authorization"); a != "" {
			seen.Store(a)
		}
		return false
	})
	var to string
	home.Set(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/r.git") {
			return false
		}
		http.Redirect(w, r, to+strings.TrimPrefix(r.URL.Path, "/r.git")+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
		return true
	})
	sec := secrets{"ns/tok": {"token": []byte("s3cret")}}
	request := func() *resolve.Request {
		return ask(sec, "url", home.URL+"/r.git", "pathInRepo", "task.yaml", "gitToken", "tok", ":ca-bundle", home.CA)
	}
	to = other.URL + "/r.git"
	wantData(t, newResolver(t, nil), request(), "kind: Task\n")
	if v := seen.Load(); v != nil || at.Load() == 0 {
		t.Errorf("the other host was asked %d times and got the credential %v", at.Load(), v)
	}
	to = home.URL + "/new.git"
	wantData(t, newResolver(t, nil), request(), "kind: Task\n")
	for _, bad := range []string{"http://127.0.0.1:1/x", "file:///etc", "https://169.254.169.254/x", "https://u:p@127.0.0.1:1/x"} {
		to = bad
		wantReason(t, newResolver(t, nil), request(), resolve.ReasonForbidden)
	}
	to = home.URL + "/r.git" // in a circle
	wantReason(t, newResolver(t, nil), request(), resolve.ReasonFailed)
}

func TestAddressesThatTheGuardRefusesAreNotDialled(t *testing.T) {
	s := gittest.NewServer(t, false)
	g := newResolver(t, func(o *Options) { o.Network.Allow, o.Network.Resolver = nil, nil })
	for _, u := range []string{s.URL + "/r.git", "http://169.254.169.254/x", "https://localhost/x", "ssh://git@10.0.0.1/x", "http://[::1]/x"} {
		r := ask(secrets{"ns/k": {"ssh-privatekey": []byte("x"), "known_hosts": nil}}, "url", u, ":allow-private-addresses", "false", "pathInRepo", "x")
		if strings.HasPrefix(u, "ssh") {
			key := gittest.NewSSHKey(t)
			r.Params["authSecret"] = resolve.Value{String: "k"}
			r.Secrets = secrets{"ns/k": {"ssh-privatekey": key.PEM, "known_hosts": []byte("10.0.0.1 " + key.Public)}}
		}
		wantReason(t, g, r, resolve.ReasonForbidden)
	}
	// A proxy is no way around.
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Errorf("the proxy was asked for %s", r.URL) }))
	defer proxy.Close()
	wantReason(t, g, ask(nil, "url", "http://169.254.169.254/x", "pathInRepo", "x", ":http-proxy", proxy.URL), resolve.ReasonForbidden)
	if n := s.Requests.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// until waits for a condition.
func until(t testing.TB, ok func() bool) {
	t.Helper()
	ctx := deadline(t)
	for !ok() {
		if ctx.Err() != nil {
			t.Fatal("it does not come to be")
		}
		time.Sleep(time.Millisecond)
	}
}

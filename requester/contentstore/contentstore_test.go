package contentstore_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"

	"sluice.dev/requester/contentstore"
)

// server is a registry with something in front of it.
type server struct {
	*httptest.Server

	mu     sync.Mutex
	calls  []string
	before func(w http.ResponseWriter, r *http.Request) bool // true: it has answered
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.calls = append(s.calls, r.Method+" "+r.URL.Path)
		before := s.before
		s.mu.Unlock()
		if before == nil || !before(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) store(t *testing.T, o contentstore.Options) *contentstore.Store {
	t.Helper()
	o.PlainHTTP = true
	store, err := contentstore.New(strings.TrimPrefix(s.URL, "http://")+"/team/contents", o)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// answer makes the server answer like this where it is asked for the path.
func (s *server) answer(path string, with func(w http.ResponseWriter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, path) {
			return false
		}
		with(w)
		return true
	}
}

func TestContentComesBackAndIsSentOnce(t *testing.T) {
	s := newServer(t)
	store := s.store(t, contentstore.Options{})
	for _, data := range [][]byte{{}, []byte("kind: Task\n"), bytes.Repeat([]byte{0xff, 0}, 3<<20)} {
		var refs [2]string
		for i := range refs {
			var err error
			if refs[i], err = store.Put(t.Context(), data); err != nil {
				t.Fatal(err)
			}
		}
		if refs[0] != refs[1] || !strings.HasPrefix(refs[0], strings.TrimPrefix(s.URL, "http://")+"/team/contents@sha256:") {
			t.Errorf("references %q", refs)
		}
		got, err := store.Get(t.Context(), refs[0], contentstore.Digest(data), int64(len(data)))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, %v; want %d", len(got), err, len(data))
		}
	}
	uploads := map[string]int{}
	for _, c := range s.calls {
		if method, path, _ := strings.Cut(c, " "); method == http.MethodPut && strings.Contains(path, "/blobs/") {
			uploads["blobs"]++
		}
	}
	// Three contents and the empty configuration.
	if diff := cmp.Diff(map[string]int{"blobs": 4}, uploads); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNotTheContentIsRefused(t *testing.T) {
	s := newServer(t)
	store := s.store(t, contentstore.Options{})
	data := []byte("the content")
	digest := contentstore.Digest(data)
	ref, err := store.Put(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(data))
	_, of, _ := strings.Cut(ref, "@")
	forged := strings.Replace(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","layers":[{"mediaType":"application/vnd.sluice.resource.content.v1","digest":"DIGEST","size":11}]}`, "DIGEST", digest, 1)
	manifest := func(text string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", of)
			_, _ = io.WriteString(w, text)
		}
	}
	endless := func(w http.ResponseWriter) {
		block := make([]byte, 1<<16)
		for range 1 << 10 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
		t.Error("64 MiB are read of a content of 11 bytes")
	}
	for name, test := range map[string]struct {
		ref, digest string
		size        int64
		path        string
		answer      func(w http.ResponseWriter)
		want        error
	}{
		"another repository":  {strings.Replace(ref, "/team/", "/other/", 1), digest, size, "", nil, contentstore.ErrForeign},
		"another registry":    {"evil.test/team/contents@" + of, digest, size, "", nil, contentstore.ErrForeign},
		"a tag":               {strings.Split(ref, "@")[0] + ":latest", digest, size, "", nil, contentstore.ErrForeign},
		"nothing":             {"", digest, size, "", nil, contentstore.ErrForeign},
		"a path as digest":    {strings.Split(ref, "@")[0] + "@../../x", digest, size, "", nil, contentstore.ErrForeign},
		"a weak digest":       {strings.Split(ref, "@")[0] + "@sha1:" + strings.Repeat("0", 40), digest, size, "", nil, contentstore.ErrForeign},
		"another digest":      {ref, contentstore.Digest([]byte("x")), size, "", nil, contentstore.ErrMismatch},
		"no digest":           {ref, "", size, "", nil, contentstore.ErrMismatch},
		"less":                {ref, digest, size - 1, "", nil, contentstore.ErrMismatch},
		"more":                {ref, digest, size + 1, "", nil, contentstore.ErrMismatch},
		"less than nothing":   {ref, digest, -1, "", nil, contentstore.ErrMismatch},
		"a forged manifest":   {ref, digest, size, "/manifests/", manifest(forged), errAny},
		"a manifest of junk":  {ref, digest, size, "/manifests/", manifest("{"), errAny},
		"an endless manifest": {ref, digest, size, "/manifests/", endless, errAny},
		"other bytes":         {ref, digest, size, "/blobs/", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "the c0ntent") }, errAny},
		"fewer bytes":         {ref, digest, size, "/blobs/", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "the") }, errAny},
		"an endless blob":     {ref, digest, size, "/blobs/", endless, errAny},
		"gone":                {ref, digest, size, "/manifests/", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, errAny},
		"an endless error": {ref, digest, size, "/manifests/", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			endless(w)
		}, errAny},
	} {
		s.answer(cmpOr(test.path, "\x00"), test.answer)
		got, err := store.Get(t.Context(), test.ref, test.digest, test.size)
		if got != nil || err == nil || !errors.Is(test.want, errAny) && !errors.Is(err, test.want) || len(err.Error()) > 20_000 {
			t.Errorf("%s: %d bytes, %.1000v", name, len(got), err)
		}
	}
	// A layer of another type is no content.
	s.answer("\x00", nil)
	loop := 0
	s.mu.Lock()
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			loop++
			http.Redirect(w, r, fmt.Sprintf("%s?%d", r.URL.Path, loop), http.StatusFound)
			return true
		}
		return false
	}
	s.mu.Unlock()
	if _, err := store.Get(t.Context(), ref, digest, size); err == nil || loop > 50 {
		t.Errorf("%d redirects, %v", loop, err)
	}
}

// errAny is any error.
var errAny = errors.New("any")

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestCredentialsAreThoseOfTheRegistry(t *testing.T) {
	s := newServer(t)
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:password"))
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == want {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	config := func(host string) []byte {
		text, err := json.Marshal(map[string]any{"auths": map[string]any{host: map[string]string{"auth": strings.TrimPrefix(want, "Basic ")}}, "credsStore": "evil"})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for host, ok := range map[string]bool{s.URL + "/v2/": true, strings.TrimPrefix(s.URL, "http://"): true, "other.test": false} {
		keychain, err := contentstore.ParseCredentials(config(host))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.store(t, contentstore.Options{Credentials: keychain}).Put(t.Context(), []byte("x"))
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "password") {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := contentstore.ParseCredentials([]byte(`{"auths": {"h": {"auth": "c2VjcmV0"}}}`)); err == nil || strings.Contains(err.Error(), "c2VjcmV0") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}

func TestPlainHTTPIsAllowedFirst(t *testing.T) {
	s := newServer(t)
	store, err := contentstore.New(strings.TrimPrefix(s.URL, "http://")+"/c", contentstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), []byte("x")); err == nil || len(s.calls) > 0 {
		t.Errorf("%v %v", err, s.calls)
	}
}

func TestARepositoryIsNamedInFull(t *testing.T) {
	for _, name := range []string{"", "contents", "team/contents", "reg.test", "reg.test/", "https://reg.test/c", "reg.test/c:tag", "reg.test/c@sha256:0", "reg.test/UPPER"} {
		if _, err := contentstore.New(name, contentstore.Options{}); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestADeadlineEndsAHangingRegistry(t *testing.T) {
	s := newServer(t)
	store := s.store(t, contentstore.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	s.before = func(http.ResponseWriter, *http.Request) bool {
		cancel()
		<-ctx.Done()
		return false
	}
	if _, err := store.Put(ctx, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

package git

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"sluice.dev/resolve/verify"
)

// said is a remote that gives one answer to all.
type said struct{ answer []byte }

func (s said) exchange(context.Context, []byte, bool) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(s.answer)), nil
}

func (said) close()           {}
func (said) forgetRedirects() {}

func FuzzProtocol(f *testing.F) {
	for _, seed := range []string{
		"000eversion 2\n000afetch\n0000", "000dpackfile\n0009\x01PACK0000", "0008NAK\n0009\x01PACK0000", "0000", "0003", "ffff", "0004",
		"003d" + strings.Repeat("1", 40) + " refs/heads/main\n0000", "0045" + strings.Repeat("1", 40) + " refs/heads/main\x00shallow \n0000",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		s := session{remote: said{answer}}
		ctx := t.Context()
		_, _ = s.askCapabilities(ctx, func(name, object string) {
			if !isObjectID(object) {
				t.Errorf("ref %q holds %q", name, object)
			}
		})
		for _, caps := range []capabilities{{version2: true, sideBand: true}, {sideBand: true}, {}} {
			found, err := s.askRefs(ctx, caps, []string{"refs/heads/main"})
			for name, v := range found {
				if err == nil && (name != "refs/heads/main" || !isObjectID(v.object) && caps.version2) {
					t.Errorf("found %q %+v", name, v)
				}
			}
			var out bytes.Buffer
			_ = s.fetchPackTo(ctx, caps, want{objects: []string{strings.Repeat("1", 40)}, shallow: true}, &out, 100)
			if out.Len() > 101 {
				t.Errorf("%d bytes written", out.Len())
			}
		}
	})
}

func FuzzAddresses(f *testing.F) {
	for _, seed := range []string{"https://h/x.git", "u@h:x/y", "ssh://u@[::1]:22/x", "ext::x", "h:../x", "http://h:99999/%2e%2e/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		r, err := parseRepository(raw)
		if err != nil {
			return
		}
		if r.host == "" || strings.HasPrefix(r.host, "-") || strings.HasPrefix(r.path, "-") || strings.ContainsAny(r.path+r.user, "'\x00\n") {
			t.Errorf("%q is taken for %+v", raw, r)
		}
		if strings.Contains("/"+r.canonicalName()+"/", "/../") {
			t.Errorf("%q is called %q", raw, r.canonicalName())
		}
	})
}

func FuzzObjects(f *testing.F) {
	f.Add([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa"))
	f.Add([]byte("tree x\ngpgsig -----BEGIN SSH SIGNATURE-----\n x\n -----END SSH SIGNATURE-----\n\nm"))
	f.Add([]byte("|1|x|y ssh-ed25519 AAAA"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = eachEntry(bufio.NewReaderSize(bytes.NewReader(data), 16), 20, func(rawEntry) error { return nil })
		_, _ = parseKnownHosts(data)
		if (verify.CommitKeys{}).Check(data, data, time.Now) == nil {
			t.Error("nobody's signature is taken")
		}
		matchGlob(string(data), string(data))
		_, _ = ParsePolicy(string(data))
	})
}

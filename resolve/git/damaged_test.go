package git

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice.dev/tools/gittest"
)

// Whatever byte of a mirror is wrong, the request that meets it gets the right content: the mirror is a cache.
func TestAnyDamageOfAMirrorIsRepairedByTheRequestThatMeetsIt(t *testing.T) {
	files := map[string]string{"a/task.yaml": "kind: Task\n", "a/link.yaml": "->task.yaml"}
	for i := range 12 {
		files[fmt.Sprintf("a/z%02d.yaml", i)] = strings.Repeat("x", i)
	}
	for _, filters := range []string{"true", "false"} {
		t.Run("filters "+filters, func(t *testing.T) {
			s := gittest.NewServer(t, false)
			o := gittest.NewOrigin(t, s.Root, "r.git", files)
			gittest.Run(t, o.Dir, nil, "config", "uploadpack.allowFilter", filters)
			g := newResolver(t, nil)
			r := ask(nil, "url", s.URL+"/r.git", "pathInRepo", "a/link.yaml")
			wantData(t, g, r, "kind: Task\n")
			for name := range mirrorFiles(t, g) {
				whole, err := os.ReadFile(name)
				if err != nil {
					continue // another damage has had it replaced
				}
				for _, damage := range []struct {
					what string
					with func([]byte) []byte
				}{
					{"a byte in the middle", func(b []byte) []byte { b[len(b)/2] ^= 0x55; return b }},
					{"the last byte", func(b []byte) []byte { b[len(b)-1] ^= 0x55; return b }},
					{"a byte before the last", func(b []byte) []byte { b[len(b)-min(6, len(b))] ^= 0x55; return b }},
					{"the first byte", func(b []byte) []byte { b[0] ^= 0x55; return b }},
					{"cut", func(b []byte) []byte { return b[:len(b)/2] }},
					{"empty", func([]byte) []byte { return nil }},
				} {
					if _, err := os.Stat(name); err != nil {
						break
					}
					if err := os.WriteFile(name, damage.with([]byte(string(whole))), 0o600); err != nil {
						t.Fatal(err)
					}
					g.files.endIdle("")
					got, err := g.Resolve(deadline(t), r)
					if err != nil {
						t.Errorf("%s of %s: %v", damage.what, filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name), err)
					} else if string(got.Data) != "kind: Task\n" {
						t.Errorf("%s of %s: %q", damage.what, name, got.Data)
					}
					if err := os.WriteFile(name, whole, 0o600); err != nil && !os.IsNotExist(err) {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// mirrorFiles are the files of all mirrors.
func mirrorFiles(t *testing.T, g *Resolver) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	if err := filepath.WalkDir(filepath.Join(g.options.Dir, mirrorsDir), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out[p] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

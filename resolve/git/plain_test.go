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
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice.dev/tools/gittest"
)

// unpackInto unpacks a pack into the objects of a new repository and returns its folder.
func unpackInto(t testing.TB, format string, pack []byte) (string, error) {
	dir := t.TempDir()
	gittest.Run(t, dir, nil, "init", "-q", "--bare", "--object-format="+format, ".")
	err := unpackPlain(t.Context(), bytes.NewReader(pack), int64(len(pack)), binary.BigEndian.Uint32(pack[8:]), format, filepath.Join(dir, "objects"))
	return dir, err
}

// packOf has all objects of a repository in one pack.
func packOf(t testing.TB, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "pack-objects", "--all", "--stdout", "-q"}, args...)...)
	cmd.Stdin = strings.NewReader("")
	pack, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return pack
}

// manyKinds is a repository with objects of all types and of sizes around the bounds of compression.
func manyKinds(t testing.TB, format string) string {
	t.Helper()
	dir := t.TempDir()
	gittest.Run(t, dir, nil, "init", "-q", "--object-format="+format, "-b", "main", ".")
	noise := rand.NewChaCha8([32]byte{1})
	for name, n := range map[string]int{"empty": 0, "one": 1, "14": 14, "15": 15, "16": 16, "2k": 2048, "64k": 65536, "1m": 1 << 20} {
		b := make([]byte, n)
		_, _ = noise.Read(b)
		for file, content := range map[string][]byte{"noise-" + name: b, "text-" + name: bytes.Repeat([]byte("kind: Task\n"), n/11)} {
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	gittest.Run(t, dir, nil, "add", ".")
	gittest.Run(t, dir, nil, "commit", "-qm", "m")
	gittest.Run(t, dir, nil, "tag", "-am", "m", "v1")
	gittest.Run(t, dir, nil, "commit", "-qm", "empty", "--allow-empty")
	return dir
}

func TestPlainPacksBecomeTheObjectsThatGitReads(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		from := manyKinds(t, format)
		for _, compression := range []string{"0", "1", "9"} {
			pack := packOf(t, from, "--window=0", "--compression="+compression)
			dir, err := unpackInto(t, format, pack)
			if err != nil {
				t.Fatalf("%s, compression %s: %v", format, compression, err)
			}
			all := []string{"cat-file", "--batch-all-objects", "--batch"}
			if want, got := gittest.Run(t, from, nil, all...), gittest.Run(t, dir, nil, all...); want != got {
				t.Errorf("%s, compression %s: git reads other objects", format, compression)
			}
			gittest.Run(t, dir, nil, "fsck", "--strict", "--full")
			m := &mirror{dir: dir}
			for id := range strings.FieldsSeq(gittest.Run(t, from, nil, "rev-list", "--all", "--objects", "--no-object-names")) {
				kind, data, err := m.readObject(t.Context(), id, "", 2<<20)
				if kind != "tree" && (err != nil || strings.TrimSpace(string(data)) != gittest.Run(t, from, nil, "cat-file", kind, id)) {
					t.Errorf("%s is read as %q, %v", id, data, err)
				}
			}
		}
	}
}

// looseIn are the files of loose objects of a repository.
func looseIn(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "objects", "[0-9a-f][0-9a-f]", "*"))
	return found
}

// withSum makes the checksum of a pack right.
func withSum(pack []byte) []byte {
	body := pack[:max(0, len(pack)-sha1.Size)]
	sum := sha1.Sum(body)
	return append(bytes.Clone(body), sum[:]...)
}

func TestWhatIsNoPlainPackIsLeftToGit(t *testing.T) {
	from := manyKinds(t, "sha1")
	gittest.Run(t, from, nil, "config", "user.name", "c")
	if err := os.WriteFile(filepath.Join(from, "text-1m"), bytes.Repeat([]byte("kind: task\n"), 90_000), 0o600); err != nil {
		t.Fatal(err)
	}
	gittest.Run(t, from, nil, "commit", "-qam", "m")
	whole := packOf(t, from, "--window=0")
	count := func(n byte) []byte { p := bytes.Clone(whole); p[11] += n; return withSum(p) }
	for name, pack := range map[string][]byte{
		"deltas":             packOf(t, from, "--delta-base-offset"),
		"deltas by name":     packOf(t, from),
		"wrong checksum":     append(bytes.Clone(whole[:len(whole)-1]), whole[len(whole)-1]+1),
		"cut":                whole[:len(whole)/2],
		"cut, with checksum": withSum(whole[:len(whole)/2]),
		"one object more":    count(1),
		"one object less":    count(255),
		"nothing":            []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"),
		"too much":           withSum(append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\xbf\xff\xff\xff\x7f"), make([]byte, 100)...)),
	} {
		if _, err := unpackInto(t, "sha1", pack); !errors.Is(err, errNotPlain) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// 64 kB that become more than is unpacked here.
	var bomb bytes.Buffer
	bomb.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x01")
	size := uint64(maxPlain + 1)
	bomb.WriteByte(0xb0 | byte(size&0x0f))
	bomb.Write(binary.AppendUvarint(nil, size>>4))
	z := zlib.NewWriter(&bomb)
	if _, err := io.CopyN(z, zeros{}, int64(size)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	bomb.Write(make([]byte, sha1.Size))
	if dir, err := unpackInto(t, "sha1", withSum(bomb.Bytes())); !errors.Is(err, errNotPlain) || len(looseIn(dir)) > 0 {
		t.Errorf("%d bytes of %d: %v", bomb.Len(), size, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := unpackPlain(ctx, bytes.NewReader(whole), int64(len(whole)), 9, "sha1", t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("a fetch that is over: %v", err)
	}
}

// Whatever bytes come, an object has the name of what is in it.
func FuzzPlain(f *testing.F) {
	whole := packOf(f, manyKinds(f, "sha1"), "--window=0")
	small := withSum(append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), append([]byte("\x33x\x01\x01\x03\x00\xfc\xffabc\x02\x4d\x01\x27"), make([]byte, 20)...)...))
	f.Add(small[12:])
	f.Add(whole[12:4096])
	f.Fuzz(func(t *testing.T, body []byte) {
		pack := withSum(append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), append(body, make([]byte, 20)...)...))
		dir := t.TempDir()
		m := &mirror{dir: dir}
		err := unpackPlain(t.Context(), bytes.NewReader(pack), int64(len(pack)), 1, "sha1", filepath.Join(dir, "objects"))
		found := looseIn(dir)
		if err == nil && len(found) != 1 {
			t.Errorf("%d objects", len(found))
		}
		for _, name := range found {
			id := filepath.Base(filepath.Dir(name)) + filepath.Base(name)
			o, err := m.openLoose(id)
			if err != nil {
				t.Fatal(err)
			}
			h := newHash("sha1")
			content, err := io.ReadAll(&o.left)
			if err == nil {
				err = o.checkEnd()
			}
			_ = o.file.Close()
			_, _ = fmt.Fprintf(h, "%s %d\x00%s", o.kind, o.size, content)
			if got, nameErr := nameOf(h); err != nil || nameErr != nil || got != id {
				t.Errorf("%s has %q: %v", id, content, err)
			}
		}
	})
}

// No process is started for what most requests need.
func TestAFileIsFetchedWithoutGit(t *testing.T) {
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "r.git", map[string]string{"a/b/task.yaml": "kind: Task\n"})
	gittest.Run(t, o.Dir, nil, "config", "uploadpack.allowFilter", "true")
	g := newResolver(t, nil)
	g.index.binary, g.store.files.binary = filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "none")
	wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "a/b/task.yaml"), "kind: Task\n")
}

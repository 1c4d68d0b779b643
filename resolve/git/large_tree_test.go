package git

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

// commitTree makes a commit on main with a tree of about that many bytes and the file task.yaml, the last but one of its entries.
func commitTree(t *testing.T, root, name string, size int, compresses bool) {
	t.Helper()
	o := gittest.NewOrigin(t, root, name, map[string]string{"task.yaml": "kind: Task\n"})
	blob := gittest.Run(t, o.Dir, nil, "rev-parse", "main:task.yaml")
	id, err := hex.DecodeString(blob)
	if err != nil {
		t.Fatal(err)
	}
	var tree strings.Builder
	random := rand.NewChaCha8(keyOf(1))
	for i := 0; tree.Len() < size; i++ {
		long := strings.Repeat("x", 4000)
		if !compresses {
			b := make([]byte, 4000)
			_, _ = random.Read(b) // it never fails
			long = strings.NewReplacer("/", "x", "\x00", "x").Replace(string(b))
		}
		fmt.Fprintf(&tree, "100644 a%08d%s\x00%s", i, long, id)
	}
	fmt.Fprintf(&tree, "100644 task.yaml\x00%s100644 z\x00%s", id, id)
	of := gittest.Run(t, o.Dir, strings.NewReader(tree.String()), "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
	commit := gittest.Run(t, o.Dir, nil, "commit-tree", "-m", "m", of)
	gittest.Run(t, o.Dir, nil, "update-ref", "refs/heads/main", commit)
}

// A directory may have more entries than fit into 32 MiB: it is read as a stream. What is too large says how large it is.
func TestDirectoriesOfAnySizeAreRead(t *testing.T) {
	s := gittest.NewServer(t, false)
	commitTree(t, s.Root, "dense.git", 50<<20, true)
	commitTree(t, s.Root, "random.git", 34<<20, false)
	commitTree(t, s.Root, "huge.git", 130<<20, true)
	for _, filters := range []string{"true", "false"} {
		t.Run("filters "+filters, func(t *testing.T) {
			for _, name := range []string{"dense.git", "random.git", "huge.git"} {
				gittest.Run(t, filepath.Join(s.Root, name), nil, "config", "uploadpack.allowFilter", filters)
			}
			g := newResolver(t, nil)
			for _, name := range []string{"dense.git", "random.git"} {
				r := ask(nil, "url", s.URL+"/"+name, "pathInRepo", "task.yaml")
				wantData(t, g, r, "kind: Task\n")
				wantData(t, g, r, "kind: Task\n")
			}
			if filters == "false" {
				return
			}
			e := failure(t, g, ask(nil, "url", s.URL+"/huge.git", "pathInRepo", "task.yaml"), resolve.ReasonTooLarge)
			if !strings.Contains(e.Msg, fmt.Sprintf("at most %d are allowed", maxTreeSize)) {
				t.Error(e.Msg)
			}
		})
	}
}

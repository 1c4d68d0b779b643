package git

import (
	"encoding/hex"
	"os/exec"
	"strings"
	"testing"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

// literally writes an object that git itself would not make, and returns its name.
func literally(t *testing.T, o *gittest.Origin, kind, content string) string {
	t.Helper()
	return gittest.Run(t, o.Dir, strings.NewReader(content), "hash-object", "-t", kind, "-w", "--literally", "--stdin")
}

func TestDeepAndOddTrees(t *testing.T) {
	for _, filter := range []string{"true", "false"} {
		t.Run("filter="+filter, func(t *testing.T) {
			s := gittest.NewServer(t, false)
			deep := strings.Repeat("d/", 2000) + "x.yaml"
			o := gittest.NewOrigin(t, s.Root, "r.git", map[string]string{"task.yaml": "kind: Task\n", "dir/a.yaml": "a: 1\n", "end.yaml": "->" + strings.Repeat("d/", 600) + "x.yaml", deep: "deep: 1\n"})
			gittest.Run(t, o.Dir, nil, "config", "uploadpack.allowFilter", filter)
			g := newResolver(t, nil)
			wantData(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", "task.yaml"), "kind: Task\n")
			for _, p := range []string{deep, strings.Repeat("d/", 600) + "x.yaml", "end.yaml"} {
				wantReason(t, g, ask(nil, "url", s.URL+"/r.git", "pathInRepo", p), resolve.ReasonInvalid)
			}

			// Names that no file system would take, in a tree that no git would write.
			id, err := hex.DecodeString(gittest.Run(t, o.Dir, nil, "rev-parse", "main:task.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var tree strings.Builder
			for _, name := range []string{".", "..", "../../../etc/passwd.yaml", "../task.yaml", ".git", "/etc/passwd", "a/b.yaml", "ok.yaml", "\x1b[31m.yaml"} {
				tree.WriteString("100644 " + name + "\x00" + string(id))
			}
			odd := literally(t, o, "tree", tree.String())
			sub, err := hex.DecodeString(odd)
			if err != nil {
				t.Fatal(err)
			}
			root := literally(t, o, "tree", "40000 odd\x00"+string(sub)+"100644 task.yaml\x00"+string(id))
			commit := literally(t, o, "commit", "tree "+root+"\nauthor a <a> 1 +0000\ncommitter c <c> 1 +0000\n\nm\n")
			gittest.Run(t, o.Dir, nil, "update-ref", "refs/heads/odd", commit)
			for path, want := range map[string]string{"odd/ok.yaml": "kind: Task\n", "odd/../task.yaml": "kind: Task\n", "odd/.git": "kind: Task\n"} {
				wantData(t, g, ask(nil, "url", s.URL+"/r.git", "revision", "odd", "pathInRepo", path), want)
			}
			for _, path := range []string{"odd", "odd/a/b.yaml", "odd/../../etc/passwd", "odd//etc/passwd"} {
				_, err := g.Resolve(deadline(t), ask(nil, "url", s.URL+"/r.git", "revision", "odd", "pathInRepo", path))
				if err == nil {
					t.Errorf("%s gives something", path)
				} else if strings.ContainsAny(err.Error(), "\x1b\n") || strings.Contains(err.Error(), "%!") {
					t.Errorf("%s: %q", path, err)
				}
			}
			if l := leftovers(t, g); len(l) > 0 {
				t.Errorf("left over: %v", l)
			}
		})
	}
}

// Names of refs are a server's text, and a branch may have a name that a command line would take for something else.
func TestOddRefNames(t *testing.T) {
	for _, version0 := range []bool{false, true} {
		s := gittest.NewServer(t, false)
		s.Version0 = version0
		o := gittest.NewOrigin(t, s.Root, "r.git", someFiles)
		id := gittest.Run(t, o.Dir, nil, "rev-parse", "main")
		for _, name := range []string{"--upload-pack=touch x", "-x", "a;b", "$(id)", "`id`", "%s%n", "a'b", "ä", "main/", "HEAD", strings.Repeat("l", 200)} {
			ref := "refs/heads/" + name
			if exec.Command("git", "-C", o.Dir, "update-ref", ref, id).Run() != nil {
				continue // git takes no such name
			}
			g := newResolver(t, nil)
			for _, revision := range []string{name, ref} {
				res, err := g.Resolve(deadline(t), ask(nil, "url", s.URL+"/r.git", "revision", revision, "pathInRepo", "task.yaml"))
				switch {
				case err == nil && (string(res.Data) != "kind: Task\n" || res.Source.Digest["sha1"] != id):
					t.Errorf("%q gives %q of %v", revision, res.Data, res.Source)
				case err == nil && strings.HasPrefix(revision, "-"):
					t.Errorf("%q is taken", revision)
				case err != nil:
					wantReason(t, g, ask(nil, "url", s.URL+"/r.git", "revision", revision, "pathInRepo", "task.yaml"), resolve.ReasonInvalid)
				}
			}
			// The others are found with such neighbours.
			wantData(t, g, ask(nil, "url", s.URL+"/r.git", "revision", "main", "pathInRepo", "task.yaml"), "kind: Task\n")
		}
	}
}

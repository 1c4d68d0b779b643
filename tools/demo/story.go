package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi" //nolint:gosec // the attack that is meant was closed in Go 1.6.3
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/tools/kube"
)

const (
	manifest = "deploy/databases.yaml"
	crdName  = "databases.example.sluice.dev"
	app      = "databases"
)

// versions are the tags of the repository, and the files of the examples that they have.
var versions = []struct{ tag, file, message string }{
	{"v1", "v1.yaml", "databases"},
	{"v2", "v2-unsafe.yaml", "drop an engine, tighten bounds, rename a field"},
	{"v3", "v3-safe.yaml", "add an engine and fields, widen bounds"},
}

// tell plays the story.
func (d *demo) tell(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", d.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // kubectl shows them
	k, err := kube.New(config)
	if err != nil {
		return err
	}
	d.say("A git repository has three versions of a CRD")
	host, stop, err := d.repository(ctx)
	if err != nil {
		return err
	}
	defer stop()
	remote := "http://" + host + "/databases.git"
	source := func(tag string) []string {
		return []string{"-f", "git+" + remote + "//deploy?ref=" + tag, "--allow-address", host}
	}
	apply := func(want int, tag string) error {
		return d.sluiceWith(ctx, want, append([]string{"apply", "--app", app}, source(tag)...)...)
	}

	d.say("v1 is applied, and five objects are stored under it")
	if err := apply(0, "v1"); err != nil {
		return err
	}
	if err := k.Apply(ctx, filepath.Join(d.examples, "objects.yaml"), false); err != nil {
		return err
	}
	fmt.Fprintln(d.out, "stored the databases orders, wiki, analytics, sessions and cart")

	d.say("v2 looks harmless; it is resolved, and checked against what is stored")
	if err := d.resolve(ctx, remote, host, "v2"); err != nil {
		return err
	}
	if err := d.sluiceWith(ctx, 1, "check", "v2.yaml"); err != nil {
		return err
	}
	d.say("An apply of v2 is blocked, before anything is changed")
	out, err := d.command(ctx, 1, d.sluice, append([]string{"apply", "--app", app}, source("v2")...)...)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "%sexit code 1\n", inShort(out))

	d.say("v3 is safe, and delivered")
	if err := d.resolve(ctx, remote, host, "v3"); err != nil {
		return err
	}
	if err := d.sluiceWith(ctx, 0, "check", "v3.yaml"); err != nil {
		return err
	}
	if err := apply(0, "v3"); err != nil {
		return err
	}
	if err := d.sluiceWith(ctx, 0, "ls", app); err != nil {
		return err
	}
	stopGuard, err := d.guarded(ctx, k, config)
	if err != nil {
		return err
	}
	defer stopGuard()
	d.goOn()
	if d.keep {
		fmt.Fprintln(d.out, "\nAll of it runs until you press Ctrl-C.")
		<-ctx.Done()
	}
	return nil
}

// goOn tells the reader what to try next.
func (d *demo) goOn() {
	d.say("How to go on")
	fmt.Fprint(d.out, `With a cluster of your own:
  sluice check new.yaml                          # against the live CRDs and their stored objects
  sluice apply --app NAME -f SOURCE --dry-run=server
  sluice manifests --roles=crd-guard --image IMAGE | kubectl apply --server-side -f -
  sluice manifests --roles=resolution,resolver-git,delivery --image IMAGE | kubectl apply --server-side -f -
`)
	if !d.keep {
		fmt.Fprintln(d.out, "With this one: go run ./tools/demo --keep, which says how")
		return
	}
	fmt.Fprintf(d.out, `With this one, in another shell:
  export KUBECONFIG=%[1]s PATH=%[2]s:$PATH
  cd %[3]s
  kubectl get databases -A
  kubectl delete crd databases.example.sluice.dev   # refused
  sluice check v3.yaml                              # from v2, that is not safe
  sluice ls %[4]s
`, d.kubeconfig, filepath.Dir(d.sluice), d.dir, app)
}

// resolve fetches the CRD at a tag into a file.
func (d *demo) resolve(ctx context.Context, remote, host, tag string) error {
	args := []string{"resolve", "git", "--allow-address", host, "-p", "url=" + remote, "-p", "revision=" + tag, "-p", "pathInRepo=" + manifest}
	out, err := d.command(ctx, 0, d.sluice, args...)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "%d bytes, kept as %s.yaml\n", len(out), tag)
	return os.WriteFile(filepath.Join(d.dir, tag+".yaml"), []byte(out), 0o600)
}

// repository makes the repository and serves it.
func (d *demo) repository(ctx context.Context) (host string, stop func(), err error) {
	work := filepath.Join(d.dir, "work")
	bare := filepath.Join(d.dir, "served", "databases.git")
	if err := os.MkdirAll(filepath.Join(work, "deploy"), 0o700); err != nil {
		return "", nil, err
	}
	if _, err := git(ctx, d.dir, "init", "-q", "-b", "main", work); err != nil {
		return "", nil, err
	}
	for _, v := range versions {
		text, err := os.ReadFile(filepath.Join(d.examples, v.file))
		if err != nil {
			return "", nil, err
		}
		if err := os.WriteFile(filepath.Join(work, manifest), text, 0o600); err != nil { //nolint:gosec // the demo's own folder
			return "", nil, err
		}
		for _, args := range [][]string{{"add", "."}, {"commit", "-q", "-m", v.message}, {"tag", v.tag}} {
			if _, err := git(ctx, work, args...); err != nil {
				return "", nil, err
			}
		}
		commit, err := git(ctx, work, "rev-parse", "--short", v.tag)
		if err != nil {
			return "", nil, err
		}
		fmt.Fprintf(d.out, "%s %s %s\n", commit, v.tag, v.message)
	}
	if _, err := git(ctx, d.dir, "clone", "-q", "--bare", work, bare); err != nil {
		return "", nil, err
	}
	programs, err := git(ctx, d.dir, "--exec-path")
	if err != nil {
		return "", nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := cgi.Handler{Path: filepath.Join(programs, "git-http-backend"), Stderr: io.Discard, Env: []string{
			"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_PROTOCOL=" + r.Header.Get("Git-Protocol"),
		}}
		h.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(l) }() // it ends when it is closed
	return l.Addr().String(), func() { _ = server.Close() }, nil
}

// git runs git without the settings of the user.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=demo", "GIT_AUTHOR_EMAIL=demo@example.com", "GIT_COMMITTER_NAME=demo", "GIT_COMMITTER_EMAIL=demo@example.com",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// inShort returns of a report that was seen before the lines that begin a finding or count objects, and its end.
func inShort(text string) string {
	var out strings.Builder
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n")+"\n", "\n")
	left := false
	for i, line := range lines {
		if i < len(lines)-4 && !strings.HasPrefix(strings.TrimSpace(line), "FAIL ") && !strings.Contains(line, "stored objects") {
			left = true
			continue
		}
		if left {
			out.WriteString("...\n")
			left = false
		}
		out.WriteString(line)
	}
	return out.String()
}

package apply

// What did an app consist of before, and how does one get back there? The inventory of an app keeps its last
// revisions: when each was applied, and the sources with their commits or digests. sluice history lists them.
// apply --revision DIGEST reads the sources of one again, at exactly the state that they had. For example,
// git+https://example.com/shop.git?ref=main becomes the same URL with ref=0c4e1f0...

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"sluice.dev/apply"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/sourceurl"
)

// historyFlags are those of history: the cluster, and the format.
type historyFlags struct {
	command.ClusterFlags

	output string
}

// NewHistory returns the command history.
func NewHistory(e *command.Env) *cobra.Command {
	f := &historyFlags{}
	cmd := &cobra.Command{
		Use:   "history APP",
		Short: "List the revisions of an app",
		Long: `History lists the last revisions of an app, at most ten, newest first. For each it shows the time of the apply, the number of objects,
and the sources with commit or digest. To go back to one, run sluice apply --app APP --revision DIGEST.`,
		Example: `  sluice history shop -n default
  sluice apply --app shop -n default --revision sha1:0c4e1f0 --prune`,
		Args:        oneApp,
		Annotations: map[string]string{command.ResultKind: "History"},
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := connectApplier(&f.ClusterFlags, apply.Options{Now: e.Now})
			if err != nil {
				return err
			}
			v, err := a.App(cmd.Context(), a.namespace, args[0])
			if err != nil {
				return err
			}
			return showHistory(e, f.output, v)
		},
	}
	f.AddClusterNamespace(cmd)
	command.AddOutput(cmd, &f.output, "text", "json")
	return cmd
}

// HistoryResult is the history for programs. Revisions are the newest first; it is empty and not null if none is
// recorded.
type HistoryResult struct {
	command.Document `json:",inline"`
	App              string           `json:"app"`
	Namespace        string           `json:"namespace"`
	Revisions        []apply.Revision `json:"revisions"`
}

// showHistory prints the revisions of an app, the newest first. An app without any, as one that was applied by an
// older Sluice, is no error: a note says when there will be one.
//
//	APPLIED               OBJECTS  SOURCE
//	2026-11-02T08:30:00Z  12       git+https://example.com/shop.git?ref=v2 commit 0c4e1f0...
//	2026-10-30T14:05:12Z  11       git+https://example.com/shop.git?ref=v1 commit 93ab7d2...
func showHistory(e *command.Env, output string, v *apply.Inventory) error {
	if output == "json" {
		return command.Encode(e.Out, HistoryResult{command.DocumentOf("History"), v.App, v.Namespace, append([]apply.Revision{}, v.History...)})
	}
	if len(v.History) == 0 {
		fmt.Fprintln(e.Err, "no revision is recorded; the next apply with another source records it")
		return nil
	}
	w := command.Columns(e.Out)
	fmt.Fprintln(w, "APPLIED\tOBJECTS\tSOURCE")
	for _, r := range v.History {
		var sources []string
		for _, s := range r.Sources {
			sources = append(sources, sourceLine(s))
		}
		fmt.Fprintf(w, "%s\t%d\t%s\n", timeText(r.Applied), r.Objects, strings.Join(sources, ", "))
	}
	w.Flush()
	return nil
}

// goBack puts the sources of an earlier revision in the place of -f, at the state that they had then. The text of
// --revision may be the beginning of a commit or a digest. If revisions with different sources have it, that is an
// error.
func (d *deliverer) goBack(ctx context.Context) (*apply.Revision, error) {
	f := d.flags
	v, err := d.applier.App(ctx, d.applier.namespace, f.app)
	if err != nil {
		return nil, err
	}
	var found *apply.Revision
	for i := range v.History {
		r := &v.History[i]
		switch {
		case !r.Has(f.revision):
		case found == nil:
			found = r
		case !found.Same(r):
			return nil, fmt.Errorf("--revision %s: several revisions of app %s have it; give more of the digest", f.revision, f.app)
		}
	}
	if found == nil {
		return nil, fmt.Errorf("--revision %s: app %s has no such revision; sluice history %s -n %s lists them", f.revision, f.app, f.app, d.applier.namespace)
	}
	for _, s := range found.Sources {
		name, err := pinnedSource(s)
		if err != nil {
			return nil, fmt.Errorf("--revision %s: %w", f.revision, err)
		}
		f.sources = append(f.sources, name)
	}
	return found, nil
}

// pinnedSource names a source at the commit or image that it had. Sources that keep no history, such as a folder
// or a URL, are named as they were: checkStillHolds finds out whether they still hold the same.
func pinnedSource(s apply.Source) (string, error) {
	scheme, rest, remote := strings.Cut(s.Name, "://")
	commit, image := s.Digest["sha1"], s.Digest["sha256"]
	switch {
	case s.Name == "-":
		return "", errors.New("it came from standard input, which nobody has kept: pipe it again")
	case remote && strings.HasPrefix(scheme, "git+") && commit != "":
		repo, path, _, err := sourceurl.SplitGit(rest)
		if err != nil {
			return "", fmt.Errorf("%s: %w", s.Name, err)
		}
		if path != "" {
			path = "//" + path
		}
		return scheme + "://" + repo + path + "?ref=" + url.QueryEscape(commit), nil
	case !remote && strings.HasPrefix(s.Name, "git:") && commit != "":
		_, path, has := strings.Cut(strings.TrimPrefix(s.Name, "git:"), ":")
		if has {
			path = ":" + path
		}
		return "git:" + commit + path, nil
	case scheme == "oci" && remote && image != "":
		rest, _, _ = strings.Cut(rest, "@")
		// A colon before the last slash is that of a port, and no tag.
		if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
			rest = rest[:i]
		}
		return "oci://" + rest + "@sha256:" + image, nil
	}
	return s.Name, nil
}

// checkStillHolds tells whether sources hold what they held in a revision. It compares digests, so a source that
// cannot be pinned is applied only if its content is what it was.
func checkStillHolds(r *apply.Revision, now []apply.Source) error {
	for i, s := range r.Sources {
		if i >= len(now) || !maps.Equal(s.Digest, now[i].Digest) {
			return fmt.Errorf("%s no longer holds this revision, so it cannot be applied again; only git and OCI sources keep what they held", s.Name)
		}
	}
	if len(now) > len(r.Sources) {
		return errors.New("the sources have become more than those of this revision")
	}
	return nil
}

// Package resolvers knows which resolvers this build has, and makes each with what its process lends it. It promises that
// every one of them reaches the network through package resolve/netguard only. It does not run them: that is for
// [resolve.Runner].
//
// A build tag per resolver leaves its code out: no_resolver_git, no_resolver_bundles, no_resolver_cluster,
// no_resolver_http, no_resolver_hub, no_resolver_dir.
package resolvers

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
	"sluice.dev/resolve/verify"
)

// Entry is a resolver that this build has.
type Entry struct {
	// Name is the canonical name.
	Name string
	// ConfigMap has its configuration; empty: none.
	ConfigMap string
	// Flag is its key in the ConfigMap resolvers-feature-flags; empty where Tekton has none.
	Flag string
	// Wide are the keys of its ConfigMap that open what Tekton's resolver has open: private addresses and plain http.
	Wide []string
	// Local: it is of use without a cluster.
	Local bool
	// Artifacts: it resolves whole artifacts, which only command lines ask for.
	Artifacts bool
	// Spec describes it without making it, so that nothing has to be installed for help; the resolver dir has one
	// directory there, default.
	Spec func() resolve.Spec
	// New makes it. [resolve.CloseAll] frees what it holds, once nothing is under way.
	New func(ctx context.Context, e Env) (resolve.Resolver, error)
	// Folder packs a folder of an archive anew; nil where the resolver knows no archives.
	Folder func(archive []byte, folder string, maxSize int64) ([]byte, error)
}

// Env is what a process lends to its resolvers.
type Env struct {
	Clock resolve.Clock
	// Getenv reads the environment; nil where there is none.
	Getenv func(string) string
	// Network is what the process allows beside the configuration of a resolver.
	Network netguard.Options
	// Cache is a folder that this process alone uses, for mirrors of repositories.
	Cache string
	// CacheFull is told when that folder cannot be used any more, and when it can again; nil where nobody wants to know.
	CacheFull func(full bool)
	// ProcessMemory is how much memory the processes may have together that a resolver starts, in bytes; 0 for its default.
	ProcessMemory int64
	// Roots are the directories of the resolver dir by their names.
	Roots map[string]string
	// Cluster reaches the cluster; nil where there is none.
	Cluster *rest.Config
	// Accounts reads the imagePullSecrets of ServiceAccounts, as package resolve/bundle has it; nil where there are none
	// to be had.
	Accounts interface {
		ImagePullSecrets(ctx context.Context, namespace, name string) ([]string, error)
	}
	// Policies are those in force; nil stands for none.
	Policies func() *verify.Policies
}

// added are the resolvers of this build: each is added by a file of its own, which its build tag leaves out.
var added []func() Entry

func addBuiltin(entry func() Entry) bool { //nolint:unparam // the initialization of a variable calls it
	added = append(added, entry)
	return true
}

// Table lists the resolvers of this build by name.
func Table() []Entry {
	return slices.DeleteFunc(All(), func(e Entry) bool { return e.Artifacts })
}

// All lists those of [Table] and, for command lines, those of whole artifacts.
func All() []Entry {
	out := make([]Entry, 0, len(added))
	for _, entry := range added {
		out = append(out, entry())
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Folder packs a folder of an archive that no resolver has fetched, see [sluice.dev/resolve/bundle.Folder].
func Folder(archive []byte, folder string, maxSize int64) ([]byte, error) {
	for _, e := range All() {
		if e.Folder != nil {
			return e.Folder(archive, folder, maxSize)
		}
	}
	return nil, errors.New("this build cannot unpack archives: it is without the resolver bundles")
}

package apply

// Which cluster and namespace does a command about apps work in? Those of its flags, or else of the kubeconfig: sluice ls -n shop connects
// an applier for the namespace shop.
//
// How do two runs not disturb each other? Whoever changes an app holds its lock, a Lease, from the plan to the last
// write. If the inventory was changed in between all the same, the plan is made again.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/apply"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/config"
)

// applyUnderLock plans, checks and applies. The lock of the app is held from the plan to the last write, so that
// two runs do not undo each other's changes. Without an app there is no inventory to protect, and a dry run writes
// nothing: neither takes a lock.
func (d *deliverer) applyUnderLock(ctx context.Context, cfg *config.Config) error {
	if d.flags.app == "" || d.flags.dryRun != dryRunNone {
		return d.planAndApply(ctx, cfg)
	}
	return underLock(ctx, d.Env, d.applier, d.flags.app, func(locked *connection) error {
		// The preflights run again with each attempt, and are listed once.
		d.applier, d.result.Ran = locked, []string{}
		return d.planAndApply(ctx, cfg)
	})
}

// underLock runs a change of an app under its lock. If somebody else changes the app in the meantime, it runs the
// change again. change gets a connection that holds the lock; the lock is given up when it returns. An error that
// the lock is taken gets advice.
func underLock(ctx context.Context, e *command.Env, a *connection, app string, change func(locked *connection) error) error {
	for {
		locked := *a
		var unlock func()
		var err error
		if locked.Applier, unlock, err = a.Resume(ctx, a.namespace, app); err == nil {
			err = change(&locked)
		}
		unlock()
		if !errors.Is(err, apply.ErrChanged) {
			return lockHint(err)
		}
		fmt.Fprintf(e.Err, "note: somebody has changed app %s in the meantime; checking again\n", app)
	}
}

// addLockTimeout adds the flag of commands that change an app. The default, a minute, is longer than most applies,
// so that two jobs of a pipeline wait for each other.
func addLockTimeout(fs *pflag.FlagSet, timeout *time.Duration) {
	fs.DurationVar(timeout, "lock-timeout", time.Minute, "time limit for waiting while another run changes the app; 0 does not wait")
}

// changeFlags are those of the commands that change an app by its name.
type changeFlags struct {
	command.ClusterFlags

	dryRun               bool
	timeout, lockTimeout time.Duration
	output               string
}

// addTo adds the flags. The help of --dry-run differs.
func (f *changeFlags) addTo(cmd *cobra.Command, dryRun string) {
	f.AddClusterNamespace(cmd)
	fs := cmd.Flags()
	fs.BoolVar(&f.dryRun, "dry-run", false, dryRun)
	fs.DurationVar(&f.timeout, "timeout", 10*time.Minute, "time limit for the whole command")
	addLockTimeout(fs, &f.lockTimeout)
	command.AddOutput(cmd, &f.output, "text", "json")
}

// lockHint adds to an error that somebody else changes the app what can be done about it.
func lockHint(err error) error {
	if _, locked := errors.AsType[*apply.LockedError](err); locked {
		return fmt.Errorf("%w; nothing was changed; --lock-timeout waits longer", err)
	}
	return err
}

// appOf reads the name of an app, which may have a namespace. NAME alone is in the given namespace. in is empty if
// neither says one.
func appOf(text, namespace string) (in, name string, err error) {
	in, name, found := strings.Cut(text, "/")
	if !found {
		in, name = namespace, text
	}
	return in, name, apply.CheckApp(name)
}

// appsOf gives NAMESPACE/NAME of each app. The names were checked by checkFlags, so an error cannot occur here.
func appsOf(list []string, namespace string) []string {
	var out []string
	for _, text := range list {
		in, name, _ := appOf(text, namespace)
		out = append(out, in+"/"+name)
	}
	return out
}

// connection is an applier, with the configuration that it was made from and its namespace.
type connection struct {
	*apply.Applier

	config    *rest.Config
	namespace string
}

// oneApp is for commands about one app.
var oneApp = command.OneArg("name one app; sluice ls lists the apps")

// connectApplier makes an applier for the cluster and the namespace of the flags. It does not contact the cluster.
func connectApplier(f *command.ClusterFlags, o apply.Options) (*connection, error) {
	config, namespace, err := f.Connect()
	if err != nil {
		return nil, err
	}
	o.Namespace = namespace
	applier, err := apply.New(config, o)
	return &connection{applier, config, namespace}, err
}

// tellKeeper warns if a Delivery manages the app: the Delivery creates deleted objects again and reverts changes.
// If Deliveries cannot be read, or the cluster has none, it prints nothing: the warning is a help, not a check. A
// Delivery that is suspended or being deleted does nothing, so there is no warning.
func tellKeeper(ctx context.Context, e *command.Env, a *connection, app, undoes string) {
	client, err := dynamic.NewForConfig(a.config)
	if err != nil {
		return
	}
	d, err := client.Resource(v1alpha1.SchemeGroupVersion.WithResource("deliveries")).Namespace(a.namespace).Get(ctx, app, metav1.GetOptions{})
	if err != nil || d.GetDeletionTimestamp() != nil {
		return
	}
	if suspended, _, _ := unstructured.NestedBool(d.Object, "spec", "suspend"); suspended {
		return
	}
	fmt.Fprintf(e.Err, "warning: the Delivery %s/%s applies this app and will %s; suspend or delete the Delivery first (kubectl -n %s delete delivery %s)\n",
		a.namespace, app, undoes, a.namespace, app)
}

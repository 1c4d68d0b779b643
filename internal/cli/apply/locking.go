package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice.dev/apply"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/config"
)

// applyUnderLock plans, checks and applies.
func (d *deliverer) applyUnderLock(ctx context.Context, cfg *config.Config) error {
	if d.flags.app == "" || d.flags.dryRun != dryRunNone {
		return d.planAndApply(ctx, cfg)
	}
	return underLock(ctx, d.Env, d.applier, d.flags.app, func(locked *connection) error {
		d.applier, d.result.Ran = locked, []string{}
		return d.planAndApply(ctx, cfg)
	})
}

// underLock runs a change of an app under its lock. If somebody else changes the app in the meantime, it runs the change again.
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

// addLockTimeout adds the flag of commands that change an app.
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

// appOf reads the name of an app, which may have a namespace.
func appOf(text, namespace string) (in, name string, err error) {
	in, name, found := strings.Cut(text, "/")
	if !found {
		in, name = namespace, text
	}
	return in, name, apply.CheckApp(name)
}

// appsOf gives NAMESPACE/NAME of each app.
func appsOf(list []string, namespace string) []string {
	var out []string
	for _, text := range list {
		in, name, _ := appOf(text, namespace)
		out = append(out, in+"/"+name)
	}
	return out
}

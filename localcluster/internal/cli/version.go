package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	etcdversion "go.etcd.io/etcd/api/v3/version"

	"sluice.dev/localcluster/internal/component"
)

// versionCommand prints versions without starting anything. With the build tag assets it asks the program
// in KUBEBUILDER_ASSETS.
func versionCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of what a cluster consists of",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			kubernetes, err := component.Version()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.out, "kubernetes %s\netcd v%s\n%s %s/%s\n", kubernetes, etcdversion.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

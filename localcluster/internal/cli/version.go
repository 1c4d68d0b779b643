package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	"k8s.io/component-base/version"
)

func versionCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of what a cluster consists of",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info := version.Get()
			_, err := fmt.Fprintf(s.out, "kubernetes %s\netcd v%s\n%s %s\n", info.GitVersion, etcdversion.Version, info.GoVersion, info.Platform)
			return err
		},
	}
}

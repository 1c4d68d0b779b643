package cli

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	kubeversion "k8s.io/component-base/version"

	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/process"
)

// sluiceVersion is set when the program is linked (see the Makefile).
var sluiceVersion = ""

// versionOfBuild returns the version of this program: that of the link, or of the module that go install built, or the commit.
func versionOfBuild() string {
	return cmp.Or(sluiceVersion, process.BuildVersion())
}

// versionInfo is what sluice version -o json prints. Kubernetes is the version of the linked libraries, whose
// rules hold without a cluster.
type versionInfo struct {
	command.Document `json:",inline"`
	Version          string `json:"version"`
	Kubernetes       string `json:"kubernetes"`
	Go               string `json:"go"`
	Platform         string `json:"platform"`
}

// thisVersion returns the version of this program.
func thisVersion() versionInfo {
	return versionInfo{
		command.DocumentOf("Version"), versionOfBuild(), kubeversion.DefaultKubeBinaryVersion,
		runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// String is what people read.
func (v versionInfo) String() string {
	return fmt.Sprintf("sluice %s (rules of Kubernetes %s; %s %s)", v.Version, v.Kubernetes, v.Go, v.Platform)
}

// newVersion returns the command version.
func newVersion(e *command.Env) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of sluice and of the Kubernetes libraries in it",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := thisVersion()
			if output == "json" {
				return command.Encode(e.Out, v)
			}
			fmt.Fprintln(e.Out, v)
			return nil
		},
	}
	command.AddOutput(cmd, &output, "text", "json")
	return cmd
}

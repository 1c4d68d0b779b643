package install

import (
	"github.com/spf13/pflag"

	"sluice.dev/internal/installation"
)

// addNamespace adds the flag for the namespace of Sluice. It was called --sluice-namespace once, which is still taken.
func addNamespace(fs *pflag.FlagSet, namespace *string) {
	fs.StringVarP(namespace, "namespace", "n", installation.DefaultNamespace, "namespace where Sluice runs, as in sluice manifests --namespace")
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "sluice-namespace" {
			name = "namespace"
		}
		return pflag.NormalizedName(name)
	})
}

package upstream

// What does an older API server do in another way? For example, before 1.36 none checks formats of numbers.

import (
	"k8s.io/apimachinery/pkg/util/version"
	kubeversion "k8s.io/component-base/version"

	"sluice.dev/schema"
)

// Oldest is the oldest Kubernetes version whose rules are known: the first with validation rules on by default. Newest is
// that of the linked libraries.
var (
	Oldest = version.MajorMinor(1, 25)
	Newest = func() *version.Version {
		v := version.MustParseGeneric(kubeversion.DefaultKubeBinaryVersion)
		return version.MajorMinor(v.Major(), v.Minor())
	}()
)

// numbersSince is the first version whose API servers check the formats int32 and float of numbers. Until 1.35 they strip every format
// that is not for strings (k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go of v0.35 and v0.36). The linked code has
// the version of each format of strings. The cost limits are the same from 1.25 to 1.37 (StaticEstimatedCostLimit,
// StaticEstimatedCRDCostLimit, PerCallLimit, RuntimeCELCostBudget), though not the estimates.
var numbersSince = version.MajorMinor(1, 36)

// ChecksNumbers reports whether an API server of that version checks formats of numbers; nil stands for the linked libraries.
func ChecksNumbers(kube *version.Version) bool { return kube == nil || kube.AtLeast(numbersSince) }

// withoutNumberFormats returns the schema without formats of numbers. It is a copy.
func withoutNumberFormats(p *props) *props {
	return schema.Rewrite(p, schema.InStructure|schema.InJunctors|schema.InOtherNames, func(p *props) {
		if p.Type == "integer" || p.Type == "number" {
			p.Format = ""
		}
	})
}

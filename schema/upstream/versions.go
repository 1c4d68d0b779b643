package upstream

// What does an older API server do in another way? For example, before 1.36 none checks formats of numbers.

import (
	"math"

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

// ratchetingSince is the first version with CRDValidationRatcheting on by default (beta; KEP-4008,
// k8s.io/apiextensions-apiserver/pkg/features). Requests for the status are ratcheted later (statusStrategy.ValidateUpdate in
// k8s.io/apiextensions-apiserver/pkg/registry/customresource/status_strategy.go of v0.32 and v0.33).
var ratchetingSince, statusRatchetingSince = version.MajorMinor(1, 30), version.MajorMinor(1, 33)

// RatchetsIn is [Validator.Ratchets] for a version; nil stands for that of the linked libraries.
func RatchetsIn(kube *version.Version) bool { return kube == nil || kube.AtLeast(ratchetingSince) }

// RatchetsStatusIn reports whether an API server of that version tolerates errors in unchanged values in requests for the status, too; nil
// stands for the linked libraries. If it does not, every error below .status and every validation rule that fails anywhere in the object
// refuses such a request.
func RatchetsStatusIn(kube *version.Version) bool {
	return kube == nil || kube.AtLeast(statusRatchetingSince)
}

// ChecksNumbers reports whether an API server of that version checks formats of numbers; nil stands for the linked libraries.
func ChecksNumbers(kube *version.Version) bool { return kube == nil || kube.AtLeast(numbersSince) }

// HasSelectableFields reports whether an API server of that version knows selectableFields, which older ones drop
// (CustomResourceFieldSelectors in k8s.io/apiextensions-apiserver/pkg/features, KEP-4358; dropSelectableFields in
// pkg/registry/customresourcedefinition/strategy.go of v0.30); nil stands for the linked libraries.
func HasSelectableFields(kube *version.Version) bool {
	return kube == nil || kube.AtLeast(version.MajorMinor(1, 31))
}

// checksCABundle reports whether an API server of that version refuses an update of an established CRD with a caBundle that is no certificate
// (allowInvalidCABundle in k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go of v0.31).
func checksCABundle(kube *version.Version) bool {
	return kube == nil || kube.AtLeast(version.MajorMinor(1, 31))
}

// withoutNumberChecks returns the schema without formats of numbers and with bounds of integers that are whole numbers. The linked code refuses
// every number if a bound does not fit the type, as 2.5 for an integer. An older API server cuts the bound to 2 (numberValidator in
// k8s.io/kube-openapi/pkg/validation/validate, of the versions that apiextensions-apiserver v0.35 and v0.36 link). It is a copy.
func withoutNumberChecks(p *props) *props {
	return schema.Rewrite(p, schema.InStructure|schema.InJunctors|schema.InOtherNames, func(p *props) {
		if p.Type != "integer" && p.Type != "number" {
			return
		}
		p.Format = ""
		for _, bound := range []**float64{&p.Minimum, &p.Maximum, &p.MultipleOf} {
			if b := *bound; p.Type == "integer" && b != nil && math.Abs(*b) < 1<<63 {
				*bound = new(math.Trunc(*b))
			}
		}
	})
}

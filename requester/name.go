package requester

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/api/resolution/v1beta1"
)

// Name returns the name of the request that base, usually NAMESPACE/NAME of its owner, makes of the resolver. Equal
// arguments give equal names, in any order of the parameters, which must have names of their own. It is the name that
// Tekton's client gives (pkg/resolution/resource): the resolver, a dash, and the FNV-128a hash in hexadecimal digits; the
// resolver is cut so that all fits a DNS label.
func Name(resolver, base string, spec v1beta1.ResolutionRequestSpec) (string, error) {
	h := fnv.New128a()
	// A hash never fails to write.
	_, _ = h.Write([]byte(base))
	params := slices.Clone(spec.Params)
	slices.SortStableFunc(params, func(a, b v1beta1.Param) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range params {
		_, _ = h.Write([]byte(p.Name))
		if p.Value.Type == v1beta1.ParamTypeString || p.Value.Type == "" {
			_, _ = h.Write([]byte(p.Value.StringVal))
			continue
		}
		text, err := json.Marshal(p.Value)
		if err != nil {
			return "", err
		}
		_, _ = h.Write(text)
	}
	_, _ = h.Write([]byte(spec.URL))
	sum := hex.EncodeToString(h.Sum(nil))
	return resolver[:min(len(resolver), validation.DNS1123LabelMaxLength-len(sum)-1)] + "-" + sum, nil
}

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

// Name returns the name of a request. base is usually NAMESPACE/NAME of its owner. Equal arguments give equal names, in any order
// of the parameters; the names of the parameters must differ. The result is the name of Tekton's client (pkg/resolution/resource):
// the resolver, a dash, and the FNV-128a hash in hexadecimal digits. The resolver is cut so that the name is a DNS label.
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

package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOwnersOfTwoVersionsKeepTheFieldsOfBoth joins what one owner has by entries of two versions.
func TestOwnersOfTwoVersionsKeepTheFieldsOfBoth(t *testing.T) {
	type set = map[string]any
	to := set{"f:spec": set{"f:size": set{}, "f:list": set{`k:{"name":"a"}`: set{".": set{}, "f:x": set{}}}}}
	mergeFieldSets(to, set{"f:spec": set{"f:replicas": set{}, "f:list": set{`k:{"name":"a"}`: set{"f:y": set{}}, `k:{"name":"b"}`: set{".": set{}}}}, "f:metadata": set{}})
	want := set{
		"f:metadata": set{},
		"f:spec": set{
			"f:size": set{}, "f:replicas": set{},
			"f:list": set{`k:{"name":"a"}`: set{".": set{}, "f:x": set{}, "f:y": set{}}, `k:{"name":"b"}`: set{".": set{}}},
		},
	}
	if diff := cmp.Diff(want, to); diff != "" {
		t.Error(diff)
	}
}

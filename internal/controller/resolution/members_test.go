package resolution

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestReplicasDivideTheWorkEvenlyAndMoveLittle(t *testing.T) {
	const n = 6000
	three, four := []string{"a", "b", "c"}, []string{"a", "b", "c", "d"}
	count := map[string]int{}
	moved := 0
	for i := range n {
		uid := types.UID(fmt.Sprintf("%08x-0000", i))
		before := owner(three, "a", uid)
		for _, self := range three {
			if got := owner(three, self, uid); got != before {
				t.Fatalf("%s says %s, a says %s", self, got, before)
			}
		}
		count[before]++
		if after := owner(four, "a", uid); after != before {
			moved++
			if after != "d" {
				t.Fatalf("%s moved from %s to %s when d came", uid, before, after)
			}
		}
	}
	for _, m := range three {
		if c := count[m]; c < n/3*9/10 || c > n/3*11/10 {
			t.Errorf("%s has %d of %d", m, c, n)
		}
	}
	if moved < n/4*9/10 || moved > n/4*11/10 {
		t.Errorf("%d of %d moved", moved, n)
	}
}

func TestWithoutMembersAllIsOurs(t *testing.T) {
	if m := (*Members)(nil); !m.Owns("resolver-git", "x") {
		t.Error("not owned")
	}
}

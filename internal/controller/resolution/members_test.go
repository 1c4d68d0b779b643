package resolution

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestReplicasDivideTheWorkEvenlyAndMoveLittle(t *testing.T) {
	const n = 6000
	three, four := []string{"a", "b", "c"}, []string{"a", "b", "c", "d"}
	count := map[string]int{}
	moved := 0
	for i := range n {
		uid := types.UID(fmt.Sprintf("%08x-0000", i))
		before := ownerOf(three, "a", uid)
		for _, self := range three {
			if got := ownerOf(three, self, uid); got != before {
				t.Fatalf("%s says %s, a says %s", self, got, before)
			}
		}
		count[before]++
		if after := ownerOf(four, "a", uid); after != before {
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

func TestALeaseIsNamedAfterTheFirstRole(t *testing.T) {
	for _, test := range []struct {
		id    string
		roles []string
		want  string
	}{
		{"sluice-resolver-git-5d4f-x", []string{"resolver-git"}, "sluice-member-sluice-resolver-git-5d4f-x"},
		{"resolver-git-18a", []string{"resolver-git"}, "sluice-member-resolver-git-18a"},
		{"pod-1", []string{"resolver-git", "resolver-http"}, "sluice-member-resolver-git-pod-1"},
		{"resolver-gitty", []string{"resolver-git"}, "sluice-member-resolver-git-resolver-gitty"},
	} {
		if got := (&Members{ID: test.id, Roles: test.roles}).leaseName(); got != test.want {
			t.Errorf("%s: %s, want %s", test.id, got, test.want)
		}
	}
}

// Leases of processes that are gone are removed by those who may: others of the same role, and the lifecycle controller.
func TestLeasesOfOthersAreRemovedByTheirOwnAndTheLifecycleController(t *testing.T) {
	for _, test := range []struct{ own, removed string }{
		{"resolver-git", "resolver-git"},
		{LifecycleRole, "delivery resolver-git resolver-http"},
	} {
		kube := fake.NewClientset()
		at := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		join := func(id, role string) *Members {
			m := &Members{Kube: kube, Namespace: "ns", ID: id, Roles: []string{role}, Clock: at, Log: slog.New(slog.DiscardHandler)}
			if err := m.Join(t.Context()); err != nil {
				t.Fatal(err)
			}
			return m
		}
		for _, role := range []string{"resolver-git", "resolver-http", "delivery"} {
			join("gone", role)
		}
		self := join("self", test.own)
		at.Step(time.Hour)
		if err := self.readLeases(t.Context()); err != nil {
			t.Fatal(err)
		}
		left, err := kube.CoordinationV1().Leases("ns").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		gone := map[string]bool{"resolver-git": true, "resolver-http": true, "delivery": true}
		for _, l := range left.Items {
			if l.Name != self.leaseName() {
				delete(gone, l.Annotations[rolesAnnotation])
			}
		}
		if got := strings.Join(slices.Sorted(maps.Keys(gone)), " "); got != test.removed {
			t.Errorf("%s removes %s, want %s", test.own, got, test.removed)
		}
	}
}

func TestALeaseTellsOfTrouble(t *testing.T) {
	kube := fake.NewClientset()
	m := &Members{Kube: kube, Namespace: "ns", ID: "self", Roles: []string{"resolver-git"}, Clock: clocktesting.NewFakeClock(time.Unix(0, 0)), Log: slog.New(slog.DiscardHandler)}
	for _, trouble := range []string{"", "the volume is full", ""} {
		if trouble != "" || m.trouble != nil {
			m.SetTrouble(trouble)
		}
		if err := m.renewLease(t.Context()); err != nil {
			t.Fatal(err)
		}
		lease, err := kube.CoordinationV1().Leases("ns").Get(t.Context(), m.leaseName(), metav1.GetOptions{})
		if err != nil || lease.Annotations[TroubleAnnotation] != trouble || lease.Annotations[rolesAnnotation] != "resolver-git" {
			t.Errorf("%q: %v, %v", trouble, lease.Annotations, err)
		}
	}
}

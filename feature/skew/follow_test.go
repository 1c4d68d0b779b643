package skew_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/feature/skew"
)

// TestFollower goes through what a watcher sees: NAME@SECOND is a report of a lease of 9 seconds that says so of its renewal, by a
// clock that is wrong by an hour where it is written NAME@SECOND!; -NAME is one that is gone, ok, 404, 503 and refused are what
// came of requests.
func TestFollower(t *testing.T) {
	answers := map[string]error{
		"ok": nil, "404": apierrors.NewNotFound(schema.GroupResource{}, "x"), "503": apierrors.NewServiceUnavailable("no"),
		"429": apierrors.NewTooManyRequests("no", 1), "refused": errors.New("connection refused"),
	}
	type step struct {
		at   int
		what string // that happens then
		want string // the reports that count after it
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"a report counts for its lease", []step{{0, "a@0", "a"}, {8, "", "a"}, {9, "", ""}}},
		{"one that is out of date when it is seen first", []step{{10, "a@0", ""}, {11, "a@11", "a"}}},
		{"one that is gone", []step{{0, "a@0", "a"}, {1, "-a", ""}}},
		{"a renewal counts from when it was seen", []step{{0, "a@0", "a"}, {5, "a@3", "a"}, {13, "", "a"}, {14, "", ""}}},
		{"clocks that differ", []step{{0, "a@0!", ""}, {3, "a@3!", "a"}, {11, "", "a"}, {12, "", ""}}},
		{"to be seen again is no renewal", []step{{0, "a@0", "a"}, {8, "a@0", "a"}, {9, "", ""}}},
		{"the API server does not answer", []step{{0, "a@0", "a"}, {1, "b@1", "a b"}, {8, "refused", "a b"}, {100, "", "a b"}, {101, "503", "a b"}}},
		{"what had expired before stays so", []step{{0, "a@0", "a"}, {5, "b@5", "a b"}, {10, "ok", "b"}, {13, "refused", "b"}, {100, "", "b"}}},
		{
			"once it answers again, processes have time to renew",
			[]step{{0, "a@0", "a"}, {1, "b@1", "a b"}, {8, "refused", "a b"}, {50, "ok", "a b"}, {52, "a@52", "a b"}, {58, "", "a b"}, {59, "", "a"}, {61, "", ""}},
		},
		{"news from it is an answer", []step{{0, "a@0", "a"}, {8, "429", "a"}, {50, "b@50", "a b"}, {58, "", "a b"}, {59, "", ""}}},
		{"that there is no such report is an answer", []step{{0, "a@0", "a"}, {8, "404", "a"}, {9, "", ""}}},
	} {
		var f skew.Follower
		for _, s := range tt.steps {
			then := now.Add(time.Duration(s.at) * time.Second)
			name, rest, isReport := strings.Cut(s.what, "@")
			switch {
			case isReport:
				r := report("p/" + name + " v1")
				text, wrong := strings.CutSuffix(rest, "!")
				d, err := time.ParseDuration(text + "s")
				if err != nil {
					t.Fatal(err)
				}
				if wrong {
					d -= time.Hour
				}
				r.Name, r.Spec.RenewTime, r.Spec.LeaseDurationSeconds = name, metav1.NewTime(now.Add(d)), 9
				f.Put(&r, then)
			case strings.HasPrefix(s.what, "-"):
				f.Delete("demo", s.what[1:])
			case s.what != "":
				err, ok := answers[s.what]
				if !ok {
					t.Fatal(s.what)
				}
				f.Asked(err, then)
			}
			var got []string
			for _, r := range f.Of("demo", then) {
				if skew.Counts(&r, then) {
					got = append(got, r.Name)
				}
				if skew.Counts(&r, then) != f.Counts("demo", r.Name, then) {
					t.Errorf("%s: second %d: %s counts, and does not", tt.name, s.at, r.Name)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(s.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("%s: second %d: %s", tt.name, s.at, diff)
			}
		}
	}
}

func TestNextIsWhatExpiresFirst(t *testing.T) {
	var f skew.Follower
	if r, _ := f.Next(now); r != nil {
		t.Errorf("%v of none", r)
	}
	for name, d := range map[string]int32{"a": 30, "b": 15, "c": 11} { // renewed ten seconds ago
		r := report("p/" + name + " v1")
		r.Name, r.Spec.LeaseDurationSeconds = name, d
		f.Put(&r, now)
	}
	for after, want := range map[time.Duration]string{-time.Hour: "c", time.Second: "b", 5 * time.Second: "a", 20 * time.Second: ""} {
		r, at := f.Next(now.Add(after))
		switch {
		case r == nil && want == "":
		case r == nil || r.Name != want || !at.Equal(skew.Expires(r)):
			t.Errorf("after %s: %v at %s, want %s", after, r, at, want)
		}
	}
}

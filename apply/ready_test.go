package apply

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
)

// TestStaleConditionsAreNotReady: a condition counts if it is about the present generation, or does not say which.
func TestStaleConditionsAreNotReady(t *testing.T) {
	const ready, failed = `"sluice.dev/ready-when":"Ready=True"`, `"sluice.dev/failed-when":"Broken=True"`
	for name, test := range map[string]struct {
		annotations, status string
		want                status.Status
	}{
		"an annotation, stale":              {ready, `{"conditions":[{"type":"Ready","status":"True","observedGeneration":1}]}`, status.InProgressStatus},
		"an annotation, present":            {ready, `{"conditions":[{"type":"Ready","status":"True","observedGeneration":2}]}`, status.CurrentStatus},
		"an annotation, no generation":      {ready, `{"conditions":[{"type":"Ready","status":"True"}]}`, status.CurrentStatus},
		"an annotation, stale status":       {ready, `{"observedGeneration":1,"conditions":[{"type":"Ready","status":"True","observedGeneration":2}]}`, status.InProgressStatus},
		"an annotation, one of two stale":   {ready + "," + failed, `{"conditions":[{"type":"Broken","status":"True","observedGeneration":1},{"type":"Ready","status":"True","observedGeneration":2}]}`, status.CurrentStatus},
		"a failure, stale":                  {failed, `{"conditions":[{"type":"Broken","status":"True","observedGeneration":1}]}`, status.CurrentStatus},
		"a failure, present":                {failed, `{"conditions":[{"type":"Broken","status":"True","observedGeneration":2}]}`, status.FailedStatus},
		"kstatus, stale":                    {"", `{"conditions":[{"type":"Ready","status":"True","observedGeneration":1}]}`, status.InProgressStatus},
		"kstatus, present":                  {"", `{"conditions":[{"type":"Ready","status":"True","observedGeneration":2}]}`, status.CurrentStatus},
		"kstatus, stale and stalled":        {"", `{"conditions":[{"type":"Stalled","status":"True","observedGeneration":1}]}`, status.InProgressStatus},
		"kstatus, stalled":                  {"", `{"conditions":[{"type":"Stalled","status":"True","observedGeneration":2}]}`, status.FailedStatus},
		"kstatus, a condition of no weight": {"", `{"conditions":[{"type":"Seen","status":"True","observedGeneration":1},{"type":"Ready","status":"True","observedGeneration":2}]}`, status.CurrentStatus},
	} {
		obj, err := decodeObject([]byte(`{"apiVersion":"example.org/v1","kind":"Waiter","metadata":{"name":"w","generation":2,"annotations":{` + test.annotations + `}},"status":` + test.status + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := healthOf(obj); got.status != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}

package cluster

import (
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// The goroutines of a flow have no caller that could recover: a panic in one of them would end the process of the guard.
func TestAPanicOfAFlowIsAnError(t *testing.T) {
	server := httptest.NewServer(&fakeAPI{n: 3, objects: database})
	t.Cleanup(server.Close)
	c, err := For(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string]*pager{
		"while it reads":  {},
		"while it judges": {c: c, path: listPath, size: 2},
	} {
		t.Run(name, func(t *testing.T) {
			err := judgeLists(t.Context(), []*pager{list}, 1, nil, func(*batch) { t.Error("a batch is taken") })
			if err == nil || !strings.Contains(err.Error(), "a mistake in sluice") {
				t.Errorf("got %v", err)
			}
		})
	}
}

package apply

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestAPanicInOneObjectIsAnErrorOfThatCall(t *testing.T) {
	var objects []map[string]int // the second one is nil
	objects = append(objects, map[string]int{}, nil, map[string]int{})
	err := forEachIndex(t.Context(), len(objects), 2, func(_ context.Context, i int) error {
		objects[i]["a"] = i
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "assignment to entry in nil map") {
		t.Errorf("%v", err)
	}
	failed := errors.New("failed")
	if err := forEachIndex(t.Context(), 3, 2, func(context.Context, int) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}

package schema

import (
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestNewLimitsTheNodes(t *testing.T) {
	three := &apiextensionsv1.JSONSchemaProps{AllOf: []apiextensionsv1.JSONSchemaProps{{}, {}}}
	if _, err := (&builder{nodes: MaxNodes - 3}).buildNode(three, 0); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
	if _, err := (&builder{nodes: MaxNodes - 2}).buildNode(three, 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one too many: %v", err)
	}
}

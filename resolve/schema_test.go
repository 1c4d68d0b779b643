package resolve_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSchema(t *testing.T) {
	text, err := spec().Schema()
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{
		"type": "object", "description": "Fakes.", "additionalProperties": false,
		"allOf": [{"anyOf": [{"required": ["path"]}, {"required": ["pathInRepo"]}]}],
		"properties": {
			"path": {"type": "string", "maxLength": 20, "description": "A path."},
			"pathInRepo": {"type": "string", "maxLength": 20, "description": "Another name of path."},
			"kind": {"type": "string", "maxLength": 4096, "enum": ["task", "pipeline"], "description": "A kind. The default is in configuration key default-kind."},
			"list": {"type": "array", "items": {"type": "string", "maxLength": 4096}, "description": "A list."},
			"cache": {"type": "string", "maxLength": 4096, "enum": ["always", "never", "auto"],
				"description": "Whether the result may come from the cache: auto (only what cannot change), always, never. The default is in configuration key default-cache-mode."}
		}}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMarkdownHasEveryParameterAndKey(t *testing.T) {
	text := spec().Markdown()
	for _, row := range []string{
		"| `path`, `pathInRepo` | string | required | A path. |",
		"| `kind` | string | key `default-kind` | A kind. One of task, pipeline. |",
		"| `cache` | string |", "| `fetch-timeout` | `1m` |", "| key of `fake-config` |",
	} {
		if !strings.Contains(text, row) {
			t.Errorf("no %q in\n%s", row, text)
		}
	}
}

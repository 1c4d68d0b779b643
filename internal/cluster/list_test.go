package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func readAll(r io.Reader) (items []string, meta listMeta, err error) {
	meta, err = readList(r, func(raw []byte) error {
		items = append(items, string(raw))
		return nil
	})
	return items, meta, err
}

func TestListsAreReadInAnyOrderOfTheirFields(t *testing.T) {
	seven := int64(7)
	for name, c := range map[string]struct {
		text  string
		items []string
		meta  listMeta
	}{
		"metadata last":   {`{"apiVersion":"a/v1","items":[{"a":1},{"b":"]}"}],"kind":"ThingList","metadata":{"continue":"t","remainingItemCount":7}}`, []string{`{"a":1}`, `{"b":"]}"}`}, listMeta{Continue: "t", RemainingItemCount: &seven}},
		"metadata first":  {` { "metadata" : {} , "kind" : "List" , "items" : [ {"a" : [ { } ] } ] } ` + "\n", []string{`{"a" : [ { } ] }`}, listMeta{}},
		"no objects":      {`{"items":[],"kind":"ThingList","metadata":{}}`, nil, listMeta{}},
		"null":            {`{"items":null,"kind":"ThingList","metadata":{}}`, nil, listMeta{}},
		"odd objects":     {`{"items":[1,"a\"]",null,-2.5e3,[]],"kind":"ThingList","metadata":{}}`, []string{`1`, `"a\"]"`, `null`, `-2.5e3`, `[]`}, listMeta{}},
		"unknown fields":  {`{"items":[],"x":{"items":[1]},"y":"z","kind":"ThingList","metadata":{},"x":3}`, nil, listMeta{}},
		"escaped slashes": {`{"items":[{"a":"\\"},{"b":"\\\""}],"kind":"ThingList","metadata":{}}`, []string{`{"a":"\\"}`, `{"b":"\\\""}`}, listMeta{}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{
				strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text)),
				iotest.DataErrReader(strings.NewReader(c.text)), iotest.HalfReader(strings.NewReader(c.text)),
			} {
				items, meta, err := readAll(r)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.items, items); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(c.meta, meta); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestWhatIsNoListIsAnError(t *testing.T) {
	for _, text := range []string{
		`null`, `[]`, `"x"`, `<html>`, `{}`, `{"items":[]}`, `{"items":[],"metadata":{}}`, `{"kind":"ThingList","metadata":{}}`, `{"kind":"ThingList","items":[]}`,
		`{"kind":"Thing","metadata":{},"items":[]}`, `{"kind":1,"metadata":{},"items":[]}`, `{"kind":"ThingList","metadata":1,"items":[]}`,
		`{"kind":"ThingList","metadata":{},"items":{}}`, `{"kind":"ThingList","metadata":{},"items":"x"}`, `{"kind":"ThingList","metadata":{},"items":none}`,
		`{"kind":"ThingList","metadata":{},"items":[],"items":[]}`, `{"kind":"ThingList","metadata":{},"metadata":{},"items":[]}`,
		`{"kind":"ThingList","metadata":{},"items":[]}{}`, `{"kind":"ThingList","metadata":{},"items":[]} x`, `{"kind":"ThingList" "metadata":{},"items":[]}`,
		`{"kind":"ThingList","metadata":{},"items":[1 2]}`, `{"kind":"ThingList","metadata":{},"items":[1,]}`, `{"kind":"ThingList","metadata":{},"items":[,]}`,
		`{"kind":"ThingList","metadata":{},"items":[}]`, `{"kind":"ThingList","metadata":{},}`, `{kind:1}`, `{"a" 1}`, `{"\q":1}`,
		`{"kind":"ThingList","metadata":{},"items":[{"a":tru}]}`, `{"kind":"ThingList","metadata":{},"items":[{"a":"\q"}]}`, `{"kind":"ThingList","metadata":{},"items":[{"a":[1}]}]}`,
		"\x00\xff\xfe", `{"kind":"ThingList","metadata":{"continue":3},"items":[]}`,
	} {
		if _, _, err := readAll(strings.NewReader(text)); !errors.Is(err, errList) {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func TestEveryCutIsTold(t *testing.T) {
	text := `{"apiVersion":"a/v1","items":[{"a":"b\""},{"b":[1,2]}],"kind":"ThingList","metadata":{"continue":"t"}}`
	broken := errors.New("broken")
	for n := range len(text) {
		for _, end := range []io.Reader{strings.NewReader(""), iotest.ErrReader(broken)} {
			var cut cutError
			if _, _, err := readAll(io.MultiReader(strings.NewReader(text[:n]), end)); !errors.As(err, &cut) {
				t.Errorf("%s: error %v", text[:n], err)
			}
		}
	}
}

// endless is a text that goes on for ever.
type endless struct{ start, more string }

func (e *endless) Read(p []byte) (int, error) {
	if e.start != "" {
		n := copy(p, e.start)
		e.start = e.start[n:]
		return n, nil
	}
	return copy(p, e.more), nil
}

func TestEndlessValuesAreRefused(t *testing.T) {
	for name, start := range map[string]string{
		"object": `{"items":[{"a":"`, "name": `{"`, "field": `{"x":"`, "depth": `{"items":[[`,
	} {
		t.Run(name, func(t *testing.T) {
			more := "xxxxxxxx"
			if name == "depth" {
				more = "[[[[[[[["
			}
			if _, _, err := readAll(&endless{start, more}); !errors.Is(err, errList) {
				t.Errorf("error %v", err)
			}
		})
	}
	if _, _, err := readAll(iotest.ErrReader(nil)); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: %v", err)
	}
}

func FuzzReadList(f *testing.F) {
	f.Add([]byte(`{"items":[{"a":1},[],"x"],"kind":"ThingList","metadata":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		items, meta, err := readAll(bytes.NewReader(text))
		for _, item := range items {
			if !json.Valid([]byte(item)) {
				t.Errorf("%q is no valid JSON", item)
			}
		}
		var want struct {
			Kind     string
			Metadata *listMeta
			Items    []json.RawMessage
		}
		if err != nil || !json.Valid(text) || json.Unmarshal(text, &want) != nil || want.Metadata == nil || bytes.ContainsAny(text, "\\") {
			return // names that differ in case, or are written in another way, are not the same to the library
		}
		if len(items) != len(want.Items) {
			t.Skip()
		}
		for i := range items {
			if items[i] != string(want.Items[i]) {
				t.Errorf("object %d: %s, want %s", i, items[i], want.Items[i])
			}
		}
		if diff := cmp.Diff(*want.Metadata, meta); diff != "" {
			t.Skip() // the same, for metadata that are there in two cases
		}
	})
}

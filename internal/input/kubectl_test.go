package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestStreamsAreReadAsKubectlReadsThem holds streams of documents, put together of all that ends and begins one, against the
// decoder that kubectl uses.
func TestStreamsAreReadAsKubectlReadsThem(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	breaks := []string{"---\n", "--- # a comment\n", "...\n", "...\n---\n", "\n---\n\n", "... # the end\n", "...\n# a comment\n"}
	ends := []string{"", "text: |\n  ^a$\n", "text: |-\n  ^a$\n", "text: >\n  a\n  b\n", "text: |+\n  a\n\n", "text: a\n", "text: 'a b'\n", "# the last\n"}
	ignored := 0
	for range 3000 {
		var b strings.Builder
		for i := range 1 + r.IntN(4) {
			if i > 0 {
				b.WriteString(breaks[r.IntN(len(breaks))])
			} else if r.IntN(4) == 0 {
				b.WriteString("---\n")
			}
			fmt.Fprintf(&b, "apiVersion: v1\nkind: K\nmetadata: {name: a%d}\n%s", i, ends[r.IntN(len(ends))])
		}
		text := b.String()
		if r.IntN(2) == 0 {
			text = strings.TrimSuffix(text, "\n")
		}
		want, err := kubectlReads(text)
		if err != nil {
			t.Fatalf("kubectl does not read\n%s\n%v", text, err)
		}
		set, err := DecodeObjects(t.Context(), "f", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		var got []string
		for _, o := range set.Objects {
			got = append(got, string(o.JSON))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("read\n%s\nas\n%s\nand by kubectl as\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		ignored += len(set.Warnings)
	}
	if ignored == 0 {
		t.Error("no stream had a document that kubectl leaves out")
	}
}

func kubectlReads(text string) ([]string, error) {
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	var out []string
	for {
		var v map[string]any
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
		if v == nil {
			continue
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out = append(out, string(b))
	}
}

// TestItemsOfATypedListHaveItsKind: kubectl gives items without kind and apiVersion those of the list.
func TestItemsOfATypedListHaveItsKind(t *testing.T) {
	const text = `apiVersion: v1
kind: ConfigMapList
items:
- metadata: {name: a}
- {kind: Secret, apiVersion: v1, metadata: {name: b}}
`
	set, err := DecodeObjects(t.Context(), "f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range set.Objects {
		got = append(got, string(o.JSON))
	}
	decoded, err := runtime.Decode(unstructured.UnstructuredJSONScheme, []byte(`{"apiVersion":"v1","kind":"ConfigMapList","items":[{"metadata":{"name":"a"}},{"kind":"Secret","apiVersion":"v1","metadata":{"name":"b"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	list, ok := decoded.(*unstructured.UnstructuredList)
	if !ok {
		t.Fatalf("%T", decoded)
	}
	var want []string
	for _, item := range list.Items {
		text, err := item.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, strings.TrimSpace(string(text)))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, and kubectl %v", got, want)
	}
}

package apply

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHooksOfHelmThatAreNoPartOfAnApplyAreLeftOut(t *testing.T) {
	for value, test := range map[string]struct {
		events []string
		out    bool
	}{
		"":                            {nil, false},
		" , ":                         {nil, false},
		"test":                        {[]string{"test"}, true},
		"test-success":                {[]string{"test-success"}, true},
		" Pre-Delete ,post-delete":    {[]string{"pre-delete", "post-delete"}, true},
		"pre-rollback, post-rollback": {[]string{"pre-rollback", "post-rollback"}, true},
		"pre-install,pre-delete":      {[]string{"pre-install", "pre-delete"}, false},
		"post-upgrade,test":           {[]string{"post-upgrade", "test"}, false},
		"crd-install":                 {[]string{"crd-install"}, false},
		"never-heard-of":              {[]string{"never-heard-of"}, false},
	} {
		o, err := NewObject("a.yaml", 1, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"helm.sh/hook":%q}}}`, value))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.events, o.hook); diff != "" || isApart(o.hook) != test.out {
			t.Errorf("%q: left out: %t, want %t; events %s", value, isApart(o.hook), test.out, diff)
		}
	}
	for _, annotations := range []string{`{"helm.sh/hook":7}`, `{"helm.sh/hook":null}`, `null`, `[]`, `"x"`} {
		o, err := NewObject("a.yaml", 1, []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":`+annotations+`}}`))
		if err != nil || o.hook != nil {
			t.Errorf("%s: %v, %v", annotations, o.hook, err)
		}
	}
}

// A policy that Helm does not know either is told, and nothing is deleted for it.
func TestOnlyKeepKeeps(t *testing.T) {
	for value, want := range map[any]bool{"keep": true, " Keep ": true, "": false, "delete": true, 7: false, nil: false} {
		if got := marksOf(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationPolicy: value}}}).kept; got != want {
			t.Errorf("%v: %t", value, got)
		}
	}
}

// Helm takes several hooks of one name, and one beside an object of that name.
func TestHooksThatAreLeftOutMayHaveTheNameOfOthers(t *testing.T) {
	var source []Object
	for i, hook := range []string{"", "pre-delete", "test", "test", "post-delete"} {
		text := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"helm.sh/hook":%q}},"spec":{"n":%d}}`, hook, i)
		o, err := NewObject("a.yaml", i, text)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, o)
	}
	objects, left := leaveOut(source)
	if len(objects) != 1 || objects[0].Line != 0 {
		t.Errorf("objects %v", objects)
	}
	var got []string
	for _, h := range left {
		got = append(got, h.String())
	}
	if diff := cmp.Diff([]string{"Pod p (pre-delete)", "Pod p (test)", "Pod p (post-delete)"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsToldOfAHookIsBounded(t *testing.T) {
	h := Hook{ID{Kind: "Pod", Name: "p"}, []string{strings.Repeat("é", 1000), "a", "b", "c", "d", "e", "f"}}
	if diff := cmp.Diff("Pod p ("+strings.Repeat("é", 13)+"…,a,b,c,d,…)", h.String()); diff != "" {
		t.Error(diff)
	}
}

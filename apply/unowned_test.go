package apply

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestItemsThatNobodyOwnsAreFound(t *testing.T) {
	const live = `'l':[{'name':'a','in':[{'name':'x'},{'name':'y'}]},{'name':'b'},{'port':1}],'s':['p','q'],'d':{'e':1}`
	entry := func(manager, fields string) string {
		return fmt.Sprintf(`{'manager':'%s','operation':'Apply','fieldsV1':%s}`, manager, fields)
	}
	const a, x, b = `'k:{\"name\":\"a\"}'`, `'k:{\"name\":\"x\"}'`, `'k:{\"name\":\"b\"}'`
	mine := entry(Manager, `{'f:l':{`+a+`:{'.':{},'f:name':{},'f:in':{`+x+`:{'.':{},'f:name':{}}}}},'f:s':{'v:\"p\"':{}}}`)
	for name, c := range map[string]struct {
		entries string
		want    []string
	}{
		"in lists, below items and in sets": {mine, []string{`.l[{"name":"a"}].in[{"name":"y"}]`, `.l[{"name":"b"}]`, `.l[2]`, `.s["q"]`}},
		"items of others":                   {mine + "," + entry("other", `{'f:l':{`+b+`:{}},'f:s':{'v:\"q\"':{}}}`), []string{`.l[{"name":"a"}].in[{"name":"y"}]`, `.l[2]`}},
		"a list that another one owns":      {mine + "," + entry("other", `{'f:l':{},'f:s':{}}`), nil},
		"a list that is owned as a whole":   {entry(Manager, `{'f:l':{},'f:s':{}}`), nil},
		"no entry of ours":                  {entry("other", `{'f:l':{`+a+`:{}}}`), nil},
	} {
		obj := parse(t, `{'metadata':{'managedFields':[`+c.entries+`]},`+live+`}`)
		entries := managedEntriesOf(obj)
		if diff := cmp.Diff(c.want, unownedItems(entries, entryOfOwnApplies(entries), obj)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestAdmissionAddsItemsWithoutAnOwner: the volume of a service account's token is in each Pod, and is no item of an earlier manifest.
func TestAdmissionAddsItemsWithoutAnOwner(t *testing.T) {
	const rest = `'metadata':{'managedFields':[{'manager':'sluice','operation':'Apply','fieldsV1':{'f:spec':{'f:volumes':{'k:{\"name\":\"v\"}':{'.':{},'f:name':{}}}}}}]},'spec':{'volumes':[{'name':'v'},{'name':'kube-api-access'}]}}`
	for head, want := range map[string]int{`{'apiVersion':'v1','kind':'Pod',`: 0, `{'apiVersion':'example.org/v1','kind':'Pod',`: 1} {
		obj := parse(t, head+rest)
		entries := managedEntriesOf(obj)
		if got := unownedItems(entries, entryOfOwnApplies(entries), obj); len(got) != want {
			t.Errorf("%s: %v", head, got)
		}
	}
}

func TestTheNoteOfItemsThatNobodyOwnsIsShort(t *testing.T) {
	p := &Plan{}
	if got := p.UnownedNote(); got != "" {
		t.Error(got)
	}
	p.Items = []Item{{Object: Object{ID: ID{Kind: "A", Name: "a"}}, now: standing{unowned: []string{".a[0]", ".a[1]", ".a[2]"}}}, {Object: Object{ID: ID{Kind: "A", Name: "b"}}, now: standing{unowned: []string{".a[0]", ".a[1]", ".a[2]"}}}}
	const want = "list items that are not in the source stay, because nobody owns them: A a .a[0], A a .a[1], A a .a[2], A b .a[0], A b .a[1] and 1 more; kubectl edit removes them, unless a webhook adds them again"
	if got := p.UnownedNote(); got != want {
		t.Error(got)
	}
}

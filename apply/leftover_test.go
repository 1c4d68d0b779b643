package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLeftoversAreFieldsOfOthersInWhatTheManifestLeavesOut(t *testing.T) {
	live := parse(t, `{'metadata':{'managedFields':[
{'manager':'sluice','operation':'Apply','fieldsV1':{'f:spec':{'f:a':{'f:b':{},'f:c':{'f:d':{}}},'f:z':{}}}},
{'manager':'injector','operation':'Update','fieldsV1':{'f:spec':{'f:a':{'f:c':{'f:ca':{}}},'f:other':{'f:x':{}}}}},
{'manager':'status','operation':'Update','subresource':'status','fieldsV1':{'f:spec':{'f:a':{'f:s':{}}}}},
{'manager':'kapp','operation':'Update','fieldsV1':{'f:spec':{'f:a':{'f:k':{}}}}}]}}`)
	for want, leftovers := range map[string][][]string{
		`{'spec':{'z':1}}`:                        {{"spec", "a"}, {"spec", "a", "c", "ca"}, {"injector"}},
		`{'spec':{'a':{'b':1},'z':1}}`:            {{"spec", "a", "c"}, {"spec", "a", "c", "ca"}, {"injector"}},
		`{'spec':{'a':{'b':1,'c':{}}}}`:           nil,
		`{'spec':{'a':{'c':{'ca':1}},'other':1}}`: nil,
	} {
		var got [][]string
		for _, l := range leftoversOf(live, parse(t, want), []string{"kapp"}) {
			got = append(got, l.part, l.field, []string{l.owner})
		}
		if diff := cmp.Diff(leftovers, got); diff != "" {
			t.Errorf("%s: %s", want, diff)
		}
	}
	if got := leftoversOf(parse(t, `{}`), parse(t, `{}`), nil); got != nil {
		t.Errorf("%v", got)
	}
}

func TestTheRemovalOfALeftoverIsACommand(t *testing.T) {
	it := &Item{Object: Object{ID: ID{Group: "apps", Kind: "Deployment", Namespace: "n", Name: "d"}}, mapping: mapping{resource: "deployments"}}
	if got, want := it.removalCommand([]string{"spec", "a/b"}), `kubectl patch deployments.apps d -n n --type=json -p '[{"op":"remove","path":"/spec/a~1b"}]'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

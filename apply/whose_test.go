package apply

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// These say whose an object is. Losses that the random test of two apps and others found came of each of them being wrong; that test needs an
// API server and time, and these do not.

const shopOwner = "shops/shop"

// planOf is a plan of the app shop, with an inventory of entries.
func planOf(entries ...Entry) *Plan {
	return &Plan{inventory: &Inventory{App: "shop", Namespace: "shops", Objects: sortEntries(entries)}}
}

func namespaceEntry(e Entry) Entry {
	e.ID, e.Version, e.Resource = ID{Kind: "Namespace", Name: "n"}, "v1", "namespaces"
	return e
}

// objectOf decodes an object.
func objectOf(t *testing.T, text string) map[string]any {
	t.Helper()
	obj, err := decodeObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func entryOf(manager, operation string, fields map[string]any) map[string]any {
	return map[string]any{"manager": manager, "operation": operation, "apiVersion": "v1", "time": "2001-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields}
}

// Two apps apply as one manager, and what it owns may look the same within a second.
func TestARecordCountsOnlyWhileTheObjectIsTheApps(t *testing.T) {
	for owner, want := range map[string]Action{shopOwner: Unchanged, "shops/other": Update, "": Update} {
		p := planOf()
		o, err := NewObject("f", 1, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"by":"shop"}}`))
		if err != nil {
			t.Fatal(err)
		}
		it, err := p.makeItem(&o, "shops")
		if err != nil {
			t.Fatal(err)
		}
		obj := objectOf(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shops"},"data":{"by":"somebody"}}`)
		meta := metadataOf(obj)
		if owner != "" {
			meta["annotations"] = map[string]any{AnnotationApp: owner}
		}
		meta["managedFields"] = []any{entryOf(Manager, "Apply", fieldsOf(map[string]any{"data": map[string]any{"by": ""}}))}
		p.inventory.Objects = []Entry{{ID: it.ID, Version: "v1", Resource: "configmaps", Manifest: it.contentDigest(), Owned: entryOfOwnApplies(managedEntriesOf(obj)).entryDigest()}}
		if err := (&Applier{}).compareWithLive(p, &it, obj); err != nil {
			t.Fatal(err)
		}
		if it.Action != want {
			t.Errorf("marked as that of %q: %s, want %s", owner, it.Action, want)
		}
	}
}

func TestANamespaceIsTheAppsIfItHasMadeIt(t *testing.T) {
	says := func(annotations string) string {
		return `{"metadata":{"name":"n","annotations":{` + annotations + `}}}`
	}
	marked := `"` + AnnotationApp + `":"` + shopOwner + `"`
	for name, test := range map[string]struct {
		record *Entry
		obj    string
		want   bool
	}{
		"it says so":                                    {nil, says(`"` + annotationMadeBy + `":"` + shopOwner + `"`), true},
		"it says that another one has":                  {&Entry{Found: true}, says(`"` + annotationMadeBy + `":"shops/other"`), false},
		"an apply that ended in order has recorded it":  {&Entry{Manifest: "x"}, says(marked), true},
		"an apply was to make it, and another one has":  {&Entry{}, says(marked), false},
		"it was there before":                           {&Entry{Manifest: "x", Found: true}, says(marked), false},
		"the app has forgotten it, and it is marked":    {nil, says(marked), false},
		"somebody has made it, and nobody has taken it": {nil, says(""), false},
	} {
		p := planOf()
		if test.record != nil {
			p = planOf(namespaceEntry(*test.record))
		}
		if got := p.hasCreatedNamespace(ID{Kind: "Namespace", Name: "n"}, objectOf(t, test.obj)); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Another app has made the namespace after the plan was: the answer says that the apply did not create it.
func TestANamespaceThatComesInBetweenWasThereBefore(t *testing.T) {
	s, a := newServer(t)
	s.put("/api/v1/namespaces", map[string]any{})
	o, err := NewObject("f", 1, []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`))
	if err != nil {
		t.Fatal(err)
	}
	p := &Plan{warnings: &warnings{}}
	it := Item{Object: o, Action: Create, mapping: mapping{resource: "namespaces"}}
	if err := a.writeItem(t.Context(), p, &it); err != nil || !it.now.found || it.now.made {
		t.Errorf("found %v, made %v: %v", it.now.found, it.now.made, err)
	}
}

func TestACopyIsNotTheApps(t *testing.T) {
	p := planOf(Entry{ID: ID{Kind: "ConfigMap", Namespace: "n", Name: "recorded"}, Version: "v1", Resource: "configmaps"})
	applied := []metav1.ManagedFieldsEntry{{Manager: Manager, Operation: metav1.ManagedFieldsOperationApply}}
	for name, test := range map[string]struct {
		name, owner string
		keeps       bool
		fields      []metav1.ManagedFieldsEntry
		want        bool
	}{
		"recorded and marked":            {"recorded", shopOwner, false, nil, true},
		"recorded, and another one's":    {"recorded", "shops/other", false, applied, false},
		"recorded, and kept":             {"recorded", shopOwner, true, applied, false},
		"applied, and not recorded":      {"lost", shopOwner, false, applied, true},
		"marked by somebody who copied":  {"copy", shopOwner, false, []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply}}, false},
		"written by Sluice for somebody": {"copy", shopOwner, false, []metav1.ManagedFieldsEntry{{Manager: Manager, Operation: metav1.ManagedFieldsOperationUpdate}}, false},
	} {
		m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: test.name, Namespace: "n", Annotations: map[string]string{AnnotationApp: test.owner}, ManagedFields: test.fields}}
		if test.keeps {
			m.Annotations["helm.sh/resource-policy"] = "keep"
		}
		if got := p.isOurs(ID{Kind: "ConfigMap", Namespace: "n", Name: test.name}, m); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWhatBelongsToAnObjectThatStaysStays(t *testing.T) {
	s, a := newServer(t)
	const roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles/"
	put := func(name, owner string) {
		meta := map[string]any{"name": name, "uid": name}
		if owner != "" {
			meta["ownerReferences"] = []any{map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": owner, "uid": owner}}
		}
		s.put(roles+name, map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta})
	}
	put("stays", "")
	put("going", "")
	put("below", "stays")
	put("below-going", "going")
	put("circle", "circle")
	s.forbidden[roles+"unread"] = true
	p := &Plan{Removals: []Removal{{Action: Delete, live: &live{uid: "going"}}, {Action: Keep, live: &live{uid: "stays"}}}}
	kinds := []servedKind{{"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false}, {"", "v1", "configmaps", "ConfigMap", true}}
	owners := a.ownersOf(p, kinds)
	for name, want := range map[string]bool{"stays": true, "below": true, "going": false, "below-going": false, "gone": false, "unread": true, "circle": true} {
		refs := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "beside", UID: "beside"}, {APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: name, UID: types.UID(name)}}
		for range 2 {
			if got := owners.anyOwnerStays(t.Context(), refs); got != want {
				t.Errorf("%s: %v", name, got)
			}
		}
	}
	if owners.anyOwnerStays(t.Context(), []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "stays", UID: "another"}}) {
		t.Error("an owner that is another object by now keeps it")
	}
}

func TestAnObjectThatTheSourceHasInAnotherGroupStays(t *testing.T) {
	p := planOf()
	p.Items = []Item{{Object: Object{ID: ID{"events.k8s.io", "Event", "n", "e"}}, now: standing{live: &live{uid: "1"}}}}
	p.Removals = []Removal{
		{Entry: Entry{ID: ID{"", "Event", "n", "e"}}, Action: Delete, live: &live{uid: "1"}},
		{Entry: Entry{ID: ID{"", "Event", "n", "other"}}, Action: Delete, live: &live{uid: "2"}},
	}
	p.shelterRemovals()
	if p.Removals[0].Action != Forget || p.Removals[1].Action != Delete {
		t.Errorf("%s, %s", p.Removals[0].Action, p.Removals[1].Action)
	}
}

func TestWhatIsKeptIsNotClearedAway(t *testing.T) {
	s, a := newServer(t)
	s.shop()
	it := Item{Object: Object{ID: ID{Kind: "ConfigMap", Namespace: "shops", Name: "thing"}, Version: "v1"}, mapping: mapping{resource: "configmaps", namespaced: true}, now: standing{live: &live{owner: shopOwner}}}
	metadataOf(s.objects[thing])["annotations"] = map[string]any{AnnotationApp: shopOwner, "helm.sh/resource-policy": "keep"}
	if err := a.deleteForReplace(t.Context(), planOf(), &it); err == nil || !strings.Contains(err.Error(), "helm.sh/resource-policy: keep") || s.objects[thing] == nil {
		t.Errorf("%v", err)
	}
	s.owned(shopOwner)
	it.marks = marks{treatment: treatment{kept: true}, keptBy: "x"}
	if err := a.deleteForReplace(t.Context(), planOf(), &it); err == nil || s.objects[thing] == nil {
		t.Errorf("%v", err)
	}
	it.marks = marks{}
	if err := a.deleteForReplace(t.Context(), planOf(), &it); err != nil || s.objects[thing] != nil {
		t.Errorf("%v", err)
	}
}

// A field that is to keep what the cluster has, and that goes with those of its former owner, has to be in what is applied.
func TestAnIgnoredFieldOfAFormerApplierIsApplied(t *testing.T) {
	for manager, want := range map[string]any{"kubectl-client-side-apply": int64(3), "an-autoscaler": nil} {
		p := planOf()
		o, err := NewObject("f", 1, []byte(`{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a","annotations":{"sluice.dev/ignore-fields":"/spec/replicas"}},"spec":{"replicas":5}}`))
		if err != nil {
			t.Fatal(err)
		}
		it := Item{Object: o}
		obj := objectOf(t, `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},"spec":{"replicas":3}}`)
		metadataOf(obj)["managedFields"] = []any{entryOf(manager, "Update", fieldsOf(map[string]any{"spec": map[string]any{"replicas": ""}}))}
		if err := p.rebaseItem(&it, obj); err != nil {
			t.Fatal(err)
		}
		content, err := it.decodeContent()
		if err != nil {
			t.Fatal(err)
		}
		if spec, _ := content["spec"].(map[string]any); spec["replicas"] != want {
			t.Errorf("%s: %v, want %v", manager, spec["replicas"], want)
		}
	}
}

// A request that the server refused changed nothing. A request without an answer may have changed something.
func TestRefusedRequestsAreNoWrites(t *testing.T) {
	s, a := newServer(t)
	s.shop()
	s.forbidden[thing] = true
	if err := a.client.deleteObject(t.Context(), thing, "", "", false); err == nil || a.Writes() != 0 {
		t.Errorf("%d writes: %v", a.Writes(), err)
	}
	s.forbidden[thing], s.broken[thing] = false, true
	if err := a.client.deleteObject(t.Context(), thing, "", "", false); err == nil || a.Writes() != 1 {
		t.Errorf("%d writes: %v", a.Writes(), err)
	}
}

// An item that could not be read before its CRD was written is read then, and belongs to whom it belongs.
func TestAnItemIsReadOnceItsCRDIsWritten(t *testing.T) {
	s, a := newServer(t)
	s.shop()
	s.owned("shops/other")
	item := func(name string) *Item {
		return &Item{
			Object:  Object{ID: ID{Kind: "ConfigMap", Namespace: "shops", Name: name}, Version: "v1", json: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}}`)},
			mapping: mapping{resource: "configmaps", namespaced: true}, Action: Update, unseen: "down",
		}
	}
	it := item("thing")
	if err := a.readAfterCRD(t.Context(), planOf(), it); err == nil || !errors.Is(err, ErrOtherApp) || it.now.live == nil || it.unseen != "" {
		t.Errorf("of another app: %v, %+v", err, it)
	}
	if it = item("none"); a.readAfterCRD(t.Context(), planOf(), it) != nil || it.Action != Create || it.unseen != "" {
		t.Errorf("missing: %+v", it)
	}
}

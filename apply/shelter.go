package apply

import "fmt"

// Some objects must outlive their removal from the source because other objects need them: a namespace in which the source still has
// objects, or a CRD whose objects are kept.

// shelterRemovals keeps three kinds of removals:
//
//   - objects that the source has under another API group;
//   - namespaces in which the source has objects, or in which an object of the app is kept or left alone;
//   - CRDs of which the source has objects, or of which an annotation keeps an object.
//
// It does not know the objects of others in them, nor objects that the app has forgotten earlier. It returns the removals that it
// has kept.
//
// If a namespace or a CRD stays because of an object that the app forgets, the app forgets it, too. Otherwise the next deletion of
// the app would delete it, since the inventory no longer has that object.
func (p *Plan) shelterRemovals() []*Removal {
	wanted, left, kept := map[string]ID{}, map[string]ID{}, map[string]ID{} // by namespace
	wantedOf, leftOf := map[string]ID{}, map[string]ID{}                    // by the name of the CRD
	note := func(where map[string]ID, key string, id ID) {
		if _, ok := where[key]; !ok {
			where[key] = id
		}
	}
	same := map[string]ID{} // by UID
	for it := range eachOf(p.Items) {
		if it.now.live != nil {
			same[it.now.live.uid] = it.ID
		}
		note(wanted, it.Namespace, it.ID)
		note(wantedOf, it.mapping.resource+"."+it.Group, it.ID)
	}
	for i := range p.Removals {
		switch r := &p.Removals[i]; {
		case r.Action == Keep:
			note(kept, r.Namespace, r.ID)
		case r.Stays():
			note(left, r.Namespace, r.ID)
			if r.live.kept {
				note(leftOf, r.Resource+"."+r.Group, r.ID)
			}
		}
	}
	var out []*Removal
	for r := range eachOf(p.Removals) {
		if r.Action != Delete {
			continue
		}
		if id, ok := same[r.live.uid]; ok {
			r.Action, r.Reason = Forget, fmt.Sprintf("the source has it as %s", id)
		}
		switch {
		case isNamespace(r.ID):
			if id, ok := kept[r.Name]; ok {
				r.Action, r.Reason = Keep, fmt.Sprintf("%s in it is kept", id)
			} else if id, ok := wanted[r.Name]; ok {
				r.Action, r.Reason = Forget, fmt.Sprintf("the source has objects in it, such as %s", id)
			} else if id, ok := left[r.Name]; ok {
				r.Action, r.Reason = Forget, fmt.Sprintf("%s in it is left alone", id)
			}
		case r.isCRD():
			if id, ok := wantedOf[r.Name]; ok {
				r.Action, r.Reason = Keep, fmt.Sprintf("the source has objects that it defines, such as %s", id)
			} else if id, ok := leftOf[r.Name]; ok {
				r.Action, r.Reason = Forget, fmt.Sprintf("%s is left alone, which it defines", id)
			}
		}
		if r.Action != Delete {
			out = append(out, r)
		}
	}
	return out
}

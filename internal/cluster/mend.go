package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/schema/upstream"
)

// A stored object that a new CRD would harm can be changed before the update. This file tries a change on an object without writing
// it, and tells the fate of the result.

// Mender tries changes of stored objects that a new CRD would harm. It writes nothing.
type Mender struct {
	n    *scanner
	live *upstream.Validator
}

// NewMender returns the mender for an update of the live CRD.
func (c *Cluster) NewMender(live, next *apiextensionsv1.CustomResourceDefinition, kube *version.Version) (*Mender, error) {
	from, to, note := routeVersions(live, next)
	if note != "" {
		return nil, errors.New(note)
	}
	j, err := newJudge(live, from, next, to.Name, kube)
	if err != nil {
		return nil, err
	}
	props, options, err := upstream.ForCRD(live, from, kube)
	if err != nil {
		return nil, err
	}
	v, err := upstream.New(props, options)
	return &Mender{&scanner{c: c, live: live, version: from, j: j}, v}, err
}

// Mend reads the object of that name, which is a [Fate]'s, and returns it before and after change, and the fate of the changed object.
// The defaults of the new CRD are filled in after the change, where the live CRD has the field. Both objects are in the version that
// the live CRD serves, without managedFields.
func (m *Mender) Mend(ctx context.Context, name string, change func(map[string]any)) (before, after map[string]any, fate Fate, err error) {
	namespace, name, found := strings.Cut(name, "/")
	if !found {
		namespace, name = "", namespace
	}
	var raw json.RawMessage
	if err := m.n.c.readJSON(ctx, m.n.pagerFor(namespace).path+"/"+url.PathEscape(name), nil, &raw); err != nil {
		return nil, nil, Fate{}, err
	}
	if before, err = decodeObject(raw); err != nil {
		return nil, nil, Fate{}, err
	}
	after = runtime.DeepCopyJSON(before)
	change(after)
	after["apiVersion"] = m.n.j.apiVersion
	filled, _, _, err := m.n.j.v.Read(after)
	if err != nil {
		return nil, nil, Fate{}, err
	}
	text, err := json.Marshal(after)
	if err != nil {
		return nil, nil, Fate{}, err
	}
	if fate, err = m.n.j.fateOf(ctx, text); err != nil {
		return nil, nil, Fate{}, err
	}
	filled["apiVersion"] = before["apiVersion"]
	if filled, _, _, err = m.live.Read(filled); err != nil { // what the live CRD lacks could not be stored
		return nil, nil, Fate{}, err
	}
	after = withAdded(after, filled)
	after["apiVersion"] = before["apiVersion"]
	return before, after, fate, nil
}

// withAdded returns an object with the fields that another one has in addition, also within its objects.
func withAdded(obj, more map[string]any) map[string]any {
	out := maps.Clone(obj)
	for name, value := range more {
		inner, isObject := out[name].(map[string]any)
		added, addsObject := value.(map[string]any)
		if _, has := out[name]; !has {
			out[name] = value
		} else if isObject && addsObject {
			out[name] = withAdded(inner, added)
		}
	}
	return out
}

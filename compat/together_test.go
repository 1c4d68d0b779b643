package compat

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/report"
	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
)

// crdChange is one change of a CRD. apply reports whether it applies to d, which it changes.
type crdChange struct {
	name  string
	apply func(d *crd) bool
}

func versionOf(d *crd, name string) *crdVersion {
	if i := slices.IndexFunc(d.Spec.Versions, func(v crdVersion) bool { return v.Name == name }); i >= 0 {
		return &d.Spec.Versions[i]
	}
	return nil
}

// inVersion is a change of one version.
func inVersion(name, version string, change func(v *crdVersion)) crdChange {
	return crdChange{name + " in " + version, func(d *crd) bool {
		v := versionOf(d, version)
		if v != nil {
			change(v)
		}
		return v != nil
	}}
}

func withConversion(name, url, review string) crdChange {
	return crdChange{name, func(d *crd) bool {
		d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
		if url != "" {
			d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url}, ConversionReviewVersions: []string{review},
			}}
		}
		return true
	}}
}

func addVersion(name, version string, change func(v *crdVersion)) crdChange {
	return crdChange{"add " + version + name, func(d *crd) bool {
		if versionOf(d, version) != nil {
			return false
		}
		v := *d.Spec.Versions[0].DeepCopy()
		v.Name, v.Served, v.Storage = version, true, false
		change(&v)
		d.Spec.Versions = append(d.Spec.Versions, v)
		return true
	}}
}

func removeVersion(version string) crdChange {
	return crdChange{"remove " + version, func(d *crd) bool {
		before := len(d.Spec.Versions)
		d.Spec.Versions = slices.DeleteFunc(d.Spec.Versions, func(v crdVersion) bool { return v.Name == version && !v.Storage })
		return len(d.Spec.Versions) < before
	}}
}

func storeIn(version string) crdChange {
	return crdChange{"store in " + version, func(d *crd) bool {
		if versionOf(d, version) == nil {
			return false
		}
		for i := range d.Spec.Versions {
			d.Spec.Versions[i].Storage = d.Spec.Versions[i].Name == version
		}
		return true
	}}
}

func withoutB(v *crdVersion) {
	delete(v.Schema.OpenAPIV3Schema.Properties["spec"].Properties, "b")
}

func unserved(v *crdVersion) { v.Served = false }

// changesOfCRDs are the changes of which updates are made: of versions, conversion, scope, names and subresources.
func changesOfCRDs() []crdChange {
	return []crdChange{
		inVersion("drop b", "v1", withoutB),
		inVersion("drop b", "v2", withoutB),
		inVersion("add b", "v2", func(v *crdVersion) {
			v.Schema.OpenAPIV3Schema.Properties["spec"].Properties["b"] = props{Type: "string"}
		}),
		inVersion("scale", "v1", withScale),
		inVersion("scale", "v2", withScale),
		inVersion("unserve", "v1", unserved),
		inVersion("unserve", "v2", unserved),
		inVersion("serve", "v2", func(v *crdVersion) { v.Served = true }),
		inVersion("deprecate", "v1", func(v *crdVersion) { v.Deprecated = true }),
		inVersion("toggle status", "v1", toggleStatus),
		inVersion("toggle status", "v2", toggleStatus),
		addVersion("", "v2", func(*crdVersion) {}),
		addVersion(" without b", "v2", withoutB),
		addVersion(" unserved", "v2", unserved),
		addVersion(" of lower priority", "v1beta1", withoutB),
		removeVersion("v1"),
		removeVersion("v2"),
		storeIn("v1"),
		storeIn("v2"),
		withConversion("no conversion", "", ""),
		withConversion("a webhook", "https://127.0.0.1:1/x", "v1"),
		withConversion("another webhook", "https://127.0.0.1:2/x", "v1"),
		withConversion("another review", "https://127.0.0.1:1/x", "v1beta1"),
		{"scope", func(d *crd) bool { d.Spec.Scope = apiextensionsv1.ClusterScoped; return true }},
		{"kind", func(d *crd) bool { d.Spec.Names.Kind = "Gadget"; return true }},
		{"singular", func(d *crd) bool { d.Spec.Names.Singular = "gadget"; return true }},
	}
}

func toggleStatus(v *crdVersion) {
	if v.Subresources == nil {
		v.Subresources = &apiextensionsv1.CustomResourceSubresources{}
	}
	if v.Subresources.Status == nil {
		v.Subresources.Status = &apiextensionsv1.CustomResourceSubresourceStatus{}
	} else {
		v.Subresources.Status = nil
	}
}

func withScale(v *crdVersion) {
	if v.Subresources == nil {
		v.Subresources = &apiextensionsv1.CustomResourceSubresources{}
	}
	v.Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.r", StatusReplicasPath: ".status.r"}
}

// oldCRDs are the CRDs that are updated.
func oldCRDs(t *testing.T) map[string]*crd {
	t.Helper()
	const v1 = "v1 served,storage type: object, properties: {x: {type: string}}"
	out := map[string]*crd{}
	for name, text := range map[string]string{
		"one version":  versions(v1),
		"two versions": versions(v1, "v2 served type: object"),
		"v2 unserved":  versions(v1, "v2 none type: object"),
		"v1 unserved":  versions("v1 storage type: object", "v2 served type: object"),
	} {
		for _, conversion := range []crdChange{withConversion("None", "", ""), withConversion("Webhook", "https://127.0.0.1:1/x", "v1")} {
			for _, b := range []string{"b in all", "b in v1"} {
				d := patched(t, text)
				conversion.apply(d)
				for i := range d.Spec.Versions {
					d.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties = map[string]props{
						"spec":   {Type: "object", Properties: map[string]props{"a": {Type: "string"}, "b": {Type: "string"}, "r": {Type: "integer"}}},
						"status": {Type: "object", Properties: map[string]props{"c": {Type: "string"}}},
					}
				}
				if v2 := versionOf(d, "v2"); b == "b in v1" && v2 == nil {
					continue
				} else if b == "b in v1" {
					withoutB(v2)
				}
				out[name+", "+conversion.name+", "+b] = d
				if name == "two versions" {
					both := d.DeepCopy()
					both.Status.StoredVersions = []string{"v1", "v2"}
					out[name+", "+conversion.name+", "+b+", both stored"] = both
				}
			}
		}
	}
	return out
}

// TestChangesTogetherAreNoSaferThanAlone makes two changes in one update. What the model below shows of it is told: some client is worse off,
// or a webhook decides that and nobody has run it. If each of the changes is objected to alone and both together are not, the model must show
// that the combination does no harm. The findings about webhooks are told only where the model has such a request.
func TestChangesTogetherAreNoSaferThanAlone(t *testing.T) {
	changes := changesOfCRDs()
	pairs, tried, hidden := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(oldCRDs(t))) {
		old := oldCRDs(t)[name]
		alone := make([]report.Verdict, len(changes))
		for i, a := range changes {
			if d := old.DeepCopy(); a.apply(d) {
				alone[i] = check(t, old, d).Verdict
			}
		}
		for i, a := range changes {
			for j, b := range changes {
				d, other := old.DeepCopy(), old.DeepCopy()
				if !a.apply(d) || i != j && !b.apply(d) || j < i && b.apply(other) && a.apply(other) {
					continue // it does not apply, or was made in the other order
				}
				if pairs++; !draws.Takes(pairs) {
					continue
				}
				tried++
				got, err := Check(t.Context(), old, d, Options{})
				if err != nil {
					t.Fatal(err)
				}
				m := newUpdateModel(t, old, d)
				harms := m.harms(t)
				described := fmt.Sprintf("%s: %s, then %s", name, a.name, b.name)
				safe := got.Verdict.Proven()
				if safe && len(harms) > 0 {
					t.Errorf("%s: called safe, but: %s", described, harms)
				}
				objected := alone[i] != "" && !alone[i].Proven() && alone[j] != "" && !alone[j].Proven()
				if safe && objected {
					hidden++
				}
				for _, f := range got.Findings {
					if (f.Rule == "webhook-conversion-added" || f.Rule == "conversion-strategy-changed") && !m.asksWebhook {
						t.Errorf("%s: told without need: %s", described, f.Message)
					}
				}
			}
		}
	}
	if pairs < 1000 {
		t.Errorf("only %d pairs", pairs)
	}
	t.Logf("%d of %d pairs; %d safe ones of two changes that are objected to alone", tried, pairs, hidden)
}

// updateModel says what becomes of clients when one CRD takes the place of another, by requests through the API server's code. A webhook is
// trusted to return what it was given where it converted before; whatever else it is asked counts as not known.
type updateModel struct {
	old, new      *crd
	before, after *world
	asksWebhook   bool
}

func newUpdateModel(t *testing.T, old, new *crd) *updateModel {
	return &updateModel{old: old, new: new, before: newWorld(t, old), after: newWorld(t, new)}
}

// asked are the conversions that a request in a version asks of the webhook of a CRD, for an object that is stored in another version.
func asked(w *world, request, stored string) [][2]string {
	if c := w.crd.Spec.Conversion; c == nil || c.Strategy != apiextensionsv1.WebhookConverter {
		return nil
	}
	var out [][2]string
	for _, step := range [][2]string{{stored, request}, {request, w.store().Name}} {
		if step[0] != step[1] {
			out = append(out, step)
		}
	}
	return out
}

// homes are the versions in which objects of a CRD are stored.
func homes(d *crd) []string {
	out := slices.Clone(d.Status.StoredVersions)
	for _, v := range d.Spec.Versions {
		if v.Storage && !slices.Contains(out, v.Name) {
			out = append(out, v.Name)
		}
	}
	return out
}

// harms lists what is worse, or not known.
func (m *updateModel) harms(t *testing.T) []string {
	t.Helper()
	errs, err := upstream.ValidateCRDUpdate(t.Context(), m.new, m.old, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	if m.old.Spec.Scope != m.new.Spec.Scope || !reflect.DeepEqual(m.old.Spec.Names, m.new.Spec.Names) {
		out = append(out, "clients find no such resource")
	}
	for _, v := range m.old.Spec.Versions {
		switch next := versionOf(m.new, v.Name); {
		case slices.Contains(homes(m.old), v.Name) && next == nil:
			out = append(out, "objects stored as "+v.Name+" cannot be read")
		case !v.Served:
		case next == nil || !next.Served:
			out = append(out, v.Name+" is not served")
		case servesStatus(&v) != servesStatus(next):
			out = append(out, "/status of "+v.Name)
		}
	}
	for _, v := range m.new.Spec.Versions {
		if v.Served {
			out = append(out, m.unknown(v.Name)...)
		}
	}
	return append(out, m.objects(t)...)
}

func servesStatus(v *crdVersion) bool { return v.Subresources != nil && v.Subresources.Status != nil }

// unknown are the conversions for requests in a version of the new CRD that the webhook did not make before. New objects are stored in the
// new storage version.
func (m *updateModel) unknown(request string) (out []string) {
	same := reflect.DeepEqual(m.old.Spec.Conversion, m.new.Spec.Conversion)
	for _, home := range append(homes(m.old), m.after.store().Name) {
		for _, step := range asked(m.after, request, home) {
			if !same || !m.made(step) {
				m.asksWebhook = true
				out = append(out, fmt.Sprintf("what the webhook makes of %s as %s for requests in %s is not known", step[0], step[1], request))
			}
		}
	}
	return out
}

// made reports whether the old CRD had its webhook make a conversion.
func (m *updateModel) made(step [2]string) bool {
	for _, v := range m.old.Spec.Versions {
		for _, home := range homes(m.old) {
			if v.Served && slices.Contains(asked(m.before, v.Name, home), step) {
				return true
			}
		}
	}
	return false
}

// objects lists what becomes of objects that the old CRD stored, without the help of a webhook, when a label is set on them.
func (m *updateModel) objects(t *testing.T) (out []string) {
	t.Helper()
	for _, v := range m.old.Spec.Versions {
		for _, home := range homes(m.old) {
			if !v.Served && v.Name != home || versionOf(m.new, home) == nil {
				continue
			}
			if len(asked(m.before, v.Name, home)) > 0 { // the webhook returns to this version what it was given
				home = v.Name
			}
			for _, spec := range []map[string]any{{"a": "x"}, {"a": "x", "b": "y"}, {"r": int64(-1)}} {
				if stored := m.before.write(t, v.Name, home, spec); stored != nil {
					out = append(out, m.labelled(t, v.Name, home, stored)...)
				}
			}
		}
	}
	return out
}

func (m *updateModel) labelled(t *testing.T, writer, home string, stored map[string]any) (out []string) {
	t.Helper()
	for _, to := range m.new.Spec.Versions {
		before := versionOf(m.old, to.Name)
		now, was := asked(m.after, to.Name, m.before.store().Name), asked(m.before, writer, m.before.store().Name)
		switch {
		case !to.Served, to.Name != writer && len(now)+len(was)+len(asked(m.after, to.Name, home)) > 0:
			continue // what the webhook makes of the object is not known
		case len(now) == 0 && before != nil && before.Served && len(asked(m.before, to.Name, home)) > 0:
			if !reflect.DeepEqual(m.before.store().Schema, before.Schema) {
				out = append(out, "what the webhook made of objects for "+to.Name+" is gone")
			}
			continue
		}
		lost, refused, next := m.after.label(t, stored, to.Name)
		known := map[string]bool{}
		if before != nil && before.Served {
			_, _, nextBefore := m.before.label(t, stored, to.Name)
			for _, path := range missing(stored["spec"], nextBefore["spec"], "spec") {
				known[path] = true
			}
		}
		if next != nil && len(now) == 0 {
			lost = append(lost, missing(stored["spec"], next["spec"], "spec")...)
		}
		for _, path := range lost {
			if !known[path] {
				out = append(out, fmt.Sprintf("%s of an object written as %s, stored as %s, is gone after a write in %s", path, writer, home, to.Name))
			}
		}
		for _, path := range refused {
			out = append(out, path+" is refused by "+to.Name)
		}
	}
	return out
}

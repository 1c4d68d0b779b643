//go:build e2e

package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/tools/clustertest"
)

var shared clustertest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

func newApplier(t *testing.T) *Applier {
	t.Helper()
	a, err := New(shared.Get(t).Config(), Options{Namespace: "default", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// specimens are manifests with all ways of owning: scalars, granular and atomic maps, lists by key, sets, atomic lists.
var specimens = []string{
	`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s0","labels":{"a":"1","b":"2"},"annotations":{"c":"3"}},"data":{"x":"1","y":"2","z":"1000m"}}`,
	`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"s1"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"d"}},
"template":{"metadata":{"labels":{"app":"d"}},"spec":{"nodeSelector":{"a":"b"},"tolerations":[{"key":"x","operator":"Exists"}],"volumes":[{"name":"v","emptyDir":{}}],
"containers":[{"name":"c","image":"i","args":["1","2"],"ports":[{"containerPort":80},{"containerPort":81,"protocol":"UDP"}],"env":[{"name":"B","value":"1"},{"name":"A","value":"2"}],
"resources":{"requests":{"memory":"64Mi","cpu":"500m"}},"volumeMounts":[{"name":"v","mountPath":"/v"}]},{"name":"b","image":"i"}]}}}}`,
	`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s2"},"spec":{"selector":{"app":"d"},"ports":[{"name":"a","port":80,"targetPort":8080},{"name":"b","port":81,"targetPort":"x","protocol":"UDP"}]}}`,
	`{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"s3"},"spec":{"rules":[{"host":"a.example.com","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"s2","port":{"number":80}}}}]}}],"tls":[{"hosts":["a.example.com"],"secretName":"x"}]}}`,
	`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"s4"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]}]}`,
	`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"s5"},"imagePullSecrets":[{"name":"b"},{"name":"a"}],"automountServiceAccountToken":false}`,
	`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"s6"},"spec":{"minAvailable":"50%","selector":{"matchExpressions":[{"key":"a","operator":"In","values":["x","y"]}]}}}`,
	// Values that the server writes in another form.
	`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"n0"},"data":{"a":"QUFB\nQUFB\n","b":"","c":"QQ=="}}`,
	`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n1","annotations":{},"labels":{}},"binaryData":{"a":"/w==\n"},"data":{}}`,
	`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"n2","creationTimestamp":null},"spec":{"replicas":0,"minReadySeconds":0,"selector":{"matchLabels":{"app":"d"}},
"template":{"metadata":{"labels":{"app":"d"},"creationTimestamp":null},"spec":{"nodeSelector":{},"tolerations":[],"securityContext":{},"hostNetwork":false,"serviceAccountName":"",
"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1024Mi"}}],"containers":[{"name":"c","image":"i","args":[],"env":[{"name":"B","value":""}],"stdin":false,
"resources":{"requests":{"memory":"0.5Gi","cpu":0.5},"limits":{"cpu":1,"memory":"1024Mi"}}}]}},"paused":false}}`,
	`{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"n3"},"spec":{"hard":{"pods":"0.1e3","requests.cpu":"1000m","limits.memory":"1048576Ki"}}}`,
	`{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"n4"},"spec":{"limits":[{"type":"Container","default":{"memory":"1024Ki"},"defaultRequest":{"memory":"0.5Ki"}}]}}`,
	`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"n5"},"spec":{"renewTime":"2026-01-01T01:00:00.000000+01:00","holderIdentity":""}}`,
	`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"n7"},"spec":{"maxUnavailable":1,"selector":{}}}`,
	`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"n8"},"spec":{"podSelector":{},"ingress":[],"egress":[{}],"policyTypes":["Ingress"]}}`,
	`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"n9"},"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"","resources":{"requests":{"storage":"1024Mi"}}}}`,
	`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"n10"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"s1","apiVersion":"apps/v1"},"maxReplicas":3,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"AverageValue","averageValue":"1000m"}}}]}}`,
	`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"s7"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"s1","apiVersion":"apps/v1"},"maxReplicas":3,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]}}`,
}

// mutate changes one thing somewhere in v: a value, a key less, a key more, the order of a list.
func mutate(r *rand.Rand, v any) any {
	switch x := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(x))
		x = maps.Clone(x)
		if len(keys) == 0 || r.IntN(12) == 0 {
			x["more"] = "value"
			return x
		}
		k := keys[r.IntN(len(keys))]
		if r.IntN(8) == 0 {
			delete(x, k)
			return x
		}
		x[k] = mutate(r, x[k])
		return x
	case []any:
		x = slices.Clone(x)
		if len(x) == 0 {
			return x
		}
		switch r.IntN(6) {
		case 0:
			slices.Reverse(x)
		case 1:
			return x[1:]
		case 2:
			return append(x, x[0])
		default:
			i := r.IntN(len(x))
			x[i] = mutate(r, x[i])
		}
		return x
	case string:
		return []any{x + "x", "Other", "1", x}[r.IntN(4)]
	case int64:
		return x + 1
	case bool:
		return !x
	}
	return v
}

// mutateObject is mutate for an object, which stays one.
func mutateObject(r *rand.Rand, v map[string]any) map[string]any {
	out, _ := mutate(r, v).(map[string]any)
	return out
}

// TestE2EOwnershipAgreesWithTheServer holds against the real server that what is taken for applied would not be changed by an
// apply: after random changes of the manifest, and after random changes by somebody else.
func TestE2EOwnershipAgreesWithTheServer(t *testing.T) {
	a := newApplier(t)
	ctx := t.Context()
	kube, err := kubernetes.NewForConfig(shared.Get(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	applied, changed, refused := 0, 0, 0
	for i, text := range specimens {
		content, err := decodeObject([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		o := objectFrom(t, content)
		p, err := a.Plan(ctx, Request{Objects: []Object{o}})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Apply(ctx, p); err != nil {
			t.Fatal(err)
		}
		path := p.Items[0].mapping.objectPath(&p.Items[0].Object)
		if p, err = a.Plan(ctx, Request{Objects: []Object{o}}); err != nil || p.Items[0].Action != Unchanged {
			t.Errorf("specimen %d: not known to be applied right after it was (%v)", i, err)
		}
		if note := p.UnownedNote(); note != "" {
			t.Errorf("specimen %d: %s", i, note)
		}
		for round := range 32 {
			live, err := a.client.fetchObject(ctx, path)
			if err != nil {
				t.Fatal(err)
			}
			want := content
			if round%2 == 0 {
				want = mutateObject(r, content)
			} else if round%4 == 1 {
				// Somebody else writes the whole object with a change of theirs; what the server refuses they did not write.
				theirs := mutateObject(r, withoutServerFields(live))
				body, _ := json.Marshal(theirs)
				_ = kube.CoreV1().RESTClient().Patch("application/merge-patch+json").AbsPath(path).Param("fieldManager", "other").Body(body).Do(ctx).Error()
				if live, err = a.client.fetchObject(ctx, path); err != nil {
					t.Fatal(err)
				}
			}
			b, _ := json.Marshal(want)
			object, err := NewObject("test", 1, b)
			if err != nil || object.ID != o.ID || object.Version != o.Version {
				continue
			}
			content, err := object.decodeContent()
			if err != nil {
				t.Fatal(err)
			}
			object.moveToNamespace(content, "default")
			if err := object.setContent(content); err != nil {
				t.Fatal(err)
			}
			l, err := compareWithWanted(live, &object, nil)
			if err != nil {
				t.Fatal(err)
			}
			after, err := a.client.applyPatch(ctx, path, object.json, true, true)
			switch {
			case err != nil && l.applied:
				t.Errorf("specimen %d: taken for applied, but the server refuses it: %v\n%s", i, err, object.json)
			case err != nil:
				refused++
			case l.applied:
				applied++
				same := func(obj map[string]any) []any {
					mine := entryOfOwnApplies(managedEntriesOf(obj))
					return []any{withoutServerFields(obj), mine.fields}
				}
				if diff := cmp.Diff(same(live), same(after)); diff != "" {
					t.Errorf("specimen %d: taken for applied, but an apply changes it: %s\n%s", i, diff, object.json)
				}
			default:
				changed++
			}
		}
	}
	t.Logf("%d taken for applied, %d not, %d refused", applied, changed, refused)
	if applied < 30 || changed < 30 {
		t.Errorf("%d taken for applied, %d not: the test shows little", applied, changed)
	}
}

// TestE2ENothingIsWrittenWhereTheServerSeesNoChange: the client cannot decide about these objects, but the dry run can.
func TestE2ENothingIsWrittenWhereTheServerSeesNoChange(t *testing.T) {
	a := newApplier(t)
	for name, text := range map[string]string{
		"defaults in an atomic list": `{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"u0"},"spec":{"limits":[{"type":"Container","max":{"cpu":"2000m"}}]}}`,
		"a default of an empty map":  `{"apiVersion":"v1","kind":"ReplicationController","metadata":{"name":"u2"},"spec":{"replicas":0,"template":{"metadata":{"labels":{"a":"b"}},"spec":{"securityContext":{},"containers":[{"name":"c","image":"i"}]}}}}`,
	} {
		content, err := decodeObject([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []Action{Create, Unchanged, Update} {
			if want == Update {
				addMetadataTexts(content, "labels", map[string]string{"more": "x"})
			}
			before := a.Writes()
			p, err := a.Plan(t.Context(), Request{Objects: []Object{objectFrom(t, content)}})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Apply(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if it := p.Items[0]; it.Action != want || (a.Writes() == before) != (want == Unchanged) {
				t.Errorf("%s: %s, want %s; %d writes", name, it.Action, want, a.Writes()-before)
			}
		}
	}
}

// record makes an inventory of many objects, all applied: digests cannot be compressed.
func record(v *Inventory, objects int) {
	v.State, v.Started, v.Objects = Applied, timestampOf(time.Now()), nil
	for i := range objects {
		v.Objects = append(v.Objects, Entry{
			ID: ID{Kind: "ConfigMap", Namespace: "default", Name: fmt.Sprintf("some-longer-name-%05d", i)}, Version: "v1", Resource: "configmaps",
			Manifest: digestOf([]byte(fmt.Sprint(i))), Owned: digestOf([]byte(fmt.Sprint(-i))),
		})
	}
}

func TestE2EAnInventoryOfFiftyThousandObjectsStandsInSeveralConfigMaps(t *testing.T) {
	a := newApplier(t)
	ctx := t.Context()
	kube, err := kubernetes.NewForConfig(shared.Get(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	parts := func() int {
		t.Helper()
		list, err := kube.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{LabelSelector: labelPart + "=" + partLabel("large")})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	v, err := a.client.loadInventory(ctx, "default", "large")
	if err != nil {
		t.Fatal(err)
	}
	for _, objects := range []int{50000, 49999, 100} {
		record(v, objects)
		if err := v.checkStorable(); err != nil {
			t.Error(err)
		}
		if err := a.client.saveInventory(ctx, v); err != nil {
			t.Fatal(err)
		}
		got, err := a.App(ctx, "default", "large")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(v.Objects, got.Objects) || !slices.Equal(v.parts, got.parts) || v.resourceVersion != got.resourceVersion {
			t.Errorf("%d objects are read as %d", objects, len(got.Objects))
		}
		if n := parts(); n != len(v.parts) || (n > 1) != (objects > 100) {
			t.Errorf("%d objects in %d parts, and %d ConfigMaps", objects, len(v.parts), n)
		}
	}
	// A part that is gone or was changed is told, and what is not one is not asked for.
	record(v, 50000)
	if err := a.client.saveInventory(ctx, v); err != nil {
		t.Fatal(err)
	}
	if err := kube.CoreV1().ConfigMaps("default").Delete(ctx, v.parts[1], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.App(ctx, "default", "large"); !errors.Is(err, errInventory) {
		t.Errorf("a part is missing: %v", err)
	}
	// An app that does not fit is told before anything is written.
	record(v, 300000)
	if err := v.checkStorable(); err == nil {
		t.Error("there is no limit")
	}
}

func TestE2EManyObjectsOfAnAppAreRecordedPacked(t *testing.T) {
	a := newApplier(t)
	ctx := t.Context()
	v, err := a.client.loadInventory(ctx, "default", "packed")
	if err != nil {
		t.Fatal(err)
	}
	record(v, 5000)
	if err := a.client.saveInventory(ctx, v); err != nil {
		t.Fatal(err)
	}
	// As after an answer that was lost: the same again is no conflict, something else is one.
	stale := *v
	stale.resourceVersion = ""
	if err := a.client.saveInventory(ctx, &stale); err != nil {
		t.Error(err)
	}
	stale.State, stale.resourceVersion = Deleting, ""
	if err := a.client.saveInventory(ctx, &stale); err == nil {
		t.Error("an inventory that was changed meanwhile was overwritten")
	}
	got, err := a.App(ctx, "default", "packed")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, got, cmp.AllowUnexported(Inventory{}), cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
		t.Error(diff)
	}
}

package delivery

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"sluice.dev/api/resolution"
	resolutionv1beta1 "sluice.dev/api/resolution/v1beta1"
	"sluice.dev/api/v1alpha1"
	"sluice.dev/apply"
	"sluice.dev/client/versioned"
	"sluice.dev/tools/memapi"
)

// world is a cluster with one controller of deliveries, in a bubble whose time is the test's.
type world struct {
	*testing.T

	api    *memapi.Server
	user   memapi.Client
	events chan string
}

// inWorld runs a test with a controller.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	memapi.Run(t, func(t *testing.T, api *memapi.Server) {
		kube, err := kubernetes.NewForConfig(api.Config())
		if err != nil {
			t.Fatal(err)
		}
		client, err := versioned.NewForConfig(api.Config())
		if err != nil {
			t.Fatal(err)
		}
		recorder := record.NewFakeRecorder(100)
		c := &Controller{
			Config: api.Config(), Kube: kube, Client: client, Metrics: NewMetrics(prometheus.NewRegistry()), Recorder: recorder,
			Log: slog.New(slog.DiscardHandler), Clock: clock.RealClock{},
		}
		api.Start(func(ctx context.Context) error { return c.Run(ctx, func() {}) })
		w := &world{t, api, api.As("user"), recorder.Events}
		memapi.After(time.Second) // informers look every 100 ms whether their caches are filled
		test(w)
	})
}

// deliver creates or changes a delivery; spec is indented YAML besides its source.
func (w *world) deliver(name, spec string) {
	w.Helper()
	w.user.Put("apiVersion: sluice.dev/v1alpha1\nkind: Delivery\nmetadata: {namespace: \"n\", name: " + name + "}\nspec:\n  source: {resolver: test, params: [{name: of, value: " + name + "}]}\n  " + spec)
	memapi.After(0)
}

// resolve ends the open requests of a delivery with content.
func (w *world) resolve(name, content string) {
	w.Helper()
	w.end(name, func(st map[string]any) {
		st["data"] = base64.StdEncoding.EncodeToString([]byte(content))
		st["conditions"] = []any{map[string]any{"type": "Succeeded", "status": "True", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}}
	})
}

// fail ends them with an error.
func (w *world) fail(name, message string) {
	w.Helper()
	w.failFor(name, "", message)
}

// failFor ends them with an error of a precise cause.
func (w *world) failFor(name string, exact, message string) {
	w.Helper()
	w.end(name, func(st map[string]any) {
		if exact != "" {
			st["annotations"] = map[string]any{resolution.AnnotationReason: exact}
		}
		st["conditions"] = []any{map[string]any{
			"type": "Succeeded", "status": "False", "reason": "ResolutionFailed", "message": message, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}}
	})
}

func (w *world) end(name string, f func(map[string]any)) {
	w.Helper()
	open := w.open(name)
	if len(open) != 1 {
		w.Fatalf("delivery %s has %d open requests, want 1", name, len(open))
	}
	w.api.As("resolver").Status("resolutionrequests", "n", open[0], f)
	memapi.After(0)
}

// open names the requests of a delivery that have not ended.
func (w *world) open(name string) (out []string) {
	for _, k := range w.api.Names("resolutionrequests") {
		var q resolutionv1beta1.ResolutionRequest
		if w.api.Into("resolutionrequests", "n", strings.TrimPrefix(k, "n/"), &q) && !q.Status.Finished() && metav1.GetControllerOf(&q).Name == name {
			out = append(out, q.Name)
		}
	}
	return out
}

// has fails the test unless a condition of a delivery is so. Each of the texts is part of the message.
func (w *world) has(name, condition string, status metav1.ConditionStatus, reason string, texts ...string) {
	w.Helper()
	var d v1alpha1.Delivery
	if !w.api.Into("deliveries", "n", name, &d) {
		w.Fatalf("there is no delivery %s, only %q", name, w.api.Names("deliveries"))
	}
	c := meta.FindStatusCondition(d.Status.Conditions, condition)
	if c == nil || c.Status != status || c.Reason != reason {
		w.Fatalf("%s: %s is %+v, want %s %s", name, condition, c, status, reason)
	}
	for _, text := range texts {
		if !strings.Contains(c.Message, text) {
			w.Errorf("%s: %s has no %q in %q", name, condition, text, c.Message)
		}
	}
}

// lacks fails the test if a delivery has a condition.
func (w *world) lacks(name, condition string) {
	w.Helper()
	var d v1alpha1.Delivery
	if w.api.Into("deliveries", "n", name, &d); meta.FindStatusCondition(d.Status.Conditions, condition) != nil {
		w.Errorf("%s has the condition %s", name, condition)
	}
}

// told returns the events since the last call.
func (w *world) told() (out []string) {
	for len(w.events) > 0 {
		out = append(out, <-w.events)
	}
	return out
}

// tells fails the test unless there is one event with the text since the last call.
func (w *world) tells(text string) {
	w.Helper()
	if got := w.told(); !slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, text) }) {
		w.Errorf("no event with %q in %q", text, got)
	}
}

// changed lists the writes of objects that deliveries are about, since the last call.
func (w *world) changed() (out []string) {
	for _, c := range w.api.Writes() {
		if c.Resource != "leases" && c.Resource != "deliveries" && c.Resource != "resolutionrequests" && !strings.HasPrefix(c.Name, "sluice-") {
			out = append(out, c.String())
		}
	}
	return out
}

func (w *world) wrote(want ...string) {
	w.Helper()
	if got := w.changed(); !slices.Equal(got, want) {
		w.Errorf("writes %q, want %q", got, want)
	}
}

// configMap is a manifest.
func configMap(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {a: \"" + value + "\"}\n"
}

func (w *world) value(name string) any {
	data, _ := w.api.Get("configmaps", "n", name)["data"].(map[string]any)
	return data["a"]
}

func TestADeliveryFromItsCreationToNewContent(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deliver("app", "interval: 1m")
		w.has("app", "Ready", "Unknown", "Resolving", "the source is being fetched")
		w.resolve("app", configMap("one", "1"))
		w.has("app", "Ready", "True", "Delivered", "sha256:")
		w.has("app", "Applied", "True", "Applied")
		w.has("app", "PreflightsPassed", "True", "Passed")
		w.tells("Normal Applied applied sha256:")
		w.wrote("apply configmaps n/one as sluice")
		if got := w.value("one"); got != "1" {
			w.Errorf("the object has %v", got)
		}
		memapi.After(59 * time.Second)
		if open := w.open("app"); len(open) != 0 {
			w.Fatalf("%d requests before the interval is over", len(open))
		}
		memapi.After(2 * time.Second)
		w.resolve("app", configMap("one", "2"))
		w.has("app", "Ready", "True", "Delivered")
		if got := w.value("one"); got != "2" {
			w.Errorf("the object has %v", got)
		}
		w.tells("0 created, 1 updated")
		if names := w.api.Names("resolutionrequests"); len(names) != 1 {
			w.Errorf("requests %q, want that only the last one is left", names)
		}
	})
}

func TestASourceThatFailsIsTriedAgainLaterEachTime(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deliver("app", "interval: 1h")
		for i, pause := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second} {
			w.fail("app", "no route to the host")
			w.has("app", "Ready", "False", "ResolutionFailed", "no route to the host")
			w.has("app", "Resolved", "False", "ResolutionFailed", "no route to the host")
			if told := w.told(); (len(told) > 0) != (i == 0) {
				w.Errorf("failure %d: events %q, want one about the first only", i, told)
			}
			memapi.After(pause - time.Second)
			if open := w.open("app"); len(open) != 0 {
				w.Fatalf("failure %d: asked again before %s are over", i, pause)
			}
			memapi.After(time.Second)
		}
		w.wrote()
		w.resolve("app", configMap("one", "1"))
		w.has("app", "Ready", "True", "Delivered")
		w.tells("Normal Delivered")
	})
}

func TestWhatAFailingSourceDeliveredBeforeStays(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deliver("app", "interval: 1m\n  prune: true")
		w.resolve("app", configMap("one", "1"))
		memapi.After(61 * time.Second)
		w.changed()
		w.fail("app", "gone")
		w.has("app", "Ready", "False", "ResolutionFailed", "gone")
		w.has("app", "Applied", "True", "Applied")
		w.wrote()
		if w.value("one") != "1" {
			w.Error("the object is not as it was")
		}
	})
}

// TestTenMinutesWithoutTheSource: what runs is kept as it was delivered, tools see that the delivery tries again, and it does so about once
// in each interval.
func TestTenMinutesWithoutTheSource(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deliver("app", "interval: 1m")
		w.resolve("app", configMap("one", "1"))
		memapi.After(61 * time.Second)
		w.changed()
		tries := 0
		for second := range 600 {
			if len(w.open("app")) > 0 {
				tries++
				w.failFor("app", "RemoteUnavailable", "connection refused")
			}
			if second%200 == 100 {
				w.user.Edit("configmaps", "n", "one", func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, "drift", "data", "a") })
			}
			memapi.After(time.Second)
			if second > 10 {
				w.has("app", "Ready", "False", "ResolutionFailed", "connection refused")
				w.has("app", "Applied", "True", "Applied")
			}
			if got := w.kstatusOf("app"); second > 10 && got != status.InProgressStatus {
				w.Fatalf("after %d s: %s", second, got)
			}
		}
		if w.value("one") != "1" {
			w.Errorf("drift stays: %q", w.value("one"))
		}
		if tries < 10 || tries > 20 {
			w.Errorf("%d requests in ten minutes", tries)
		}
		memapi.After(time.Minute)
		w.resolve("app", configMap("one", "2"))
		w.has("app", "Ready", "True", "Delivered")
		if w.value("one") != "2" {
			w.Errorf("the new revision is not there: %q", w.value("one"))
		}
	})
}

func TestPruneDeletesWhatTheSourceNoLongerHasAndNothingOfOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deliver("app", "interval: 1m\n  prune: true\n  maxDeletes: 5")
		w.resolve("app", configMap("one", "1")+"---\n"+configMap("two", "1")+"---\n"+configMap("three", "1"))
		w.has("app", "Ready", "True", "Delivered")
		w.user.Edit("configmaps", "n", "three", func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{apply.AnnotationApp: "n/other"})
		})
		memapi.After(61 * time.Second)
		w.changed()
		w.resolve("app", configMap("one", "1"))
		w.has("app", "Ready", "True", "Delivered")
		w.wrote("delete configmaps n/two as sluice")
		if w.value("three") != "1" {
			w.Error("the object of another app is gone")
		}
	})
}

func TestASourceThatTakesAwayTooMuchChangesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deliver("app", "interval: 1m\n  prune: true\n  maxDeletes: 1")
		w.resolve("app", configMap("one", "1")+"---\n"+configMap("two", "1")+"---\n"+configMap("three", "1"))
		memapi.After(61 * time.Second)
		w.changed()
		w.resolve("app", configMap("one", "2"))
		w.has("app", "Ready", "False", "TooManyDeletions", "2 of the 3 objects", "set spec.maxDeletes to 2 or more")
		w.has("app", "Stalled", "True", "TooManyDeletions")
		w.wrote()
	})
}

func TestASuspendedDeliveryDoesNothingUntilItIsResumed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deliver("app", "interval: 1m\n  suspend: true")
		w.has("app", "Suspended", "True", "Suspended", "nothing is fetched")
		memapi.After(time.Hour)
		if open := w.open("app"); len(open) != 0 {
			w.Errorf("requests %q", open)
		}
		w.wrote()
		w.deliver("app", "interval: 1m")
		w.lacks("app", "Suspended")
		w.resolve("app", configMap("one", "1"))
		w.has("app", "Ready", "True", "Delivered")
	})
}

func TestADeletionFollowsItsPolicy(t *testing.T) {
	for _, test := range []struct {
		policy string
		want   bool // the object stays
	}{{"Delete", false}, {"Orphan", true}} {
		t.Run(test.policy, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.deliver("app", "deletionPolicy: "+test.policy)
				w.resolve("app", configMap("one", "1"))
				w.has("app", "Ready", "True", "Delivered")
				w.user.Delete("deliveries", "n", "app")
				memapi.After(0)
				if w.api.Get("deliveries", "n", "app") != nil {
					w.Error("the delivery is still there")
				}
				if stays := w.api.Get("configmaps", "n", "one") != nil; stays != test.want {
					w.Errorf("the object stays: %v", stays)
				}
				if stays := w.api.Get("configmaps", "n", "sluice-app-app") != nil; stays != test.want {
					w.Errorf("the inventory stays: %v", stays)
				}
			})
		})
	}
}

func TestADeletionThatIsRefusedEndsWithTheTimeoutAndSaysWhatIsLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deliver("app", "deletionPolicy: Delete\n  timeout: 1m")
		w.resolve("app", configMap("one", "1"))
		w.api.Hook(func(c *memapi.Call) error {
			if c.Verb == "delete" && c.Name == "one" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: c.Resource}, c.Name, errors.New("a policy"))
			}
			return nil
		})
		w.told()
		w.user.Delete("deliveries", "n", "app")
		memapi.After(time.Second)
		w.has("app", "Ready", "False", "Deleting", "deleting what was delivered", "a policy")
		memapi.After(2 * time.Minute)
		if w.api.Get("deliveries", "n", "app") != nil {
			w.Error("the delivery is still there")
		}
		w.tells("DeletionIncomplete")
		if w.value("one") != "1" || w.api.Get("configmaps", "n", "sluice-app-app") == nil {
			w.Error("the object or the inventory is gone")
		}
	})
}

func TestFieldsOfAnotherManagerAreTakenOnlyByForce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.user.Put("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: \"n\"}\ndata: {a: mine}")
		w.changed()
		w.deliver("app", "interval: 1m")
		w.resolve("app", configMap("one", "1"))
		w.has("app", "Ready", "False", "FieldConflict", ".data.a", "user", "spec.force: true")
		w.has("app", "Stalled", "True", "FieldConflict")
		w.wrote()
		w.deliver("app", "interval: 1m\n  force: true")
		memapi.After(10 * time.Second)
		w.has("app", "Ready", "True", "Delivered")
		if w.value("one") != "1" {
			w.Errorf("the object has %v", w.value("one"))
		}
	})
}

func TestADeliveryWaitsUntilItsDependencyIsReady(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deliver("app", "dependsOn: [{name: base}]")
		w.has("app", "Ready", "False", "DependencyNotReady", "waits for the delivery n/base, which does not exist")
		w.deliver("base", "interval: 1h")
		w.has("app", "Ready", "False", "DependencyNotReady", "n/base, which is not ready")
		if open := w.open("app"); len(open) != 0 {
			w.Errorf("it asks for its source: %q", open)
		}
		w.resolve("base", configMap("base", "1"))
		w.resolve("app", configMap("one", "1"))
		w.has("app", "Ready", "True", "Delivered")
	})
}

func TestAnObjectBelongsToTheFirstOfTwoDeliveries(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deliver("first", "interval: 1h")
		w.resolve("first", configMap("one", "1"))
		w.changed()
		w.deliver("second", "interval: 1h")
		w.resolve("second", configMap("one", "2"))
		w.has("second", "Ready", "False", "OtherApp", "n/first")
		w.has("second", "Stalled", "True", "OtherApp")
		w.wrote()
		if w.value("one") != "1" {
			w.Errorf("the object has %v", w.value("one"))
		}
		w.deliver("second", "interval: 1h\n  takeOver: [{name: first}]")
		memapi.After(10 * time.Second)
		w.has("second", "Ready", "True", "Delivered")
		if w.value("one") != "2" {
			w.Errorf("the object has %v", w.value("one"))
		}
	})
}

// crd is a CRD whose field has a type.
func crd(fieldType string) string {
	return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.test.dev}
spec:
  group: test.dev
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: ` + fieldType + `}}}}}}
`
}

func TestACRDThatWouldHarmStopsTheWholeRevision(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deliver("app", "interval: 1m")
		w.resolve("app", crd("integer")+"---\n"+configMap("one", "1"))
		w.has("app", "Ready", "True", "Delivered")
		memapi.After(61 * time.Second)
		w.changed()
		w.told()
		w.resolve("app", crd("string")+"---\n"+configMap("one", "2"))
		w.has("app", "Ready", "False", "Blocked", "findings stop", "things.test.dev", "sluice-report-app")
		w.has("app", "PreflightsPassed", "False", "Blocked")
		w.has("app", "Stalled", "True", "Blocked")
		w.wrote()
		w.tells("Warning Blocked")
		report, _ := w.api.Get("configmaps", "n", "sluice-report-app")["data"].(map[string]any)
		if text, _ := report["report.txt"].(string); !strings.Contains(text, "things.test.dev") {
			w.Errorf("the report is %q", text)
		}
		memapi.After(61 * time.Second)
		w.resolve("app", crd("integer")+"---\n"+configMap("one", "3"))
		w.has("app", "Ready", "True", "Delivered")
		w.lacks("app", "Stalled")
	})
}

// TestStoredObjectsThatCannotBeReadAreTriedAgain: a conversion webhook that is down comes back by itself, so no decision is kept. With
// failMode open, the revision is applied, because it may be what brings the webhook back.
func TestStoredObjectsThatCannotBeReadAreTriedAgain(t *testing.T) {
	for mode, reason := range map[string]string{"closed": "PreflightFailed", "open": "Delivered"} {
		t.Run(mode, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.deliver("app", "interval: 1m\n  preflights: [{name: CRDUpgradeSafety, config: {failMode: "+mode+"}}]")
				w.resolve("app", crd("integer")+"---\n"+configMap("one", "1"))
				w.has("app", "Ready", "True", "Delivered")
				memapi.After(61 * time.Second)
				down := true
				w.api.Hook(func(c *memapi.Call) error {
					if down && c.Verb == "list" && c.Resource == "things" {
						return apierrors.NewInternalError(errors.New("the conversion webhook is down"))
					}
					return nil
				})
				wide := strings.Replace(crd("integer"), "size:", "more: {type: string}, size:", 1)
				w.resolve("app", wide+"---\n"+configMap("one", "2"))
				w.has("app", "Ready", map[bool]metav1.ConditionStatus{true: "True", false: "False"}[mode == "open"], reason)
				if mode == "closed" {
					w.has("app", "Ready", "False", reason, "things.test.dev", "webhook is down", "failMode open in spec.preflights")
				}
				w.lacks("app", "Stalled")
				down = false
				memapi.After(5 * time.Second)
				w.has("app", "Ready", "True", "Delivered")
				if got := w.value("one"); got != "2" {
					w.Errorf("the object has %v", got)
				}
			})
		})
	}
}

func TestDriftIsCorrectedOrOnlyReported(t *testing.T) {
	for _, test := range []struct{ policy, want string }{{"Correct", "1"}, {"Warn", "theirs"}} {
		t.Run(test.policy, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.deliver("app", "interval: 1m\n  driftPolicy: "+test.policy)
				w.resolve("app", configMap("one", "1"))
				w.user.Edit("configmaps", "n", "one", func(u *unstructured.Unstructured) {
					u.Object["data"] = map[string]any{"a": "theirs"}
				})
				w.told()
				memapi.After(61 * time.Second)
				w.resolve("app", configMap("one", "1"))
				if got := w.value("one"); got != test.want {
					w.Errorf("the object has %v, want %s", got, test.want)
				}
				if test.policy == "Warn" {
					w.has("app", "Drifted", "True", "Drift", "others have changed 1 object", "n/one", "driftPolicy: Correct")
					return
				}
				w.lacks("app", "Drifted")
				w.tells("DriftCorrected")
			})
		})
	}
}

func TestWithoutTheRightToImpersonateNothingIsFetched(t *testing.T) {
	inWorld(t, func(w *world) {
		var allowed atomic.Bool
		w.api.Hook(func(c *memapi.Call) error {
			if c.Resource == "selfsubjectaccessreviews" {
				c.Body["status"] = map[string]any{"allowed": allowed.Load()}
			}
			return nil
		})
		w.deliver("app", "serviceAccountName: deployer")
		w.has("app", "Ready", "False", "ImpersonationRefused", "ServiceAccount n/deployer", "kubectl create rolebinding")
		if open := w.open("app"); len(open) != 0 {
			w.Errorf("requests %q", open)
		}
		allowed.Store(true)
		memapi.After(time.Minute)
		w.resolve("app", configMap("one", "1"))
		w.has("app", "Ready", "True", "Delivered")
		for _, c := range w.api.Writes() {
			if c.Resource == "configmaps" && c.User != "system:serviceaccount:n:deployer" {
				w.Errorf("%s by %q", &c, c.User)
			}
		}
	})
}

func TestWhatTheServiceAccountMayNotDoIsTold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.Hook(func(c *memapi.Call) error {
			if c.Verb == "apply" && c.Name == "one" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: c.Resource}, c.Name, errors.New("no"))
			}
			return nil
		})
		w.deliver("app", "interval: 1m")
		w.resolve("app", configMap("one", "1"))
		w.has("app", "Ready", "False", "Forbidden", "refused to the ServiceAccount default", `"one" is forbidden`)
		w.has("app", "Stalled", "True", "Forbidden")
	})
}

// kstatusOf returns what tools that wait make of a delivery.
func (w *world) kstatusOf(name string) status.Status {
	w.Helper()
	r, err := status.Compute(&unstructured.Unstructured{Object: w.api.Get("deliveries", "n", name)})
	if err != nil {
		w.Fatal(err)
	}
	return r.Status
}

// TestADeliveryThatItsSourceHoldsUpIsStalled: tools that wait stop waiting where nothing but another source, or a person, helps.
func TestADeliveryThatItsSourceHoldsUpIsStalled(t *testing.T) {
	for reason, want := range map[string]status.Status{
		"InvalidParams": status.FailedStatus, "NotFound": status.FailedStatus, "AccessDenied": status.FailedStatus,
		"ForbiddenByPolicy": status.FailedStatus, "ContentTooLarge": status.FailedStatus, "VerificationFailed": status.FailedStatus,
		"RemoteUnavailable": status.InProgressStatus, "ResolverUnavailable": status.InProgressStatus, "ResolutionTimedOut": status.InProgressStatus,
		"UnknownResolver": status.InProgressStatus, "": status.InProgressStatus,
	} {
		t.Run(reason, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.deliver("app", "interval: 1h")
				w.failFor("app", reason, "no")
				for range 2 { // while the next request is open, the state is the same
					w.has("app", "Ready", "False", "ResolutionFailed")
					if got := w.kstatusOf("app"); got != want {
						w.Errorf("%s: %s, want %s", reason, got, want)
					}
					memapi.After(3 * time.Second)
				}
				w.resolve("app", configMap("one", "1"))
				if got := w.kstatusOf("app"); got != status.CurrentStatus {
					w.Errorf("%s afterwards: %s", reason, got)
				}
				w.lacks("app", "Stalled")
			})
		})
	}
}

func TestADeliveryOfAnInvalidObjectIsStalled(t *testing.T) {
	inWorld(t, func(w *world) {
		refusal := error(apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "one", field.ErrorList{field.Required(field.NewPath("data"), "")}))
		w.api.Hook(func(c *memapi.Call) error {
			if c.Verb == "apply" && c.Name == "one" {
				return refusal
			}
			return nil
		})
		w.deliver("app", "interval: 1m")
		w.resolve("app", configMap("one", "1"))
		w.has("app", "Stalled", "True", "ApplyFailed", "data: Required value")
		if got := w.kstatusOf("app"); got != status.FailedStatus {
			w.Errorf("%s", got)
		}
		refusal = apierrors.NewInternalError(errors.New("etcd"))
		memapi.After(20 * time.Second)
		w.has("app", "Ready", "False", "ApplyFailed", "etcd")
		w.lacks("app", "Stalled")
		if got := w.kstatusOf("app"); got != status.InProgressStatus {
			w.Errorf("%s", got)
		}
	})
}

func TestSpecsAndSourcesThatCannotBeUsedAreTold(t *testing.T) {
	for name, test := range map[string]struct{ spec, content, reason, text string }{
		"unknown preflight": {"preflights: [{name: Nope}]", "", "InvalidConfiguration", "Nope"},
		"not YAML":          {"interval: 1h", "a: [", "InvalidSource", ""},
		"empty":             {"interval: 1h", "# nothing\n", "InvalidSource", "there is no object in the source"},
		"unknown kind":      {"interval: 1h", "apiVersion: v1\nkind: Nope\nmetadata: {name: a}\n", "UnknownKind", "Nope"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.deliver("app", test.spec)
				if test.content != "" {
					w.resolve("app", test.content)
				}
				w.has("app", "Ready", "False", test.reason, test.text)
				w.wrote()
			})
		})
	}
}

func TestAnObjectThatIsNotReadyIsWaitedForAndTold(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 1}\n"
	inWorld(t, func(w *world) {
		w.deliver("app", "timeout: 1m")
		w.resolve("app", deployment)
		w.has("app", "Applied", "True", "Applied")
		w.has("app", "Ready", "Unknown", "Waiting", "waiting for 1 object", "n/web")
		memapi.After(2 * time.Minute)
		w.has("app", "Ready", "False", "NotReady", "1 object not ready")
		w.api.As("kubelet").Status("deployments", "n", "web", func(st map[string]any) {
			for _, f := range []string{"replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "observedGeneration"} {
				st[f] = 1
			}
			st["conditions"] = []any{map[string]any{"type": "Available", "status": "True"}, map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}}
		})
		memapi.After(time.Minute)
		w.has("app", "Ready", "True", "Delivered")
	})
}

func TestAStatusThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	inWorld(t, func(w *world) {
		failures := 3
		w.api.Hook(func(c *memapi.Call) error {
			if c.Resource == "deliveries" && c.Subresource == "status" && c.Verb == "update" && failures > 0 {
				failures--
				return apierrors.NewInternalError(errors.New("etcd"))
			}
			return nil
		})
		w.deliver("app", "interval: 1h")
		memapi.After(time.Minute)
		w.resolve("app", configMap("one", "1"))
		w.has("app", "Ready", "True", "Delivered")
		if failures != 0 {
			w.Errorf("%d failures are left", failures)
		}
	})
}

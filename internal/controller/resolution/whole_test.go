package resolution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
	"sluice.dev/resolve"
	"sluice.dev/tools/memapi"
)

// scene is a cluster in a bubble whose time is the test's.
type scene struct {
	*testing.T

	api    *memapi.Server
	user   memapi.Client
	client versioned.Interface
	kube   kubernetes.Interface
	events chan string
	// recorder sends events, and metrics are those of the one controller that runs.
	recorder *record.FakeRecorder
	metrics  *Metrics
}

func inScene(t *testing.T, test func(s *scene)) {
	t.Helper()
	memapi.Run(t, func(t *testing.T, api *memapi.Server) {
		s := &scene{T: t, api: api, recorder: record.NewFakeRecorder(100), metrics: NewMetrics(prometheus.NewRegistry())}
		s.user, s.events = s.api.As("user"), s.recorder.Events
		var err error
		if s.client, err = versioned.NewForConfig(s.api.Config()); err != nil {
			t.Fatal(err)
		}
		if s.kube, err = kubernetes.NewForConfig(s.api.Config()); err != nil {
			t.Fatal(err)
		}
		test(s)
	})
}

// run runs a role until the end of the test.
func (s *scene) run(role func(ctx context.Context, ready func()) error) {
	s.api.Start(func(ctx context.Context) error { return role(ctx, func() {}) })
	memapi.After(time.Second) // informers look every 100 ms whether their caches are filled
}

// answers runs an adapter with one resolver, test.
func (s *scene) answers(f func(ctx context.Context, r *resolve.Request) (*resolve.Resource, error), options ...func(a *Adapter)) {
	a := &Adapter{
		Client: s.client, Kube: s.kube, Resolvers: map[string]Resolver{"test": resolverFunc(f)}, Namespace: "sluice-system", Account: "test",
		Slots: 4, Timeout: &Timeout{}, Metrics: s.metrics, Recorder: s.recorder, Log: slog.New(slog.DiscardHandler), Clock: clock.RealClock{},
	}
	for _, o := range options {
		o(a)
	}
	s.run(a.Run)
}

type resolverFunc func(ctx context.Context, r *resolve.Request) (*resolve.Resource, error)

func (f resolverFunc) Hold(ctx context.Context, r *resolve.Request) (*resolve.Resource, *resolve.Reservation, error) {
	res, err := f(ctx, r)
	return res, nil, err
}

// manage runs a lifecycle controller.
func (s *scene) manage(options ...func(l *Lifecycle)) {
	l := &Lifecycle{
		Client: s.client, Timeout: &Timeout{}, Metrics: s.metrics, Recorder: s.recorder, Log: slog.New(slog.DiscardHandler), Clock: clock.RealClock{},
	}
	for _, o := range options {
		o(l)
	}
	s.run(l.Run)
}

func found(text string) (*resolve.Resource, error) {
	return &resolve.Resource{Data: []byte(text), Source: resolve.Source{URI: "test:", Digest: map[string]string{"sha1": "00"}}}, nil
}

// ask creates a request for the resolver test; more is YAML of its metadata and spec.
func (s *scene) ask(name, metadata, params string) {
	s.Helper()
	s.askOf("test", name, metadata, params)
}

func (s *scene) askOf(resolver, name, metadata, params string) {
	s.Helper()
	s.user.Put(fmt.Sprintf("apiVersion: resolution.tekton.dev/v1beta1\nkind: ResolutionRequest\nmetadata: {namespace: ns, name: %s, labels: {resolution.tekton.dev/type: %s}%s}\nspec: {params: [%s]}", name, resolver, metadata, params))
	memapi.After(0)
}

func (s *scene) request(name string) *v1beta1.ResolutionRequest {
	s.Helper()
	r := &v1beta1.ResolutionRequest{}
	if !s.api.Into("resolutionrequests", "ns", name, r) {
		s.Fatalf("there is no request %s", name)
	}
	return r
}

// is fails the test unless a request has the status, the reason, and the texts in its message.
func (s *scene) is(name string, status metav1.ConditionStatus, reason string, texts ...string) {
	s.Helper()
	c := s.request(name).Status.Succeeded()
	if c == nil || c.Status != status || c.Reason != reason {
		s.Fatalf("%s: %+v, want %s %s", name, c, status, reason)
	}
	for _, text := range texts {
		if !strings.Contains(c.Message, text) {
			s.Errorf("%s: no %q in %q", name, text, c.Message)
		}
	}
}

func (s *scene) waits(name string) {
	s.Helper()
	if c := s.request(name).Status.Succeeded(); c != nil && c.Status != metav1.ConditionUnknown {
		s.Fatalf("%s has ended: %+v", name, c)
	}
}

// tells fails the test unless these are the events since the last call, by their beginnings.
func (s *scene) tells(want ...string) {
	s.Helper()
	var got []string
	for len(s.events) > 0 {
		got = append(got, <-s.events)
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		s.Errorf("events %q, want %q", got, want)
	}
}

func TestARequestIsAnswered(t *testing.T) {
	inScene(t, func(s *scene) {
		s.answers(func(_ context.Context, r *resolve.Request) (*resolve.Resource, error) {
			return found(r.Namespace + "/" + r.Name + " " + r.Params["text"].String)
		})
		s.ask("one", "", "{name: text, value: hello}")
		s.is("one", "True", "")
		if got, want := s.request("one").Status.Data, "bnMvb25lIGhlbGxv"; got != want { // ns/one hello
			s.Errorf("content %q, want %q", got, want)
		}
		if src := s.request("one").Status.RefSource; src == nil || src.URI != "test:" {
			s.Errorf("source %+v", src)
		}
		s.tells()
		writes := 0
		for _, c := range s.api.Writes() {
			if c.Subresource == "status" {
				writes++
				if c.Manager != "sluice" {
					s.Errorf("written by %q", c.Manager)
				}
			}
		}
		if writes != 1 {
			s.Errorf("%d writes of the status, want 1", writes)
		}
	})
}

func TestARequestThatCannotBeAnsweredSaysWhy(t *testing.T) {
	for name, test := range map[string]struct {
		metadata, params string
		answer           func() (*resolve.Resource, error)
		exact, message   string
	}{
		"an error":          {"", "", func() (*resolve.Resource, error) { return nil, errors.New("broken pipe") }, "ResolutionFailed", "broken pipe"},
		"with a reason":     {"", "", func() (*resolve.Resource, error) { return nil, resolve.Errorf(resolve.ReasonNotFound, "no such file") }, "NotFound", "NotFound: no such file"},
		"a parameter twice": {"", "{name: a, value: b}, {name: a, value: c}", nil, "InvalidParams", `the parameter "a" stands twice`},
		"a bad annotation":  {", annotations: {sluice.dev/look-after: soon}", "", nil, "InvalidParams", `is "soon"; want "now"`},
		"too large":         {"", "", func() (*resolve.Resource, error) { return found(strings.Repeat("a", 101)) }, "ContentTooLarge", "101 bytes, over the limit of 100"},
		"a panic":           {"", "", func() (*resolve.Resource, error) { panic("oops") }, "ResolutionFailed", "the resolver test has a defect"},
		"nothing at all":    {"", "", func() (*resolve.Resource, error) { return nil, nil }, "ResolutionFailed", "neither content nor an error"},
		"large annotations": {"", "", func() (*resolve.Resource, error) {
			return &resolve.Resource{Annotations: map[string]string{"a": strings.Repeat("a", maxAnnotations)}}, nil
		}, "ContentTooLarge", "the annotations of the content"},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				s.answers(func(context.Context, *resolve.Request) (*resolve.Resource, error) {
					if test.answer == nil {
						s.Error("the resolver is asked")
						return found("")
					}
					return test.answer()
				}, func(a *Adapter) { a.MaxData = 100 })
				s.ask("one", test.metadata, test.params)
				s.is("one", "False", "ResolutionFailed", test.message)
				if got := s.request("one").Status.Annotations[resolution.AnnotationReason]; got != test.exact {
					s.Errorf("reason %q, want %q", got, test.exact)
				}
				s.tells("Warning " + test.exact + " test: ")
			})
		})
	}
}

// panics is a recorder that panics at its first event.
type panics struct {
	record.EventRecorder

	done bool
}

func (p *panics) Event(o runtime.Object, kind, reason, text string) {
	if !p.done {
		p.done = true
		panic("oops")
	}
	p.EventRecorder.Event(o, kind, reason, text)
}

func TestAPanicOfTheLifecycleCostsOneRequest(t *testing.T) {
	inScene(t, func(s *scene) {
		s.manage(func(l *Lifecycle) { l.Recorder = &panics{EventRecorder: s.recorder} })
		s.ask("one", "", "")
		memapi.After(2 * time.Minute)
		s.is("one", "False", "ResolutionTimedOut")
		s.ask("two", "", "")
		memapi.After(2 * time.Minute)
		s.is("two", "False", "ResolutionTimedOut")
		s.tells("Warning ResolutionTimedOut ")
	})
}

func TestAResolverThatTakesTooLongIsStopped(t *testing.T) {
	inScene(t, func(s *scene) {
		s.answers(func(ctx context.Context, _ *resolve.Request) (*resolve.Resource, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		s.ask("short", `, annotations: {sluice.dev/resolution-timeout: "10s"}`, "")
		s.ask("long", "", "")
		memapi.After(10*time.Second - time.Nanosecond)
		s.waits("short")
		memapi.After(time.Nanosecond)
		s.is("short", "False", "ResolutionTimedOut", "not resolved within 10s of its creation", "still at work")
		s.waits("long")
		memapi.After(50 * time.Second)
		s.is("long", "False", "ResolutionTimedOut", "within 1m0s")
		s.tells("Warning ResolutionTimedOut test: ", "Warning ResolutionTimedOut test: ")
	})
}

func TestWorkOnARequestEndsWithItsDeletion(t *testing.T) {
	inScene(t, func(s *scene) {
		causes := make(chan error, 2)
		s.answers(func(ctx context.Context, _ *resolve.Request) (*resolve.Resource, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		})
		s.ask("one", "", "")
		s.ask("two", "", "")
		s.user.Delete("resolutionrequests", "ns", "one")
		s.user.Status("resolutionrequests", "ns", "two", func(st map[string]any) {
			st["conditions"] = []any{map[string]any{"type": "Succeeded", "status": "True"}}
		})
		s.api.Writes()
		memapi.After(0)
		if got := []error{<-causes, <-causes}; !slices.Contains(got, error(errGone)) || !slices.Contains(got, error(errFinished)) {
			s.Errorf("causes %v", got)
		}
		if writes := s.api.Writes(); len(writes) != 0 {
			s.Errorf("writes %v, want none", writes)
		}
		s.tells()
	})
}

func TestAResultIsWrittenInTheEnd(t *testing.T) {
	requests := schema.GroupResource{Group: resolution.GroupName, Resource: resource}
	for name, test := range map[string]struct {
		err   func() error
		times int
		after time.Duration // at the latest
	}{
		"a conflict":           {func() error { return apierrors.NewConflict(requests, "one", errors.New("changed")) }, 3, time.Second},
		"too many requests":    {func() error { return apierrors.NewTooManyRequests("later", 3) }, 2, 10 * time.Second},
		"a server error":       {func() error { return apierrors.NewInternalError(errors.New("etcd")) }, 5, 10 * time.Second},
		"a refusal that stops": {func() error { return apierrors.NewForbidden(requests, "one", errors.New("no roles yet")) }, 4, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				var refused atomic.Int64
				s.api.Hook(func(c *memapi.Call) error {
					if c.Subresource == "status" && c.Verb == "patch" && int(refused.Add(1)) <= test.times {
						return test.err()
					}
					return nil
				})
				looks := 0
				s.answers(func(context.Context, *resolve.Request) (*resolve.Resource, error) {
					looks++
					return found("a")
				})
				s.ask("one", "", "")
				s.waits("one")
				memapi.After(test.after)
				s.is("one", "True", "")
				if looks != 1 || int(refused.Load()) != test.times+1 {
					s.Errorf("resolved %d times, written %d times", looks, refused.Load())
				}
			})
		})
	}
}

func TestContentThatTheServerRefusesBecomesAFailure(t *testing.T) {
	inScene(t, func(s *scene) {
		s.api.Hook(func(c *memapi.Call) error {
			st, _ := c.Body["status"].(map[string]any)
			if data, _ := st["data"].(string); c.Verb == "patch" && len(data) > 100 {
				return apierrors.NewInternalError(errors.New("etcdserver: request is too large"))
			}
			return nil
		})
		s.answers(func(context.Context, *resolve.Request) (*resolve.Resource, error) {
			return found(strings.Repeat("a", 200))
		})
		s.ask("one", "", "")
		s.is("one", "False", "ResolutionFailed", "ContentTooLarge: the API server refuses to store the content of 200 bytes")
	})
}

func TestAStatusThatIsForbiddenForGoodIsTriedAgainUntilDisbeliefEnds(t *testing.T) {
	inScene(t, func(s *scene) {
		tries := 0
		s.api.Hook(func(c *memapi.Call) error {
			if c.Subresource == "status" {
				tries++
				return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, c.Name, errors.New("no"))
			}
			return nil
		})
		w := writer{client: s.client, metrics: s.metrics, clock: clock.RealClock{}, resolver: "test", lookup: func() *v1beta1.ResolutionRequest { return nil }}
		s.ask("one", "", "")
		began := time.Now()
		wrote, err := w.writeStatus(s.Context(), s.request("one"), failedStatus(resolve.Errorf(resolve.ReasonFailed, "x"), began), "result")
		if took := time.Since(began); wrote || !apierrors.IsForbidden(err) || took < disbelief || took > disbelief+lastWait || tries < 3 {
			s.Errorf("%v %v after %s and %d tries", wrote, err, took, tries)
		}
	})
}

func TestAWaitingRequestIsMarkedAndEndsWithItsTime(t *testing.T) {
	inScene(t, func(s *scene) {
		s.manage()
		s.ask("one", "", "")
		memapi.After(progressAfter - time.Second)
		if c := s.request("one").Status.Succeeded(); c != nil {
			s.Errorf("marked at once: %+v", c)
		}
		memapi.After(2 * time.Second)
		s.is("one", "Unknown", "ResolutionInProgress", `waiting for resolver: the resolver "test" has not answered`)
		memapi.After(time.Minute)
		s.is("one", "False", "ResolutionTimedOut", "not resolved within 1m0s", "has not answered")
		s.tells("Warning ResolutionTimedOut ")
	})
}

func TestAFinishedRequestWithoutOwnerIsDeletedAfterItsTime(t *testing.T) {
	inScene(t, func(s *scene) {
		s.manage(func(l *Lifecycle) { l.TTL = 10 * time.Minute })
		s.ask("free", "", "")
		s.ask("owned", ", ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: u}]", "")
		for _, name := range []string{"free", "owned"} {
			s.user.Status(resource, "ns", name, func(st map[string]any) {
				st["conditions"] = []any{map[string]any{"type": "Succeeded", "status": "True", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}}
			})
		}
		memapi.After(9 * time.Minute)
		if got := s.api.Names(resource); len(got) != 2 {
			s.Fatalf("requests %q", got)
		}
		memapi.After(2 * time.Minute)
		if got := s.api.Names(resource); !slices.Equal(got, []string{"ns/owned"}) {
			s.Errorf("requests %q, want the one with an owner", got)
		}
	})
}

func TestARequestWhoseResolverWroteOnlyDataIsFinished(t *testing.T) {
	inScene(t, func(s *scene) {
		s.manage()
		s.ask("one", "", "")
		s.user.Status(resource, "ns", "one", func(st map[string]any) { st["data"] = "YQ==" })
		memapi.After(0)
		s.is("one", "True", "")
		if got := s.request("one").Status.Data; got != "YQ==" {
			s.Errorf("content %q", got)
		}
	})
}

func TestARequestForAResolverThatNobodyRunsIsRefused(t *testing.T) {
	inScene(t, func(s *scene) {
		m := &Members{Kube: s.kube, Namespace: "sluice-system", ID: "a", Roles: []string{Role("test"), LifecycleRole}, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)}
		if err := m.Join(s.Context()); err != nil {
			s.Fatal(err)
		}
		s.run(func(ctx context.Context, _ func()) error { m.Run(ctx); return nil })
		known := &Known{Kube: s.kube, Namespace: "sluice-system", Members: m, Others: []string{"theirs"}, Log: slog.New(slog.DiscardHandler)}
		s.run(func(ctx context.Context, _ func()) error { known.Run(ctx); return nil })
		s.manage(func(l *Lifecycle) { l.Members, l.Known = m, known })
		for _, of := range []string{"tset", "theirs", "test"} {
			s.askOf(of, of, "", "")
		}
		memapi.After(unknownAfter - time.Second)
		s.waits("tset")
		memapi.After(2 * time.Second)
		s.is("tset", "False", "ResolutionFailed", `UnknownResolver: nobody runs a resolver "tset"`, "there are test, theirs")
		s.is("theirs", "Unknown", "ResolutionInProgress", "not one of Sluice's")
		s.is("test", "Unknown", "ResolutionInProgress", "runs and has not ended this request", "requests that wait for it: 1")
	})
}

func TestWorkIsTakenOverFromAProcessThatIsGoneOrLeaves(t *testing.T) {
	inScene(t, func(s *scene) {
		member := func(id string) (*Members, context.CancelFunc) {
			m := &Members{Kube: s.kube, Namespace: "sluice-system", ID: id, Roles: []string{Role("test")}, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)}
			if err := m.Join(s.Context()); err != nil {
				s.Fatal(err)
			}
			ctx, cancel := context.WithCancel(s.Context())
			s.api.Start(func(context.Context) error { m.Run(ctx); return nil })
			return m, cancel
		}
		one, _ := member("one")
		two, leave := member("two")
		var dead atomic.Bool
		s.api.Hook(func(c *memapi.Call) error {
			if dead.Load() && c.Resource == "leases" && strings.HasSuffix(c.Name, "three") {
				return apierrors.NewInternalError(errors.New("the process is dead"))
			}
			return nil
		})
		three, kill := member("three")
		memapi.After(6 * time.Second)
		if a, b, c := one.Alive(Role("test")), two.Alive(Role("test")), three.Alive(Role("test")); a != 3 || b != 3 || c != 3 {
			s.Fatalf("they see %d, %d and %d members, want 3", a, b, c)
		}
		leave()
		memapi.After(2 * time.Second)
		if n := one.Alive(Role("test")); n != 2 {
			s.Errorf("%d members after one has left, want 2", n)
		}
		var changes atomic.Int64
		one.OnChange(func() { changes.Add(1) })
		dead.Store(true)
		kill()
		memapi.After(5 * time.Second)
		if n := one.Alive(Role("test")); n != 2 || changes.Load() != 0 {
			s.Errorf("%d members before a Lease is over, want 2", n)
		}
		memapi.After(5 * time.Second)
		if n := one.Alive(Role("test")); n != 1 || changes.Load() != 1 || !one.Owns(Role("test"), "any") {
			s.Errorf("%d members and %d changes after a Lease is over, want 1 and 1", n, changes.Load())
		}
	})
}

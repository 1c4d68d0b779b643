package ui

// What do the pages about ResolutionRequests show? One sums up the requests by resolver and namespace, and lists
// them with filters; the other shows one request with its parameters and a time line. The list comes from what is
// followed, a single request is read when it is asked for.

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/cli/resolve"
)

// lately is the time that rates and latencies are about.
const lately = time.Hour

// manyLines bounds the table of resolvers and namespaces.
const manyLines = 100

// requests is what the page about ResolutionRequests shows.
type requests struct {
	Why, Scope            string
	All                   int
	Lines                 []requestLine
	MoreLines             int
	Reasons               []reasonCount
	Rows                  []resolve.Summary
	Pages                 pages
	Filter                filter
	Resolvers, Namespaces []string
	Phases, ReasonNames   []string
}

// requestLine sums up the requests of a resolver in a namespace. Counts are of requests; Reasons are those of the
// failures.
type requestLine struct {
	Resolver, Namespace   string
	Waiting, Done, Failed int    // now
	Recent                int    // begun lately
	Median, Slowest       string // of those that ended lately
	seconds               []float64
	Reasons               []reasonCount
	reasons               map[string]int
}

type reasonCount struct {
	Reason string
	Count  int
	Link   string // to the requests with it
}

// requestsPage shows the requests that pass the filter. The sums are about the same requests as the list. Lines
// with failures come first; of many lines, the first hundred are shown.
func (s *Server) requestsPage(w http.ResponseWriter, r *http.Request) {
	d := requests{Filter: readFilter(r, "resolver", "namespace", "phase", "reason"), Phases: resolve.Phases()}
	known := s.world.requests.all(r.Context())
	d.Why, d.Scope, d.All = known.statusText("resolution,resolvers"), known.Scope, len(known.Items)
	// The list is a copy for this request, so its memory can be used again.
	rows := known.Items[:0]
	lines := map[[2]string]*requestLine{}
	resolvers, namespaces, reasonNames, reasons := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]int{}
	now := s.Env.Now()
	for i := range known.Items {
		x := known.Items[i]
		resolvers[x.Resolver], namespaces[x.Namespace] = true, true
		if x.Reason != "" {
			reasonNames[x.Reason] = true
		}
		f := &d.Filter
		if !f.is("resolver", x.Resolver) || !f.is("namespace", x.Namespace) || !f.is("phase", x.Phase) || !f.is("reason", x.Reason) || !f.has(x.Namespace+"/"+x.Name, x.Message) {
			continue
		}
		rows = append(rows, x)
		key := [2]string{x.Resolver, x.Namespace}
		if lines[key] == nil {
			lines[key] = &requestLine{Resolver: x.Resolver, Namespace: x.Namespace, reasons: map[string]int{}}
		}
		lines[key].add(&x, now)
		if x.Reason != "" {
			reasons[x.Reason]++
		}
	}
	for _, l := range lines {
		l.sumUp()
		d.Lines = append(d.Lines, *l)
	}
	slices.SortFunc(d.Lines, func(a, b requestLine) int {
		return cmp.Or(b.Failed-a.Failed, b.Waiting-a.Waiting, cmp.Compare(a.Resolver, b.Resolver), cmp.Compare(a.Namespace, b.Namespace))
	})
	d.MoreLines = max(0, len(d.Lines)-manyLines)
	d.Lines = d.Lines[:len(d.Lines)-d.MoreLines]
	d.Reasons = sortedReasons(reasons)
	for i := range d.Reasons {
		d.Reasons[i].Link = linkWith(r, "reason", d.Reasons[i].Reason)
	}
	slices.SortFunc(rows, func(a, b resolve.Summary) int {
		return cmp.Or(b.Created.Compare(a.Created.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	d.Rows, d.Pages = pageOf(rows, r, d.Filter.Page)
	d.Resolvers, d.Namespaces, d.ReasonNames = firstSorted(resolvers), firstSorted(namespaces), firstSorted(reasonNames)
	s.show(w, r, "requests", page{Title: "Requests", Here: "requests", Live: s.liveTopic("requests"), Data: d})
}

// firstSorted are the keys of a set, at most 500.
func firstSorted(set map[string]bool) []string {
	all := slices.Sorted(maps.Keys(set))
	return all[:min(len(all), 500)]
}

// add counts a request. Rates and times are about those that began within the last hour; the other counts are
// about all.
func (l *requestLine) add(x *resolve.Summary, now time.Time) {
	switch {
	case x.Phase == resolve.PhaseSucceeded:
		l.Done++
	case x.Seconds != nil:
		l.Failed++
		l.reasons[x.Reason]++
	default:
		l.Waiting++
	}
	if now.Sub(x.Created.Time) <= lately {
		l.Recent++
	}
	if x.Seconds != nil && now.Sub(x.Created.Time) <= lately {
		l.seconds = append(l.seconds, *x.Seconds)
	}
}

// sumUp fills in the texts of a line: its reasons, and the median and the 95th percentile of the times.
func (l *requestLine) sumUp() {
	l.Reasons = sortedReasons(l.reasons)
	if len(l.seconds) == 0 {
		return
	}
	slices.Sort(l.seconds)
	at := func(share float64) string { return secondsText(l.seconds[int(share*float64(len(l.seconds)-1))]) }
	l.Median, l.Slowest = at(0.5), at(0.95)
}

// secondsText writes a time that the cluster knows to the second.
func secondsText(s float64) string {
	if s < 1 {
		return "< 1s"
	}
	return duration.HumanDuration(time.Duration(s * float64(time.Second)))
}

// sortedReasons are the ten most frequent reasons, the most frequent first.
func sortedReasons(counts map[string]int) []reasonCount {
	var all []reasonCount
	for reason, n := range counts {
		all = append(all, reasonCount{Reason: reason, Count: n})
	}
	slices.SortFunc(all, func(a, b reasonCount) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Reason, b.Reason)) })
	return all[:min(len(all), 10)]
}

// oneRequest is what the page about a request shows.
type oneRequest struct {
	Why     string
	Summary resolve.Summary
	Params  []paramRow
	Notes   []paramRow // annotations of the status
	Steps   []moment
}

type paramRow struct{ Name, Value string }

// widest bounds a text that is shown, in bytes.
const widest = 1000

// requestPage shows one request. That there is none is said only if the list is complete: until then, the kind
// itself may be missing.
func (s *Server) requestPage(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	var d oneRequest
	known := s.world.requests.all(r.Context()) // it tells of changes
	if err := s.readRequest(r.Context(), namespace, name, &d); err != nil {
		d.Why = explain(err, "resolution,resolvers")
		if apierrors.IsNotFound(err) && known.Err == nil && known.Complete {
			d.Why = fmt.Sprintf("There is no ResolutionRequest %s/%s: %v", brief.Cut(namespace, 100), brief.Cut(name, 260), err)
		}
	}
	s.show(w, r, "request", page{Title: brief.Cut(name, 100), Here: "requests", Live: s.liveTopic("requests"), Data: d})
}

// readRequest reads a request with its events, and fills in what the page shows.
func (s *Server) readRequest(ctx context.Context, namespace, name string, d *oneRequest) error {
	if s.world.lacks != nil {
		return s.world.lacks
	}
	// The follower keeps a summary only: the content may be large.
	u, err := s.world.client.Resource(s.world.requests.resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var request v1beta1.ResolutionRequest
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &request); err != nil {
		return err
	}
	d.Summary = resolve.Summarize(&request)
	for _, p := range request.Spec.Params {
		d.Params = append(d.Params, paramRow{p.Name, paramText(&p.Value)})
	}
	if request.Spec.URL != "" {
		d.Params = append(d.Params, paramRow{"url", request.Spec.URL})
	}
	for _, key := range slices.Sorted(maps.Keys(request.Status.Annotations)) {
		d.Notes = append(d.Notes, paramRow{key, request.Status.Annotations[key]})
	}
	d.Steps = requestMoments(&request, s.eventsOf(ctx, &request))
	return nil
}

// paramText is a string as it is, and another value as JSON. Escapes that JSON does not need are taken out, for
// people.
func paramText(v *v1beta1.ParamValue) string {
	if v.Type == v1beta1.ParamTypeArray || v.Type == v1beta1.ParamTypeObject {
		raw, _ := v.MarshalJSON()
		return strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(string(raw))
	}
	return v.StringVal
}

// eventsOf reads the events of a request, as far as the user may.
func (s *Server) eventsOf(ctx context.Context, r *v1beta1.ResolutionRequest) []corev1.Event {
	list, err := s.world.client.Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(r.Namespace).
		List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(r.UID), Limit: rowsOfPage})
	if err != nil {
		return nil
	}
	var events []corev1.Event
	for i := range list.Items {
		var e corev1.Event
		if runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &e) == nil {
			events = append(events, e)
		}
	}
	return events
}

// requestMoments is the time line of a request: who has written to it and when, its events, and its end. The API
// server keeps only the last write of each manager, so earlier ones are not there.
func requestMoments(r *v1beta1.ResolutionRequest, events []corev1.Event) []moment {
	all := []moment{{At: r.CreationTimestamp.Time, What: "created"}}
	// Nobody records when a status was written but the API server, here.
	for _, m := range r.ManagedFields {
		if m.Time != nil && m.Subresource == "status" {
			all = append(all, moment{At: m.Time.Time, What: "status last written by " + m.Manager})
		}
	}
	for i := range events {
		e := &events[i]
		m := moment{At: e.LastTimestamp.Time, What: e.Reason, Text: e.Message}
		if m.At.IsZero() {
			m.At = e.EventTime.Time
		}
		if e.Type == corev1.EventTypeWarning {
			m.Class = "warn"
		}
		all = append(all, m)
	}
	if c := r.Status.Succeeded(); c != nil {
		m := moment{At: c.LastTransitionTime.Time, What: "in progress", Text: c.Message}
		switch c.Status {
		case metav1.ConditionTrue:
			m.What, m.Class = "succeeded", "ok"
		case metav1.ConditionFalse:
			m.What, m.Class = "failed: "+c.Reason, "fail"
		case metav1.ConditionUnknown:
		}
		all = append(all, m)
	}
	return sortMoments(all)
}

// functions are those of the templates.
func functions(e *command.Env) template.FuncMap {
	return template.FuncMap{
		"ago": func(t time.Time) string {
			if t.IsZero() {
				return ""
			}
			if age := e.Now().Sub(t); age >= time.Second {
				return duration.HumanDuration(age) + " ago"
			}
			return "now"
		},
		"seconds": func(s *float64) string { return secondsText(*s) },
		"stamp":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") },
		"day":     func(t time.Time) string { return t.Format(time.DateOnly) },
		"lines":   func(text string) []string { return strings.Split(text, "\n") },
		"slug":    func(text string) string { return strings.ToLower(text) },
		"num":     brief.Number[int],
		"count":   brief.Count[int],
		"clip":    func(text string) string { return brief.Clip(text, widest) },
	}
}

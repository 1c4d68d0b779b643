package ui

// What do the pages about upgrades show? The Deliveries with their states, those that are blocked first, and what
// the guard has refused lately. A Delivery has a page of its own, with a time line of what its status records.
// Tables are cut into pages of fifty rows.

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/controller/guard"
)

// rowsOfPage bounds the rows of a table.
const rowsOfPage = 50

// upgrades is what the page about Deliveries and guarded CRDs shows.
type upgrades struct {
	Deliveries      []deliveryRow
	Blocked, All    int
	Pages           pages
	Guarded         []guardEvent
	MoreGuarded     int
	Why, WhyGuarded string
	Scope, Refused  string
	Filter          filter
	Namespaces      []string
}

type deliveryRow struct {
	Namespace, Name string
	Source          string
	State, Class    string
	Verdict         string
	Stopped         string // what was stopped: the worst finding
	By              string // the object that it names
	Since           time.Time
	Applied         string
	Message         string
}

// upgradesPage shows the Deliveries that pass the filter, the failed ones first, and the events of the guard, the
// newest first.
func (s *Server) upgradesPage(w http.ResponseWriter, r *http.Request) {
	u := upgrades{Filter: readFilter(r, "namespace", "state"), Refused: guard.EventRefused}
	known := s.world.deliveries.all(r.Context())
	u.Why, u.Scope = known.statusText("delivery"), known.Scope
	var rows []deliveryRow
	for _, d := range known.Items {
		row := rowOf(d)
		if row.Class == "fail" {
			u.Blocked++
		}
		if !slices.Contains(u.Namespaces, row.Namespace) && len(u.Namespaces) < 500 {
			u.Namespaces = append(u.Namespaces, row.Namespace)
		}
		if f := &u.Filter; f.is("namespace", row.Namespace) && f.is("state", row.Class) && f.has(row.Namespace+"/"+row.Name, row.Source, row.Message) {
			rows = append(rows, row)
		}
	}
	slices.Sort(u.Namespaces)
	u.All = len(known.Items)
	// What needs somebody comes first.
	order := []string{"fail", "warn", "note", "ok"}
	slices.SortFunc(rows, func(a, b deliveryRow) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Class), slices.Index(order, b.Class)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	u.Deliveries, u.Pages = pageOf(rows, r, u.Filter.Page)
	guarded := s.world.refusals.all(r.Context())
	u.WhyGuarded, u.Guarded = guarded.statusText("crd-guard"), guarded.Items
	slices.SortFunc(u.Guarded, func(a, b guardEvent) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.CRD, b.CRD)) })
	u.MoreGuarded = max(0, len(u.Guarded)-rowsOfPage)
	u.Guarded = u.Guarded[:len(u.Guarded)-u.MoreGuarded]
	s.show(w, r, "upgrades", page{Title: "Upgrades", Here: "upgrades", Live: s.liveTopic("upgrades"), Data: u})
}

// rowOf is a Delivery in a table. Its class is that of the condition Ready; a Delivery that is ready and has
// warnings in its report is a warning. What was stopped is the worst finding of the report, unless the Delivery
// failed for another reason.
func rowOf(d *v1alpha1.Delivery) deliveryRow {
	row := deliveryRow{Namespace: d.Namespace, Name: d.Name, Source: sourceName(&d.Spec.Source), State: "Pending", Class: "note"}
	if a := d.Status.Applied; a != nil {
		row.Applied = a.Revision
	}
	if c := meta.FindStatusCondition(d.Status.Conditions, "Ready"); c != nil {
		row.State, row.Message = c.Reason, c.Message
		if row.Since = c.LastTransitionTime.Time; row.Since.Unix() <= 0 {
			row.Since = d.CreationTimestamp.Time
		}
		switch c.Status {
		case metav1.ConditionTrue:
			row.Class = "ok"
		case metav1.ConditionFalse:
			row.Class = "fail"
		case metav1.ConditionUnknown:
		}
	}
	if r := d.Status.Report; r != nil {
		row.Verdict = countsOf(r)
		if row.Class == "ok" && r.Warn+r.Undecided > 0 {
			row.Class = "warn"
		}
		// The report may be older than another failure.
		if len(r.Worst) > 0 && (row.State == v1alpha1.ReasonBlocked || row.Class != "fail" && r.Worst[0].Severity == "fail") {
			x := &r.Worst[0]
			row.Stopped, row.By = x.Rule+": "+x.Message, x.CRD
			if x.Path != "" {
				row.By += " " + x.Path
			}
		}
	}
	return row
}

// countsOf is a report in numbers: 1 fail, 2 warn. Counts of zero are left out.
func countsOf(r *v1alpha1.DeliveryReport) string {
	text := ""
	for _, x := range []struct {
		n    int32
		what string
	}{{r.Fail, "fail"}, {r.Warn, "warn"}, {r.Undecided, "undecided"}, {r.Notes, "notes"}} {
		if x.n > 0 {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%d %s", x.n, x.what)
		}
	}
	return text
}

// sourceName is the source of a Delivery in a few words: its URL, the source of Flux, or the resolver.
func sourceName(s *v1alpha1.DeliverySource) string {
	switch {
	case s.URL != "":
		return s.URL
	case s.Flux != nil:
		return s.Flux.Kind + "/" + s.Flux.Name
	}
	return s.Resolver
}

// oneDelivery is what the page about a Delivery shows.
type oneDelivery struct {
	Why      string
	Row      deliveryRow
	Report   string // the ConfigMap with the whole report
	Delivery *v1alpha1.Delivery
	Steps    []moment
}

// moment is a point of a time line.
type moment struct {
	At          time.Time
	What, Class string
	Text        string
	After       string // how long after the moment before
}

// deliveryPage shows one Delivery. The name of the ConfigMap with its report becomes part of a command to copy, so
// it is shown only if it is a name.
func (s *Server) deliveryPage(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	known := s.world.deliveries.all(r.Context())
	d := oneDelivery{Why: known.statusText("delivery")}
	i := slices.IndexFunc(known.Items, func(d *v1alpha1.Delivery) bool { return d.Namespace == namespace && d.Name == name })
	switch {
	case i >= 0:
		d.Delivery, d.Row = known.Items[i], rowOf(known.Items[i])
		d.Steps = deliveryMoments(d.Delivery)
		if x := d.Delivery.Status.Report; x != nil && len(validation.IsDNS1123Subdomain(x.ConfigMap)) == 0 { // it is part of a command
			d.Report = x.ConfigMap
		}
	case d.Why == "":
		d.Why = fmt.Sprintf("There is no Delivery %s/%s.", brief.Cut(namespace, 100), brief.Cut(name, 260))
	}
	s.show(w, r, "delivery", page{Title: brief.Cut(name, 100), Here: "upgrades", Live: s.liveTopic("upgrades"), Data: d})
}

// deliveryMoments is what happened to a Delivery and is recorded, the oldest first. A step that happened several
// times is there once, at its last time: the status keeps no more.
func deliveryMoments(d *v1alpha1.Delivery) []moment {
	all := []moment{{At: d.CreationTimestamp.Time, What: "created"}}
	add := func(at *metav1.Time, what, text string) {
		if at != nil && at.Unix() > 0 {
			all = append(all, moment{At: at.Time, What: what, Text: text})
		}
	}
	st := &d.Status
	if st.Observed != nil {
		add(st.CheckedTime, "source fetched", st.Observed.Revision)
	}
	if st.Applied != nil {
		add(st.AppliedTime, "applied", st.Applied.Revision)
	}
	add(st.KeptTime, "objects checked", "")
	if st.Drift != nil {
		add(st.Drift.SeenTime, "drift seen", brief.Count(int64(st.Drift.Objects), "object"))
		add(st.Drift.CorrectedTime, "drift corrected", "")
	}
	for i := range st.Conditions {
		c := &st.Conditions[i]
		m := moment{At: c.LastTransitionTime.Time, What: fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Reason), Text: c.Message}
		if c.Status == metav1.ConditionFalse {
			m.Class = "fail"
		}
		if m.At.Unix() > 0 {
			all = append(all, m)
		}
	}
	return sortMoments(all)
}

// sortMoments orders moments, and says how long after the one before each was. Moments of the same time stay in
// their order.
func sortMoments(all []moment) []moment {
	slices.SortStableFunc(all, func(a, b moment) int { return a.At.Compare(b.At) })
	for i := 1; i < len(all); i++ {
		all[i].After = all[i].At.Sub(all[i-1].At).Round(time.Millisecond).String()
	}
	return all
}

// pages are the links to other pages of a table.
type pages struct {
	First, Last, All int
	Before, After    string // addresses; empty if there are none
}

// pageOf is one page of the rows. Pages count from 1; a number beyond the last is the last.
func pageOf[T any](rows []T, r *http.Request, number int) ([]T, pages) {
	last := max((len(rows)+rowsOfPage-1)/rowsOfPage, 1)
	number = min(number, last)
	from := (number - 1) * rowsOfPage
	to := min(from+rowsOfPage, len(rows))
	p := pages{First: from + 1, Last: to, All: len(rows)}
	if number > 1 {
		p.Before = linkWith(r, "page", fmt.Sprint(number-1))
	}
	if number < last {
		p.After = linkWith(r, "page", fmt.Sprint(number+1))
	}
	return rows[from:to], p
}

// linkWith is the address of a page with another value for one part of its query. It leads to the first rows, unless it is about their page.
func linkWith(r *http.Request, name, value string) string {
	q := r.URL.Query()
	q.Del("page")
	q.Set(name, value)
	return "?" + q.Encode()
}

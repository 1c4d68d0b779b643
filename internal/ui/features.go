package ui

// What do the pages about features show? One lists the features of all components, with filters; the other shows
// one feature with its history, its next stage, and on request the objects that use it. They are read as the
// command reads them, and kept until something changes in the cluster.

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/features"
)

const (
	manyObjects = 100 // objects that use a feature
	staleTime   = 30 * time.Second
	restTime    = time.Second
)

// featureCache keeps what was read of the features of a cluster until the version is another one. Files are read each time, and nothing is read more
// often than every restTime.
type featureCache struct {
	mu      sync.Mutex
	version int64
	at      time.Time
	last    *features.Overview
}

// overview returns the features, read anew if they may have changed. Requests that come while it reads wait for
// the result of that. It reads at most once a second: each change in the cluster makes every open page ask.
func (s *Server) overview(ctx context.Context) (*features.Overview, error) {
	version := int64(0)
	if len(s.Features) == 0 {
		if s.world.lacks != nil {
			return nil, s.world.lacks
		}
		// They tell of changes; what they know is read in one go, as the command does.
		s.world.components.all(ctx)
		s.world.gates.all(ctx)
		s.world.reports.all(ctx)
		// Before it reads: a change meanwhile makes the next request read again.
		version = s.world.topicVersion("features", s.Env.Now())
	}
	c := &s.features
	c.mu.Lock()
	defer c.mu.Unlock()
	age := s.Env.Now().Sub(c.at)
	switch {
	case c.last != nil && version == c.version && (len(s.Features) == 0 || age < restTime):
		return c.last, nil
	case c.last != nil && age < restTime: // a page asks once for each change, and old texts are no answer
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(restTime - age):
		}
	}
	o, err := features.ReadOverview(ctx, s.Env, s.Flags, s.Features)
	if err != nil {
		return nil, err
	}
	c.last, c.version, c.at = o, version, s.Env.Now()
	return o, nil
}

// matrix is what the page about all features shows. Components have only the features that are shown.
type matrix struct {
	Why        string // there is nothing to show
	Notes      []string
	Components []features.Component
	Filter     filter
	Names      []string // of components
	Shown, All int
	Pages      pages
}

// featuresPage shows the features that pass the filter, a page of them. Components without a feature are listed if
// nothing is filtered by features, so that they are not missed.
func (s *Server) featuresPage(w http.ResponseWriter, r *http.Request) {
	m := matrix{Filter: readFilter(r, "component", "stage", "state")}
	o, err := s.overview(r.Context())
	if err != nil {
		m.Why = explain(err, "features")
	} else {
		m.Notes = o.Notes
		var rows []features.Component // each with one feature, or with none
		for _, c := range o.Components {
			m.Names, m.All = append(m.Names, c.Name), m.All+len(c.Features)
			if !m.Filter.is("component", c.Name) {
				continue
			}
			row := c
			if row.Features = nil; len(c.Features) == 0 && m.Filter.Words+m.Filter.Of["stage"]+m.Filter.Of["state"] == "" {
				rows = append(rows, row)
			}
			for i := range c.Features {
				// Each row has one feature, so that a page can end in the middle of a component; below they are
				// joined again.
				if row.Features = c.Features[i : i+1 : i+1]; isWanted(&c.Features[i], &m.Filter) {
					rows, m.Shown = append(rows, row), m.Shown+1
				}
			}
		}
		rows, m.Pages = pageOf(rows, r, m.Filter.Page)
		for i := range rows {
			if n := len(m.Components); n > 0 && m.Components[n-1].Name == rows[i].Name {
				m.Components[n-1].Features = append(m.Components[n-1].Features, rows[i].Features...)
			} else {
				m.Components = append(m.Components, rows[i])
			}
		}
	}
	s.show(w, r, "features", page{Title: "Features", Here: "features", Live: s.liveTopic("features"), Data: m})
}

// isWanted reports whether a feature passes the filter. The state skew takes those whose processes disagree, on or
// off.
func isWanted(e *features.Entry, f *filter) bool {
	state := "off"
	if e.On {
		state = "on"
	}
	if want := f.Of["state"]; want == "skew" {
		return e.Skew != "" && f.is("stage", string(e.Stage)) && f.has(e.Name, e.Gate, e.Description)
	}
	return f.is("state", state) && f.is("stage", string(e.Stage)) && f.has(e.Name, e.Gate, e.Description)
}

// oneFeature is what the page about a feature shows.
type oneFeature struct {
	Why       string
	Component *features.Component
	Feature   *features.Entry
	Counted   string // how many objects use it; empty before they were counted
	Objects   []string
	NotCount  string // why they could not be counted
	Files     bool
}

// featurePage shows one feature. With count in the query, it counts the objects that use it, which may take long;
// such a page does not follow changes, or it would count with each of them.
func (s *Server) featurePage(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	d := oneFeature{Files: len(s.Features) > 0}
	o, err := s.overview(r.Context())
	switch {
	case err != nil:
		d.Why = explain(err, "features")
	default:
		for i := range o.Components {
			c := &o.Components[i]
			if j := slices.IndexFunc(c.Features, func(e features.Entry) bool { return e.Name == name }); j >= 0 {
				d.Component, d.Feature = c, &c.Features[j]
			}
		}
		if d.Feature == nil {
			d.Why = fmt.Sprintf("There is no feature %q.", brief.Cut(name, 100))
		} else if r.URL.Query().Has("count") {
			var err error
			if d.Counted, d.Objects, err = o.CountUses(r.Context(), s.Env, name, manyObjects); err != nil {
				d.NotCount = err.Error()
			}
		}
	}
	p := page{Title: brief.Cut(name, 100), Here: "features", Live: s.liveTopic("features"), Data: d}
	if r.URL.Query().Has("count") { // it is not counted again and again
		p.Live = ""
	}
	s.show(w, r, "feature", p)
}

// liveTopic is the topic that a page follows; empty without a cluster.
func (s *Server) liveTopic(name string) string {
	if s.world.lacks != nil || name == "features" && len(s.Features) > 0 {
		return ""
	}
	return name
}

// filter chooses rows: by words, and by the values of columns.
type filter struct {
	Words string
	Of    map[string]string
	Page  int
}

// readFilter reads the filter of a request: words, the page, and the values of the given columns. All texts are
// cut, since anybody may write an address.
func readFilter(r *http.Request, columns ...string) filter {
	q := r.URL.Query()
	f := filter{Words: brief.Cut(strings.TrimSpace(q.Get("words")), 200), Of: map[string]string{}}
	for _, c := range columns {
		if v := brief.Cut(q.Get(c), 300); v != "" {
			f.Of[c] = v
		}
	}
	_, _ = fmt.Sscanf(q.Get("page"), "%d", &f.Page)
	f.Page = min(max(f.Page, 1), 1_000_000)
	return f
}

// is reports whether a column has the value that is asked for, or none is.
func (f *filter) is(column, value string) bool { return f.Of[column] == "" || f.Of[column] == value }

// has reports whether one of the texts has the words.
func (f *filter) has(texts ...string) bool {
	words := strings.ToLower(f.Words)
	return words == "" || slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), words) })
}

// Package ui serves the pages of sluice ui to the browser of one user, on the machine of this user.
//
// It promises:
//
//   - It listens on a loopback address, and answers only who has the token of the address that it gives out. It refuses requests for another
//     host, and requests of pages of other sites.
//   - It changes nothing: every request to a cluster is a read with the user's own kubeconfig, so the user sees what kubectl shows, and no more.
//   - Pages load nothing from elsewhere, and run no script but its own.
//   - Uploads, memory and pages are bounded, whatever a cluster holds.
//
// It decides nothing: verdicts are those of package compat, states of features those of package feature.
package ui

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/check"
	"sluice.dev/internal/cli/command"
	"sluice.dev/report"
)

//go:embed *.tmpl ui.css ui.js
var files embed.FS

// MaxText bounds each of the two texts that are compared, in bytes.
const MaxText = 8 << 20

// maxForm bounds the form with both texts: a browser sends two bytes for a line break.
const maxForm = 2*2*MaxText + 1<<20

// Options say what the pages show.
type Options struct {
	Env *command.Env
	// Flags name the cluster. Its namespace is used where the user may not list a kind in all namespaces.
	Flags *command.ClusterFlags
	// Configs are configuration files of check. Features are files with features, instead of those of the cluster.
	Configs, Features []string
}

// Server serves the pages. It is made by [New], and serves with [Server.Serve] once.
type Server struct {
	Options

	host, token string
	pages       *template.Template
	texts       *check.Texts
	checks      chan struct{} // has room for the comparisons that are made at once
	world       *world
	features    featureCache
	handler     http.Handler
}

// New returns a server for a listener, which must be at a loopback address. A mistake in the configuration of
// check is an error here.
func New(l net.Listener, o Options) (*Server, error) {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("%s is no loopback address: the pages are for this machine only", l.Addr())
	}
	pages, err := template.New("").Funcs(functions(o.Env)).ParseFS(files, "*.tmpl")
	if err != nil {
		return nil, err
	}
	s := &Server{
		Options: o, host: addr.String(), token: rand.Text(), pages: pages, checks: make(chan struct{}, 2),
		texts: &check.Texts{Env: o.Env, Configs: o.Configs, MaxBytes: MaxText}, world: newWorld(o),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/check", http.StatusSeeOther) })
	mux.HandleFunc("GET /ui.css", asset("text/css; charset=utf-8", report.HTMLStyle(), "ui.css"))
	mux.HandleFunc("GET /ui.js", asset("text/javascript; charset=utf-8", report.HTMLScript(), "ui.js"))
	mux.HandleFunc("GET /check", s.checkPage)
	mux.HandleFunc("POST /check", s.checkPage)
	mux.HandleFunc("GET /source", s.sourceText)
	mux.HandleFunc("GET /features", s.featuresPage)
	mux.HandleFunc("GET /features/{name}", s.featurePage)
	mux.HandleFunc("GET /upgrades", s.upgradesPage)
	mux.HandleFunc("GET /upgrades/{namespace}/{name}", s.deliveryPage)
	mux.HandleFunc("GET /requests", s.requestsPage)
	mux.HandleFunc("GET /requests/{namespace}/{name}", s.requestPage)
	mux.HandleFunc("GET /live/{topic}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, s.world.topicVersion(r.PathValue("topic"), s.Env.Now()))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, http.StatusNotFound, fmt.Sprintf("there is no page %s %s", r.Method, brief.Cut(r.URL.Path, 100)))
	})
	s.handler = s.protect(mux)
	return s, s.texts.CheckConfigs()
}

// URL is the address to open, with the token.
func (s *Server) URL() string { return "http://" + s.host + "/?token=" + s.token }

// Serve serves until ctx is done.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.world.ctx = ctx
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, // ends what watches
	}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if server.Shutdown(patience) != nil { // a browser opens connections that it may use later
			_ = server.Close()
		}
		stopped <- nil
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// protect refuses every request that does not come from the user's own browser. The first request has the token in
// its address; the answer sets a cookie, and leads to the address without it, which may stand in the history of
// the browser.
func (s *Server) protect(next http.Handler) http.Handler {
	_, port, _ := net.SplitHostPort(s.host)
	cookie := "sluice-ui-" + port // cookies do not know ports
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if r.URL.Path == "/ui.css" { // pages that refuse something use it
			next.ServeHTTP(w, r)
			return
		}
		if r.Host != s.host && r.Host != "localhost:"+port { // a name that somebody else lets point here
			s.refuse(w, http.StatusMisdirectedRequest, "sluice ui is at http://"+s.host+" and serves no other host")
			return
		}
		if token := r.URL.Query().Get("token"); token != "" && r.Method == http.MethodGet {
			if subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
				s.refuse(w, http.StatusUnauthorized, "this token is of another run of sluice ui: open the address that the running one has printed")
				return
			}
			http.SetCookie(w, &http.Cookie{Name: cookie, Value: s.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}) //nolint:gosec // loopback has no TLS
			s.render(w, http.StatusOK, "enter", map[string]string{"To": withoutToken(r.URL)})
			return
		}
		site := r.Header.Get("Sec-Fetch-Site")
		if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host || site != "" && site != "same-origin" && site != "none" {
			s.refuse(w, http.StatusForbidden, "a page of another site may not use sluice ui")
			return
		}
		if c, err := r.Cookie(cookie); err != nil || subtle.ConstantTimeCompare([]byte(c.Value), []byte(s.token)) != 1 {
			s.refuse(w, http.StatusUnauthorized, "open the address that sluice ui has printed: it has the token")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withoutToken is the address on this server without the token.
func withoutToken(u *url.URL) string {
	q := u.Query()
	q.Del("token")
	to := url.URL{Path: "/" + strings.TrimLeft(u.Path, "/"), RawQuery: q.Encode()}
	return to.String()
}

func asset(kind string, first, name string) http.HandlerFunc {
	second, _ := files.ReadFile(name) // embedded
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, first+"\n"+string(second))
	}
}

// page is what the frame of each page shows.
type page struct {
	Title, Here string // Here is the entry of the menu
	Cluster     string // empty without one
	Version     string
	Live        string // the topic whose changes the page follows; empty for none
	Data        any
}

// show writes a page. A script that follows changes asks for its middle alone. Live in the page is the topic that
// its script follows.
func (s *Server) show(w http.ResponseWriter, r *http.Request, name string, p page) {
	p.Cluster, p.Version, p.Title = s.world.host(), s.Env.Version, report.Visible(p.Title)
	var middle bytes.Buffer
	if err := s.pages.ExecuteTemplate(&middle, name, p); err != nil {
		s.refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	text, whole := middle.String(), "frame"
	if p.Here != "check" { // its editors have texts as they are
		text = report.Visible(text)
	}
	if r.Header.Get("X-Sluice-Part") != "" {
		whole = "part"
	}
	s.render(w, http.StatusOK, whole, struct {
		page
		Middle template.HTML
	}{p, template.HTML(text)}) // a template has written it
}

// render writes a template as the answer. It is executed into memory first, so that an error in the middle is no
// half page with a status of success.
func (s *Server) render(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w)
}

// refuse answers with a status and a page that says why.
func (s *Server) refuse(w http.ResponseWriter, status int, why string) {
	s.render(w, status, "refused", map[string]string{"Title": http.StatusText(status), "Why": report.Visible(why)})
}

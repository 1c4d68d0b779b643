// Package browser looks at the pages of sluice with a real browser: Chromium without a window.
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"sluice.dev/tools/clustertest"
)

const root = "../.."

var shared clustertest.Shared

func TestMain(m *testing.M) {
	code := shared.Run(m)
	if programDir != "" {
		_ = os.RemoveAll(programDir)
	}
	os.Exit(code)
}

// patience is how long a test waits for what must come. It is long because a busy machine is no failure.
const patience = 2 * time.Minute

var programDir string

// program builds sluice, once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-browser")
	if err != nil {
		return "", err
	}
	programDir = dir
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, "sluice"), "./cmd/sluice")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "sluice"), nil
})

func sluice(t testing.TB) string {
	t.Helper()
	p, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// chromium is the browser, shared by all tests.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path := os.Getenv("SLUICE_CHROMIUM")
	if path == "" {
		var err error
		if path, err = exec.LookPath("chromium"); err != nil {
			return nil, fmt.Errorf("%w: make browser installs it", err)
		}
	}
	browser, _ := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(chromedp.ExecPath(path), chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-software-rasterizer", true)))
	return browser, chromedp.Do(browser)
})

// tab is a page of the browser. When the test ends, it must have asked no other host, and have said nothing in its console.
type tab struct {
	context.Context

	t testing.TB
}

// look is how a page is looked at.
type look struct {
	width, height int64
	dark          bool
}

var (
	wide   = look{1400, 900, false}
	narrow = look{390, 844, false}
	dark   = look{1400, 900, true}
)

func newTab(t testing.TB, l look, hosts ...string) *tab {
	t.Helper()
	browser, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	limited, stop := context.WithTimeout(ctx, 10*patience+longLook())
	t.Cleanup(stop)
	p := &tab{limited, t}
	var mu sync.Mutex
	var wrong []string
	err = chromedp.Listen(limited, func(event any) {
		text := ""
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			u, err := url.Parse(e.Request.URL)
			if known := err == nil && (u.Scheme == "data" || u.Scheme == "file" || u.Scheme == "about"); !known {
				text = "asks " + e.Request.URL
				for _, host := range hosts {
					if err == nil && u.Host == host {
						text = ""
					}
				}
			}
		case *runtime.EventExceptionThrown:
			text = "throws " + e.ExceptionDetails.Text
			if x := e.ExceptionDetails.Exception; x != nil {
				text += " " + x.Description
			}
		case *runtime.EventConsoleAPICalled:
			text = "console: " + string(e.Type)
			for _, a := range e.Args {
				text += " " + string(a.Value)
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				text = string(e.Entry.Source) + ": " + e.Entry.Text + " " + e.Entry.URL
			}
		}
		if text != "" {
			mu.Lock()
			wrong = append(wrong, text)
			mu.Unlock()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, text := range wrong {
			t.Errorf("the page %s", text)
		}
	})
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	command(p, network.Enable, network.EnableParams{})
	command(p, log.Enable, cdp.Empty{})
	command(p, runtime.Enable, cdp.Empty{})
	command(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: l.height, DeviceScaleFactor: 1, Mobile: l.width < 500})
	command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	return p
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// command sends a command of the browser's protocol, and returns what it answers.
func command[P, R any](p *tab, c cdp.Command[P, R], params P) R {
	p.t.Helper()
	var answer R
	p.run(chromedp.Func(func(ctx context.Context, target *chromedp.Target) (err error) {
		answer, err = cdp.Call(ctx, target, c, params)
		return err
	}))
	return answer
}

// eval returns the value of an expression. It waits for a promise.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%.300s: %v", expression, err)
	}
	return v
}

// until waits for an expression to be true, also on the page that comes next.
func (p *tab) until(expression string) {
	p.t.Helper()
	err := clustertest.Until(p, patience, expression, func(ctx context.Context) error {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && !is {
			err = errors.New("it is false")
		}
		return err
	})
	if err != nil {
		p.t.Fatalf("%v; the page is\n%.600s", err, eval[string](p, "document.body.innerText"))
	}
}

// has waits for a text.
func (p *tab) has(text string) {
	p.t.Helper()
	p.until("document.body.innerText.includes(" + quoted(text) + ")")
}

// open goes to a page, and waits until the browser has read it whole.
func (p *tab) open(address string) {
	p.t.Helper()
	p.run(chromedp.Navigate(address))
	p.until("document.readyState === 'complete'")
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.run(chromedp.Click(chromedp.CSS(selector)))
}

// write puts a text into a field, as one who pastes it.
func (p *tab) write(selector, text string) {
	p.t.Helper()
	eval[bool](p, fmt.Sprintf("{const e = document.querySelector(%s); e.value = %s; e.dispatchEvent(new Event('input', {bubbles: true})); true}", quoted(selector), quoted(text)))
}

func quoted(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}

// accessible runs axe-core on the page: WCAG 2.2 AA and its best practices.
func (p *tab) accessible(where string) {
	p.t.Helper()
	script, err := os.ReadFile(filepath.Join(root, ".cache/axe/node_modules/axe-core/axe.min.js"))
	if err != nil {
		p.t.Fatalf("%v: make browser installs it", err)
	}
	eval[bool](p, string(script)+"\ntrue")
	found := eval[[]string](p, `axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.flatMap(v => v.nodes.slice(0, 3).map(n => v.id + ': ' + v.help + ': ' + n.html.slice(0, 200) + ' ' + n.failureSummary)))`)
	for _, text := range found {
		p.t.Errorf("%s: %s", where, text)
	}
	if n := eval[int64](p, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); n > 0 {
		p.t.Errorf("%s: the page is %d pixels too wide", where, n)
	}
}

// served is sluice ui.
type served struct {
	url, host string
	cmd       *exec.Cmd
}

// serve starts sluice ui in a folder.
func serve(t testing.TB, dir, kubeconfig string, args ...string) *served {
	t.Helper()
	s := &served{cmd: exec.Command(sluice(t), append([]string{"ui"}, args...)...)}
	s.cmd.Dir = dir
	s.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			s.end(t)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	s.url = strings.TrimSpace(line)
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	s.host = u.Host
	return s
}

// end interrupts the program, which ends in time and without an error.
func (s *served) end(t testing.TB) {
	t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(30*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("sluice ui after an interrupt: %v", err)
	}
}

// enter opens a page with the token.
func (s *served) enter(t testing.TB, l look, page string) *tab {
	t.Helper()
	p := newTab(t, l, s.host)
	token := s.url[strings.Index(s.url, "token="):]
	between := "?"
	if strings.Contains(page, "?") {
		between = "&"
	}
	p.open("http://" + s.host + page + between + token)
	p.until("!location.href.includes('token=') && document.readyState === 'complete' && document.querySelector('main h1') !== null")
	return p
}

// work is the processor time that the program has taken.
func (s *served) work(t testing.TB) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		n, _ := strconv.Atoi(f)
		ticks += n
	}
	return fmt.Sprintf("%d ms of processor time", 10*ticks)
}

// memoryUse is the most memory that the program had, and what it has now.
func (s *served) memoryUse(t testing.TB) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM") || strings.HasPrefix(line, "VmRSS") {
			found = append(found, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(found, ", ")
}

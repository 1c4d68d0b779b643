package browser

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice.dev/tools/clustertest"
)

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const nowhere = "/nonexistent/kubeconfig"

// TestOnlyTheUsersBrowserIsAnswered asks as other programs and sites would.
func TestOnlyTheUsersBrowserIsAnswered(t *testing.T) {
	s := serve(t, t.TempDir(), nowhere)
	token := s.url[strings.Index(s.url, "token=")+len("token="):]
	_, port, _ := strings.Cut(s.host, ":")
	cookie := "sluice-ui-" + port + "=" + token
	for name, tt := range map[string]struct {
		method, path string
		header       map[string]string
		want         int
	}{
		"the user":                   {"GET", "/check", map[string]string{"Cookie": cookie}, 200},
		"by another name":            {"GET", "/check", map[string]string{"Cookie": cookie, "Host": "localhost:" + port}, 200},
		"no token":                   {"GET", "/check", nil, 401},
		"style of refusals":          {"GET", "/ui.css", nil, 200},
		"script without token":       {"GET", "/ui.js", nil, 401},
		"a wrong token":              {"GET", "/?token=x", nil, 401},
		"a wrong cookie":             {"GET", "/check", map[string]string{"Cookie": cookie + "x"}, 401},
		"another host":               {"GET", "/check", map[string]string{"Cookie": cookie, "Host": "evil.example:" + port}, 421},
		"another port":               {"GET", "/check", map[string]string{"Cookie": cookie, "Host": "127.0.0.1:1"}, 421},
		"another host with a token":  {"GET", "/?token=" + token, map[string]string{"Host": "evil.example"}, 421},
		"another origin":             {"POST", "/check", map[string]string{"Cookie": cookie, "Origin": "http://evil.example"}, 403},
		"an origin of a file":        {"GET", "/check", map[string]string{"Cookie": cookie, "Origin": "null"}, 403},
		"another site":               {"GET", "/requests", map[string]string{"Cookie": cookie, "Sec-Fetch-Site": "cross-site"}, 403},
		"another port of this host":  {"GET", "/requests", map[string]string{"Cookie": cookie, "Sec-Fetch-Site": "same-site"}, 403},
		"a link with the token":      {"GET", "/?token=" + token, map[string]string{"Sec-Fetch-Site": "cross-site"}, 200},
		"a write":                    {"DELETE", "/requests/a/b", map[string]string{"Cookie": cookie}, 404},
		"an address of another site": {"GET", "//evil.example/?token=" + token, nil, 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+s.host+tt.path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range tt.header {
			req.Header.Set(k, v)
		}
		req.Host = tt.header["Host"]
		client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s: %s, want %d", name, resp.Status, tt.want)
		}
		if csp := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", name, csp)
		}
		if strings.Contains(string(body), "//evil.example") {
			t.Errorf("%s: the answer leads elsewhere: %s", name, body)
		}
		if resp.StatusCode >= 400 && strings.Contains(string(body), token) {
			t.Errorf("%s: the answer has the token", name)
		}
	}
	s.end(t)
}

// verdict waits for the verdict on the page.
func (p *tab) verdict(want string) {
	p.t.Helper()
	p.until("document.getElementById('verdict').getAttribute('aria-busy') === 'false' && document.querySelector('#verdict h2')?.textContent === " + quoted(want))
}

func TestTheVerdictFollowsTheText(t *testing.T) {
	s := serve(t, t.TempDir(), nowhere)
	p := s.enter(t, wide, "/")
	p.accessible("empty")
	old, unsafe, safe := read(t, "examples/upgrade/v1.yaml"), read(t, "examples/upgrade/v2-unsafe.yaml"), read(t, "examples/upgrade/v3-safe.yaml")
	p.write("#old", old)
	p.write("#new", unsafe)
	p.verdict("Fail")
	p.accessible("unsafe")
	if got := eval[string](p, "document.querySelector('.finding del').textContent"); !strings.Contains(got, "tier: a") {
		t.Errorf("dropped: %q", got)
	}
	// A place leads to its line in the editor.
	p.click(".finding .goto")
	if got := eval[string](p, "{const t = document.activeElement; t.value.slice(t.selectionStart, t.selectionEnd)}"); strings.TrimSpace(got) == "" {
		t.Error("no line is selected")
	}
	// Findings can be left out by class, and reached by their links.
	p.click("#show-fail")
	p.until("[...document.querySelectorAll('.finding')].every(f => f.checkVisibility() === false)")
	p.click("#show-fail")
	id := eval[string](p, "document.querySelectorAll('.finding')[2].id")
	eval[bool](p, "location.hash = '#"+id+"'; true")
	p.until("document.getElementById('" + id + "').open")
	// The schema shows its changes, or what is searched for.
	p.click(".schemas > summary")
	p.until("document.querySelector('.schemas .changed')?.checkVisibility()")
	if eval[bool](p, "[...document.querySelectorAll('.tree .same')].some(e => e.checkVisibility())") {
		t.Error("fields without a change are shown")
	}
	p.accessible("schema")
	p.write(".search", "storage.si")
	p.until("document.querySelector('.schemas output').textContent === '1 field'")
	if got := eval[string](p, "[...document.querySelectorAll('.tree li')].filter(e => e.checkVisibility()).pop().querySelector('b').textContent"); got != "size" {
		t.Errorf("found: %q", got)
	}
	p.write(".search", "")
	// From a field to its finding.
	eval[bool](p, "document.querySelector('.tree .words a').click(); true")
	p.until("document.querySelector(decodeURIComponent(location.hash)).open")

	p.write("#new", safe)
	p.verdict("Pass, with warnings")
	p.write("#new", "kind: [")
	p.verdict("Not compared")
	p.write("#new", "")
	p.has("there is no new CRD")
	// With the keyboard alone.
	p.write("#new", unsafe)
	p.run(chromedp.Focus(chromedp.CSS("#new")), chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.verdict("Fail")
	eval[bool](p, "document.activeElement.blur(); scrollTo(0, 0); true")
	s.end(t)
}

// TestAFileIsDropped lets go of files over the page, as one does from a file manager.
func TestAFileIsDropped(t *testing.T) {
	s := serve(t, t.TempDir(), nowhere)
	p := s.enter(t, wide, "/check")
	old, unsafe := read(t, "examples/upgrade/v1.yaml"), read(t, "examples/upgrade/v2-unsafe.yaml")
	drop := func(side, name, text string) bool {
		return eval[bool](p, fmt.Sprintf(`{
			const files = new DataTransfer();
			files.items.add(new File([%s], %s, {type: 'application/yaml'}));
			const at = document.querySelector(%s);
			const over = new DragEvent('dragover', {dataTransfer: files, bubbles: true, cancelable: true});
			at.dispatchEvent(over);
			const fallen = new DragEvent('drop', {dataTransfer: files, bubbles: true, cancelable: true});
			at.dispatchEvent(fallen);
			over.defaultPrevented && fallen.defaultPrevented
		}`, text, quoted(name), quoted(side)))
	}
	for _, f := range []struct{ side, name, text string }{{"#old", "old.yaml", quoted(old)}, {"#new", "new.yaml", quoted(unsafe)}} {
		if !drop(f.side, f.name, f.text) {
			t.Errorf("the browser opens %s itself", f.name)
		}
		p.until("document.querySelector(" + quoted(f.side) + ").value === " + f.text)
	}
	p.verdict("Fail")
	if !drop("h1", "stray.yaml", "'stray'") {
		t.Error("the browser opens a file that is dropped beside the editors")
	}
	p.has("Drop one file on an editor")
	drop("#new", "huge.yaml", "'a'.repeat(9 << 20)")
	p.has("huge.yaml has 9437184 bytes, and the limit is 8388608")
	if !eval[bool](p, "document.querySelector('#new').value === "+quoted(unsafe)) {
		t.Error("a file that is too large has taken the place of the text")
	}
	eval[bool](p, `{
		const files = new DataTransfer();
		for (const text of ['one', 'two']) files.items.add(new File([text], text + '.yaml'));
		document.querySelector('#new').dispatchEvent(new DragEvent('drop', {dataTransfer: files, bubbles: true, cancelable: true}))
		true
	}`)
	p.until("document.querySelector('#old').value === 'one' && document.querySelector('#new').value === 'two'")
}

// TestAnEditLeavesOpenWhatIsOpen reads on while the text changes, is broken, and is whole again.
func TestAnEditLeavesOpenWhatIsOpen(t *testing.T) {
	s := serve(t, t.TempDir(), nowhere)
	p := s.enter(t, wide, "/check")
	unsafe := read(t, "examples/upgrade/v2-unsafe.yaml")
	p.write("#old", read(t, "examples/upgrade/v1.yaml"))
	p.write("#new", unsafe)
	p.verdict("Fail")
	eval[bool](p, "for (const d of document.querySelectorAll('.schemas, .legend, .finding, .doc')) d.open = true; document.querySelector('.only').click(); document.getElementById('show-note')?.click(); true")
	p.write(".search", "storage.si")
	p.until("document.querySelector('.schemas output').textContent === '1 field'")
	state := "JSON.stringify([[...document.querySelectorAll('.schemas, .legend, .finding, .doc')].map(d => d.open), [...document.querySelectorAll('#verdict input')].map(i => [i.checked, i.value]), document.querySelector('.schemas output').textContent, [...document.querySelectorAll('.tree li')].filter(l => l.checkVisibility()).length])"
	before := eval[string](p, state)
	// The page is busy for a moment, which a look from outside can miss.
	eval[bool](p, `window.schema = document.querySelector('.schemas'); window.looks = 0
		new MutationObserver(changes => { window.looks += changes.filter(c => c.oldValue === 'true').length }).
			observe(document.getElementById('verdict'), {attributeFilter: ['aria-busy'], attributeOldValue: true})
		true`)
	for i, text := range []string{unsafe + "# more\n", "kind: [", unsafe + "# again\n"} {
		p.write("#new", text)
		p.until(fmt.Sprintf("window.looks > %d", i))
		if text == "kind: [" {
			p.verdict("Not compared")
		} else {
			p.verdict("Fail")
		}
	}
	if after := eval[string](p, state); after != before || !eval[bool](p, "window.schema.isConnected") {
		t.Errorf("before %s\nafter  %s", before, after)
	}
	// Nothing answers a source.
	eval[bool](p, "window.fetch = () => Promise.reject(new TypeError('gone')); document.querySelector('.load').click(); true")
	p.has("sluice ui does not answer: gone")
}

// TestTheTokenIsNoArgument opens the address with the program of the system, whose arguments other users see.
func TestTheTokenIsNoArgument(t *testing.T) {
	bin, told := t.TempDir(), filepath.Join(t.TempDir(), "told")
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte("#!/bin/sh\nprintf %s \"$1\" > "+told+".part && mv "+told+".part "+told+"\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s := serve(t, t.TempDir(), nowhere, "--open")
	var file []byte
	clustertest.Eventually(t, "the program that opens addresses", func(context.Context) (err error) {
		file, err = os.ReadFile(told)
		return err
	})
	if info, err := os.Stat(string(file)); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%s: %v %v", file, info, err)
	}
	p := newTab(t, wide, s.host)
	p.run(chromedp.Navigate("file://" + string(file)))
	p.until("location.pathname === '/check' && document.querySelector('main h1') !== null")
	p.open("about:blank")
	s.end(t)
	if _, err := os.Stat(filepath.Dir(string(file))); !os.IsNotExist(err) {
		t.Errorf("%s stays: %v", file, err)
	}
}

func TestWhatIsAskedForMustBeThere(t *testing.T) {
	for _, args := range [][]string{{"-f", "/nonexistent"}, {"-c", "/nonexistent.yaml"}, {"--context", "nope"}, {"--kubeconfig", nowhere}} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if out, err := exec.CommandContext(ctx, sluice(t), append([]string{"ui"}, args...)...).CombinedOutput(); err == nil || ctx.Err() != nil || strings.Contains(string(out), "http://127") {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
}

func TestThePageIsUsableWithTheKeyboard(t *testing.T) {
	s := serve(t, t.TempDir(), nowhere)
	p := s.enter(t, wide, "/check?example=property-removed")
	p.run(chromedp.KeyEvent(kb.Tab))
	if got := eval[string](p, "document.activeElement.textContent"); got != "Skip to the content" {
		t.Errorf("the first stop is %q", got)
	}
	// Each stop can be seen, and the keyboard comes to a finding and opens it.
	eval[bool](p, "document.querySelector('.finding').open = false; true")
	reached := false
	for range 80 {
		p.run(chromedp.KeyEvent(kb.Tab))
		if !eval[bool](p, "document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== 'none'") {
			t.Fatalf("the focus does not show at %s", eval[string](p, "document.activeElement.outerHTML.slice(0, 100)"))
		}
		if eval[bool](p, "document.activeElement.matches('.finding > summary')") {
			p.run(chromedp.KeyEvent(kb.Enter))
			p.until("document.querySelector('.finding').open")
			reached = true
			break
		}
	}
	if !reached {
		t.Error("the keyboard does not come to the finding")
	}
}

func TestExamplesOfRulesCanBeClickedThrough(t *testing.T) {
	s := serve(t, t.TempDir(), nowhere)
	p := s.enter(t, wide, "/check")
	links := eval[[]string](p, "[...document.querySelectorAll('.rules a')].map(a => a.getAttribute('href'))")
	if len(links) < 30 {
		t.Fatalf("%d examples", len(links))
	}
	p.click(".rules a")
	p.until("document.querySelector('.example h2')")
	// Each of them is compared.
	wrong := eval[[]string](p, `(async () => {
		const wrong = [];
		for (const a of `+mustJSON(links)+`) {
			const text = await (await fetch(a)).text();
			const page = new DOMParser().parseFromString(text, 'text/html');
			const rule = a.split('=')[1];
			if (![...page.querySelectorAll('#verdict .which code')].some(c => c.textContent === rule)) wrong.push(a + ': ' + page.getElementById('verdict').textContent.slice(0, 200));
		}
		return wrong;
	})()`)
	for _, text := range wrong {
		t.Errorf("without its finding: %s", text)
	}
}

func mustJSON(list []string) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(quoted(s))
	}
	return "[" + b.String() + "]"
}

// TestHostileTextIsOnlyText has markup wherever a CRD has text.
func TestHostileTextIsOnlyText(t *testing.T) {
	s := serve(t, t.TempDir(), nowhere)
	p := s.enter(t, wide, "/check")
	const evil = `<img src=x onerror=window.hacked=1></textarea></pre><script>window.hacked=1</script>`
	crd := func(kind string) string {
		return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              ` + quoted(evil) + `: {type: ` + kind + `, enum: [` + quoted(evil) + `]}
`
	}
	p.write("#old", crd("string"))
	p.write("#new", strings.ReplaceAll(crd("string"), "enum: [", `enum: ["other"], x-kubernetes-validations: [{rule: "self != '<b>'", message: "<script>window.hacked=1</script>"}], x: [`))
	p.until("document.querySelector('#verdict h2')")
	p.write("#new", strings.ReplaceAll(crd("string"), "enum: [", `enum: [other, `))
	p.until("document.querySelector('#verdict .result.fail, #verdict .result.ok')")
	p.write("#new", `"`+evil)
	p.verdict("Not compared")
	p.open("http://" + s.host + "/check?old=" + strings.ReplaceAll(evil, " ", "%20") + "&new=%00")
	p.has("Not compared")
	p.open("http://" + s.host + "/features/" + strings.ReplaceAll(strings.ReplaceAll(evil, "/", "%2F"), " ", "%20"))
	p.until("document.querySelector('main')")
	if eval[bool](p, "'hacked' in window || document.querySelector('main img, main script') !== null") {
		t.Error("the text is more than text")
	}
}

// large is a CRD of about so many bytes. Every hundredth part has the maximum.
func large(size, maximum int) string {
	var b strings.Builder
	b.WriteString(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
`)
	for i := 0; b.Len() < size; i++ {
		most := 100
		if i%100 == 0 {
			most = maximum
		}
		fmt.Fprintf(&b, "              part%d:\n                type: object\n                description: %s\n                properties:\n                  size: {type: integer, maximum: %d}\n                  name: {type: string, maxLength: 20}\n", i, strings.Repeat("what it is for ", 12), most)
	}
	return b.String()
}

func TestLargeTextsAreQuickOrRefused(t *testing.T) {
	s := serve(t, t.TempDir(), nowhere)
	p := s.enter(t, wide, "/check")
	p.write("#old", large(1<<20, 10))
	begun := time.Now()
	p.write("#new", large(1<<20, 9))
	p.verdict("Fail")
	t.Logf("1 MB against 1 MB: the verdict is there after %s, on %s", time.Since(begun).Round(time.Millisecond), s.work(t))
	if n := eval[int](p, "document.querySelectorAll('*').length"); n > 120_000 {
		t.Errorf("%d elements", n)
	}
	p.write("#new", strings.Repeat("# "+strings.Repeat("filler ", 1000)+"\n", 1400))
	p.has("the limit is 8388608")
}

func TestRevisionsAndFilesAreLoaded(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-C", dir}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main")
	for tag, text := range map[string]string{"v1": read(t, "examples/upgrade/v1.yaml"), "v2": read(t, "examples/upgrade/v2-unsafe.yaml")} {
		if err := os.WriteFile(filepath.Join(dir, "crd.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		git("add", "crd.yaml")
		git("commit", "-qm", tag)
		git("tag", tag)
	}
	s := serve(t, dir, nowhere)
	p := s.enter(t, wide, "/check?old=git:v1:crd.yaml&new=git:v2:crd.yaml")
	p.verdict("Fail")
	if got := eval[[]string](p, "[...document.querySelectorAll('#sources option')].map(o => o.value)"); !strings.Contains(strings.Join(got, " "), "git:v1") {
		t.Errorf("offered: %v", got)
	}
	// Comments of the file are there.
	if got := eval[string](p, "document.getElementById('new').value"); got != read(t, "examples/upgrade/v2-unsafe.yaml") {
		t.Errorf("the text is not that of the file:\n%s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "crd.yaml"), []byte(read(t, "examples/upgrade/v3-safe.yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	p.write("[name=new-source]", "crd.yaml")
	p.click("fieldset:last-of-type .load")
	p.verdict("Pass, with warnings")
	if got := eval[string](p, "location.search"); got != "?old=git%3Av1%3Acrd.yaml&new=crd.yaml" {
		t.Errorf("the address is %s", got)
	}
	for source, want := range map[string]string{"-": "no standard input", "absent.yaml": "absent.yaml", "git:-x": "begins with a dash", "cluster:a": "no access to the cluster"} {
		p.write("[name=new-source]", source)
		eval[bool](p, "document.getElementById('wrong').replaceChildren(); document.querySelector('fieldset:last-of-type .load').click(); true")
		p.has(want)
	}
}

// TestTheReportStandsAlone opens the file that check writes.
func TestTheReportStandsAlone(t *testing.T) {
	out, err := exec.Command(sluice(t), "check", "-o", "html", filepath.Join(root, "examples/upgrade/v1.yaml"), filepath.Join(root, "examples/upgrade/v2-unsafe.yaml")).Output()
	if len(out) == 0 {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]look{"wide": wide, "narrow": narrow, "dark": dark} {
		p := newTab(t, l)
		p.open("file://" + file)
		id := eval[string](p, "document.querySelectorAll('.finding')[1].id")
		p.open("file://" + file + "#" + id)
		p.until("document.getElementById('" + id + "').open")
		eval[bool](p, "document.querySelectorAll('details').forEach(d => d.open = true); true")
		p.write(".search", "replicas")
		p.until("document.querySelector('.schemas output').textContent !== ''")
		p.accessible("report, " + name)
		if name == "wide" {
			pdf, err := chromedp.Run(p, chromedp.PrintToPDF())
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(pdf, []byte("/Type /Page\n")) + bytes.Count(pdf, []byte("/Type /Page ")); n > 8 || len(pdf) < 1000 {
				t.Errorf("%d pages, %d bytes", n, len(pdf))
			}
		}
	}
}

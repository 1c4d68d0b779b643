package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestScreenshots makes the pictures of the documentation in the folder that SLUICE_SCREENSHOTS names.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("SLUICE_SCREENSHOTS")
	if dir == "" {
		t.Skip("make screenshots names a folder for the pictures")
	}
	shoot := func(p *tab, name string) {
		t.Helper()
		// What differs from run to run is left out.
		eval[bool](p, "document.querySelector('.where').textContent = document.querySelector('.where').textContent.replace(/[0-9.]+:[0-9]+/, 'cluster.example.com'); document.querySelector('footer').remove(); scrollTo(0, 0); true")
		png, err := chromedp.Run(p, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), png, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, t.TempDir(), nowhere)
	p := s.enter(t, look{1280, 1060, false}, "/check")
	p.write("#old", read(t, "examples/upgrade/v1.yaml"))
	p.write("#new", read(t, "examples/upgrade/v2-unsafe.yaml"))
	p.verdict("Fail")
	eval[bool](p, "document.querySelectorAll('textarea').forEach(t => { t.style.height = '11rem'; t.scrollTop = 44 * parseFloat(getComputedStyle(t).lineHeight); }); document.querySelector('.filter').remove(); document.getElementById('overview').parentElement.remove(); true")
	shoot(p, "ui-check.png")
	c := filled(t)
	s = serve(t, t.TempDir(), c.Kubeconfig)
	for page, text := range map[string]string{"features": "Banner", "upgrades": "team-a/shop", "requests": "build-pipeline-82ac"} {
		p := s.enter(t, look{1280, 640, false}, "/"+page)
		p.has(text)
		shoot(p, "ui-"+page+".png")
		p = s.enter(t, look{390, 700, true}, "/"+page)
		p.has(text)
		shoot(p, "ui-"+page+"-narrow.png")
	}
}

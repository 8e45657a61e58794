package browsertest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var pictures = flag.String("pictures", "", "write the pictures to this `folder`")

// TestPictures takes the pictures of the README.
func TestPictures(t *testing.T) {
	p := open(t, *redisURL)
	p.run(chromedp.EmulateViewport(752, 1000, chromedp.EmulateScale(2)))
	p.middle()
	p.run(chromedp.Evaluate(`document.querySelectorAll("#lanes article ~ article ~ article, #status, #look, " +
		"#replicas, #choose, .sums, .legend span:has(.plan, .lost)").forEach((e) => { e.hidden = true; })`, nil))
	p.take("demo", "#lanes")
}

// middle opens the page again, and holds the picture in the middle of the burst that plays by itself.
func (p *page) middle() {
	p.t.Helper()
	p.run(chromedp.Navigate(p.demo.url))
	p.until("half a window after the boundary", `/Now steady/.test(document.getElementById("status").textContent)`)
	p.click("#pause")
}

// take takes a picture of an element, in light and in dark, and writes both with the flag -pictures.
func (p *page) take(name, selector string) {
	p.t.Helper()
	backs := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		var picture []byte
		var back string
		p.run(
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: scheme},
			}),
			chromedp.Evaluate(`new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))`, nil,
				func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }),
			chromedp.Evaluate(`getComputedStyle(document.body).backgroundColor`, &back),
			chromedp.Screenshot(selector, &picture, chromedp.ByQuery),
		)
		backs[scheme] = back
		if len(picture) > 150_000 {
			p.t.Errorf("the %s picture %s has %d bytes, want at most 150,000", scheme, name, len(picture))
		}
		if *pictures != "" {
			if err := os.WriteFile(filepath.Join(*pictures, name+"-"+scheme+".png"), picture, 0o644); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	if backs["light"] == backs["dark"] {
		p.t.Errorf("the background is %q in light and in dark", backs["light"])
	}
}

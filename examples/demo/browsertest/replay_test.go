package browsertest

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// madeLog returns a log of an afternoon: 200 clients that look at pages, of whom some look at many, and one that tries
// passwords.
func madeLog() string {
	var b strings.Builder
	line := func(client int, second float64, request string) {
		at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(second * float64(time.Second)))
		fmt.Fprintf(&b, "192.0.2.%d - - [%s] \"%s HTTP/1.1\" 200 512 \"-\" \"Mozilla/5.0\"\n",
			client, at.Format("02/Jan/2006:15:04:05 -0700"), request)
	}
	for client := 1; client <= 200; client++ {
		n := 2 + int(2000/math.Pow(float64(client), 1.1))
		for i := range n {
			line(client, 14400*float64(i*7919%n)/float64(n), "GET /api/data")
		}
	}
	for i := range 900 {
		line(250, 9000+float64(i)/3, "POST /login")
	}
	return b.String()
}

// TestReplayPage looks at the page of sash replay -html: it asks for nothing, the line moves by mouse and by keys, and
// it fits on a phone.
func TestReplayPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "replay.html")
	replay := exec.Command("go", "-C", "../../..", "run", "./cmd/sash", "replay", "-limit", "60/1m", "-html", file)
	replay.Stdin = strings.NewReader(madeLog())
	out, err := replay.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	answer, _, _ := strings.Cut(string(out), "\n")
	p := browse(t, "file://"+file)
	if got := p.text("h1"); got != answer || !strings.Contains(answer, "all of one client.") {
		t.Errorf("the page says %q, the text %q", got, answer)
	}
	refused := func() string { return p.text("#number") + ": " + p.text("#refused td") }
	first := refused()
	number, _, _ := strings.Cut(strings.TrimPrefix(answer, "60 a minute would have refused "), " ")
	if first != "60 a minute: "+number {
		t.Errorf("the slider begins at %q", first)
	}
	if got := p.text(".by"); got != number {
		t.Errorf("%q is refused of the heaviest client, want %q", got, number)
	}
	p.run(chromedp.Focus("#limit", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowLeft))
	if got := refused(); !strings.HasPrefix(got, "50 a minute: ") || strings.HasSuffix(got, ": "+number) {
		t.Errorf("one key left of 60 the page says %q", got)
	}
	if got := p.text("#refused td"); got != p.text(".by") {
		t.Errorf("one key left of 60, %q is refused of the heaviest client, want %q", p.text(".by"), got)
	}
	var at [3]float64 // left and top of the chart, and where the line is
	p.run(chromedp.Evaluate(`(() => { const r = document.getElementById("chart").getBoundingClientRect();
		return [r.left, r.top, document.getElementById("line").getBoundingClientRect().top]; })()`, &at))
	p.run(input.DispatchMouseEvent(input.MousePressed, at[0]+200, at[2]).WithButton(input.Left).WithButtons(1),
		input.DispatchMouseEvent(input.MouseMoved, at[0]+200, at[1]+12).WithButton(input.Left).WithButtons(1),
		input.DispatchMouseEvent(input.MouseReleased, at[0]+200, at[1]+12).WithButton(input.Left))
	if got := refused(); !strings.HasSuffix(got, " a minute: 0") {
		t.Errorf("with the line at the top the page says %q", got)
	}
	for _, width := range []int64{390, 1280} {
		p.run(chromedp.EmulateViewport(width, 1160))
		if wide := int64(p.number(`document.documentElement.scrollWidth`)); wide > width {
			t.Errorf("in %d pixels the page is %d wide", width, wide)
		}
		const hidden = `Math.max(...[...document.querySelectorAll(".wide")].map((e) => e.scrollWidth - e.clientWidth))`
		if n := p.number(hidden); n > 0 {
			t.Errorf("in %d pixels, %v of a table are hidden", width, n)
		}
	}
	p.slide("limit", p.number(`w.Begin`))
	p.run(chromedp.EmulateViewport(752, 1000, chromedp.EmulateScale(2)))
	p.run(chromedp.Evaluate(
		`document.querySelectorAll("section + section, #grid").forEach((e) => { e.hidden = true; }); 0`, nil))
	p.take("replay", "main")
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.problems) > 0 || len(p.asked) != 1 {
		t.Errorf("the console says %q, and the page has asked for %q", p.problems, p.asked)
	}
}

// Package browsertest drives the page of examples/demo in a real Chromium, which it finds as chromium in the PATH.
package browsertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestPage drives every control of the page.
func TestPage(t *testing.T) {
	p := open(t, *redisURL)
	p.burst()
	p.countdown()
	p.calm()
	p.others()
	p.outage()
	p.window()
	p.phone()
	p.gone()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.problems) > 0 {
		t.Errorf("the console says %q", p.problems)
	}
}

// burst looks at the burst at the boundary that plays by itself, and plays others where the machine is too busy for
// requests to come in time.
func (p *page) burst() {
	p.t.Helper()
	p.until("the first burst", ends)
	s := p.settled("the first burst")
	got := p.text("#h-line") + ": " + p.text("#rule")
	if got != "The same requests under each rule: Limit per client: 10 requests in any 3 s" {
		p.t.Errorf("the lanes are called %q", got)
	}
	for attempt := 1; ; attempt++ {
		log, counter, fixed := s.Judges["log"].Worst, s.Judges["counter"].Worst, s.Judges["fixed"].Worst
		coarse, bucket := s.Judges["coarse"].Worst, s.Judges["bucket"].Worst
		if log == 10 && coarse == 10 && counter > 10 && counter <= 20 && fixed == 20 && bucket > 10 && bucket < 20 {
			return
		}
		if log > 10 || coarse > 10 || bucket >= 20 || attempt == 3 {
			p.t.Errorf("worst windows of a burst: log %d, coarse log %d, counter %d, bucket %d, fixed %d, "+
				"want 10, 10, 11 to 20, 11 to 19, 20", log, coarse, counter, bucket, fixed)
			return
		}
		p.fresh()
		s = p.play("burst")
	}
}

// countdown waits for the end of Retry-After after a flood, and compares the fields with those of the response.
func (p *page) countdown() {
	p.t.Helper()
	p.fresh()
	if s := p.play("flood"); s.Judges["log"].Worst != 10 || s.Judges["log"].Refused == 0 {
		p.t.Errorf("the log in a flood: %+v", s.Judges["log"])
	}
	p.run(chromedp.Evaluate(`spoken = 0;
		document.querySelectorAll("[role=status]").forEach((e) => new MutationObserver(() => spoken++).observe(e,
			{ childList: true, characterData: true, subtree: true })); 0`, nil))
	p.until("a refused client to come back",
		`/200: it came back/.test(document.getElementById("countdown").textContent)`)
	if n := p.number(`spoken`); n > 2 {
		p.t.Errorf("a screen reader hears %d texts while a client waits, want at most 2", n)
	}
	answer := p.text("#answer")
	p.mu.Lock()
	defer p.mu.Unlock()
	if !strings.Contains(answer, "HTTP/1.1 200 OK") {
		p.t.Errorf("the answer is %q", answer)
	}
	for _, name := range []string{
		"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit", "RateLimit-Policy",
	} {
		var value any
		for field, v := range p.last {
			if strings.EqualFold(field, name) {
				value = v
			}
		}
		if line := fmt.Sprintf("\n%s: %v\n", name, value); !strings.Contains(answer+"\n", line) {
			p.t.Errorf("the answer has no %q: %q", line, answer)
		}
	}
}

// calm counts what is drawn: up to 60 times a second while requests move, nothing while nothing happens or while the
// picture is held, and what is new for users who want little motion.
func (p *page) calm() {
	p.t.Helper()
	p.fresh()
	p.run(chromedp.Evaluate(`drawings = 0; fill = CanvasRenderingContext2D.prototype.fillRect;
		CanvasRenderingContext2D.prototype.fillRect = function (...a) { drawings++; return fill.apply(this, a); };
		0`, nil))
	during := func(what string, least, most int) {
		p.t.Helper()
		p.run(chromedp.Sleep(300*time.Millisecond), chromedp.Evaluate(`drawings = 0`, nil), chromedp.Sleep(time.Second))
		if n := p.number(`drawings / 4`); n < least || n > most {
			p.t.Errorf("%s: %d drawings in a second, want %d to %d", what, n, least, most)
		}
	}
	during("idle", 0, 0)
	p.click(`[data-play=steady]`)
	during("steady", 11, 100)
	p.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-reduced-motion", Value: "reduce"},
	}))
	during("little motion", 1, 10)
	p.run(emulation.SetEmulatedMedia())
	p.click("#pause")
	during("held", 0, 0)
	p.click("#pause")
	p.click("#stop")
}

// others plays the other kinds, one of them by keyboard.
func (p *page) others() {
	p.t.Helper()
	p.fresh()
	if s := p.play("clients"); s.Judges["log"].Admitted <= 10 || s.Judges["log"].Worst > 10 {
		p.t.Errorf("many clients: %+v", s.Judges["log"])
	}
	sums := p.text("#log .sums")
	n := p.number(`+document.querySelector("#log .sums").textContent.match(/; (\d+).* busiest client/)[1]`)
	if n < 1 || n > 10 {
		p.t.Errorf("many clients: %q, want 1 to 10 of the busiest", sums)
	}
	p.slide("rate", 20)
	if got := p.text("#rate-out"); got != "20/s" {
		p.t.Errorf("the rate says %q", got)
	}
	p.fresh()
	p.run(chromedp.SendKeys(`[data-play=steady]`, "\r", chromedp.ByQuery))
	p.until("12 steady requests", `/, [^01]/.test(document.querySelector("#log .sums").textContent)`)
	p.run(chromedp.SendKeys(`#stop`, " ", chromedp.ByQuery))
	p.until("the end", ends)
	p.settled("steady")
}

// outage takes the store away and gives it back.
func (p *page) outage() {
	p.t.Helper()
	status := func(name, want string) string {
		return fmt.Sprintf(`document.querySelector("#%s [data-f=status]").textContent === "%s"`, name, want)
	}
	p.click("#probe")
	for _, name := range []string{"open", "closed", "fallback"} {
		p.until(name, status(name, "200"))
	}
	label := p.text("#away")
	p.click("#away")
	p.until("the switch", `document.getElementById("away").ariaChecked === "true"`)
	if got := p.text("#away"); got != label {
		p.t.Errorf("the switch is %q, and %q when it is on", label, got)
	}
	p.until("fail closed", status("closed", "503"))
	p.until("fail open", status("open", "200"))
	p.until("fallback",
		`/counted in this process/.test(document.querySelector("#fallback [data-f=source]").textContent)`)
	p.click("#away")
	for _, name := range []string{"open", "closed", "fallback"} {
		p.until(name, fmt.Sprintf(
			`/^Counting resumed [0-9.]+ s/.test(document.querySelector("#%s [data-f=resumed]").textContent)`, name))
	}
	p.click("#probe")
	p.until("the end", `document.getElementById("probe").ariaPressed === "false"`)
}

// window moves the window by hand.
func (p *page) window() {
	p.t.Helper()
	p.slide("back", -50)
	p.until("the window to move", `document.getElementById("back-out").textContent === "1.0 s back"`)
	p.slide("back", 0)
}

// phone looks at the page in the width of a phone.
func (p *page) phone() {
	p.t.Helper()
	p.run(chromedp.EmulateViewport(360, 800))
	if wide := p.number(`document.documentElement.scrollWidth`); wide > 360 {
		p.t.Errorf("on a phone of 360 pixels the page is %d wide", wide)
	}
	if low := p.number(`scrollY + document.querySelector("#fixed .worst").getBoundingClientRect().bottom`); low > 800 {
		p.t.Errorf("on a phone the worst fixed window is at %d of 800 pixels", low)
	}
	if high := p.number(`document.querySelector("label[for=back]").offsetHeight`); high > 30 {
		p.t.Errorf("on a phone the label of the yellow window is %d pixels high", high)
	}
	if n := p.number(`new Set(Array.from(document.querySelectorAll(".policies article"),
		(e) => e.offsetTop + " " + e.offsetHeight)).size`); n != 1 {
		p.t.Errorf("on a phone the policies stand in %d ways", n)
	}
	p.run(chromedp.EmulateViewport(1280, 1160))
}

// gone stops the server and starts it again.
func (p *page) gone() {
	p.t.Helper()
	p.demo.stop()
	p.until("the truth", `!document.getElementById("gone").hidden`)
	if got := p.text("#gone"); !strings.Contains(got, "has not answered") {
		p.t.Errorf("without a server the page says %q", got)
	}
	p.demo.start(p.t, strings.TrimPrefix(p.demo.url, "http://"))
	p.until("the server to be back", `document.getElementById("gone").hidden`)
	p.until("empty lanes", empty)
	p.play("clients")
}

// TestDeadRedis: the page says that Redis does not answer, and not that the switch was used.
func TestDeadRedis(t *testing.T) {
	p := open(t, "redis://127.0.0.1:1")
	p.until("the truth", `document.getElementById("store").textContent === "Redis does not answer"`)
	if got := p.text("#there"); !strings.HasPrefix(got, "Redis does not answer: ") ||
		!strings.HasSuffix(got, " is off.") {
		t.Errorf("the page says %q", got)
	}
	p.click(`[data-play=steady]`)
	p.until("an answer", `/^503: not let in, since Redis/.test(document.getElementById("countdown").textContent)`)
}

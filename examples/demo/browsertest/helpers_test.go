package browsertest

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var redisURL = flag.String("redis", "", "the demo counts in the Redis of this `URL`; empty: in memory")

// demo is the program in a process of its own.
type demo struct {
	program, url, redis string
	cmd                 *exec.Cmd
}

// start starts the program on addr, and waits until it says that it listens.
func (d *demo) start(t *testing.T, addr string) {
	t.Helper()
	d.cmd = exec.Command(d.program, "-addr", addr, "-redis", d.redis)
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	_, rest, found := strings.Cut(line, "Listening on ")
	if err != nil || !found {
		t.Fatalf("the demo says %q: %v", line, err)
	}
	d.url, _, _ = strings.Cut(rest, ",")
	go io.Copy(io.Discard, lines)
}

func (d *demo) stop() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
}

// page is the page in a browser.
type page struct {
	t    *testing.T
	ctx  context.Context
	demo *demo

	mu       sync.Mutex
	last     network.Headers // of the newest answer to a judged request
	problems []string        // what the browser's console says
	asked    []string        // what the browser has asked for
}

// open opens the page of a demo that counts in the Redis of a URL, or in memory.
func open(t *testing.T, redis string) *page {
	t.Helper()
	d := &demo{program: filepath.Join(t.TempDir(), "demo"), redis: redis}
	build := exec.Command("go", "-C", "../..", "build", "-o", d.program, "./demo")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.start(t, "127.0.0.1:0")
	t.Cleanup(func() { d.stop() })
	p := browse(t, d.url)
	p.demo = d
	p.until("a session", `document.body.dataset.session !== undefined`)
	return p
}

// browse opens the page of a URL.
func browse(t *testing.T, url string) *page {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.WindowSize(1280, 1160))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, stop := chromedp.NewContext(alloc)
	t.Cleanup(stop)
	ctx, stop = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(stop)
	p := &page{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, p.hear)
	p.run(network.Enable(), log.Enable(), chromedp.Navigate(url))
	return p
}

func (p *page) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.asked = append(p.asked, e.Request.URL)
	case *network.EventResponseReceived:
		if strings.Contains(e.Response.URL, "/requests?") {
			p.last = e.Response.Headers
		}
	case *runtime.EventExceptionThrown:
		p.problems = append(p.problems, e.ExceptionDetails.Error())
	case *log.EventEntryAdded:
		// That a response has a status of 429 or 503 is logged as an error, and so is that the server is gone.
		if e.Entry.Source != log.SourceNetwork {
			p.problems = append(p.problems, e.Entry.Text)
		}
	}
}

func (p *page) run(actions ...chromedp.Action) {
	p.t.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *page) text(selector string) (s string) {
	p.t.Helper()
	p.run(chromedp.Text(selector, &s, chromedp.ByQuery))
	return strings.TrimSpace(s)
}

func (p *page) number(expression string) (n int) {
	p.t.Helper()
	p.run(chromedp.Evaluate("Math.round("+expression+")", &n))
	return n
}

// until waits until an expression is true in the page.
func (p *page) until(what, expression string) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, 25*time.Second)
	defer stop()
	poll := chromedp.Poll(expression, nil, chromedp.WithPollingInterval(50*time.Millisecond))
	if err := chromedp.Run(ctx, poll); err != nil {
		var body string
		p.run(chromedp.Text("body", &body))
		p.t.Fatalf("waiting for %s: %v\n%s", what, err, body)
	}
}

func (p *page) click(selector string) {
	p.t.Helper()
	p.run(chromedp.Click(selector, chromedp.ByQuery))
}

// slide sets a slider as a user does.
func (p *page) slide(id string, value int) {
	p.t.Helper()
	p.run(chromedp.Evaluate(fmt.Sprintf(`(() => { const s = document.getElementById(%q); s.value = %d;
		s.dispatchEvent(new Event("input")); s.dispatchEvent(new Event("change")); })()`, id, value), nil))
}

// fresh begins a new session with a limit of 10 in 2 s.
func (p *page) fresh() {
	p.t.Helper()
	for _, s := range []struct {
		id    string
		value int
	}{{"limit", 10}, {"window", 2}} {
		var before string
		p.run(chromedp.Evaluate(`document.body.dataset.session`, &before))
		p.slide(s.id, s.value)
		p.until("a new session", fmt.Sprintf(`document.body.dataset.session !== %q`, before))
	}
	p.until("empty lanes", empty)
}

// empty is true in a page that shows no request.
const empty = `/^0 let in, 0 refused/.test(document.querySelector("#log .sums").textContent)`

// play plays a kind of traffic to its end, and checks the lanes.
func (p *page) play(kind string) state {
	p.t.Helper()
	p.click(fmt.Sprintf(`[data-play=%s]`, kind))
	p.until(kind+" to begin", fmt.Sprintf(`document.querySelector("[data-play=%s]").ariaPressed === "true"`, kind))
	p.until(kind+" to end", ends)
	return p.settled(kind)
}

// ends is true in a page that has played something, and plays nothing.
const ends = `document.querySelector("[data-play][aria-pressed]") &&
	!document.querySelector("[data-play][aria-pressed=true]")`

// state is what the server counted.
type state struct {
	Seq      int
	Settings struct{ Limit int }
	Judges   map[string]struct{ Admitted, Refused, Worst int }
	Replicas []int
}

func (p *page) server() (s state) {
	p.t.Helper()
	var id string
	p.run(chromedp.Evaluate(`document.body.dataset.session`, &id))
	res, err := http.Get(p.demo.url + "/live/sessions/" + id + "?after=0")
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// shown returns the numbers of the lanes as text.
func (p *page) shown() (text string) {
	p.t.Helper()
	p.run(chromedp.Evaluate(`["log", "counter", "fixed"].map((j) =>
		document.querySelector("#" + j + " .sums").textContent.replace(/;.*/, "; ") +
		document.querySelector("#" + j + " .worst").textContent.replace(/^.*: /, "")).join("; ") +
		"; " + document.getElementById("replicas").textContent.replace(/^.* let in /, "")`, &text))
	return text
}

// shown returns the numbers as the page should show them.
func (s state) shown() string {
	var rows []string
	for _, name := range []string{"log", "counter", "fixed"} {
		j := s.Judges[name]
		verdict := "limit kept"
		if j.Worst > s.Settings.Limit {
			verdict = fmt.Sprintf("%d too many", j.Worst-s.Settings.Limit)
		}
		rows = append(rows, fmt.Sprintf("%d let in, %d refused; %d let in, %s",
			j.Admitted, j.Refused, j.Worst, verdict))
	}
	parts := strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Replicas), "[]"), " ", ", ")
	rows = append(rows, fmt.Sprintf("%s: together %d.", parts, s.Judges["log"].Admitted))
	return strings.Join(rows, "; ")
}

// settled waits until the page shows what the server counted, and returns that.
func (p *page) settled(what string) (s state) {
	p.t.Helper()
	var got string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		s = p.server()
		if got = p.shown(); got == s.shown() && s.Seq == p.server().Seq {
			return s
		}
	}
	p.t.Fatalf("%s: the page shows\n%s, the server counted\n%s", what, got, s.shown())
	return s
}

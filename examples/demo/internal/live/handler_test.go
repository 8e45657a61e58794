package live

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestBadRequests: what a page cannot ask for gets an error that says what is allowed.
func TestBadRequests(t *testing.T) {
	p := openPage(t, "", Settings{Limit: 10, Window: 5})
	in := "/live/sessions/" + p.ID
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"POST", "/live/sessions", `{"limit":61,"window":5}`, 400, "from 1 to 60"},
		{"POST", "/live/sessions", `{"limit":10,"window":31}`, 400, "from 1 to 30"},
		{"POST", "/live/sessions", `{"limit":10,"window":5,"more":1}`, 400, "unknown field"},
		{"POST", "/live/sessions", strings.Repeat(" ", 2000) + `{}`, 400, "too large"},
		{"POST", "/live/sessions", ``, 400, "EOF"},
		{"GET", in, ``, 400, "after"},
		{"GET", "/live/sessions/none?after=0", ``, 404, "no such session"},
		{"POST", "/live/sessions/none/requests?client=1", ``, 404, "no such session"},
		{"POST", in + "/requests?client=33", ``, 400, "client is from 1 to 32"},
		{"POST", in + "/requests", ``, 400, "client is from 1 to 32"},
		{"POST", in + "/policies/none", ``, 404, "the policies are"},
		{"PUT", "/live/store", `{"gone":true}`, 400, "unknown field"},
		{"DELETE", "/live/store", ``, 405, "Not Allowed"},
		{"GET", "/live/page/nothing.js", ``, 404, "not found"},
	} {
		w := p.send(c.method, c.target, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s %.50s: %d %s, want %d, %q", c.method, c.target, c.body, w.Code, w.Body, c.status, c.want)
		}
	}
	if s := p.state(0); s.Seq != 0 {
		t.Errorf("%d of these requests were judged", s.Seq)
	}
}

// TestOtherSites: pages of other sites can send nothing, and the page loads nothing from elsewhere.
func TestOtherSites(t *testing.T) {
	p := openPage(t, "", Settings{Limit: 10, Window: 5})
	for _, target := range []string{
		"POST /live/sessions", "PUT /live/store", "POST /live/sessions/" + p.ID + "/requests?client=1",
	} {
		method, path, _ := strings.Cut(target, " ")
		if w := p.send(method, path, `{}`, "Sec-Fetch-Site", "cross-site"); w.Code != 403 {
			t.Errorf("%s from another site: %d", target, w.Code)
		}
	}
	w := p.send("GET", "/", "")
	policy := w.Header().Get("Content-Security-Policy")
	strict := strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") && !strings.Contains(policy, "unsafe")
	if w.Code != 200 || !strict {
		t.Errorf("%d, Content-Security-Policy %q", w.Code, policy)
	}
	loads := strings.ReplaceAll(w.Body.String(), `<a href="https://`, "")
	if strings.Contains(loads, "://") || strings.Contains(loads, " style=") {
		t.Error("the page loads from elsewhere, or has styles that its own policy forbids")
	}
}

// TestBounds: the demo takes no more than it says, of requests and of sessions.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPage(t, "", Settings{Limit: 10, Window: 5})
		for range requestsASecond {
			if w := p.request(1); w.Code == 503 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		w := p.request(1)
		if w.Code != 503 || !strings.Contains(w.Body.String(), "150/1s") || w.Header().Get("X-RateLimit-Limit") != "" {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		if got := p.state(0).Seq; got != requestsASecond {
			t.Errorf("%d requests were judged, want %d", got, requestsASecond)
		}
		first := p.ID
		for range maxSessions {
			time.Sleep(time.Second)
			p.open(Settings{Limit: 1, Window: 1})
		}
		if w := p.send("GET", "/live/sessions/"+first+"?after=0", ""); w.Code != 404 {
			t.Errorf("the oldest of %d sessions: %d", maxSessions+1, w.Code)
		}
		p.state(0)
		for range sessionsPerMinute {
			w = p.send("POST", "/live/sessions", `{"limit":1,"window":1}`)
		}
		if w.Code != 503 {
			t.Errorf("session %d within a minute: %d", sessionsPerMinute+1, w.Code)
		}
	})
}

package bench

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// goClient is a generator that sends 200 requests by Go's client, one after the other.
func goClient(url string, _ int, _ time.Duration) (volley, error) {
	start := time.Now()
	v := volley{P50: 100, P99: 200}
	for i := range 200 {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return v, err
		}
		r.Header.Set(clientField, webClient(i%50))
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return v, err
		}
		if err := res.Body.Close(); err != nil {
			return v, err
		}
		if v.Requests++; res.StatusCode >= 400 {
			v.Status++
		}
	}
	v.Micros = time.Since(start).Microseconds()
	return v, nil
}

// TestHTTP runs each server with its limiter, and has each request counted.
func TestHTTP(t *testing.T) {
	var text strings.Builder
	c := HTTPConfig{Config{Rounds: 1, Slice: time.Second}, []int{64}}
	if err := c.race(&text, single(t), httpRequests, goClient); err != nil {
		t.Fatal(err)
	}
	for _, s := range websites() {
		if got := strings.Count(text.String(), "| "+s.name+" "); got != 1 {
			t.Errorf("%s has %d rows, want 1 in\n%s", s.name, got, text.String())
		}
	}
}

// TestHTTPRefusal: a refused request is an error.
func TestHTTPRefusal(t *testing.T) {
	c := HTTPConfig{Config{Rounds: 1, Slice: time.Second}, []int{1}}
	err := c.race(io.Discard, single(t), 3, goClient)
	const want = "sash in memory, connections: 1: of 200 requests 100 were refused"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("three requests are allowed, more come: %v, want %q", err, want)
	}
}

// TestHTTPLimits: each server with a limiter limits each client by itself.
func TestHTTPLimits(t *testing.T) {
	env := single(t)
	for _, w := range websites()[1:] {
		s, err := openSite(w, 3, env)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, true, true, false} {
			if _, err := s.visit(7); (err == nil) != want ||
				err != nil && !strings.Contains(err.Error(), "the response is 429") {
				t.Errorf("%s: request %d: %v", s.name, i+1, err)
			}
		}
		if _, err := s.visit(8); err != nil {
			t.Errorf("%s: another client: %v", s.name, err)
		}
		s.close()
		if _, err := s.visit(8); err == nil {
			t.Errorf("%s: its process has not ended", s.name)
		}
	}
}

// TestHTTPVisit: a response without the expected status, body or field is an error.
func TestHTTPVisit(t *testing.T) {
	for _, c := range []struct {
		status          int
		body, remaining string
		used            int64
		want            string
	}{
		{200, greeting, "7", 3, ""},
		{201, greeting, "7", 0, "201 Created"},
		{200, "else", "7", 0, "else"},
		{200, greeting, "", 0, `Remaining is ""`},
		{200, greeting, "10", 0, `Remaining is "10"`},
		{200, greeting, "-1", 0, `Remaining is "-1"`},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Remaining", c.remaining)
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		s := &site{website: website{field: "Remaining"}, url: server.URL, limit: 10, client: server.Client()}
		used, err := s.visit(1)
		if used != c.used || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %d, %v", c, used, err)
		}
		server.Close()
	}
}

// TestHTTPChecks: numbers that do not agree are an error.
func TestHTTPChecks(t *testing.T) {
	memory, counter := website{counts: exactly}, website{counts: exactly, command: "incrby"}
	leased, gcra := website{counts: ahead, command: "rpush"}, website{command: "set"}
	for _, c := range []struct {
		name                       string
		site                       website
		counted, scripts, commands int64 // of 100 requests on 4 connections
		want                       string
	}{
		{"memory", memory, 100, 0, 0, ""},
		{"memory, and all that wrk left", memory, 104, 0, 0, ""},
		{"memory counts too few", memory, 99, 0, 0, "99 were counted"},
		{"memory counts too many", memory, 105, 0, 0, "105 were counted"},
		{"memory asks Redis", memory, 100, 1, 0, "1 scripts in Redis"},
		{"Redis", counter, 100, 100, 100, ""},
		{"Redis, several requests in a script", counter, 102, 11, 102, ""},
		{"Redis is not asked", counter, 100, 0, 0, "Redis ran 0 times incrby, want 100 to 104"},
		{"Redis is asked too often", counter, 100, 105, 105, "Redis ran 105 times incrby"},
		{"Redis counts too few", counter, 99, 100, 100, "99 were counted"},
		{"leases", leased, 300, 3, 3, ""},
		{"leases that are not counted", leased, 99, 3, 3, "99 were counted"},
		{"leases without Redis", leased, 300, 0, 0, "Redis ran 0 times rpush, want 1 to 104"},
		{"what remains grows", gcra, 17, 100, 100, ""},
	} {
		err := c.site.check(100, 4, c.counted, c.scripts, c.commands)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestWrkResult reads what wrk.lua writes, and finds each kind of failure in it.
func TestWrkResult(t *testing.T) {
	const begin, end = "Running 1s test\nresult {\"Requests\":90000,\"Micros\":2000000", ",\"P50\":480,\"P99\":4100}\n"
	v, err := parseWrk(begin + end)
	if err != nil || v.check() != nil || v.perSecond() != 45000 || v.P50 != 480 || v.P99 != 4100 {
		t.Errorf("%+v, %v, %v", v, err, v.check())
	}
	for _, failure := range []string{"Status", "Connect", "Read", "Write", "Timeout"} {
		if !strings.Contains(wrkScript, `"`+failure+`":%d`) {
			t.Errorf("wrk.lua does not write %s", failure)
		}
		v, err := parseWrk(begin + `,"` + failure + `":1` + end)
		if err != nil || v.check() == nil {
			t.Errorf("%s: %+v, %v: want an error of the check", failure, v, err)
		}
	}
	if (volley{Micros: 1}).check() == nil {
		t.Error("no request: want an error")
	}
	if _, err := parseWrk("Running 1s test\n"); err == nil {
		t.Error("no result: want an error")
	}
}

// TestHTTPConfig: a configuration that cannot be measured is an error at once.
func TestHTTPConfig(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // where there is no wrk
	good := HTTPConfig{Config{Rounds: 1, Slice: time.Second}, []int{1}}
	if err := good.Check(); !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "make bench-http") {
		t.Errorf("without wrk: %v", err)
	}
	for _, c := range []HTTPConfig{
		{Config{Slice: time.Second}, []int{1}},
		{Config{Rounds: 1, Slice: 1500 * time.Millisecond}, []int{1}},
		{Config{Rounds: 1, Slice: time.Second}, nil},
		{good.Config, []int{0}},
		{good.Config, []int{1001}},
	} {
		if err := c.Check(); err == nil || errors.Is(err, exec.ErrNotFound) {
			t.Errorf("%+v: %v, want an error about its numbers", c, err)
		}
	}
}

// TestHTTPTable: the ratios are those of each round.
func TestHTTPTable(t *testing.T) {
	sites := websites()
	turns := make([][]turn, len(sites))
	rates := map[string][]int64{bareSite: {100, 200, 400}, "sash on Redis": {50, 80, 300}, redisRateSite: {20, 80, 100}}
	for i, s := range sites {
		for round := range 3 {
			requests := int64(10)
			if r := rates[s.name]; r != nil {
				requests = r[round]
			}
			v := volley{Requests: requests, Micros: 1e6, P50: float64(round), P99: 10}
			cpu := cpuTime{time.Duration(requests) * 2 * time.Microsecond, time.Duration(requests) * time.Microsecond}
			v.CPU = cpu.User
			turns[i] = append(turns[i], turn{volley: v, scripts: 0.1, server: cpu, redis: cpu})
		}
	}
	lines := httpLines(64, turns)
	for i, want := range map[int]string{
		0: "64,no limiter,200,100..400,1,1..1,1 us,10 us,2 + 1,3,8,,,",
		3: ",sash on Redis,80,50..300,0.50,0.40..0.75,1 us,10 us,2 + 1,3,8,8,2.50,0.10",
	} {
		if got := strings.Join(lines[i], ","); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

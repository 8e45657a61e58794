// Package examples_test runs the example servers of all frameworks side by side, as programs
// of their own, and holds their answers against each other over TCP.
package examples_test

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/examples/internal/apptest"
	"github.com/sashlimit/sash/internal/redistest"
)

var frameworks = apptest.Frameworks // the first is the reference

func TestMain(m *testing.M) { apptest.Main(m) }

// server is a running example and one connection to it.
type server struct {
	*apptest.Process
	conn net.Conn
	in   *bufio.Reader
}

// start starts an example; the test's cleanup stops it.
func start(t *testing.T, name string, args ...string) *server {
	t.Helper()
	s := &server{Process: apptest.Start(t, name, append([]string{"-trust", "127.0.0.0/8"}, args...)...)}
	t.Cleanup(s.close) // before the process is stopped, which waits for connections in use
	return s
}

func (s *server) close() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// answer is what a client sees, without the date.
type answer struct {
	status string // with the protocol
	header http.Header
	body   string
}

func (a answer) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, a.status)
	for _, name := range slices.Sorted(maps.Keys(a.header)) {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(a.header[name], " + "))
	}
	return b.String() + a.body
}

// send writes the request as it is and reads the answer, on the connection of the
// request before if that is still open.
func (s *server) send(method, request string) (answer, error) {
	if s.conn == nil {
		conn, err := net.Dial("tcp", s.Addr)
		if err != nil {
			return answer{}, err
		}
		s.conn, s.in = conn, bufio.NewReader(conn)
	}
	if err := s.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return answer{}, err
	}
	if _, err := io.WriteString(s.conn, request); err != nil {
		return answer{}, err
	}
	res, err := http.ReadResponse(s.in, &http.Request{Method: method})
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	if res.Close {
		s.close()
	}
	res.Header.Del("Date")
	if res.Close { // ReadResponse takes the field away
		res.Header.Set("Connection", "close")
	}
	if len(res.TransferEncoding) > 0 {
		res.Header["Transfer-Encoding"] = res.TransferEncoding
	}
	return answer{res.Proto + " " + res.Status, res.Header, string(body)}, nil
}

var retries = regexp.MustCompile(`"retry_after":(\d+)|Try again in (\d+) seconds?`)

// normal takes out of the answer what passing time changes, having checked that
// it is true: the seconds until quota comes back are the window's, less at most
// the age of the server; and all places say the same.
func (s *server) normal(a answer, window time.Duration) (answer, error) {
	reset := a.header.Get("X-RateLimit-Reset")
	if reset == "" {
		return a, nil
	}
	seconds, err := strconv.Atoi(reset)
	if err != nil {
		return a, err
	}
	got, age := time.Duration(seconds)*time.Second, time.Since(s.Started)
	if got > window || got < window-age {
		return a, fmt.Errorf("a reset of %v: the window is %v, and the server %v old", got, window, age)
	}
	if retry := a.header.Get("Retry-After"); retry != "" {
		if retry != reset {
			return a, fmt.Errorf("a Retry-After of %s and a reset of %s", retry, reset)
		}
		for _, said := range retries.FindAllStringSubmatch(a.body, -1) {
			if said[1]+said[2] != reset {
				return a, fmt.Errorf("%q with a reset of %s", said[0], reset)
			}
		}
		if !retries.MatchString(a.body) && a.body != "" {
			return a, fmt.Errorf("the body does not tell when to come back: %s", a.body)
		}
		a.body = strings.ReplaceAll(a.body, reset+`,"`, `N,"`)
		a.body = strings.ReplaceAll(a.body, "Try again in "+reset, "Try again in N")
		a.header.Set("Retry-After", "N")
		if a.header.Get("Content-Length") != "" { // the number has its digits there
			a.header.Set("Content-Length", "N")
		}
	}
	a.header.Set("X-Ratelimit-Reset", "N")
	return a, nil
}

// all sends a request to all servers at once and returns the answer that they
// agree on.
func all(servers []*server, window time.Duration, method, request string) (answer, error) {
	answers := make([]answer, len(servers))
	errs := make([]error, len(servers))
	var wait sync.WaitGroup
	for i, s := range servers {
		wait.Go(func() {
			answers[i], errs[i] = s.send(method, request)
			if errs[i] == nil {
				answers[i], errs[i] = s.normal(answers[i], window)
			}
		})
	}
	wait.Wait()
	title, _, _ := strings.Cut(request, "\r\n")
	for i, s := range servers {
		if errs[i] != nil {
			return answer{}, fmt.Errorf("%s, %.100s: %w", s.Name, title, errs[i])
		}
	}
	for i, s := range servers {
		if got, want := answers[i].String(), answers[0].String(); got != want {
			return answer{}, fmt.Errorf("%.100s\n%s answers\n%s\nand %s\n%s", title, s.Name, got, servers[0].Name, want)
		}
	}
	return answers[0], nil
}

// exchange is one line of the table.
type exchange struct {
	request string // method and target, or all of the first line
	header  string // lines
	body    string
	times   int // 0: once

	status int           // of the last
	limit  string        // what it says about the limit: "100, 97 left"; empty: nothing
	window time.Duration // 0: a minute
}

const (
	key1, key2, unknown = "X-API-Key: demo-key-1\r\n", "X-API-Key: demo-key-2\r\n", "X-API-Key: invented\r\n"
	alice, bob          = "X-Forwarded-For: 203.0.113.1\r\n", "X-Forwarded-For: 198.51.100.9, 203.0.113.2\r\n"
	guesser             = "X-Forwarded-For: 203.0.113.3\r\n"
	bearer1             = "Authorization: Bearer demo-key-1\r\n"
	quarter             = 15 * time.Minute
)

var table = []exchange{
	// Every route, and HEAD where GET is.
	{request: "GET /api/data", status: 200, limit: "100, 99 left"},
	{request: "HEAD /api/data", status: 200, limit: "100, 98 left"},
	{request: "GET /api/data?page=2&x=%2f", status: 200, limit: "100, 97 left"},
	{request: "GET /api/search", status: 200, limit: "30, 29 left"},
	{request: "HEAD /api/search", status: 200, limit: "30, 28 left"},
	{request: "GET /api/status", status: 200, limit: "1000, 999 left"},
	{request: "HEAD /api/status", status: 200, limit: "1000, 998 left"},
	{request: "POST /api/upload", body: `{"file":"a"}`, status: 200, limit: "5, 4 left"},
	{request: "POST /api/upload", status: 200, limit: "5, 3 left"},
	{request: "POST /login", body: "user=a&password=b", status: 200, limit: "5, 4 left", window: quarter},
	{request: "GET /health", status: 200},
	{request: "HEAD /health", status: 200},
	{request: "GET /ready", status: 200},
	{request: "HEAD /ready", status: 200},

	// Bodies: large, chunked, announced and never sent.
	{request: "POST /api/upload", header: alice, body: strings.Repeat("x", 200_000), status: 200, limit: "5, 4 left"},
	{
		request: "POST /api/upload", header: alice + "Transfer-Encoding: chunked\r\n",
		body:   "5\r\nhello\r\n0\r\n\r\n",
		status: 200, limit: "5, 3 left",
	},
	{
		request: "POST /api/upload", header: alice + "Expect: 100-continue\r\nContent-Length: 10\r\n",
		status: 200, limit: "5, 2 left",
	},
	{request: "GET /api/data", header: alice, body: "a GET with a body", status: 200, limit: "100, 99 left"},

	// No route, or none of that method.
	{request: "GET /", status: 404},
	{request: "HEAD /", status: 404},
	{request: "OPTIONS /", status: 404},
	{request: "BREW /", status: 404},
	{request: "GET /nowhere", status: 404},
	{request: "GET /api", status: 404},
	{request: "GET /api/", status: 404},
	{request: "GET /api/data/", status: 404},
	{request: "GET /api/data/x", status: 404},
	{request: "GET /API/data", status: 404},
	{request: "POST /api/data", body: "x", status: 405},
	{request: "DELETE /api/search", status: 405},
	{request: "PUT /api/status", status: 405},
	{request: "PATCH /health", status: 405},
	{request: "TRACE /api/data", status: 405},
	{request: "BREW /ready", status: 405},
	{request: "get /api/data", status: 405},
	{request: "GET /api/upload", status: 405},
	{request: "HEAD /api/upload", status: 405},
	{request: "GET /login", status: 405},
	{request: "HEAD /login", status: 405},
	{request: "OPTIONS /api/data", status: 204},
	{request: "OPTIONS /api/upload", status: 204},
	{
		request: "OPTIONS /login",
		header:  "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n",
		status:  204,
	},
	{request: "OPTIONS /health", status: 204},
	{request: "OPTIONS * HTTP/1.1", status: 200},
	{request: "CONNECT example.com:443 HTTP/1.1", status: 404},

	// Paths that routers disagree about.
	{request: "GET //health", status: 404},
	{request: "GET //api/data", status: 404},
	{request: "GET /api/../health", status: 404},
	{request: "GET /./health", status: 404},
	{request: "GET /health/.", status: 404},
	{request: "GET /api/..%2fhealth", status: 404},
	{request: "GET /%68ealth", status: 404},
	{request: "GET /%61pi/data", status: 404},
	{request: "GET /api%2fdata", status: 404},
	{request: "GET /health%00", status: 404},
	{request: "GET /health%20", status: 404},
	{request: "GET /health;a=b", status: 404},
	{request: "GET /api/data%0d%0aX-Injected:%20yes", status: 404},
	{request: "GET /caf%C3%A9", status: 404},
	{request: "GET /%ff%fe", status: 404},
	{request: "GET /:id", status: 404},
	{request: "GET /*", status: 404},
	{request: "GET /{id}", status: 404},
	{request: "GET /" + strings.Repeat("a/", 5000) + "a", status: 404},
	{request: "GET /%zz", status: 400},
	{request: "GET http://elsewhere.example/health HTTP/1.1", status: 200},
	{request: "GET http://elsewhere.example/api/data HTTP/1.1", status: 200, limit: "100, 96 left"},
	{request: "GET /api/data HTTP/1.1", header: "X-HTTP-Method-Override: DELETE\r\n", status: 200, limit: "100, 95 left"},

	// Who is who.
	{request: "GET /api/data", header: key1, status: 200, limit: "100, 99 left"},
	{request: "GET /api/data", header: key2, status: 200, limit: "100, 99 left"},
	{request: "GET /api/data", header: key1, status: 200, limit: "100, 98 left"},
	{request: "GET /api/data", header: bearer1, status: 200, limit: "100, 97 left"},
	{request: "GET /api/data", header: key1 + alice, status: 200, limit: "100, 96 left"},
	{request: "GET /api/data", header: key1 + bearer1, status: 200, limit: "100, 95 left"},
	{request: "GET /api/data", header: unknown + bearer1, status: 200, limit: "100, 94 left"},
	{request: "GET /api/data", header: unknown, status: 200, limit: "100, 94 left"},
	{request: "GET /api/data", header: "X-API-Key: \r\n", status: 200, limit: "100, 93 left"},
	{request: "GET /api/data", header: bob, status: 200, limit: "100, 99 left"},
	{request: "GET /api/data", header: "X-Forwarded-For: nonsense\r\n", status: 200, limit: "100, 92 left"},
	{request: "POST /login", header: bob, status: 200, limit: "5, 4 left", window: quarter},

	// Several keys at once, and keys of no good.
	{request: "GET /api/data", header: key1 + key2, status: 400},
	{request: "GET /api/data", header: key1 + key1, status: 400},
	{request: "HEAD /api/data", header: key2 + bearer1, status: 400},
	{request: "GET /api/data", header: bearer1 + bearer1, status: 400},
	{request: "POST /api/upload", header: "X-API-Key: demo-key-1, demo-key-2\r\n", status: 400},
	{request: "GET /api/data", header: "X-API-Key: " + strings.Repeat("k", 10_000) + "\r\n", status: 400},

	// Guessing keys: an address has ten guesses a minute, and then no key counts.
	{request: "GET /api/data", header: unknown + guesser, times: 10, status: 200, limit: "100, 90 left"},
	{request: "GET /api/data", header: unknown + guesser, status: 429, limit: "10, 0 left"},
	{request: "GET /api/data", header: key1 + guesser, status: 429, limit: "10, 0 left"},
	{request: "POST /api/upload", header: bearer1 + guesser, status: 429, limit: "10, 0 left"},
	{request: "GET /api/data", header: guesser, status: 200, limit: "100, 89 left"},
	{request: "GET /api/data", header: key1, status: 200, limit: "100, 93 left"},

	// Older clients.
	{request: "GET /api/data HTTP/1.0", status: 200, limit: "100, 91 left"},
	{request: "GET /api/data HTTP/1.0", header: "Connection: keep-alive\r\n", status: 200, limit: "100, 90 left"},
	{request: "GET /nowhere HTTP/1.0", status: 404},
	{request: "GET /api/data", header: "Connection: close\r\n", status: 200, limit: "100, 89 left"},

	// Limits that run out, and what is said then.
	{request: "POST /login", times: 4, status: 200, limit: "5, 0 left", window: quarter},
	{request: "POST /login", body: "user=a&password=c", status: 429, limit: "5, 0 left", window: quarter},
	{request: "POST /login", header: key1, status: 429, limit: "5, 0 left", window: quarter},
	{request: "POST /login", header: "Accept: text/html,*/*;q=0.8\r\n", status: 429, limit: "5, 0 left", window: quarter},
	{request: "POST /login", header: "Accept: text/plain\r\n", status: 429, limit: "5, 0 left", window: quarter},
	{request: "POST /login HTTP/1.0", status: 429, limit: "5, 0 left", window: quarter},
	{request: "POST /login", header: bob, status: 200, limit: "5, 3 left", window: quarter},
	{request: "GET /login", status: 405},
	{request: "POST /api/upload", times: 4, body: "x", status: 429, limit: "5, 0 left"},
	{request: "POST /api/upload", header: unknown, body: "x", status: 429, limit: "5, 0 left"},
	{request: "POST /api/upload", header: key1, times: 5, status: 200, limit: "5, 0 left"},
	{request: "POST /api/upload", header: key1, status: 429, limit: "5, 0 left"},
	{request: "POST /api/upload", header: key2, status: 200, limit: "5, 4 left"},
	{request: "GET /api/search", times: 28, status: 200, limit: "30, 0 left"},
	{request: "HEAD /api/search", times: 2, status: 429, limit: "30, 0 left"},
	{request: "GET /api/data", times: 89, status: 200, limit: "100, 0 left"},
	{request: "GET /api/data", status: 429, limit: "100, 0 left"},
	{request: "GET /api/status", times: 998, status: 200, limit: "1000, 0 left"},
	{request: "GET /api/status", status: 429, limit: "1000, 0 left"},
	{request: "GET /health", times: 3, status: 200},
	{request: "GET /ready", status: 200},
	{request: "GET /nowhere", status: 404},
}

func (e exchange) text() (method, request string) {
	method, _, _ = strings.Cut(e.request, " ")
	line, header := e.request, e.header
	if !strings.Contains(line, " HTTP/1.") {
		line += " HTTP/1.1"
	}
	if !strings.HasSuffix(line, " HTTP/1.0") {
		header = "Host: test\r\n" + header
	}
	if e.body != "" && !strings.Contains(header, "chunked") {
		header += fmt.Sprintf("Content-Length: %d\r\n", len(e.body))
	}
	return method, line + "\r\n" + header + "\r\n" + e.body
}

// replay sends the whole table to all servers.
func replay(servers []*server) error {
	began := time.Now()
	var problems []error
	for _, e := range table {
		method, request := e.text()
		var got answer
		var err error
		for range max(1, e.times) {
			if got, err = all(servers, cmp.Or(e.window, time.Minute), method, request); err != nil {
				return errors.Join(append(problems, err)...)
			}
		}
		limit := ""
		if n := got.header.Get("X-RateLimit-Limit"); n != "" {
			limit = n + ", " + got.header.Get("X-RateLimit-Remaining") + " left"
		}
		if !strings.Contains(got.status, fmt.Sprintf(" %d ", e.status)) || limit != e.limit {
			problems = append(problems, fmt.Errorf("%.100s: got %s, limit %q; want %d, %q\n%v",
				e.request, got.status, limit, e.status, e.limit, got))
		}
		if age := time.Since(began); age > 50*time.Second {
			return fmt.Errorf("the table takes %v and more: too long for windows of a minute", age)
		}
	}
	return errors.Join(problems...)
}

func TestParityInMemory(t *testing.T) {
	var servers []*server
	for _, name := range frameworks {
		servers = append(servers, start(t, name))
	}
	if err := replay(servers); err != nil {
		t.Error(err)
	}
}

// onRedis runs check against the servers, each on the database of redis that db
// tells. A server gives Redis 100 ms and then serves uncounted, as it should: on
// a machine too busy for that, which the servers' logs tell, the check is
// repeated on an empty Redis.
func onRedis(t *testing.T, redis *redistest.Server, db func(i int) int, check func([]*server) error) []*server {
	t.Helper()
	for attempt := 1; ; attempt++ {
		if err := redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		var servers []*server
		for i, name := range frameworks {
			servers = append(servers, start(t, name, "-redis", fmt.Sprintf("redis://%s/%d", redis.Addr(), db(i))))
		}
		err := check(servers)
		if err == nil {
			return servers
		}
		uncounted := 0
		for _, s := range servers {
			s.close()
			s.Stop(t)
			uncounted += s.Uncounted()
		}
		if uncounted == 0 || attempt == 5 {
			t.Fatal(err)
		}
		t.Logf("attempt %d: Redis was too slow for %d decisions", attempt, uncounted)
	}
}

// Each server has a database of its own on one Redis; what they count is the same
// there too. Then Redis dies.
func TestParityOnRedis(t *testing.T) {
	redis := redistest.Start(t)
	servers := onRedis(t, redis, func(i int) int { return i }, replay)

	client := redis.Client(t)
	var want []string
	for db, name := range frameworks {
		c := client.Conn()
		if err := c.Select(t.Context(), db).Err(); err != nil {
			t.Fatal(err)
		}
		keys, err := c.Keys(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		slices.Sort(keys)
		if db == 0 {
			want = keys
		}
		if len(keys) == 0 || !slices.Equal(keys, want) {
			t.Errorf("%s counts under %q, %s under %q", name, keys, frameworks[0], want)
		}
	}

	redis.Kill()
	for _, request := range []string{
		"GET /api/data", "HEAD /api/search", "POST /api/upload", "GET /api/status", "GET /health",
	} {
		method, text := exchange{request: request, header: alice + key2}.text()
		got, err := all(servers, time.Minute, method, text)
		if err != nil || !strings.Contains(got.status, " 200 ") || got.header.Get("X-RateLimit-Limit") != "" {
			t.Errorf("%s without Redis: %v\n%v", request, err, got)
		}
	}
	// How long the client is told to wait may differ: each server has learnt
	// for itself when to ask Redis again.
	for _, s := range servers {
		method, text := exchange{request: "POST /login", header: bob}.text()
		got, err := s.send(method, text)
		if err != nil || !strings.Contains(got.status, " 503 ") || got.header.Get("Retry-After") == "" ||
			!strings.Contains(got.body, "rate_limiter_unavailable") {
			t.Errorf("%s, POST /login without Redis: %v\n%v", s.Name, err, got)
		}
	}
}

// Replicas in different frameworks are one limit.
func TestReplicas(t *testing.T) {
	onRedis(t, redistest.Start(t), func(int) int { return 0 }, func(servers []*server) error {
		method, request := exchange{request: "GET /api/search"}.text()
		admitted, errs := make([]int, len(servers)), make([]error, len(servers))
		var wait sync.WaitGroup
		for i, s := range servers {
			wait.Go(func() {
				for range 20 {
					got, err := s.send(method, request)
					errs[i] = errors.Join(errs[i], err)
					if strings.Contains(got.status, " 200 ") {
						admitted[i]++
					}
				}
			})
		}
		wait.Wait()
		sum := 0
		for _, n := range admitted {
			sum += n
		}
		if sum != 30 {
			errs = append(errs, fmt.Errorf("%v were admitted, %d together, of %d at a limit of 30",
				admitted, sum, 20*len(servers)))
		}
		return errors.Join(errs...)
	})
}

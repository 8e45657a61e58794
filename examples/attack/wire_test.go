package attack_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shot is one line of a table of requests.
type shot struct {
	send   string // method and target, or all of the first line
	header string // lines
	body   string
	times  int    // 0: once
	want   string // statuses in the form of counted, such as "200" or "5x200 3x429"
}

// The clients of the attacks, as the trusted proxy 127.0.0.1 names them.
const (
	alice = "X-Forwarded-For: 203.0.113.1\r\n"
	bob   = "X-Forwarded-For: 203.0.113.2\r\n"
	carol = "X-Forwarded-For: 203.0.113.3\r\n"
)

// text returns the bytes of the request.
func (s shot) text() string {
	line, header := s.send, s.header
	if !strings.Contains(line, " HTTP/") {
		line += " HTTP/1.1"
	}
	if !strings.HasSuffix(line, " HTTP/1.0") && !strings.Contains("\n"+header, "\nHost:") {
		header = "Host: test\r\n" + header
	}
	if s.body != "" && !strings.Contains(header, "Transfer-Encoding") && !strings.Contains(header, "Content-Length") {
		header += fmt.Sprintf("Content-Length: %d\r\n", len(s.body))
	}
	return line + "\r\n" + header + "\r\n" + s.body
}

// each returns a shot for each of the first lines, all of which want the same.
func each(want string, lines ...string) []shot {
	shots := make([]shot, len(lines))
	for i, line := range lines {
		shots[i] = shot{send: line, want: want}
	}
	return shots
}

// with returns the shots with more header lines.
func with(header string, shots ...shot) []shot {
	shots = slices.Clone(shots)
	for i := range shots {
		shots[i].header += header
	}
	return shots
}

// counted writes statuses with how often each stands in a row: "5x200 3x429", or "200" for a single one.
func counted(statuses []int) string {
	var b strings.Builder
	for len(statuses) > 0 {
		n := 1
		for n < len(statuses) && statuses[n] == statuses[0] {
			n++
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if n > 1 {
			fmt.Fprintf(&b, "%dx", n)
		}
		b.WriteString(strconv.Itoa(statuses[0]))
		statuses = statuses[n:]
	}
	return b.String()
}

// response is what a client sees.
type response struct {
	status int // 0: no answer, and err says why
	header http.Header
	body   string
	close  bool
	err    error
}

func (r response) number(field string) int {
	n, err := strconv.Atoi(r.header.Get(field))
	if err != nil {
		return -1
	}
	return n
}

// conn is a connection to a server. A server that answers nothing for patience is a server that hangs.
type conn struct {
	net.Conn
	in *bufio.Reader
	x  *target
}

const patience = 20 * time.Second

func (x *target) dial() (*conn, error) {
	c, err := net.Dial("tcp", x.Addr)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReader(c), x}, c.SetDeadline(time.Now().Add(patience))
}

// ask sends one request on a connection of its own and returns the answer.
func (x *target) ask(request string) response {
	c, err := x.dial()
	if err != nil {
		return response{err: err}
	}
	defer c.Close()
	// A server may have answered and closed before it has read all.
	_, _ = io.WriteString(c, request)
	return c.answer(request)
}

// answer reads the answer to a request and checks what holds for every answer.
func (c *conn) answer(request string) response {
	began := time.Now()
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		return response{err: err}
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return response{err: err}
	}
	r := response{res.StatusCode, res.Header, string(body), res.Close, nil}
	c.x.inspect(request, r)
	c.x.noteTime(time.Since(began))
	return r
}

// unlimited are the requests that the examples serve without a limit, and OPTIONS *, which net/http answers itself.
var unlimited = regexp.MustCompile(`^((GET|HEAD) (http://[a-z.]+)?/(health|ready)(\?[^ ]*)?|OPTIONS \*) HTTP/1\.[01]$`)

// marker stands in what clients send, and must stand in no answer.
const marker = "zqxmarker"

// inspect checks what holds for every answer to every attack.
func (x *target) inspect(request string, r response) {
	line, _, _ := strings.Cut(request, "\r\n")
	all := r.body
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		all += "\n" + name + ": " + strings.Join(r.header[name], ", ")
	}
	for _, secret := range []string{
		marker, "demo-key", "apikey:", "ip:", "203.0.113.", "198.51.100.", "127.0.0.1", "sash", "keyfuncs", "redis",
		"goroutine",
	} {
		x.check(!strings.Contains(strings.ToLower(all), secret), "%.80q: the answer holds %q:\n%.500s", line,
			secret, all)
	}
	x.check(r.header.Get("X-Injected") == "", "%.80q: the client has written a field of the answer", line)
	limited := r.header.Get("X-RateLimit-Limit") != ""
	switch r.status {
	case http.StatusOK:
		x.check(limited || unlimited.MatchString(line) || x.isOut(), "%.80q: served without a limit:\n%s", line, all)
	case http.StatusTooManyRequests:
		x.check(!limited || r.number("X-RateLimit-Remaining") == 0, "%.80q: 429 with something left:\n%s", line, all)
		x.check(r.number("Retry-After") >= 1, "%.80q: 429 without Retry-After:\n%s", line, all)
		x.check(r.header.Get("Cache-Control") == "no-store", "%.80q: 429 may be stored:\n%s", line, all)
	case http.StatusServiceUnavailable:
		left := r.body == "" && r.header.Get("Content-Length") == "0" // for a client that has left
		x.check(left || r.number("Retry-After") >= 1, "%.80q: 503 without Retry-After:\n%s", line, all)
		x.check(r.header.Get("Cache-Control") == "no-store", "%.80q: 503 may be stored:\n%s", line, all)
	}
}

// expectOutage says that from now on decisions need not be counted.
func (x *target) expectOutage() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.outage = true
}

func (x *target) noteTime(took time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.slowest = max(x.slowest, took)
}

func (x *target) isOut() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.outage
}

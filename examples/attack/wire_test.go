package attack_test

import (
	"bufio"
	"fmt"
	"io"
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
	want   string // statuses in the form of counted, such as "200" or "5x200 3x429"; or notServed, or routed
}

// What a shot wants where the routers differ: any status but 200, or any at all.
const notServed, routed = "not 200", "any status"

// The clients of the attacks, as the trusted proxy 127.0.0.1 names them.
const (
	alice = "X-Forwarded-For: 203.0.113.1\r\n"
	bob   = "X-Forwarded-For: 203.0.113.2\r\n"
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

// fire sends the requests of a line one after the other and checks their statuses.
func (x *target) fire(s shot) {
	var statuses []int
	for range max(1, s.times) {
		status, _ := x.ask(s.text()) // 0 for no answer
		statuses = append(statuses, status)
	}
	got := counted(statuses)
	switch s.want {
	case notServed, routed:
		served := slices.Contains(statuses, 200)
		x.check(!slices.Contains(statuses, 0) && (s.want == routed || !served), "%.80q %.80q: got %s, want %s",
			s.send, s.header, got, s.want)
	default:
		x.saw("%.80q: %s", s.send, got)
		x.check(got == s.want, "%.80q %.80q: got %s, want %s", s.send, s.header, got, s.want)
	}
}

// conn is a connection to a server. A server that answers nothing for patience is a server that hangs.
type conn struct {
	net.Conn
	in *bufio.Reader
	x  *target
}

func (x *target) dial() (*conn, error) {
	c, err := net.Dial("tcp", x.server.Listener.Addr().String())
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReader(c), x}, c.SetDeadline(time.Now().Add(patience))
}

// ask sends one request on a connection of its own and returns the status of the answer.
func (x *target) ask(request string) (status int, err error) {
	c, err := x.dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	// A server may have answered and closed before it has read all.
	_, _ = io.WriteString(c, request)
	return c.answer(request)
}

// answer reads the answer to a request and checks what holds for every answer.
func (c *conn) answer(request string) (status int, err error) {
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		return 0, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(request, "\r\n")
	c.x.inspect(line, response.StatusCode, response.Header, string(body))
	return response.StatusCode, nil
}

// unlimited are the requests that are served without a limit, and OPTIONS *, which net/http answers itself.
var unlimited = regexp.MustCompile(`^((GET|HEAD) (http://[a-z.]+)?/(health|ready)(\?[^ ]*)?|OPTIONS \*) HTTP/1\.[01]$`)

// marker stands in what clients send, and must stand in no answer.
const marker = "zqxmarker"

// inspect checks what holds for every answer to every attack. line is the first line of the request.
func (x *target) inspect(line string, status int, header http.Header, body string) {
	var all strings.Builder
	_ = header.Write(&all)
	all.WriteString(body)
	for _, secret := range []string{
		marker, "ip:", "203.0.113.", "198.51.100.", "127.0.0.1", "sash", "keyfuncs", "redis", "goroutine",
	} {
		x.check(!strings.Contains(strings.ToLower(all.String()), secret), "%.80q: the answer holds %q:\n%.500s", line,
			secret, &all)
	}
	x.check(header.Get("X-Injected") == "", "%.80q: the client has written a field of the answer", line)
	limited := header.Get("X-RateLimit-Limit") != ""
	switch status {
	case http.StatusOK, http.StatusNotFound:
		x.check(limited || unlimited.MatchString(line) || x.outage, "%.80q: answered without a limit:\n%s", line, &all)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		wait, err := strconv.Atoi(header.Get("Retry-After"))
		left := header.Get("X-RateLimit-Remaining")
		x.check(!limited || left == "0", "%.80q: refused with something left:\n%s", line, &all)
		x.check(err == nil && wait >= 1, "%.80q: refused without Retry-After:\n%s", line, &all)
		x.check(header.Get("Cache-Control") == "no-store", "%.80q: a refusal may be stored:\n%s", line, &all)
	}
}

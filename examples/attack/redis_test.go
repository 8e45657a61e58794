package attack_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sashlimit/sash/internal/redistest"
)

// lie is a Redis that is none. It answers the commands of a handshake as a server does, unless it lies always, and
// every other command with tell, which reports whether the connection goes on.
type lie struct {
	name   string
	always bool
	tell   func(w io.Writer) bool
}

// says returns a lie of one text.
func says(text string) func(io.Writer) bool {
	return func(w io.Writer) bool { _, err := io.WriteString(w, text); return err == nil }
}

// hangsUp returns a lie of one text, with which the connection ends.
func hangsUp(text string) func(io.Writer) bool {
	return func(w io.Writer) bool { _, _ = io.WriteString(w, text); return false }
}

// goesOn returns a lie of a text that begins like start and never ends.
func goesOn(start, more string) func(io.Writer) bool {
	return func(w io.Writer) bool {
		_, err := io.WriteString(w, start)
		for block := strings.Repeat(more, 1+32_000/len(more)); err == nil; {
			_, err = io.WriteString(w, block)
		}
		return false
	}
}

func silent(io.Writer) bool { return true }

var lying = []lie{
	{"never answers", false, silent},
	{"never answers at all", true, silent},
	{"hangs up", false, hangsUp("")},
	{"hangs up at once", true, hangsUp("")},
	{"hangs up within a reply", false, hangsUp("$100\r\nabc")},
	{"hangs up within a number", false, hangsUp("*3\r\n:12")},
	{"stops within a reply", false, says("$100\r\nabc")},
	{"another protocol", false, says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")},
	{"another protocol at once", true, says("220 mail.example ESMTP\r\n")},
	{"random bytes", false, says("\x00\xff\x16\x03\x01\x80\r\n\r\n\x00")},
	{"an error", false, says("-ERR " + marker + "\r\n")},
	{"an error at once", true, says("-ERR " + marker + "\r\n")},
	{"an endless error", false, goesOn("-ERR ", "x")},
	{"asks to be asked elsewhere", false, says("-MOVED 1 127.0.0.1:1\r\n")},
	{"knows no script", false, says("-NOSCRIPT No matching script\r\n")},
	{"asks to try again", false, says("-TRYAGAIN later\r\n")},
	{"yes", false, says("+OK\r\n")},
	{"nothing", false, says("$-1\r\n")},
	{"null of RESP3", false, says("_\r\n")},
	{"a number", false, says(":1\r\n")},
	{"a huge number", false, says(":99999999999999999999999999\r\n")},
	{"infinity", false, says(",inf\r\n")},
	{"no text", false, says("$0\r\n\r\n")},
	{"a text", false, says("$9\r\n" + marker + "\r\n")},
	{"no array", false, says("*-1\r\n")},
	{"an empty array", false, says("*0\r\n")},
	{"arrays of everything", false, says("*5\r\n*1\r\n:1\r\n$1\r\nx\r\n_\r\n#t\r\n%1\r\n+a\r\n:-1\r\n")},
	{"numbers out of range", false, says("*4\r\n:-1\r\n:-9223372036854775808\r\n:9223372036854775807\r\n:0\r\n")},
	{"a text of 9 EB", false, says("$9223372036854775800\r\nx")},
	{"a text of more than there is", false, says("$9223372036854775807\r\nx")},
	{"a negative text", false, says("$-7\r\nx")},
	{"an array of more than there is", false, says("*9223372036854775807\r\n:1\r\n")},
	{"a negative array", false, says("*-7\r\n:1\r\n")},
	{"arrays in arrays without end", false, goesOn("", "*1\r\n")},
	{"attributes without end", false, goesOn("", "|1\r\n+a\r\n+b\r\n")},
	{"messages without end", false, goesOn("", ">3\r\n+message\r\n+a\r\n+b\r\n")},
	{"numbers without end", false, goesOn("", ":1\r\n")},
	{"arrays without end at once", true, goesOn("", "*1\r\n")},
	{"a text of 9 EB at once", true, says("$9223372036854775800\r\nx")},
}

// lies are the attacks by a Redis that lies, which all must come to the same: open routes are served, the login is not.
func lies() []attack {
	var attacks []attack
	for i := range lying {
		attacks = append(attacks, attack{name: "Redis: " + lying[i].name, hostile: lying[i].start, run: lied})
	}
	return attacks
}

// start starts the liar and returns its URL.
func (l *lie) start(t *testing.T, _ *target) string {
	return serveRedis(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			command, _, err := redistest.ReadCommand(in)
			if err != nil {
				return
			}
			goes := false
			if answer := handshake[strings.ToUpper(command[0])]; answer != "" && !l.always {
				goes = says(answer)(c)
			} else {
				goes = l.tell(c)
			}
			if !goes {
				return
			}
		}
	})
}

// handshake are the answers of an honest server to a client of RESP2.
var handshake = map[string]string{
	"HELLO": "-ERR unknown command 'HELLO'\r\n", "CLIENT": "-ERR unknown subcommand\r\n", "SELECT": "+OK\r\n",
	"PING": "+PONG\r\n",
}

// serveRedis serves connections on a free port until the test ends, and returns the URL.
func serveRedis(t *testing.T, serve func(net.Conn)) string {
	return "redis://" + redistest.Serve(t, serve) + "/0"
}

// together sends the requests at once, several times, and returns the statuses of each.
func (x *target) together(rounds int, requests ...shot) [][]int {
	statuses := make([][]int, len(requests))
	for range rounds {
		var wait sync.WaitGroup
		for i, s := range requests {
			wait.Go(func() {
				r := x.ask(s.text())
				x.check(r.err == nil, "%.60q: no answer: %v", s.send, r.err)
				statuses[i] = append(statuses[i], r.status)
			})
		}
		wait.Wait()
	}
	return statuses
}

// lied asks every route for a while. None of the answers comes from Redis.
func lied(x *target) {
	x.expectOutage()
	requests := []shot{
		{send: "GET /api/data", header: alice}, {send: "HEAD /api/search", header: first},
		{send: "POST /api/upload", header: bob}, {send: "GET /api/status", header: carol},
		{send: "POST /login", header: alice}, {send: "POST /login", header: bob}, {send: "GET /health"},
	}
	for i, statuses := range x.together(3, requests...) {
		want := http.StatusOK
		if strings.HasSuffix(requests[i].send, "/login") {
			want = http.StatusServiceUnavailable
		}
		x.saw("%s: %v", requests[i].send, statuses)
		for _, status := range statuses {
			x.check(status == want, "%s: got %d, want %d", requests[i].send, status, want)
		}
	}
	x.checkMemory()
}

// mostMemory is far more than a server of these attacks needs, and far less than what a lie announces.
const mostMemory = 512 << 20

var peak = regexp.MustCompile(`VmHWM:\s*([0-9]+) kB`)

// checkMemory checks the most memory that the server has had, where the system tells: on Linux.
func (x *target) checkMemory() {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", x.Pid()))
	if err != nil {
		return
	}
	if found := peak.FindSubmatch(status); found != nil {
		kilobytes, _ := strconv.ParseInt(string(found[1]), 10, 64)
		x.check(kilobytes<<10 < mostMemory, "the server took more than %d MiB of memory", mostMemory>>20)
	}
}

// exchanged is a proxy to a real Redis. To a script it gives the reply to the script before, another client's.
func exchanged(t *testing.T, x *target) string {
	var mu sync.Mutex
	var before []byte
	return serveRedis(t, func(c net.Conn) {
		server, err := net.Dial("tcp", x.redis.Addr())
		if err != nil {
			return
		}
		defer server.Close()
		var script atomic.Bool
		go func() {
			defer c.Close()
			buffer := make([]byte, 64<<10)
			for {
				n, err := server.Read(buffer)
				reply := bytes.Clone(buffer[:n])
				if script.Load() && n > 0 {
					mu.Lock()
					if len(before) > 0 {
						reply, before = before, reply
					} else {
						before = reply
					}
					mu.Unlock()
				}
				if _, wrong := c.Write(reply); wrong != nil || err != nil {
					return
				}
			}
		}()
		buffer := make([]byte, 64<<10)
		for {
			n, err := c.Read(buffer)
			if bytes.Contains(bytes.ToLower(buffer[:n]), []byte("evalsha")) {
				script.Store(true)
			}
			if _, wrong := server.Write(buffer[:n]); wrong != nil || err != nil {
				return
			}
		}
	})
}

// confused asks for many clients at once. What is counted cannot be told; an answer there must be.
func confused(x *target) {
	x.expectOutage()
	var requests []shot
	for i := range 10 {
		from := fmt.Sprintf("%s198.51.100.%d\r\n", xff, i)
		requests = append(requests, shot{send: "GET /api/data", header: from},
			shot{send: "POST /login", header: from}, shot{send: "POST /api/upload", header: from})
	}
	x.answered(x.together(5, requests...), requests)
	x.checkMemory()
}

// answered checks that each request got one of the answers that it can get from an honest or a silent store.
func (x *target) answered(statuses [][]int, requests []shot) {
	for i, s := range requests {
		allowed := []int{200, 429}
		if strings.HasSuffix(s.send, "/login") {
			allowed = append(allowed, 503)
		}
		for _, status := range statuses[i] {
			x.check(slices.Contains(allowed, status), "%s: got %d, want one of %v", s.send, status, allowed)
		}
	}
}

// private starts a Redis for this server alone.
func private(t *testing.T, x *target) string {
	x.redis = redistest.Start(t)
	return x.redis.URL()
}

// dying kills and restarts Redis while all routes are asked without a pause.
func dying(x *target) {
	x.expectOutage()
	answered, over := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	for i := range 4 {
		from := fmt.Sprintf("%s198.51.100.%d\r\n", xff, i)
		requests := []shot{{send: "GET /api/data", header: from}, {send: "POST /login", header: from},
			{send: "GET /health"}}
		wait.Go(func() {
			for {
				x.answered(x.together(1, requests...), requests)
				select {
				case answered <- struct{}{}:
				case <-over:
					return
				}
			}
		})
	}
	for range 3 {
		for _, change := range []func(){x.redis.Kill, x.redis.Restart} {
			change()
			for range 100 { // rounds of requests
				<-answered
			}
		}
	}
	close(over)
	wait.Wait()
	x.checkMemory()
}

var outages = []attack{
	{name: "Redis: another client's reply", hostile: exchanged, run: confused},
	{name: "Redis: killed and restarted", hostile: private, run: dying},
}

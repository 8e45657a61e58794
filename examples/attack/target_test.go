package attack_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sashlimit/sash/examples/internal/apptest"
	"github.com/sashlimit/sash/internal/redistest"
)

// target is one server under one attack.
type target struct {
	*apptest.Process
	attack
	redis *redistest.Server // of the servers that count in Redis

	mu       sync.Mutex
	outage   bool // the store cannot be asked: what it would have counted is served uncounted
	checks   int
	problems []string
	seen     []string      // what the other frameworks must have seen too
	slowest  time.Duration // of all answers
}

// suffer is the whole attack, and the question whether the server is still well.
func (x *target) suffer() {
	for _, s := range x.shots {
		x.fire(s)
	}
	if x.run != nil {
		x.run(x)
	}
	x.fire(shot{send: "GET /health", want: "200"})
}

// check counts one promise. If ok is false, the text says what was broken.
func (x *target) check(ok bool, format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.checks++
	if !ok {
		x.problems = append(x.problems, fmt.Sprintf(format, args...))
	}
}

// saw notes what the servers of the other frameworks must have answered too.
func (x *target) saw(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen = append(x.seen, fmt.Sprintf(format, args...))
}

// fire sends the requests of a line one after the other and checks their statuses.
func (x *target) fire(s shot) {
	var got []int
	for range max(1, s.times) {
		got = append(got, x.ask(s.text()).status)
	}
	x.saw("%.80q: %s", s.send, counted(got))
	x.check(counted(got) == s.want, "%.80q %.80q: got %s, want %s", s.send, s.header, counted(got), s.want)
}

// checkLog holds the log of a server that has ended against what it must be: one JSON object on each line, of the
// program's own messages, and no panic. Lines of the Redis client are not the program's.
func (x *target) checkLog() {
	for _, line := range x.Log() {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") ||
			strings.Contains(line, "http: panic") {
			// What the client saw after that says nothing more.
			x.problems = []string{fmt.Sprintf("the server has crashed: %.300q", line)}
			return
		}
	}
	for _, line := range x.Log() {
		if strings.HasPrefix(line, "redis: ") {
			continue
		}
		var entry struct {
			Level, Msg   string
			Method, Path *string
		}
		err := json.Unmarshal([]byte(line), &entry)
		x.check(err == nil && strings.HasSuffix(line, "}\n"), "a line of the log is not one JSON object: %.300q",
			line)
		switch entry.Msg {
		case "request":
			x.check(entry.Method != nil && entry.Path != nil, "a request without method or path: %.300q", line)
			x.check(entry.Method == nil || *entry.Method != "FORGED", "a forged line: %.300q", line)
		case "listening", "shutting down", "sash: the store answers again":
		case "Redis is not fit for counting": // of the start, as where a busy machine takes long
			x.check(entry.Level == "WARN", "a forged line: %.300q", line)
		default: // complaints of the server and of the limiter
			own := strings.HasPrefix(entry.Msg, "http: ") || strings.HasPrefix(entry.Msg, "sash: ")
			x.check(entry.Level == "WARN" && own, "a forged line: %.300q", line)
		}
	}
}

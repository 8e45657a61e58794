package attack_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sashlimit/sash/internal/redistest"
)

// lie is a Redis that is none. It answers the commands of a handshake as a server does, unless it lies always, and
// every other command with its reply.
type lie struct {
	name, reply string
	more        string // follows the reply without end
	ends        bool   // the connection, with the reply
	always      bool
}

var lies = []lie{
	{name: "never answers"},
	{name: "never answers at all", always: true},
	{name: "hangs up", ends: true},
	{name: "hangs up within a reply", reply: "*3\r\n:12", ends: true},
	{name: "stops within a reply", reply: "$100\r\nabc"},
	{name: "another protocol", reply: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
	{name: "another protocol at once", reply: "220 mail.example ESMTP\r\n", always: true},
	{name: "random bytes", reply: "\x00\xff\x16\x03\x01\x80\r\n\r\n\x00"},
	{name: "an error", reply: "-ERR " + marker + "\r\n"},
	{name: "an endless error", reply: "-ERR ", more: "x"},
	{name: "asks to be asked elsewhere", reply: "-MOVED 1 127.0.0.1:1\r\n"},
	{name: "knows no script", reply: "-NOSCRIPT No matching script\r\n"},
	{name: "nothing", reply: "$-1\r\n"},
	{name: "arrays of everything", reply: "*5\r\n*1\r\n:1\r\n$1\r\nx\r\n_\r\n#t\r\n%1\r\n+a\r\n:-1\r\n"},
	{name: "numbers out of range", reply: "*3\r\n:-1\r\n:-9223372036854775808\r\n:9223372036854775807\r\n"},
	{name: "a text of 9 EB", reply: "$9223372036854775800\r\nx"},
	{name: "a text of 9 EB at once", reply: "$9223372036854775800\r\nx", always: true},
	{name: "a negative text", reply: "$-7\r\nx"},
	{name: "an array of more than there is", reply: "*9223372036854775807\r\n:1\r\n"},
	{name: "arrays in arrays without end", more: "*1\r\n"},
	{name: "messages without end", more: ">3\r\n+message\r\n+a\r\n+b\r\n"},
	{name: "arrays without end at once", more: "*1\r\n", always: true},
}

// handshake are the answers of an honest server to a client of RESP2.
var handshake = map[string]string{
	"HELLO": "-ERR unknown command 'HELLO'\r\n", "CLIENT": "-ERR unknown subcommand\r\n", "SELECT": "+OK\r\n",
	"PING": "+PONG\r\n",
}

// serve starts the liar and returns its URL.
func (l *lie) serve(t *testing.T) string {
	return "redis://" + redistest.Serve(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			command, _, err := redistest.ReadCommand(in)
			if err != nil {
				return
			}
			honest := handshake[strings.ToUpper(command[0])]
			if honest != "" && !l.always {
				_, _ = io.WriteString(c, honest)
				continue
			}
			_, err = io.WriteString(c, l.reply)
			for block := strings.Repeat(l.more, 10_000); err == nil && block != ""; {
				_, err = io.WriteString(c, block)
			}
			if err != nil || l.ends {
				return
			}
		}
	}) + "/0"
}

// lied asks every route for a while, all at once. None of the answers comes from Redis.
func lied(x *target) {
	requests := []string{
		"GET /api/data", "HEAD /api/search", "POST /api/upload", "GET /api/status", "POST /login", "POST /login",
	}
	for range 3 {
		var wait sync.WaitGroup
		for _, send := range requests {
			want := http.StatusOK
			if send == "POST /login" {
				want = http.StatusServiceUnavailable
			}
			wait.Go(func() {
				status, err := x.ask(shot{send: send, header: alice}.text())
				x.check(status == want, "%s: got %d (%v), want %d", send, status, err, want)
			})
		}
		wait.Wait()
	}
}

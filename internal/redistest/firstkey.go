package redistest

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// FirstKey is a proxy that spreads keys over several servers, and sends each command to the server of its first key, as
// Envoy and twemproxy do. It is safe for concurrent use.
type FirstKey struct {
	Mode  atomic.Int32 // what becomes of scripts with several hash tags, from MixedPass to MixedSilent
	Mixed atomic.Int64 // scripts with several hash tags that have come

	addr    string
	servers []*Server
	parts   []int // of all keys: the number of the server that owns each
}

const (
	MixedPass    int32 = iota // the server of the first key runs them
	MixedRefused              // they are answered by an error
	MixedCut                  // their connection is closed
	MixedSilent               // they are not answered; the connection stays open
)

// StartFirstKey starts a proxy of servers. A server owns as large a part of the keys as its weight is of all weights.
// The commands that it knows are those that a limiter sends, and PING; it speaks RESP2.
func StartFirstKey(tb testing.TB, servers []*Server, weights ...int) *FirstKey {
	tb.Helper()
	p := &FirstKey{servers: servers}
	for i, weight := range weights {
		p.parts = append(p.parts, slices.Repeat([]int{i}, weight)...)
	}
	p.addr = Serve(tb, p.serve)
	return p
}

// Addr returns the address of the proxy.
func (p *FirstKey) Addr() string { return p.addr }

// owner returns the index of the server that owns a key.
func (p *FirstKey) owner(key string) int {
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, key)
	return p.parts[int(sum.Sum32()%1_000_003)%len(p.parts)]
}

// serve answers the commands of a connection, one after another.
func (p *FirstKey) serve(client net.Conn) {
	servers := make([]net.Conn, len(p.servers))
	replies := make([]*bufio.Reader, len(p.servers))
	for i, s := range p.servers {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			return
		}
		defer c.Close()
		servers[i], replies[i] = c, bufio.NewReader(c)
	}
	for in := bufio.NewReader(client); ; {
		words, raw, err := ReadCommand(in)
		if err != nil {
			return
		}
		reply, to := "", 0
		switch name := strings.ToLower(words[0]); {
		case name == "ping":
			reply = "+PONG\r\n"
		case (name == "eval" || name == "evalsha") && len(words) > 3:
			to = p.owner(words[3])
			if mixed(words) {
				p.Mixed.Add(1)
				switch p.Mode.Load() {
				case MixedRefused:
					reply = "-ERR the keys of a script must be of one server\r\n"
				case MixedCut:
					return
				case MixedSilent:
					_, _ = in.WriteTo(io.Discard)
					return
				}
			}
		case (name == "del" || name == "get") && len(words) > 1:
			to = p.owner(words[1])
		default:
			reply = fmt.Sprintf("-ERR unknown command '%.20s'\r\n", words[0])
		}
		if reply == "" {
			_, _ = servers[to].Write(raw)
			if reply, err = readReply(replies[to]); err != nil {
				return
			}
		}
		if _, err := io.WriteString(client, reply); err != nil {
			return
		}
	}
}

// mixed reports whether the keys of a script have several hash tags.
func mixed(words []string) bool {
	n, _ := strconv.Atoi(words[2])
	tag := func(key string) string { return key[strings.IndexByte(key, '{')+1 : strings.IndexByte(key, '}')+1] }
	for _, key := range words[3:min(3+n, len(words))] {
		if tag(key) != tag(words[3]) {
			return true
		}
	}
	return false
}

// readReply reads a reply that is a line or a text.
func readReply(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil || line[0] != '$' || line[1] == '-' {
		return line, err
	}
	size, err := strconv.ParseUint(strings.TrimSpace(line[1:]), 10, 31)
	if err != nil {
		return "", err
	}
	text := make([]byte, size+uint64(len("\r\n")))
	_, err = io.ReadFull(in, text)
	return line + string(text), err
}

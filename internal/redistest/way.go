package redistest

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Way is a proxy to a server. It can add a delay, like that of another region, lose messages in flight with their
// connections, and lose only the replies to scripts. It is safe for concurrent use.
type Way struct {
	Mode    atomic.Int32 // treatment of replies to scripts that may charge: Passes, CutsInstead or StaysSilent
	Scripts atomic.Int64 // number of scripts sent to the server
	Keys    atomic.Int64 // number of keys of scripts that may charge: one for each request and limit
	Lost    atomic.Int64 // number of lost replies to scripts that may charge

	target, addr string
	delay        func() time.Duration

	mu    sync.Mutex // guards conns
	conns map[net.Conn]bool
}

const (
	Passes      int32 = iota
	CutsInstead       // the script runs, then the connection is closed instead of an answer
	StaysSilent       // the script runs without an answer, then or later; the connection stays open
)

// The directions of a way.
const (
	outbound = iota
	inbound
)

// StartWay starts a way to the server at target. delay returns the delay of each message; it must be safe for
// concurrent use, and may be nil. Messages of a connection stay in order.
func StartWay(tb testing.TB, target string, delay func() time.Duration) *Way {
	tb.Helper()
	w := &Way{target: target, delay: delay, conns: map[net.Conn]bool{}}
	w.addr = Serve(tb, w.serve)
	tb.Cleanup(w.Lose)
	return w
}

// Addr returns the address of the way's near end.
func (w *Way) Addr() string { return w.addr }

// Dial returns a Dialer that connects to servers through their ways, and directly to others.
func Dial(ways ...*Way) func(context.Context, string, string) (net.Conn, error) {
	through := map[string]string{}
	for _, w := range ways {
		through[w.target] = w.Addr()
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if way, ok := through[addr]; ok {
			addr = way
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

// Lose closes the connections. Messages in flight are lost.
func (w *Way) Lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Close()
	}
	clear(w.conns)
}

// serve carries the messages of a connection.
func (w *Way) serve(client net.Conn) {
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	w.mu.Lock()
	w.conns[client], w.conns[server] = true, true
	w.mu.Unlock()
	c := &conn{way: w, client: client, server: server}
	go c.carry(outbound)
	c.carry(inbound)
}

// conn is a connection of a client, and its other half to the server.
type conn struct {
	way            *Way
	client, server net.Conn
	owed           atomic.Bool // the reply to a script
	silent         bool        // belongs to the carrier of replies
	sealed         bool        // by TLS; belongs to the carrier of requests
}

// handshake is the first byte of a connection by TLS.
const handshake = 22

// message is the data of one read, with the time of its arrival.
type message struct {
	bytes []byte
	at    time.Time
}

// carry carries messages in a direction until the connection ends.
func (c *conn) carry(direction int) {
	to, read := c.server, c.requests()
	if direction == inbound {
		to, read = c.client, c.reply
	}
	under := make(chan message, 1024)
	go func() {
		defer close(under)
		for {
			text, err := read()
			if err != nil {
				return
			}
			m := message{bytes: text}
			if c.way.delay != nil {
				m.at = time.Now().Add(c.way.delay())
			}
			under <- m
		}
	}()
	for m := range under {
		time.Sleep(time.Until(m.at))
		_, _ = to.Write(m.bytes)
	}
	if direction == outbound {
		c.server.(*net.TCPConn).CloseWrite() // the server finishes what it has
		return
	}
	c.close(c.client, c.server)
}

// requests returns a function that reads a client's command and counts the scripts. It does not parse TLS.
func (c *conn) requests() func() ([]byte, error) {
	from := bufio.NewReader(c.client)
	return func() ([]byte, error) {
		if first, _ := from.Peek(1); c.sealed || len(first) > 0 && first[0] == handshake {
			c.sealed = true
			sealed := make([]byte, 16<<10)
			n, err := from.Read(sealed)
			return sealed[:n], err
		}
		words, raw, err := ReadCommand(from)
		if err == nil && len(words) > 2 && strings.HasPrefix(strings.ToLower(words[0]), "eval") {
			keys, _ := strconv.ParseInt(words[2], 10, 64)
			c.way.Scripts.Add(1)
			if words[len(words)-1] != "0" { // a cost, which is nothing where a connection is tried
				c.owed.Store(true)
				c.way.Keys.Add(keys)
			}
		}
		return raw, err
	}
}

// reply reads the server's output, and loses it in some modes.
func (c *conn) reply() ([]byte, error) {
	read := make([]byte, 16<<10)
	n, err := c.server.Read(read)
	if err != nil {
		return nil, err
	}
	if mode := c.way.Mode.Load(); c.owed.Swap(false) && mode != Passes {
		c.way.Lost.Add(1)
		c.silent = true
		if mode == CutsInstead {
			c.close(c.client)
		}
	}
	if c.silent {
		n = 0
	}
	return read[:n], nil
}

// close closes halves of the connection.
func (c *conn) close(halves ...net.Conn) {
	c.way.mu.Lock()
	defer c.way.mu.Unlock()
	for _, half := range halves {
		half.Close()
		delete(c.way.conns, half)
	}
}

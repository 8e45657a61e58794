package redistest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Way is a way to a server that takes time, as one from another region does. Each direction can be held, so that
// nothing arrives until it is let through, and what is under way can be lost with its connections. Its methods are
// safe for concurrent use.
type Way struct {
	target   string
	delay    func() time.Duration
	listener net.Listener
	bytes    atomic.Int64

	mu     sync.Mutex // guards the fields below
	change *sync.Cond // of them
	held   [2]bool    // by direction
	conns  map[net.Conn]bool
	closed bool
}

// The directions of a way.
const (
	there = iota
	back
)

// StartWay starts a way to the server at target. Each message takes as long as delay returns, which is called by
// several goroutines at once. Messages of a connection stay in order.
func StartWay(tb testing.TB, target string, delay func() time.Duration) *Way {
	tb.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		tb.Fatal(err)
	}
	w := &Way{target: target, delay: delay, listener: listener, conns: map[net.Conn]bool{}}
	w.change = sync.NewCond(&w.mu)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go w.serve(client)
		}
	}()
	tb.Cleanup(func() {
		listener.Close()
		w.mu.Lock()
		w.closed = true
		w.mu.Unlock()
		w.Lose()
	})
	return w
}

// Addr returns the address of the way's near end.
func (w *Way) Addr() string { return w.listener.Addr().String() }

// Bytes returns how many bytes have arrived in both directions.
func (w *Way) Bytes() int64 { return w.bytes.Load() }

// Hold holds what is sent to the server, and what it sends back, or lets it through: what was held arrives then.
func (w *Way) Hold(requests, replies bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = [2]bool{there: requests, back: replies}
	w.change.Broadcast()
}

// Lose closes the connections. What is under way on them is lost.
func (w *Way) Lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Close()
	}
	clear(w.conns)
	w.change.Broadcast()
}

// serve carries the messages of a connection.
func (w *Way) serve(client net.Conn) {
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		client.Close()
		return
	}
	w.mu.Lock()
	w.conns[client], w.conns[server] = true, true
	closed := w.closed
	w.mu.Unlock()
	if closed {
		w.Lose()
	}
	go w.carry(server, client, there)
	w.carry(client, server, back)
}

// message is what was read at once, and when it arrives.
type message struct {
	bytes []byte
	at    time.Time
}

// carry carries messages in a direction until the connection ends.
func (w *Way) carry(to, from net.Conn, direction int) {
	under := make(chan message, 1024)
	go func() {
		defer close(under)
		for {
			read := make([]byte, 16<<10)
			n, err := from.Read(read)
			if err != nil {
				return
			}
			under <- message{read[:n], time.Now().Add(w.delay())}
		}
	}()
	for m := range under {
		time.Sleep(time.Until(m.at))
		w.wait(to, direction)
		n, _ := to.Write(m.bytes)
		w.bytes.Add(int64(n))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	from.Close()
	to.Close()
	delete(w.conns, from)
	delete(w.conns, to)
}

// wait waits while a direction is held, unless the connection is lost.
func (w *Way) wait(conn net.Conn, direction int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.held[direction] && w.conns[conn] {
		w.change.Wait()
	}
}

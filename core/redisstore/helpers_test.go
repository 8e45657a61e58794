package redisstore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// patient is a timeout for decisions that must be answered, however busy the
// machine is.
const patient = 20 * time.Second

func limiter(t testing.TB, c core.Config) *core.Limiter {
	t.Helper()
	l, err := core.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mentions reports whether err is an error whose text has each of texts.
func mentions(err error, texts ...string) bool {
	if err == nil {
		return false
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			return false
		}
	}
	return true
}

// noLeaks fails the test if goroutines that it started are still there at its
// end, after all cleanups. Call it first. Goroutines inherit the label of the
// one that starts them, so tests that run in parallel are not in the way.
func noLeaks(t *testing.T) {
	pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("test", t.Name())))
	t.Cleanup(func() {
		redistest.WaitFor(t, "the goroutines of the test to end", func() error {
			if n, stacks := goroutines(t); n > 1 {
				return fmt.Errorf("%d goroutines are left:\n%s", n-1, stacks)
			}
			return nil
		})
	})
}

// goroutines is how many goroutines carry the test's label, its own among them,
// and those of the servers not.
func goroutines(t *testing.T) (n int, stacks string) {
	var all strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		t.Fatal(err)
	}
	ofServer := regexp.MustCompile(`/redistest\.(start|\(\*Server\)\.run|init)`)
	for record := range strings.SplitSeq(all.String(), "\n\n") {
		if !strings.Contains(record, `"test":`+strconv.Quote(t.Name())) || ofServer.MatchString(record) {
			continue
		}
		for line := range strings.Lines(record) {
			var some int
			if _, err := fmt.Sscanf(line, "%d @", &some); err == nil {
				n += some
			}
		}
		stacks += record + "\n\n"
	}
	return n, stacks
}

// admin is a client that shares nothing with the one under test.
func admin(t testing.TB, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true, PoolSize: 2})
	t.Cleanup(func() { c.Close() })
	return c
}

// connections is how many clients are connected, without the one that asks.
func connections(rdb *redis.Client) (int, error) {
	list, err := rdb.ClientList(ctx).Result()
	return strings.Count(list, "id=") - strings.Count(list, "cmd=client|list"), err
}

// proxy stands between a client and one Redis server, and can lose what the
// server says.
type proxy struct {
	target   string
	listener net.Listener
	mode     atomic.Int32
	scripts  atomic.Int64 // delivered to the server
	keys     atomic.Int64 // of those scripts: one for each request and limit
	lost     atomic.Int64 // times that replies to scripts did not reach the client

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once closed
}

const (
	passes   = int32(iota)
	cuts     // runs the script, then closes the connection instead of answering
	silences // runs the script and loses the reply; the connection stays open
)

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: target, listener: listener, conns: map[net.Conn]bool{}}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for c := range p.conns {
			c.Close()
		}
		p.conns = nil
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// dial is a Dialer that goes through the proxies of those servers that have one.
func dial(proxies ...*proxy) func(context.Context, string, string) (net.Conn, error) {
	through := map[string]string{}
	for _, p := range proxies {
		through[p.target] = p.addr()
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p, ok := through[addr]; ok {
			addr = p
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

func (p *proxy) serve(client net.Conn) {
	if !p.keep(client) {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		p.drop(client)
		return
	}
	if !p.keep(server) {
		return
	}
	var owed atomic.Bool // the reply to a script
	go func() {
		defer p.drop(client, server)
		answer := make([]byte, 64<<10)
		silent := false
		for {
			n, err := server.Read(answer)
			if err != nil {
				return
			}
			mode := p.mode.Load()
			if owed.Swap(false) && (mode == cuts || mode == silences) {
				p.lost.Add(1)
				silent = true
				if mode == cuts {
					p.drop(client) // the server may finish what it has
				}
			}
			if silent {
				continue
			}
			if _, err := client.Write(answer[:n]); err != nil {
				return
			}
		}
	}()
	defer server.(*net.TCPConn).CloseWrite()
	requests := bufio.NewReader(client)
	for {
		raw, name, keys, err := readCommand(requests)
		if err != nil {
			return
		}
		if name == "evalsha" || name == "eval" {
			owed.Store(true)
			p.scripts.Add(1)
			p.keys.Add(int64(keys))
		}
		if _, err := server.Write(raw); err != nil {
			return
		}
	}
}

// readCommand reads an array of bulk strings. Of a script it tells how many keys
// it is given.
func readCommand(r *bufio.Reader) (raw []byte, name string, keys int, err error) {
	number := func(mark byte) (int, error) {
		line, err := r.ReadSlice('\n')
		raw = append(raw, line...)
		if err != nil || len(line) < 4 || line[0] != mark {
			return 0, fmt.Errorf("not RESP: %q, %w", line, err)
		}
		return strconv.Atoi(string(line[1 : len(line)-2]))
	}
	n, err := number('*')
	if err != nil {
		return nil, "", 0, err
	}
	for i := range n {
		size, err := number('$')
		if err != nil {
			return nil, "", 0, err
		}
		from := len(raw)
		raw = append(raw, make([]byte, size+2)...)
		if _, err := io.ReadFull(r, raw[from:]); err != nil {
			return nil, "", 0, err
		}
		switch text := string(raw[from : from+size]); i {
		case 0:
			name = strings.ToLower(text)
		case 2:
			keys, _ = strconv.Atoi(text)
		}
	}
	return raw, name, keys, nil
}

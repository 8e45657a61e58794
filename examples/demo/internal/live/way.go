package live

import (
	"context"
	"net"
	"sync"
)

// way makes the connections to the store that can be taken away. While it is cut there are none.
type way struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	away  bool
	conns map[*wayConn]bool // the open ones
}

// connect is a Dialer of go-redis.
func (w *way) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := w.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		_ = conn.Close()
		return nil, errAway
	}
	c := &wayConn{conn, w}
	w.conns[c] = true
	return c, nil
}

// cut closes all connections and refuses others, or ends that.
func (w *way) cut(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
	for c := range w.conns {
		_ = c.Conn.Close()
	}
}

type wayConn struct {
	net.Conn
	way *way
}

func (c *wayConn) Close() error {
	c.way.mu.Lock()
	defer c.way.mu.Unlock()
	delete(c.way.conns, c)
	return c.Conn.Close()
}

package server

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// mostRead bounds what a connection of Check reads after it has written. go-redis reads attributes of RESP3 in one
// another by recursion: endless ones overflow its stack, which ends the process, after some 20 MB.
const mostRead = 1 << 20

var errEndless = errors.New("sash: the server answers with more than a megabyte")

// Bounded returns a client for the server of rdb that does not read endless replies, and what closes it. It returns rdb
// where that is closed, and where its options do not tell how to reach the server, as with a DialHook.
func Bounded(ctx context.Context, rdb *redis.Client) (client *redis.Client, closes func()) {
	o := *rdb.Options()
	dial := o.Dialer
	ended, cancel := context.WithCancel(ctx)
	cancel() // so that nothing is sent
	conn, err := dial(ctx, o.Network, o.Addr)
	if err == nil {
		_ = conn.Close()
	}
	if err != nil || errors.Is(rdb.Ping(ended).Err(), redis.ErrClosed) {
		return rdb, func() {}
	}
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &boundedConn{Conn: conn}, nil
	}
	o.ContextTimeoutEnabled, o.MinIdleConns = true, 0
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled} // go-redis writes rdb's
	client = redis.NewClient(&o)
	return client, func() { _ = client.Close() }
}

// boundedConn reads at most mostRead bytes after each write.
type boundedConn struct {
	net.Conn
	read atomic.Int64
}

func (c *boundedConn) Read(b []byte) (int, error) {
	if c.read.Load() >= mostRead {
		return 0, errEndless
	}
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

func (c *boundedConn) Write(b []byte) (int, error) {
	c.read.Store(0)
	return c.Conn.Write(b)
}

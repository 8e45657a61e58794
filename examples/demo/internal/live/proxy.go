package live

import (
	"io"
	"net"
	"sync"
	"time"
)

// maxConns is the most connections that a proxy carries at once; it closes others.
const maxConns = 256

// proxy hands connections on to a server, until it is cut: then it closes them, and new ones at once.
type proxy struct {
	listener         net.Listener
	network, address string // of the server

	mu    sync.Mutex
	away  bool
	conns map[net.Conn]bool
}

// newProxy returns a proxy that listens on a free port of 127.0.0.1 until it is closed.
func newProxy(network, address string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, network: network, address: address, conns: map[net.Conn]bool{}}
	go p.accept()
	return p, nil
}

func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // the listener is closed
		}
		if p.hold(conn) {
			go p.carry(conn)
		}
	}
}

// hold notes a connection. It closes the connection, and returns false, while the proxy is cut or full.
func (p *proxy) hold(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away || len(p.conns) >= maxConns {
		_ = conn.Close()
		return false
	}
	p.conns[conn] = true
	return true
}

func (p *proxy) drop(conn net.Conn) {
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// carry copies both ways until either side ends.
func (p *proxy) carry(client net.Conn) {
	defer p.drop(client)
	server, err := net.DialTimeout(p.network, p.address, 5*time.Second)
	if err != nil || !p.hold(server) {
		return
	}
	defer p.drop(server)
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// cut closes all connections and refuses others, or ends that.
func (p *proxy) cut(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
	if !away {
		return
	}
	for conn := range p.conns {
		_ = conn.Close()
	}
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.cut(true)
}

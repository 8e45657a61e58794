package gather

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// pool has connections to a server that sends back what it gets.
type pool struct {
	addr  string
	conns chan net.Conn
}

func newPool(b *testing.B) *pool {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
				conn.Close()
			}()
		}
	}()
	return &pool{addr: l.Addr().String(), conns: make(chan net.Conn, 256)}
}

// roundTrip sends n bytes and waits until they are back.
func (p *pool) roundTrip(n int) error {
	var conn net.Conn
	select {
	case conn = <-p.conns:
	default:
		var err error
		if conn, err = net.Dial("tcp", p.addr); err != nil {
			return err
		}
	}
	var bytes [MaxBatch]byte
	if _, err := conn.Write(bytes[:n]); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, bytes[:n])
	p.conns <- conn
	return err
}

// BenchmarkDo compares calls through a queue with calls to the server itself. The server is one across a loopback
// connection, or a function that takes about 50 µs of its own.
func BenchmarkDo(b *testing.B) {
	spin := func(int) error {
		for start := time.Now(); time.Since(start) < 50*time.Microsecond; {
		}
		return nil
	}
	for _, server := range []string{"loopback", "50us", "none"} {
		for _, callers := range []int{1, 2, 3, 4, 8, 16, 64} {
			for _, way := range []string{"itself", "workers", "inline"} {
				b.Run(fmt.Sprintf("%s/%d/%s", server, callers, way), func(b *testing.B) {
					trip := newPool(b).roundTrip
					switch server {
					case "50us":
						trip = spin
					case "none":
						trip = func(int) error { return nil }
					}
					serve := func(batch []*testCall) bool {
						err := trip(len(batch))
						for _, c := range batch {
							c.Answer(c.Request, err)
						}
						return true
					}
					var do func() error
					switch way {
					case "itself":
						do = func() error { return trip(1) }
					default:
						most := time.Duration(0)
						if way == "inline" {
							most = time.Second
						}
						q := New(byCallers(most, serve))
						do = func() error {
							_, err := q.Do(context.Background(), time.Now().Add(100*time.Millisecond), new(int64(1)))
							return err
						}
					}
					b.ReportAllocs()
					run(b, callers, do)
				})
			}
		}
	}
}

// run has some goroutines do something b.N times in all.
func run(b *testing.B, callers int, do func() error) {
	b.Helper()
	for range 1000 {
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for range b.N/callers + min(1, max(0, b.N%callers-i)) {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

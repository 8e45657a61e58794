package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Serve serves connections on a free port until the test ends, and returns the address. A connection is closed when
// serve returns, and when the test ends.
func Serve(tb testing.TB, serve func(net.Conn)) (addr string) {
	tb.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		tb.Fatal(err)
	}
	var mu sync.Mutex
	open, ended := map[net.Conn]bool{}, false
	tb.Cleanup(func() {
		listener.Close()
		mu.Lock()
		defer mu.Unlock()
		ended = true
		for c := range open {
			c.Close()
		}
	})
	handle := func(c net.Conn) {
		mu.Lock()
		open[c] = true
		goes := !ended
		mu.Unlock()
		if goes {
			serve(c)
		}
		mu.Lock()
		defer mu.Unlock()
		c.Close()
		delete(open, c)
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go handle(c)
		}
	}()
	return listener.Addr().String()
}

// ReadCommand reads a command as clients send it, an array of texts, and returns its words and its bytes.
func ReadCommand(in *bufio.Reader) (words []string, raw []byte, err error) {
	length := func(kind byte) (int, error) {
		line, err := in.ReadString('\n')
		raw = append(raw, line...)
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseUint(strings.TrimSpace(line[1:]), 10, 31)
		if err != nil || line[0] != kind || line[0] == '*' && n == 0 {
			return 0, fmt.Errorf("%q is no %c and how many", line, kind)
		}
		return int(n), nil
	}
	n, err := length('*')
	if err != nil {
		return nil, nil, err
	}
	for range n {
		size, err := length('$')
		if err != nil {
			return nil, nil, err
		}
		word := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, nil, err
		}
		words, raw = append(words, string(word[:size])), append(raw, word...)
	}
	return words, raw, nil
}

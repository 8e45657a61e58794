package redistest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
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
	serving, end := context.WithCancel(ctx)
	tb.Cleanup(func() {
		listener.Close()
		end()
	})
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(serving, func() { c.Close() })
			go func() {
				defer c.Close()
				defer stop()
				serve(c)
			}()
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

package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// The harness speaks the protocol of Redis itself, because it sends the commands of
// a library in pipelines. To learn these commands, it records the bytes that the
// library's client sends.

// encode returns a command in the protocol of Redis (RESP).
func encode(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// encodeAll encodes each command.
func encodeAll(commands [][]string) [][]byte {
	encoded := make([][]byte, len(commands))
	for i, c := range commands {
		encoded[i] = encode(c...)
	}
	return encoded
}

// replyError is an error reply of Redis.
type replyError string

func (e replyError) Error() string { return string(e) }

// decode reads one value: a string, an int64, a []any, nil, or a replyError.
func decode(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("not RESP: %q", line)
	}
	kind, line := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return line, nil
	case '-':
		return replyError(line), nil
	}
	n, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("not RESP: %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		_, err := io.ReadFull(r, b)
		return string(b[:n]), err
	case kind == '*':
		all := make([]any, n)
		for i := range all {
			if all[i], err = decode(r); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("not RESP: type %q", kind)
}

// wire is a connection of the harness to Redis.
type wire struct {
	conn net.Conn
	r    *bufio.Reader
}

// dial connects the harness to the Redis at addr.
func dial(addr string) (*wire, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{conn, bufio.NewReaderSize(conn, 64<<10)}, nil
}

func (w *wire) close() { _ = w.conn.Close() }

// pipeline sends n encoded commands at once and calls check, which may be nil, for
// each reply. It ends with an error at the first error reply, or at the first
// error of check.
func (w *wire) pipeline(commands []byte, n int, check func(any) error) error {
	if _, err := w.conn.Write(commands); err != nil {
		return err
	}
	for range n {
		reply, err := decode(w.r)
		if err != nil {
			return err
		}
		if e, ok := reply.(replyError); ok {
			return e
		}
		if check != nil {
			if err := check(reply); err != nil {
				return err
			}
		}
	}
	return nil
}

// do sends one command and returns its reply.
func (w *wire) do(args ...string) (reply any, err error) {
	err = w.pipeline(encode(args...), 1, func(r any) error { reply = r; return nil })
	return reply, err
}

// isScript reports whether a command runs a script or a function.
func isScript(name string) bool {
	switch strings.ToLower(name) {
	case "eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro":
		return true
	}
	return false
}

// scriptStats returns how many scripts the server has run and for how many
// microseconds.
func (w *wire) scriptStats() (calls, micros int64, err error) { return w.commandStats(isScript) }

// commandStats returns how many of the commands that are meant, by their names in lower
// case, the server has run, in scripts too, and for how many microseconds.
func (w *wire) commandStats(meant func(name string) bool) (calls, micros int64, err error) {
	reply, err := w.do("INFO", "commandstats")
	if err != nil {
		return 0, 0, err
	}
	text, _ := reply.(string)
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "cmdstat_")
		name, numbers, _ := strings.Cut(rest, ":")
		if !ok || !meant(name) {
			continue
		}
		var c, us int64
		if _, err := fmt.Sscanf(numbers, "calls=%d,usec=%d,", &c, &us); err != nil {
			return 0, 0, fmt.Errorf("INFO commandstats: %q: %w", line, err)
		}
		calls, micros = calls+c, micros+us
	}
	return calls, micros, nil
}

// recorder records the commands that clients with its dialer send.
type recorder struct {
	mu   sync.Mutex      // guards sent and the buffers in it
	sent []*bytes.Buffer // one for each connection
}

// recordedConn is a connection with a record of the bytes that were written to it.
type recordedConn struct {
	net.Conn
	recorder *recorder
	sent     *bytes.Buffer
}

// dial is the dialer of a client that is recorded.
func (r *recorder) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := recordedConn{conn, r, new(bytes.Buffer)}
	r.sent = append(r.sent, c.sent)
	return c, nil
}

func (c recordedConn) Write(b []byte) (int, error) {
	c.recorder.mu.Lock()
	c.sent.Write(b)
	c.recorder.mu.Unlock()
	return c.Conn.Write(b)
}

// scripts returns the commands of scripts that were sent since the last call of
// scripts, each as a list of words.
func (r *recorder) scripts() ([][]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all [][]string
	for _, sent := range r.sent {
		reader := bufio.NewReader(bytes.NewReader(sent.Bytes()))
		for {
			value, err := decode(reader)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			words, ok := value.([]any)
			if !ok {
				return nil, fmt.Errorf("a client sent %v, which is no command", value)
			}
			var command []string
			for _, word := range words {
				command = append(command, fmt.Sprint(word))
			}
			if len(command) > 2 && isScript(command[0]) {
				all = append(all, command)
			}
		}
		sent.Reset()
	}
	return all, nil
}

// keysOf returns the keys in the command of a script.
func keysOf(command []string) ([]string, error) {
	n, err := strconv.Atoi(command[2])
	if err != nil || len(command) < 3+n {
		return nil, fmt.Errorf("the command %q does not say how many keys it has", command)
	}
	return command[3 : 3+n], nil
}

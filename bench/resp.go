package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The harness speaks to Redis by itself where a client would stand in the way:
// it hears what a library's client sends, and sends the same again in pipelines.

// encode writes a command as it goes over the wire.
func encode(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// replyError is an error that Redis replied.
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

// wire is a connection of the harness's own.
type wire struct {
	conn net.Conn
	r    *bufio.Reader
}

func dial(addr string) (*wire, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{conn, bufio.NewReaderSize(conn, 64<<10)}, nil
}

func (w *wire) close() { _ = w.conn.Close() }

// pipeline sends n encoded commands at once and hands their replies to see. An
// error among them ends it.
func (w *wire) pipeline(commands []byte, n int, see func(any) error) error {
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
		if see != nil {
			if err := see(reply); err != nil {
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

// isScript says whether a command runs a script or a function.
func isScript(name string) bool {
	return slices.Contains([]string{"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"}, strings.ToLower(name))
}

// scriptStats returns how many scripts the server has run and for how many
// microseconds.
func (w *wire) scriptStats() (calls, micros int64, err error) {
	reply, err := w.do("INFO", "commandstats")
	if err != nil {
		return 0, 0, err
	}
	text, _ := reply.(string)
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "cmdstat_")
		name, numbers, _ := strings.Cut(rest, ":")
		if !ok || !isScript(name) {
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

// recorder hears the commands that clients with its dialer send.
type recorder struct {
	mu   sync.Mutex
	sent []*bytes.Buffer // one for each connection
}

type recordedConn struct {
	net.Conn
	recorder *recorder
	sent     *bytes.Buffer
}

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

// scripts returns the scripts that were run since it was last called, each as
// the words of its command.
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

// keysOf returns the keys of a script's command.
func keysOf(command []string) ([]string, error) {
	n, err := strconv.Atoi(command[2])
	if err != nil || len(command) < 3+n {
		return nil, fmt.Errorf("the command %q does not say how many keys it has", command)
	}
	return command[3 : 3+n], nil
}

//go:build !race && !short

package script_test

import (
	"bufio"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	mini "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
)

// lua54 is a process of Lua 5.4 that runs the scripts of a miniredis. Valkey, Dragonfly and Garnet may run that Lua.
type lua54 struct {
	t     *testing.T
	redis *redis.Client // for the commands of scripts
	mu    sync.Mutex    // guards the fields below
	known map[string]bool
	in    io.Writer
	out   *bufio.Reader

	fails sync.Map // a script's command and key, such as "GET a": an error for it
}

// startLua54 returns a client of a miniredis whose scripts Lua 5.4 runs.
func startLua54(t *testing.T) (*redis.Client, *lua54) {
	t.Helper()
	path, err := exec.LookPath("lua5.4")
	if err != nil {
		t.Fatalf("%v: install Debian's package lua5.4, or run make test, which does", err)
	}
	m := miniredis.RunT(t)
	rdb := slowClient(t, m)
	process := exec.Command(path, "testdata/lua54.lua")
	in, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := process.Wait(); err != nil {
			t.Error(err)
		}
	})
	l := &lua54{t: t, redis: rdb, known: map[string]bool{}, in: in, out: bufio.NewReader(out)}
	m.Server().SetPreHook(l.serve)
	return rdb, l
}

// serve answers a command, and reports whether it is the call of a script.
func (l *lua54) serve(c *mini.Peer, name string, args ...string) bool {
	if name != "EVAL" && name != "EVALSHA" { // but the command of a script
		text, fails := any(nil), false
		if len(args) > 0 {
			text, fails = l.fails.Load(name + " " + args[0])
		}
		if fails {
			c.WriteError(text.(string))
		}
		return fails
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	sha, source := args[0], any(nil)
	if name == "EVAL" {
		sum := sha1.Sum([]byte(args[0]))
		sha = hex.EncodeToString(sum[:])
		if !l.known[sha] {
			l.known[sha], source = true, args[0]
		}
	}
	if !l.known[sha] {
		return false
	}
	keys, err := strconv.Atoi(args[1])
	if err != nil {
		l.t.Error(err)
	}
	fmt.Fprintf(l.in, "{sha = %s, source = %s, keys = %s, args = %s}\n",
		inLua(sha), inLua(source), inLua(args[2:2+keys]), inLua(args[2+keys:]))
	for {
		kind, texts := l.read()
		switch kind {
		case "call":
			reply, err := l.redis.Do(ctx, texts...).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				reply = err
			}
			fmt.Fprintln(l.in, inLua(reply))
		case "reply":
			c.WriteBulk(texts[0].(string))
			return true
		default:
			c.WriteError(fmt.Sprint("ERR in Lua 5.4: ", texts))
			return true
		}
	}
}

// read reads a line of the process.
func (l *lua54) read() (kind string, texts []any) {
	line, err := l.out.ReadString('\n')
	if err != nil {
		l.t.Error(err)
	}
	kind, line, _ = strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	for word := range strings.SplitSeq(line, " ") {
		text, err := hex.DecodeString(word)
		if err != nil {
			l.t.Error(err)
		}
		texts = append(texts, string(text))
	}
	return kind, texts
}

// inLua returns a reply of Redis as an expression in Lua.
func inLua(reply any) string {
	text := ""
	switch v := reply.(type) {
	case nil:
		return "false"
	case error:
		return "{err = " + inLua(v.Error()) + "}"
	case string:
		for i := range len(v) {
			text += fmt.Sprintf(`\x%02x`, v[i])
		}
		return `"` + text + `"`
	case []string:
		for _, element := range v {
			text += inLua(element) + ", "
		}
	case []any:
		for _, element := range v {
			text += inLua(element) + ", "
		}
	default:
		return fmt.Sprint(v)
	}
	return "{" + text + "}"
}

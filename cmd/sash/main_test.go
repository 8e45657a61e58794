package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/keyfuncs"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{})
	os.Exit(m.Run())
}

// result is what a run of the command has left.
type result struct {
	code        int
	out, errOut string
}

// sash runs the command with REDIS_URL and an input.
func sash(t *testing.T, url, input string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	code := run(t.Context(), args, system{
		strings.NewReader(input), &out, &errOut, func(name string) string {
			if name == "REDIS_URL" {
				return url
			}
			return ""
		},
	})
	return result{code, out.String(), errOut.String()}
}

// check fails unless the run ended with the code and wrote the texts: to stdout if the
// code is 0, else to stderr.
func (r result) check(t *testing.T, code int, versions ...string) {
	t.Helper()
	text := r.out
	if code != exitOK {
		text = r.errOut
	}
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	for _, s := range versions {
		if !strings.Contains(text, s) {
			t.Errorf("the command does not say %q", s)
		}
	}
	if t.Failed() {
		t.Fatalf("stdout: %s\nstderr: %s", r.out, r.errOut)
	}
}

// answering returns the URL of a server that answers each command with the reply.
func answering(t *testing.T, reply string) string {
	return "redis://" + redistest.Serve(t, func(c net.Conn) {
		for in := bufio.NewReader(c); ; {
			if _, _, err := redistest.ReadCommand(in); err != nil {
				return
			}
			_, _ = io.WriteString(c, reply)
		}
	})
}

// TestHostileServer: what a server writes reaches the terminal without control characters.
func TestHostileServer(t *testing.T) {
	t.Parallel()
	url := answering(t, "-ERR \x1b]0;title\a\x1b[2J\u009b31m\x7f\u202e\xff\r\n")
	const seen = `\u001b]0;title\u0007\u001b[2J\u009b31m\u007f\u202e`
	for _, args := range [][]string{
		{"usage", "-limit", "5/1m", "-user", "42"}, {"reset", "-limit", "5/1m", "-user", "42"}, {"check"},
		{"check", "-json"},
	} {
		r := sash(t, url, "", args...)
		if r.check(t, exitFailure, seen); strings.ContainsFunc(r.out+r.errOut, func(c rune) bool {
			return c != '\n' && !unicode.IsPrint(c)
		}) {
			t.Errorf("%s: the output has characters that cannot be printed: %q", args, r.out+r.errOut)
		}
		var result checkResult
		if err := json.Unmarshal([]byte(r.out), &result); len(args) == 2 && (err != nil || len(result.Problems) == 0) {
			t.Errorf("%q cannot be read", r.out)
		}
	}
}

// TestWrongUsage: a mistake is said, with what is allowed, before Redis is asked.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	one := []string{"usage", "-limit", "5/1m"}
	with := func(args ...string) []string { return append(one[:len(one):len(one)], args...) }
	const url = "redis://:hunter2@127.0.0.1:1/0"
	for _, c := range []struct {
		args     []string
		url      string
		versions string
	}{
		{nil, url, "usage, reset or check"},
		{[]string{"use"}, url, `"use" is not a command`},
		{[]string{"-redis=" + url}, url, "is not a command"},
		{with("-user", "42"), "", "REDIS_URL or with -redis"},
		{with("-user", "42", "-redis", "hunter2"), url, "redis://[user:password@]host:port[/db]"},
		{with("-user", "42", url), url, "a URL is given with -redis"},
		{with("-user", "42"), "http://:hunter2@x", "redis://[user:password@]host:port[/db]"},
		{with("-user", "42", "-prefix", "{"), url, "WithPrefix"},
		{with("-user", "42", "-timeout", "0s"), url, "above 0"},
		{with("-user", "42", "-"+url), url, "not defined"},
		{[]string{"check", url}, "", "a URL is given with -redis"},
		{[]string{"check", "-config-timeout", "-1s"}, url, "Config.Timeout"},
		{[]string{"usage", "-user", "42"}, url, "-limit 5/15m"},
		{[]string{"usage", "-user", "42", "-limit", "5"}, url, `"5" has no slash`},
		{with("-name", "a\"b", "-user", "42"), url, "limiter name"},
		{one, url, "no client is named"},
		{with("-api-key-stdin"), url, "one API key"},
		{with("-user", "42", "-ipv6-prefix", "64"), url, "belongs to ip"},
	} {
		r := sash(t, c.url, "", c.args...)
		r.check(t, exitUsage, "sash: ", c.versions, "Run sash -help")
		if strings.Contains(r.errOut, "hunter2") || r.out != "" || strings.Count(r.errOut, "sash: ") != 1 {
			t.Errorf("%q: %s%s", c.args, r.out, r.errOut)
		}
	}
	for _, input := range []string{"a\nb", strings.Repeat("k", 8<<10+1), strings.Repeat("k", 1<<20)} {
		r := sash(t, url, input, with("-api-key-stdin")...)
		r.check(t, exitUsage, "one API key")
		if strings.Contains(r.errOut, "kk") {
			t.Errorf("the error has the API key: %.200s", r.errOut)
		}
	}
}

// TestHelp: the help is written if it is asked for, and has every flag.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-help"}, {"--help"}, {"-h"}, {"help"}, {"usage", "-h"}, {"check", "-help"}} {
		if r := sash(t, "", "", args...); r.code != exitOK || r.out != help || r.errOut != "" {
			t.Errorf("%q: exit code %d, %s%s", args, r.code, r.out, r.errOut)
		}
	}
	for _, name := range []string{"redis", "prefix", "timeout", "json", "name", "rule", "limit", "ip", "ipv6-prefix",
		"user", "header", "api-key-id", "api-key-stdin", "key", "config-timeout", "thorough"} {
		if !strings.Contains(help, "-"+name+" ") {
			t.Errorf("the help does not name -%s", name)
		}
	}
}

// TestEnds: a result that cannot be written is a failure, and a command ends with its
// context.
func TestEnds(t *testing.T) {
	t.Parallel()
	sys := system{strings.NewReader(""), broken{}, new(bytes.Buffer), func(string) string { return "" }}
	if code := run(t.Context(), []string{"help"}, sys); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	server := redistest.Start(t)
	server.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	args := []string{"usage", "-redis", server.URL(), "-limit", "5/1m", "-user", "42", "-timeout", "1h"}
	if code := run(ctx, args, sys); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
}

// broken is an output that is closed.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestBuilt: the built command takes REDIS_URL, writes its result to stdout, and ends with
// its exit code.
func TestBuilt(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "sash")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	url := redistest.Start(t).URL()
	take(t, limiter(t, url), keyfuncs.APIKeyKey("k"), 3)
	for code, args := range map[int][]string{
		exitOK:      append(append([]string{"usage"}, apiFlags...), "-api-key-stdin"),
		exitFailure: {"check", "-redis", "redis://127.0.0.1:1/0"}, exitUsage: {"usage"},
	} {
		var out, errOut bytes.Buffer
		cmd := exec.Command(binary, args...)
		cmd.Env = append(os.Environ(), "REDIS_URL="+url)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("k\n"), &out, &errOut
		err := cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("%q: exit code %d, want %d: %v %s", args, got, code, err, errOut.String())
		}
		if (out.Len() > 0) != (code == exitOK) || (errOut.Len() > 0) != (code != exitOK) {
			t.Errorf("%q: stdout %s, stderr %s", args, out.String(), errOut.String())
		}
		if code == exitOK && !strings.Contains(out.String(), `"used": 3`) {
			t.Errorf("%s", out.String())
		}
		if strings.Contains(errOut.String(), "redis: ") {
			t.Errorf("go-redis writes: %s", errOut.String())
		}
	}
	long := answering(t, "*100000000\r\n") // go-redis takes 16 bytes for each
	out, err := exec.Command(binary, "check", "-thorough", "-redis", long).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "512 MiB") {
		t.Errorf("a reply of 100 million values: %v %s", err, out)
	}
}

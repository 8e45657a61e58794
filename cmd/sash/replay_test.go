package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sashlimit/sash/extra/replay"
)

// accessLog is a log of two clients: one sends 70 logins in 70 seconds, and one asks for a page each minute.
func accessLog() string {
	var b strings.Builder
	for i := range 70 {
		fmt.Fprintf(&b, `198.51.100.7 - bob [01/Mar/2026:12:%02d:%02d +0000] "POST /login HTTP/1.1" 200 2 "-" "curl" `+
			"\"203.0.113.%d\"\n", i/60, i%60, i%2)
		if i%60 == 0 {
			fmt.Fprintf(&b, `192.0.2.1 - - [01/Mar/2026:12:%02d:00 +0000] "GET /health HTTP/1.1" 200 2 "-" "" "-"`+"\n",
				i/60)
		}
	}
	return b.String()
}

// TestReplay: each flag of replay changes the answer as it should.
func TestReplay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		args []string
	}{
		{"50 a minute would have refused 11 of 72 requests, all of one client.", []string{"-limit", "50/1m"}},
		{"5 in 15 minutes for POST /login would have refused 65 of 72 ", []string{"-route", "POST /login=5/15m"}},
		{"5 in 15 minutes for POST /login and 50 an hour for POST /login together would have refused 65 of 72 ",
			[]string{"-route", "POST /login=5/15m", "-route", "POST /login=50/1h"}},
		{"60 a minute would have refused none of 2 requests.", []string{"-limit", "60/1m", "-only", "/health"}},
		{"60 a minute would have refused none of 2 requests.", []string{"-limit", "60/1m", "-skip", "POST /login"}},
		{"31 a minute would have refused none of 72 requests.",
			[]string{"-limit", "31/1m", "-trust", "198.51.100.7, 10.0.0.0/8"}},
		{"50 a minute (counter) would have refused 12 of 70 ", []string{"-key", "user", "-limit", "50/1m counter"}},
		{"69 a minute would have refused none of 70", []string{"-key", "header:X-Forwarded-For", "-limit", "69/1m"}},
		{"7s ", []string{"-window", "7s"}},
		{"Set 120 a day: it would have refused nobody", []string{"-only", "POST /login", "-window", "24h"}},
		{"ip:198.51.100.7", nil},
		{"client ", []string{"-names", "hash"}},
		{"50 a minute would have refused 11 of 72 requests", []string{"-limit", "50/1m", "-format",
			`$remote_addr - $remote_user [$time_local] "$request" $status $bytes`}},
	} {
		got := sash(t, "", accessLog(), append([]string{"replay"}, c.args...)...)
		got.check(t, exitOK, c.want)
		if strings.Contains(strings.Join(c.args, " "), "hash") && strings.Contains(got.out, "198.51") {
			t.Errorf("an address stands in %s", got.out)
		}
	}
}

// TestReplayFiles: files are read in any order, also before flags, and the page is written.
func TestReplayFiles(t *testing.T) {
	t.Parallel()
	file, page := filepath.Join(t.TempDir(), "access.log"), filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(accessLog()), 0o600); err != nil {
		t.Fatal(err)
	}
	got := sash(t, "", accessLog(), "replay", file, "-limit", "50/1m", "-", "-json", "-html", page)
	got.check(t, exitOK)
	var report replay.Report
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || report.Refused != 72 || len(report.Top) != 2 {
		t.Errorf("%v: %s", err, got.out)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "<h1>"+report.Answer) {
		t.Errorf("%v: %s", err, text)
	}
}

// TestReplayWrong: a mistake is told, with what is allowed.
func TestReplayWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, `write requests/window, such as "100/1m"`, []string{"-limit", "60"}},
		{exitUsage, "is not a window", []string{"-window", "60"}},
		{exitUsage, "begins with a slash", []string{"-only", "login"}},
		{exitUsage, "without wildcards", []string{"-route", "/a/*=5/1m"}},
		{exitUsage, "requests/window", []string{"-route", "POST /login"}},
		{exitUsage, "give ip, user or header:NAME", []string{"-key", "cookie"}},
		{exitUsage, "-trust belongs to -key ip", []string{"-key", "user", "-trust", "10.0.0.0/8"}},
		{exitUsage, "such as 10.0.0.0/8", []string{"-trust", "10.0.0.0/33"}},
		{exitUsage, "trusts so large a part", []string{"-trust", "0.0.0.0/0"}},
		{exitUsage, "must be from 1 to 128", []string{"-ipv6", "0"}},
		{exitUsage, "give hash", []string{"-names", "none"}},
		{exitUsage, `two limits are named "1m0s"`, []string{"-limit", "60/1m", "-limit", "70/1m"}},
		{exitUsage, "-redis", []string{"-redis", "redis://127.0.0.1"}},
		{exitFailure, "no such file", []string{"none.log"}},
		{exitFailure, "has no header X-Tenant", []string{"-key", "header:X-Tenant"}},
		{exitFailure, "combined with X-Forwarded-For: \"", []string{"-", "-"}},
	} {
		input := accessLog()
		if c.args[0] == "-" {
			input += strings.Repeat("\x1b[2Jgarbage\n", 20)
			c.want = "20 of 92 lines cannot be read as combined with X-Forwarded-For"
		}
		sash(t, "", input, append([]string{"replay"}, c.args...)...).check(t, c.code, c.want)
	}
}

// TestSignals: a signal ends a command at once, which then has not succeeded.
func TestSignals(t *testing.T) {
	t.Parallel()
	if os.Getenv("SASH_TEST_COMMAND") != "" {
		os.Args = []string{"sash", "replay"}
		main()
	}
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		command := exec.Command(os.Args[0], "-test.run", "^TestSignals$")
		command.Env = append(os.Environ(), "SASH_TEST_COMMAND=1")
		in, err := command.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		for range 100 { // more than a pipe holds, so the command reads
			_, err = io.WriteString(in, accessLog())
		}
		if err := errors.Join(err, command.Process.Signal(signal)); err != nil {
			t.Fatal(err)
		}
		_ = command.Wait()
		if status := command.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != signal {
			t.Errorf("after %v: %v", signal, command.ProcessState)
		}
	}
}

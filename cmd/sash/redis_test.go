package main

import (
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/keyfuncs"
)

// uses returns the units used of each limit, of an answer in JSON.
func (r result) uses(t *testing.T) (used []int64) {
	t.Helper()
	var result answer
	if err := json.Unmarshal([]byte(r.out), &result); err != nil || r.code != exitOK || r.errOut != "" {
		t.Fatalf("exit code %d, %v: %s%s", r.code, err, r.out, r.errOut)
	}
	for _, use := range result.Limits {
		used = append(used, use.Used)
	}
	return used
}

// patient is a timeout that no busy machine misses.
const patient = 20 * time.Second

// limiter returns a limiter that counts at url, as a server does.
func limiter(t *testing.T, url string, options ...redisstore.Option) *core.Limiter {
	t.Helper()
	store := core.Must(redisstore.Open(url, options...))
	t.Cleanup(func() { _ = store.Close() })
	return core.Must(core.New(core.Config{
		Name: "api", Store: store, OnStoreError: core.FailClosed, Timeout: patient,
		Limits: []core.Limit{
			core.Per(100, core.MaxWindow).Using(core.SlidingCounter), core.PerDay(1000).Named("daily"),
		},
	}))
}

// take counts n units.
func take(t *testing.T, l *core.Limiter, key string, n int64) {
	t.Helper()
	if d := l.AllowN(t.Context(), key, n); !d.Allowed || d.Err != nil {
		t.Fatalf("%+v", d)
	}
}

// apiFlags are the flags for the limiter of limiter.
var apiFlags = []string{"-name", "api", "-limit", "100/8784h counter", "-limit", "1000/24h named daily",
	"-json", "-timeout", "20s"}

// TestClients: a client that is named by flags is found by what a limiter has counted of it, and reset forgets that and
// nothing else. The tests of sashadmin have all ways to name one.
func TestClients(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	api := limiter(t, url)
	take(t, api, "user:other", 1)
	for i, c := range []struct {
		key, input string
		flags      []string
	}{
		{"ip:2001:db8::/48", "", []string{"-ip", "2001:db8:0:7::2", "-ipv6-prefix", "48"}},
		{"user:42", "", []string{"-user", "42"}},
		{keyfuncs.APIKeyKey("s3cret-key"), "s3cret-key\r\n", []string{"-api-key-stdin"}},
		{"any \x00\xff key", "", []string{"-key", "any \x00\xff key"}},
	} {
		n := int64(i + 1)
		take(t, api, c.key, n)
		for _, times := range []string{"usage", "usage", "reset"} {
			r := sash(t, url, c.input, append(append([]string{times}, apiFlags...), c.flags...)...)
			if used := r.uses(t); len(used) != 2 || used[0] != n || used[1] != n {
				t.Errorf("%s %q: used %d, want %d of both limits", times, c.flags, used, n)
			}
			if strings.Contains(r.out, "s3cret") {
				t.Errorf("the answer has the API key: %s", r.out)
			}
		}
		for key, want := range map[string]int64{c.key: 0, "user:other": 1} {
			uses, err := api.Usage(t.Context(), key)
			if err != nil || uses[0].Used != want || uses[1].Used != want {
				t.Errorf("%q after the reset of %q: %+v, %v", key, c.key, uses, err)
			}
		}
	}
}

// TestRules: name, rule and prefix tell counts apart, an exhausted client is said to be
// so, and the URL may be a flag.
func TestRules(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	api := limiter(t, url, redisstore.WithPrefix("own"))
	login := core.Must(api.Rule("login", core.Per(5, 15*time.Minute)))
	take(t, login, "user:42", 5)
	take(t, api, "user:42", 2)
	flags := []string{"-redis", url, "-prefix", "own", "-name", "api", "-user", "42", "-timeout", "20s"}

	r := sash(t, "", "", append([]string{"usage", "-rule", "login", "-limit", "5/15m", "-json"}, flags...)...)
	if used := r.uses(t); used[0] != 5 || !strings.Contains(r.out, `"exhausted": true`) {
		t.Errorf("used %d of the rule: %s", used, r.out)
	}
	r = sash(t, "redis://127.0.0.1:1", "", append([]string{"usage", "-rule", "login", "-limit", "5/15m"}, flags...)...)
	r.check(t, exitOK, "client \"user:42\", limiter \"api\", rule \"login\"", "5/15m   5      0           1")
	if strings.Contains(r.out, "Nothing") {
		t.Errorf("%s", r.out)
	}
	sash(t, "", "", append([]string{"usage", "-limit", "100/8784h counter"}, flags...)...).
		check(t, exitOK, "100/8784h counter   2      98 ")
	for _, other := range [][]string{{"-limit", "5/14m"}, {"-limit", "5/15m counter"}, {"-limit", "5/15m named x"},
		{"-limit", "5/15m", "-rule", "log"}, {"-limit", "5/15m", "-prefix", "sash"}} {
		r := sash(t, "", "", append(append([]string{"usage", "-rule", "login"}, flags...), other...)...)
		r.check(t, exitOK, "Nothing was counted.", "names of the limits")
	}
	args := append([]string{"reset", "-rule", "login", "-limit", "5/15m"}, flags...)
	sash(t, "", "", args...).check(t, exitOK, "Reset. Until now was counted:", "5/15m   5 ")
	sash(t, "", "", args...).check(t, exitOK, "Nothing was counted.")
}

// TestCheck: a fit Redis is ok, and what is wrong with another one is said in words.
func TestCheck(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	checkStore := []string{"check", "-config-timeout", "20s"}
	sash(t, url, "", checkStore...).check(t, exitOK, "ok: ")
	sash(t, "", "", append(checkStore, "-json", "-redis", url)...).check(t, exitOK, `"ok": true`, `"findings": []`)
	sash(t, url, "", "check", "-config-timeout", "10us").check(t, exitFailure, "Config.Timeout is too short")
	evicts := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru").URL()
	sash(t, evicts, "", checkStore...).check(t, exitFailure, "set maxmemory-policy noeviction")
	r := sash(t, evicts, "", append(checkStore, "-json")...)
	var result checkResult
	if err := json.Unmarshal([]byte(r.out), &result); err != nil || result.OK || len(result.Problems) != 1 ||
		!strings.Contains(result.Problems[0], "noeviction") || r.code != exitFailure {
		t.Errorf("exit code %d, %v: %s", r.code, err, r.out)
	}
}

// TestThorough: each promise is kept on a server and on a cluster, also where INFO is forbidden, and behind a proxy
// that sends scripts to the server of their first key; no key is left. What a server forbids is said, and a balancer
// over two masters, which admits twice as many, is found out.
func TestThorough(t *testing.T) {
	t.Parallel()
	one, two, three := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	promisesFlag := []string{"check", "-thorough", "-timeout", "20s", "-config-timeout", "20s"}
	cluster := redistest.StartCluster(t, 2, 0)
	for _, s := range cluster.Servers {
		if err := s.Client(t).Do(t.Context(), "ACL", "SETUSER", "default", "-script", "-info").Err(); err != nil {
			t.Fatal(err)
		}
	}
	proxy := redistest.StartFirstKey(t, []*redistest.Server{two, three}, 1, 1)
	const ownScripts = "they share none, as behind a proxy"
	for url, versions := range map[string]struct {
		skipped int
		seen    string
	}{
		one.URL():                 {0, "redis_version:"},
		cluster.Servers[1].URL():  {1, "for each of 64  5 admitted\n"},
		"redis://" + proxy.Addr(): {1, ownScripts},
	} {
		r := sash(t, url, "", promisesFlag...)
		r.check(t, exitOK, versions.seen)
		skipped := strings.Count(r.out, "skipped  exact while scripts are flushed      the server forbids it")
		if strings.Count(r.out, "ok  ") != len(checks)-versions.skipped || skipped != versions.skipped {
			t.Errorf("%s", r.out)
		}
	}
	proxy.Mode.Store(redistest.MixedRefused)
	sash(t, "redis://"+proxy.Addr(), "", promisesFlag...).check(t, exitOK, ownScripts)
	if n := one.Client(t).DBSize(t.Context()).Val(); n > 0 {
		t.Errorf("%d keys are left", n)
	}
	var conns atomic.Int64
	balancer := redistest.Serve(t, func(c net.Conn) {
		master, err := net.Dial("tcp", []*redistest.Server{one, two}[conns.Add(1)%2].Addr())
		if err != nil {
			return
		}
		defer master.Close()
		go func() { _, _ = io.Copy(master, c) }()
		_, _ = io.Copy(c, master)
	})
	r := sash(t, "", "", append(promisesFlag, "-json", "-redis", "redis://"+balancer)...)
	if !strings.Contains(r.out, "WRONG") || !strings.Contains(r.out, `"ok": false`) {
		t.Errorf("%s", r.out)
	}
	r.check(t, exitFailure, "promises do not hold")
}

// TestRedisErrors: what is wrong with the connection is said in words, by each command, and
// never with the password.
func TestRedisErrors(t *testing.T) {
	t.Parallel()
	open, secret := redistest.Start(t).Addr(), redistest.Start(t, "--requirepass", "right").Addr()
	closed := core.Must(net.Listen("tcp", "127.0.0.1:0"))
	closed.Close()
	for _, c := range []struct {
		url      string
		versions []string
	}{
		{"redis://:hunter2@" + secret, []string{"refuses the user name or", "WRONGPASS"}},
		{"redis://" + secret, []string{"asks for a password", "NOAUTH"}},
		{"redis://:@" + open + "/99", []string{"DB index is out of range"}},
		{"redis://:hunter2@" + closed.Addr().String(), []string{"is the address right"}},
	} {
		for _, args := range [][]string{
			{"usage", "-limit", "5/1m", "-user", "42"}, {"reset", "-limit", "5/1m", "-user", "42"}, {"check"},
		} {
			r := sash(t, "", "", append(args, "-redis", c.url, "-timeout", "20s")...)
			r.check(t, exitFailure, c.versions...)
			if strings.Contains(r.errOut+r.out, "hunter2") || r.out != "" {
				t.Errorf("%s: %s%s", c.url, r.out, r.errOut)
			}
		}
	}
	usage := []string{"usage", "-limit", "5/1m", "-user", "42", "-timeout"}
	sash(t, answering(t, "-MOVED 7 192.0.2.1:6379\r\n"), "", append(usage, "20s")...).
		check(t, exitFailure, "MOVED 7 192.0.2.1:6379", "stands behind MOVED")
	// The server answers no handshake.
	sash(t, "rediss://:hunter2@"+open, "", append(usage, "100ms")...).
		check(t, exitFailure, "no answer within the timeout", "is the URL rediss:// where the server speaks TLS")
}

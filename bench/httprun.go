package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// HTTPConfig sets how long RunHTTP measures. Its slices are whole seconds.
type HTTPConfig struct {
	Config
	Connections []int // each of these numbers has turns of its own
}

// Check returns the error with which RunHTTP would end, as far as that is known beforehand.
func (c HTTPConfig) Check() error {
	if c.Rounds < 1 || c.Slice < time.Second || c.Slice%time.Second != 0 || len(c.Connections) == 0 {
		return fmt.Errorf("%d rounds of %v with %d numbers of connections: give at least one round and number, "+
			"and whole seconds, since wrk counts in seconds", c.Rounds, c.Slice, len(c.Connections))
	}
	for _, n := range c.Connections {
		if n < 1 || n > 1000 {
			return fmt.Errorf("%d connections: from 1 to 1000 are possible", n)
		}
	}
	if _, err := exec.LookPath("wrk"); err != nil {
		return fmt.Errorf("%w: install Debian's package wrk, or run make bench-http, which does", err)
	}
	return checkRedis()
}

// RunHTTP measures HTTP servers with and without limiters by wrk, and writes a Markdown table. It returns an error if
// one request is refused or fails, or is not counted by its limiter.
func RunHTTP(w io.Writer, c HTTPConfig) error {
	type arena struct {
		env Env
		dir string
	}
	start := func(tb testing.TB) arena { return arena{single(tb), tb.TempDir()} }
	return withServers(start, func(a arena) error {
		script, err := writeWrkScript(a.dir)
		if err == nil {
			err = c.race(w, a.env, httpRequests, runWrk(script))
		}
		return err
	})
}

// httpRequests is the limit of each client in an hour. None reaches it, and sash finds the log of such a limit not too
// large.
const httpRequests = 100_000

// turn holds the measurements of one turn of a site.
type turn struct {
	volley
	scripts       float64 // of Redis, for each request
	server, redis cpuTime // in this turn
}

// race starts all websites, with a limit of requests an hour for each client, lets them take turns and writes the
// table.
func (c HTTPConfig) race(w io.Writer, env Env, requests int, generate generator) error {
	began, rdb := time.Now(), redis.NewClient(&redis.Options{Addr: env.Redis[0]})
	defer rdb.Close()
	var sites []*site
	defer func() {
		for _, s := range sites {
			s.close()
		}
	}()
	for _, s := range websites() {
		opened, err := openSite(s, requests, env)
		if err != nil {
			return err
		}
		sites = append(sites, opened)
	}
	turns := make([][][]turn, len(c.Connections)) // by the connections, the sites and the rounds
	for round := range c.Rounds {
		for group, connections := range c.Connections {
			c.progress("round %d of %d, connections: %d", round+1, c.Rounds, connections)
			turns[group] = append(turns[group], make([][]turn, len(sites)-len(turns[group]))...)
			for i, s := range sites {
				t, err := again(time.Now, func() (turn, error) { return s.turn(c, rdb, connections, generate) })
				if err != nil {
					return fmt.Errorf("%s, connections: %d: %w", s.name, connections, err)
				}
				turns[group][i] = append(turns[group][i], t)
			}
		}
	}
	cpu, _ := os.ReadFile("/proc/cpuinfo") // where there is one
	info := rdb.Info(context.Background(), "server").Val()
	wrk, _ := exec.Command("wrk", "-v").CombinedOutput() // it exits with 1
	_, err := fmt.Fprintf(w, "%s %s/%s, %d CPUs (%s), redis-server %s, %s, rounds: %d of %v, %.0f s in all\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), field(string(cpu), "model name"),
		field(info, "redis_version"), strings.Join(strings.Fields(string(wrk) + "? ?")[:2], " "), c.Rounds, c.Slice,
		time.Since(began).Seconds())
	lines := [][]string{{"connections", "server", "requests/s", "min..max", "of no limiter", "min..max", "p50", "p99",
		"server user + sys", "Redis", "all", "times ulule", "times redis_rate", "scripts/request"}}
	for group, connections := range c.Connections {
		lines = append(lines, httpLines(connections, turns[group])...)
	}
	return errors.Join(err, writeMarkdown(w, lines))
}

// field returns the value of a field of a text with a line "name: value" for it, or an empty string.
func field(text, name string) string {
	found := regexp.MustCompile(`(?m)^` + name + `\s*:\s*([^\r\n]*)`).FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return found[1]
}

// turn drives a site, and checks that its limiter has counted each request.
func (s *site) turn(c HTTPConfig, rdb *redis.Client, connections int, generate generator) (t turn, err error) {
	ctx, stats := context.Background(), map[string]calls{}
	var before, after int64
	var server, redis cpuTime
	for _, step := range []func() error{
		func() error { return rdb.FlushAll(ctx).Err() },
		// The census creates the counts of all clients, and tells what they are.
		func() (err error) { before, err = s.census(); return err },
		func() error { return rdb.ConfigResetStat(ctx).Err() },
		func() (err error) { server, redis, err = s.cpu(rdb); return err },
		func() (err error) { t.volley, err = generate(s.url, connections, c.Slice); return err },
		func() (err error) { t.server, t.redis, err = s.cpu(rdb); return err },
		func() error { return t.check() },
		func() error { return commandStats(rdb, stats) },
		func() (err error) { after, err = s.census(); return err },
	} {
		if err := step(); err != nil {
			return t, err
		}
	}
	t.server, t.redis = t.server.less(server), t.redis.less(redis)
	scripts := int64(stats["eval"].calls + stats["evalsha"].calls)
	t.scripts = float64(scripts) / float64(t.Requests)
	counted := after - before - webClients // without the second census
	return t, s.check(t.Requests, int64(connections), counted, scripts, int64(stats[s.command].calls))
}

// cpu returns the processor time of the site's process and of Redis.
func (s *site) cpu(rdb *redis.Client) (server, redis cpuTime, err error) {
	err = s.process.ask(order{}, &server)
	info, bad := rdb.Info(context.Background(), "cpu").Result()
	err = errors.Join(err, bad)
	seconds := func(name string) time.Duration {
		n, bad := strconv.ParseFloat(field(info, name), 64)
		err = errors.Join(err, bad)
		return time.Duration(n * float64(time.Second))
	}
	redis = cpuTime{seconds("used_cpu_user"), seconds("used_cpu_sys")}
	return server, redis, err
}

// check returns an error unless the requests of a turn were counted, and Redis was asked about them, or not asked at
// all. When wrk ends it leaves a request on each connection, which may be counted or not: at most left of them are.
func (s website) check(requests, left, counted, scripts, commands int64) error {
	least, most := requests, requests+left
	if s.counts == ahead {
		least = 1
	}
	switch {
	case s.command == "" && scripts > 0:
		return fmt.Errorf("%d scripts in Redis for a server that should not ask it", scripts)
	case s.command != "" && (commands < least || commands > most):
		return fmt.Errorf("%d requests: Redis ran %d times %s, want %d to %d", requests, commands, s.command,
			least, most)
	case s.counts != nothing && counted < requests, s.counts == exactly && counted > most:
		return fmt.Errorf("%d requests, and at most %d more: %d were counted", requests, left, counted)
	}
	return nil
}

// httpLines returns the rows of the table of a number of connections, given the turns of each of websites, one a round.
// Ratios are taken within each round. Times of processors are in microseconds, for a request: the server's in its own
// code and in the kernel, that of Redis, and that of the server, Redis and the generator together.
func httpLines(connections int, turns [][]turn) (lines [][]string) {
	rates := map[string][]float64{}
	for i, s := range websites() {
		rates[s.name] = column(turns[i], turn.perSecond)
	}
	for i, s := range websites() {
		middle := func(of func(turn) float64) string { return number(median(column(turns[i], of))) }
		micros := func(of func(turn) time.Duration) string {
			return middle(func(t turn) float64 {
				return float64(of(t)) / float64(time.Microsecond) / float64(t.Requests)
			})
		}
		rate := rates[s.name]
		bare := ratios(rate, rates[bareSite])
		line := []string{
			"", s.name, number(median(rate)), span(rate), number(median(bare)), span(bare),
			middle(func(t turn) float64 { return t.P50 }) + " us",
			middle(func(t turn) float64 { return t.P99 }) + " us",
			micros(func(t turn) time.Duration { return t.server.User }) + " + " +
				micros(func(t turn) time.Duration { return t.server.System }),
			micros(func(t turn) time.Duration { return t.redis.sum() }),
			micros(func(t turn) time.Duration { return t.server.sum() + t.redis.sum() + t.CPU }), "", "", "",
		}
		if i == 0 {
			line[0] = fmt.Sprint(connections)
		}
		if s.command != "" {
			line[11] = number(median(ratios(rate, rates[ululeSite])))
			line[12] = number(median(ratios(rate, rates[redisRateSite])))
			line[13] = middle(func(t turn) float64 { return t.scripts })
		}
		lines = append(lines, line)
	}
	return lines
}

package bench

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// HTTPTable holds what RunHTTP measured.
type HTTPTable struct {
	machine string
	began   time.Time
	groups  []webGroup
}

// webGroup holds the turns with one number of connections.
type webGroup struct {
	connections int
	turns       [][]turn // of each of websites, one a round
}

// newHTTPTable returns a table without turns.
func newHTTPTable(redis *wire, c HTTPConfig) (*HTTPTable, error) {
	info, err := redis.do("INFO", "server")
	if err != nil {
		return nil, err
	}
	text, _ := info.(string)
	t := &HTTPTable{began: time.Now(), machine: fmt.Sprintf(
		"%s %s/%s, %d CPUs%s, redis-server %s, wrk %s, rounds: %d of %v",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cpuModel(),
		field(text, "redis_version"), wrkVersion(), c.Rounds, c.Slice)}
	for _, n := range c.Connections {
		t.groups = append(t.groups, webGroup{n, make([][]turn, len(websites()))})
	}
	return t, nil
}

// field returns the value of a field of a text with a line "name: value" for it. It
// returns an empty string if there is none.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// cpuModel returns the name of the processor in parentheses, where the system is one
// that tells it.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if model := field(string(text), "model name"); err == nil && model != "" {
		return " (" + model + ")"
	}
	return ""
}

// Write writes the machine and a Markdown table.
func (t *HTTPTable) Write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s, %.0f s in all\n\n", t.machine, time.Since(t.began).Seconds()); err != nil {
		return err
	}
	lines := [][]string{{"connections", "server", "requests/s", "min..max", "of no limiter", "min..max", "p50", "p99",
		"server user + sys", "Redis", "all", "times ulule", "times redis_rate", "scripts/request"}}
	for _, g := range t.groups {
		lines = append(lines, g.lines()...)
	}
	return writeMarkdown(w, lines)
}

// lines returns the rows of the table. Ratios are taken within each round.
func (g webGroup) lines() [][]string {
	rates := map[string][]float64{}
	for i, s := range websites() {
		rates[s.name] = turnColumn(g.turns[i], turn.perSecond)
	}
	of := func(s website, baseline string) []float64 { return ratios(rates[s.name], rates[baseline]) }
	var lines [][]string
	for i, s := range websites() {
		bare := of(s, bareSite)
		line := []string{"", s.name, number(median(rates[s.name])), span(rates[s.name]),
			number(median(bare)), span(bare),
			latencyOf(g.turns[i], func(t turn) float64 { return t.P50 }),
			latencyOf(g.turns[i], func(t turn) float64 { return t.P99 })}
		line = append(line, cpuOf(g.turns[i])...)
		line = append(line, "", "", "")
		if i == 0 {
			line[0] = fmt.Sprint(g.connections)
		}
		if s.command != "" {
			line[11], line[12] = number(median(of(s, ululeSite))), number(median(of(s, redisRateSite)))
			line[13] = number(median(turnColumn(g.turns[i], func(t turn) float64 { return t.scripts })))
		}
		lines = append(lines, line)
	}
	return lines
}

// turnColumn returns one number of each turn.
func turnColumn(turns []turn, of func(turn) float64) []float64 {
	c := make([]float64, len(turns))
	for i, t := range turns {
		c[i] = of(t)
	}
	return c
}

// latencyOf returns the median of a latency.
func latencyOf(turns []turn, of func(turn) float64) string {
	return number(math.Round(median(turnColumn(turns, of)))) + " us"
}

// cpuOf returns the processor time of a request in microseconds, as medians: the server's in its own code and in the
// kernel, that of Redis, and that of the server, Redis and the generator together.
func cpuOf(turns []turn) []string {
	of := func(part func(turn) time.Duration) string {
		return number(median(turnColumn(turns, func(t turn) float64 {
			return float64(part(t)) / float64(time.Microsecond) / float64(t.Requests)
		})))
	}
	return []string{
		of(func(t turn) time.Duration { return t.server.User }) + " + " +
			of(func(t turn) time.Duration { return t.server.System }),
		of(func(t turn) time.Duration { return t.redis.sum() }),
		of(func(t turn) time.Duration { return t.server.sum() + t.redis.sum() + t.CPU }),
	}
}

// span returns the least and the greatest of values.
func span(values []float64) string {
	return number(slices.Min(values)) + ".." + number(slices.Max(values))
}

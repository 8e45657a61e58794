package core_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// nameMistake returns what an error about a name must say, or "" if the name is allowed.
func nameMistake(name string) string {
	if len(name) > 64 {
		return fmt.Sprintf("%d bytes", len(name))
	}
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return strconv.Quote(name)
		}
	}
	if strings.TrimSpace(name) != name {
		return strconv.Quote(name)
	}
	return ""
}

// limitMistakes returns what errors about a limit must say: of each mistake, what was
// given. It returns nothing if the limit is allowed.
func limitMistakes(l core.Limit) (says []string) {
	if l.Window < core.MinWindow || l.Window > core.MaxWindow {
		says = append(says, fmt.Sprintf("window of %v:", l.Window))
	}
	most := int64(core.MaxCounterRequests)
	if l.Algorithm == core.SlidingLog {
		most = core.MaxLogRequests
	}
	if l.Requests < 1 || l.Requests > most {
		says = append(says, fmt.Sprintf("allows %d requests:", l.Requests))
	}
	if !slices.Contains(core.Algorithms(), l.Algorithm) {
		says = append(says, fmt.Sprintf("algorithm %d:", l.Algorithm))
	}
	if mistake := nameMistake(l.Name); mistake != "" {
		says = append(says, mistake)
	}
	return says
}

// FuzzLimits: New and Rule return a limiter for what is allowed, and an error that says
// what was given for anything else.
func FuzzLimits(f *testing.F) {
	minute := int64(time.Minute)
	f.Add("api", "login", "", "burst", int64(100), minute, uint8(0), int64(0))
	f.Add("", "r", "1h0m0s", "", int64(core.MaxCounterRequests), int64(core.MaxWindow), uint8(1), int64(time.Second))
	f.Add("", "r", "bytes", "", int64(core.MaxCounterRequests), int64(core.MinWindow), uint8(2), int64(0))
	f.Add("", "r", "", "", int64(1), int64(time.Minute+117), uint8(0), int64(0))
	f.Add(strings.Repeat("n", 64), strings.Repeat("r", 64), "! #$%&'()*+,-./:;<=>?@[]^_`{|}~", "",
		int64(core.MaxLogRequests), int64(core.MinWindow), uint8(0), int64(10*time.Microsecond))
	f.Add("a\"b", "", "täglich", "täglich", int64(0), int64(1500), uint8(9), int64(-1))
	f.Add(strings.Repeat("n", 65), strings.Repeat("é", 33), "a\xff", "\x00",
		int64(math.MinInt64), int64(math.MaxInt64), uint8(0), int64(1))
	f.Fuzz(func(t *testing.T, name, rule, first, second string, requests, window int64, a uint8, timeout int64) {
		given := []core.Limit{
			core.Per(requests, time.Duration(window)).Using(core.Algorithm(a)).Named(first),
			core.PerHour(1).Named(second),
		}
		limits := slices.Clone(given) // with the names that New fills in, and the windows that it rounds up
		var mistakes []string
		for i, l := range limits {
			if part := l.Window % time.Microsecond; part > 0 && l.Window > core.MinWindow && l.Window < core.MaxWindow {
				limits[i].Window += time.Microsecond - part
				l = limits[i]
			}
			if l.Name == "" {
				limits[i].Name = l.Window.String()
			}
			mistakes = append(mistakes, limitMistakes(limits[i])...)
		}
		if limits[0].Name == limits[1].Name {
			mistakes = append(mistakes, "two limits are named "+strconv.Quote(limits[0].Name))
		}
		store := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes))

		inConfig := slices.Clone(mistakes)
		if timeout != 0 && timeout < int64(10*time.Microsecond) {
			inConfig = append(inConfig, fmt.Sprintf("Config.Timeout is %v:", time.Duration(timeout)))
		}
		if mistake := nameMistake(name); mistake != "" {
			inConfig = append(inConfig, mistake)
		}
		l, err := core.New(core.Config{Name: name, Store: store, Limits: given, Timeout: time.Duration(timeout)})
		checkConstruction(t, l, err, inConfig, limits)

		inRule := mistakes
		if rule == "" {
			inRule = append(inRule, "a rule needs a name")
		} else if mistake := nameMistake(rule); mistake != "" {
			inRule = append(inRule, mistake)
		}
		l, err = limiter(t, core.Config{Store: store}).Rule(rule, given...)
		checkConstruction(t, l, err, inRule, limits)
	})
}

// checkConstruction fails unless l is a limiter of the limits that admits a first
// request, or unless there are mistakes and err says what one of them is.
func checkConstruction(t *testing.T, l *core.Limiter, err error, mistakes []string, limits []core.Limit) {
	t.Helper()
	if len(mistakes) == 0 {
		if err != nil || fmt.Sprint(l.Limits()) != fmt.Sprint(limits) {
			t.Fatalf("%v: got %v and the error %v", limits, l, err)
		}
		if d := l.Allow(ctx, "client"); !d.Allowed || d.Err != nil {
			t.Errorf("%v: the first request got %+v", limits, d)
		}
		for _, limit := range l.Limits() {
			checkText(t, limit)
		}
		return
	}
	if err == nil || l != nil {
		t.Fatalf("%q: got %v and the error %v, want an error", mistakes, l, err)
	}
	text := err.Error()
	for _, mistake := range mistakes {
		if strings.HasPrefix(text, "sash: ") && len(text) <= 500 && strings.Contains(text, mistake) {
			return
		}
	}
	t.Errorf("the error %q says none of %q", text, mistakes)
}

// checkText fails unless a limit of a limiter can be written and read again.
func checkText(t *testing.T, limit core.Limit) {
	t.Helper()
	text := limit.String()
	again, err := core.ParseLimit(text)
	if again.Name == "" {
		again.Name = again.Window.String()
	}
	if err != nil || again != limit {
		t.Errorf("%#v is written %q, which is %#v, %v", limit, text, again, err)
	}
}

package core_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// goodName reports whether a name is allowed.
func goodName(name string) bool {
	bad := func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }
	return len(name) <= 64 && !strings.ContainsFunc(name, bad) && strings.TrimSpace(name) == name
}

// goodLimit reports whether a limit is allowed.
func goodLimit(l core.Limit) bool {
	most := int64(core.MaxCounterRequests)
	if l.Algorithm == core.SlidingLog {
		most = core.MaxLogRequests
	}
	return l.Window >= core.MinWindow && l.Window <= core.MaxWindow && l.Requests >= 1 && l.Requests <= most &&
		slices.Contains(core.Algorithms(), l.Algorithm) && goodName(l.Name)
}

// FuzzLimits: New and Rule return a limiter for what is allowed, and an error for anything else (TestConfigErrors).
func FuzzLimits(f *testing.F) {
	minute := int64(time.Minute)
	f.Add("api", "login", "", "burst", int64(100), minute, uint8(0), int64(0))
	for _, a := range core.Algorithms() {
		f.Add("", "r", "bytes", "", int64(1e6), int64(core.MaxWindow), uint8(a), int64(time.Second))
		f.Add("", "r", "1h0m0s", "", int64(core.MaxCounterRequests), int64(core.MinWindow), uint8(a), int64(0))
	}
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
		for i, l := range limits {
			if part := l.Window % time.Microsecond; part > 0 && l.Window > core.MinWindow && l.Window < core.MaxWindow {
				limits[i].Window += time.Microsecond - part
			}
			if l.Name == "" {
				limits[i].Name = limits[i].Window.String()
			}
		}
		good := goodLimit(limits[0]) && goodLimit(limits[1]) && limits[0].Name != limits[1].Name
		store := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes))
		l, err := core.New(core.Config{Name: name, Store: store, Limits: given, Timeout: time.Duration(timeout)})
		inTime := timeout == 0 || timeout >= int64(10*time.Microsecond)
		checkConstruction(t, l, err, good && goodName(name) && inTime, limits)
		l, err = limiter(t, core.Config{Store: store}).Rule(rule, given...)
		checkConstruction(t, l, err, good && goodName(rule) && rule != "", limits)
	})
}

// checkConstruction fails unless l is a limiter of the limits that admits a first request, or err an error of sash.
func checkConstruction(t *testing.T, l *core.Limiter, err error, good bool, limits []core.Limit) {
	t.Helper()
	if !good {
		if l != nil || err == nil || !strings.HasPrefix(err.Error(), "sash: ") || len(err.Error()) > 500 {
			t.Errorf("%v: got %v and the error %v, want a short error of sash", limits, l, err)
		}
		return
	}
	if err != nil || fmt.Sprint(l.Limits()) != fmt.Sprint(limits) {
		t.Fatalf("%v: got %v and the error %v", limits, l, err)
	}
	if d := l.Allow(ctx, "client"); !d.Allowed || d.Err != nil {
		t.Errorf("%v: the first request got %+v", limits, d)
	}
	for _, limit := range l.Limits() {
		again, err := core.ParseLimit(limit.String())
		if again.Name == "" {
			again.Name = again.Window.String()
		}
		if err != nil || again != limit {
			t.Errorf("%#v is written %q, which is %#v, %v", limit, limit.String(), again, err)
		}
	}
}

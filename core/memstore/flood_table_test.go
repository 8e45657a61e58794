package memstore_test

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

var floodTable = flag.Bool("flood", false, "measure what floods cost, for a minute or two, and print a table")

// answers is how many requests were answered in which way.
type answers struct{ counted, refused, full int }

func (a *answers) add(d core.Decision) {
	switch {
	case errors.Is(d.Err, core.ErrStoreFull):
		a.full++
	case d.Allowed:
		a.counted++
	default:
		a.refused++
	}
}

func (a answers) String() string {
	percent := func(n int) float64 { return 100 * float64(n) / float64(a.counted+a.refused+a.full) }
	return fmt.Sprintf("| %.2f %% | %.2f %% | %.2f %% |", percent(a.counted), percent(a.refused), percent(a.full))
}

func newcomers(l *core.Limiter, n int) (a answers) {
	for i := range n {
		a.add(l.Allow(ctx, key("newcomer ", i)))
	}
	return a
}

// spend sends 1200 requests of each of so many clients, ten a second, by limits of
// 10 a second and 1000 a day, and returns how many were admitted above the latter.
func spend(t *testing.T, s *memstore.Store, c *clock, clients int) (above int) {
	l := limiter(t, s, core.PerSecond(10), core.PerDay(1000)).WithPolicy(core.FailOpen)
	admitted := make([]int, clients)
	for range 1200 {
		for i := range clients {
			if l.Allow(ctx, key("2001:db8::", i)).Allowed {
				admitted[i]++
			}
		}
		c.Add(100*time.Millisecond + time.Microsecond)
	}
	for _, n := range admitted {
		above += max(0, n-1000)
	}
	return above
}

// TestFloodTable prints what floods of a store cost others: as a test it runs the
// least of them, with -flood all.
func TestFloodTable(t *testing.T) {
	sizes, scale := []int64{memstore.MinMaxBytes}, 2000
	if *floodTable {
		sizes, scale = []int64{1 << 20, 16 << 20, 128 << 20}, 1
	}
	const crowd = 100_000
	fmt.Println("| MiB | attack | newcomers' limit | counted | refused early | not counted |",
		"time of a request of the attack |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, size := range sizes {
		row := func(attack string, l *core.Limiter, requests int, began time.Time) {
			took := time.Since(began) / time.Duration(requests)
			a := newcomers(l, crowd/min(scale, 100))
			fmt.Printf("| %.4g | %s | %v %v %v |\n", float64(size)/(1<<20), attack, l.Limits()[0], a, took)
		}
		for _, full := range []int{1, 4} {
			clients := full * 16_192 * int(size>>10) / (128 << 10)
			s, c := newStore(size)
			began := time.Now()
			above := spend(t, s, c, clients)
			attack := fmt.Sprintf("%d clients at 1000 a day, who got %d more", clients, above)
			login := core.Must(limiter(t, s, core.PerDay(1)).Rule("login", core.Per(5, 15*time.Minute)))
			row(attack, login, clients*1200, began)
		}
		limits := []core.Limit{core.PerHour(1), core.Per(5, 15*time.Minute), core.PerHour(100), core.PerDay(1000)}
		for _, limit := range limits {
			s, _ := newStore(size)
			l := limiter(t, s, limit)
			names := 10_000_000 / scale
			began := time.Now()
			for i := range names {
				l.Allow(ctx, key("name ", i))
			}
			row(fmt.Sprintf("%d names", names), l, names, began)
		}
		mixed(t, size, 5_000_000/scale)
	}
}

// mixed prints what 10,000 good clients get, each with a request a minute of 100 an
// hour, while an hour's flood of names goes on.
func mixed(t *testing.T, size int64, names int) {
	c := newClock()
	l := limiter(t, memstore.New(memstore.WithMaxBytes(size), memstore.WithClock(c.Now)), core.PerHour(100))
	good := int(min(10_000, size>>11))
	var a answers
	for minute := range 60 {
		for i := range good {
			a.add(l.Allow(ctx, key("good ", i)))
		}
		for i := range names / 60 {
			l.Allow(ctx, key("name ", minute*names+i))
			c.Add(time.Minute / time.Duration(names/60+1))
		}
	}
	fmt.Printf("| %.4g | %d names in an hour | %d good clients, 60 of 100 an hour %v |\n",
		float64(size)/(1<<20), names, good, a)
}

// TestGuesses: a client that stops one below its limit of ten a day, and has a flood
// make room of it before it goes on, has ten guesses a day.
func TestGuesses(t *testing.T) {
	s, c := newStore(memstore.MinMaxBytes)
	l := limiter(t, s, core.PerDay(10))
	flood := core.Must(l.Rule("flood", core.PerMinute(1)))
	guesses := 0
	for minute := range 21 {
		for range 9 {
			if l.Allow(ctx, "guesser").Allowed {
				guesses++
			}
		}
		for i := range 2 * fits(memstore.MinMaxBytes) {
			flood.Allow(ctx, key("flood ", minute*10_000+i))
		}
		c.Add(time.Minute)
	}
	if guesses > 10 {
		t.Errorf("%d guesses in 21 minutes, want 10 at most", guesses)
	}
}

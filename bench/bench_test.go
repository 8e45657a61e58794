package bench

import (
	"fmt"
	"testing"
)

func BenchmarkWeb(b *testing.B)      { benchmarkRaces(b, Env{}, webRaces()) }
func BenchmarkEcho(b *testing.B)     { benchmarkRaces(b, Env{}, echoRaces()) }
func BenchmarkEcho5(b *testing.B)    { benchmarkRaces(b, Env{}, echo5Races()) }
func BenchmarkDecision(b *testing.B) { benchmarkRaces(b, Env{}, decisionRaces()) }
func BenchmarkObserver(b *testing.B) { benchmarkRaces(b, Env{}, observedRaces()) }
func BenchmarkParallel(b *testing.B) { benchmarkRaces(b, Env{}, parallelRaces()) }

// benchmarkRaces measures one contestant after the other in this process.
func benchmarkRaces(b *testing.B, env Env, races []Race) {
	for _, r := range races {
		for _, c := range r.Contestants {
			b.Run(r.Name+"/"+c.Name, func(b *testing.B) {
				work, err := c.Open(env)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				if err := work(b.N); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

func BenchmarkThroughput(b *testing.B) {
	for _, r := range throughputRaces() {
		if err := withRedis(r, func(env Env) error { benchmarkRaces(b, env, []Race{r}); return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMemory reports the bytes per live key, with fewer keys than the table.
func BenchmarkMemory(b *testing.B) {
	const keys = 100_000
	race := memoryRace()
	for _, c := range race.Contestants {
		b.Run(c.Name, func(b *testing.B) {
			var bytes float64
			for b.Loop() {
				var err error
				if bytes, err = bytesPerKey(race, c, keys); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(bytes, "B/key")
		})
	}
}

// BenchmarkScripts reports the server's time per decision. An operation is a
// turn of 256 decisions.
func BenchmarkScripts(b *testing.B) {
	for i, cast := range casts() {
		for j, make := range cast.actors {
			if i > 0 && j == 0 {
				continue // the unit is the same in each race
			}
			l := openLab(b)
			a, err := make(l)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(cast.name+"/"+a.name, func(b *testing.B) {
				var micros []float64
				for b.Loop() {
					m, err := l.turn(a)
					if err != nil {
						b.Fatal(err)
					}
					micros = append(micros, m)
				}
				b.ReportMetric(median(micros), "server-us/decision")
			})
			if a.checkCounts == nil {
				continue
			}
			if err := a.checkCounts(); err != nil {
				b.Errorf("%s: %v", a.name, err)
			}
		}
	}
}

// BenchmarkSteady reports the server's time per decision of logs in steady state. A
// log reaches that state after the length of its window.
func BenchmarkSteady(b *testing.B) {
	for _, s := range steadies() {
		if s.entries > 1000 {
			continue // it takes half a minute to fill: cmd/compare alone measures it
		}
		b.Run(fmt.Sprintf("%s, %d in a script", s.name, s.together), func(b *testing.B) {
			for b.Loop() {
				rows, err := s.run(1)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(median(rows[1].Values), "server-us/decision")
			}
		})
	}
}

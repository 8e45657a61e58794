package bench

import (
	"fmt"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
)

const (
	massExpiry   = 100_000         // entries of a log
	expiryLogs   = 4               // logs
	expiryWindow = 8 * time.Second // longer than the time to fill the logs
)

// runExpiry fills logs with 100,000 entries, waits until these have expired, and
// measures how long one more request to each log blocks the server. In half of the
// logs all entries have expired, and in the others all but the newest.
func runExpiry(c Config) ([]Row, error) {
	c.progress("mass expiry in Redis")
	const all, allButOne = "all of 100000", "all but the newest of 100001"
	valuesByName := map[string][]float64{}
	err := withLab(func(l *lab) error {
		log, err := l.expiredLogs()
		if err != nil {
			return err
		}
		for i := range log.encoded {
			name, left := all, int64(1)
			if i < expiryLogs/2 {
				name, left = allButOne, 2
			}
			micros, err := l.expire(log, i, left)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			valuesByName[name] = append(valuesByName[name], float64(micros))
		}
		return nil
	})
	var rows []Row
	for _, name := range []string{all, allButOne} {
		if values := valuesByName[name]; len(values) > 0 {
			rows = append(rows, Row{
				What: "mass expiry, blocks Redis for", Name: name, Unit: "us",
				Values: []float64{slices.Max(values)}, Goal: Goal{Value: new(2000.0)},
			})
		}
	}
	return rows, err
}

// expiredLogs fills the logs and waits until the entries have expired. The first
// half of the logs gets one more entry, which has not.
func (l *lab) expiredLogs() (*sashCalls, error) {
	start := time.Now()
	log, err := l.sash(expiryLogs, core.Per(core.MaxLogRequests, expiryWindow))
	if err != nil {
		return nil, err
	}
	if err := log.fill(massExpiry); err != nil {
		return nil, err
	}
	filled := time.Now()
	if filled.Sub(start) > expiryWindow/2 {
		return nil, fmt.Errorf("the machine is too slow: %v to fill a log", filled.Sub(start))
	}
	time.Sleep(expiryWindow / 4)
	for _, command := range log.encoded[:expiryLogs/2] {
		if err := l.wire.pipeline(command, 1, nil); err != nil {
			return nil, err
		}
	}
	time.Sleep(time.Until(filled.Add(expiryWindow + 100*time.Millisecond)))
	return log, nil
}

// expire sends one more request of client i and returns the server's microseconds
// for it. The number of entries after the request must be left.
func (l *lab) expire(log *sashCalls, i int, left int64) (micros int64, err error) {
	micros, err = l.cost(1, func() error { return l.wire.pipeline(log.encoded[i], 1, nil) })
	if err != nil {
		return 0, err
	}
	entries, err := log.entries(i)
	if err == nil && entries != left {
		err = fmt.Errorf("%d entries are left, not %d", entries, left)
	}
	return micros, err
}

package bench

import (
	"context"
	"fmt"

	"github.com/sashlimit/sash/core"
)

// usage returns the bytes of all keys of the server, as MEMORY USAGE reports them.
func (l *lab) usage() (float64, error) {
	ctx := context.Background()
	keys, err := l.rdb.Keys(ctx, "*").Result()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, key := range keys {
		bytes, err := l.rdb.MemoryUsage(ctx, key, 0).Result()
		if err != nil {
			return 0, err
		}
		total += bytes
	}
	return float64(total), nil
}

// runBytes measures the bytes per entry of logs and of sorted sets, with their keys.
func runBytes(c Config) (rows []Row, err error) {
	c.progress("bytes per log entry in Redis")
	err = withLab(func(l *lab) error {
		for _, list := range []struct {
			name string
			fill func(*lab, int) error
			goal Goal
		}{
			{"log", (*lab).fillLog, Goal{Value: new(12.0)}},
			{"sorted set", (*lab).fillSortedSet, Goal{}},
		} {
			for _, entries := range []int{100, 1000, 10_000} {
				goal := list.goal
				if entries < 1000 { // most bytes of a short list are its key's
					goal = Goal{}
				}
				bytes, err := l.bytesPerEntry(list.fill, entries)
				if err != nil {
					return err
				}
				rows = append(rows, Row{
					What: "MEMORY USAGE per entry, key and all", Name: fmt.Sprintf("%s, %d", list.name, entries),
					Unit: "B", Values: []float64{bytes}, Goal: goal,
				})
			}
		}
		return nil
	})
	return rows, err
}

// bytesPerEntry empties the server, fills one list and returns its bytes per entry.
func (l *lab) bytesPerEntry(fill func(*lab, int) error, entries int) (float64, error) {
	if err := l.rdb.FlushAll(context.Background()).Err(); err != nil {
		return 0, err
	}
	if err := fill(l, entries); err != nil {
		return 0, err
	}
	bytes, err := l.usage()
	return bytes / float64(entries), err
}

// fillLog adds entries to the log of one client of sash.
func (l *lab) fillLog(entries int) error {
	log, err := l.sash(1, core.PerHour(100_000))
	if err != nil {
		return err
	}
	return log.fill(entries)
}

// fillSortedSet adds entries to the sorted set of one client.
func (l *lab) fillSortedSet(entries int) error {
	set, err := l.sortedSet(1, 0, unlimited)
	if err != nil {
		return err
	}
	for range entries {
		if err := l.wire.pipeline(set.commands[0], 1, set.checkReply); err != nil {
			return err
		}
	}
	return nil
}

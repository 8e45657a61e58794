package sashprom

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// bounds are the upper bounds of the buckets, from 100 ns, below which no store in
// memory answers, to the default of core.Config.Timeout.
var bounds = [...]time.Duration{
	100, 250, 500,
	1 * time.Microsecond, 2500, 5 * time.Microsecond,
	10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond,
}

// histogram counts durations. It is safe for concurrent use. An observation writes
// to half as many places as one of prometheus.Histogram does: the count is the sum of
// the buckets, and the sum is an integer.
type histogram struct {
	buckets [len(bounds) + 1]atomic.Uint64 // the last one is for what exceeds all bounds
	sum     atomic.Int64                   // nanoseconds
}

// observe counts d.
func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// metric returns the histogram as Prometheus reads it, or nil while it is empty.
func (h *histogram) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	cumulative := make(map[float64]uint64, len(bounds))
	var count uint64
	sum := h.sum.Load()
	for i := range h.buckets {
		count += h.buckets[i].Load()
		if i < len(bounds) {
			cumulative[bounds[i].Seconds()] = count
		}
	}
	if count == 0 {
		return nil
	}
	return prometheus.MustNewConstHistogram(desc, count, time.Duration(sum).Seconds(), cumulative, labels...)
}

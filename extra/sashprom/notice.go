package sashprom

import (
	"context"
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sashlimit/sash/core"
)

// noticeKey names what is counted of notices.
type noticeKey struct{ limiter, rule, code string }

// notices counts notices. It is safe for concurrent use.
type notices struct {
	mu    sync.Mutex
	byKey map[noticeKey]uint64 // maxSeries at most, and one for what comes later
}

// add counts a notice.
func (n *notices) add(k noticeKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.byKey[k]; !known && len(n.byKey) >= maxSeries {
		k = noticeKey{otherLabel, otherLabel, otherLabel}
	}
	n.byKey[k]++
}

// collect sends how many notices there were of each code.
func (n *notices) collect(desc *prometheus.Desc, to chan<- prometheus.Metric) {
	n.mu.Lock()
	byKey := maps.Clone(n.byKey)
	n.mu.Unlock()
	for k, n := range byKey {
		to <- count(desc, n, k.limiter, k.rule, k.code)
	}
}

var _, _ core.NoticeObserver = (*Metrics)(nil), (*store)(nil)

// Notice counts a notice.
func (m *Metrics) Notice(_ context.Context, n core.Notice) {
	m.notices.add(noticeKey{cleanLabel(n.Name), cleanLabel(n.Rule), cleanLabel(n.Code)})
}

// Notice counts a notice. Notices are of limiters, and not of stores.
func (s *store) Notice(ctx context.Context, n core.Notice) { s.metrics.Notice(ctx, n) }

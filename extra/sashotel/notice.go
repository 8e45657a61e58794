package sashotel

import (
	"sync"
	"sync/atomic"

	"github.com/sashlimit/sash/core"
)

// noticeKey names what is counted of notices.
type noticeKey struct{ limiter, rule, code string }

// noticeSet counts notices. It is safe for concurrent use.
type noticeSet struct {
	mu       sync.Mutex
	byKey    map[noticeKey]*atomic.Int64 // maxSeries at most, and one for what comes later
	counters counters
}

func newNoticeSet() *noticeSet { return &noticeSet{byKey: map[noticeKey]*atomic.Int64{}} }

// add counts a notice.
func (s *noticeSet) add(n core.Notice) {
	k := noticeKey{clean(n.Name), clean(n.Rule), clean(n.Code)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[k] == nil && len(s.byKey) >= maxSeries {
		k = noticeKey{otherText, otherText, otherText}
	}
	count := s.byKey[k]
	if count == nil {
		count = new(atomic.Int64)
		s.byKey[k] = count
		s.counters.report(count, limiterKey.String(k.limiter), ruleKey.String(k.rule), noticeCodeKey.String(k.code))
	}
	count.Add(1)
}

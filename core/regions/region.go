package regions

import (
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

// region is a region as this process sees it. It is safe for concurrent use.
type region struct {
	name  string
	store core.Store

	failing atomic.Int64 // since when no question is answered, a time.Duration since the epoch; 0: the last one was
	probing atomic.Bool  // a question is under way to see whether a silent region is back
	latest  atomic.Int64 // when the latest answer came; 0: none has
	spilled atomic.Uint64
}

// silent reports whether the region has not answered for so long that it counts as silent.
func (r *region) silent(now time.Duration) bool {
	since := time.Duration(r.failing.Load())
	return since > 0 && now-since > silence
}

// mayAsk reports whether the region may be looked at: a silent one is asked one question at a time.
func (r *region) mayAsk(now time.Duration) bool {
	return !r.silent(now) || r.probing.CompareAndSwap(false, true)
}

// answered notes what became of a question.
func (r *region) answered(err error, sent, came time.Duration) {
	r.probing.Store(false)
	if err != nil {
		r.failing.CompareAndSwap(0, int64(sent))
		return
	}
	r.failing.Store(0)
	r.latest.Store(int64(came))
}

package memstore

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/sashlimit/sash/core"
)

// BenchmarkTail prints the longest own work of a decision by its cause, in microseconds of processor time: the longest
// in each of nine shards, but for one in a hundred, which an interrupt may have made longer; and of these the median. A
// shard gets as many bytes as where all fill alike, and then twice as many clients as it holds.
func BenchmarkTail(b *testing.B) {
	for _, size := range []int64{DefaultMaxBytes, 4 << 30} {
		b.Run(fmt.Sprintf("%dMiB", size>>20), func(b *testing.B) {
			for b.Loop() {
				for cause, longest := range tail(b, size) {
					slices.Sort(longest)
					b.ReportMetric(float64(longest[len(longest)/2].Nanoseconds())/1000, cause+"-µs")
				}
			}
		})
	}
}

// tail returns the longest decisions of some shards, by cause.
func tail(b *testing.B, size int64) map[string][]time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	found := map[string][]time.Duration{}
	now := time.UnixMicro(midday)
	s := New(WithMaxBytes(size), WithClock(func() time.Time { return now }))
	counter := bind(b, s, core.PerDay(10).Using(core.SlidingCounter))
	other := bind(b, s, core.PerHour(10).Using(core.SlidingCounter))
	log := bind(b, s, core.PerDay(1000))
	for i := range 9 {
		sh, all := &s.shards[i], map[string][]time.Duration{}
		s.common.Store(s.share) // what the shard may borrow
		keys := rand.New(rand.NewPCG(1, uint64(i)))
		decide := func(c *ledger, h hash, ahead int64) {
			r := &request{hash: h, now: midday + ahead, cost: 1}
			was, sketch, evictions := sh.table, sh.sketch, sh.events.evictions
			begin := processorTime()
			c.take(sh, r, true)
			sh.tick(r.now)
			took := processorTime() - begin
			cause := "else"
			switch {
			case len(sh.index) > len(was.index):
				cause = "longer-index"
			case len(sh.index) < len(was.index):
				cause = "shorter-index"
			case (sh.sketch == nil) != (sketch == nil):
				cause = "sketch"
			case sh.sketch != nil && sh.sketch.bits > 0:
				cause = "class"
			case sh.events.evictions > evictions+1:
				cause = "evictions"
			case sh.events.evictions > evictions:
				cause = "eviction"
			case was.old != nil:
				cause = "migration"
			case sh.n < was.n:
				cause = "sweep"
			}
			all[cause] = append(all[cause], took)
		}
		filled := 0
		for sh.sketch == nil {
			decide(counter, hash(keys.Uint64()), 0)
			filled++
		}
		for range filled {
			decide(counter, hash(keys.Uint64()), 0)
		}
		for range 2000 { // a log in a full store
			decide(log, hash(1), 0)
		}
		for range 1000 { // another class of windows in the sketch
			decide(other, hash(keys.Uint64()), 0)
		}
		for range 16 * filled { // all expires
			decide(other, hash(2), (72 * time.Hour).Microseconds())
		}
		for cause, d := range all {
			slices.Sort(d)
			found[cause] = append(found[cause], d[(len(d)-1)*99/100])
		}
	}
	return found
}

// processorTime returns what this thread has worked: a busy machine does not add to it.
func processorTime() time.Duration {
	const ofThread = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, ofThread, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano())
}

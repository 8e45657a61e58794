//go:build !race && !short

package script_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestScriptFull: a server that takes no more data refuses the clients that it knows, also where what they have used is
// too far ahead of the clock, and takes units back. Each request of a batch is answered for itself: a newcomer that the
// server is full.
func TestScriptFull(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for _, a := range core.Algorithms() {
		rdb.FlushAll(ctx)
		c, larger := bind(t, rdb, core.PerDay(1).Using(a)), bind(t, rdb, core.PerDay(5).Using(a))
		var batch []request
		for i := range 16 {
			known := fmt.Sprint("known ", i)
			if d, err := c.take(core.Ask{Key: known, Cost: 1}); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			batch = append(batch, asking(c, fmt.Sprint("new ", i), 1, true), asking(c, known, 1, true))
		}
		first, err := larger.take(core.Ask{Key: "k", Cost: 4})
		if _, more := larger.take(core.Ask{Key: "k", Cost: 1}); err != nil || more != nil {
			t.Fatal(err, more)
		}
		putFull(rdb, c.key("ahead"), a)
		before := dump(t, rdb, c, "ahead")
		rdb.ConfigSet(ctx, "maxmemory", "1")
		reply, err := together(rdb, batch)
		if err != nil {
			t.Fatal(err)
		}
		decisions, errs := readTogether(batch, reply)
		for i, d := range decisions {
			err := errs[i]
			if newcomer := i%2 == 0; newcomer != mentionsError(err, "OOM") || !newcomer && (err != nil || d.Allowed) {
				t.Errorf("%v, %s: %+v, %v", a, batch[i].Key, d, err)
			}
		}
		if n, err := larger.giveBack(core.Refund{Key: "k", Cost: 4, At: first.At, Units: 3}); n != 3 || err != nil {
			t.Errorf("%v: %d taken back, %v", a, n, err)
		}
		if d, err := larger.take(core.Ask{Key: "k"}); err != nil || d.Remaining != 3 {
			t.Errorf("%v, after units were taken back: %+v, %v", a, d, err)
		}
		if d, err := c.take(core.Ask{Key: "ahead", Cost: 1}); err != nil || d.Allowed || d.RetryAfter > 48*time.Hour {
			t.Errorf("%v, ahead of the clock: %+v, %v", a, d, err)
		}
		if after := dump(t, rdb, c, "ahead"); after == before {
			t.Errorf("%v: %s stays", a, before)
		}
		larger = bind(t, rdb, core.PerDay(5).Using(a))
		if a == core.Bucket { // all of a day is owed by any limit of a day
			larger = larger.with([]core.Limit{core.Per(5, 10*24*time.Hour).Using(a)}, 0)
		}
		if d, err := larger.take(core.Ask{Key: "ahead", Cost: 1}); !mentionsError(err, "OOM") {
			t.Errorf("%v: %+v, %v", a, d, err)
		}
		rdb.ConfigSet(ctx, "maxmemory", "0")
	}
}

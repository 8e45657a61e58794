package memstore_test

import (
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

func TestOptionErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		option memstore.Option
		says   []string
	}{
		{"negative", memstore.WithMaxBytes(-1), []string{"WithMaxBytes(-1)", "65536"}},
		{"too little", memstore.WithMaxBytes(memstore.MinMaxBytes - 1), []string{"WithMaxBytes(65535)", "65536", "64 KiB"}},
		{"too much", memstore.WithMaxBytes(512<<30 + 1), []string{"WithMaxBytes(549755813889)", "549755813888", "512 GiB"}},
		{"no clock", memstore.WithClock(nil), []string{"WithClock(nil)", "time.Now"}},
		{"nil", nil, []string{"option 1 of memstore is nil"}},
	} {
		s := memstore.New(c.option, memstore.WithMaxBytes(1<<20))
		_, err := core.New(core.Config{Store: s, Limits: []core.Limit{core.PerMinute(1)}})
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, say := range c.says {
			if !strings.Contains(err.Error(), say) {
				t.Errorf("%s: the error %q does not say %q", c.name, err, say)
			}
		}
	}
	for _, n := range []int64{memstore.MinMaxBytes, 512 << 30} {
		s := memstore.New(memstore.WithMaxBytes(n))
		if d := limiter(t, s, core.PerMinute(1)).Allow(ctx, "k"); !d.Allowed || s.Stats().Bytes > n {
			t.Errorf("%d bytes: %+v", n, d)
		}
	}
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
)

// usage checks Usage against the model, and that it changes nothing.
func (s *suite) usage() {
	s.usageOfNothing()
	ms := time.Millisecond
	// Each with a limit below 20, which no store leases.
	rules := slices.Concat(
		byEach(core.Per(5, 10*ms)), byEach(perYear(19)),
		byEach(core.Per(3, 5*ms), core.Per(10, 40*ms).Named("second"), perYear(400)),
	)
	s.each(rules, func(s *suite, i int, limits []core.Limit) {
		s.usageHistory(limits, rand.New(rand.NewPCG(uint64(i), 6)))
	})
}

// usageOfNothing checks what is returned without counts, and without a client.
func (s *suite) usageOfNothing() {
	for i, limits := range byEach(perYear(3), perYear(9).Named("second")) {
		l := s.limiter(limits...)
		uses, err := l.Usage(ctx, fmt.Sprint("nobody ", i))
		if err != nil || len(uses) != len(limits) {
			s.Fatalf("%v, %v, want a use for each of %v", uses, err, limits)
		}
		var none model.Client
		if want := none.Usage(l.Limits(), uses[0].At); !slices.Equal(uses, want) {
			s.Fatalf("of nobody:\n got %+v\nwant %+v", uses, want)
		}
	}
	l := s.limiter(perYear(3))
	if uses, err := l.Usage(ctx, ""); uses != nil || !errors.Is(err, core.ErrInvalid) {
		s.Fatalf("of an empty key: %v, %v, want ErrInvalid", uses, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if uses, err := l.Usage(ended, "client"); uses != nil || err != context.Canceled {
		s.Fatalf("with an ended context: %v, %v, want context.Canceled", uses, err)
	}
}

// usageHistory compares 200 decisions and as many answers of Usage with the model, while
// the first limit is raised and lowered.
func (s *suite) usageHistory(limits []core.Limit, rng *rand.Rand) {
	l := s.limiter(limits...)
	var client model.Client
	for step := range 200 {
		if step%25 == 24 {
			limits = slices.Clone(limits)
			limits[0].Requests = 1 + 4*rng.Int64N(3)
			l = s.limiter(limits...)
		}
		cost := rng.Int64N(4)
		d := l.AllowN(ctx, "client", cost)
		if d.Err != nil {
			s.Fatal(d.Err)
		}
		want := client.Decide(limits, d.At, cost, true)
		want.Source, want.Region = d.Source, d.Region
		if d != want {
			s.Fatalf("step %d, cost %d, after Usage:\n got %+v\nwant %+v", step, cost, d, want)
		}
		uses, err := l.Usage(ctx, "client")
		if err != nil || len(uses) != len(limits) {
			s.Fatalf("step %d: %v, %v, want a use for each of %v", step, uses, err, limits)
		}
		if want := client.Usage(limits, uses[0].At); !slices.Equal(uses, want) {
			s.Fatalf("step %d:\n got %+v\nwant %+v", step, uses, want)
		}
		if rng.IntN(4) == 0 {
			time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Millisecond))))
		}
	}
}

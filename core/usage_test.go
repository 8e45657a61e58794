package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// usesNothing has a Ledger that answers for no limit.
type usesNothing struct{ core.Ledger }

func (usesNothing) Usage(context.Context, string) ([]core.Usage, error) { return nil, nil }

// TestUsageOfIncompleteStore: a store that does not answer for each limit is an error.
func TestUsageOfIncompleteStore(t *testing.T) {
	l := limiter(t, core.Config{Store: bindsNothing{usesNothing{}}})
	if uses, err := l.Usage(ctx, "k"); uses != nil || !errors.Is(err, core.ErrStore) ||
		!strings.Contains(err.Error(), "0 uses for 1 limits") {
		t.Errorf("%v, %v, want ErrStore with the number of uses", uses, err)
	}
}

func ExampleLimiter_Usage() {
	limiter := core.Must(core.New(core.Config{
		Name:   "api",
		Store:  memstore.New(),
		Limits: []core.Limit{core.PerMinute(10), core.PerHour(1000)},
	}))
	limiter.AllowN(ctx, "user:42", 4)
	uses, err := limiter.Usage(ctx, "user:42")
	if err != nil {
		fmt.Println(err)
	}
	for _, u := range uses {
		fmt.Println(u.Used, "used,", u.Remaining, "left of", u.Limit.Name)
	}
	// Output:
	// 4 used, 6 left of 1m0s
	// 4 used, 996 left of 1h0m0s
}

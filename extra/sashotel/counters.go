package sashotel

import (
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// counters are what a metric reports, in the order in which they came. The order is kept,
// since an SDK that tells no more sets of attributes apart adds up the last ones. Counters
// are safe for concurrent use.
type counters struct {
	mu  sync.Mutex
	all []reported
}

// reported is a counter with its attributes.
type reported struct {
	n       *atomic.Int64
	options []metric.ObserveOption
}

// report makes n one of the counters.
func (c *counters) report(n *atomic.Int64, attributes ...attribute.KeyValue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set := metric.WithAttributeSet(attribute.NewSet(attributes...))
	c.all = append(c.all, reported{n, []metric.ObserveOption{set}})
}

func (c *counters) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// observe tells an SDK the counters.
func (c *counters) observe(o metric.Observer, as metric.Int64Observable) {
	c.mu.Lock()
	all := c.all
	c.mu.Unlock()
	for _, r := range all {
		o.ObserveInt64(as, r.n.Load(), r.options...)
	}
}

package attack_test

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sashlimit/sash/examples/internal/apptest"
)

// table writes what came of the attacks: for each the checks and the failures of each framework, with how long all
// took and what the slowest answer took, and then the sums for each store.
func table(battles []*battle) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 1, ' ', tabwriter.Debug)
	fmt.Fprint(w, "store\tattack\tchecks")
	for _, name := range apptest.Frameworks {
		fmt.Fprintf(w, "\t%s failed", name)
	}
	fmt.Fprintln(w, "\tdiffer\ttook\tslowest answer")
	var stores []string
	sums := map[string]*row{}
	for _, b := range battles {
		if sums[b.store] == nil {
			stores = append(stores, b.store)
			sums[b.store] = &row{failed: map[string]int{}}
		}
		r := b.row()
		r.print(w, b.store, b.name)
		sums[b.store].add(r)
	}
	for _, store := range stores {
		sums[store].print(w, store, fmt.Sprintf("all %d attacks", sums[store].attacks))
	}
	w.Flush()
	return out.String()
}

// row is a line of the table.
type row struct {
	attacks, checks, differ int
	failed                  map[string]int // by framework
	took, slowest           time.Duration
}

func (b *battle) row() row {
	r := row{attacks: 1, differ: len(b.differs), failed: map[string]int{}, took: b.took}
	for _, x := range b.targets {
		r.checks += x.checks
		r.failed[x.Name] = len(x.problems)
		r.slowest = max(r.slowest, x.slowest)
	}
	return r
}

func (r *row) add(other row) {
	r.attacks += other.attacks
	r.checks += other.checks
	r.differ += other.differ
	r.took += other.took
	r.slowest = max(r.slowest, other.slowest)
	for name, n := range other.failed {
		r.failed[name] += n
	}
}

func (r *row) print(w *tabwriter.Writer, store, name string) {
	fmt.Fprintf(w, "%s\t%s\t%d", store, name, r.checks)
	for _, framework := range apptest.Frameworks {
		fmt.Fprintf(w, "\t%d", r.failed[framework])
	}
	fmt.Fprintf(w, "\t%d\t%.1f s\t%d ms\n", r.differ, r.took.Seconds(), r.slowest.Milliseconds())
}

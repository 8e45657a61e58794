package replay

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode"

	"github.com/sashlimit/sash/core"
)

// Report is what a log says about limits. Its JSON is for programs.
type Report struct {
	Answer   string    `json:"answer"` // the first sentence of all forms of the report
	Requests int       `json:"requests"`
	Clients  int       `json:"clients"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Notes    []string  `json:"notes"` // what was left out, and what the numbers mean

	Windows []Window `json:"windows"`
	Limits  []Limit  `json:"limits"`   // what was tried
	Refused int      `json:"refused"`  // by the limits, of Requests
	Heavy   []Client `json:"heaviest"` // by refusals, then by requests

	q      requests
	names  []string
	most   [][]uint32 // by window, then by client
	shown  func(client int) string
	shares []float64 // of clients, that Smallest may refuse
}

// Window tells how busy clients were in windows of a length: the requests of a client in its busiest window.
type Window struct {
	Window    string         `json:"window"` // "1m"
	Quantiles map[string]int `json:"quantiles"`
	Max       int            `json:"max"`
	Smallest  []Smallest     `json:"smallest,omitempty"` // where no limit is tried

	length time.Duration
}

// Smallest is the smallest limit of its kind that refuses at most a share of clients.
type Smallest struct {
	Share    float64 `json:"share_of_clients"` // 0, 0.001 or 0.01
	Requests int     `json:"requests"`         // of the limit
	Refused  int     `json:"refused"`          // requests
	Clients  int     `json:"clients"`          // refused
}

// Limit is what a limit would have done. Clients are the number that it refused at least once.
type Limit struct {
	Limit   core.Limit `json:"limit"`
	Route   string     `json:"route,omitempty"` // empty for all
	Refused int        `json:"refused"`
	Clients int        `json:"clients"`
}

// Client is a client of the log. Busiest has its busiest window of each length, Activity its requests in each of 96
// equal parts of the log.
type Client struct {
	Name     string    `json:"name"`
	Requests int       `json:"requests"`
	Refused  int       `json:"refused"`
	Busiest  []int     `json:"busiest"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Activity []int     `json:"activity"`
}

const heavyClients, activityBins = 10, 96

var (
	quantiles = map[string]float64{"p50": .5, "p90": .9, "p99": .99, "p99.9": .999}
	shares    = []float64{0, .001, .01}
)

// Report decides all requests that have been read, and returns what came of it. No more can be read after it.
func (l *Log) Report() (*Report, error) {
	if len(l.names) == 0 {
		return nil, fmt.Errorf("sash: there is no request in the log: %s lines were read%s", count(l.lines), l.instead())
	} else if l.grouped == nil {
		l.grouped = l.group()
	}
	r := &Report{Clients: len(l.names), Limits: []Limit{}, q: l.grouped, names: l.names, shown: l.shown, shares: shares}
	r.First, r.Last = stamp(r.q[0][0]), stamp(0)
	for _, of := range r.q {
		r.Requests += len(of)
		if first := stamp(of[0]); first.Before(r.First) {
			r.First = first
		}
		if last := stamp(of[len(of)-1]); last.After(r.Last) {
			r.Last = last
		}
	}
	windows := slices.Clone(l.config.Windows)
	for _, rule := range l.config.rules() {
		for _, limit := range rule.Limits {
			r.Limits, windows = append(r.Limits, Limit{Limit: limit, Route: rule.Name}), append(windows, limit.Window)
			r.shares = nil // deciding them takes longer than the limits
		}
	}
	slices.Sort(windows)
	for _, length := range slices.Compact(windows) {
		if err := r.measure(length); err != nil {
			return nil, err
		}
	}
	if err := r.tryAll(l.config.rules()); err != nil {
		return nil, err
	}
	r.tell(l)
	return r, nil
}

// measure adds the window of a length.
func (r *Report) measure(length time.Duration) error {
	w, most := Window{Window: windowText(length), Quantiles: map[string]int{}, length: length}, make([]uint32, r.Clients)
	for c := range most {
		most[c] = uint32(busiest(r.q[c], length))
	}
	sorted := slices.Sorted(slices.Values(most))
	for name, part := range quantiles {
		w.Quantiles[name] = int(sorted[int(math.Ceil(part*float64(len(sorted))-1e-9))-1])
	}
	w.Max = int(sorted[len(sorted)-1])
	for _, share := range r.shares {
		s := Smallest{Share: share, Requests: int(sorted[len(sorted)-1-int(share*float64(len(sorted))+1e-9)])}
		if limit, err := core.Per(int64(s.Requests), length), error(nil); s.Requests < w.Max {
			if s.Requests > core.MaxLogRequests {
				limit = limit.Using(core.CoarseLog)
			}
			if s.Refused, s.Clients, _, err = r.try(limit, most, s.Requests); err != nil {
				return err
			}
		}
		w.Smallest = append(w.Smallest, s)
	}
	r.Windows, r.most = append(r.Windows, w), append(r.most, most)
	return nil
}

// tryAll decides all requests under rules. Without limits it takes as the answer the limit of a window that refuses at
// most one client in a hundred.
func (r *Report) tryAll(rules []Route) error {
	refused, clients, by := make([]int, r.Clients), 0, map[[2]int]bool{} // by limit and client
	err := r.decide(rules, r.mayBeRefused, func(e event, rule int, d *core.Decision) {
		i := max(0, slices.IndexFunc(r.Limits, func(l Limit) bool {
			return l.Route == rules[rule].Name && l.Limit.Requests == d.Limit.Requests &&
				l.Limit.Window == d.Limit.Window && l.Limit.Algorithm == d.Limit.Algorithm
		}))
		if !by[[2]int{i, e.client}] {
			by[[2]int{i, e.client}] = true
			r.Limits[i].Clients++
		}
		if refused[e.client]++; refused[e.client] == 1 {
			clients++
		}
		r.Limits[i].Refused++
		r.Refused++
	})
	if err != nil {
		return err
	}
	tried, n := r.Limits, r.Refused
	if len(tried) == 0 {
		w := r.Windows[len(r.Windows)/2]
		s := w.Smallest[len(shares)-1]
		tried, n, clients = []Limit{{Limit: core.Per(int64(s.Requests), w.length)}}, s.Refused, s.Clients
	}
	r.Answer = sentence(together(tried), n, r.Requests, clients, r.Clients)
	order := make([]int, r.Clients)
	for c := range order {
		order[c] = c
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(refused[b]-refused[a], len(r.q[b])-len(r.q[a]), a-b)
	})
	for _, c := range order[:min(heavyClients, len(order))] {
		r.Heavy = append(r.Heavy, r.client(c, refused[c]))
	}
	return nil
}

// mayBeRefused reports whether a client has more than half of a limit in a window. No algorithm refuses another one:
// what has left a log may still count in the others, but not for another window.
func (r *Report) mayBeRefused(client int) bool {
	return slices.ContainsFunc(r.Limits, func(l Limit) bool {
		w := slices.IndexFunc(r.Windows, func(w Window) bool { return w.length == l.Limit.Window })
		return 2*int64(r.most[w][client]) > l.Limit.Requests
	})
}

// client returns what the report says of a client.
func (r *Report) client(c, refused int) Client {
	of := r.q[c]
	told := Client{Name: r.shown(c), Requests: len(of), Refused: refused, Activity: make([]int, activityBins),
		First: stamp(of[0]), Last: stamp(of[len(of)-1])}
	for w := range r.Windows {
		told.Busiest = append(told.Busiest, int(r.most[w][c]))
	}
	for _, at := range of {
		told.Activity[stamp(at).Sub(r.First)*activityBins/(r.Last.Sub(r.First)+time.Microsecond)]++
	}
	return told
}

// shown returns the name of a client for people: as it is, if it can be printed.
func (l *Log) shown(client int) string {
	name := l.names[client]
	if l.config.HashNames {
		return fmt.Sprintf("client %x", sha256.Sum256([]byte(l.salt+name)))[:19]
	}
	for _, r := range name {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return strconv.Quote(name)
		}
	}
	return name
}

// instead says how many lines are no requests of the report, and why.
func (l *Log) instead() (text string) {
	for i, n := range l.left {
		if n > 0 {
			text += fmt.Sprintf(", %s %s", count(n), lefts[i])
		}
	}
	if l.whyUnnamed != nil && !l.config.HashNames {
		text += fmt.Sprintf(" (%.200q)", l.whyUnnamed.Error())
	}
	return text
}

// tell adds the notes.
func (r *Report) tell(l *Log) {
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	r.Notes = append(r.Notes, l.notes...)
	if text := l.instead(); text != "" {
		note("Of %s lines%s.", count(l.lines), text[1:])
	}
	for _, example := range l.examples {
		note("Unreadable: %s.", example)
	}
	note("A refused client here sends what the log has: it neither waits nor comes back. All requests are sorted by " +
		"time, however far a line or file is out of order.")
	if l.left[beyond] > 0 {
		note("The memory of %s bytes was full: the last %s requests, in the order of reading, are not looked at. "+
			"Give fewer files or a choice of requests.", count(int(l.config.MaxBytes)), count(l.left[beyond]))
	}
	if !l.fraction {
		note("Times are whole seconds. Within a second the order is unknown, so windows of a few seconds are upper bounds: " +
			"no 9 seconds held more requests of a client than its busiest window of 10s.")
	}
}

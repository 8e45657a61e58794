package replay

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// Report is the result of replaying a log. Its JSON is for programs.
type Report struct {
	Answer   string    `json:"answer"` // the first sentence of all forms of the report
	Requests int       `json:"requests"`
	Clients  int       `json:"clients"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Notes    []string  `json:"notes"` // skippedText, and the meaning of the numbers

	Windows []Window `json:"windows"`
	Limits  []Limit  `json:"limits"`   // the given limits
	Refused int      `json:"refused"`  // by the limits, of Requests
	Top     []Client `json:"heaviest"` // by refusals, then by requests

	q        requests
	most     [][]uint32 // by window, then by client
	slack    time.Duration
	progress func(tried, of int)
}

// Window describes the busiest windows of clients: the largest number of a client's requests in any window of a length.
// If a log has whole seconds, it is an upper bound.
type Window struct {
	Window    string         `json:"window"` // "1m"
	Quantiles map[string]int `json:"quantiles"`
	Max       int            `json:"max"`

	// Set is a proposed limit: at least 1.5 times Max, so it refuses no request. Tighter is about half of it, with its
	// effect on the busiest clients.
	Set     core.Limit `json:"set"`
	Tighter Limit      `json:"tighter"`

	length time.Duration
}

// Limit is the effect of a limit. Clients is the number of clients that it refused at least once.
type Limit struct {
	Limit   core.Limit `json:"limit"`
	Route   string     `json:"route,omitempty"` // empty for all
	Refused int        `json:"refused"`
	Clients int        `json:"clients"`
}

// Client is a client of the log. Refused is by all limits together, or without any by Tighter of the middle window.
// Peak has its busiest window of each length, Timeline its requests in each of 96 equal parts of the log.
type Client struct {
	Name     string    `json:"name"`
	Requests int       `json:"requests"`
	Refused  int       `json:"refused"`
	Peak     []int     `json:"busiest"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Timeline []int     `json:"activity"`

	id int
}

const topClients, timelineParts = 10, 96

var quantiles = map[string]float64{"p50": .5, "p90": .9, "p99": .99, "p99.9": .999}

// Report decides all requests of the log and returns the result. No file can be read after it.
func (l *Log) Report() (*Report, error) {
	if len(l.names) == 0 {
		return nil, fmt.Errorf("sash: there is no request in the log: %s read%s",
			plural(l.lines, "line"), l.skippedText())
	}
	l.reported = true
	r := &Report{Clients: len(l.names), Limits: []Limit{}, q: l.requests, progress: l.config.Progress}
	if l.whole {
		r.slack = time.Second
	}
	r.First, r.Last = stamp(math.MaxInt64), stamp(0)
	for _, of := range r.q {
		slices.Sort(of)
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
		}
	}
	slices.Sort(windows)
	for _, length := range slices.Compact(windows) {
		r.measure(length)
	}
	if err := r.decide(l); err != nil {
		return nil, err
	}
	r.addNotes(l)
	return r, nil
}

// measure adds the window of a length.
func (r *Report) measure(length time.Duration) {
	w := Window{Window: windowText(length), Quantiles: map[string]int{}, length: length}
	most := make([]uint32, r.Clients)
	for c := range most {
		most[c] = uint32(maxInWindow(r.q[c], length+r.slack))
	}
	sorted := slices.Sorted(slices.Values(most))
	for name, part := range quantiles {
		w.Quantiles[name] = int(sorted[int(math.Ceil(part*float64(len(sorted))-1e-9))-1])
	}
	w.Max = int(sorted[len(sorted)-1])
	numbers := upTo((3*w.Max+1)/2, smallSteps)
	set := numbers[len(numbers)-1]
	half := max(1, sort.SearchInts(numbers, set/2+1))
	w.Set, w.Tighter.Limit = w.limit(set), w.limit(numbers[half-1])
	r.Windows, r.most = append(r.Windows, w), append(r.most, most)
}

// limit returns a limit of n in the window by the first algorithm that allows it.
func (w *Window) limit(n int) (l core.Limit) {
	for _, a := range core.Algorithms() {
		l = core.Per(int64(n), w.length).Using(a)
		if _, err := core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{l}}); err == nil {
			break
		}
	}
	return l
}

// decide tries the limits and the tighter ones of all windows.
func (r *Report) decide(l *Log) error {
	refused, clients := make([]int, r.Clients), 0
	if len(r.Limits) > 0 {
		err := newRun(l.config.rules(), r.slack).decide(r.q, nil, func(client int, by []int) {
			for i, n := range by {
				r.Limits[i].Refused += n
				r.Limits[i].Clients += min(n, 1)
				refused[client] += n
			}
			r.Refused += refused[client]
			clients++
		})
		if err != nil {
			return err
		}
		r.Answer = sentence(joinLimits(r.Limits), r.Refused, r.Requests, clients, r.Clients)
	}
	for i := range r.Windows {
		w := &r.Windows[i]
		isAnswer := len(r.Limits) == 0 && i == len(r.Windows)/2
		var err error
		w.Tighter.Refused, w.Tighter.Clients, err = r.try(w.Tighter.Limit, i, func(client, n int) {
			if isAnswer {
				refused[client] = n
			}
		})
		if err != nil {
			return err
		}
		if isAnswer {
			r.Answer = fmt.Sprintf("Set %s: it would have refused nobody, and no client sent more than %s. %s",
				joinLimits([]Limit{{Limit: w.Set}}), count(w.Max)+inWindow(w.length),
				sentence(joinLimits([]Limit{w.Tighter}), w.Tighter.Refused, r.Requests, w.Tighter.Clients, r.Clients))
		}
	}
	order := make([]int, r.Clients)
	for c := range order {
		order[c] = c
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(refused[b]-refused[a], len(r.q[b])-len(r.q[a]), a-b)
	})
	for _, c := range order[:min(topClients, len(order))] {
		r.Top = append(r.Top, r.client(l.displayName(c), c, refused[c]))
	}
	return nil
}

// client returns the Client of a report.
func (r *Report) client(name string, c, refused int) Client {
	of := r.q[c]
	result := Client{Name: name, Requests: len(of), Refused: refused, Timeline: make([]int, timelineParts),
		First: stamp(of[0]), Last: stamp(of[len(of)-1]), id: c}
	for w := range r.Windows {
		result.Peak = append(result.Peak, int(r.most[w][c]))
	}
	for _, at := range of {
		result.Timeline[stamp(at).Sub(r.First)*timelineParts/(r.Last.Sub(r.First)+time.Microsecond)]++
	}
	return result
}

// displayName returns the printable name of a client.
func (l *Log) displayName(client int) string {
	name := l.names[client]
	if l.config.HashNames {
		return fmt.Sprintf("client %x", sha256.Sum256([]byte(l.salt+name)))[:19]
	}
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// skippedText returns the numbers of omitted lines with the reasons.
func (l *Log) skippedText() (text string) {
	for i, n := range l.left {
		if n > 0 {
			text += fmt.Sprintf(", %s %s", count(n), omitReasons[i])
		}
	}
	if l.keyErr != nil && !l.config.HashNames {
		why, _, _ := strings.Cut(l.keyErr.Error(), ";") // the rest names functions of Go
		text += fmt.Sprintf(" (%.200q)", why)
	}
	return text
}

// addNotes adds the notes.
func (r *Report) addNotes(l *Log) {
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	r.Notes = append(r.Notes, l.notes...)
	if text := l.skippedText(); text != "" {
		note("Of %s:%s.", plural(l.lines, "line"), text[1:])
	}
	for _, example := range l.examples {
		note("Unreadable: %s.", example)
	}
	note("A refused client here sends what the log has: it neither waits nor comes back. All requests are sorted by " +
		"time, however far a line or file is out of order.")
	if l.left[memoryFull] > 0 {
		note("The memory of %s bytes was full: the last %s requests, in the order of reading, are not looked at. "+
			"Give fewer files or a choice of requests.", count(l.config.MaxBytes), count(l.left[memoryFull]))
	}
	if l.whole {
		note("Times are whole seconds, so each window is measured and tried as one that is a second longer. So the " +
			"busiest windows, and what a log refuses, are upper bounds: those of 1s may be twice too high.")
	}
}

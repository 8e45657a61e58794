package live

import (
	"time"

	"github.com/sashlimit/sash/core"
)

// The verdicts on a request.
const (
	admitted = "admitted"
	refused  = "refused"
	unknown  = "unknown" // the store failed, and the request was not served
)

// judge is one way to count, and what it has let through. Its session's lock guards it.
type judge struct {
	window            time.Duration
	admitted, refused int
	clients           map[int]*worst
}

// record notes what was decided about a client's request, which was seen at a time, and returns the verdict.
func (j *judge) record(client int, d core.Decision, seen time.Time) string {
	if d.Err != nil {
		return unknown
	}
	if !d.Allowed {
		j.refused++
		return refused
	}
	j.admitted++
	w := j.clients[client]
	if w == nil {
		w = &worst{window: j.window}
		j.clients[client] = w
	}
	w.add(stamp{d.At, seen})
	return admitted
}

// Judged holds the requests that a judge has let through, as the page gets it.
type Judged struct {
	Admitted int `json:"admitted"`
	Refused  int `json:"refused"`

	// Worst is the most requests of one client that were admitted in any window. The first of them was seen at
	// From and the last at To, in milliseconds since 1970; 0 if there are none.
	Worst int     `json:"worst"`
	From  float64 `json:"from"`
	To    float64 `json:"to"`
}

// state returns the sums and the worst window of all clients.
func (j *judge) state() Judged {
	s := Judged{Admitted: j.admitted, Refused: j.refused}
	for client := 1; client <= Clients; client++ { // of several clients with as many, always the same
		if w := j.clients[client]; w != nil && w.most > s.Worst {
			s.Worst, s.From, s.To = w.most, millis(w.first), millis(w.last)
		}
	}
	return s
}

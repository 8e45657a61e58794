package live

import (
	"slices"
	"time"
)

// stamp is one admitted request.
type stamp struct {
	at   time.Time // by the clock of what admitted it
	seen time.Time // by the clock of this process, for the picture
}

// worst finds the window that holds most admitted requests of one client, wherever it starts. It looks at every
// window: one that holds most can be moved until it begins with an admitted request.
type worst struct {
	window time.Duration
	stamps []stamp // in the order of at; older ones than any window to come holds are forgotten

	most        int
	first, last time.Time // when the first and the last request of that window were seen
}

// late bounds how much later than others a request may be added, by its stamp: a decision may wait for its store.
const late = 5 * time.Second

// add adds an admitted request. Requests may come out of order, up to late.
func (w *worst) add(s stamp) {
	i := len(w.stamps)
	for i > 0 && w.stamps[i-1].at.After(s.at) {
		i--
	}
	w.stamps = slices.Insert(w.stamps, i, s)
	end := i
	for begin := i; begin >= 0 && s.at.Sub(w.stamps[begin].at) < w.window; begin-- {
		w.look(begin, &end)
	}
	w.forget()
}

// look counts the window that starts with the request begin. end is an index inside the window that starts later;
// it is lowered to the last request of this window.
func (w *worst) look(begin int, end *int) {
	from := w.stamps[begin].at
	for *end+1 < len(w.stamps) && w.stamps[*end+1].at.Sub(from) < w.window {
		*end++
	}
	for w.stamps[*end].at.Sub(from) >= w.window {
		*end--
	}
	if n := *end - begin + 1; n > w.most {
		w.most, w.first, w.last = n, w.stamps[begin].seen, w.stamps[*end].seen
	}
}

// forget drops what no window holds together with a request that is still to come.
func (w *worst) forget() {
	newest := w.stamps[len(w.stamps)-1].at
	keep := 0
	for newest.Sub(w.stamps[keep].at) > w.window+late {
		keep++
	}
	w.stamps = slices.Delete(w.stamps, 0, keep)
}

package adaptertest

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// login checks a login that counts failures alone, 5 in 15 minutes, under 200 attempts in
// parallel.
func login(t *testing.T, adapter Adapter) {
	const attempts, most = 200, 5
	l := newLimiter(core.Per(most, 15*time.Minute))
	failed := nethttp.CountWhen(func(_ *http.Request, status int) bool { return status == 401 })
	var reached, inside, above atomic.Int64
	right := atomic.Bool{}
	handler := func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		if inside.Add(1) > most {
			above.Add(1)
		}
		defer inside.Add(-1)
		runtime.Gosched() // so that others come meanwhile
		if !right.Load() {
			w.WriteHeader(401)
		}
	}
	h := adapter.Build(Tree{Routes: []Route{route("POST", "/", by(l, failed), handler)}})
	right.Store(true)
	if got := attempt(t, h, attempts, true); got[200] != attempts || reached.Load() != attempts || above.Load() > 0 {
		t.Errorf("right passwords: answers %v, %d reached the handler, %d of them above the limit",
			got, reached.Swap(0), above.Load())
	}
	reached.Store(0)
	right.Store(false)
	if got := attempt(t, h, attempts, false); got[401] != most || got[429] != attempts-most || reached.Load() != most {
		t.Errorf("wrong passwords: answers %v, %d reached the handler; want %d", got, reached.Load(), most)
	}
}

// attempt makes n attempts at once and counts the statuses of the answers. Each attempt is
// made once, or with again until it has a status other than 429, but at most 2000 times: some
// 20 are usual.
func attempt(t *testing.T, h http.Handler, n int, again bool) map[int]int {
	var mu sync.Mutex // guards answers
	answers := map[int]int{}
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			for tries := 1; ; tries++ {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("POST", "/", nil))
				if w.Code == 429 && w.Header().Get("Retry-After") != "900" {
					t.Errorf("refused with %v", w.Header())
				}
				if w.Code == 429 && again && tries < 2000 {
					runtime.Gosched()
					continue
				}
				mu.Lock()
				answers[w.Code]++
				mu.Unlock()
				return
			}
		})
	}
	group.Wait()
	return answers
}

package guard

import (
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/notice"
)

// watch looks at some requests for mistakes in how guards are set up. The guards of a
// limiter and its copies have one watch.
type watch struct {
	first   atomic.Int32 // how many of the first requests were looked at
	sighted atomic.Pointer[sighting]
	proxy   proxyWatch
}

// A watch looks at the first requests of a rule, so that a mistake is told of at once, and
// at one in watchedShare of the others, so that the looks cost nothing.
const (
	watchedFirst = 64
	watchedShare = 256
)

// watchOf returns the watch of a limiter, or nil if no observer would hear of what it
// sees.
func watchOf(l *core.Limiter) *watch {
	if !limiters.Hears(l, notice.CountedTwice) && !limiters.Hears(l, notice.UntrustedProxy) {
		return nil
	}
	return limiters.Shared(l, func() any { return new(watch) }).(*watch)
}

// draws reports whether a request is to be looked at. The microsecond of the store's time is
// as good as a random number, which would take 8 ns. Of a clock that stands still on a whole
// second, and without a time, no decision is drawn but the first ones.
func (w *watch) draws(d *core.Decision) bool {
	return w.first.Load() < watchedFirst && w.first.Add(1) <= watchedFirst ||
		d.At.Nanosecond()/1000%watchedShare == watchedShare/2
}

// look looks at a request that l has decided.
func (w *watch) look(v *Visit, l *core.Limiter, request *core.Request) {
	r, d := v.R, &v.Decision
	if s := w.sighted.Load(); s != nil && s.again(v, l, request) {
		limiters.Notice(r.Context(), v.decider.limiter, notice.CountedTwice, countedTwice)
		return
	}
	if !w.draws(d) {
		return
	}
	if h := v.W.Header(); d.Allowed && request.Cost > 0 && h != nil { // a refused request meets no other guard
		w.sighted.Store(&sighting{h, l, request.Key, request.Cost, r.URL.Path})
	}
	if peer := w.proxy.look(r, request.Key); peer != "" {
		limiters.Notice(r.Context(), v.decider.limiter, notice.UntrustedProxy, "the last requests all came from "+peer+
			", most of them with X-Forwarded-For, and were counted as one client: this is a proxy that "+
			"the key function does not believe; use keyfuncs.IP with keyfuncs.TrustProxies, which takes the "+
			"networks of the proxies; if it does, keyfuncs.OnUntrusted tells why the header is not believed")
	}
}

// forget forgets the request that was sighted if writer is for its response: else a ResponseWriter that is used
// again, as in benchmarks, looks like a request that is counted twice.
func (w *watch) forget(writer http.ResponseWriter) {
	if w == nil {
		return
	}
	if s := w.sighted.Load(); s != nil && s.isFor(writer) {
		w.sighted.CompareAndSwap(s, nil)
	}
}

const countedTwice = "one request was counted twice by this rule: its client gets half of the limit; " +
	"is the middleware mounted twice, or on a router and on a group or a route inside it? " +
	"Mount it once; for a limit of its own inside, make another rule with Limiter.Rule"

// sighting is a request that a guard has admitted. It does not change.
type sighting struct {
	header  http.Header // of the response; that of the request may be large
	limiter *core.Limiter
	key     string
	cost    int64
	path    string
}

// isFor reports whether w is for the response to the request that was sighted. Writers
// around another writer have the same header; only an http.TimeoutHandler has its own.
func (s *sighting) isFor(w http.ResponseWriter) bool {
	return reflect.ValueOf(w.Header()).Pointer() == reflect.ValueOf(s.header).Pointer()
}

// again reports whether a request of the same client by the same rule is the sighted one, at
// a guard inside the first. With another cost it is counted twice on purpose. With another
// path, but for a prefix that was stripped, the handler has sent it on to another route.
func (s *sighting) again(v *Visit, l *core.Limiter, request *core.Request) bool {
	return s.key == request.Key && s.cost == request.Cost && strings.HasSuffix(s.path, v.R.URL.Path) &&
		s.limiter.Name() == l.Name() && s.limiter.RuleName() == l.RuleName() && s.isFor(v.W)
}

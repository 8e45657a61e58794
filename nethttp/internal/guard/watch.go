package guard

import (
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/notice"
)

// watch looks at the first requests of a guard for mistakes in how guards are set up.
type watch struct {
	first atomic.Int32 // how many requests were looked at
	proxy proxyWatch
}

// watchedFirst is the number of requests that a watch looks at: a mistake is in all of them, and looks cost time.
const watchedFirst = 48

// sighted is the latest request that a watch has looked at, while its handler runs. One for all guards is enough: a
// guard that counts the same request again does so right after the first.
var sighted atomic.Pointer[sighting]

// looks reports whether the next request is to be looked at.
func (w *watch) looks() bool { return w.first.Load() < watchedFirst && w.first.Add(1) <= watchedFirst }

// look looks at a request that l has decided.
func (w *watch) look(v *Visit, l *core.Limiter, request *core.Request) {
	r, d := v.R, &v.Decision
	if d.Allowed && (r.Method == "PRI" || strings.EqualFold(r.Header.Get("Upgrade"), "h2c")) && mayHijack(v.W) {
		v.decider.limiter.Notice(r.Context(), notice.H2C, h2c)
	}
	if s := sighted.Load(); s != nil && s.again(v, l, request) {
		v.decider.limiter.Notice(r.Context(), notice.CountedTwice, countedTwice)
		return
	}
	if h := v.W.Header(); d.Allowed && request.Cost > 0 && h != nil { // a refused request meets no other guard
		v.sighted = &sighting{h, l, request.Key, request.Cost, r.URL.Path}
		sighted.Store(v.sighted)
	}
	if peer := w.proxy.look(r, request.Key); peer != "" {
		v.decider.limiter.Notice(r.Context(), notice.UntrustedProxy, "the last requests all came from "+peer+untrustedProxy)
	}
}

const countedTwice = "one request was counted twice by this rule: its client gets half of the limit; " +
	"is the middleware mounted twice, or on a router and on a group or a route inside it? " +
	"Mount it once; for a limit of its own inside, make another rule with Limiter.Rule"

const untrustedProxy = ", most of them with X-Forwarded-For, and were counted as one client: this is a proxy that " +
	"the key function does not believe; use keyfuncs.IP with keyfuncs.TrustProxies, which takes the " +
	"networks of the proxies; if it does, keyfuncs.OnUntrusted tells why the header is not believed"

const h2c = "a request for HTTP/2 without TLS was admitted; if the handler serves it, as h2c.NewHandler and a " +
	"reverse proxy do, no other request of its connection is limited: put the limit inside h2c.NewHandler, or take " +
	"http.Server.Protocols with SetUnencryptedHTTP2 instead; in a proxy, delete Upgrade from the outgoing request"

// mayHijack reports whether a handler can take over the connection. One behind h2c.NewHandler cannot.
func mayHijack(w http.ResponseWriter) bool {
	_, ok := innermost(w).(http.Hijacker)
	return ok
}

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

package guard

import (
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/notice"
)

// watch samples the first requests of a guard, and notices mistakes in the setup of guards.
type watch struct {
	sampled atomic.Int32 // the number of requests so far, up to sampleSize and a few more
	proxy   proxyWatch
}

// sampleSize is the number of requests that a watch inspects, beside those that ask for another protocol. A mistake in
// the setup shows in all requests, and each inspection takes time.
const sampleSize = 48

// lastSample is the latest sample of all guards, while its handler runs. One is enough: a guard that counts the same
// request again does so right after the first.
var lastSample atomic.Pointer[sample]

// sampleNext counts a request, and reports whether it is one of the sample.
func (w *watch) sampleNext() bool {
	return w.sampled.Load() < sampleSize && w.sampled.Add(1) <= sampleSize
}

// inspect looks for mistakes by a request that l has decided.
func (w *watch) inspect(v *Visit, l *core.Limiter, request *core.Request) {
	r, d := v.R, &v.Decision
	if d.Allowed && (r.Method == "PRI" || strings.EqualFold(r.Header.Get("Upgrade"), "h2c")) && mayHijack(v.W) {
		v.guard.limiter.Notice(r.Context(), notice.H2C, h2c)
	}
	if s := lastSample.Load(); s != nil && s.isRepeat(v, l, request) {
		v.guard.limiter.Notice(r.Context(), notice.DoubleCount, doubleCount)
		return
	}
	// Only in shadow does a refused request reach other guards.
	if h := v.W.Header(); d.Allowed && request.Cost > 0 && h != nil {
		v.sample = &sample{h, l, request.Key, request.Cost, r.URL.Path}
		lastSample.Store(v.sample)
	}
	if peer := w.proxy.inspect(r, request.Key); peer != "" {
		text := "the last requests all came from " + peer + untrustedProxy
		v.guard.limiter.Notice(r.Context(), notice.UntrustedProxy, text)
	}
}

const doubleCount = "one request was counted twice by this rule: its client gets half of the limit; " +
	"is the middleware mounted twice, or on a router and on a group or a route inside it? " +
	"Mount it once; for a limit of its own inside, make another rule with Limiter.Rule"

const untrustedProxy = ", most of them with X-Forwarded-For, and were counted as one client: this is a proxy that " +
	"the key function does not trust; use keyfuncs.IP with keyfuncs.TrustProxies, which takes the " +
	"networks of the proxies; if it does, keyfuncs.OnUntrusted gives the reason why the header is not trusted"

const h2c = "a request for HTTP/2 without TLS was admitted; if the handler serves it, as h2c.NewHandler and a " +
	"reverse proxy do, no other request of its connection is limited: put the limit inside h2c.NewHandler, or take " +
	"http.Server.Protocols with SetUnencryptedHTTP2 instead; in a proxy, delete Upgrade from the outgoing request"

// mayHijack reports whether a handler can take over the connection. One behind h2c.NewHandler cannot.
func mayHijack(w http.ResponseWriter) bool {
	_, ok := innermost(w).(http.Hijacker)
	return ok
}

// sample is an admitted request at a guard. It does not change.
type sample struct {
	header  http.Header // of the response
	limiter *core.Limiter
	key     string
	cost    int64
	path    string
}

// sameResponse reports whether w writes the response to the sample. ResponseWriters that wrap others share the header;
// one that buffers the response may have its own, as that of an http.TimeoutHandler has.
func (s *sample) sameResponse(w http.ResponseWriter) bool {
	return reflect.ValueOf(w.Header()).Pointer() == reflect.ValueOf(s.header).Pointer()
}

// isRepeat reports whether an outer guard has already counted this request under the same rule and key. A request with
// another cost is counted twice on purpose. One with another path, except for a stripped prefix, was sent on to another
// route by its handler.
func (s *sample) isRepeat(v *Visit, l *core.Limiter, request *core.Request) bool {
	return s.key == request.Key && s.cost == request.Cost && strings.HasSuffix(s.path, v.R.URL.Path) &&
		s.limiter.Name() == l.Name() && s.limiter.RuleName() == l.RuleName() && s.sameResponse(v.W)
}

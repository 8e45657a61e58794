package sashadmin_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/extra/heavyhitters"
	"github.com/sashlimit/sash/extra/sashadmin"
)

// site is a server with the handler below a prefix.
type site struct {
	t          *testing.T
	url        string // of the handler, with a slash at the end
	api, login *core.Limiter
}

// newSite returns a site with two rules on a memstore. change may change the config.
func newSite(t *testing.T, change func(*sashadmin.Config)) *site {
	t.Helper()
	store := memstore.New()
	heavy := core.Must(heavyhitters.New(10))
	api := core.Must(core.New(core.Config{
		Name: "api", Store: store, Observer: heavy,
		Limits: []core.Limit{
			core.PerHour(100), core.Per(1000, core.MaxWindow).Using(core.SlidingCounter).Named("yearly"),
		},
	}))
	login := core.Must(api.Rule("login", core.PerHour(5))).WithPolicy(core.FailClosed)
	c := sashadmin.Config{
		Limiters: []*core.Limiter{api, login}, Heaviest: heavy,
		Stores: map[string]func() any{"memory": func() any { return store.Stats() }},
	}
	if change != nil {
		change(&c)
	}
	server := httptest.NewServer(http.StripPrefix("/admin/limits", core.Must(sashadmin.New(c))))
	t.Cleanup(server.Close)
	return &site{t, server.URL + "/admin/limits/", api, login}
}

// reply is the answer to a request.
type reply struct {
	*http.Response
	body string
}

// send sends a request for a path below the handler, with fields given as names and
// values. It follows no redirect.
func (s *site) send(method, path string, fields ...string) reply {
	r := core.Must(http.NewRequestWithContext(s.t.Context(), method, s.url+path, nil))
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return read(core.Must(http.DefaultTransport.RoundTrip(r)))
}

// read reads an answer.
func read(w *http.Response) reply {
	defer w.Body.Close()
	return reply{w, string(core.Must(io.ReadAll(w.Body)))}
}

// get sends a GET, and fails the test unless the answer has the status and the texts.
func (s *site) get(path string, status int, says ...string) reply {
	s.t.Helper()
	return s.check(s.send(http.MethodGet, path), status, says...)
}

// post sends a POST, and fails the test unless the answer has the status and the texts.
func (s *site) post(path string, status int, says ...string) reply {
	s.t.Helper()
	return s.check(s.send(http.MethodPost, path), status, says...)
}

// check fails the test unless the answer has the status and the texts. In JSON all between words is one blank.
func (s *site) check(r reply, status int, says ...string) reply {
	s.t.Helper()
	body := r.body
	if r.Header.Get("Content-Type") == "application/json" {
		body = strings.Join(strings.Fields(body), " ")
	}
	lacks := slices.DeleteFunc(says, func(text string) bool { return strings.Contains(body, text) })
	if r.StatusCode != status || len(lacks) > 0 {
		s.t.Errorf("%s: status %d, want %d; the answer lacks %q: %s", r.Request.URL, r.StatusCode, status, lacks, body)
	}
	return r
}

// used returns how many units a client has used of the first limit of a limiter.
func (s *site) used(l *core.Limiter, key string) int64 {
	return core.Must(l.Usage(s.t.Context(), key))[0].Used
}

// take counts n units.
func (s *site) take(l *core.Limiter, key string, n int64) {
	s.t.Helper()
	if d := l.AllowN(s.t.Context(), key, n); !d.Allowed || d.Err != nil {
		s.t.Fatalf("%+v", d)
	}
}

var errDown = errors.New("connection <refused>")

// addDown adds limiters on a store that fails, with each policy.
func addDown(c *sashadmin.Config) {
	c.Failures = new(sashadmin.Failures)
	l := core.Must(core.New(core.Config{
		Name: "down", Store: storetest.Fixed(core.Decision{Err: errDown}), Limits: []core.Limit{core.PerMinute(8)},
		Observer: c.Failures, Timeout: time.Minute,
	}))
	closed := core.Must(l.Rule("closed", core.PerMinute(8))).WithPolicy(core.FailClosed)
	second := core.Must(l.Rule("second", core.PerMinute(8))).
		WithPolicy(core.Fallback(memstore.New(), 4))
	c.Limiters = append(c.Limiters, l, closed, second)
}

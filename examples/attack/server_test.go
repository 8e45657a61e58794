package attack_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"

	"github.com/sashlimit/sash/chi"
	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/echo"
	"github.com/sashlimit/sash/echo5"
	"github.com/sashlimit/sash/gin"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// page is one route. Its handler says that it was reached.
type page struct {
	method, path string
	limiter      *core.Limiter
}

func (p page) ServeHTTP(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached") }

// site is what is served by each framework alike: pages with a limiter of their own, behind a limiter of all.
type site struct {
	all   *core.Limiter
	key   func(*http.Request) (string, error)
	pages []page
}

var skip = nethttp.SkipPaths("/health", "/ready")

// newSite returns a site whose counts last for the whole of an attack.
func newSite(store core.Store, timeout time.Duration, key keyfuncs.Func, log *slog.Logger) site {
	all := core.Must(core.New(core.Config{
		Name: "attacked", Store: store, Timeout: timeout, Limits: []core.Limit{core.PerHour(100_000)},
		Observer: core.LogErrors(log, time.Second),
	}))
	rule := func(name string, limit core.Limit) *core.Limiter { return core.Must(all.Rule(name, limit)) }
	data, search := rule("data", core.PerHour(100)), rule("search", core.PerHour(30))
	status, free := rule("status", core.PerHour(1000).Using(core.CoarseLog)), rule("free", core.PerHour(1))
	return site{all, key, []page{
		{"GET", "/api/data", data}, {"HEAD", "/api/data", data},
		{"GET", "/api/search", search}, {"HEAD", "/api/search", search},
		{"GET", "/api/status", status}, {"HEAD", "/api/status", status},
		{"POST", "/api/upload", rule("upload", core.PerHour(5))},
		{"POST", "/login", rule("login", core.PerHour(5)).WithPolicy(core.FailClosed)},
		{"GET", "/health", free}, {"HEAD", "/health", free}, {"GET", "/ready", free}, {"HEAD", "/ready", free},
	}}
}

// frameworks serve a site. The first is the reference for the others.
var frameworks = []struct {
	name  string
	serve func(site) http.Handler
}{
	{"nethttp", func(s site) http.Handler {
		mux := http.NewServeMux()
		for _, p := range s.pages {
			mux.Handle(p.method+" "+p.path, nethttp.Middleware(p.limiter, s.key, skip)(p))
		}
		return nethttp.Middleware(s.all, s.key, skip)(mux)
	}},
	{"chi", func(s site) http.Handler {
		r := chi.NewRouter()
		r.Use(sashchi.Middleware(s.all, s.key, skip))
		for _, p := range s.pages {
			r.With(sashchi.Middleware(p.limiter, s.key, skip)).Method(p.method, p.path, p)
		}
		return r
	}},
	{"gin", func(s site) http.Handler {
		gin.SetMode(gin.ReleaseMode)
		e := gin.New()
		e.Use(sashgin.Middleware(s.all, s.key, skip))
		for _, p := range s.pages {
			e.Handle(p.method, p.path, sashgin.Middleware(p.limiter, s.key, skip), gin.WrapH(p))
		}
		return e
	}},
	{"echo", func(s site) http.Handler {
		e := echo4.New()
		e.Use(sashecho.Middleware(s.all, s.key, skip))
		for _, p := range s.pages {
			e.Add(p.method, p.path, echo4.WrapHandler(p), sashecho.Middleware(p.limiter, s.key, skip))
		}
		return e
	}},
	{"echo5", func(s site) http.Handler {
		e := echo.New()
		e.Use(sashecho5.Middleware(s.all, s.key, skip))
		for _, p := range s.pages {
			e.Add(p.method, p.path, echo.WrapHandler(p), sashecho5.Middleware(p.limiter, s.key, skip))
		}
		return e
	}},
}

// start starts the server of a framework, which ends with the test.
func (x *target) start(t *testing.T, serve func(site) http.Handler, store core.Store, timeout time.Duration) {
	key := keyfuncs.Func(keyfuncs.RemoteIP)
	if !x.direct {
		key = keyfuncs.IP(keyfuncs.TrustProxies(netip.MustParsePrefix("127.0.0.0/8")))
	}
	log := slog.New(slog.NewJSONHandler(&x.log, nil))
	x.server = httptest.NewUnstartedServer(serve(newSite(store, timeout, key, log)))
	x.server.Config.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	x.server.Start()
	t.Cleanup(x.server.Close)
}

// target is one server under one attack.
type target struct {
	attack
	name   string
	server *httptest.Server
	log    bytes.Buffer // complete when the server is closed
	report
}

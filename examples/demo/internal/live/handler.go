package live

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/nethttp"
)

// server answers the page.
type server struct {
	stores   *Stores
	sessions *sessions
}

// Handler returns the handler of the page: of "/" and of what is below "/live/". Why limiters of the page cannot ask
// their store is logged to log.
func Handler(stores *Stores, log *slog.Logger) http.Handler {
	s := &server{stores: stores, sessions: &sessions{
		stores: stores, log: core.LogErrors(log, time.Minute), byID: map[string]*session{},
	}}
	busy := bound(core.Per(requestsASecond, time.Second), func(r *http.Request) (string, error) {
		return "session " + r.PathValue("id"), nil
	})
	fresh := bound(core.PerMinute(sessionsPerMinute), func(*http.Request) (string, error) { return "sessions", nil })

	mux := http.NewServeMux()
	mux.Handle("POST /live/sessions", fresh(http.HandlerFunc(s.open)))
	mux.Handle("GET /live/sessions/{id}", s.in(s.state))
	mux.Handle("POST /live/sessions/{id}/requests", busy(s.in(s.request)))
	mux.Handle("POST /live/sessions/{id}/policies/{policy}", busy(s.in(s.policy)))
	mux.HandleFunc("PUT /live/store", s.store)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _ = page.Execute(w, lanes()) })
	mux.Handle("GET /live/page/{file}", http.StripPrefix("/live", http.FileServerFS(files)))
	return secure(http.NewCrossOriginProtection().Handler(mux))
}

// bound returns a middleware that keeps the demo itself from too much work. What is above it gets 503, since a 429 is
// what the page is about.
func bound(limit core.Limit, key func(*http.Request) (string, error)) func(http.Handler) http.Handler {
	limiter := core.Must(core.New(core.Config{
		Name: "bound", Store: memstore.New(memstore.WithMaxBytes(1 << 20)), Limits: []core.Limit{limit},
	}))
	return nethttp.Middleware(limiter, key, nethttp.WithHeaders(),
		nethttp.WithRefusal(func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
			writeError(w, http.StatusServiceUnavailable, errors.New("the demo takes no more than "+limit.String()))
		}))
}

// secure adds the fields that keep a page from loading anything of elsewhere and from being framed.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
			"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// in returns a handler for requests of a session, which the path names.
func (s *server) in(handle func(http.ResponseWriter, *http.Request, *session)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := s.sessions.find(r.PathValue("id"))
		if x == nil {
			writeError(w, http.StatusNotFound, errors.New("no such session: the server has forgotten it"))
			return
		}
		handle(w, r, x)
	})
}

// opened tells a page about a new session.
type opened struct {
	ID    string `json:"id"`
	Store string `json:"store"`
}

func (s *server) open(w http.ResponseWriter, r *http.Request) {
	var settings Settings
	err := readJSON(w, r, &settings)
	if err == nil {
		err = settings.check()
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	x, err := s.sessions.open(settings)
	if err != nil {
		writeError(w, http.StatusInternalServerError, err)
		return
	}
	writeJSON(w, http.StatusCreated, opened{x.id, s.stores.Kind()})
}

func (s *server) request(w http.ResponseWriter, r *http.Request, x *session) {
	client, err := strconv.Atoi(r.URL.Query().Get("client"))
	if err != nil || client < 1 || client > Clients {
		writeError(w, http.StatusBadRequest, errors.New("client is from 1 to "+strconv.Itoa(Clients)))
		return
	}
	x.request(w, r, client)
}

func (s *server) policy(w http.ResponseWriter, r *http.Request, x *session) {
	handler := x.policies.handlers[r.PathValue("policy")]
	if handler == nil {
		writeError(w, http.StatusNotFound, errors.New("the policies are open, closed and fallback"))
		return
	}
	handler.ServeHTTP(w, r)
}

func (s *server) state(w http.ResponseWriter, r *http.Request, x *session) {
	after, err := strconv.Atoi(r.URL.Query().Get("after"))
	if err != nil || after < 0 {
		writeError(w, http.StatusBadRequest, errors.New("after is the number of an event, or 0"))
		return
	}
	writeJSON(w, http.StatusOK, x.state(after))
}

func (s *server) store(w http.ResponseWriter, r *http.Request) {
	var choice struct {
		Away bool `json:"away"`
	}
	if err := readJSON(w, r, &choice); err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	s.stores.Take(choice.Away)
	writeJSON(w, http.StatusOK, choice)
}

// readJSON reads the body of a request, of at most 1 KB.
func readJSON(w http.ResponseWriter, r *http.Request, to any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10))
	decoder.DisallowUnknownFields()
	return decoder.Decode(to)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func writeError(w http.ResponseWriter, status int, err error) {
	writeJSON(w, status, map[string]string{"error": err.Error()})
}

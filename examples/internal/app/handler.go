package app

import (
	"log/slog"
	"net/http"
	"path"
	"time"
)

// Handler returns the handler that an example serves: its routes, behind an access
// log.
func Handler(routes http.Handler, log *slog.Logger) http.Handler {
	return accessLog(plainPaths(routes), log)
}

// plainPaths lets through what every router reads the same. Of the others, some
// redirect //health, some take /%68ealth for /health, and net/http alone answers
// 400 to the target *.
func plainPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawPath != "" || r.URL.Path == "*" || r.URL.Path != path.Clean(r.URL.Path) {
			writeJSON(w, http.StatusNotFound, `{"error":"not found"}`)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// accessLog writes one line per request. slog escapes the values that the client
// chose. The query is left out, since it may hold secrets.
func accessLog(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		defer func() { // runs even if the handler panics
			log.LogAttrs(r.Context(), slog.LevelInfo, "request",
				slog.String("method", r.Method),
				slog.String("path", r.URL.Path),
				slog.Int("status", recorder.status),
				slog.Duration("duration", time.Since(start)),
				slog.String("remote", r.RemoteAddr))
		}()
		next.ServeHTTP(recorder, r)
	})
}

// statusRecorder remembers the status for the log.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status // interim statuses come first, the response's comes last
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find the server's own writer.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

package bench

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/didip/tollbooth/v7"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// withDefaultClient returns the libraries that name the client of a request by themselves,
// with what they take for it by default. Elsewhere this package tells them otherwise.
func withDefaultClient() []library {
	var all []library
	for _, l := range peerLibraries() {
		switch l.name {
		case "ulule":
		case "tollbooth":
			l.wrap = func(l load, next http.Handler) (http.Handler, error) {
				limiter := tollbooth.NewLimiter(l.perSecond(), nil).SetBurst(l.requests)
				return tollbooth.LimitHandler(limiter, next), nil
			}
		case "echo RateLimiter":
			l.wrap = func(l load, next http.Handler) (http.Handler, error) {
				e := echo.New()
				e.GET("/", echo.WrapHandler(next), middleware.RateLimiter(l.echoStore()))
				return e, nil
			}
		case "echo v5 RateLimiter": // told nothing by this package
		default:
			continue
		}
		all = append(all, l)
	}
	return all
}

// visitTwice returns the status of the second of two requests, under a limit of 1.
func visitTwice(t *testing.T, l library, change func(r *http.Request, second bool)) int {
	t.Helper()
	h, err := l.wrap(load{requests: 1}, new(served))
	if err != nil {
		t.Fatal(err)
	}
	status := 0
	for _, second := range []bool{false, true} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = address(1)
		change(r, second)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		status = w.Code
	}
	return status
}

// TestForgedAddress: a client sends another X-Forwarded-For with each request, to a library
// that names the client by itself.
func TestForgedAddress(t *testing.T) {
	for _, l := range withDefaultClient() {
		status := visitTwice(t, l, func(r *http.Request, second bool) {
			r.Header.Set("X-Forwarded-For", map[bool]string{false: "192.0.2.1", true: "192.0.2.2"}[second])
		})
		said := map[int]string{http.StatusOK: "is believed", http.StatusTooManyRequests: "is not read"}
		wantCell(t, peerRow(l.name), forgedColumn, said[status])
	}
}

// TestNeighbours: two requests come from two addresses of one /64 of IPv6, which is what one
// client has.
func TestNeighbours(t *testing.T) {
	for _, l := range peerLibraries() {
		status := visitTwice(t, l, func(r *http.Request, second bool) {
			r.RemoteAddr = map[bool]string{false: "[2001:db8::1]:4711", true: "[2001:db8::2]:4711"}[second]
		})
		said := map[int]string{http.StatusOK: "two clients", http.StatusTooManyRequests: "one client"}
		wantCell(t, peerRow(l.name), neighboursColumn, said[status])
	}
}

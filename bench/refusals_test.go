package bench

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// refusal returns the fields of the 429 that a client gets which has used a limit of 1 an
// hour, 20 minutes later. It is admitted again in 2400 s.
func refusal(t *testing.T, h http.Handler) http.Header {
	t.Helper()
	visit := visits(h, 1)
	if !visit() {
		t.Error("the first request is refused")
	}
	time.Sleep(20 * time.Minute)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = address(1)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusTooManyRequests {
		t.Errorf("the second request gets %d, want 429", w.Code)
	}
	return w.Header()
}

// retryAfter says in words what a Retry-After is, where 2400 s would be exact.
func retryAfter(field string) string {
	_, err := http.ParseTime(field)
	switch {
	case field == "":
		return "none"
	case field == "2400" || field == "2401": // rounded up
		return "exact"
	case field == "3600":
		return "the whole window"
	case strings.Contains(field, ":") && err != nil:
		return "an invalid date" // it ends in UTC, where HTTP has GMT
	}
	return field
}

// limitFields returns the fields of a limit, in the order of the alphabet. Of names that
// begin alike, all but the first are cut.
func limitFields(fields http.Header) string {
	var names []string
	for name := range fields {
		if strings.Contains(strings.ToLower(name), "rate") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	prefix := ""
	for i, name := range names {
		if rest, ok := strings.CutPrefix(name, prefix+"-"); ok && prefix != "" {
			names[i] = "`-" + rest + "`"
			continue
		}
		names[i], prefix = "`"+name+"`", name[:strings.LastIndex(name, "-")]
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// TestRefusals: what each library tells a client that it refuses is what
// docs/comparison.md says.
func TestRefusals(t *testing.T) {
	for _, l := range peerLibraries() {
		t.Run(l.name, func(t *testing.T) {
			var h http.Handler
			open := func() {
				var err error
				if h, err = l.wrap(load{requests: 1}, new(served)); err != nil {
					t.Fatal(err)
				}
			}
			// These have goroutines that never end, so they are made outside of the bubble.
			if l.name == "ulule" || l.name == "go-limiter" {
				open()
			}
			var fields http.Header
			synctest.Test(t, func(t *testing.T) {
				if h == nil {
					open()
				}
				fields = refusal(t, h)
			})
			wantCell(t, peerRow(l.name), fieldsColumn, limitFields(fields))
			wantCell(t, peerRow(l.name), retryColumn, retryAfter(fields.Get("Retry-After")))
		})
	}
}

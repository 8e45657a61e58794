package nethttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/nethttp"
)

// ownFormat is a format of a program's own, maybe with a mistake.
type ownFormat struct{ names []string }

func (*ownFormat) Write(http.Header, []core.Limit, core.Decision) {}
func (f *ownFormat) Names() []string                              { return f.names }

// TestFormatErrors: a format that would panic at a request, or break the response, is an
// error of construction.
func TestFormatErrors(t *testing.T) {
	l := limiter(admits(1, 0), nil)
	own := func(names ...string) headers.Format { return &ownFormat{names} }
	for _, c := range []struct {
		format headers.Format
		want   string
	}{
		{(*ownFormat)(nil), "WithHeaders was given a nil *nethttp_test.ownFormat for a format"},
		{own("x-quota"), `names the field "x-quota", which is not the name of a field`},
		{headers.Classic.WithNames("X-A", "X-B", "retry-after", ""), "writes the field Retry-After, which"},
		{own("X-A", "Connection"), "writes the field Connection, which"},
		{headers.ClassicFormat{}, `names the field ""`},
		{headers.Expose(headers.ClassicFormat{}), `names the field ""`},
		{headers.Classic.WithNames("a\r\nSet-Cookie", "b", "c", ""), `names the field "a\r\nSet-Cookie"`},
		{headers.Classic.WithNames("a", "b", "A", ""), "write the field A twice"},
	} {
		_, err := nethttp.New(l, alice, nethttp.WithHeaders(headers.IETF, c.format))
		if err == nil || !strings.HasPrefix(err.Error(), "sash: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%T: the error %v does not say %q", c.format, err, c.want)
		}
	}
	if _, err := nethttp.New(l, alice, nethttp.WithHeaders(headers.IETF, own("X-Quota", "X-Tier"))); err != nil {
		t.Error(err)
	}
}

// TestNilHandlers: what would panic at the first request panics while the program starts,
// and says what to give.
func TestNilHandlers(t *testing.T) {
	middleware := nethttp.Middleware(limiter(admits(1, 0), nil), alice)
	for want, f := range map[string]func(){
		"the handler behind the guard is nil":                    func() { middleware(nil) },
		"the handler behind the guard is a nil http.HandlerFunc": func() { middleware(http.HandlerFunc(nil)) },
		"the handler behind the guard is a nil *http.ServeMux":   func() { middleware((*http.ServeMux)(nil)) },
	} {
		if got := panicOf(f); !strings.HasPrefix(got, "sash: ") || !strings.Contains(got, want) {
			t.Errorf("the panic %q does not say %q", got, want)
		}
	}
}

// panicOf returns what f panics with, or "".
func panicOf(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

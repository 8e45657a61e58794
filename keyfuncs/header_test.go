package keyfuncs_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

// TestHeader: the value names the client. A client must not choose another name by a second line, or by a value that is
// too long. HeaderKey returns the key of a request with the header, or none where Header returns none.
func TestHeader(t *testing.T) {
	f, longest := keyfuncs.Header("X-TENANT-id"), strings.Repeat("a", 8192)
	const refused = "refused"
	for _, test := range []struct {
		values []string
		want   string // "": ErrNoKey
	}{
		{[]string{"acme"}, "acme"},
		{[]string{"ACME"}, "ACME"},
		{[]string{"\t a b: c,d \t"}, "a b: c,d"},
		{[]string{"{\x00\xff}"}, "{\x00\xff}"},
		{[]string{"\u00a0"}, "\u00a0"}, // HTTP knows no other blanks
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"  \t "}, ""},
		{[]string{longest}, longest},
		{[]string{longest + "a"}, refused},
		{[]string{strings.Repeat(" ", 8193)}, refused},
		{[]string{"acme", "other"}, refused},
		{[]string{"acme", "acme"}, refused},
		{[]string{"", "acme"}, refused},
		{[]string{"", ""}, refused},
	} {
		r, want := request("198.51.100.7:1", append(lines("x-tenant-ID", test.values), "X-Tenant: other")...), ""
		switch test.want {
		case "":
			wantNoKey(t, f, r)
		case refused:
			if err := wantBadRequest(t, f, r).Error(); len(err) > 200 || !strings.Contains(err, "X-Tenant-Id") {
				t.Errorf("%.40q: error %s", test.values, err)
			}
		default:
			want = "header:x-tenant-id:" + test.want
			if got := mustKey(t, f, r); got != want {
				t.Errorf("%.40q: %q, want %q", test.values, got, want)
			}
		}
		if len(test.values) == 1 && keyfuncs.HeaderKey("x-TENANT-id", test.values[0]) != want {
			t.Errorf("HeaderKey of %.40q is not %.40q", test.values, want)
		}
	}
	wantAllocs(t, 1, f, request("", "X-Tenant-Id: acme"))
}

func TestHeaderPanicsOnMisuse(t *testing.T) {
	for _, name := range []string{"", " ", "X Tenant", "X-Tenant:", "X-Tenant\n", "ſ", "a/b", `"a"`} {
		mustPanic(t, func() { keyfuncs.Header(name) }, "Header", "X-Tenant-Id")
		if got := keyfuncs.HeaderKey(name, "acme"); got != "" {
			t.Errorf("HeaderKey(%q, acme) = %q, want none", name, got)
		}
	}
	keyfuncs.Header("!#$%&'*+-.^_`|~09azAZ")
}

// TestHeaderTakenOut: net/http takes some fields out of the header of a request, so that a
// function of such a field would never find a name.
func TestHeaderTakenOut(t *testing.T) {
	text := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\nX-B: b\r\n\r\n0\r\n\r\n"
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Host", "transfer-encoding", "TRAILER"} {
		if r.Header.Get(name) != "" {
			t.Errorf("net/http leaves %s in the header", name)
		}
		where := "Request." + strings.ReplaceAll(http.CanonicalHeaderKey(name), "-", "")
		mustPanic(t, func() { keyfuncs.Header(name) }, "Header", where)
		mustPanic(t, func() { keyfuncs.IP(ten, keyfuncs.FromHeader(name)) }, "FromHeader", where)
		mustPanic(t, func() { keyfuncs.APIKey(name, (&verifier{}).verify) }, "APIKey", where)
		if key := keyfuncs.HeaderKey(name, "x"); key != "" {
			t.Errorf("HeaderKey(%q) is %q", name, key)
		}
	}
	if got := mustKey(t, keyfuncs.Header("X-B"), r); got != "header:x-b:b" {
		t.Error(got)
	}
}

package keyfuncs_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

func TestHeader(t *testing.T) {
	f := keyfuncs.Header("X-TENANT-id")
	for _, test := range []struct {
		headers []string
		want    string // empty: ErrNoKey
	}{
		{[]string{"X-Tenant-Id: acme"}, "header:x-tenant-id:acme"},
		{[]string{"x-tenant-id: ACME"}, "header:x-tenant-id:ACME"},
		{[]string{"X-Tenant-Id: \t a b: c,d \t"}, "header:x-tenant-id:a b: c,d"},
		{[]string{"X-Tenant-Id: {\x00\xff}"}, "header:x-tenant-id:{\x00\xff}"},
		{[]string{"X-Tenant-Id: \u00a0"}, "header:x-tenant-id:\u00a0"}, // HTTP knows no other blanks
		{nil, ""},
		{[]string{"X-Tenant: acme"}, ""},
		{[]string{"X-Tenant-Id: "}, ""},
		{[]string{"X-Tenant-Id:  \t "}, ""},
		{[]string{"X-Tenant-Id: " + strings.Repeat("a", 8192)}, "header:x-tenant-id:" + strings.Repeat("a", 8192)},
	} {
		r := request("198.51.100.7:1", test.headers...)
		if test.want == "" {
			wantNoKey(t, f, r)
		} else if got := mustKey(t, f, r); got != test.want {
			t.Errorf("%q: %q, want %q", test.headers, got, test.want)
		}
	}
	wantAllocs(t, 1, f, request("", "X-Tenant-Id: acme"))
}

// TestHeaderKey: HeaderKey returns the key of a request with the header, or none where Header returns none.
func TestHeaderKey(t *testing.T) {
	for _, value := range []string{"ACME", " a b\t", "a,\xff", " ", strings.Repeat("a", 8192), strings.Repeat("a", 8193)} {
		want, _ := keyfuncs.Header("X-Tenant")(request("", "X-Tenant:"+value))
		if got := keyfuncs.HeaderKey("x-TENANT", value); got != want {
			t.Errorf("HeaderKey of %.20q = %.40q, want %.40q", value, got, want)
		}
	}
	for _, name := range []string{"", "X Tenant"} {
		if got := keyfuncs.HeaderKey(name, "acme"); got != "" {
			t.Errorf("HeaderKey(%q, acme) = %q, want none", name, got)
		}
	}
}

// A client must not choose another name by sending a second line, or a value
// that is too long.
func TestHeaderRefuses(t *testing.T) {
	f := keyfuncs.Header("X-Tenant-Id")
	for _, headers := range [][]string{
		{"X-Tenant-Id: acme", "X-Tenant-Id: other"},
		{"X-Tenant-Id: acme", "X-Tenant-Id: acme"},
		{"X-Tenant-Id: ", "X-Tenant-Id: acme"},
		{"X-Tenant-Id: ", "X-Tenant-Id: "},
		{"X-Tenant-Id: " + strings.Repeat("a", 8193)},
		{"X-Tenant-Id: " + strings.Repeat(" ", 8193)},
	} {
		err := wantBadRequest(t, f, request("198.51.100.7:1", headers...))
		if len(err.Error()) > 200 || !strings.Contains(err.Error(), "X-Tenant-Id") {
			t.Errorf("error %v", err)
		}
	}
}

func TestHeaderPanicsOnMisuse(t *testing.T) {
	for _, name := range []string{"", " ", "X Tenant", "X-Tenant:", "X-Tenant\n", "ſ", "a/b", `"a"`} {
		mustPanic(t, func() { keyfuncs.Header(name) }, "Header", "X-Tenant-Id")
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

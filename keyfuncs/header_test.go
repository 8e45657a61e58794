package keyfuncs_test

import (
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
	mustPanic(t, func() { keyfuncs.Header("Host") }, "Request.Host")
	keyfuncs.Header("!#$%&'*+-.^_`|~09azAZ")
}

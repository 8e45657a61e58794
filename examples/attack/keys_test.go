package attack_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// who is a request with API keys, and whose count it is charged to.
type who struct {
	header string
	client string // "key1", "key2" or "address"; empty: refused
}

const first, second, wrong = "X-API-Key: demo-key-1\r\n", "X-API-Key: demo-key-2\r\n", "X-API-Key: " + marker + "\r\n"

var whose = []who{
	// One key, however it is sent.
	{first, "key1"},
	{second, "key2"},
	{"x-api-key:demo-key-1\r\n", "key1"},
	{"X-API-KEY: \t demo-key-1 \t \r\n", "key1"},
	{"X-API-Key:\r\n demo-key-1\r\n", "key1"},
	{"Authorization: Bearer demo-key-1\r\n", "key1"},
	{"authorization: bearer demo-key-1\r\n", "key1"},
	{"Authorization: BEARER   demo-key-1  \r\n", "key1"},
	{first + "Authorization: Bearer demo-key-1\r\n", "key1"},

	// What is no key, or is no known one, is counted by its address.
	{"", "address"},
	{wrong, "address"},
	{"X-API-Key:\r\n", "address"},
	{"X-API-Key: DEMO-KEY-1\r\n", "address"},
	{"X-API-Key: demo-key-1x\r\n", "address"},
	{"X-API-Key: demo-key-\r\n", "address"},
	{"X-API-Key: \"demo-key-1\"\r\n", "address"},
	{"X-API-Key: demo%2Dkey%2D1\r\n", "address"},
	{"X-API-Key: demo-key-1;\r\n", "address"},
	{"X-Api_Key: demo-key-1\r\n", "address"},
	{"Cookie: X-API-Key=demo-key-1\r\n", "address"},
	{"Authorization: demo-key-1\r\n", "address"},
	{"Authorization: Basic demo-key-1\r\n", "address"},
	{"Authorization: Bearer\r\n", "address"},
	{"Authorization: Bearer DEMO-KEY-1\r\n", "address"},
	{"Proxy-Authorization: Bearer demo-key-1\r\n", "address"},

	// A wrong key beside a right one changes nothing.
	{wrong + "Authorization: Bearer demo-key-1\r\n", "key1"},
	{first + "Authorization: Bearer " + marker + "\r\n", "key1"},
	{first + "Authorization: Basic " + marker + "\r\n", "key1"},

	// Two different names are none.
	{first + second, ""},
	{first + first, ""},
	{first + wrong, ""},
	{wrong + first, ""},
	{"X-API-Key: demo-key-1, demo-key-2\r\n", ""},
	{"X-API-Key: demo-key-1,demo-key-1\r\n", ""},
	{"X-API-Key: " + marker + ",demo-key-1\r\n", ""},
	{"X-API-Key: demo-key-1,\r\n", ""},
	{"Authorization: Bearer demo-key-1\r\nAuthorization: Bearer demo-key-2\r\n", ""},
	{"Authorization: Bearer demo-key-1\r\nAuthorization: Bearer demo-key-1\r\n", ""},
	{"Authorization: Basic x\r\nAuthorization: Bearer demo-key-1\r\n", ""},
	{first + "Authorization: Bearer demo-key-2\r\n", ""},
	{second + "Authorization: Bearer demo-key-1\r\n", ""},

	// What is no visible text without blanks and commas may be two names.
	{"X-API-Key: demo key 1\r\n", ""},
	{"X-API-Key: demo-key-1\xc2\xa0\r\n", ""},
	{"X-API-Key: \xff\xfe\x80\r\n", ""},
	{"X-API-Key: Bearer demo-key-1\r\n", ""},
	{"Authorization: Bearer Bearer demo-key-1\r\n", ""},
	{"Authorization: Bearer demo-key-1 demo-key-2\r\n", ""},
	// What cannot stand in a field.
	{"X-API-Key: demo-key-1\x00\r\n", ""},
	{"X-API-Key: demo\x00-key-1\r\n", ""},
	{"X-API-Key: demo-key-1\x0b\r\n", ""},
	{"X-API-Key : demo-key-1\r\n", ""},
}

// charged sends each line of whose, from an address of its own, and checks whose count it was charged to.
func charged(x *target) {
	left := map[string]int{"key1": 100, "key2": 100}
	for i, w := range whose {
		header := fmt.Sprintf("%s%s203.0.113.%d\r\n", w.header, xff, 100+i)
		switch w.client {
		case "":
			x.fire(shot{send: "GET /api/data", header: header, want: "400"})
		case "address":
			left["address"] = 100
			fallthrough
		default:
			x.charge(left, w.client, header)
		}
	}
}

// respelled spends the limit of a key and of an address, and then sends every line of whose from there.
func respelled(x *target) {
	x.fire(shot{send: "POST /api/upload", header: first, times: 6, want: "5x200 429"})
	x.fire(shot{send: "POST /api/upload", header: second, times: 6, want: "5x200 429"})
	x.fire(shot{send: "POST /api/upload", header: alice, times: 6, want: "5x200 429"})
	for _, w := range whose {
		r := x.ask(shot{send: "POST /api/upload", header: w.header + alice}.text())
		x.saw("%q: %d", w.header, r.status)
		x.check(r.status == 429 || r.status == 400, "%q: a spent key and address buy a %d (%v)", w.header, r.status,
			r.err)
	}
}

var digits = regexp.MustCompile("[0-9]+")

// guessing tries keys from one address until it is refused. From then on a right key from this address must look like
// a wrong one, and elsewhere it must still be good.
func guessing(x *target) {
	try := func(header string) response {
		return x.ask(shot{send: "GET /api/status", header: header + alice}.text())
	}
	tries := 0
	for ; tries < 1001; tries++ {
		if try(fmt.Sprintf("X-API-Key: guess-%d\r\n", tries)).status == http.StatusTooManyRequests {
			break
		}
	}
	x.saw("%d tries", tries)
	x.check(tries < 1001, "guesses are not limited")
	shape := func(r response) string {
		var names []string
		for name := range r.header {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Sprintf("%d %s %s %s", r.status, names, r.header.Get("X-RateLimit-Limit"),
			digits.ReplaceAllString(r.body, "N"))
	}
	guess := try("X-API-Key: guess-again\r\n")
	for _, header := range []string{
		first, second, "Authorization: Bearer demo-key-1\r\n", wrong + "Authorization: Bearer demo-key-1\r\n",
		first + "Authorization: Bearer " + marker + "\r\n", "X-API-Key: demo-key-3\r\n",
		"Authorization: Bearer demo-key-3\r\n",
	} {
		r := try(header)
		x.saw("%q: %d", header, r.status)
		x.check(shape(r) == shape(guess), "after %d wrong keys, %q answers %s, and a wrong key %s", tries, header,
			shape(r), shape(guess))
	}
	x.fire(shot{send: "GET /api/status", header: first + bob, want: "200"})
	x.fire(shot{send: "GET /api/status", header: first + carol, want: "200"})
}

// hugeKey is a key of 60 KB, which a server must not hash, compare or look up.
var hugeKey = strings.Repeat("k", 60_000)

var keys = []attack{
	{name: "whose key is it", onRedis: true, run: charged},
	{name: "spellings of a spent key", run: respelled},
	{name: "guessing keys", onRedis: true, run: guessing},
	{name: "guessing keys at once", onRedis: true, run: burst("GET /api/status", "X-API-Key: guess-#\r\n"+alice, 200, 10)},
	{name: "huge keys", shots: []shot{
		{send: "GET /api/data", header: "X-API-Key: " + hugeKey + "\r\n" + alice, times: 20, want: "20x400"},
		{send: "GET /api/data", header: "Authorization: Bearer " + hugeKey + "\r\n" + bob, times: 20, want: "20x400"},
		{send: "GET /api/data", header: strings.Repeat("X-API-Key: "+marker+"\r\n", 2_000) + alice, want: "400"},
		{send: "GET /api/data", header: "X-API-Key: " + strings.Repeat("demo-key-1,", 5_000) + "\r\n" + alice,
			want: "400"},
		{send: "GET /api/data", header: "Authorization: " + strings.Repeat("Bearer ", 8_000) + "\r\n" + carol,
			want: "400"},
	}},
	{name: "keys buy no more logins", shots: []shot{
		{send: "POST /login", header: alice, times: 4, want: "4x200"},
		{send: "POST /login", header: alice + first, times: 2, want: "200 429"},
		{send: "POST /login", header: alice + second, want: "429"},
		{send: "POST /login", header: alice + wrong, want: "429"},
		{send: "POST /login", header: alice + "Authorization: Bearer demo-key-2\r\n", want: "429"},
		{send: "POST /login", header: bob + first, want: "200"},
	}},
}

package httpclient

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fieldsOf returns a header of names and values.
func fieldsOf(pairs []string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// TestPause: what servers write is read, and nothing else.
func TestPause(t *testing.T) {
	const none, most = time.Duration(0), core.MaxWindow
	at := func(d time.Duration) string { return noon.Add(d).Format(http.TimeFormat) }
	in := func(layout string) string { return noon.Add(90 * time.Second).Format(layout) }
	for _, c := range []struct {
		fields []string
		want   time.Duration
	}{
		{nil, none},
		{[]string{"Retry-After", "7"}, 7 * time.Second},
		{[]string{"Retry-After", " 7\t"}, 7 * time.Second},
		{[]string{"Retry-After", "0"}, 0},
		{[]string{"Retry-After", "99999999999999999999999999"}, most},
		{[]string{"Retry-After", "-1"}, none},
		{[]string{"Retry-After", "soon"}, none},
		{[]string{"Retry-After", ""}, none},
		{[]string{"Retry-After", strings.Repeat("0", 2000) + "1"}, none},
		{[]string{"Retry-After", at(90 * time.Second)}, 90 * time.Second},
		{[]string{"Retry-After", at(-time.Hour)}, 0},
		{[]string{"Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"}, most},
		{[]string{"Retry-After", at(time.Hour + 90*time.Second), "Date", at(time.Hour)}, 90 * time.Second},
		{[]string{"Retry-After", at(90 * time.Second), "Date", "today"}, 90 * time.Second},
		{[]string{"Ratelimit-Reset", "50"}, 50 * time.Second},
		{[]string{"Ratelimit-Reset", "1772366440"}, 40 * time.Second},
		{[]string{"X-Ratelimit-Reset", "50"}, none},
		{[]string{"X-Ratelimit-Remaining", "1", "X-Ratelimit-Reset", "50"}, none},
		{[]string{"X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "50"}, 50 * time.Second},
		{[]string{"X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "1772366430"}, 30 * time.Second},

		// numbers
		{[]string{"Retry-After", "0.5"}, 500 * time.Millisecond},
		{[]string{"Retry-After", "1772366440"}, 40 * time.Second},
		{[]string{"Retry-After", "1772366440.25"}, 40250 * time.Millisecond},
		{[]string{"Retry-After", "1772366440000"}, 40 * time.Second},
		{[]string{"Retry-After", "1772366440000000"}, 40 * time.Second},
		{[]string{"Retry-After", "1772366440000000000"}, 40 * time.Second},
		{[]string{"Retry-After", "1772366440", "Date", at(30 * time.Second)}, 10 * time.Second},
		{[]string{"Retry-After", "1772366399"}, none}, // over
		{[]string{"Retry-After", "1704067200"}, none}, // over for years
		{[]string{"Retry-After", "4102444800"}, most}, // of 2100
		{[]string{"Retry-After", "999999999999"}, most},
		{[]string{"Retry-After", "31622401"}, most},
		{[]string{"Retry-After-Ms", "250"}, 250 * time.Millisecond},
		{[]string{"Retry-After-Ms", "1772366440000"}, 40 * time.Second},
		{[]string{"X-Ratelimit-Reset-After-Milliseconds", "1500"}, 1500 * time.Millisecond},
		{[]string{"Retry-After", "1e309"}, none},
		{[]string{"Retry-After", "0x10"}, none},
		{[]string{"Retry-After", "NaN"}, none},
		{[]string{"Retry-After", "Inf"}, none},
		{[]string{"Retry-After", "1.2.3"}, none},
		{[]string{"Retry-After", strings.Repeat("9", 1000)}, most},

		// durations and dates
		{[]string{"Retry-After", "6m0s"}, 6 * time.Minute},
		{[]string{"Retry-After", "20ms"}, 20 * time.Millisecond},
		{[]string{"Retry-After", "-6m0s"}, none},
		{[]string{"Retry-After", "2000000h"}, most},
		{[]string{"Retry-After", "9999999999h"}, none},
		{[]string{"Retry-After", in(time.RFC850)}, 90 * time.Second},
		{[]string{"Retry-After", strings.Replace(in(time.RFC850), "UTC", "GMT", 1)}, 90 * time.Second},
		{[]string{"Retry-After", in(time.ANSIC)}, 90 * time.Second},
		{[]string{"Retry-After", in(time.RFC1123)}, 90 * time.Second},
		{[]string{"Retry-After", in(time.RFC1123Z)}, 90 * time.Second},
		{[]string{"Retry-After", in(time.RFC3339)}, 90 * time.Second},
		{[]string{"Retry-After", "2026-03-01T13:01:30.500+01:00"}, 90500 * time.Millisecond},
		{[]string{"Retry-After", "2026-03-01T12:01:30+0000"}, 90 * time.Second},
		{[]string{"Retry-After", "2026-03-01T12:01:30"}, 90 * time.Second},
		{[]string{"Retry-After", "2026-03-01 12:01:30 UTC"}, 90 * time.Second},
		{[]string{"Retry-After", "2026-03-01 11:01:30 -0100"}, 90 * time.Second},
		{[]string{"Retry-After", "2026-03-01 12:01:30"}, 90 * time.Second},
		{[]string{"Retry-After", "2026-03-01 12:01:30 PST"}, none},

		// several
		{[]string{"Retry-After", "5", "Retry-After", "60"}, time.Minute},
		{[]string{"Retry-After", "5, soon, 60"}, time.Minute},
		{[]string{"Retry-After", "soon", "Retry-After-Ms", "250", "Ratelimit-Reset", "60"}, 250 * time.Millisecond},
		{[]string{"Retry-After", "0", "Ratelimit-Reset", "60"}, 0},
		{[]string{"Retry-After", "soon", "Ratelimit", `"a";r=0;t=30`, "Ratelimit-Reset", "60"}, 30 * time.Second},
		{[]string{"Ratelimit-Reset", "60", "X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "90"}, time.Minute},
		{[]string{"Ratelimit-Remaining", "3", "Ratelimit-Reset", "60"}, none},
		{[]string{"Ratelimit-Remaining", "-1", "Ratelimit-Reset", "60"}, time.Minute},
		{[]string{"Ratelimit-Remaining", "many", "Ratelimit-Reset", "60"}, none},
		{[]string{"X-Ratelimit-Reset", "1772366440"}, 40 * time.Second}, // what it is cannot be mistaken
		{[]string{"X-Ratelimit-Resource", "60", "X-Password-Reset", "60", "Preset-Limit", "60"}, none},

		// RateLimit
		{[]string{"Ratelimit", `"default";r=0;t=30`}, 30 * time.Second},
		{[]string{"Ratelimit", `"default";r=5;t=30`}, none},
		{[]string{"Ratelimit", `"default";r=0`}, none},
		{[]string{"Ratelimit", `default; r=0; t=30`}, 30 * time.Second},
		{[]string{"Ratelimit", `"a";r=0;t=30, "b";r=5;t=3600`}, 30 * time.Second},
		{[]string{"Ratelimit", `"a";r=0;t=30`, "Ratelimit", `"b";r=0;t=3600`}, time.Hour},
		{[]string{"Ratelimit", `"a,\";r=0;t=9";r=0;t=30`}, 30 * time.Second},
		{[]string{"Ratelimit", `"a;r=0;t=9"`}, none},
		{[]string{"Ratelimit", "limit=100, remaining=0, reset=30"}, 30 * time.Second},
		{[]string{"Ratelimit", "limit=100, remaining=7, reset=30"}, none},
		{[]string{"Ratelimit", "limit=100;w=60, reset=30, remaining=0"}, 30 * time.Second},
		{[]string{"Ratelimit", `"a";r=0;t=30` + strings.Repeat(" ", 10_000)}, none},
	} {
		if wait := pause(http.StatusTooManyRequests, fieldsOf(c.fields), noon); wait != c.want {
			t.Errorf("%.80q: %v, want %v", c.fields, wait, c.want)
		}
	}
}

// TestPauseOfAPIs: what public APIs write about a refusal, by their own pages, is understood: 40 s from noon.
func TestPauseOfAPIs(t *testing.T) {
	const limit, forbidden = http.StatusTooManyRequests, http.StatusForbidden
	for api, c := range map[string]struct {
		status int
		fields []string
	}{
		"GitLab, Rate limits on GitLab.com": {limit, []string{
			"RateLimit-Limit", "60", "RateLimit-Name", "throttle_authenticated_web", "RateLimit-Observed", "67",
			"RateLimit-Remaining", "0", "RateLimit-Reset", "1772366440",
			"RateLimit-ResetTime", "Sun, 01 Mar 2026 12:00:40 GMT"}},
		"GitHub, Rate limits for the REST API, primary": {forbidden, []string{
			"X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "0", "X-RateLimit-Used", "60",
			"X-RateLimit-Reset", "1772366440", "X-RateLimit-Resource", "core"}},
		"GitHub, Rate limits for the REST API, secondary": {forbidden, []string{
			"Retry-After", "40", "X-RateLimit-Remaining", "4000", "X-RateLimit-Reset", "1772369000"}},
		"X, Rate limits": {limit, []string{
			"x-rate-limit-limit", "900", "x-rate-limit-remaining", "0", "x-rate-limit-reset", "1772366440"}},
		"Discord, Rate Limits": {limit, []string{
			"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1772366440.123",
			"X-RateLimit-Reset-After", "40", "X-RateLimit-Bucket", "abcd1234", "Retry-After", "40"}},
		"Reddit, formal ratelimiting headers": {limit, []string{
			"X-Ratelimit-Used", "600", "X-Ratelimit-Remaining", "0.0", "X-Ratelimit-Reset", "40"}},
		"OpenAI, Rate limits in headers": {limit, []string{
			"x-ratelimit-limit-requests", "60", "x-ratelimit-limit-tokens", "150000",
			"x-ratelimit-remaining-requests", "0", "x-ratelimit-remaining-tokens", "149984",
			"x-ratelimit-reset-requests", "40s", "x-ratelimit-reset-tokens", "6m0s"}},
		"Azure Cosmos DB, request headers": {limit, []string{"x-ms-retry-after-ms", "40000"}},
		"Anthropic, Rate limits": {limit, []string{
			"anthropic-ratelimit-requests-limit", "50", "anthropic-ratelimit-requests-remaining", "0",
			"anthropic-ratelimit-requests-reset", "2026-03-01T12:00:40Z",
			"anthropic-ratelimit-tokens-limit", "50000", "anthropic-ratelimit-tokens-remaining", "49500",
			"anthropic-ratelimit-tokens-reset", "2026-03-01T12:01:00Z"}},
		"Cloudflare, API rate limits, of 2025": {limit, []string{
			"Ratelimit", `"default";r=0;t=40`, "Ratelimit-Policy", `"burst";q=100;w=60`, "Retry-After", "40"}},
		"Cloudflare, API rate limits, the first form": {limit, []string{
			"x-ratelimit-limit", "1200", "x-ratelimit-remaining", "0",
			"x-ratelimit-reset", "Sun, 01 Mar 2026 12:00:40 UTC"}},
		"Atlassian, Jira Cloud, Rate limiting": {limit, []string{
			"Retry-After", "40", "X-RateLimit-Reset", "2026-03-01T13:00Z", "RateLimit-Reason", "jira-quota-global-based"}},
		"Atlassian, the trial of 2026": {limit, []string{
			"Beta-Ratelimit", `"tenant-app-quota";r=0;t=40`, "X-Beta-Ratelimit-Reset", "2026-03-01T13:00Z",
			"X-Ratelimit-Limit", "400", "X-Ratelimit-Remaining", "399"}},
		"Docker Hub, API reference": {limit, []string{
			"RateLimit-Limit", "100;w=21600", "RateLimit-Remaining", "0;w=21600", "X-Retry-After", "1772366440"}},
		"Mastodon, Rate limits": {limit, []string{
			"X-RateLimit-Limit", "300", "X-RateLimit-Remaining", "0",
			"X-RateLimit-Reset", "2026-03-01T12:00:40.000000Z"}},
		"Yelp, Rate Limiting": {limit, []string{
			"RateLimit-DailyLimit", "500", "RateLimit-Remaining", "0",
			"RateLimit-ResetTime", "2026-03-01T12:00:40+00:00"}},
		"Linear, Rate limiting": {limit, []string{
			"X-RateLimit-Requests-Limit", "5000", "X-RateLimit-Requests-Remaining", "0",
			"X-RateLimit-Requests-Reset", "1772366440000", "X-RateLimit-Complexity-Remaining", "1000",
			"X-RateLimit-Complexity-Reset", "1772369999000"}},
		"Bybit, Rate Limit": {limit, []string{
			"X-Bapi-Limit", "100", "X-Bapi-Limit-Status", "0", "X-Bapi-Limit-Reset-Timestamp", "1772366440000"}},
		"Contentful, API rate limits": {limit, []string{
			"X-Contentful-RateLimit-Second-Limit", "10", "X-Contentful-RateLimit-Reset", "40"}},
		"Shopify, REST Admin API rate limits": {limit, []string{
			"X-Shopify-Shop-Api-Call-Limit", "40/40", "Retry-After", "40.0"}},
		"The IETF's draft -03, fields of one policy": {limit, []string{
			"RateLimit-Limit", "100, 100;w=60", "RateLimit-Remaining", "0", "RateLimit-Reset", "40"}},
	} {
		if wait := pause(c.status, fieldsOf(c.fields), noon); wait != 40*time.Second {
			t.Errorf("%s: %v, want 40s", api, wait)
		}
	}
}

// TestPauseOfStatus: a status that is not about limits in itself asks for a pause only if its fields leave no doubt.
func TestPauseOfStatus(t *testing.T) {
	all := []int{http.StatusTooManyRequests, http.StatusForbidden, http.StatusServiceUnavailable}
	for _, c := range []struct {
		by     []int
		fields []string
	}{
		{all, []string{"Retry-After", "40"}},
		{all, []string{"Retry-After", "40", "X-Ratelimit-Remaining", "4999", "X-Ratelimit-Reset", "90"}},
		{all[:2], []string{"X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "40"}},
		{all[:2], []string{"Retry-After", "soon", "Ratelimit-Remaining", "0", "Ratelimit-Reset", "40"}},
		{all[:2], []string{"Ratelimit", `"default";r=0;t=40`}},
		{all[:1], []string{"Ratelimit", `"default";t=40`}},
		{all[:1], []string{"Ratelimit-Reset", "40"}},
		{all[:1], []string{"X-Ratelimit-Reset", "1772366440"}},
		{nil, []string{"Ratelimit-Remaining", "1", "Ratelimit-Reset", "40"}},
	} {
		var by []int
		for status := 200; status < 600; status++ {
			if wait := pause(status, fieldsOf(c.fields), noon); wait == 40*time.Second {
				by = append(by, status)
			} else if wait != 0 {
				t.Errorf("%d %q: %v", status, c.fields, wait)
			}
		}
		slices.Sort(by)
		if want := slices.Sorted(slices.Values(c.by)); !slices.Equal(by, want) {
			t.Errorf("%q: a pause by %v, want %v", c.fields, by, want)
		}
	}
}

// FuzzPause reads fields of any content: what is read is in range.
func FuzzPause(f *testing.F) {
	for _, s := range []string{
		"", "5", "-1", "Fri, 31 Dec 9999 23:59:59 GMT", `"a";r=0;t=2`, `"a\";r=0;t=2`, "reset=3", "\x00",
		"1e309", "9999999999999",
	} {
		f.Add(s, s, int64(1_772_366_400_000_000_001))
	}
	f.Fuzz(func(t *testing.T, first, second string, at int64) {
		for _, h := range []http.Header{
			{"Retry-After": {first}, "Date": {second}},
			{"Ratelimit-Reset": {first}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {second}, "Date": {first}},
			{"Ratelimit": {first, second}, "Ratelimit-Remaining": {second}, "Ratelimit-Reset": {second}},
		} {
			if wait := pause(http.StatusTooManyRequests, h, time.Unix(0, at)); wait < 0 || wait > core.MaxWindow {
				t.Errorf("%q at %d: %v", h, at, wait)
			}
		}
	})
}

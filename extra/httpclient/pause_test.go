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

// fieldsOf returns the header of fields that stand as "Name: value | Name: value".
func fieldsOf(fields string) http.Header {
	h := http.Header{}
	for field := range strings.SplitSeq(fields, " | ") {
		name, value, _ := strings.Cut(field, ": ")
		h.Add(name, value)
	}
	return h
}

// TestPause: what servers write is read, and nothing else.
func TestPause(t *testing.T) {
	const none, s, ms = time.Duration(0), time.Second, time.Millisecond
	at := func(d time.Duration) string { return noon.Add(d).Format(http.TimeFormat) }
	in := func(layout string) string { return noon.Add(90 * s).Format(layout) }
	for want, c := range map[time.Duration]struct{ retryAfter, fields []string }{
		none: {[]string{
			"", "0", "-1", "soon", strings.Repeat("0", 2000) + "1", at(-time.Hour), "1e309", "0x10", "NaN", "Inf",
			"1.2.3", "1772366399", "1704067200", "-6m0s", "9999999999h", "2026-03-01 12:01:30 PST",
			"0 | Ratelimit-Reset: 60",
		}, []string{
			"Date: today", "X-Ratelimit-Reset: 50", "X-Ratelimit-Remaining: 1 | X-Ratelimit-Reset: 50",
			`Ratelimit: "default";r=0`, `Ratelimit: "default";r=5;t=30`, `Ratelimit: "a;r=0;t=9"`,
			"Ratelimit-Remaining: 3 | Ratelimit-Reset: 60", "Ratelimit-Remaining: many | Ratelimit-Reset: 60",
			"X-Ratelimit-Resource: 60 | X-Password-Reset: 60 | Preset-Limit: 60",
			`Ratelimit: "a";r=0;t=30` + strings.Repeat(" ", 10_000),
			"Ratelimit: limit=100, remaining=7, reset=30",
		}},
		20 * ms:   {[]string{"20ms"}, nil},
		250 * ms:  {[]string{"soon | Retry-After-Ms: 250 | Ratelimit-Reset: 60"}, []string{"Retry-After-Ms: 250"}},
		500 * ms:  {[]string{"0.5"}, nil},
		1500 * ms: {nil, []string{"X-Ratelimit-Reset-After-Milliseconds: 1500"}},
		7 * s:     {[]string{"7", " 7\t"}, nil},
		10 * s:    {[]string{"1772366440 | Date: " + at(30*s)}, nil},
		30 * s: {[]string{`soon | Ratelimit: "a";r=0;t=30 | Ratelimit-Reset: 60`}, []string{
			"X-Ratelimit-Remaining: 0 | X-Ratelimit-Reset: 1772366430", "Ratelimit: limit=100, remaining=0, reset=30",
			`Ratelimit: "default";r=0;t=30`, "Ratelimit: default; r=0; t=30", `Ratelimit: "a";r=0;t=30, "b";r=5;t=3600`,
			`Ratelimit: "a,\";r=0;t=9";r=0;t=30`, "Ratelimit: limit=100;w=60, reset=30, remaining=0",
		}},
		40 * s: {
			[]string{"1772366440", "1772366440000", "1772366440000000", "1772366440000000000"},
			[]string{"Retry-After-Ms: 1772366440000", "Ratelimit-Reset: 1772366440", "X-Ratelimit-Reset: 1772366440"},
		},
		40250 * ms: {[]string{"1772366440.25"}, nil},
		50 * s:     {nil, []string{"Ratelimit-Reset: 50", "X-Ratelimit-Remaining: 0 | X-Ratelimit-Reset: 50"}},
		time.Minute: {[]string{"5, soon, 60", "5 | Retry-After: 60"}, []string{
			"Ratelimit-Reset: 60 | X-Ratelimit-Remaining: 0 | X-Ratelimit-Reset: 90",
			"Ratelimit-Remaining: -1 | Ratelimit-Reset: 60",
		}},
		90 * s: {[]string{
			at(90 * s), at(90*s) + " | Date: today", at(time.Hour+90*s) + " | Date: " + at(time.Hour), in(time.RFC850),
			strings.Replace(in(time.RFC850), "UTC", "GMT", 1), in(time.ANSIC), in(time.RFC1123), in(time.RFC1123Z),
			in(time.RFC3339), "2026-03-01T12:01:30+0000", "2026-03-01T12:01:30", "2026-03-01 12:01:30 UTC",
			"2026-03-01 11:01:30 -0100", "2026-03-01 12:01:30",
		}, nil},
		90500 * ms:      {[]string{"2026-03-01T13:01:30.500+01:00"}, nil},
		6 * time.Minute: {[]string{"6m0s"}, nil},
		time.Hour:       {nil, []string{`Ratelimit: "a";r=0;t=30 | Ratelimit: "b";r=0;t=3600`}},
		core.MaxWindow: {[]string{ // with a time of 2100, and the last one
			"99999999999999999999999999", strings.Repeat("9", 1000), "999999999999", "31622401", "2000000h",
			"4102444800", "Fri, 31 Dec 9999 23:59:59 GMT",
		}, nil},
	} {
		for _, value := range c.retryAfter {
			c.fields = append(c.fields, "Retry-After: "+value)
		}
		for _, fields := range c.fields {
			if wait := pause(http.StatusTooManyRequests, fieldsOf(fields), noon); wait != want {
				t.Errorf("%.80q: %v, want %v", fields, wait, want)
			}
		}
	}
}

// TestPauseOfAPIs: what public APIs write about a refusal, by their own pages, is understood: 40 s from noon.
func TestPauseOfAPIs(t *testing.T) {
	for api, fields := range map[string]string{
		"GitLab, Rate limits on GitLab.com": "RateLimit-Limit: 60 | RateLimit-Name: throttle_authenticated_web | " +
			"RateLimit-Observed: 67 | RateLimit-Remaining: 0 | RateLimit-Reset: 1772366440 | " +
			"RateLimit-ResetTime: Sun, 01 Mar 2026 12:00:40 GMT",
		"GitHub, Rate limits for the REST API, primary": "X-RateLimit-Limit: 60 | X-RateLimit-Remaining: 0 | " +
			"X-RateLimit-Used: 60 | X-RateLimit-Reset: 1772366440 | X-RateLimit-Resource: core",
		"GitHub, Rate limits for the REST API, secondary": "Retry-After: 40 | X-RateLimit-Remaining: 4000 | " +
			"X-RateLimit-Reset: 1772369000",
		"X, Rate limits": "x-rate-limit-limit: 900 | x-rate-limit-remaining: 0 | x-rate-limit-reset: 1772366440",
		"Discord, Rate Limits": "X-RateLimit-Limit: 5 | X-RateLimit-Remaining: 0 | " +
			"X-RateLimit-Reset: 1772366440.123 | X-RateLimit-Reset-After: 40 | Retry-After: 40",
		"Reddit, formal ratelimiting headers": "X-Ratelimit-Used: 600 | " +
			"X-Ratelimit-Remaining: 0.0 | X-Ratelimit-Reset: 40",
		"OpenAI, Rate limits in headers": "x-ratelimit-limit-requests: 60 | x-ratelimit-limit-tokens: 150000 | " +
			"x-ratelimit-remaining-requests: 0 | x-ratelimit-remaining-tokens: 149984 | " +
			"x-ratelimit-reset-requests: 40s | x-ratelimit-reset-tokens: 6m0s",
		"Azure Cosmos DB, request headers": "x-ms-retry-after-ms: 40000",
		"Anthropic, Rate limits": "anthropic-ratelimit-requests-limit: 50 | " +
			"anthropic-ratelimit-requests-remaining: 0 | anthropic-ratelimit-requests-reset: 2026-03-01T12:00:40Z | " +
			"anthropic-ratelimit-tokens-limit: 50000 | anthropic-ratelimit-tokens-remaining: 49500 | " +
			"anthropic-ratelimit-tokens-reset: 2026-03-01T12:01:00Z",
		"Cloudflare, API rate limits, of 2025": `Ratelimit: "default";r=0;t=40 | ` +
			`Ratelimit-Policy: "burst";q=100;w=60 | Retry-After: 40`,
		"Cloudflare, API rate limits, the first form": "x-ratelimit-limit: 1200 | x-ratelimit-remaining: 0 | " +
			"x-ratelimit-reset: Sun, 01 Mar 2026 12:00:40 UTC",
		"Atlassian, Jira Cloud, Rate limiting": "Retry-After: 40 | X-RateLimit-Reset: 2026-03-01T13:00Z | " +
			"RateLimit-Reason: jira-quota-global-based",
		"Atlassian, the trial of 2026": `Beta-Ratelimit: "tenant-app-quota";r=0;t=40 | ` +
			"X-Beta-Ratelimit-Reset: 2026-03-01T13:00Z | X-Ratelimit-Limit: 400 | X-Ratelimit-Remaining: 399",
		"Docker Hub, API reference": "RateLimit-Limit: 100;w=21600 | RateLimit-Remaining: 0;w=21600 | " +
			"X-Retry-After: 1772366440",
		"Mastodon, Rate limits": "X-RateLimit-Limit: 300 | X-RateLimit-Remaining: 0 | " +
			"X-RateLimit-Reset: 2026-03-01T12:00:40.000000Z",
		"Yelp, Rate Limiting": "RateLimit-DailyLimit: 500 | RateLimit-Remaining: 0 | " +
			"RateLimit-ResetTime: 2026-03-01T12:00:40+00:00",
		"Linear, Rate limiting": "X-RateLimit-Requests-Limit: 5000 | X-RateLimit-Requests-Remaining: 0 | " +
			"X-RateLimit-Requests-Reset: 1772366440000 | X-RateLimit-Complexity-Remaining: 1000 | " +
			"X-RateLimit-Complexity-Reset: 1772369999000",
		"Bybit, Rate Limit": "X-Bapi-Limit: 100 | X-Bapi-Limit-Status: 0 | " +
			"X-Bapi-Limit-Reset-Timestamp: 1772366440000",
		"Contentful, API rate limits": "X-Contentful-RateLimit-Second-Limit: 10 | " +
			"X-Contentful-RateLimit-Reset: 40",
		"Shopify, REST Admin API rate limits": "X-Shopify-Shop-Api-Call-Limit: 40/40 | Retry-After: 40.0",
		"The IETF's draft -03, fields of one policy": "RateLimit-Limit: 100, 100;w=60 | " +
			"RateLimit-Remaining: 0 | RateLimit-Reset: 40",
	} {
		status := http.StatusTooManyRequests
		if strings.HasPrefix(api, "GitHub") {
			status = http.StatusForbidden
		}
		if wait := pause(status, fieldsOf(fields), noon); wait != 40*time.Second {
			t.Errorf("%s: %v, want 40s", api, wait)
		}
	}
}

// TestPauseOfStatus: a status that is not about limits in itself asks for a pause only if its fields leave no doubt.
func TestPauseOfStatus(t *testing.T) {
	all := []int{http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	for fields, want := range map[string][]int{
		"Retry-After: 40": all,
		"Retry-After: 40 | X-Ratelimit-Remaining: 4999 | X-Ratelimit-Reset: 90": all,
		"X-Ratelimit-Remaining: 0 | X-Ratelimit-Reset: 40":                      all[:2],
		"Retry-After: soon | Ratelimit-Remaining: 0 | Ratelimit-Reset: 40":      all[:2],
		`Ratelimit: "default";r=0;t=40`:                                         all[:2],
		`Ratelimit: "default";t=40`:                                             all[1:2],
		"Ratelimit-Reset: 40":                                                   all[1:2],
		"X-Ratelimit-Reset: 1772366440":                                         all[1:2],
		"Ratelimit-Remaining: 1 | Ratelimit-Reset: 40":                          nil,
	} {
		var by []int
		for status := 200; status < 600; status++ {
			if wait := pause(status, fieldsOf(fields), noon); wait == 40*time.Second {
				by = append(by, status)
			} else if wait != 0 {
				t.Errorf("%d %q: %v", status, fields, wait)
			}
		}
		if !slices.Equal(by, want) {
			t.Errorf("%q: a pause by %v, want %v", fields, by, want)
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
			{"Ratelimit-Reset": {first}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {second}},
			{"Ratelimit-Reset": {second}, "Date": {first}},
			{"Ratelimit": {first, second}, "Ratelimit-Remaining": {second}, "Ratelimit-Reset": {second}},
		} {
			if wait := pause(http.StatusTooManyRequests, h, time.Unix(0, at)); wait < 0 || wait > core.MaxWindow {
				t.Errorf("%q at %d: %v", h, at, wait)
			}
		}
	})
}

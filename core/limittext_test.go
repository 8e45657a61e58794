package core_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// TestParseLimit: a text is the limit that it says, and that limit has the text in its
// shortest form.
func TestParseLimit(t *testing.T) {
	for _, c := range []struct {
		text    string
		want    core.Limit
		written string // text if empty
	}{
		{"100/1m counter", core.PerMinute(100).Using(core.SlidingCounter), ""},
		{"1000000/1h coarse", core.PerHour(1_000_000).Using(core.CoarseLog), ""},
		{"100/60s log named burst", core.PerMinute(100).Named("burst"), "100/1m named burst"},
		{"1/1.0005001ms", core.Per(1, 1001*time.Microsecond), "1/1.001ms"},
		{"010/1m", core.PerMinute(10), "10/1m"},
		{" \t5/1m \n counter\r\n\tnamed  x ", core.PerMinute(5).Using(core.SlidingCounter).Named("x"),
			"5/1m counter named x"},
		{"5/1m counter named x  y", core.PerMinute(5).Using(core.SlidingCounter).Named("x  y"), ""},
		{"5/1m named 1m0s", core.PerMinute(5), "5/1m"}, // the default name
		{"1/8784h", core.Per(1, core.MaxWindow), ""},
		{"10/1h30m counter named per IP", core.Per(10, 90*time.Minute).Using(core.SlidingCounter).Named("per IP"), ""},
		{"5/1m named 1m", core.PerMinute(5).Named("1m"), ""},
	} {
		got, err := core.ParseLimit(c.text)
		if err != nil || got != c.want {
			t.Errorf("ParseLimit(%q): %#v, %v, want %#v", c.text, got, err, c.want)
			continue
		}
		if c.written == "" {
			c.written = c.text
		}
		written, err := got.MarshalText()
		if err != nil || string(written) != c.written {
			t.Errorf("%q is written %q, %v, want %q", c.text, written, err, c.written)
		}
		if got.String() != c.written {
			t.Errorf("%q in print is %q, want %q", c.text, got, c.written)
		}
	}
}

// TestParseLimitErrors: the error says what was given and what is allowed.
func TestParseLimitErrors(t *testing.T) {
	for text, says := range map[string][]string{
		"":                   {`"" has no slash`, `"100/1m"`, `"1000/24h counter named daily"`},
		"10 per 15 minutes":  {`"10" has no slash`},
		"5 / 1m":             {`"5" has no slash`},
		"200/day;50/hour":    {`"day;50/hour" is not a window`},
		"-5/1m":              {`"-5" is not a number of requests`},
		"1e6/1m":             {`"1e6" is not a number of requests`},
		"/1m":                {`"" is not a number of requests`},
		"5/":                 {`"" is not a window`, "15m", "24h"},
		"5/m":                {`"m" is not a window`},
		"5/1":                {`"1" is not a window`},
		"5/1d":               {`"1d" is not a window`},
		"5/+1m":              {`"+1m" is not a window`},
		"5/-1m":              {`"-1m" is not a window`},
		"5/0":                {"a window of 0s"},
		"5/12288h":           {"12288h0m0s", "366 days"},
		"5/99999999999999h":  {`"99999999999999h" is not a window`},
		"5/1m daily counter": {`"daily counter" is neither`},
		"0/1m":               {`the limit "0/1m"`, "allows 0 requests", "at least 1"},
		"5/1m Counter": {`"Counter" is neither an algorithm nor "named" and a name`,
			`then one of [log counter`},
		"5/\xc7":     {"is not a window"}, // in lower case it has another length
		"5/1m named": {`"named" is neither`},
	} {
		l, err := core.ParseLimit(text)
		if err == nil || l != (core.Limit{}) {
			t.Errorf("ParseLimit(%.60q): %v, %v, want an error", text, l, err)
			continue
		}
		got := err.Error()
		if !strings.HasPrefix(got, "sash: the limit ") || strings.Count(got, "sash: ") != 1 || len(got) > 600 {
			t.Errorf("the error %q: want one prefix and at most 600 bytes", got)
		}
		for _, s := range says {
			if !strings.Contains(got, s) {
				t.Errorf("ParseLimit(%.60q): the error %q does not say %q", text, got, s)
			}
		}
	}
}

// TestLimitAsText: JSON has limits as text, and a limiter's limits are written
// without the names that New has filled in.
func TestLimitAsText(t *testing.T) {
	const text = `{"Limits":["10/1s","1000/24h counter named daily",""]}`
	var config struct{ Limits []core.Limit }
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(config); err != nil || string(got) != text {
		t.Errorf("%s and the error %v, want %s", got, err, text)
	}
	l := limiter(t, core.Config{Limits: config.Limits[:2]})
	if got, err := json.Marshal(l.Limits()); err != nil || string(got) != `["10/1s","1000/24h counter named daily"]` {
		t.Errorf("the limiter's limits are %s, %v", got, err)
	}

	limit := core.PerMinute(1)
	if err := limit.UnmarshalText([]byte("five")); err == nil || limit != core.PerMinute(1) {
		t.Errorf("%v, %v, want an error, and the limit as it was", limit, err)
	}
	if text, err := core.PerMinute(-1).MarshalText(); err == nil || text != nil {
		t.Errorf("a limit that is none is written %q", text)
	}
	none := core.PerMinute(-1).Using(9).Named("a\nb").String()
	if want := `-1/1m Algorithm(9) named "a\nb"`; none != want {
		t.Errorf("a limit that is none is printed %s, want %s", none, want)
	}
}

// FuzzParseLimit: what can be read can be written and read again, and New takes it. What
// cannot be read is an error.
func FuzzParseLimit(f *testing.F) {
	for _, text := range []string{
		"5/15m", "100/1m counter", "1000/36h counter named daily", "5/1m named log", "5/1m named a  b",
		"5/1m named 1m0s", "1/1.0000001s", "5/1m Counter", "5/1m named", "5/1m named a\x00", "5/2562047h",
		"1099511627776/1h coarse named big",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := core.ParseLimit(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "sash: the limit ") || len(err.Error()) > 1000 || l != (core.Limit{}) {
				t.Errorf("%v and the error %q", l, err)
			}
			return
		}
		written, err := l.MarshalText()
		if err != nil {
			t.Fatalf("%#v: %v", l, err)
		}
		again, err := core.ParseLimit(string(written))
		if err != nil || again != l {
			t.Errorf("%#v is written %q, which is %#v, %v", l, written, again, err)
		}
		if rewritten, err := again.MarshalText(); err != nil || string(rewritten) != string(written) {
			t.Errorf("%q is written %q, %v", written, rewritten, err)
		}
		store := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes))
		if _, err := core.New(core.Config{Store: store, Limits: []core.Limit{l}}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}

package replay

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
)

// begin is the time of the first request of the logs that tests make.
var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// made returns the text of a log in the combined format.
func made(clients []int, after []time.Duration) string {
	var b strings.Builder
	for i, client := range clients {
		fmt.Fprintf(&b, "192.0.2.%d - - [%s] \"GET /api/data HTTP/1.1\" 200 2 \"-\" \"curl\"\n",
			client, begin.Add(after[i]).Format("02/Jan/2006:15:04:05 -0700"))
	}
	return b.String()
}

// reported returns the report of logs.
func reported(t *testing.T, c Config, logs ...string) *Report {
	t.Helper()
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range logs {
		if err := l.Read(fmt.Sprintf("log %d", i), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := l.Report()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAnswer: the first sentence says what the limits would have done, whatever the order of the files.
func TestAnswer(t *testing.T) {
	var first, second []int
	var times []time.Duration
	for i := range 100 {
		first, second = append(first, 1), append(second, 2+i%50)
		times = append(times, time.Duration(i)*time.Second/2)
	}
	logs := []string{made(second, times), made(first, times)}
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Limits: []core.Limit{core.PerMinute(60)}},
			"60 a minute would have refused 40 of 200 requests, all of one client."},
		{Config{Limits: []core.Limit{core.PerMinute(100)}}, "100 a minute would have refused none of 200 requests."},
		{Config{Limits: []core.Limit{core.Per(1, 15*time.Minute)}},
			"1 in 15 minutes would have refused 149 of 200 requests, of 51 of 51 clients."},
		{Config{Limits: []core.Limit{core.PerMinute(90), core.PerHour(20).Using(core.SlidingCounter)}},
			"90 a minute and 20 an hour (counter) together would have refused 80 of 200 requests, all of one client."},
		{Config{}, "100 a minute would have refused none of 200 requests."},
	} {
		if got := reported(t, c.config, logs...).Answer; got != c.want {
			t.Errorf("%v: %q, want %q", c.config.Limits, got, c.want)
		}
		slices.Reverse(logs)
	}
}

// TestBusiest: the busiest windows are those of a brute force; a log of that size refuses nobody, and one of one less
// refuses exactly the clients whose busiest window is that large.
func TestBusiest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 6 {
		var clients []int
		var after []time.Duration
		for range 150 {
			clients = append(clients, rng.IntN(5))
			after = append(after, time.Duration(rng.IntN(40)*rng.IntN(40))*time.Second)
		}
		windows := []time.Duration{time.Second, 10 * time.Second, 5 * time.Minute}
		r := reported(t, Config{Windows: windows}, made(clients, after))
		for w, window := range r.Windows {
			want := map[string]int{}
			for i, end := range after {
				n := 0
				for k, at := range after {
					if clients[k] == clients[i] && at <= end && at > end-window.length {
						n++
					}
				}
				name := fmt.Sprintf("ip:192.0.2.%d", clients[i])
				want[name] = max(want[name], n)
			}
			for _, c := range r.Heavy {
				if c.Busiest[w] != want[c.Name] {
					t.Fatalf("%s in %s: %d, want %d", c.Name, window.Window, c.Busiest[w], want[c.Name])
				}
			}
			most, largest := window.Max, 0
			for _, n := range want {
				if n == most {
					largest++
				}
			}
			for n, clients := range map[int]int{most: 0, most - 1: largest} {
				if n == 0 {
					continue
				}
				_, got, _, err := r.try(core.Per(int64(n), window.length), r.most[w], 0)
				if err != nil || got != clients {
					t.Fatalf("%d in %s refuses %d clients, want %d: %v", n, window.Window, got, clients, err)
				}
				// Clients that have at most half of a limit need not be decided under any algorithm.
				for _, a := range core.Algorithms() {
					limit := core.Per(int64(n), window.length).Using(a)
					few, _, _, err := r.try(limit, r.most[w], n/2)
					all, _, _, err2 := r.try(limit, r.most[w], 0)
					if few != all || err != nil || err2 != nil {
						t.Fatalf("%v refuses %d requests of some clients, %d of all: %v, %v", limit, few, all, err, err2)
					}
				}
			}
		}
	}
}

// TestQuantiles: of 1,000 clients, of which those at the ranks and behind them send one more than the client before,
// those of the ranks are told, and the smallest limits that refuse none, one and ten.
func TestQuantiles(t *testing.T) {
	var b strings.Builder
	n := 1
	for i := 1; i <= 1000; i++ {
		if slices.Contains([]int{500, 501, 900, 901, 990, 991, 999, 1000}, i) {
			n++
		}
		line := fmt.Sprintf("10.0.%d.%d - - [01/Mar/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 2\n", i>>8, i&255)
		b.WriteString(strings.Repeat(line, n))
	}
	w := reported(t, Config{}, b.String()).Windows[0]
	if got, want := fmt.Sprint(w.Quantiles, w.Max), "map[p50:2 p90:4 p99:6 p99.9:8] 9"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := fmt.Sprint(w.Smallest), "[{0 9 0 0} {0.001 8 1 1} {0.01 6 13 10}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestBatches: what many clients are refused does not depend on the batches in which they are decided.
func TestBatches(t *testing.T) {
	var b strings.Builder
	for i := range 4 * batchClients {
		fmt.Fprintf(&b, "10.%d.%d.%d - - [01/Mar/2026:12:00:%02d +0000] \"GET / HTTP/1.1\" 200 2\n",
			i%3, i/3>>8&255, i/3&255, i%60)
	}
	r := reported(t, Config{Limits: []core.Limit{core.PerHour(1)}}, b.String(), b.String())
	if want := 4 * batchClients; r.Refused != want || r.Clients != want {
		t.Errorf("%d refused of %d clients, want 1 of each of %d", r.Refused, r.Clients, want)
	}
}

// TestFormats: the request of a line is that of the server, in each format.
func TestFormats(t *testing.T) {
	const want = "ip:198.51.100.7 bob POST /login?a=1 example.org 10.1.1.1 2026-03-01T12:00:00.5Z"
	for name, c := range map[string]struct{ format, fields, line string }{
		"text": {format: `$host:$server_port ${remote_addr} [$msec] "$request" $remote_user "$http_x_forwarded_for" ` +
			`$request_time`,
			line: `example.org:443 198.51.100.7 [1772366401.000] "POST /login?a=1 HTTP/1.1" bob "10.1.1.1" 0.5`},
		"escapes": {format: `$remote_addr "$remote_user" "$request" $time_iso8601 $host "$http_x_forwarded_for"`,
			line: `198.51.100.7 "b\x6fb" "POST /login?a=1 HTTP/1.1" 2026-03-01T13:00:00.5+01:00 example.org "10.1.1.1"`},
		"Caddy": {line: `{"ts":1772366401,"duration":0.5,"user_id":"bob","request":{"remote_ip":"198.51.100.7",` +
			`"remote_port":"4","method":"POST","host":"example.org","uri":"/login?a=1",` +
			`"headers":{"X-Forwarded-For":["10.1.1.1"]}},"status":200}`},
		"Traefik": {line: `{"ClientHost":"198.51.100.7","ClientUsername":"bob","RequestMethod":"POST",` +
			`"RequestHost":"example.org","RequestPath":"/login?a=1","StartUTC":"2026-03-01T12:00:00.5Z",` +
			`"request_X-Forwarded-For":"10.1.1.1"}`},
		"fields": {fields: "time=at.ms,ip=src.ip,user=user,request=line,host=h,header:x-forwarded-for=xff",
			line: `{"at":{"ms":1772366400500},"src.ip":"198.51.100.7","user":"bob","line":"POST /login?a=1 HTTP/2.0",` +
				`"h":"example.org","xff":"10.1.1.1"}`},
	} {
		var got string
		r := reported(t, Config{Format: c.format, Fields: c.fields, Key: func(r *http.Request) (string, error) {
			key, err := keyfuncs.RemoteIP(r)
			user, _ := User(r.Context())
			got = fmt.Sprint(key, " ", user, " ", r.Method, " ", r.URL, " ", r.Host, " ", r.Header.Get("X-Forwarded-For"))
			return key, err
		}}, c.line+"\n")
		if got += r.First.Format(" 2006-01-02T15:04:05.999Z07:00"); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	const xff = "combined with X-Forwarded-For"
	for line, want := range map[string]string{
		`h1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 2`:                               "common",
		`::1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "a \"b\""`:                "combined",
		`::1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "a" "192.0.2.1"`:          xff,
		`a.org:80 ::1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "a"`:             "combined with the host",
		`::1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "a" 7 "r" "http://b" 3ms`: "combined",
	} {
		l, _ := New(Config{})
		if f := l.recognise([]byte(line)); f == nil || f.name != want {
			t.Errorf("%s is recognised as %+v, want %s", line, f, want)
		}
	}
}

// told returns the forms of the report on a log, one after the other, or the error. No control character is in them.
func told(t *testing.T, c Config, text string) string {
	t.Helper()
	l, err := New(c)
	if err == nil {
		err = l.Read("log", strings.NewReader(text))
	}
	if err != nil {
		return printable(t, err.Error())
	}
	r, err := l.Report()
	if err != nil {
		return printable(t, err.Error())
	}
	var forms bytes.Buffer
	if err := errors.Join(r.WriteText(&forms), r.WriteHTML(&forms), json.NewEncoder(&forms).Encode(r)); err != nil {
		t.Fatal(err)
	}
	return printable(t, forms.String())
}

// printable fails the test if a text has a control character.
func printable(t *testing.T, text string) string {
	t.Helper()
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' && r != '\t' }) {
		t.Errorf("a control character stands in %q", text)
	}
	return text
}

// TestBadInput: what cannot be read is counted and told, and nothing of it is printed raw.
func TestBadInput(t *testing.T) {
	good := made(slices.Repeat([]int{1}, 30), make([]time.Duration, 30))
	zipped := new(bytes.Buffer)
	z := gzip.NewWriter(zipped)
	_, _ = z.Write([]byte(good + made([]int{2}, []time.Duration{-3 * time.Hour})))
	_ = z.Close()
	hostile := "192.0.2.3 - \x1b[31m\xff</script> [01/Mar/2026:12:00:00 +0000] " +
		"\"GET /</script>\x1b[2J HTTP/1.1\" 200 2 \"-\" \"\xff\"\n"
	huge := strings.Repeat("x", 1<<20) + "\n"
	for name, c := range map[string]struct {
		config Config
		text   string
		want   string // of the error, or of the notes
	}{
		"unreadable": {text: good + "garbage \x1b[2J\n" + huge + good, want: `line 31: it has too few`},
		"too long":   {text: good + huge + good, want: "line 31: it has more than 262144 bytes"},
		"long first": {text: huge + good, want: "line 1: it has more than 262144 bytes"},
		"too many": {text: good + strings.Repeat("garbage\n", 4),
			want: `4 of 34 lines cannot be read as combined:` + "\n" + `"log", line 31`},
		"how":        {text: good + strings.Repeat("garbage\n", 4), want: "-format '$remote_addr"},
		"unknown":    {text: "one\ntwo\n", want: "no line is in a format that is known"},
		"empty":      {text: "", want: "there is no request in the log: 0 lines"},
		"no request": {text: `192.0.2.1 - - [01/Mar/2026:12:00:00 +0000] "-" 400 0` + "\n", want: "1 hold no HTTP request"},
		"no address": {text: `h1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 0` + "\n", want: "1 name no client"},
		"no header": {config: Config{Headers: []string{"X-Forwarded-For"}}, text: good,
			want: "combined has no header X-Forwarded-For"},
		"gzip":        {text: zipped.String(), want: "2 clients, from 2026-03-01 09:00:00"},
		"cut":         {text: zipped.String()[:zipped.Len()-6], want: `"log" ends early, in line`},
		"no time":     {config: Config{Format: "$remote_addr"}, want: "the format has no time"},
		"two formats": {config: Config{Format: "$msec", Fields: "time=t"}, want: "give one of both"},
		"field":       {config: Config{Fields: "time=t,color=c"}, want: `"color=c" is not a field`},
		"adjacent":    {config: Config{Format: "$msec$remote_addr"}, want: "nothing stands between $msec"},
		"limit":       {config: Config{Limits: []core.Limit{core.PerMinute(0)}}, want: "at least 1 is needed"},
		"memory":      {config: Config{MaxBytes: 300}, text: good, want: "full: the last 20 requests"},
		"hostile":     {text: strings.Repeat(hostile, 3), want: "hold no HTTP request"},
		"name": {text: `{"t":1772366400,"who":"</script>\u001b[2J\u202e"}` + "\n", want: `:</script>\x1b[2J\u202e"`,
			config: Config{Key: keyfuncs.Header("Who"), Headers: []string{"Who"}, Fields: "time=t,header:who=who"}},
		"private": {config: Config{HashNames: true}, text: good + "203.0.113.9 secret\n", want: `"log", line 31.`},
	} {
		text := told(t, c.config, c.text)
		if !strings.Contains(text, c.want) ||
			c.config.HashNames && (strings.Contains(text, "192.0") || strings.Contains(text, "203.0")) {
			t.Errorf("%s: the report does not say %q, or what it should not: %.2000s", name, c.want, text)
		}
		_, page, ok := strings.Cut(text, "<!")
		if ok && (strings.Count(page, "</script>") != 2 || strings.Contains(page, "://")) {
			t.Errorf("%s: the page has an end of a script that is not its own, or an address of the web: %s", name, page)
		}
	}
}

// TestPage: each number of the page is that of a limit that was tried for all, also where routes have limits.
func TestPage(t *testing.T) {
	var clients []int
	var after []time.Duration
	for i := range 300 {
		clients, after = append(clients, i%(1+i%7)), append(after, time.Duration(i)*time.Second/3)
	}
	config := Config{
		Limits: []core.Limit{core.PerMinute(7)}, Windows: []time.Duration{time.Second, time.Hour},
		Routes: []Route{{"any", func(*http.Request) bool { return true }, []core.Limit{core.PerMinute(1000)}}},
	}
	r := reported(t, config, made(clients, after))
	var html bytes.Buffer
	if err := r.WriteHTML(&html); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(html.String(), `id="data">`)
	text, _, _ := strings.Cut(rest, "</script>")
	var data struct{ Shown []pageWindow }
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatal(err)
	}
	for i, shown := range data.Shown {
		for _, row := range shown.Grid {
			for k, a := range core.Algorithms() {
				limit := core.Per(int64(row[0]), r.Windows[i].length).Using(a)
				requests, clients, _, err := r.try(limit, r.most[i], 0)
				if err != nil || requests != row[1+2*k] || clients != row[2+2*k] {
					t.Fatalf("%v: %d of %d clients, the page says %v: %v", limit, requests, clients, row, err)
				}
			}
		}
		if last := shown.Grid[len(shown.Grid)-1]; last[0] < r.Windows[i].Max || last[1] != 0 {
			t.Errorf("%s: the last limit %v refuses, or is smaller than %d", shown.Window, last, r.Windows[i].Max)
		}
	}
	for _, limit := range []core.Limit{core.PerMinute(1), core.PerHour(2_000_000).Using(core.SlidingCounter)} {
		if err := reported(t, Config{Limits: []core.Limit{limit}}, made(clients, after)).WriteHTML(&html); err != nil {
			t.Errorf("%v: %v", limit, err)
		}
	}
	minute := data.Shown[1]
	if row := minute.Grid[minute.Begin]; row[0] != 7 || row[1] != r.Refused {
		t.Errorf("the slider begins at %v, want the given limit, which refuses %d", row, r.Refused)
	}
}

// FuzzRead: no line breaks the reading or stands in the report raw.
func FuzzRead(f *testing.F) {
	f.Add([]byte(made([]int{1}, []time.Duration{0})), uint8(0))
	f.Add([]byte(`{"ts":1772366401,"request":{"remote_ip":"::1","uri":"/%2f","headers":{"A":{}}}}`), uint8(0))
	f.Add([]byte(`192.0.2.1 "GET \" / HTTP/1.1" \x1b 1772366400`), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, kind uint8) {
		config := Config{}
		if kind%2 == 1 {
			config.Format = `$remote_addr "$request" $remote_user $msec`
		}
		told(t, config, string(text))
	})
}

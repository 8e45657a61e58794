package replay

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
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
	l := core.Must(New(c))
	for i, text := range logs {
		if err := l.Read(fmt.Sprintf("log %d", i), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	return core.Must(l.Report())
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
		{Config{}, "Set 150 a minute: it would have refused nobody, and no client sent more than 100 a minute. " +
			"60 a minute would have refused 40 of 200 requests, all of one client."},
	} {
		if got := reported(t, c.config, logs...).Answer; got != c.want {
			t.Errorf("%v: %q, want %q", c.config.Limits, got, c.want)
		}
		slices.Reverse(logs)
	}
}

// plain returns what limiters on one store refuse, by client, if they decide each request of a log in order.
func plain(t *testing.T, q requests, rules []Route) map[int][]int {
	t.Helper()
	type event struct {
		at     uint64
		client int
	}
	var events []event
	for client, of := range q {
		for _, at := range of {
			events = append(events, event{at, client})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var now time.Time
	store := memstore.New(memstore.WithClock(func() time.Time { return now }))
	limiters := make([]*core.Limiter, len(rules))
	for i, rule := range rules {
		if len(rule.Limits) > 0 {
			limiters[i] = core.Must(core.New(core.Config{Name: fmt.Sprint(i), Store: store, Limits: rule.Limits}))
		}
	}
	refused := map[int][]int{}
	for _, e := range events {
		now = time.UnixMicro(int64(e.at >> 8))
		limit := 0
		for rule, limiter := range limiters {
			if limiter != nil && (rule == 0 || rule == int(e.at&0xff)) {
				if d := limiter.Allow(t.Context(), fmt.Sprint(e.client)); !d.Allowed {
					if refused[e.client] == nil {
						refused[e.client] = make([]int, 5)
					}
					refused[e.client][limit+slices.Index(limiter.Limits(), d.Limit)]++
					break
				}
			}
			limit += len(rules[rule].Limits)
		}
	}
	return refused
}

// TestTrial: each client is refused as often as by limiters that decide all requests in order, one after the other:
// under each algorithm, several limits, and routes.
func TestTrial(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var rules [][]Route
	for _, a := range core.Algorithms() {
		for _, n := range []int64{1, 2, 7, 20} {
			rules = append(rules, []Route{{Limits: []core.Limit{core.Per(n, 90*time.Second).Using(a)}}})
		}
		rules = append(rules, []Route{
			{Limits: []core.Limit{core.PerSecond(1).Using(a), core.PerMinute(8)}}, {},
			{Limits: []core.Limit{core.PerMinute(3), core.PerHour(9).Using(a)}},
		}, []Route{{}, {}, {Limits: []core.Limit{core.PerHour(5).Using(a)}}})
	}
	for round := range 10 {
		q := make(requests, 9)
		for client := range q {
			at := 1_772_366_400_000_000 + rng.Int64N(1e9)
			for range rng.IntN(150) {
				at += rng.Int64N(int64(math.Pow10(3 + rng.IntN(6))))
				q[client] = append(q[client], uint64(at)<<8|uint64(rng.IntN(3)))
			}
		}
		for _, rules := range rules {
			want, got := plain(t, q, rules), map[int][]int{}
			err := newRun(rules, 0).decide(q, nil, func(client int, by []int) {
				got[client] = append(slices.Clone(by), make([]int, 5-len(by))...)
			})
			if err != nil || !maps.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("round %d, %v: %v are refused, want %v; %v", round, rules, got, want, err)
			}
		}
	}
}

// TestBusiest: no window of the real times holds more requests than the busiest one of whole seconds says, and of times
// with fractions it is the same. A log of one less refuses exactly the clients whose busiest window is the largest.
func TestBusiest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 8 {
		whole := round%2 == 0
		var b strings.Builder
		times := make([][]time.Duration, 5)
		for range 150 {
			client, after := rng.IntN(5), time.Duration(rng.IntN(40)*rng.IntN(40)*rng.IntN(1000))*time.Millisecond
			times[client] = append(times[client], after)
			if at := begin.Add(after).UnixMilli(); whole {
				fmt.Fprintf(&b, "192.0.2.%d %d\n", client, at/1000)
			} else {
				fmt.Fprintf(&b, "192.0.2.%d %d.%03d\n", client, at/1000, at%1000)
			}
		}
		windows := []time.Duration{time.Second, 1500 * time.Millisecond, 10 * time.Second, 5 * time.Minute}
		r := reported(t, Config{Windows: windows, Format: "$remote_addr $msec"}, b.String())
		for w, window := range r.Windows {
			largest := 0
			for _, c := range r.Top {
				most := 0
				all := times[c.Name[len(c.Name)-1]-'0']
				for _, end := range all {
					n := 0
					for _, at := range all {
						if at <= end && at > end-window.length {
							n++
						}
					}
					most = max(most, n)
				}
				if c.Peak[w] < most || !whole && c.Peak[w] > most {
					t.Fatalf("%s in %s: %d, want %d", c.Name, window.Window, c.Peak[w], most)
				}
				if c.Peak[w] == window.Max {
					largest++
				}
			}
			for n, clients := range map[int]int{window.Max: 0, window.Max - 1: largest} {
				if n == 0 {
					continue
				}
				_, got, err := r.try(core.Per(int64(n), window.length), w, func(int, int) {})
				if err != nil || got != clients {
					t.Fatalf("%d in %s refuses %d clients, want %d: %v", n, window.Window, got, clients, err)
				}
			}
		}
	}
}

// TestWholeSeconds: ten requests within 0.1 s over a full second are five in each, and no limit of five a second lets
// them pass.
func TestWholeSeconds(t *testing.T) {
	log := made(slices.Repeat([]int{1}, 10), []time.Duration{0, 0, 0, 0, 0, 1e9, 1e9, 1e9, 1e9, 1e9})
	r := reported(t, Config{Limits: []core.Limit{core.PerSecond(5)}}, log)
	if r.Windows[0].Max != 10 || r.Refused != 5 || !strings.Contains(fmt.Sprint(r.Notes), "upper bounds") {
		t.Errorf("busiest second %d, %d refused, want 10 and 5; %s", r.Windows[0].Max, r.Refused, r.Notes)
	}
	for logs, want := range map[[2]string]int{
		{"::1 7.5", "::1 8"}: 2, {"::1 8", "::1 7.5"}: 2, {"::1 7.9", "::1 8.9"}: 1,
	} {
		r := reported(t, Config{Format: "$remote_addr $msec"}, logs[:]...)
		if got := r.Windows[0].Max; got != want {
			t.Errorf("files of %q have a busiest second of %d, want %d", logs, got, want)
		}
	}
}

// TestQuantiles: of 1,000 clients, of which those at the ranks and behind them send one more than the client before,
// those of the ranks are told, the number to set, and half of it.
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
	r := reported(t, Config{}, b.String())
	w := r.Windows[0]
	if got, want := fmt.Sprint(w.Quantiles, w.Max), "map[p50:2 p90:4 p99:6 p99.9:8] 9"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := fmt.Sprint(w.Set, w.Tighter), "15/1s {6/1s  13 10}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if r.Top[0].Refused != 3 || r.Top[1].Refused != 2 || r.Top[2].Refused != 1 {
		t.Errorf("of the heaviest are refused %+v, want 3, 2 and 1", r.Top[:3])
	}
	for busy, want := range map[int]string{
		1: "2, 1", 2: "3, 1", 3: "5, 2", 4: "6, 3", 188: "300, 150", 1_000_000: "1500000, 600000",
	} {
		r := &Report{Clients: 1, q: requests{make([]uint64, busy)}}
		r.measure(time.Second)
		if got := fmt.Sprintf("%d, %d", r.Windows[0].Set.Requests, r.Windows[0].Tighter.Limit.Requests); got != want {
			t.Errorf("where a client sends %d: %s, want %s", busy, got, want)
		}
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
			line: `198.51.100.7 "b\x6fb" "POST /login?a=1 HTTP/1.1" 2026-03-01T13:00:00.5+01:00 example.org ` +
				`"10.1.1.1"`},
		"Caddy": {line: `{"ts":1772366401,"duration":0.5,"user_id":"bob","request":{"remote_ip":"198.51.100.7",` +
			`"remote_port":"4","method":"POST","host":"example.org","uri":"/login?a=1",` +
			`"headers":{"X-Forwarded-For":["10.1.1.1"]}},"status":200}`},
		"Traefik": {line: `{"ClientHost":"198.51.100.7","ClientUsername":"bob","RequestMethod":"POST",` +
			`"RequestHost":"example.org","RequestPath":"/login?a=1","StartUTC":"2026-03-01T12:00:00.5Z",` +
			`"request_X-Forwarded-For":"10.1.1.1"}`},
		"old Caddy": {line: `{"level":"info","ts":1772366401.5,"msg":"serving"}` + "\n" +
			`{"level":"error","ts":"2026/03/01 12:00:01.000","logger":"http.log.error","msg":"EOF","request":{` +
			`"remote_addr":"192.0.2.1:4","method":"GET","uri":"/"}}` + "\n" +
			`{"ts":"2026/03/01 12:00:01.000","logger":"http.log.access","msg":"handled request","request":{` +
			`"remote_addr":"198.51.100.7:4","method":"POST","host":"example.org","uri":"/login?a=1",` +
			`"headers":{"X-Forwarded-For":["10.1.1.1"]}},"duration":"500ms","user_id":"bob"}`},
		"Traefik of few fields": {line: `{"level":"info","msg":"starting","time":"2026-03-01T12:00:00Z"}` + "\n" +
			`{"ClientAddr":"198.51.100.7:4","ClientUsername":"bob","RequestMethod":"POST",` +
			`"RequestHost":"example.org","RequestPath":"/login?a=1","time":"2026-03-01T12:00:00.5Z",` +
			`"request_X-Forwarded-For":"10.1.1.1"}`},
		"two fields": {format: `$date $time $remote_addr $remote_user $request_method $uri $host $http_x_forwarded_for`,
			line: "2026-03-01 12:00:00.5 198.51.100.7 bob POST /login?a=1 example.org 10.1.1.1"},
		"IIS": {line: "#Software: Microsoft Internet Information Services 10.0\n#Fields: date time s-ip cs-method\n" +
			"#Fields: date time cs-method cs-uri-stem cs-username c-ip cs(X-Forwarded-For) cs-host time-taken\n" +
			"2026-03-01 12:00:01 POST /login?a=1 bob 198.51.100.7 10.1.1.1 example.org 500"},
		"CloudFront": {line: "#Version: 1.0\n#Fields: date time c-ip cs-method cs(Host) cs-uri-stem x-forwarded-for " +
			"cs-username x-host-header time-taken\n" + strings.ReplaceAll("2026-03-01 12:00:01 198.51.100.7 POST - "+
			"/login?a=1 10.1.1.1 bob example.org 0.500", " ", "\t")},
		"fields": {fields: "time=at.ms,ip=src.ip,user=user,request=line,host=h,header:x-forwarded-for=xff",
			line: `{"at":{"ms":1772366400500},"src.ip":"198.51.100.7","user":"bob","line":"POST /login?a=1 HTTP/2.0",` +
				`"h":"example.org","xff":"10.1.1.1"}`},
		"byte order mark": {format: `$remote_addr $remote_user [$msec] "$request" $host $http_x_forwarded_for`,
			line: "\ufeff" + `198.51.100.7 bob [1772366400.5] "POST /login?a=1 HTTP/1.1" example.org 10.1.1.1`},
	} {
		var got string
		r := reported(t, Config{Format: c.format, Fields: c.fields, Key: func(r *http.Request) (string, error) {
			key, err := keyfuncs.RemoteIP(r)
			user, _ := User(r.Context())
			got = fmt.Sprint(key, " ", user, " ", r.Method, " ", r.URL, " ", r.Host, " ")
			got += r.Header.Get("X-Forwarded-For")
			return key, err
		}}, c.line+"\n")
		if got += r.First.Format(" 2006-01-02T15:04:05.999Z07:00"); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	const xff = "combined with X-Forwarded-For"
	const get = ` - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 2`
	const by = `80 [01/Mar/2026:12:00:00.123] in be/s 1/0`
	for line, want := range map[string]string{
		`h1` + get: "common", `::1` + get + ` "-" "a \"b\""`: "combined", `::1` + get + ` "-" "a" "192.0.2.1"`: xff,
		`a.org:80 ::1` + get + ` "-" "a"`:                    "combined with the host",
		`::1` + get + ` "-" "a" 7 "r" "http://b" 3ms`:        "combined",
		`192.0.2.1:` + by + ` 200 5 {a} {} "GET / HTTP/1.1"`: "HAProxy's",
		`Mar 1 haproxy[1]: ::1:` + by + ` "GET / HTTP/1.1"`:  "HAProxy's by syslog",
	} {
		l, _ := New(Config{})
		if f := l.detect([]byte(line)); f == nil || f.name != want {
			t.Errorf("%s is recognised as %+v, want %s", line, f, want)
		}
	}
	for address, want := range map[string]string{ // before a colon and a port
		"192.0.2.1": "ip:192.0.2.1", "2001:db8::1": "ip:2001:db8::/64", "[2001:db8::1]": "ip:2001:db8::/64",
		"crawl-1.example.org": "host:crawl-1.example.org",
	} {
		r := reported(t, Config{Format: `$remote_addr:$port [$msec]`}, address+":8080 [1772366400.5]")
		if got := r.Top[0].Name; got != want {
			t.Errorf("%s is counted as %s, want %s", address, got, want)
		}
	}
}

// TestManyValues: the time and memory for a header are in proportion to the number of its values.
func TestManyValues(t *testing.T) {
	line := `{"t":1,"h":["` + strings.Repeat(`v","`, 20_000) + `v"]}`
	f := core.Must(newFormat("fields", "time=t,header:h=h", true))
	var before, after runtime.MemStats
	var v values
	runtime.ReadMemStats(&before)
	err := f.read([]byte(line), &v)
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; err != nil || len(v[fieldHeaders]) != 60_001 || bytes > 50e6 {
		t.Errorf("%d bytes were allocated for %d: %v", bytes, len(v[fieldHeaders]), err)
	}
}

// told returns the forms of the report on a log, one after the other, or the error. No control character is in them.
func result(t *testing.T, c Config, text string) string {
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
		"how":     {text: good + strings.Repeat("garbage\n", 4), want: "-format '$remote_addr"},
		"unknown": {text: "one\ntwo\n", want: "no line is in a format that is known"},
		"all left out": {config: Config{Skip: func(*http.Request) bool { return true }}, text: good,
			want: "30 left out by the choice of requests"},
		"empty": {text: "", want: "there is no request in the log: 0 lines"},
		"no request": {text: `192.0.2.1 - - [01/Mar/2026:12:00:00 +0000] "-" 400 0` + "\n",
			want: "1 without an HTTP request"},
		"no address": {text: `unix: - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 0` + "\n",
			want: `1 without a name for the client ("sash: no key: the peer \"unix:\" has no IP address")`},
		"zstd":  {text: "\x28\xb5\x2f\xfd\x00" + good, want: "decompress it, as by zstd -dc"},
		"bzip2": {text: "BZh91AY" + good, want: "decompress it, as by bzip2 -dc"},
		"xz":    {text: "\xfd7zXZ\x00" + good, want: "decompress it, as by xz -dc"},
		"messages": {text: strings.Repeat(`{"level":"info","ts":1772366400,"msg":"x"}`+"\n", 20) +
			`{"ts":1772366400,"msg":"handled request","request":{"remote_ip":"::1","method":"GET","uri":"/"}}` + "\n",
			want: "Of 21 lines: 20 without an HTTP request"},
		"messages alone": {text: `{"level":"info","ts":1772366400,"msg":"x"}` + "\n",
			want: "no line is in a format that is known"},
		"wrong fields": {config: Config{Fields: "time=t,ip=a"}, text: `{"t":1772366400,"addr":"::1"}` + "\n",
			want: "1 of 1 line cannot be read as the format"},
		"W3C without a time": {text: "#Fields: c-ip cs-method\n::1 GET\n", want: "W3C's has no time"},
		"W3C, too few":       {text: "#Fields: date time c-ip\n2026-03-01\n", want: "it has too few fields"},
		"no header": {config: Config{Headers: []string{"X-Forwarded-For"}}, text: good,
			want: "combined has no header X-Forwarded-For"},
		"gzip":        {text: zipped.String(), want: "2 clients, from 2026-03-01 09:00:00"},
		"cut":         {text: zipped.String()[:zipped.Len()-6], want: `"log" ends early, in line`},
		"no time":     {config: Config{Format: "$remote_addr"}, want: "the format has no time"},
		"two formats": {config: Config{Format: "$msec", Fields: "time=t"}, want: "give one of both"},
		"field":       {config: Config{Fields: "time=t,color=c"}, want: `"color=c" is not a field`},
		"adjacent":    {config: Config{Format: "$msec$remote_addr"}, want: "nothing stands between $msec"},
		"limit":       {config: Config{Limits: []core.Limit{core.PerMinute(0)}}, want: "at least 1 is needed"},
		"memory":      {config: Config{MaxBytes: 300}, text: good, want: "full: the last 21 requests"},
		"hostile":     {text: strings.Repeat(hostile, 3), want: "without an HTTP request"},
		"name": {text: `{"t":1772366400,"who":"</script>\u001b[2J\u202e"}` + "\n", want: `:</script>\x1b[2J\u202e"`,
			config: Config{Key: keyfuncs.Header("Who"), Headers: []string{"Who"}, Fields: "time=t,header:who=who"}},
		"private": {config: Config{HashNames: true}, text: good + "203.0.113.9 secret\n", want: `"log", line 31.`},
	} {
		text := result(t, c.config, c.text)
		if !strings.Contains(text, c.want) ||
			c.config.HashNames && (strings.Contains(text, "192.0") || strings.Contains(text, "203.0")) {
			t.Errorf("%s: the report does not say %q, or what it should not: %.2000s", name, c.want, text)
		}
		_, page, ok := strings.Cut(text, "<!")
		if ok && (strings.Count(page, "</script>") != 2 || strings.Contains(page, "://")) {
			t.Errorf("%s: the page ends another's script, or has an address of the web: %s", name, page)
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
	var data struct{ Visible []pageWindow }
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatal(err)
	}
	for i, result := range data.Visible {
		for k, row := range result.Rows {
			for n, a := range core.Algorithms() {
				limit := core.Per(int64(row[0]), extendWindow(r.Windows[i].length, time.Second)).Using(a)
				requests, heavy := 0, make([]int, len(r.Top))
				refused := plain(t, r.q, []Route{{Limits: []core.Limit{limit}}})
				for c, client := range r.Top {
					if by := refused[client.id]; by != nil {
						heavy[c] = by[0]
					}
				}
				for _, by := range refused {
					requests += by[0]
				}
				if requests != row[1+2*n] || len(refused) != row[2+2*n] ||
					n == 0 && !slices.Equal(heavy, result.Top[k]) {
					t.Fatalf("%v: %d of %d clients, of the heaviest %v; the page says %v, and %v",
						limit, requests, len(refused), heavy, row, result.Top[k])
				}
			}
		}
		first, last := result.Rows[0], result.Rows[len(result.Rows)-1]
		if first[0] != 1 || last[0] < r.Windows[i].Max || last[1] != 0 {
			t.Errorf("%s: the limits go from %v to %v; Max is %d", result.Window, first, last, r.Windows[i].Max)
		}
	}
	for _, limit := range []core.Limit{core.PerMinute(1), core.PerHour(2_000_000).Using(core.SlidingCounter)} {
		if err := reported(t, Config{Limits: []core.Limit{limit}}, made(clients, after)).WriteHTML(&html); err != nil {
			t.Errorf("%v: %v", limit, err)
		}
	}
	minute := data.Visible[1]
	if row := minute.Rows[minute.Begin]; row[0] != 7 || row[1] != r.Refused {
		t.Errorf("the slider begins at %v, want the given limit, which refuses %d", row, r.Refused)
	}
	second := data.Visible[0]
	if row := second.Rows[second.Begin]; row[0] != int(r.Windows[0].Set.Requests) {
		t.Errorf("the slider begins at %v, want %v", row, r.Windows[0].Set)
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
		result(t, config, string(text))
	})
}

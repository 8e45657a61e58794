package sashadmin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/sashadmin"
)

// refusalsJSON is what client.json says of refusals.
type refusalsJSON struct {
	Refusals *struct {
		Since   time.Time
		Minutes []struct {
			Limiter, Rule, Limit string
			Refused              int
			First, Last          time.Time
			Retry                *float64 `json:"retry_after_seconds"`
			Shadow               bool
		}
	}
}

// described describes the refusals of a client, by minutes from began on.
func described(t *testing.T, admin *sashadmin.Handler, key string, start time.Time) (text string) {
	t.Helper()
	w := httptest.NewRecorder()
	admin.ServeHTTP(w, httptest.NewRequest("GET", "/client.json?key="+key, nil))
	var got refusalsJSON
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Refusals == nil {
		return "none are remembered"
	}
	text = fmt.Sprint("since ", got.Refusals.Since.Sub(start))
	for _, m := range got.Refusals.Minutes {
		text += fmt.Sprintf("; %v to %v: %s/%s %s, %d",
			m.First.Sub(start), m.Last.Sub(start), m.Limiter, m.Rule, m.Limit, m.Refused)
		if m.Retry == nil {
			text += " never"
		}
		if m.Shadow {
			text += " shadow"
		}
	}
	return text
}

// TestRefusals: a client's refusals of the last hour are there by the minute, for each rule, and no others. In a flood
// of clients the oldest go, and the answer says since when all are there.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusals := new(sashadmin.Refusals)
		api := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Observer: refusals}))
		login := core.Must(api.Rule("login", core.Per(1, 15*time.Minute)))
		search := core.Must(api.Rule("search", core.PerDay(1)))
		admin := core.Must(sashadmin.New(sashadmin.Config{
			Limiters: []*core.Limiter{api, login, search}, Refusals: refusals,
		}))
		ctx, start := context.Background(), time.Now()
		want := func(key, want string) {
			t.Helper()
			if got := described(t, admin, key, start); got != want {
				t.Errorf("%v, %s:\n got %s\nwant %s", time.Since(start), key, got, want)
			}
		}
		want("ada", "since 0s")
		login.Allow(ctx, "ada")
		login.Allow(ctx, "ada")
		login.Peek(ctx, "ada")
		time.Sleep(30 * time.Second)
		login.Allow(ctx, "ada")
		search.Decide(ctx, core.Request{Key: "ada", Cost: 2, Shadow: true})
		login.Allow(ctx, "bob")
		time.Sleep(30 * time.Second)
		login.Allow(ctx, "ada")
		api.Allow(ctx, "ada") // an error, and no refusal
		const first = "; 0s to 30s: api/login 1/15m, 2"
		const others = "; 30s to 30s: api/search 1/24h, 1 never shadow; 1m0s to 1m0s: api/login 1/15m, 1"
		want("ada", "since 0s"+first+others)
		want("bob", "since 0s")
		time.Sleep(59*time.Minute - 1)
		want("ada", "since 0s"+first+others)
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequest("GET", "/client?key=ada", nil))
		for _, text := range []string{"Refused in the last hour", "since 2000-01-01 00:00:00 UTC",
			"<td>api, rule login</td><td>1/15m</td>\n<td class=\"n\">2</td><td>14m30s</td>",
			`<td class="n">1 in shadow</td><td>never</td>`} {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("the page lacks %q:\n%s", text, w.Body)
			}
		}
		w = httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if !strings.Contains(w.Body.String(), "<td>api</td><td>none: for rules alone</td>") {
			t.Errorf("the page of the rules lacks a limiter without limits:\n%s", w.Body)
		}
		late := core.Must(sashadmin.New(sashadmin.Config{Limiters: []*core.Limiter{login}, Refusals: refusals}))
		if got := described(t, late, "ada", start); got != "since 0s"+first+others {
			t.Errorf("a handler that is made after the refusals says %s", got)
		}
		time.Sleep(11 * time.Second) // a row is whole: the answer begins behind one whose start is too old
		want("ada", "since 30s; 30s to 30s: api/search 1/24h, 1 never shadow; 1m0s to 1m0s: api/login 1/15m, 1")
		time.Sleep(20 * time.Second)
		want("ada", "since 30.999999999s; 1m0s to 1m0s: api/login 1/15m, 1")

		login.Allow(ctx, "ada")
		for i := range 9_997 { // with the three rows before, as many as are kept
			search.AllowN(ctx, fmt.Sprint(i), 2)
		}
		login.Allow(ctx, "ada")
		const latest = "; 1h0m30.999999999s to 1h0m30.999999999s: api/login 1/15m, 1"
		want("ada", "since 30.999999999s; 1m0s to 1m0s: api/login 1/15m, 1"+latest)
		search.AllowN(ctx, "x", 2)
		search.AllowN(ctx, "y", 2)
		want("ada", "since 1m0s"+latest)
	})
}

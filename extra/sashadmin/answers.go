package sashadmin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/report"
	"github.com/sashlimit/sash/keyfuncs"
)

// rulesAnswer is the answer of rules.
type rulesAnswer struct {
	Rules []rule `json:"rules"`
}

// rule is a limiter.
type rule struct {
	Limiter string         `json:"limiter"`
	Rule    string         `json:"rule"` // empty for the limiter itself
	Policy  string         `json:"policy"`
	Limits  []report.Limit `json:"limits"`
	Failed  *failures      `json:"failures,omitempty"`
}

// failures are those of the store of a limiter, as this process has seen them.
type failures struct {
	Failing bool      `json:"failing"` // within the last minute
	Decided uint64    `json:"decided_by_policy"`
	Since   time.Time `json:"since"` // in the latest run of failures
	Latest  time.Time `json:"latest"`
	Error   string    `json:"error"`
	Remedy  string    `json:"remedy"`
}

// failuresOf returns the failures of a limiter's store, or nil if there was none.
func failuresOf(l *core.Limiter) *failures {
	f := l.Failures()
	if f.Err == nil {
		return nil
	}
	return &failures{f.Failing(), f.Decided, second(f.Since), second(f.Latest), f.Err.Error(), core.RemedyOf(f.Err)}
}

// second returns the second of a time, for people.
func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// rules answers with the limits of all limiters.
func (h *Handler) rules(*http.Request, url.Values) (answer, error) {
	var all []rule
	for _, l := range h.config.Limiters {
		r := rule{Limiter: l.Name(), Rule: l.RuleName(), Policy: fmt.Sprint(l.Policy()), Failed: failuresOf(l)}
		for _, limit := range l.Limits() {
			r.Limits = append(r.Limits, report.OfLimit(limit))
		}
		all = append(all, r)
	}
	return answer{status: http.StatusOK, page: "rules", data: rulesAnswer{all}}, nil
}

// clientAnswer is the answer of client.
type clientAnswer struct {
	Client string  `json:"client"`
	Rules  []usage `json:"rules"`
}

// usage is what a client has used of a rule. With an error the numbers may be missing, or
// come from a fallback.
type usage struct {
	report.Usage
	Policy string    `json:"policy"`
	Error  string    `json:"error,omitempty"`
	Failed *failures `json:"failures,omitempty"`
}

// client answers with what a client has used of all rules.
func (h *Handler) client(r *http.Request, query url.Values) (answer, error) {
	key, err := clientKey(query)
	if err != nil {
		return answer{}, err
	}
	told := clientAnswer{Client: key}
	status := http.StatusOK
	for _, l := range h.config.Limiters {
		uses, err := l.Usage(r.Context(), key)
		u := usage{Usage: report.OfUses(l, uses), Policy: fmt.Sprint(l.Policy()), Failed: failuresOf(l)}
		if err != nil {
			u.Error, status = err.Error(), http.StatusServiceUnavailable
		}
		told.Rules = append(told.Rules, u)
	}
	return answer{status: status, page: "client", data: told}, nil
}

// apiKey answers about the client of an API key, which comes in the body: a secret does not
// belong into a URL.
func (h *Handler) apiKey(r *http.Request, _ url.Values) (answer, error) {
	r.Body = http.MaxBytesReader(nil, r.Body, maxQuery)
	secret := strings.Trim(r.PostFormValue("api_key"), " \t\r\n")
	if secret == "" {
		return answer{}, wrongQuery("no API key is given: send it in the body, as api_key")
	}
	query := url.Values{"key": {keyfuncs.APIKeyString(secret)}}
	a, err := h.client(r, query)
	a.next = "client?" + query.Encode()
	return a, err
}

// heaviestAnswer is the answer of heaviest.
type heaviestAnswer struct {
	Rankings []ranking `json:"rankings"`
}

// ranking is a heaviest.Ranking.
type ranking struct {
	Limiter  string    `json:"limiter"`
	Rule     string    `json:"rule"`
	Outcome  string    `json:"outcome"` // refused or admitted
	Since    time.Time `json:"since"`
	Requests uint64    `json:"requests"`
	Unlisted uint64    `json:"unlisted"`
	Clients  []heavy   `json:"clients"`
}

// heavy is a client of a ranking.
type heavy struct {
	Key     string `json:"key"`
	Cut     bool   `json:"cut,omitempty"`
	AtLeast uint64 `json:"at_least"`
	AtMost  uint64 `json:"at_most"`
}

// heaviest answers with the heaviest clients of all rules.
func (h *Handler) heaviest(*http.Request, url.Values) (answer, error) {
	told := heaviestAnswer{Rankings: []ranking{}}
	for _, r := range h.config.Heaviest.Rankings() {
		shown := ranking{
			Limiter: r.Limiter, Rule: r.Rule, Outcome: r.Outcome.String(), Since: second(r.Since),
			Requests: r.Requests, Unlisted: r.Unlisted,
		}
		for _, c := range r.Clients {
			shown.Clients = append(shown.Clients, heavy{c.Key, c.Cut, c.AtLeast, c.Requests})
		}
		told.Rankings = append(told.Rankings, shown)
	}
	return answer{status: http.StatusOK, page: "heaviest", data: told}, nil
}

// storesAnswer is the answer of stores.
type storesAnswer struct {
	Stores []state `json:"stores"`
}

// state is that of a store.
type state struct {
	Name  string          `json:"name"`
	State json.RawMessage `json:"state"`
}

// row is a number, a time or a word of a state, and what it is called.
type row struct{ Name, Value string }

// Rows returns the rows of a table of the state.
func (s state) Rows() ([]row, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(s.State))
	d.UseNumber()
	err := d.Decode(&v)
	return rowsOf("", v), err
}

// rowsOf returns the rows for a value of JSON.
func rowsOf(name string, v any) (rows []row) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			rows = append(rows, rowsOf(strings.TrimSpace(name+" "+key), v[key])...)
		}
		return rows
	case []any:
		for i, element := range v {
			rows = append(rows, rowsOf(fmt.Sprint(name, " ", i+1), element)...)
		}
		return rows
	}
	text := fmt.Sprint(v)
	switch t, err := time.Parse(time.RFC3339, text); {
	case v == nil, err == nil && t.IsZero():
		text = "-"
	case err == nil:
		text = t.UTC().Format(timeFormat)
	}
	return []row{{name, text}}
}

// states answers with the state of all stores.
func (h *Handler) states(*http.Request, url.Values) (answer, error) {
	var told storesAnswer
	for _, name := range h.stores {
		text, err := json.Marshal(h.config.Stores[name]())
		if err != nil {
			return answer{}, fmt.Errorf("the state of the store %q cannot be shown: %w", name, err)
		}
		told.Stores = append(told.Stores, state{name, text})
	}
	return answer{status: http.StatusOK, page: "stores", data: told}, nil
}

// resetAnswer is the answer of reset.
type resetAnswer struct {
	Client string  `json:"client"`
	Rules  []reset `json:"rules"`
}

// reset is that of a client in a rule.
type reset struct {
	Limiter string `json:"limiter"`
	Rule    string `json:"rule"`
	Error   string `json:"error,omitempty"` // some counts may remain
}

// reset forgets what is counted for a client, in one rule or in all.
func (h *Handler) reset(r *http.Request, query url.Values) (answer, error) {
	key, err := clientKey(query)
	if err != nil {
		return answer{}, err
	}
	limiters, err := h.named(query)
	if err != nil {
		return answer{}, err
	}
	told := resetAnswer{Client: key}
	status, next := http.StatusOK, "client?key="+url.QueryEscape(key)
	for _, l := range limiters {
		done := reset{Limiter: l.Name(), Rule: l.RuleName()}
		if err := l.Reset(r.Context(), key); err != nil {
			done.Error, status, next = err.Error(), http.StatusServiceUnavailable, ""
		}
		told.Rules = append(told.Rules, done)
	}
	return answer{status: status, page: "reset", data: told, next: next}, nil
}

// named returns the limiters that a query names: one, or all.
func (h *Handler) named(query url.Values) ([]*core.Limiter, error) {
	one := query.Has("limiter") || query.Has("rule")
	if all := query.Get("all"); all != "" {
		if one || all != "1" {
			return nil, wrongQuery("give either all=1 or limiter and rule")
		}
		return h.config.Limiters, nil
	}
	for _, l := range h.config.Limiters {
		if one && l.Name() == query.Get("limiter") && l.RuleName() == query.Get("rule") {
			return []*core.Limiter{l}, nil
		}
	}
	if one {
		return nil, wrongQuery("there is no limiter %.64q with the rule %.64q", query.Get("limiter"), query.Get("rule"))
	}
	return nil, wrongQuery("say what to reset: all=1, or limiter and rule")
}

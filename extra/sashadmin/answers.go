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

	"github.com/sashlimit/sash/internal/report"
)

// rule is a limiter.
type rule struct {
	Limiter string         `json:"limiter"`
	Rule    string         `json:"rule"` // empty for the limiter itself
	Policy  string         `json:"policy"`
	Limits  []report.Limit `json:"limits"`
	Failed  *failures      `json:"failures,omitempty"`
}

// clientAnswer is an answer about a client, or about the rules if Client is empty.
type clientAnswer[R any] struct {
	Client   string          `json:"client,omitempty"`
	Rules    []R             `json:"rules"`
	Refusals *refusalHistory `json:"refusals,omitempty"`
}

// rules answers with the limits of all limiters.
func (h *Handler) rules(*http.Request, url.Values) answer {
	var result clientAnswer[rule]
	for _, l := range h.config.Limiters {
		failed := h.config.Failures.forLimiter(l)
		r := rule{Limiter: l.Name(), Rule: l.RuleName(), Policy: fmt.Sprint(l.Policy()), Failed: failed}
		for _, limit := range l.Limits() {
			r.Limits = append(r.Limits, report.NewLimit(limit))
		}
		result.Rules = append(result.Rules, r)
	}
	return answer{status: http.StatusOK, page: "rules", data: result}
}

// usage holds the units that a client has used of a rule. With an error the numbers may be missing, or
// come from a fallback.
type usage struct {
	report.Usage
	Policy string    `json:"policy"`
	Error  string    `json:"error,omitempty"`
	Failed *failures `json:"failures,omitempty"`
}

// client answers with a client's usage under all rules.
func (h *Handler) client(r *http.Request, query url.Values) answer {
	key, err := report.ClientKey(query)
	if err != nil {
		return errorAnswer(http.StatusBadRequest, err.Error())
	}
	result := clientAnswer[usage]{Client: key, Refusals: h.config.Refusals.forClient(key, h.start)}
	status := http.StatusOK
	for _, l := range h.config.Limiters {
		uses, err := l.Usage(r.Context(), key)
		u := usage{Usage: report.NewUsage(l, uses), Policy: fmt.Sprint(l.Policy())}
		u.Failed = h.config.Failures.forLimiter(l)
		if err != nil {
			u.Error, status = err.Error(), http.StatusServiceUnavailable
		}
		result.Rules = append(result.Rules, u)
	}
	return answer{status: status, page: "client", data: result}
}

// apiKey answers about the client of an API key in the body, since a secret must not be in a URL.
func (h *Handler) apiKey(r *http.Request, _ url.Values) answer {
	r.Body = http.MaxBytesReader(nil, r.Body, maxQuery)
	key, err := report.APIKey(r.PostFormValue("api_key"))
	if err != nil {
		return errorAnswer(http.StatusBadRequest, "in api_key of the body, "+err.Error())
	}
	query := url.Values{"key": {key}}
	a := h.client(r, query)
	a.next = "client?" + query.Encode()
	return a
}

// heaviest answers with the heaviest clients of all rules.
func (h *Handler) heaviest(*http.Request, url.Values) answer {
	rankings := h.config.Heaviest.Rankings()
	return answer{status: http.StatusOK, page: "heaviest", data: map[string]any{"rankings": rankings}}
}

// state is the state of a store.
type state struct {
	Name  string          `json:"name"`
	State json.RawMessage `json:"state"`
}

// row is a named number, time or word of a state.
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
func (h *Handler) states(*http.Request, url.Values) answer {
	var all []state
	for _, name := range h.stores {
		text, err := json.Marshal(h.config.Stores[name]())
		if err != nil {
			text := fmt.Sprintf("the state of the store %q cannot be shown: %v", name, err)
			return errorAnswer(http.StatusInternalServerError, text)
		}
		all = append(all, state{name, text})
	}
	return answer{status: http.StatusOK, page: "stores", data: map[string]any{"stores": all}}
}

// reset is the result of a client's reset under a rule.
type reset struct {
	Limiter string `json:"limiter"`
	Rule    string `json:"rule"`
	Error   string `json:"error,omitempty"` // some counts may remain
}

// reset resets a client under one rule or all.
func (h *Handler) reset(r *http.Request, query url.Values) answer {
	key, err := report.ClientKey(query)
	if err != nil {
		return errorAnswer(http.StatusBadRequest, err.Error())
	}
	limiter, rule, all := query.Get("limiter"), query.Get("rule"), query.Get("all") == "1"
	if all == (query.Has("limiter") || query.Has("rule")) {
		return errorAnswer(http.StatusBadRequest, "say what to reset: either all=1 or limiter and rule")
	}
	result := clientAnswer[reset]{Client: key}
	a := answer{status: http.StatusOK, page: "reset", next: "client?key=" + url.QueryEscape(key)}
	for _, l := range h.config.Limiters {
		if !all && (l.Name() != limiter || l.RuleName() != rule) {
			continue
		}
		done := reset{Limiter: l.Name(), Rule: l.RuleName()}
		if err := l.Reset(r.Context(), key); err != nil {
			done.Error, a.status, a.next = err.Error(), http.StatusServiceUnavailable, ""
		}
		result.Rules = append(result.Rules, done)
	}
	if result.Rules == nil {
		text := fmt.Sprintf("there is no limiter %.64q with the rule %.64q", limiter, rule)
		return errorAnswer(http.StatusBadRequest, text)
	}
	a.data = result
	return a
}
